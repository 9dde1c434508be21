"""One self-contained page about one or several runs: tables, figures, and every pair.

Pictures and captions come from the dataset folder that the runs were made on, found by its
fingerprint: in --data DIR, in PRAGCLASH_DATA or the default folder, or the sample.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lmms_eval_tasks.dataset.current import current_folder
from lmms_eval_tasks.dataset.folder import Folder, FolderError, format_of, load_folder
from postprocess.benchmarks import benchmarks
from postprocess.publish import report
from postprocess.publish.report_pairs import Media


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash report`."""
    report.add_arguments(parser)
    parser.add_argument(
        "--data",
        nargs="+",
        type=Path,
        default=[],
        metavar="DIR",
        help="dataset folders with the runs' pictures (default: those that a run would use now)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the page; see `postprocess.publish.report.run`."""
    return report.run(args, {} if args.no_media else media_of(args.data))


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
