"""What a record was made of, and what may stand beside it."""

import argparse
import json
from pathlib import Path

import pytest

from lmms_eval_tasks.dataset.folder import format_of, write_folder
from postprocess.runs.folder import read_runs
from postprocess.runs.identity import UNKNOWN, described, identity, own_settings, why_not_together
from pragclash.harness import evaluate_once
from pragclash.harness.identity import DEFAULT_TAGS, settings_of
from pragclash.harness.keeping.weights import same_weights, weights_of
from tests import KNOWN_ANSWERS
from tests.postprocess import synthetic
from tests.postprocess.run_folders import write_run

CASES = json.loads((KNOWN_ANSWERS / "identity.json").read_text(encoding="utf-8"))["cases"]
OWN = {"until": [], "max_new_tokens": 16, "do_sample": False, "temperature": 0}
RECORD = {
    "task": "pragmatch_pm",
    "sample_id": "1-P",
    "prompt": "zero_shot",
    "prompt_version": 1,
    "dataset_kind": "full",
    "dataset_fingerprint": "abc",
    "run_id": "r1",
    "settings": json.dumps({"generation": OWN}, sort_keys=True),
    "settings_own": 1,
    "prompt_sha": "p",
    "picture_sha": "q",
}


def settings_differ(change: dict, folder: Path) -> bool:
    change = dict(change)
    generation = {**OWN, **change.pop("generation", {})}
    tags = change.pop("reasoning_tags", DEFAULT_TAGS)
    arguments = {**change, "cli_args": argparse.Namespace(reasoning_tags=tags)}
    text, own = settings_of(generation, OWN, arguments)
    differs = text != RECORD["settings"]
    assert own == (not differs)
    made = {**RECORD, "settings": text, "settings_own": int(own)}
    assert (why_not_together(identity(RECORD), identity(made)) is not None) == differs
    return differs


def record_differs(change: dict, folder: Path) -> bool:
    one, other = identity(RECORD), identity({**RECORD, **change})
    assert bool(why_not_together(one, other)) == bool(why_not_together(other, one))
    return why_not_together(one, other) is not None


def mark_differs(change: dict, folder: Path) -> bool:
    def mark(**changed: str) -> Path:
        given = {"out": folder, "model": "m", "model_args": "pretrained=a", "limit": "", **changed}
        return evaluate_once.mark_of(argparse.Namespace(**given), "pragmatch_pm")

    change = dict(change)
    before = mark()
    if change.pop("picture", False):
        path = folder / "pragmatch" / "images" / "1.png"
        content = path.read_bytes()
        path.write_bytes(content + b"\0")
    if change.pop("caption", False):
        path = folder / "pragmatch" / format_of("pragmatch").rows_file
        path.write_text(path.read_text().replace("caption P", "caption Q"))
    return mark(**change) != before


WEIGHTS = ("pretrained", "peft", "processor", "log_dir")


def weights_differ(change: dict, folder: Path) -> bool:
    """Of a model, an adapter on a base of its own, a hub id and a folder that is written to."""
    texts = {
        "model/model.safetensors": "w",
        "model/tokenizer.json": "t",
        "model/README.md": "r",
        "adapter/adapter_model.safetensors": "a",
        "adapter/adapter_config.json": json.dumps({"base_model_name_or_path": f"{folder}/base"}),
        "adapter/checkpoint-9/adapter_model.safetensors": "c",
        "base/model.safetensors": "b",
        "hub/models--a--b/refs/main": "1" * 40,
        "log/notes": "n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    values = (folder / "model", folder / "adapter", "a/b", folder / "log")
    arguments = ",".join(f"{name}={value}" for name, value in zip(WEIGHTS, values, strict=True))
    before = weights_of(arguments)
    assert set(before) == set(WEIGHTS[:3])
    (folder / change["file"]).write_text(change.get("text", "x"))
    return not same_weights(before, weights_of(arguments))


@pytest.fixture
def data(tmp_path, monkeypatch):
    from tests.pragclash.harness.test_launcher import png

    rows = [
        {
            "sample_id": f"1-{condition}",
            "image_id": "1",
            "image": "images/1.png",
            "condition": condition,
            "cue": None,
            "edit": None,
            "caption": f"caption {condition}",
            "label": int(condition == "P"),
        }
        for condition in "PM"
    ]
    manifest = {"kind": "custom"}
    write_folder(tmp_path / "pragmatch", "pragmatch", rows, {"images/1.png": png(1)}, manifest)
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path))
    monkeypatch.setenv("PRAGCLASH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_change_makes_a_new_evaluation_or_does_not(case, data):
    differs = {
        "settings": settings_differ,
        "record": record_differs,
        "mark": mark_differs,
        "weights": weights_differ,
    }
    assert differs[case["what"]](case["change"], data) == case["new"], case["why"]


def test_what_differs_is_said():
    warm = json.dumps({"generation": {**OWN, "temperature": 0.9}}, sort_keys=True)
    changed = {**RECORD, "settings": warm, "settings_own": 0}
    assert not own_settings(changed)
    assert why_not_together(identity(RECORD), identity(changed)) == (
        "settings: temperature 0 and 0.9"
    )
    old = {name: RECORD[name] for name in RECORD if name[:4] in ("task", "samp", "prom", "data")}
    del old["prompt_sha"]
    assert own_settings(old)
    why = why_not_together(identity(old), identity(changed))
    assert why is not None
    assert UNKNOWN in why
    assert described(identity(old).settings) == UNKNOWN
    hostile = {**RECORD, "settings": "[" * 100_000}
    assert "settings" in (why_not_together(identity(RECORD), identity(hostile)) or "")


def tied(records: list[dict], run_id: str, model: str) -> list[dict]:
    return [{**record, "run_id": run_id, "model": model} for record in records]


def set_run_id(folder: Path, run_id: str) -> None:
    (path,) = folder.rglob("*_results.json")
    results = json.loads(path.read_text())
    results["config"]["pragclash"] = {"run_id": run_id}
    path.write_text(json.dumps(results))


@pytest.mark.parametrize("in_records", ["r2", None])
def test_rows_of_another_run_are_left_out_and_both_are_named(tmp_path, in_records):
    records = synthetic.pragmatch("pragmatch_pml", synthetic.always_no, 3)
    others = tied(records, in_records, "a") if in_records else records
    mixed = tied(records, "r1", "b")[:4] + others[4:]
    write_run(tmp_path, {"pragmatch_pml": mixed}, model="b", model_args="")
    set_run_id(tmp_path, "r1")
    runs = read_runs([tmp_path])
    assert not runs.runs
    (problem,) = (str(p) for p in runs.problems if "its records" in str(p))
    assert f"run {in_records} of model" in problem
    assert "the results beside it of run r1 of model b: left out" in problem


def test_rows_of_their_own_run_and_of_earlier_releases_are_read(tmp_path):
    records = synthetic.pragmatch("pragmatch_pml", synthetic.always_no, 3)
    write_run(tmp_path / "new", {"pragmatch_pml": tied(records, "r1", "m")}, model="m")
    set_run_id(tmp_path / "new", "r1")
    write_run(tmp_path / "old", {"pragmatch_pml": records}, model="n")
    runs = read_runs([tmp_path / "new", tmp_path / "old"])
    assert [run.model for run in runs.runs] == ["m", "n"]
    assert not runs.problems


ODD_RESULTS = [
    {"config": ["a"]},
    {"config": {"model": ["a"]}},
    {"config": {"model": "m", "limit": "all"}},
    {"config": {"model": "m", "pragclash": []}},
    {"config": {"model": "m", "pragclash": {"data": [1]}}},
    {"config": {"model": "m", "pragclash": {"data": {"pragmatch": {"encoders": 7}}}}},
    {"n-samples": {"pragmatch_pml": {"effective": [1]}}},
    {"configs": {"pragmatch_pml": 1}},
]


@pytest.mark.parametrize("odd", ODD_RESULTS, ids=json.dumps)
def test_one_odd_results_file_does_not_cost_the_other_runs(tmp_path, odd):
    from postprocess.tables.build import build

    records = synthetic.pragmatch("pragmatch_pml", synthetic.always_no, 3)
    write_run(tmp_path / "good", {"pragmatch_pml": records}, model="good", model_args="")
    write_run(tmp_path / "bad", {"pragmatch_pml": records}, model="bad", model_args="")
    (path,) = (tmp_path / "bad").rglob("*_results.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | odd))
    runs = read_runs([tmp_path])
    assert any(p.where == str(path) and "left out" in p.what for p in runs.problems)
    assert "good" in [run.label for run in runs.runs]
    assert build("table1", runs).rows


ODD_RECORDS = [
    {"s": 10**400},
    {"mass": "all"},
    {"condition": ["P"]},
    {"prompt": {"a": 1}},
    {"dataset_fingerprint": [1]},
    {"status": ["ok"]},
    {"prompt_version": "1"},
    {"prompt": "x" * 3000},
]


@pytest.mark.parametrize("odd", ODD_RECORDS, ids=lambda odd: next(iter(odd)))
def test_one_odd_record_does_not_cost_the_other_rows(tmp_path, odd):
    from postprocess.tables.build import build

    records = synthetic.pragmatch("pragmatch_pml", synthetic.always_no, 3)
    records[0] = {**records[0], **odd}
    write_run(tmp_path, {"pragmatch_pml": records})
    runs = read_runs([tmp_path])
    assert len(runs.runs[0].records("pragmatch_pml")) == len(records) - 1
    assert any("left out" in p.what and next(iter(odd)) in p.what for p in runs.problems)
    assert build("table1", runs).rows


def test_judges_that_are_no_answers_cost_their_row(tmp_path):
    records = synthetic.clash("clash_open", lambda number: "Red", 4)
    records[0] = {**records[0], "judges": [1]}
    write_run(tmp_path, {"clash_open": records})
    runs = read_runs([tmp_path])
    assert len(runs.runs[0].records("clash_open")) == 3


def test_escape_sequences_in_a_models_name_are_text(tmp_path):
    records = synthetic.pragmatch("pragmatch_pml", synthetic.always_no, 3)
    write_run(tmp_path, {"pragmatch_pml": records}, model="a\x1b[31m\x07", model_args="")
    (run,) = read_runs([tmp_path]).runs
    assert run.label.isprintable()
    assert run.label == "a\\x1b[31m\\x07"


def test_no_secret_of_an_earlier_run_reaches_table_report_or_export(tmp_path):
    records = synthetic.pragmatch("pragmatch_pml", synthetic.always_no, 3)
    records[0] = {**records[0], "response": "401: wrong key sk-pa55word1234"}
    arguments = "model=gpt,base_url=https://ada:pa55word@host/v1,openai-key=pa55word,auth=pa55word"
    write_run(tmp_path, {"pragmatch_pml": records}, model="openai", model_args=arguments)
    (run,) = read_runs([tmp_path]).runs
    assert "pa55word" not in repr(run)
    assert "pa55word" not in json.dumps(run.tasks["pragmatch_pml"].results)
    assert run.arguments["base_url"] == "https://REDACTED@host/v1"
