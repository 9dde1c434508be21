"""Unread answers settled by keyboard in a real browser, and the table that follows."""

import argparse
import json
import sys

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from postprocess.read.counts import read_by
from postprocess.runs.folder import read_runs
from pragclash.cli import score
from tests import TESTS
from tests.browser import drive, need_browser
from tests.lmms_eval_tasks.annotation_fixtures import caption_folder
from tests.postprocess.run_folders import write_run
from tests.postprocess.runs.test_folder import a_record
from tests.pragclash.annotating import CODE

KEYS = {
    "Hm, he does not mean it.": "y",
    "Yes and no.": "u",
    "The words are taken at their value, I'd guess.": "n",
    "It depends on who reads it.": "u",
    "He is clearly mocking the weather.": "y",
    "A plain report of what happened.": "n",
    "<b>Not</b> what it <script>seems</script>.": "y",
    "🤷": "u",
    "Could be a joke; I take it as one.": "y",
    "Nothing but a description.": "n",
}
MEANT = {"y": 1, "n": 0, "u": None}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    need_browser()
    return caption_folder(tmp_path_factory.mktemp("unread") / "pragmatch")


@pytest.fixture(scope="module")
def run(folder):
    """Ten unread answers, one of them twice, among stated ones; pictures of the folder."""
    rows = [json.loads(line) for line in (folder / "captions.jsonl").read_text().splitlines()]
    texts = [*KEYS, next(iter(KEYS))]
    records = []
    for n in range(10):
        for condition in "PM":
            k = len(records)
            record = a_record(n, condition=condition, sample_id=rows[k % len(rows)]["sample_id"])
            record["sample_id"] += "" if k < len(rows) else f"/{k}"
            if k < len(texts):
                record.update(
                    response=texts[k], status="unusable", verdict=None, correct=0, s=None, mass=None
                )
            records.append(record)
    place = folder.parent / "run"
    write_run(place, {"pragmatch_pm": records})
    return place


@pytest.fixture(scope="module")
def seen(folder, run):
    command = [sys.executable, "-c", CODE, str(folder), "--unread", str(run), "--annotator", "ada"]
    config = {"command": command, "items": len(KEYS), "keys": KEYS}
    return drive(TESTS / "pragclash" / "browser" / "unread.mjs", config)


def test_the_answer_and_the_question_are_shown_and_the_picture_waits(seen):
    assert "Answer" in seen["shown"]
    assert "Is this sarcastic?" in seen["shown"]
    assert (seen["pictureHidden"], seen["pictureOnKey"], seen["pictureGone"]) == (True,) * 3
    assert seen["errors"] == []


def test_ten_answers_are_settled_by_keyboard_and_survive_a_kill(seen, run):
    assert seen["given"] == KEYS
    assert seen["afterReload"] == "5 of 10 answered"
    assert seen["done"] == "All 10 items are answered"
    rows = [json.loads(line) for line in (run / "decisions.jsonl").read_text().splitlines()]
    assert len({row["key"] for row in rows}) == len(rows) == len(KEYS)


def test_the_table_changes_by_exactly_those(seen, run, capsys):
    out = run.parent / "read"
    parser = argparse.ArgumentParser()
    score.add_arguments(parser)
    line = [str(run), "--decisions", str(run / "decisions.jsonl"), "--out", str(out)]
    assert score.run(parser.parse_args(line)) == 0
    assert capsys.readouterr().out.startswith("11 read by a person, 0 still open (0 read diff")
    (before,), (after,) = (read_runs([place]).runs for place in (run, out))
    old, new = before.records("pragmatch_pm"), after.records("pragmatch_pm")
    for one, other in zip(old, new, strict=True):
        if one["response"] in KEYS:
            verdict = MEANT[KEYS[one["response"]]]
            assert (other["verdict"], other["verdict_by"]) == (verdict, "person")
            assert other["correct"] == int(verdict == one["label"])
            assert other["status"] == ("unusable" if verdict is None else "ok")
        else:
            assert other == one
    assert read_by(new).person == 11
    # The run that was read is as it was, and is not written over unasked.
    assert score.run(parser.parse_args(line)) == 2
