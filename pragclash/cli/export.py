"""A run as a submission, for Every Eval Ever and for Hugging Face model pages.

A run that is no benchmark result is refused with the reason. Pictures never leave, captions only
with --with-text.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from postprocess.publish import export
from postprocess.publish.compare import pick
from postprocess.publish.every_eval_ever import ExportError, Submission
from postprocess.runs.folder import read_runs
from pragclash.cli.arguments import add_runs, tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash export`."""
    add_runs(parser)
    parser.add_argument("--format", choices=("eee", "hf"), required=True)
    parser.add_argument("--label", help="which model, where the folders hold several")
    parser.add_argument("--tasks", help="tasks to submit, with commas (default: all of the run)")
    parser.add_argument("--model-id", help="ORGANISATION/NAME (default: the run's hub id)")
    parser.add_argument("--organization", default="", help="who submits")
    for name, choices, default in (
        ("--relationship", export.RELATIONSHIPS, "third_party"),
        ("--availability", export.AVAILABILITIES, "unknown"),
        ("--deployment", export.DEPLOYMENTS, "unknown"),
    ):
        parser.add_argument(name, choices=choices, default=default)
    parser.add_argument(
        "--dataset-id",
        action="append",
        default=[],
        metavar="BENCHMARK=ID",
        help="hf: hub id of the dataset, e.g. pragmatch=org/pragmatch",
    )
    parser.add_argument(
        "--with-text", action="store_true", help="captions, questions and reasonings too"
    )
    parser.add_argument("--out", type=Path, default=Path("submission"), metavar="DIR")
    parser.add_argument("--force", action="store_true", help="overwrite files that differ")
    parser.add_argument("--json", action="store_true", help="print the written paths as JSON")


def run(args: argparse.Namespace) -> int:
    """Write a submission.

    Returns:
        0; 1 where the run is refused or a file would be overwritten; 2 where the run meant is not
        there.
    """
    runs = read_runs(args.runs)
    tell(runs.problems, "export")
    try:
        chosen = pick(runs, args.label, "--label")
    except ValueError as error:
        print(f"pragclash export: {error}", file=sys.stderr)
        return 2
    tasks = args.tasks.split(",") if args.tasks else list(chosen.tasks)
    # What no name can mend comes before the names that are missing.
    reasons = export.refusals(chosen, tasks)
    if reasons:
        print(f"pragclash export: {'; '.join(reasons)}", file=sys.stderr)
        return 1
    submission = Submission(
        args.model_id or export.model_id_of(chosen),
        args.organization,
        args.relationship,
        args.availability,
        args.deployment,
        args.with_text,
    )
    try:
        if args.format == "eee":
            files = export.every_eval_ever(chosen, tasks, submission)
        else:
            ids = export.dataset_ids(args.dataset_id)
            files = export.hugging_face(chosen, tasks, submission, ids)
        written = export.write(args.out, files, force=args.force)
    except ExportError as error:
        print(f"pragclash export: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps({"written": [str(path) for path in written]}))
    else:
        print("\n".join(str(path) for path in written))
    return 0
