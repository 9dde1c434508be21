"""What `pragclash score` prints: lines for people, or one JSON object for programs.

Everything that comes out of a file (a model's words, a judge's name, a reason) is printed as ASCII
without control characters, so that a prediction cannot write to the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from postprocess.measure.clash_counts import Circular, Judged, Rate
from postprocess.runs.rescoring import Figure, Scored, TaskScore, plain

_SHOWN_FAULTS = 20


def lines_of(scored: Scored, *, checked: bool) -> list[str]:
    """What is printed of one file; `checked` where the comparison was asked for."""
    source, check = scored.source, scored.check
    lines = [f"{source.path}: {len(scored.records)} of {source.n_rows} rows scored"]
    for fault in scored.faults[:_SHOWN_FAULTS]:
        lines.append(f"  row {fault.row}: {plain(fault.reason)[1:-1]}; left out")
    if len(scored.faults) > _SHOWN_FAULTS:
        lines.append(f"  and {len(scored.faults) - _SHOWN_FAULTS} more malformed rows")
    if scored.unjoined:
        lines.append(f"  {scored.unjoined} rows are not in the samples file: no category")
    verdict = "all equal" if not check.differences else f"{len(check.differences)} differ"
    lines.append(
        f"  {'checked' if checked else 'stored'}: {check.compared} flags compared, {verdict}; "
        f"{check.not_stored} not stored"
        + (f"; {check.unverifiable} without the judge's words" if check.unverifiable else "")
    )
    if check.differences:
        lines.append(f"  first: {check.differences[0]}")
    for name, count in check.unknown.items():
        lines.append(f"  unknown flag {plain(name)} in {count} rows: not compared")
    for task in scored.tasks.values():
        lines += [f"  {line}" for line in _task_lines(task)]
    return lines


def json_of(
    scored: Sequence[Scored], together: Sequence[tuple[str, Figure]], written: Sequence[Path]
) -> dict[str, Any]:
    """The whole outcome as JSON values; rates are proportions."""
    return {
        "files": [
            {
                "file": one.source.path,
                "sha256": one.source.sha256,
                "model": one.name,
                "rows": one.source.n_rows,
                "scored": len(one.records),
                "malformed": [fault._asdict() for fault in one.faults],
                "unjoined": one.unjoined,
                "check": {
                    "compared": one.check.compared,
                    "different": len(one.check.differences),
                    "first_difference": one.check.differences[0]._asdict()
                    if one.check.differences
                    else None,
                    "not_stored": one.check.not_stored,
                    "unverifiable": one.check.unverifiable,
                    "unknown": one.check.unknown,
                },
                "tasks": {name: _jsonable(task) for name, task in one.tasks.items()},
            }
            for one in scored
        ],
        "overall": {name: _jsonable(figure) for name, figure in together},
        "written": [str(path) for path in written],
    }


def figure_line(name: str, figure: Figure) -> str:
    """Count, percentage, our interval, and mean ± deviation as the paper prints them."""
    rate, interval, paper = figure
    low, high = _percent(interval.low), _percent(interval.high)
    mean, sd = _percent(paper.mean), _percent(paper.sd)
    return (
        f"{name:<11}{rate.held:>6} of {rate.n:<6}{_percent(rate.value):>8}   "
        f"{low:>7} to {high:<8}{mean:>8} ± {sd}"
    )


def _task_lines(task: TaskScore) -> list[str]:
    first = next(iter(task.figures.values()))
    lines = [
        f"{task.task}: {task.n} rows, with a 95% interval ({first.interval.method}) and the "
        f"paper's bootstrap ({first.paper.draws} draws)"
    ]
    if task.task.endswith("_original"):
        lines.append("  original captions: a conflict is a false alarm")
    lines += [f"  {figure_line(name, figure)}" for name, figure in task.figures.items()]
    lines.append(f"  outcomes: {_counts(task.outcomes)}; overlapping flags in {task.overlaps} rows")
    if task.relaxed:
        lines.append(f"  relaxed reading: {_counts(task.relaxed)}")
    if task.change_types:
        lines.append(f"  conflict by change: {_shares(task.change_types)}")
    if task.categories:
        lines.append(f"  conflict by category: {_shares(task.categories)}")
    if task.circular:
        found = task.circular
        lines.append(
            f"  right in all four rotations: {found.right} of {found.n} samples "
            f"({_percent(found.value)}), {found.left_out} incomplete"
        )
    if task.letters and task.letters.distance is not None:
        shares = ", ".join(f"{x} {_percent(share)}" for x, share in task.letters.shares.items())
        lines.append(f"  letters: {shares}; distance from equal {task.letters.distance:.4f}")
    if task.letter_prob.n:
        rate = task.letter_prob
        lines.append(
            f"  right by letter probability: {rate.held} of {rate.n} ({_percent(rate.value)})"
        )
    for name, judged in task.judges.items():
        kappa = "n/a" if judged.kappa is None else f"{judged.kappa:.3f}"
        lines.append(f"  judge {plain(name)[1:-1]}: {_judged(judged)}; kappa with the rule {kappa}")
    for name, judged in task.together.items():
        lines.append(f"  {name} of {', '.join(task.combined)}: {_judged(judged)}")
    return lines


def _judged(judged: Judged) -> str:
    rates = ", ".join(
        f"{name} {rate.held} ({_percent(rate.value)})" for name, rate in judged.rates.items()
    )
    return (
        f"{rates}; {judged.n} judged, {judged.unreadable} without a label, "
        f"{judged.unjudged} unjudged"
    )


def _counts(rates: Mapping[str, Rate]) -> str:
    return ", ".join(f"{name} {rate.held}" for name, rate in rates.items())


def _shares(rates: Mapping[str, Rate]) -> str:
    return ", ".join(f"{name} {_percent(rate.value)} (n {rate.n})" for name, rate in rates.items())


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.2f}%"


def _jsonable(value: Any) -> Any:
    """NamedTuples as mappings, rates and circular results with their value beside."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        out = {name: _jsonable(item) for name, item in value._asdict().items()}
        if isinstance(value, Rate | Circular):
            out["value"] = value.value
        return out
    if isinstance(value, Mapping):
        return {key: _jsonable(item) for key, item in value.items()}
    return [_jsonable(item) for item in value] if isinstance(value, list | tuple) else value
