import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.measure.groups import Answer
from postprocess.record.pragmatch import MIN_CUT_WORDS, SHOWN, looks_cut, pragmatch_record
from postprocess.response.line import STATUSES, attach_response, failure_text

DOC = {
    "task": "pragmatch_pm",
    "sample_id": "892551658487631873-P",
    "image_id": "892551658487631873",
    "condition": "P",
    "cue": None,
    "edit": None,
    "caption": "what a day",
    "label": 1,
    "modality": "image_text",
    "prompt": "zero_shot",
    "prompt_version": 1,
    "fold": None,
    "dataset_kind": "sample",
    "dataset_fingerprint": "ab" * 32,
    "n_omitted": 0,
    "image": object(),
}
M = {**DOC, "condition": "M", "label": 0, "sample_id": "892551658487631873-M"}
COT = {**DOC, "prompt": "cot"}
LONG = "the words go on and on " * (MIN_CUT_WORDS // 6 + 1)


def test_a_record_holds_what_was_shown_and_what_came_back():
    line = attach_response("Yes", {"Yes": math.log(0.6), "No": math.log(0.3)}, step=0)
    record = pragmatch_record(DOC, line)
    assert {name: record[name] for name in SHOWN} == {name: DOC[name] for name in SHOWN}
    assert record["record"] == 1
    assert (record["response"], record["status"]) == ("Yes", "ok")
    assert (record["verdict"], record["correct"]) == (1, 1)
    assert record["s"] == pytest.approx(math.log(2))
    assert record["mass"] == pytest.approx(0.9)
    assert (record["s_source"], record["sign_disagrees"]) == ("logprobs", False)
    assert "image" not in record


def test_every_record_is_flat_and_of_one_set_of_keys():
    texts = ("Yes", "", None, failure_text("timeout"), "maybe", attach_response("No", None))
    records = [pragmatch_record(doc, text) for doc in (DOC, M, COT) for text in texts]
    assert len({tuple(record) for record in records}) == 1
    assert not any(isinstance(value, dict | list) for r in records for value in r.values())


@pytest.mark.parametrize(
    ("doc", "text", "status", "verdict", "correct"),
    [
        (DOC, "Yes", "ok", 1, 1),
        (DOC, "No", "ok", 0, 0),
        (M, "No", "ok", 0, 1),
        (M, "Yes", "ok", 1, 0),
        (DOC, "maybe", "unusable", None, 0),
        (M, "maybe", "unusable", None, 0),
        (DOC, "", "empty", None, 0),
        (M, "", "empty", None, 0),
        (DOC, None, "empty", None, 0),
        (DOC, " \n\x0b ", "empty", None, 0),
        (DOC, attach_response("", {"Yes": -1.0, "No": -1.0}), "empty", None, 0),
        (DOC, failure_text("No"), "failed", None, 0),
        (M, failure_text("the answer is no", 3), "failed", None, 0),
        (M, "\n " + failure_text("No"), "failed", None, 0),
        (COT, "It rains.\nVerdict: Yes", "ok", 1, 1),
        (COT, "It rains", "unusable", None, 0),
        (COT, "", "empty", None, 0),
        (COT, attach_response("It rains and", None, finish="length"), "truncated", None, 0),
        (COT, attach_response("", None, finish="length"), "truncated", None, 0),
        (COT, attach_response("Verdict: No. And", None, finish="length"), "ok", 0, 0),
        (COT, attach_response(LONG, None, finish="stop"), "unusable", None, 0),
        (COT, LONG, "truncated", None, 0),
        (COT, LONG + "at last.", "unusable", None, 0),
        (COT, LONG + 'he said "so."', "unusable", None, 0),
        (COT, failure_text(LONG), "failed", None, 0),
        (DOC, LONG, "unusable", None, 0),
        (DOC, attach_response("It rains and", None, finish="length"), "unusable", None, 0),
    ],
)
def test_what_becomes_of_an_answer(doc, text, status, verdict, correct):
    record = pragmatch_record(doc, text)
    assert (record["status"], record["verdict"], record["correct"]) == (status, verdict, correct)


def test_an_unreadable_answer_is_wrong_whatever_the_label():
    assert pragmatch_record(DOC, "maybe")["correct"] == 0
    assert pragmatch_record(M, "maybe")["correct"] == 0


@pytest.mark.parametrize(
    ("text", "s", "disagrees"),
    [
        ("Yes", 1.0, False),
        ("Yes", -1.0, True),
        ("No", 1.0, True),
        ("No", -1.0, False),
        ("Yes", 0.0, False),
        ("No", 0.0, False),
        ("maybe", 1.0, None),
        ("Yes", None, None),
    ],
)
def test_a_score_that_points_elsewhere_than_the_words_is_told(text, s, disagrees):
    choices = None if s is None else {"Yes": min(0.0, s) - 1, "No": min(0.0, -s) - 1}
    record = pragmatch_record(DOC, attach_response(text, choices))
    assert record["s"] == (None if s is None else pytest.approx(s))
    assert record["sign_disagrees"] is disagrees


def test_without_a_line_there_is_no_score_and_no_source():
    record = pragmatch_record(DOC, "Yes")
    assert (record["s"], record["mass"], record["s_source"]) == (None, None, None)


def test_a_failed_request_has_no_score():
    record = pragmatch_record(DOC, attach_response(failure_text("x"), {"Yes": -1.0, "No": -2.0}))
    assert (record["status"], record["s"]) == ("failed", None)


def test_the_source_of_a_score_is_kept():
    line = attach_response("Yes", {"Yes": -1.0, "No": -2.0}, source="similarity")
    assert pragmatch_record(DOC, line)["s_source"] == "similarity"


def test_a_chain_of_thought_is_read_as_one():
    text = "Yes, a dog is seen, as the caption says. Verdict: No"
    assert pragmatch_record(COT, text)["verdict"] == 0


def test_only_long_unfinished_text_looks_cut():
    assert looks_cut("word " * MIN_CUT_WORDS)
    assert not looks_cut("word " * (MIN_CUT_WORDS - 1))
    assert not looks_cut("word " * MIN_CUT_WORDS + "end.**")


def test_a_missing_column_is_an_error():
    with pytest.raises(KeyError, match="n_omitted"):
        pragmatch_record({k: v for k, v in DOC.items() if k != "n_omitted"}, "Yes")


@given(st.text(st.characters(codec=None), max_size=300), st.sampled_from([DOC, M, COT]))
@settings(max_examples=200, deadline=None)
def test_whatever_a_model_writes_gives_a_record_that_can_be_written(text, doc):
    for answer in (text, f'{text}\n{{"pragclash": 1, "choices": {{"Yes": -1, "No": -2}}}}'):
        record = pragmatch_record(doc, answer)
        json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
        assert record["status"] in STATUSES
        assert Answer.of(json.loads(json.dumps(record))).correct == record["correct"]
