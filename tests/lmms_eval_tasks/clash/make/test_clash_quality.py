"""Rule checks of CLASH samples: known answers, an independent reading, the released test set."""

from __future__ import annotations

import argparse
import gzip
import json
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_eval_tasks.clash.make.check import funnel, rules
from lmms_eval_tasks.clash.make.check.llm import CHECKS, GROUPS, checks_of, prompt_of
from lmms_eval_tasks.clash.make.check.rules import Examined, Verdict, names_word, stands_in
from lmms_eval_tasks.clash.make.check.samples import read_rows
from pragclash.cli import data_clash_qc
from tests import KNOWN_ANSWERS
from tests.lmms_eval_tasks.clash_fixtures import clash_folder

KNOWN = json.loads((KNOWN_ANSWERS / "clash_quality.json").read_text())
WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=8)


@pytest.mark.parametrize("case", KNOWN, ids=[case["name"] for case in KNOWN])
def test_known_answers(case: dict[str, Any]) -> None:
    verdicts = rules.apply_rules(case["input"])
    last = verdicts[-1]
    assert (None if last.passed else last.check) == case["expected"], last.reason
    assert all(verdict.passed for verdict in verdicts[:-1])
    assert last.passed or last.reason


def test_every_rule_has_a_known_answer() -> None:
    assert {case["expected"] for case in KNOWN} == {None, *(rule.name for rule in rules.RULES)}


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=6), st.data())
def test_a_word_of_a_text_stands_in_it_in_any_case(words: list[str], data: Any) -> None:
    word = data.draw(st.sampled_from([x for x in words if x not in ("a", "an", "the")] or ["x"]))
    text = " ".join(words)
    if word in words:
        assert stands_in(word.upper(), f"So: {text}.")
    assert not stands_in(f"{word}qqq", text) or f"{word}qqq" in words


@settings(max_examples=60, deadline=None)
@given(WORDS, WORDS)
def test_a_mere_prefix_never_stands(start: str, end: str) -> None:
    # Endings that are no inflection: a stemmer cannot undo them.
    longer = f"{start}{end}zq"
    assert not stands_in(start, f"there is {longer} here") or start in ("there", "is", "here")
    assert not names_word(longer, start)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_no_text_makes_a_rule_raise(one: str, other: str) -> None:
    row = {
        "original_caption": one, "conflicting_caption": other, "question": one,
        "original_word": other, "conflicting_word": one, "image_answer": one,
        "text_answer": other, "distractor": one + other, "change_type": "object",
    }  # fmt: skip
    for rule in rules.RULES:
        assert rule.fault(row) is None or isinstance(rule.fault(row), str)


def test_a_stage_is_checked_before_later_fields_are_there() -> None:
    names = ("original_caption", "conflicting_caption", "original_word", "conflicting_word")
    row = {name: KNOWN[0]["input"][name] for name in names}
    verdicts = rules.apply_rules(row, ["change"])
    assert [v.check for v in verdicts] == [r.name for r in rules.RULES if r.stage == "change"]


def test_a_funnel_adds_up() -> None:
    passed = Verdict("a", True, "")
    examined = [
        Examined("1", (passed, Verdict("b", True, ""))),
        Examined("2", (passed, Verdict("b", False, "x"))),
        Examined("3", (Verdict("a", False, "y"),)),
        Examined("4", (passed, Verdict("b", False, "x"))),
    ]
    steps = rules.funnel(examined, ["a", "b"])
    assert [tuple(step) for step in steps] == [("a", 1, 3), ("b", 2, 1)]


def qc(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    data_clash_qc.add_arguments(parser)
    status = data_clash_qc.run(parser.parse_args(list(command)))
    return status, capsys.readouterr().out


def test_the_released_test_set_passes_and_what_does_not_is_listed(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out = qc(capsys, str(shared / "golden" / "clash" / "test.json.gz"), "--json")
    report = json.loads(out)
    assert status == 0
    assert report["n"] == 1289
    assert report["accepted"] >= 0.98 * 1289
    assert len(report["rejected"]) == 1289 - report["accepted"]
    assert all(one["reason"] and one["check"] for one in report["rejected"])
    assert {"115113-d7feb28e", "440991-08fbaeb2"} <= {
        one["sample_id"] for one in report["rejected"] if one["check"] == "distractor_apart"
    }
    assert report["funnel"][-1]["left"] == report["accepted"]


def test_deliberately_spoiled_samples_are_found(shared: Path, tmp_path: Path) -> None:
    golden = shared / "golden" / "clash" / "test.json.gz"
    results = funnel.examine_rules(read_rows(golden))
    data = json.loads(gzip.decompress(golden.read_bytes()))["samples"]
    samples = [x for x, result in zip(data, results, strict=True) if result.failure is None][:300]
    for place, sample in enumerate(samples):
        if place % 3 == 0:
            sample["conflicting_caption"] += " beside an unrelated zeppelin"
        elif place % 3 == 1:
            word = sample["changed_words"]["conflicting"]
            sample["answers"]["irrelevant_but_plausible"] = f"very {word} indeed"
        else:
            sample["answers"]["image_only"] = "quite another matter"
    path = tmp_path / "spoiled.json"
    path.write_text(json.dumps(samples))
    results = funnel.examine_rules(read_rows(path))
    assert all(result.failure is not None for result in results)


def test_a_folder_its_rows_and_a_gzipped_copy_are_read_alike(tmp_path: Path) -> None:
    folder = clash_folder(tmp_path / "clash")
    rows = (folder / "samples.jsonl").read_bytes()
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(rows))
    read = [read_rows(path) for path in (folder, folder / "samples.jsonl",
                                         tmp_path / "rows.jsonl.gz")]  # fmt: skip
    assert read[0] == read[1] == read[2]
    assert all(one.row is not None for one in read[0])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "neither JSON nor JSON lines"),
        (b"\xff\xfe", "is not UTF-8"),
        (b'{"samples": 3}', "no list of samples"),
        (b"{" * 100_000, "neither JSON nor JSON lines"),
        (b"\x1f\x8b\x00\x00", "is damaged"),
    ],
)
def test_a_file_that_is_none_is_one_line(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=why):
        read_rows(path)


def test_a_sample_that_cannot_be_read_is_counted_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = clash_folder(tmp_path / "clash")
    with (folder / "samples.jsonl").open("a") as file:
        file.write('{"image_answer": 3}\nno json\n')
    _, out = qc(capsys, str(folder), "--json")
    report = json.loads(out)
    last = report["rejected"][-2:]
    assert [one["place"] for one in last] == [14, 15]
    assert [one["check"] for one in last] == ["readable", "readable"]


def test_every_verdict_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = clash_folder(tmp_path / "clash")
    path = tmp_path / "verdicts.jsonl"
    _, out = qc(capsys, str(folder), "--verdicts", str(path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 14
    assert f"{sum(line['accepted'] for line in lines)} of 14 samples accepted" in out
    for line in lines:
        assert all(v["passed"] for v in line["verdicts"][:-1])
        assert line["verdicts"][-1]["passed"] == line["accepted"]


def test_a_model_is_asked_only_what_fits_the_change() -> None:
    row = {**KNOWN[0]["input"]}
    assert {c.name for c in checks_of("change", "object")}.isdisjoint(
        c.name for c in checks_of("change", "attribute")
    )
    prompt = prompt_of("change", row)
    assert "change_is_synonym" in prompt
    assert "change_is_objective" not in prompt
    assert "image_answer" not in prompt
    assert len(CHECKS) == len(set(CHECKS)) == sum(len(x) for x in GROUPS.values()) + len(GROUPS)
