"""Regenerates the tables of the CLASH paper from your copy of its release, cell by cell.

Prints our figure, the release's (from the flags stored in its files), the paper's where it is known
here, and the difference. Exit status: 0; 1 when a cell is off by more than 0.2 points from the
paper, or at all from the release, and nothing explains it; 2 when the folder cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import groupby
from pathlib import Path

from postprocess.measure.stats import DRAWS, SEED
from postprocess.runs.prediction_files import (
    UnreadableFile,
    find_files,
    find_samples,
    read_samples,
    read_source,
)
from postprocess.runs.rescore_text import aligned
from postprocess.runs.rescoring import TwinError
from postprocess.tables.reproduce import Cell, Reproduced, reproduce
from pragclash.cli.arguments import positive

HEAD = ("model", "cell", "n", "ours", "release", "paper", "difference", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add = parser.add_argument
    add("--release", type=Path, required=True, metavar="DIR", help="your copy of the release")
    add(
        "--paper-style",
        action="store_true",
        help="print mean ± deviation over bootstrap draws, as the paper does",
    )
    add("--json", action="store_true", help="print one JSON object")
    add("--draws", type=positive, default=DRAWS, help="resamples of the bootstrap")
    add("--seed", type=int, default=SEED, help="seed of the resamples")


def run(args: argparse.Namespace) -> int:
    """Run the command; see the module for its exit status."""
    try:
        sources = [read_source(path)._replace(found=True) for path in find_files(args.release)]
        samples = find_samples(args.release)
        found = reproduce(
            sources, read_samples(samples) if samples else (), draws=args.draws, seed=args.seed
        )
    except (UnreadableFile, TwinError) as error:
        print(f"pragclash reproduce: {error}", file=sys.stderr)
        return 2
    if not samples:
        found.remarks.append("no test file in the folder: the tables by category are left out")
    off = [cell for cell in found.cells if cell.off]
    if args.json:
        cells = [{**x._asdict(), "difference": x.difference, "off": x.off} for x in found.cells]
        print(json.dumps({"cells": cells, "remarks": found.remarks}, indent=2))
    else:
        print("\n".join(_lines(found, args.paper_style)))
    for cell in off:
        print(
            f"pragclash reproduce: {cell.table}: {cell.model}: {cell.column} is off: "
            f"{cell.ours:.2f}, published {_number(cell.paper)}, stored {_number(cell.released)}",
            file=sys.stderr,
        )
    return 1 if off else 0


def _lines(found: Reproduced, paper_style: bool) -> list[str]:
    lines = []
    for table, cells in groupby(found.cells, key=lambda cell: cell.table):
        rows: list[tuple[str, ...]] = [
            ("model", "cell", "n", "ours", "release", "paper", "difference", "")
        ]
        rows += [_row(cell, paper_style) for cell in cells]
        lines += [table, *aligned(rows), ""]
    compared = [cell for cell in found.cells if cell.paper is not None]
    lines.append(
        f"{len(found.cells)} cells, {len(compared)} of them with a number of the paper; "
        f"{sum(cell.off for cell in found.cells)} off, "
        f"{sum(bool(cell.reason) for cell in compared)} explained"
    )
    return [*lines, *found.remarks]


def _row(cell: Cell, paper_style: bool) -> tuple[str, ...]:
    ours = f"{cell.mean:.2f} ± {cell.sd:.2f}" if paper_style else f"{cell.ours:.2f}"
    difference = "" if cell.difference is None else f"{cell.difference:+.2f}"
    note = "OFF" if cell.off else cell.reason
    numbers = (_number(cell.released), _number(cell.paper), difference, note)
    return (cell.model, cell.column, str(cell.n), ours, *numbers)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
