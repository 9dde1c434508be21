"""Finished tasks are not run again; whatever changes a result makes a task unfinished."""

import subprocess

import pytest

from postprocess.benchmarks.pragmatch_tasks import task_names
from pragclash.harness import evaluate_once
from pragclash.harness.evaluate_once import leaves


class Launcher:
    def __init__(self) -> None:
        self.status = 0
        self.calls: list[list[str]] = []

    def __call__(self, command: list[str]) -> int:
        self.calls.append(command)
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
