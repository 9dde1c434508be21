"""What `pragclash score` prints: one table of all files for people, or one JSON object.

Everything that comes out of a file (a model's words, a judge's name, a reason) is printed as ASCII
without control characters, so that a prediction cannot write to the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from postprocess.measure.clash_counts import Circular, Judged, Rate
from postprocess.runs.checking import plain
from postprocess.runs.rescoring import Figure, FileScore, Scored, TaskScore

_SHOWN_FAULTS = 20
_FLAGS = ("conflict", "image", "text", "distractor", "none", "unusable", "correct", "yes")


def file_lines(scored: Sequence[Scored]) -> list[str]:
    """The table of files, with what is wrong in each under it."""
    files = sorted((file for one in scored for file in one.files), key=lambda f: f.source.path)
    head = ("file", "rows", "malformed", "flags compared", "different", "not stored")
    rows: list[Sequence[str]] = [head]
    for file in files:
        check = file.check
        counts = (file.source.n_rows, len(file.faults), check.compared, len(check.differences))
        rows.append((plain(file.source.path, 500)[1:-1], *map(str, (*counts, check.not_stored))))
    lines = aligned(rows)
    for file in files:
        lines += _remarks(file)
    return lines


def score_lines(
    scored: Sequence[Scored], *, paper_style: bool = False, by_category: bool = False
) -> list[str]:
    """The table of figures, with what does not fit into it under it.

    Args:
        scored: The models.
        paper_style: Mean and standard deviation over the bootstrap's draws, as the paper prints.
        by_category: Print the conflict rates by change and by category too.
    """
    names = [x for x in _FLAGS if any(x in t.figures for one in scored for t in one.tasks.values())]
    relaxed = any(task.relaxed for one in scored for task in one.tasks.values())
    columns = ["model", "task", "n", *names, *["conflict, relaxed"] * relaxed]
    rows: list[Sequence[str]] = [[*columns, "95% of the first"]]
    notes: list[str] = []
    for one in scored:
        for task in one.tasks.values():
            cells = [figure_text(task.figures.get(name), paper_style) for name in names]
            if relaxed:
                found = task.relaxed.get("conflict")
                cells.append(_percent(found.value) if found else "")
            first = next(iter(task.figures.values()))
            bounds = f"{_percent(first.interval.low)} to {_percent(first.interval.high)}"
            label = plain(one.name)[1:-1]
            rows.append((label, task.task, str(task.n), *cells, bounds))
            notes += [f"{label} {task.task}: {note}" for note in _notes(task, by_category)]
        for name, figure in one.overall.items():
            text = figure_text(figure, paper_style)
            notes.append(f"{plain(one.name)[1:-1]} {name}: overall {text} (n {figure.rate.n})")
    style = "mean ± deviation over the paper's bootstrap, percent" if paper_style else "percent"
    return [
        *aligned(rows),
        f"({style}; a conflict on an original caption is a false alarm)",
        *notes,
    ]


def json_of(scored: Sequence[Scored], written: Sequence[Path]) -> dict[str, Any]:
    """The whole outcome as JSON values; rates are proportions."""
    return {
        "files": [
            {
                "file": file.source.path,
                "sha256": file.source.sha256,
                "model": one.name,
                "rows": file.source.n_rows,
                "scored": len(file.records),
                "malformed": [fault._asdict() for fault in file.faults],
                "unjoined": file.unjoined,
                "check": {
                    **file.check._asdict(),
                    "differences": len(file.check.differences),
                    "first_difference": file.check.differences[0]._asdict()
                    if file.check.differences
                    else None,
                },
            }
            for one in scored
            for file in one.files
        ],
        "models": [
            {
                "model": one.name,
                "twins": one.twins,
                "tasks": {name: _jsonable(task) for name, task in one.tasks.items()},
                "overall": {name: _jsonable(figure) for name, figure in one.overall.items()},
            }
            for one in scored
        ],
        "written": [str(path) for path in written],
    }


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: the first column to the left, the others to the right.

    >>> aligned([("a", "n"), ("bcd", "12")])
    ['a     n', 'bcd  12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def figure_text(figure: Figure | None, paper_style: bool = False) -> str:
    """A figure in percent, plain or as the paper prints it; empty for none."""
    if figure is None:
        return ""
    if not paper_style:
        return _percent(figure.rate.value)
    return f"{_percent(figure.paper.mean)} ± {_percent(figure.paper.sd)}"


def _remarks(file: FileScore) -> list[str]:
    path, check = plain(file.source.path, 500)[1:-1], file.check
    lines = [f"row {x.row}: {plain(x.reason)[1:-1]}; left out" for x in file.faults[:_SHOWN_FAULTS]]
    if len(file.faults) > _SHOWN_FAULTS:
        lines.append(f"and {len(file.faults) - _SHOWN_FAULTS} more malformed rows")
    if file.unjoined:
        lines.append(f"{file.unjoined} rows are not in the samples file: no category")
    if check.unverifiable:
        lines.append(f"{check.unverifiable} flags of judges stand without the judge's words")
    lines += [
        f"unknown flag {plain(name)} in {count} rows: not compared"
        for name, count in check.unknown.items()
    ]
    return [f"{path}: {line}" for line in lines]


def _notes(task: TaskScore, by_category: bool) -> list[str]:
    lines = []
    if task.overlaps:
        lines.append(f"overlapping flags in {task.overlaps} rows")
    if by_category and task.change_types:
        lines.append(f"conflict by change: {_shares(task.change_types)}")
    if by_category and task.categories:
        lines.append(f"conflict by category: {_shares(task.categories)}")
    if task.circular:
        found = task.circular
        lines.append(
            f"right in all four rotations: {found.right} of {found.n} samples "
            f"({_percent(found.value)}), {found.left_out} incomplete"
        )
    if task.letters and task.letters.distance is not None:
        shares = ", ".join(f"{x} {_percent(share)}" for x, share in task.letters.shares.items())
        lines.append(f"letters: {shares}; distance from equal {task.letters.distance:.4f}")
    if task.letter_prob.n:
        rate = task.letter_prob
        lines.append(
            f"right by letter probability: {rate.held} of {rate.n} ({_percent(rate.value)})"
        )
    for name, judged in task.judges.items():
        kappa = "n/a" if judged.kappa is None else f"{judged.kappa:.3f}"
        lines.append(f"judge {plain(name)[1:-1]}: {_judged(judged)}; kappa with the rule {kappa}")
    combined = ", ".join(plain(name)[1:-1] for name in task.combined)
    for name, judged in task.together.items():
        lines.append(f"{name} of {combined}: {_judged(judged)}")
    return lines


def _judged(judged: Judged) -> str:
    rates = ", ".join(
        f"{name} {rate.held} ({_percent(rate.value)})" for name, rate in judged.rates.items()
    )
    return (
        f"{rates}; {judged.n} judged, {judged.unreadable} without a label, "
        f"{judged.unjudged} unjudged"
    )


def _shares(rates: Mapping[str, Rate]) -> str:
    return ", ".join(f"{name} {_percent(rate.value)} (n {rate.n})" for name, rate in rates.items())


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.2f}"


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
