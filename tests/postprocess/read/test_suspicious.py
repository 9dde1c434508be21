"""Signs stand beside the official flags, and never change them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postprocess.read.matching import choice_outcome, open_outcome
from postprocess.read.suspicious import SIGNS, signs, signs_of
from postprocess.record.clash import clash_record
from tests import KNOWN_ANSWERS

KNOWN = json.loads((KNOWN_ANSWERS / "suspicious.json").read_text())


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: case["name"])
def test_known_signs(case):
    given_, letters = case["input"], case["input"].get("letters")
    answers = (given_["image_answer"], given_["text_answer"])
    if letters:
        options = {"image": answers[0], "text": answers[1], "distractor": "x", "conflict": "y"}
        strict = choice_outcome(given_["prediction"], letters)
        relaxed = choice_outcome(given_["prediction"], letters, relaxed=True, options=options)
        found = signs(given_["prediction"], *answers, {}, strict.letter, relaxed.letter)
    else:
        flags = open_outcome(given_["prediction"], *answers)._asdict()
        found = signs(given_["prediction"], *answers, flags)
    assert list(found) == case["expected"], case["why"]


def test_every_sign_has_a_known_answer():
    assert {name for case in KNOWN for name in case["expected"]} == set(SIGNS)


@given(st.text(), st.text(), st.text())
def test_whatever_a_model_writes_has_signs_or_none(prediction, image, text):
    flags = open_outcome(prediction, image, text)._asdict()
    assert set(signs(prediction, image, text, flags)) <= set(SIGNS)


def test_a_failed_or_empty_answer_has_none():
    shown = {"form": "open", "caption_kind": "conflicting"}
    shown |= {"image_answer": "kite", "text_answer": "drone"}
    assert signs_of(clash_record(shown, "")) == ()
    assert signs_of(clash_record(shown, None)) == ()
    assert signs_of(clash_record(shown, "No conflict: kite")) == ("negated_conflict",)


def test_a_long_answer_takes_no_longer_than_its_length():
    assert signs("not " * 500_000, "kite", "drone", {"image": 1}) == ()


@pytest.mark.parametrize("name", ["multiple_choice/gpt-5", "open_ended/gpt-5"])
def test_the_released_models_have_few_suspicious_rows(shared, name):
    from postprocess.runs.prediction_files import read_source
    from postprocess.runs.rescoring import score

    path = shared / "golden" / "clash" / "predictions" / f"{name}_predictions.json.gz"
    (scored,) = score([read_source(path)], draws=2)
    found = [signs_of(record) for _, record in scored.records]
    assert sum(map(bool, found)) <= 20
