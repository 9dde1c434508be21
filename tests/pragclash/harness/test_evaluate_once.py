"""Finished tasks are not run again; whatever changes a result makes a task unfinished."""

import contextlib
import json
import resource
import subprocess
from pathlib import Path

import pytest

from postprocess.benchmarks.pragmatch_tasks import task_names
from pragclash.harness import evaluate_once
from pragclash.harness.evaluate_once import leaves


class Launcher:
    def __init__(self) -> None:
        self.status = 0
        self.writes = True
        self.calls: list[list[str]] = []

    def __call__(self, command: list[str]) -> int:
        """Write what a launch writes: one results file, and a sample log a task."""
        self.calls.append(command)
        folder = Path(command[command.index("--output_path") + 1]) / "model"
        folder.mkdir(parents=True, exist_ok=True)
        if self.writes:
            stamp = f"20260101_{len(self.calls):06}"
            (folder / f"{stamp}_results.json").write_text("{}\n")
            for task in asked(command):
                (folder / f"{stamp}_samples_{task}.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
        return self.status


@pytest.fixture
def launcher(monkeypatch):
    stand_in = Launcher()
    monkeypatch.setattr(subprocess, "call", stand_in)
    return stand_in


def run(tmp_path, tasks: str, **options: str) -> int:
    options = {"model": "dummy", **options}
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    return evaluate_once.main(["--out", str(tmp_path), "--tasks", tasks, *flags])


def asked(command: list[str]) -> list[str]:
    return command[command.index("--tasks") + 1].split(",")


def test_a_task_of_two_tables_runs_once(tmp_path, launcher):
    assert run(tmp_path, "pragmatch_table1") == 0
    assert run(tmp_path, "pragmatch_table4") == 0
    first, second = map(asked, launcher.calls)
    assert first == ["pragmatch_pml", "pragmatch_pml_cot"]
    assert not set(first) & set(second)
    assert set(first) | set(second) == set(leaves(["pragmatch_table1", "pragmatch_table4"]))
    assert run(tmp_path, "pragmatch_table1,pragmatch_table4") == 0
    assert len(launcher.calls) == 2


def test_a_failed_evaluation_is_not_finished_and_keeps_its_status(tmp_path, launcher):
    launcher.status = 1
    assert run(tmp_path, "pragmatch_pm") == 1
    launcher.status = 0
    assert run(tmp_path, "pragmatch_pm") == 0
    assert len(launcher.calls) == 2


@pytest.mark.parametrize("change", [{"limit": "4"}, {"model_args": "a=1"}, {"model": "other"}])
def test_another_limit_model_or_argument_is_another_evaluation(tmp_path, launcher, change):
    run(tmp_path, "pragmatch_pm")
    run(tmp_path, "pragmatch_pm", **change)
    assert len(launcher.calls) == 2


def test_other_data_is_another_evaluation(tmp_path, launcher, monkeypatch):
    run(tmp_path / "out", "pragmatch_pm")
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path / "nowhere"))
    run(tmp_path / "out", "pragmatch_pm")
    assert len(launcher.calls) == 2


def test_bundles_come_apart_into_known_tasks():
    assert set(leaves(["pragmatch", "pragmatch_cot"])) <= set(task_names())
    assert leaves(["clash_mc", "clash_mc"]) == ["clash_mc"]


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))


def test_a_mark_names_its_files_with_rows_and_hashes(tmp_path, launcher):
    run(tmp_path, "pragmatch_pm", model_args="api_key=abc,x=1")
    (mark,) = files(tmp_path, "finished/*")
    content = json.loads(mark.read_text())
    assert content["model_args"] == "api_key=REDACTED,x=1"
    rows = {Path(name).name: file["rows"] for name, file in content["files"].items()}
    assert rows == {
        "20260101_000001_results.json": 1,
        "20260101_000001_samples_pragmatch_pm.jsonl": 2,
    }
    assert all(len(file["sha256"]) == 64 for file in content["files"].values())


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def without_files(path: Path) -> None:
    """A mark as earlier releases wrote them."""
    content = json.loads(path.read_text())
    path.write_text(json.dumps({name: content[name] for name in ("task", "model", "model_args")}))


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        ("*_results.json", emptied),
        ("*_samples_*", emptied),
        ("*_samples_*", truncated),
        ("*_results.json", Path.unlink),
        ("*_samples_*", Path.unlink),
        ("finished/*", emptied),
        ("finished/*", truncated),
        ("finished/*", without_files),
    ],
)
def test_a_mark_is_believed_only_while_its_files_hold(tmp_path, launcher, pattern, damage):
    run(tmp_path, "pragmatch_pm")
    run(tmp_path, "pragmatch_pm")
    assert len(launcher.calls) == 1
    (path,) = files(tmp_path, pattern)
    damage(path)
    run(tmp_path, "pragmatch_pm")
    assert len(launcher.calls) == 2
    run(tmp_path, "pragmatch_pm")
    assert len(launcher.calls) == 2


def test_a_launch_that_writes_nothing_is_not_finished(tmp_path, launcher, capsys):
    launcher.writes = False
    assert run(tmp_path, "pragmatch_pm") == 1
    assert "pragmatch_pm is not marked as finished: no new results file" in capsys.readouterr().err
    assert not files(tmp_path, "finished/*")


@contextlib.contextmanager
def full_disk():
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_no_mark(tmp_path, launcher, capsys):
    run(tmp_path, "pragmatch_pm")
    (mark,) = files(tmp_path, "finished/*")
    mark.unlink()
    with full_disk():
        assert run(tmp_path, "pragmatch_pm") == 1
    assert "cannot be written (File too large)" in capsys.readouterr().err
    assert not files(tmp_path, "finished/*")
    assert run(tmp_path, "pragmatch_pm") == 0
    assert len(files(tmp_path, "finished/*")) == 1


def test_a_retrained_adapter_is_evaluated_anew(tmp_path, launcher):
    adapter = tmp_path / "adapter-filtered"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"0")
    arguments = f"backend=llava_hf,pretrained=llava-hf/llava-1.5-7b-hf,peft={adapter}"
    for content, calls in ((b"0", 1), (b"0", 1), (b"1", 2), (b"1", 2)):
        (adapter / "adapter_model.safetensors").write_bytes(content)
        assert run(tmp_path / "out", "clash_open", model_args=arguments) == 0
        assert len(launcher.calls) == calls


def test_weights_that_change_while_they_are_evaluated_are_not_finished(
    tmp_path, launcher, monkeypatch, capsys
):
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"0")

    def retrained_meanwhile(command):
        weights.write_bytes(b"1")
        return launcher(command)

    monkeypatch.setattr(subprocess, "call", retrained_meanwhile)
    assert run(tmp_path / "out", "pragmatch_pm", model_args=f"model={weights}") == 1
    assert "its weights changed while it ran" in capsys.readouterr().err
    assert not files(tmp_path, "finished/*")
