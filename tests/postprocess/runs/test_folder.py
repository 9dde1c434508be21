"""What a run folder may hold, what is read from it, and what is said about the rest."""

import json

import pytest

from postprocess.response.line import RECORD_VERSION
from postprocess.runs.folder import model_name, read_runs
from tests.postprocess import synthetic
from tests.postprocess.run_folders import write_run


def a_record(number, task="pragmatch_pm", condition="P", **other):
    return {
        "record": RECORD_VERSION,
        "task": task,
        "sample_id": f"{number}-{condition}",
        "image_id": str(number),
        "condition": condition,
        "cue": None,
        "edit": None,
        "modality": "image_text",
        "prompt": "zero_shot",
        "label": int(condition == "P"),
        "response": "Yes",
        "status": "ok",
        "verdict": 1,
        "correct": int(condition == "P"),
        "s": 0.5,
        "mass": 0.9,
        "s_source": "logprobs",
        "dataset_kind": "sample",
        "dataset_fingerprint": "f" * 64,
        "n_omitted": 0,
        **other,
    }


def pairs(count, task="pragmatch_pm", **other):
    return [a_record(n, task, c, **other) for n in range(count) for c in "PM"]


def said(runs):
    return "\n".join(map(str, runs.problems))


def test_a_run_is_read_from_the_first_metric_alone(tmp_path):
    write_run(tmp_path, {"pragmatch_pm": pairs(3)}, limit=6)
    (run,), problems = read_runs([tmp_path])
    assert problems == ()
    assert run.label == "tiny-model"
    task = run.tasks["pragmatch_pm"]
    assert list(task.records) == pairs(3)
    assert task.complete
    assert task.limit == 6
    assert task.prompts[0].startswith("Is this sarcastic?")
    assert task.config["generation_kwargs"]["max_new_tokens"] == 16
    assert task.values("dataset_kind") == ("sample",)


def test_records_stand_in_document_order_whatever_the_ranks_wrote(tmp_path):
    place = write_run(tmp_path, {"pragmatch_pm": pairs(4)})
    (path,) = place.glob("*_samples_*")
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[0::2] + lines[1::2]) + "\n")
    (run,), _ = read_runs([tmp_path])
    assert list(run.records("pragmatch_pm")) == pairs(4)


def test_a_killed_run_is_named_and_its_whole_rows_are_kept(tmp_path):
    place = write_run(
        tmp_path, {"pragmatch_pm": pairs(3), "pragmatch_p": [a_record(1, "pragmatch_p")]}
    )
    path = place / "20260801_120000_samples_pragmatch_pm.jsonl"
    text = path.read_text()
    path.write_text(text[: len(text) - 40])
    runs = read_runs([tmp_path])
    assert f"{path}:6: the row is cut off (a killed run)" in said(runs)
    assert "5 of 6 documents" in said(runs)
    assert len(runs.runs[0].records("pragmatch_pm")) == 5
    assert not runs.runs[0].tasks["pragmatch_pm"].complete
    assert runs.runs[0].tasks["pragmatch_p"].complete


def test_a_run_cut_between_rows_is_not_complete(tmp_path):
    write_run(tmp_path, {"pragmatch_pm": pairs(2)}, effective={"pragmatch_pm": 10})
    runs = read_runs([tmp_path])
    assert "4 of 10 documents" in said(runs)
    assert not runs.runs[0].tasks["pragmatch_pm"].complete


def test_an_empty_sample_file_is_named(tmp_path):
    place = write_run(tmp_path, {"pragmatch_pm": pairs(1)})
    (place / "20260801_120000_samples_pragmatch_pm.jsonl").write_text("")
    runs = read_runs([tmp_path])
    assert "0 of 2 documents" in said(runs)
    assert "empty" in said(runs)


def test_a_folder_without_samples_says_which_flag_was_missing(tmp_path):
    write_run(tmp_path / "a", {"pragmatch_pm": pairs(1)}, samples=False)
    write_run(tmp_path / "b", {"pragmatch_pm": pairs(1)})
    runs = read_runs([tmp_path / "a", tmp_path / "b", tmp_path / "absent"])
    assert "--log_samples" in said(runs)
    assert f"{tmp_path / 'absent'}: no such folder" in said(runs)
    assert len(runs.runs) == 1


def test_a_task_without_its_log_is_named(tmp_path):
    place = write_run(
        tmp_path, {"pragmatch_pm": pairs(1), "pragmatch_l": [a_record(1, "pragmatch_l")]}
    )
    (place / "20260801_120000_samples_pragmatch_l.jsonl").unlink()
    assert "no sample log of pragmatch_l" in said(read_runs([tmp_path]))


def test_two_runs_of_one_task_show_the_newest_whole_one_and_name_the_other(tmp_path):
    write_run(tmp_path, {"pragmatch_pm": pairs(3)}, date="20260801_120000")
    write_run(tmp_path, {"pragmatch_pm": pairs(2)}, date="20260802_120000")
    write_run(
        tmp_path, {"pragmatch_pm": pairs(1)}, date="20260803_120000", effective={"pragmatch_pm": 4}
    )
    runs = read_runs([tmp_path])
    (run,) = runs.runs
    assert len(run.records("pragmatch_pm")) == 4
    assert said(runs).count("a second run of pragmatch_pm") == 2


def test_a_resumed_run_is_one_run(tmp_path):
    write_run(tmp_path / "a", {"pragmatch_pm": pairs(1)}, date="20260801_120000")
    write_run(tmp_path / "a", {"pragmatch_p": [a_record(1, "pragmatch_p")]}, date="20260801_130000")
    write_run(tmp_path / "b", {"pragmatch_m": [a_record(1, "pragmatch_m", "M")]})
    (run,), problems = read_runs([tmp_path / "a", tmp_path / "b"])
    assert list(run.tasks) == ["pragmatch_m", "pragmatch_p", "pragmatch_pm"]
    assert problems == ()


def test_the_same_task_in_two_folders_stays_two_runs_with_different_labels(tmp_path):
    for name in "ab":
        write_run(tmp_path / name, {"pragmatch_pm": pairs(1)})
    runs, _ = read_runs([tmp_path / "a", tmp_path / "b"])
    assert [run.label for run in runs] == [
        f"tiny-model ({tmp_path / 'a'})",
        f"tiny-model ({tmp_path / 'b'})",
    ]


def test_labels_name_what_tells_two_models_apart(tmp_path):
    for i, arguments in enumerate(["annotator=ann", "annotator=ben"]):
        write_run(
            tmp_path,
            {"pragmatch_pm": pairs(1)},
            model="human_votes",
            model_args=arguments,
            date=f"2026080{i + 1}_120000",
        )
    runs, problems = read_runs([tmp_path])
    assert problems == ()
    assert [run.label for run in runs] == [
        "human_votes (annotator=ann)",
        "human_votes (annotator=ben)",
    ]


def test_records_of_another_version_are_named_and_left_out(tmp_path):
    records = pairs(2)
    records[1]["record"] = 7
    write_run(tmp_path, {"pragmatch_pm": records})
    runs = read_runs([tmp_path])
    assert "version '7'" in said(runs)
    assert f"reads version {RECORD_VERSION}" in said(runs)
    assert len(runs.runs[0].records("pragmatch_pm")) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_id": 7}, "image_id is a number, not a word"),
        ({"image_id": ""}, "no image_id"),
        ({"sample_id": ""}, "no sample_id"),
        ({"status": "fine"}, "unknown status 'fine'"),
        ({"s": float("nan")}, "not a finite number"),
        ({"task": "pragmatch_p"}, "a record of task 'pragmatch_p'"),
        ({"sample_id": "0-P"}, "a second time"),
        ({"verdict": 5}, "verdict is 5"),
        ({"correct": 0}, "correct is 0"),
    ],
)
def test_a_damaged_record_is_named_with_its_row(tmp_path, change, message):
    records = pairs(2)
    records[2].update(change)
    write_run(tmp_path, {"pragmatch_pm": records})
    runs = read_runs([tmp_path])
    assert message in said(runs)
    assert ".jsonl:3:" in said(runs)
    assert len(runs.runs[0].records("pragmatch_pm")) == 3


def test_rows_that_are_no_records_are_named(tmp_path):
    place = write_run(tmp_path, {"pragmatch_pm": pairs(1)})
    (path,) = place.glob("*_samples_*")
    rows = ['{"doc_id": 0, "accuracy": 1.0}', "[1]", "{oops", ""]
    path.write_text("\n".join(rows) + "\n" + path.read_text())
    runs = read_runs([tmp_path])
    for message in ("no record of this suite", "not a JSON object", "not readable as JSON"):
        assert message in said(runs)
    assert len(runs.runs[0].records("pragmatch_pm")) == 2


def test_tasks_of_others_and_lost_results_files_are_named(tmp_path):
    place = write_run(tmp_path, {"pragmatch_pm": pairs(1), "mme": [a_record(1, "mme")]})
    (place / "20260801_120000_results.json").unlink()
    runs = read_runs([tmp_path])
    assert "mme.jsonl: not a task of this suite" in said(runs)
    assert "model and settings are unknown" in said(runs)
    assert runs.runs[0].model == "unknown"
    assert runs.runs[0].label == "tiny-model"


def test_a_results_file_that_is_no_json_is_named(tmp_path):
    place = write_run(tmp_path, {"pragmatch_pm": pairs(1)})
    (place / "20260801_120000_results.json").write_text("{")
    runs = read_runs([tmp_path])
    assert "not readable as JSON" in said(runs)
    assert len(runs.runs) == 1


def test_odd_text_survives_reading(tmp_path):
    odd = "</script>\u2028\x85\x0b\ud800 é"
    records = pairs(1)
    records[0]["response"] = odd
    place = write_run(tmp_path, {"pragmatch_pm": records})
    (run,), problems = read_runs([tmp_path])
    assert problems == ()
    assert run.records("pragmatch_pm")[0]["response"] == odd
    (path,) = place.glob("*_samples_*")
    row = json.loads(path.read_text().splitlines()[1])
    row["accuracy"]["response"] = "\u2028\x85 raw"
    path.write_text(json.dumps(row, ensure_ascii=False) + "\n")
    (run,), problems = read_runs([tmp_path])
    assert run.records("pragmatch_pm")[0]["response"] == "\u2028\x85 raw"


def test_model_arguments_as_a_mapping_are_read(tmp_path):
    place = write_run(tmp_path, {"pragmatch_pm": pairs(1)})
    (path,) = place.glob("*_results.json")
    results = json.loads(path.read_text())
    results["config"]["model_args"] = {"pretrained": "org/other", "device": "cpu"}
    path.write_text(json.dumps(results))
    (run,), _ = read_runs([tmp_path])
    assert run.label == "other"
    assert run.arguments == {"pretrained": "org/other", "device": "cpu"}


def test_a_model_without_weights_is_called_by_its_id():
    assert model_name("caption_format", "") == "caption_format"
    assert model_name("x", "pretrained=/models/abc/") == "abc"


def test_rotations_of_one_sample_are_documents_of_their_own(tmp_path):
    records = [
        {**record, "rotation": rotation}
        for record in synthetic.clash("clash_mc_circular", lambda n: "(A)", 3)
        for rotation in range(4)
    ]
    write_run(tmp_path, {"clash_mc_circular": [*records, records[0]]})
    runs = read_runs([tmp_path])
    assert "a second time" in said(runs)
    assert len(runs.runs[0].records("clash_mc_circular")) == 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flag_conflict": 2}, "conflict is neither 0 nor 1"),
        ({"letter_correct": "yes"}, "letter_correct is neither"),
        ({"outcome": 3}, "outcome is a number, not a word"),
    ],
)
def test_a_damaged_clash_record_is_named(tmp_path, change, message):
    records = synthetic.clash("clash_mc", lambda n: "(A)", 3)
    records[1].update(change)
    write_run(tmp_path, {"clash_mc": records})
    runs = read_runs([tmp_path])
    assert message in said(runs)
    assert len(runs.runs[0].records("clash_mc")) == 2


def test_secrets_among_model_arguments_are_not_read(tmp_path):
    arguments = "model=gpt-5,api_key=sk-1,HF_TOKEN=hf_2,tokenizer=t,max_new_tokens=4"
    write_run(tmp_path, {"pragmatch_pm": pairs(1)}, model_args=arguments)
    (run,), _ = read_runs([tmp_path])
    assert run.model_args == (
        "model=gpt-5,api_key=REDACTED,HF_TOKEN=REDACTED,tokenizer=t,max_new_tokens=4"
    )
