import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.record.clash import FLAGS, SHOWN, clash_record, sample_id_of
from postprocess.response.line import RECORD_VERSION, STATUSES, attach_response, failure_text

OPEN = {
    "task": "clash_open",
    "sample_id": "7-0a0a0a0a",
    "image_id": "7",
    "form": "open",
    "caption_kind": "conflicting",
    "caption": "a child with a balloon",
    "question": "What does the child hold?",
    "image_answer": "kite",
    "text_answer": "balloon",
    "distractor": "drone",
    "prompt": "pragclash",
    "dataset_kind": "sample",
    "n_omitted": 0,
    "image": object(),
}
MC = {**OPEN, "task": "clash_mc", "form": "mc", "option_order": "tcid"}


def original(shown):
    return {**shown, "caption_kind": "original"}


def test_a_record_is_flat_json_without_the_picture():
    record = clash_record(MC, attach_response("(B)", {x: -1.5 for x in "ABCD"}))
    assert json.loads(json.dumps(record)) == record
    assert record["record"] == RECORD_VERSION
    assert "image" not in record
    assert {name: record[name] for name in SHOWN if name in MC} == {
        name: MC[name] for name in SHOWN if name in MC
    }


@pytest.mark.parametrize(
    ("shown", "answer", "correct"),
    [
        (OPEN, "conflicting information", 1),
        (OPEN, "kite, but that conflicts", 1),
        (OPEN, "kite", 0),
        (original(OPEN), "kite", 1),
        (original(OPEN), "kite or balloon", 1),
        (original(OPEN), "a kite, conflicting", 0),
        (original(OPEN), "conflicting information", 0),
        (original(OPEN), "balloon", 0),
        (MC, "(B)", 1),
        (MC, "(C)", 0),
        (original(MC), "(C)", 1),
        (original(MC), "(B)", 0),
        (MC, "B", 0),
        (MC, None, 0),
    ],
)
def test_correct_means_a_noticed_conflict_or_a_clean_answer(shown, answer, correct):
    assert clash_record(shown, answer)["correct"] == correct


@pytest.mark.parametrize(
    ("shown", "answer", "status", "outcome"),
    [
        (OPEN, "kite", "ok", "image"),
        (OPEN, "nothing", "ok", "none"),
        (OPEN, "", "empty", "empty"),
        (OPEN, failure_text("kite"), "failed", "failed"),
        (OPEN, attach_response("It is hard to", None, finish="length"), "truncated", "none"),
        (OPEN, attach_response("a kite and", None, finish="length"), "ok", "image"),
        (MC, "(A)", "ok", "text"),
        (MC, "A", "unusable", "unusable"),
        (MC, attach_response("Looking at", None, finish="length"), "truncated", "unusable"),
        (MC, failure_text("(B)"), "failed", "failed"),
    ],
)
def test_what_became_of_an_answer(shown, answer, status, outcome):
    record = clash_record(shown, answer)
    assert (record["status"], record["outcome"]) == (status, outcome)


def test_a_form_has_only_its_own_flags():
    def flags(record):
        return {name for name in FLAGS if record[f"flag_{name}"] is not None}

    assert flags(clash_record(OPEN, "kite")) == {"conflict", "image", "text", "none"}
    assert flags(clash_record(MC, "(A)")) == set(FLAGS) - {"none"}


def test_the_likeliest_letter_stands_beside_the_parsed_one():
    logps = {"A": -3.0, "B": -0.2, "C": -2.5, "D": -5.0}
    record = clash_record(MC, attach_response("I cannot say", logps, source="censored"))
    assert (record["letter"], record["correct"]) == (None, 0)
    assert record["letter_logprob_choice"] == "B"
    assert record["letter_logprob_role"] == "conflict"
    assert record["letter_correct"] == 1
    assert record["letter_mass"] == pytest.approx(sum(map(math.exp, logps.values())))
    assert record["letter_source"] == "censored"
    assert clash_record(original(MC), attach_response("", logps))["letter_correct"] == 0


def test_a_tie_of_letters_chooses_none():
    record = clash_record(MC, attach_response("(B)", {"A": -3, "B": -1, "C": -1, "D": -5}))
    assert record["letter_logprob_choice"] is None
    assert record["letter_correct"] == 0


@pytest.mark.parametrize(
    "answer",
    ["(B)", attach_response("(B)", {"A": -0.1, "B": -3}), attach_response("(B)", {"Yes": -1.0})],
)
def test_without_all_letters_there_is_no_letter_score(answer):
    record = clash_record(MC, answer)
    names = ("letter_logprob_choice", "letter_correct", "letter_mass", "letter_logps")
    assert [record[name] for name in names] == [None] * 4
    assert record["letter"] == "B"


def test_a_failed_request_has_no_letter_score():
    logps = dict.fromkeys("ABCD", -2.0) | {"B": -0.1}
    assert clash_record(MC, attach_response(failure_text("x"), logps))["letter_correct"] is None


def test_the_relaxed_reading_is_a_second_view():
    record = clash_record(MC, "it is a kite")
    assert (record["outcome"], record["relaxed_outcome"]) == ("unusable", "image")
    assert record["relaxed_letter"] == "C"
    record = clash_record(MC, "Conflicting information – cannot answer.")
    assert record["relaxed_outcome"] == "conflict"


def test_an_option_text_of_the_document_wins():
    shown = {**MC, "conflict_option": "No way to tell"}
    assert clash_record(shown, "no way to tell")["relaxed_outcome"] == "conflict"


@settings(deadline=None)
@given(st.none() | st.text(st.characters() | st.characters(categories=["Cs"])))
def test_any_text_gives_a_record_that_can_be_logged(answer):
    for shown in (OPEN, MC):
        record = clash_record(shown, answer)
        assert record["status"] in STATUSES
        json.dumps(record, ensure_ascii=False).encode("utf-8")


@settings(deadline=None)
@given(st.text("(ABCD) kite balloon conflict\ud800.", max_size=30))
def test_scoring_a_record_again_changes_nothing(answer):
    for shown in (OPEN, MC, original(OPEN), original(MC)):
        record = clash_record(shown, answer)
        assert clash_record(record, record["response"]) == record


@pytest.mark.parametrize(
    "change",
    [{"form": "essay"}, {"form": None}, {"caption_kind": "other"}, {"option_order": "tcii"}],
)
def test_a_document_that_cannot_be_scored_is_named(change):
    with pytest.raises(ValueError, match="7-0a0a0a0a"):
        clash_record({**MC, **change}, "(A)")


def test_sample_ids_are_those_of_the_dataset_folder():
    from lmms_eval_tasks.clash.data import sample_id_of as of_folder

    texts = {"original_caption": "A kite ", "conflicting_caption": "A «ball»", "question": "What?"}
    assert sample_id_of("42", *texts.values()) == of_folder("42", texts)
