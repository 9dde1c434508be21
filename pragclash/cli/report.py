"""One self-contained page about one or several runs: tables, figures, and every pair.

Pictures and captions come from the dataset folder that the runs were made on, found by its
fingerprint: in --data DIR, in PRAGCLASH_DATA or the default folder, or the sample.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from lmms_eval_tasks.dataset.current import current_folder
from lmms_eval_tasks.dataset.folder import Folder, FolderError, format_of, load_folder
from postprocess.benchmarks import benchmarks
from postprocess.publish import report
from postprocess.publish.report_pairs import Media
from postprocess.runs.folder import read_runs
from postprocess.tables.build import MixedError
from pragclash.cli.arguments import add_computing, add_runs, options_of, tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash report`."""
    add_runs(parser)
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE")
    parser.add_argument("--force", action="store_true", help="overwrite --out")
    parser.add_argument(
        "--no-media",
        action="store_true",
        help="ids only: neither pictures nor captions, for data that must not be passed on",
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    add_computing(parser)
    parser.add_argument(
        "--data",
        nargs="+",
        type=Path,
        default=[],
        metavar="DIR",
        help="dataset folders with the runs' pictures (default: those that a run would use now)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the page.

    Returns:
        0; 1 where the runs must not stand in one report or the file exists; 2 without any run.
    """
    if args.out.exists() and not args.force:
        print(f"pragclash report: {args.out} exists; --force overwrites it", file=sys.stderr)
        return 1
    runs = read_runs(args.runs)
    tell(runs.problems, "report")
    if not runs.runs:
        print("pragclash report: no records in these folders", file=sys.stderr)
        return 2
    media = {} if args.no_media else media_of(args.data)
    try:
        text = report.build(runs, options_of(args), media, with_media=not args.no_media)
    except MixedError as error:
        print(f"pragclash report: {error}", file=sys.stderr)
        return 1
    args.out.parent.mkdir(parents=True, exist_ok=True)
    size = args.out.write_text(text, encoding="utf-8")
    records = sum(len(task.records) for one in runs.runs for task in one.tasks.values())
    if size > report.MAX_BYTES:
        print(
            f"pragclash report: {args.out} has {size / 1e6:.0f} MB; --no-media or fewer runs make "
            "it smaller",
            file=sys.stderr,
        )
    if args.json:
        written = {"out": str(args.out), "bytes": size, "records": records}
        print(json.dumps({**written, "runs": [one.label for one in runs.runs]}))
    else:
        print(f"{args.out}: {len(runs.runs)} models, {records} records, {size / 1e6:.1f} MB")
    return 0


def media_of(folders: list[Path]) -> dict[str, Media]:
    """Pictures and captions by dataset fingerprint; a folder that cannot be used is named."""
    found: list[Folder] = []
    for path in folders:
        for benchmark in benchmarks():
            below = path / benchmark
            place = below if below.is_dir() else path
            if (place / format_of(benchmark).rows_file).is_file():
                _add(found, place, benchmark)
    for benchmark in benchmarks():
        _add(found, None, benchmark)
    return {folder.fingerprint: _media(folder) for folder in reversed(found)}


def _add(found: list[Folder], path: Path | None, benchmark: str) -> None:
    try:
        folder = current_folder(benchmark) if path is None else load_folder(path, benchmark)
    except (FolderError, OSError) as error:
        print(f"pragclash report: no pictures from {error}", file=sys.stderr)
    else:
        found.append(folder)


def _media(folder: Folder) -> Media:
    captions = {row["sample_id"]: row["caption"] for row in folder.rows if "caption" in row}
    pictures = {row["image_id"]: folder.path / row["image"] for row in folder.rows}
    return Media(captions, pictures)
