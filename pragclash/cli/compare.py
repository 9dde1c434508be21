"""Two runs on the same pictures: paired differences with intervals, and where they differ."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from postprocess.publish.compare import NoResultError, as_json, as_text, compare, pick
from postprocess.runs.folder import read_runs
from postprocess.tables.build import MixedError
from pragclash.cli.arguments import add_computing, options_of, tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash compare`."""
    parser.add_argument("run_a", type=Path, metavar="RUN_A", help="a run folder")
    parser.add_argument("run_b", type=Path, metavar="RUN_B", help="another, or the same")
    parser.add_argument("--a", metavar="LABEL", help="which model, where RUN_A holds several")
    parser.add_argument("--b", metavar="LABEL", help="which model, where RUN_B holds several")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_computing(parser)


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
    except (MixedError, NoResultError) as error:
        print(f"pragclash compare: {error}", file=sys.stderr)
        return 1
    if not comparison.tasks:
        tasks = [", ".join(one.tasks) or "none" for one in found]
        print(f"pragclash compare: no task in common: {' against '.join(tasks)}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(as_json(comparison), indent=2))
    else:
        sys.stdout.write(as_text(comparison).encode("utf-8", "replace").decode("utf-8"))
    return 0
