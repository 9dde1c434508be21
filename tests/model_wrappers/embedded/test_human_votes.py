"""People's votes replayed as a model's answers."""

import json

import pytest

pytest.importorskip("lmms_eval")

from model_wrappers.embedded.human_votes import HumanVotes, read_votes
from postprocess.read.verdict import read_verdict
from postprocess.response.line import read_response
from tests.model_wrappers.fakes import pragmatch_doc, run


def vote(sample_id, label, annotator="ada", **more):
    return {"sample_id": sample_id, "annotator": annotator, "label": label, **more}


@pytest.fixture
def votes_file(tmp_path):
    rows = [vote("1-P", "yes"), vote("1-M", "no"), vote("1-L", "unclear")]
    rows += [vote("1-P", "no", "bob"), vote("2-P", "yes", "bob", note="kept by the page")]
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    return path


def docs_for(*sample_ids, **columns):
    return [pragmatch_doc(None, "a caption", sample_id=x, **columns) for x in sample_ids]


def test_votes_become_answers(votes_file):
    docs = docs_for("1-P", "1-M", "1-L")
    assert run(HumanVotes(annotator="ada", votes=str(votes_file)), docs) == ["Yes", "No", "Unclear"]
    assert [read_verdict(answer) for answer in ("Yes", "No", "Unclear")] == [1, 0, None]


def test_a_missing_vote_is_left_out_and_counted(votes_file, capfd):
    from loguru import logger

    told = []
    sink = logger.add(told.append, format="{message}")
    try:
        answers = run(HumanVotes(annotator="bob", votes=str(votes_file)), docs_for("1-P", "9-P"))
    finally:
        logger.remove(sink)
    assert answers[0] == "No"
    missing = read_response(answers[1])
    assert (missing.text, missing.choices, missing.finish) == ("", None, "left_out")
    assert any("1 missing of 2 requests" in message for message in told)


def test_chain_of_thought_tasks_read_the_vote_from_the_verdict_line(votes_file):
    docs = docs_for("1-P", "1-L", prompt="cot")
    answers = run(HumanVotes(annotator="ada", votes=str(votes_file)), docs)
    assert [read_verdict(answer, "cot") for answer in answers] == [1, None]


def test_one_annotator_needs_no_name_two_do(votes_file, tmp_path):
    with pytest.raises(ValueError, match="known: ada, bob"):
        HumanVotes(votes=str(votes_file))
    with pytest.raises(ValueError, match="'eve'"):
        HumanVotes(annotator="eve", votes=str(votes_file))
    single = tmp_path / "single.jsonl"
    single.write_text(json.dumps(vote("1-P", "yes", "7")) + "\n")
    assert HumanVotes(votes=str(single)).annotator == "7"
    assert HumanVotes(annotator=7, votes=str(single)).annotator == "7"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "no vote .JSONDecodeError"),
        ("[1]", "no vote .TypeError"),
        (json.dumps(vote("1-P", "maybe")), "maybe"),
        (json.dumps(vote(7, "yes")), "sample_id"),
        (json.dumps(vote("1-P", "no")), "earlier row"),
        ("[" * 90_000, "no vote .RecursionError"),
    ],
)
def test_a_bad_row_is_named(tmp_path, line, reason):
    path = tmp_path / "votes.jsonl"
    path.write_text(json.dumps(vote("1-P", "yes")) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=rf"votes.jsonl:2: .*{reason}"):
        read_votes(path)


def test_no_votes_file_says_how_to_get_one(tmp_path):
    with pytest.raises(ValueError, match="pragclash annotate"):
        read_votes(tmp_path / "votes.jsonl")


def test_unknown_arguments_are_named(votes_file):
    with pytest.raises(TypeError, match="'name'"):
        HumanVotes(votes=str(votes_file), name="ada")
