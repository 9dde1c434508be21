"""Submissions follow the schemas, are the same twice, and are refused where they would mislead."""

import argparse
import datetime
import hashlib
import json

import jsonschema
import pytest
import yaml

from postprocess.measure import pragmatch as metrics
from postprocess.measure.groups import Answer
from postprocess.publish import export
from postprocess.runs.folder import read_runs
from pragclash.cli import export as export_command
from tests.postprocess import synthetic
from tests.postprocess.run_folders import write_run

ARGS = "backend=llava_hf,pretrained=org/model-7b,api_key=sk-9"
WHO = ("--model-id", "org/model-7b", "--organization", "A lab")


def command(*argv):
    parser = argparse.ArgumentParser()
    export_command.add_arguments(parser)
    return export_command.run(parser.parse_args([str(a) for a in argv]))


def full_tasks(**other):
    return {
        "pragmatch_pml": synthetic.pragmatch("pragmatch_pml", synthetic.skilled(), **other),
        "pragmatch_pm_cot": synthetic.pragmatch(
            "pragmatch_pm_cot", lambda n, slot: f"The caption says lunch number {n}.\nVerdict: Yes"
        ),
        "pragmatch_p_minus_ocr": synthetic.pragmatch("pragmatch_p_minus_ocr", synthetic.skilled()),
        "clash_mc": synthetic.clash("clash_mc", lambda n: f"({'ABCD'[n % 4]})"),
        "clash_open_original": synthetic.clash("clash_open_original", lambda n: "kite \ud800"),
    }


@pytest.fixture
def folder(tmp_path):
    write_run(tmp_path / "run", full_tasks(), model_args=ARGS)
    return tmp_path / "run"


def exported(folder, out, *extra):
    assert command("--runs", folder, "--format", "eee", "--out", out, *WHO, *extra) == 0
    aggregates = {p.parts[-4]: json.loads(p.read_text()) for p in out.rglob("*.json")}
    samples = {
        p.parts[-4]: [json.loads(line) for line in p.read_text().splitlines()]
        for p in out.rglob("*_samples.jsonl")
    }
    return aggregates, samples


@pytest.fixture(scope="module")
def schemas(shared):
    return [
        json.loads((shared / "schemas" / name).read_text(encoding="utf-8"))
        for name in ("eee_eval.schema.json", "eee_instance_level_eval.schema.json")
    ]


@pytest.mark.parametrize("extra", [(), ("--with-text",)])
def test_exported_files_follow_the_schemas(folder, tmp_path, schemas, extra):
    aggregates, samples = exported(folder, tmp_path / "out", *extra)
    assert set(aggregates) == set(samples) == {"pragmatch", "clash"}
    rows = [sample for found in samples.values() for sample in found]
    for schema, made in ((schemas[0], aggregates.values()), (schemas[1], rows)):
        validator = jsonschema.validators.validator_for(schema)(schema)
        for one in made:
            validator.validate(one)


def test_scores_and_uncertainty_are_those_of_the_records(folder, tmp_path):
    aggregates, _ = exported(folder, tmp_path / "out")
    answers = [Answer.of(r) for r in full_tasks()["pragmatch_pml"]]
    found = {
        r["metric_config"]["metric_name"]: r
        for r in aggregates["pragmatch"]["evaluation_results"]
        if r["evaluation_name"] == "pragmatch_pml"
    }
    for name in ("accuracy", "f1", "auroc", "acc_l", "pair_acc", "group_acc", "pair_ranking"):
        details = found[name]["score_details"]
        assert details["score"] == pytest.approx(metrics.figure(name, answers, metrics.PML))
        interval = details["uncertainty"]["confidence_interval"]
        assert interval["lower"] <= details["score"] <= interval["upper"]
        assert interval["confidence_level"] == 0.95
        assert details["uncertainty"]["standard_error"]["value"] > 0
    assert "num_bootstrap_samples" not in found["f1"]["score_details"]["uncertainty"]
    assert found["accuracy"]["generation_config"]["generation_args"]["max_tokens"] == 16
    conflict = aggregates["clash"]["evaluation_results"]
    names = {(r["evaluation_name"], r["metric_config"]["metric_name"]) for r in conflict}
    assert ("clash_open_original", "false_alarms") in names
    assert ("clash_open_original", "conflict") not in names


def test_every_sample_joins_one_result_and_the_checksum_holds(folder, tmp_path):
    aggregates, samples = exported(folder, tmp_path / "out")
    for benchmark, aggregate in aggregates.items():
        ids = [r["evaluation_result_id"] for r in aggregate["evaluation_results"]]
        assert len(ids) == len(set(ids))
        assert {s["evaluation_result_id"] for s in samples[benchmark]} <= set(ids)
        assert {s["evaluation_id"] for s in samples[benchmark]} == {aggregate["evaluation_id"]}
        detail = aggregate["detailed_evaluation_results"]
        text = (tmp_path / "out" / detail["file_path"]).read_bytes()
        assert hashlib.sha256(text).hexdigest() == detail["checksum"]
        assert detail["total_rows"] == len(samples[benchmark])
    keys = [(s["evaluation_name"], s["sample_id"]) for s in samples["pragmatch"]]
    assert len(keys) == len(set(keys))
    by_result = {}
    for s in samples["pragmatch"]:
        by_result.setdefault(s["evaluation_result_id"], []).append(s["evaluation"]["score"])
    for result in aggregates["pragmatch"]["evaluation_results"]:
        scores = by_result.get(result["evaluation_result_id"])
        if scores:
            assert sum(scores) / len(scores) == pytest.approx(result["score_details"]["score"])


def test_captions_questions_and_reasonings_leave_only_when_asked(folder, tmp_path):
    exported(folder, tmp_path / "closed")
    closed = "".join(p.read_text() for p in (tmp_path / "closed").rglob("*_samples.jsonl"))
    for secret in ("a caption of", "lunch number", "above a ball"):
        assert secret not in closed
    exported(folder, tmp_path / "open", "--with-text")
    opened = "".join(p.read_text() for p in (tmp_path / "open").rglob("*_samples.jsonl"))
    assert "a caption of" in opened
    assert "lunch number" in opened
    hashes = [
        {json.loads(line)["sample_hash"] for line in text.splitlines()} for text in (closed, opened)
    ]
    assert hashes[0] == hashes[1]
    assert '"image_id": "0003"' in closed


def test_keys_never_leave(folder, tmp_path):
    exported(folder, tmp_path / "out")
    assert "sk-9" not in "".join(p.read_text() for p in (tmp_path / "out").rglob("*.json"))


def test_the_same_run_gives_the_same_files_and_other_answers_others(folder, tmp_path):
    exported(folder, tmp_path / "one")
    exported(folder, tmp_path / "one")
    exported(folder, tmp_path / "two")
    names = [sorted(p.name for p in (tmp_path / n).rglob("*.json*")) for n in ("one", "two")]
    assert names[0] == names[1]
    assert len(names[0]) == 4
    write_run(tmp_path / "other", full_tasks(pictures=19), model_args=ARGS)
    exported(tmp_path / "other", tmp_path / "three")
    others = (tmp_path / "three" / "data" / "pragmatch").rglob("*")
    assert not set(names[0]) & {path.name for path in others}


def test_a_file_that_differs_is_not_overwritten(folder, tmp_path, capsys):
    exported(folder, tmp_path / "out")
    (path,) = (tmp_path / "out" / "data" / "clash").rglob("*_samples.jsonl")
    path.write_text("mine\n")
    argv = ("--runs", folder, "--format", "eee", "--out", tmp_path / "out", *WHO)
    assert command(*argv) == 1
    assert "--force" in capsys.readouterr().err
    assert path.read_text() == "mine\n"
    assert command(*argv, "--force") == 0


def test_the_time_is_that_of_the_run_with_its_zone(folder, tmp_path):
    aggregates, _ = exported(folder, tmp_path / "out")
    moment = datetime.datetime.fromisoformat(aggregates["clash"]["evaluation_timestamp"])
    assert moment == datetime.datetime(2026, 8, 1, 4, 0, tzinfo=datetime.UTC)
    assert aggregates["clash"]["retrieved_timestamp"] == str(int(moment.timestamp()))
    assert aggregates["clash"]["evaluation_id"].startswith("clash/org_model-7b/")


@pytest.mark.parametrize(
    ("records", "options", "reason"),
    [
        ({"kind": "sample"}, {}, "made on sample data"),
        ({"kind": "custom"}, {}, "made on custom data"),
        ({}, {"limit": 8}, "made with --limit 8"),
        ({}, {"effective": {"pragmatch_pm": 100}}, "incomplete"),
    ],
)
def test_what_is_no_benchmark_result_is_refused_with_the_reason(
    tmp_path, capsys, records, options, reason
):
    task = synthetic.pragmatch("pragmatch_pm", synthetic.always_no, 4, **records)
    write_run(tmp_path / "run", {"pragmatch_pm": task}, model_args=ARGS, **options)
    out = tmp_path / "out"
    for form in ("eee", "hf"):
        argv = ("--dataset-id", "pragmatch=a/b") if form == "hf" else ()
        assert command("--runs", tmp_path / "run", "--format", form, "--out", out, *WHO, *argv) == 1
        assert reason in capsys.readouterr().err
    assert not out.exists()


def test_failed_requests_and_offsets_are_refused(tmp_path, capsys):
    task = synthetic.pragmatch(
        "pragmatch_pm",
        lambda n, slot: "[LMMS_EVAL_REQUEST_FAILED after 3 retries] x" if n == 1 else "No",
    )
    place = write_run(tmp_path / "run", {"pragmatch_pm": task}, model_args=ARGS)
    (path,) = place.glob("*_results.json")
    results = json.loads(path.read_text())
    results["config"]["offset"] = 5
    path.write_text(json.dumps(results))
    argv = ("--runs", tmp_path / "run", "--format", "eee", "--out", tmp_path / "out", *WHO)
    assert command(*argv) == 1
    error = capsys.readouterr().err
    assert "2 requests failed" in error
    assert "--offset 5" in error


def test_rescored_predictions_are_refused(tmp_path, capsys):
    records = synthetic.clash("clash_mc", lambda n: "(A)")
    for record in records:
        record["dataset_fingerprint"] = None
    write_run(tmp_path / "run", {"clash_mc": records}, model="pragclash_score")
    argv = ("--runs", tmp_path / "run", "--format", "eee", "--out", tmp_path / "out", *WHO)
    assert command(*argv) == 1
    assert "no fingerprint" in capsys.readouterr().err


def test_one_bad_task_can_be_left_out_by_name(tmp_path):
    tasks = {
        "pragmatch_pm": synthetic.pragmatch("pragmatch_pm", synthetic.skilled()),
        "pragmatch_pml": synthetic.pragmatch("pragmatch_pml", synthetic.skilled(), kind="custom"),
    }
    write_run(tmp_path / "run", tasks, model_args=ARGS)
    aggregates, _ = exported(tmp_path / "run", tmp_path / "out", "--tasks", "pragmatch_pm")
    names = {r["evaluation_name"] for r in aggregates["pragmatch"]["evaluation_results"]}
    assert names == {"pragmatch_pm"}


def test_what_is_missing_is_asked_for_by_name(tmp_path, capsys):
    task = synthetic.pragmatch("pragmatch_pm", synthetic.skilled())
    write_run(tmp_path / "run", {"pragmatch_pm": task}, model="mine", model_args="")
    argv = ("--runs", tmp_path / "run", "--format", "eee", "--out", tmp_path / "out")
    assert command(*argv) == 1
    error = capsys.readouterr().err
    assert "--model-id" in error
    assert "--organization" in error
    assert command(*argv, "--model-id", "../../etc", "--organization", "x") == 1
    assert "'../../etc'" in capsys.readouterr().err
    assert command("--runs", tmp_path / "nothing", "--format", "eee") == 2


def test_the_hub_id_of_the_run_is_taken_unless_told_otherwise(folder, tmp_path):
    out = tmp_path / "out"
    assert command("--runs", folder, "--format", "eee", "--out", out, "--organization", "x") == 0
    assert (out / "data" / "clash" / "org" / "model-7b").is_dir()
    (run,) = read_runs([folder]).runs
    assert export.model_id_of(run) == "org/model-7b"


def test_the_model_page_shows_the_paired_number(folder, tmp_path, capsys):
    out = tmp_path / "out"
    argv = ("--runs", folder, "--format", "hf", "--out", out, *WHO)
    assert command(*argv) == 1
    assert "--dataset-id pragmatch=" in capsys.readouterr().err
    ids = ("--dataset-id", "pragmatch=lab/pragmatch", "--dataset-id", "clash=lab/clash")
    assert command(*argv, *ids) == 0
    entries = yaml.safe_load((out / ".eval_results" / "pragmatch.yaml").read_text())
    assert [e["dataset"]["task_id"] for e in entries] == [
        "pragmatch_p_minus_ocr",
        "pragmatch_pm_cot",
        "pragmatch_pml",
    ]
    answers = [Answer.of(r) for r in full_tasks()["pragmatch_pml"]]
    group = entries[2]
    assert group["dataset"]["id"] == "lab/pragmatch"
    assert group["value"] == round(100 * metrics.figure("group_acc", answers, metrics.PML), 2)
    assert group["date"] == "2026-08-01"
    assert group["notes"].startswith("group_acc, percent, 95% interval ")
    assert command(*argv, "--dataset-id", "pragmatch=nonsense") == 1


def test_a_stamp_that_is_no_date_is_named(tmp_path, capsys):
    task = synthetic.pragmatch("pragmatch_pm", synthetic.skilled())
    write_run(tmp_path / "run", {"pragmatch_pm": task}, model_args=ARGS, date="99999999_999999")
    argv = ("--runs", tmp_path / "run", "--format", "eee", "--out", tmp_path / "out", *WHO)
    assert command(*argv) == 1
    assert "is no date" in capsys.readouterr().err
