"""Tables as Markdown, LaTeX, CSV and JSON; the figures are the same in all four.

Labels and notes may hold what a user or a file wrote: each format escapes them in its own way.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from postprocess.measure.intervals import too_few
from postprocess.measure.significance import Significance
from postprocess.measure.stats import Estimate
from postprocess.tables.model import Cell, Column, Row, Table, row_n, tells_too_little

FORMATS = ("md", "latex", "csv", "json")
EMPTY, NOT_APPLICABLE = "—", "n/a"
TOO_FEW = "too few pictures to tell"


def render(table: Table, form: str) -> str:
    """A table as text.

    Raises:
        ValueError: No such format.
    """
    if form == "json":
        return json.dumps(as_json(table), indent=2) + "\n"
    if form == "csv":
        return _csv(table)
    if form == "md":
        return _markdown(table)
    if form == "latex":
        return _latex(table)
    raise ValueError(f"no format {form!r}; known: {', '.join(FORMATS)}")


def as_json(table: Table) -> dict[str, Any]:
    """A table as JSON values; figures in percent (differences in points), counts as they are."""
    return {
        "table": table.name,
        "title": table.title,
        "digits": table.digits,
        "settings": dict(table.settings),
        "heads": list(table.heads),
        "columns": [column._asdict() for column in table.columns],
        "rows": [
            {
                "head": list(row.head),
                "kind": row.kind,
                "marks": row.marks,
                "too_few": tells_too_little(row),
                "cells": {
                    column.key: _json_cell(row.cells[column.key], column, table.digits)
                    | ({"n_is_another": True} if _other_n(row, table, at) else {})
                    for at, column in enumerate(table.columns)
                    if column.key in row.cells
                },
            }
            for row in table.rows
        ],
        "notes": list(table.notes),
        "missing": missing_commands(table),
        "problems": [str(problem) for problem in table.problems],
    }


def missing_commands(table: Table) -> list[str]:
    """The commands that fill the empty cells, each once."""
    cells = (cell for row in table.rows for cell in row.cells.values())
    return list(dict.fromkeys(cell.command for cell in cells if cell.command))


def has_reference(table: Table, column: Column) -> bool:
    """Whether the paper has a number anywhere in this column."""
    return any(
        column.key in row.cells and row.cells[column.key].reference is not None
        for row in table.rows
    )


def figure(estimate: Estimate | None, column: Column, digits: int) -> str:
    """A figure with its interval as one text, empty without a value.

    >>> figure(Estimate(0.19, 0.167, 0.2156, 1000, "wilson"), Column("x", "x"), 1)
    '19.0 [16.7, 21.6]'
    """
    if estimate is None or estimate.value is None:
        return ""
    if column.unit == "count":
        return f"{estimate.value:.0f}"
    if column.unit == "number":
        return f"{estimate.value:.2f}"
    sign = "+" if column.unit == "points" else ""
    text = f"{100 * estimate.value:{sign}.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return text
    low, high = (f"{100 * bound:{sign}.{digits}f}" for bound in (estimate.low, estimate.high))
    return f"{text} [{low}, {high}]"


def p_text(test: Significance, adjusted: float | None = None) -> str:
    """The p of a test, beside it Holm's.

    >>> from postprocess.measure.significance import paired
    >>> p_text(paired(4, 0, 19), 0.0911)
    'p 0.046, Holm 0.091'
    """
    sign = "≤ " if test.at_most and test.method == "swap" else ""
    beside = "" if adjusted is None else f", Holm {sign}{adjusted:.2g}"
    return f"p {sign}{test.p_value:.2g}{beside}"


def _other_n(row: Row, table: Table, at: int) -> bool:
    """Whether a figure rests on another number of pictures than its row states."""
    cell, column = row.cells.get(table.columns[at].key, Cell()), table.columns[at]
    stated = row_n(row, table.columns, at)
    known = cell.estimate is not None and cell.told and column.unit != "count"
    return bool(known and stated is not None and cell.estimate and cell.estimate.n != stated)


def _json_cell(cell: Cell, column: Column, digits: int) -> dict[str, Any]:
    scale = 1.0 if column.unit in ("count", "number") else 100.0
    out: dict[str, Any] = {}
    one = cell.estimate
    if one is not None and one.value is not None:
        out["value"] = one.value * scale
        if one.low is not None and one.high is not None:
            out |= {"low": one.low * scale, "high": one.high * scale}
        out |= {"n": one.n, "method": one.method}
    if cell.test is not None:
        out |= {"p_value": cell.test.p_value, "exact": cell.test.exact}
        out |= {"differ": cell.test.differ, "at_most": cell.test.at_most}
        out |= {"holm": cell.adjusted} if cell.adjusted is not None else {}
        out |= {"why": cell.why} if cell.why else {}
    if cell.reference is not None:
        out["reference"] = {"text": cell.reference.text(digits), **cell.reference._asdict()}
    if cell.printed:
        out["printed"] = cell.printed
    if cell.withheld:
        out["withheld"] = True
    if cell.command is not None:
        out["command"] = cell.command
    return out


def reference(cell: Cell, digits: int) -> str:
    """What stands in the paper's column beside a cell."""
    if cell.withheld:
        return "not the paper's setting"
    return cell.reference.text(digits) if cell.reference else ""


def _unit(column: Column, row: Row) -> Column:
    """In a row of differences every percentage is a difference."""
    if row.kind == "difference" and column.unit == "percent":
        return column._replace(unit="points")
    return column


def _grid(table: Table) -> tuple[list[str], list[list[str]]]:
    """Titles, and the text of every cell; a footnote number stands for a missing task."""
    titles = list(table.heads)
    for column in table.columns:
        titles.append(column.title)
        if has_reference(table, column):
            titles.append("paper")
    commands = missing_commands(table)
    lines = []
    for row in table.rows:
        line = list(row.head)
        if row.marks:
            line[0] += f" [{', '.join(row.marks)}]"
        few = tells_too_little(row)
        line[0] += f" ({TOO_FEW})" if few else ""
        for at, column in enumerate(table.columns):
            cell = row.cells.get(column.key, Cell())
            text = cell.printed or figure(cell.estimate, _unit(column, row), table.digits)
            if text and cell.test is not None:
                text += f" {p_text(cell.test, cell.adjusted)}"
            if text and cell.estimate and _other_n(row, table, at):
                text += f" (n {cell.estimate.n})"
            if text and cell.estimate and cell.told and too_few(cell.estimate.n) and not few:
                text += f" ({TOO_FEW})"
            if not text and cell.command:
                text = f"({commands.index(cell.command) + 1})"
            elif not text:
                text = NOT_APPLICABLE if row.kind == "model" else EMPTY
            line.append(text)
            if has_reference(table, column):
                line.append(reference(cell, table.digits))
        lines.append(line)
    return titles, lines


def _remarks(table: Table) -> list[str]:
    reasons = [
        f"{', '.join(filter(None, row.head))}, {column.title}: {row.cells[column.key].why}"
        for row in table.rows
        for column in table.columns
        if column.key in row.cells and row.cells[column.key].why
    ]
    return [*table.notes, *reasons, *(f"left aside: {problem}" for problem in table.problems)]


def _markdown(table: Table) -> str:
    def clean(text: str) -> str:
        text = " ".join(text.split())
        for character in "\\`*_|<>[]":
            # Brackets of intervals are ours and read better bare.
            if character not in "[]":
                text = text.replace(character, f"\\{character}")
        return text

    titles, lines = _grid(table)
    align = ["---"] * len(table.heads) + ["---:"] * (len(titles) - len(table.heads))
    out = [f"### {clean(table.title)}", ""]
    out += [f"| {' | '.join(map(clean, line))} |" for line in (titles,)]
    out += [f"| {' | '.join(align)} |"]
    out += [f"| {' | '.join(map(clean, line))} |" for line in lines]
    out += ["", *(f"- {clean(remark)}" for remark in _remarks(table))]
    for i, command in enumerate(missing_commands(table), 1):
        fence = "``" if "`" in command else "`"
        out.append(f"- ({i}) not run: {fence}{' '.join(command.split())}{fence}")
    return "\n".join(out) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "—": "---",
    "–": "--",
    "≤": r"$\leq$",
}


def _latex(table: Table) -> str:
    def clean(text: str) -> str:
        return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))

    titles, lines = _grid(table)
    columns = "l" * len(table.heads) + "r" * (len(titles) - len(table.heads))
    out = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{clean(table.title)}}}",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        " & ".join(map(clean, titles)) + r" \\",
        "\\midrule",
        *(" & ".join(map(clean, line)) + r" \\" for line in lines),
        "\\bottomrule",
        "\\end{tabular}",
        *(f"\\par\\footnotesize {clean(remark)}" for remark in _remarks(table)),
        *(
            f"\\par\\footnotesize ({i}) not run: \\texttt{{{clean(command)}}}"
            for i, command in enumerate(missing_commands(table), 1)
        ),
        "\\end{table}",
    ]
    return "\n".join(out) + "\n"


_TESTED = {"p": "p_value", "p_exact": "exact", "p_holm": "holm"}


def _tested(table: Table, column: Column) -> bool:
    return any(row.cells.get(column.key, Cell()).test is not None for row in table.rows)


def _csv(table: Table) -> str:
    def safe(text: str) -> str:
        # Spreadsheets run cells that begin like a formula.
        return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    titles = [*table.heads, "kind", "marks", "too_few"]
    for column in table.columns:
        titles.append(column.key)
        if column.unit != "count":
            titles += [f"{column.key}_low", f"{column.key}_high", f"{column.key}_n"]
        if _tested(table, column):
            titles += [f"{column.key}_{name}" for name in _TESTED]
        if has_reference(table, column):
            titles.append(f"{column.key}_paper")
    writer.writerow([*titles, "missing"])
    for row in table.rows:
        line: list[str] = [*map(safe, row.head), row.kind, row.marks]
        line.append("1" if tells_too_little(row) else "")
        commands: dict[str, None] = {}
        for column in table.columns:
            cell = row.cells.get(column.key, Cell())
            value = _json_cell(cell, column, table.digits)
            line.append(_plain(value.get("value"), column))
            if column.unit != "count":
                line += [_plain(value.get(key), column) for key in ("low", "high")]
                line.append(str(value.get("n") or ""))
            if _tested(table, column):
                line += [f"{value[k]:.4g}" if k in value else "" for k in _TESTED.values()]
            if has_reference(table, column):
                line.append(reference(cell, table.digits))
            if cell.command:
                commands[cell.command] = None
        writer.writerow([*line, "; ".join(map(safe, commands))])
    return stream.getvalue()


def _plain(value: float | None, column: Column) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if column.unit == "count" else f"{value:.4f}"
