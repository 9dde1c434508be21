"""`pragclash compare`: two runs on the same pictures, difference by difference.

Everything is paired: only pictures that both runs answered completely count, the interval comes
from resamples that both share, and the p value is McNemar's exact one. The pictures on which the
two differ are listed, because they are what one wants to look at next.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from postprocess.measure import clash_estimates
from postprocess.measure import pragmatch as metrics
from postprocess.measure import pragmatch_estimates as estimates
from postprocess.measure.groups import complete
from postprocess.measure.pragmatch_estimates import Difference
from postprocess.runs.folder import Run, Runs, read_runs
from postprocess.tables.build import (
    MixedError,
    add_computing_arguments,
    identities_of,
    options_of,
    tell,
)
from postprocess.tables.model import DEFAULT, Options

SHOWN = 20
"""Differing pictures printed for each task; the JSON holds all."""


class Differing(NamedTuple):
    """A picture (or a CLASH document) on which two runs differ."""

    unit: str
    """Image id; in CLASH sample id."""
    a: dict[str, Any]
    """What A made of it: right by slot, or the outcome."""
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
        MixedError: Their data or prompts differ, and `options.mix` is off.
    """
    shared = [task for task in a.tasks if task in b.tasks]
    used = [(run, run.tasks[task]) for run in (a, b) for task in shared]
    notes = identities_of(used, options.mix).notes
    return Comparison(
        a,
        b,
        [(_clash if t.startswith("clash_") else _pairs)(a, b, t, options) for t in shared],
        sorted(a.tasks.keys() ^ b.tasks.keys()),
        notes,
    )


def _pairs(a: Run, b: Run, task: str, options: Options) -> TaskComparison:
    slots = metrics.slots_for(family_of(task))
    sides = []
    for run in (a, b):
        answers = estimates.answers_of(run.records(task))
        sides.append(metrics.without_unreadable(answers) if options.exclude else answers)
    groups = [complete(answers, slots).groups for answers in sides]
    common = sorted(groups[0].keys() & groups[1].keys())
    differing = []
    for image_id in common:
        right = [{s: answer.correct for s, answer in g[image_id].items()} for g in groups]
        if right[0] != right[1]:
            differing.append(Differing(image_id, *right))
    found = estimates.differences(
        sides[0], sides[1], slots, draws=options.draws, seed=options.seed, level=options.level
    )
    return TaskComparison(
        task,
        len(common),
        len(groups[0]) - len(common),
        len(groups[1]) - len(common),
        found,
        differing,
    )


def _clash(a: Run, b: Run, task: str, options: Options) -> TaskComparison:
    sides = [clash_estimates.answers_of(run.records(task)) for run in (a, b)]
    keyed = [{(x.sample_id, x.rotation): x for x in side} for side in sides]
    common = sorted(keyed[0].keys() & keyed[1].keys(), key=str)
    differing = [
        Differing(key[0], {"outcome": left.outcome}, {"outcome": right.outcome})
        for key in common
        if (left := keyed[0][key]).outcome != (right := keyed[1][key]).outcome
    ]
    found = clash_estimates.differences(
        sides[0], sides[1], draws=options.draws, seed=options.seed, level=options.level
    )
    return TaskComparison(
        task,
        len(common),
        len(keyed[0]) - len(common),
        len(keyed[1]) - len(common),
        found,
        differing,
    )


def family_of(task: str) -> str:
    """The family of a PragMatch task.

    Raises:
        ValueError: The name is no PragMatch task's.

    >>> family_of("pragmatch_p_minus_m_plus_ocr_text_only_cot"), family_of("pragmatch_pml_cot")
    ('p_minus_m_plus', 'pml')
    """
    name = task.removeprefix("pragmatch_")
    for family in sorted(metrics.FAMILIES, key=len, reverse=True):
        if task != name and (name == family or name.startswith(f"{family}_")):
            return family
    raise ValueError(f"{task!r} is no PragMatch task")


def as_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON values; rates as proportions."""
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
                        "p_value": d.p_value,
                        "only_a": d.only_a,
                        "only_b": d.only_b,
                        "unit": d.unit,
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
    lines = [f"A: {comparison.a.label}", f"B: {comparison.b.label}"]
    lines += [f"  {note}" for note in comparison.notes]
    for one in comparison.tasks:
        lines += ["", f"{one.task}: {one.n} in both"]
        if one.only_in_a or one.only_in_b:
            lines[-1] += f"; left out: {one.only_in_a} only in A, {one.only_in_b} only in B"
        head = f"  {'':<18}{'A':>7}{'B':>7}{'A-B':>8}  {'interval':<18}{'p':>9}"
        lines.append(f"{head}  only A, only B")
        lines += [_line(d) for d in one.differences]
        if one.differing:
            units = "documents" if one.task.startswith("clash_") else "pictures"
            lines.append(f"  {len(one.differing)} {units} on which they differ:")
            lines += [
                f"    {d.unit}: A {_brief(d.a)}, B {_brief(d.b)}" for d in one.differing[:SHOWN]
            ]
            if len(one.differing) > SHOWN:
                lines.append(f"    and {len(one.differing) - SHOWN} more (--json lists all)")
    if comparison.unshared:
        lines += ["", f"only in one of the two: {', '.join(comparison.unshared)}"]
    lines += [
        "",
        "Rates in percent, differences in points, 95% intervals over pictures. p: exact McNemar,",
        "not corrected for the number of comparisons; where it counts captions (*), those of one",
        "picture are treated as independent, so it errs towards small values.",
    ]
    return "\n".join(lines) + "\n"


def _line(d: Difference) -> str:
    def percent(value: float | None) -> str:
        return "n/a" if value is None else f"{100 * value:.1f}"

    value, low, high = d.estimate[:3]
    interval = "" if low is None or high is None else f"[{100 * low:+.1f}, {100 * high:+.1f}]"
    difference = "n/a" if value is None else f"{100 * value:+.1f}"
    p = "" if d.p_value is None else f"{d.p_value:.2g}"
    star = "*" if d.unit == "caption" and d.p_value is not None else ""
    counts = "" if d.only_a is None else f"{d.only_a}, {d.only_b}"
    return (
        f"  {d.metric:<18}{percent(d.a):>7}{percent(d.b):>7}{difference:>8}  {interval:<18}"
        f"{p + star:>9}  {counts}"
    ).rstrip()


def _brief(values: dict[str, Any]) -> str:
    if "outcome" in values:
        return str(values["outcome"])
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash compare`."""
    parser.add_argument("run_a", type=Path, metavar="RUN_A", help="a run folder")
    parser.add_argument("run_b", type=Path, metavar="RUN_B", help="another, or the same")
    parser.add_argument("--a", metavar="LABEL", help="which model, where RUN_A holds several")
    parser.add_argument("--b", metavar="LABEL", help="which model, where RUN_B holds several")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_computing_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Compare two runs.

    Returns:
        0; 1 where they cannot be compared; 2 where a folder does not hold the run meant.
    """
    found = []
    for folder, label, flag in ((args.run_a, args.a, "--a"), (args.run_b, args.b, "--b")):
        runs = read_runs([folder])
        tell(runs.problems, "compare")
        try:
            found.append(pick(runs, label, flag))
        except ValueError as error:
            print(f"pragclash compare: {folder}: {error}", file=sys.stderr)
            return 2
    try:
        comparison = compare(found[0], found[1], options_of(args))
    except MixedError as error:
        print(f"pragclash compare: {error}", file=sys.stderr)
        return 1
    if not comparison.tasks:
        print(
            f"pragclash compare: no task in common: {_listed(found[0].tasks)} against "
            f"{_listed(found[1].tasks)}",
            file=sys.stderr,
        )
        return 1
    if args.json:
        print(json.dumps(as_json(comparison), indent=2))
    else:
        sys.stdout.write(as_text(comparison).encode("utf-8", "replace").decode("utf-8"))
    return 0


def _listed(tasks: Iterable[str] | Sequence[str]) -> str:
    return ", ".join(tasks) or "none"
