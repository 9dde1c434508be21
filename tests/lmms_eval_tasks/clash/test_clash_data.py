"""A CLASH row says one thing in one way, and a folder's prompts are those of the release."""

import json

import pytest

from lmms_eval_tasks.clash.data import (
    check_row,
    official_prompts,
    prompt_hash,
    sample_id_of,
)
from lmms_eval_tasks.clash.make.check.samples import read_rows
from lmms_eval_tasks.dataset.folder import FolderError, check_folder, load_folder
from postprocess.read.matching import open_outcome
from tests.lmms_eval_tasks.clash_fixtures import clash_folder, clash_rows


def faults_of(**changes: object) -> str:
    return "; ".join(check_row({**clash_rows(2)[1], **changes}))


def test_rows_of_the_fixture_are_sound():
    assert [check_row(row) for row in clash_rows()] == [[]] * 14


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"change_type": "scene"}, "change_type must be object or attribute"),
        ({"change_type": None}, "change_type must be"),
        ({"question": " "}, "question is empty"),
        ({"question": None}, "question must be text"),
        ({"conflicting_word": ["a"]}, "conflicting_word must be text"),
        ({"distractor": "KITE "}, "image_answer and distractor are the same"),
        ({"text_answer": "kite"}, "image_answer and text_answer are the same"),
        ({"categories": "animals"}, "categories must be a list"),
        ({"categories": [1]}, "categories must be a list"),
        ({"categories": ["animals", "animals"]}, "twice"),
        ({"categories": ["colors"]}, "category 'colors' is none of animals"),
        ({"image_answer": "\ud800"}, "lone surrogate"),
    ],
)
def test_a_faulty_row_is_named(changes, words):
    assert words in faults_of(**changes)


def test_a_caption_that_differs_in_spaces_or_case_only_is_no_conflict():
    row = clash_rows(1)[0]
    same = row["original_caption"].upper().replace(" ", "  ")
    assert "says the same" in "; ".join(check_row({**row, "conflicting_caption": same}))


def test_a_question_asked_twice_is_a_fault_with_both_rows(tmp_path):
    rows = clash_rows(3)
    rows.append({**rows[0], "sample_id": "again"})
    with pytest.raises(FolderError, match=r"samples.jsonl:4: has picture, captions .* of row 1"):
        clash_folder(tmp_path / "clash", rows)


def test_one_picture_may_be_asked_about_twice(tmp_path):
    folder = load_folder(clash_folder(tmp_path / "clash"), "clash")
    assert len(folder.rows) == 14
    assert len({row["image_id"] for row in folder.rows}) == 12
    assert check_folder(folder.path) == []


def test_spaces_at_the_end_of_a_caption_survive(tmp_path):
    folder = load_folder(clash_folder(tmp_path / "clash"), "clash")
    assert all(row["original_caption"].endswith(". ") for row in folder.rows)


def test_sample_ids_follow_from_the_content_alone():
    rows = clash_rows()
    assert len({row["sample_id"] for row in rows}) == len(rows)
    row = dict(rows[0], categories=[], distractor="moved", image="images/elsewhere.png")
    assert sample_id_of(row["image_id"], row) == rows[0]["sample_id"]


@pytest.mark.parametrize(
    ("image_answer", "text_answer"),
    [("dogs", "dog"), ("2 dogs", "Two dogs!"), ("a wooden chair", "wood chairs")],
)
def test_answers_that_matching_cannot_tell_apart_are_a_fault(image_answer, text_answer):
    assert open_outcome(image_answer, image_answer, text_answer).outcome == "both"
    found = faults_of(image_answer=image_answer, text_answer=text_answer)
    assert f"match the same answers ({image_answer!r} and {text_answer!r})" in found


@pytest.mark.parametrize("name", ["image_answer", "text_answer"])
@pytest.mark.parametrize("answer", ["The", "an", "?!", "…"])
def test_an_answer_that_matching_never_finds_is_a_fault(name, answer):
    assert open_outcome(answer, answer, answer).outcome == "none"
    assert faults_of(**{name: answer}) == f"{name} {answer!r} has no word to match an answer with"


def test_a_distractor_need_only_be_another_text():
    assert faults_of(image_answer="dog", distractor="dogs") == ""
    assert faults_of(distractor="?!") == ""


def test_no_sample_of_the_release_is_a_fault(shared):
    read = read_rows(shared / "golden" / "clash" / "test.json.gz")
    assert len(read) == 1289
    assert [one.fault for one in read if one.fault] == []


def test_a_prompt_that_was_edited_is_refused():
    entry = {"text": "Answer.", "sha256": prompt_hash("Answer.")}
    assert official_prompts({"prompts": {"judge": entry}})["judge"].text == "Answer."
    assert official_prompts({}) == {}
    for prompts, words in (
        ({"judge": {**entry, "text": "Answer!"}}, "was changed"),
        ({"other": entry}, "unknown 'other'"),
        ({"judge": "Answer."}, "must be text"),
        ([entry], "not a JSON object"),
    ):
        with pytest.raises(ValueError, match=words):
            official_prompts({"prompts": prompts})


def test_rows_are_json_as_written(tmp_path):
    path = clash_folder(tmp_path / "clash") / "samples.jsonl"
    assert [json.loads(line) for line in path.read_text().splitlines()] == clash_rows()
