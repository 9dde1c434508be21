"""Two runs on the same pictures, difference by difference.

Everything is paired: only units (complete pictures, documents) that both runs answered count, the
interval and its test rest on the pictures that both share. The units on
which the two differ are listed, because they are what one wants to look at next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from postprocess.benchmarks.base import owner
from postprocess.measure.estimate import Difference, differences
from postprocess.measure.intervals import too_few
from postprocess.measure.significance import holm
from postprocess.runs.folder import Run, Runs
from postprocess.runs.refused import results_only
from postprocess.tables.build import identities_of
from postprocess.tables.model import DEFAULT, Builder, Options


class NoResultError(ValueError):
    """A run whose answers are no result: its requests failed or came back empty."""


SHOWN = 20
"""Differing pictures printed for each task; the JSON holds all."""


class Differing(NamedTuple):
    """A picture (or a CLASH document) on which two runs differ."""

    unit: str
    """Image id; in CLASH sample id."""
    a: dict[str, Any]
    """What A made of it: right or wrong by slot, or the outcome."""
    b: dict[str, Any]


class TaskComparison(NamedTuple):
    """One task that both runs hold."""

    task: str
    n: int
    """Pictures complete in both; in CLASH documents that both answered."""
    only_in_a: int
    """Pictures (documents) that only A answered completely."""
    only_in_b: int
    differences: list[Difference]
    differing: list[Differing]


class Comparison(NamedTuple):
    """Two runs, task by task."""

    a: Run
    b: Run
    tasks: list[TaskComparison]
    unshared: list[str]
    """Tasks that one of them lacks."""
    notes: list[str]


def compare(a: Run, b: Run, options: Options = DEFAULT) -> Comparison:
    """Compare two runs on every task that both hold.

    Raises:
        MixedError: Their data, prompts or settings differ, and `options.mix` is off.
        NoResultError: A run holds no result.
    """
    a, b = _results_of(a), _results_of(b)
    shared = [task for task in a.tasks if task in b.tasks]
    used = [(run, run.tasks[task]) for run in (a, b) for task in shared]
    notes = identities_of(used, options.mix).notes
    builder = Builder("", (a, b), options, {}, shared)
    for run, task in used:
        told = owner(task.task).judges_told(builder.answers(run, task.task), options.judges)
        if told is not None:
            notes.append(f"{run.label}, {task.task}: {told}")
    compared = [_compare(builder, a, b, task) for task in shared]
    return Comparison(a, b, compared, sorted(a.tasks.keys() ^ b.tasks.keys()), notes)


def _results_of(run: Run) -> Run:
    """The run without the tasks that are no result.

    Raises:
        NoResultError: Nothing is left.
    """
    kept = results_only(Runs((run,), ()))
    if not kept.runs:
        raise NoResultError("; ".join(map(str, kept.problems)))
    return kept.runs[0]


def _compare(build: Builder, a: Run, b: Run, task: str) -> TaskComparison:
    benchmark = owner(task)
    sides = [build.answers(run, task) for run in (a, b)]
    units = [benchmark.units(task, side) for side in sides]
    common = sorted(units[0].keys() & units[1].keys(), key=str)
    differing = [
        Differing(left.name, left.told, right.told)
        for left, right in ((units[0][key], units[1][key]) for key in common)
        if left.told != right.told
    ]
    frames = benchmark.paired(task, sides[0], sides[1], build.options.judges)
    found = differences(benchmark.metrics.values(), *frames, build.options.sampling)
    n = len(common)
    only_a, only_b = (len(side) - n for side in units)
    return TaskComparison(task, n, only_a, only_b, found, differing)


def _adjusted(comparison: Comparison) -> dict[tuple[str, str], float | None]:
    """Holm's p of every difference, over all tasks and metrics of the comparison."""
    found = {(one.task, d.metric): d for one in comparison.tasks for d in one.differences}
    return dict(zip(found, holm([d.test.p_value for d in found.values()]), strict=True))


def as_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON values; rates as proportions."""
    adjusted = _adjusted(comparison)
    return {
        "a": comparison.a.label,
        "b": comparison.b.label,
        "notes": comparison.notes,
        "unshared": comparison.unshared,
        "tasks": [
            {
                "task": one.task,
                "n": one.n,
                "only_in_a": one.only_in_a,
                "only_in_b": one.only_in_b,
                "differences": [
                    {
                        "metric": d.metric,
                        "a": d.a,
                        "b": d.b,
                        "difference": d.estimate.value,
                        "low": d.estimate.low,
                        "high": d.estimate.high,
                        "n": d.estimate.n,
                        "p_value": d.test.p_value,
                        "exact": d.test.exact,
                        "differ": d.test.differ,
                        "at_most": d.test.at_most,
                        "holm": adjusted[one.task, d.metric],
                        "why": d.why,
                        "too_few": too_few(d.estimate.n),
                        "only_a": d.only_a,
                        "only_b": d.only_b,
                    }
                    for d in one.differences
                ],
                "differing": [d._asdict() for d in one.differing],
            }
            for one in comparison.tasks
        ],
    }


def as_text(comparison: Comparison) -> str:
    """A comparison to be read on a screen."""
    adjusted = _adjusted(comparison)
    lines = [f"A: {comparison.a.label}", f"B: {comparison.b.label}"]
    lines += [f"  {note}" for note in comparison.notes]
    for one in comparison.tasks:
        lines += ["", f"{one.task}: {one.n} in both"]
        if one.only_in_a or one.only_in_b:
            lines[-1] += f"; left out: {one.only_in_a} only in A, {one.only_in_b} only in B"
        head = f"  {'':<18}{'A':>7}{'B':>7}{'A-B':>8}  {'interval':<18}{'p':>9}{'Holm':>9}{'n':>6}"
        lines.append(f"{head}  only A, only B")
        for d in one.differences:
            lines.append(_line(d, adjusted[one.task, d.metric]))
            lines += [f"    {d.why}"] if d.why else []
        if one.differing:
            lines.append(f"  {len(one.differing)} {owner(one.task).unit} on which they differ:")
            lines += [
                f"    {d.unit}: A {_brief(d.a)}, B {_brief(d.b)}" for d in one.differing[:SHOWN]
            ]
            if len(one.differing) > SHOWN:
                lines.append(f"    and {len(one.differing) - SHOWN} more (--json lists all)")
    if comparison.unshared:
        lines += ["", f"only in one of the two: {', '.join(comparison.unshared)}"]
    lines += [
        "",
        "Rates in percent, differences in points, 95% intervals and p over n pictures; p is of the",
        "test that the interval inverts, and --json has the exact one too. Holm: p adjusted for",
        "all tasks and metrics above. n below 8: too few pictures to tell.",
    ]
    return "\n".join(lines) + "\n"


def _line(d: Difference, adjusted: float | None) -> str:
    def percent(value: float | None) -> str:
        return "n/a" if value is None else f"{100 * value:.1f}"

    value, low, high = d.estimate[:3]
    interval = "" if low is None or high is None else f"[{100 * low:+.1f}, {100 * high:+.1f}]"
    difference = "n/a" if value is None else f"{100 * value:+.1f}"
    sign = "≤" if d.test.at_most and d.test.method == "swap" else ""
    p, holm_p = f"{sign}{d.test.p_value:.2g}", f"{sign}{adjusted or 0.0:.2g}"
    counts = "" if d.only_a is None else f"{d.only_a}, {d.only_b}"
    return (
        f"  {d.metric:<18}{percent(d.a):>7}{percent(d.b):>7}{difference:>8}  {interval:<18}"
        f"{p:>9}{holm_p:>9}{d.estimate.n:>6}  {counts}"
        + ("  too few pictures to tell" if too_few(d.estimate.n) else "")
    ).rstrip()


def _brief(values: Mapping[str, Any]) -> str:
    if not set(values.values()) <= {0, 1}:
        return ", ".join(map(str, values.values()))
    right = [slot for slot, correct in values.items() if correct]
    wrong = [slot for slot, correct in values.items() if not correct]
    parts = [f"{' '.join(right)} right"] * bool(right) + [f"{' '.join(wrong)} wrong"] * bool(wrong)
    return ", ".join(parts)


def pick(runs: Runs, label: str | None, flag: str) -> Run:
    """The one run meant.

    Raises:
        ValueError: None or several are there, or none has the label; the message lists them.
    """
    found = [run for run in runs.runs if label in (None, run.label)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(repr(run.label) for run in runs.runs) or "none"
    wanted = "one run is needed" if label is None else f"no run is called {label!r}"
    raise ValueError(f"{wanted}, but the folder holds {names}: choose with {flag} LABEL")
