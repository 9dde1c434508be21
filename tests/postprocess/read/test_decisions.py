"""What people decide about unread answers, and how readings are counted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postprocess.read.counts import ReadBy, note, read_by
from postprocess.read.decisions import (
    SAYS,
    Decision,
    DecisionError,
    apply,
    is_open,
    key_of,
    read_decisions,
)
from postprocess.read.refusal import is_refusal
from postprocess.record.pragmatch import SHOWN, pragmatch_record
from postprocess.runs.decided import write_decided
from postprocess.runs.folder import read_runs
from tests.postprocess.run_folders import write_run
from tests.postprocess.runs.test_folder import a_record


def unread(number=0, response="Hm.", **other):
    return a_record(
        number, response=response, status="unusable", verdict=None, correct=0, s=None, **other
    )


def says(record, said, by="ada"):
    return Decision(key_of(record["response"], record["prompt"]), said, by)


@pytest.mark.parametrize(("said", "verdict"), SAYS.items())
@pytest.mark.parametrize("condition", ["P", "M"])
def test_a_decision_settles_an_unread_answer(said, verdict, condition):
    record = unread(condition=condition)
    (after,), n_person, n_open, n_disputed = apply([record], [says(record, said)])
    assert (n_person, n_open, n_disputed) == (1, 0, 0)
    assert (after["verdict"], after["verdict_by"]) == (verdict, "person")
    assert after["correct"] == int(verdict == record["label"])
    assert after["status"] == ("ok" if verdict is not None else "unusable")
    assert not is_open(after)


def test_a_stated_verdict_is_overruled_only_where_it_points_against_its_score():
    stated, against = a_record(1), a_record(2, s=-0.5, sign_disagrees=True)
    made = [says(stated, "no"), says(against, "no")]
    decided = apply([stated, against], made)
    assert decided.records[0] == stated
    assert decided.records[1]["verdict"] == 0
    assert decided.records[1]["sign_disagrees"] is False
    neither = apply([against], [says(against, "neither")]).records[0]
    assert (neither["verdict"], neither["status"], neither["correct"]) == (None, "unusable", 0)


def test_where_people_disagree_nothing_is_decided_and_a_change_of_mind_counts():
    record = unread()
    torn = apply([record], [says(record, "yes"), says(record, "no", by="bob")])
    assert (torn.records[0], torn.n_open, torn.n_disputed) == (record, 1, 1)
    made = [says(record, "yes"), says(record, "no", by="bob"), says(record, "yes", by="bob")]
    assert apply([record], made).records[0]["verdict"] == 1


def test_a_decision_holds_for_one_answer_to_one_prompt():
    record, other = unread(), unread(1, prompt="cot")
    assert apply([record, other], [says(record, "yes")]).n_person == 1
    failed = unread(2, condition="M") | {"status": "failed"}
    assert apply([failed], [says(failed, "yes")]).n_person == 0


@given(st.lists(st.sampled_from([*SAYS]), max_size=6))
def test_counts_add_up(said):
    records = [unread(n, f"answer {n}") for n in range(8)]
    decided = apply(records, [says(r, s) for r, s in zip(records, said, strict=False)])
    assert (decided.n_person, decided.n_open) == (len(said), 8 - len(said))
    assert read_by(decided.records) == ReadBy(0, 0, len(said), 8 - len(said))


def test_every_way_of_reading_is_counted_and_said():
    records = [
        a_record(0),
        unread(1) | {"inferred_verdict": 1},
        unread(2) | {"verdict_by": "person"},
        unread(3),
        unread(4) | {"status": "failed"},
        {"status": "ok", "outcome": "conflict"},
    ]
    counts = read_by(records)
    assert counts == ReadBy(1, 1, 1, 1)
    assert "1 read by a person" in note(counts)


@pytest.mark.parametrize(
    "row", ["{", "[]", '{"key": "a", "by": "b"}', '{"key": "a", "says": "maybe", "by": "b"}']
)
def test_a_row_that_is_no_decision_is_named(tmp_path, row):
    path = tmp_path / "decisions.jsonl"
    path.write_text('{"key": "a", "says": "yes", "by": "b"}\n' + row)
    with pytest.raises(DecisionError, match="row 2"):
        read_decisions(path)


def test_a_decided_run_says_so_and_replaces_nothing(tmp_path):
    record = unread()
    write_run(tmp_path / "run", {"pragmatch_pm": [record, a_record(1)]})
    path = tmp_path / "decisions.jsonl"
    path.write_text(json.dumps(says(record, "yes")._asdict()) + "\n")
    done = write_decided(tmp_path / "run", path, tmp_path / "out")
    assert (done.n_person, done.n_open, done.n_disputed) == (1, 0, 0)
    (results,) = (tmp_path / "out").rglob("*_results.json")
    assert json.loads(results.read_text())["decided"]["read_by_a_person"] == 1
    (run,), problems = read_runs([tmp_path / "out"])
    assert problems == ()
    assert [r.get("verdict_by") for r in run.records("pragmatch_pm")] == ["person", None]
    for out in ("out", "run"):
        with pytest.raises(DecisionError):
            write_decided(tmp_path / "run", path, tmp_path / out)
    with pytest.raises(DecisionError, match="no \\*_samples_"):
        write_decided(tmp_path / "nothing", path, tmp_path / "other")


SHOWN_VALUES = dict.fromkeys(SHOWN) | {"prompt": "zero_shot", "label": 1}


@pytest.mark.parametrize(
    ("answer", "status", "by", "verdict", "inferred"),
    [
        ("Yes", "ok", "stated", 1, None),
        ("The caption is not sarcastic.", "unusable", "inferred", None, 0),
        ("Hm.", "unusable", None, None, None),
        ("I'm sorry, but I can't help with that.", "refused", None, None, None),
        ("I cannot tell from this picture.", "unusable", None, None, None),
        ("", "empty", None, None, None),
    ],
)
def test_a_record_says_how_its_verdict_came_about(answer, status, by, verdict, inferred):
    record = pragmatch_record(SHOWN_VALUES, answer)
    assert (record["status"], record["verdict_by"]) == (status, by)
    assert (record["verdict"], record["inferred_verdict"]) == (verdict, inferred)


@pytest.mark.parametrize(
    "words",
    [
        "I can't assist with that.",
        "I cannot help with this request.",
        "Sorry, I won't discuss this.",
        "I'm not able to provide that.",
        "I apologize, but I'm unable to assist with that request.",
    ],
)
def test_a_plain_refusal_is_one(words):
    assert is_refusal(words)


@pytest.mark.parametrize(
    "words",
    [
        "I can't see the picture.",
        "I cannot say whether it is sarcastic.",
        'The caption says "I can\'t help with that".',
        "He can't help with that.",
        "I can't help laughing at this one, " + "really " * 100,
        "No, I can help.",
    ],
)
def test_what_only_sounds_like_a_refusal_is_none(words):
    assert not is_refusal(words)
