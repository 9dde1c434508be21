"""The papers' tables with the figures of your runs, as Markdown, LaTeX, CSV or JSON.

Rows are models, cells are figures with intervals; beside them stand the paper's numbers, chance and
an always-No row. A task that was not run is an empty cell with the command that fills it.
"""

from __future__ import annotations

import argparse
import sys

from postprocess.runs.folder import read_runs
from postprocess.tables.build import MixedError, build, tables
from postprocess.tables.formats import FORMATS, render
from pragclash.cli.arguments import add_computing, add_output, add_runs, options_of, tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash tables`."""
    parser.add_argument("table", choices=list(tables()), help="which table")
    add_runs(parser)
    parser.add_argument("--format", choices=FORMATS, default="md", help="default: md")
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    add_output(parser)
    add_computing(parser)
    parser.add_argument(
        "--paper-compat",
        action="store_true",
        help="clash-categories: drop samples that are in two categories, as the paper does",
    )
    parser.add_argument(
        "--paper-style",
        action="store_true",
        help="CLASH: print mean ± deviation over bootstrap draws, as the paper does",
    )


def run(args: argparse.Namespace) -> int:
    """Print or write a table.

    Returns:
        0; 1 where the runs must not stand in one table or the file exists; 2 without any run.
    """
    if args.out and args.out.exists() and not args.force:
        print(f"pragclash tables: {args.out} exists; --force overwrites it", file=sys.stderr)
        return 1
    runs = read_runs(args.runs)
    tell(runs.problems, "tables")
    if not runs.runs:
        print("pragclash tables: no records in these folders", file=sys.stderr)
        return 2
    try:
        table = build(args.table, runs, options_of(args))
    except MixedError as error:
        print(f"pragclash tables: {error}", file=sys.stderr)
        return 1
    text = render(table, "json" if args.json else args.format)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text, encoding="utf-8", errors="replace")
    else:
        sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8"))
    return 0
