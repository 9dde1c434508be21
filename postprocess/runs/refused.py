"""Whether a task's answers are a result at all: one rule for the launcher and for every reader.

A run whose requests failed is no measurement: shown as a row, it would look like a model that never
sees a conflict. The launcher refuses such a task and exits 1; tables, reports and comparisons leave
it out and name it. Nothing here reads a file or an answer's words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from postprocess.response.line import LEFT_OUT
from postprocess.runs.folder import Problem, Runs

MAX_FAILED = 0.01
"""Share of failed requests of a task above which the run is not a result."""


class TaskAnswers(NamedTuple):
    """How the answers of one task came out."""

    n: int
    empty: int
    failed: int


def counted(records: Iterable[Mapping[str, Any]]) -> TaskAnswers:
    """Count the empty and the failed among records; a vote that was never cast is no answer.

    >>> counted([{"status": "ok"}, {"status": "failed"}, {"status": "left_out"}])
    TaskAnswers(n=2, empty=0, failed=1)
    """
    asked = [record["status"] for record in records if record["status"] != LEFT_OUT]
    return TaskAnswers(len(asked), asked.count("empty"), asked.count("failed"))


def faults_of(task: str, answers: TaskAnswers) -> list[str]:
    """What makes a task's answers no result, in words; empty where they are one.

    >>> faults_of("pragmatch_pm", TaskAnswers(n=200, empty=3, failed=2))
    []
    """
    n, empty, failed = answers
    if not n:
        return []
    if empty + failed == n:
        how = "empty" if not failed else "failed" if not empty else "empty or failed"
        return [f"{task}: all {n} answers are {how}: this is no result"]
    if failed > MAX_FAILED * n:
        return [f"{task}: {failed} of {n} requests failed (more than {MAX_FAILED:.0%})"]
    return []


def results_only(runs: Runs) -> Runs:
    """The runs without tasks that the launcher would refuse; each of those becomes a problem."""
    kept, problems = [], list(runs.problems)
    for run in runs.runs:
        faults = {
            name: fault
            for name, task in run.tasks.items()
            for fault in faults_of(name, counted(task.records))
        }
        problems += [Problem(run.label, fault) for fault in faults.values()]
        tasks = {name: task for name, task in run.tasks.items() if name not in faults}
        if tasks:
            kept.append(run if not faults else replace(run, tasks=tasks))
    return Runs(tuple(kept), tuple(problems))
