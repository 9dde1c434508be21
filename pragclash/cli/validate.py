"""Check a dataset folder: every fault is listed with its file and row.

A sound folder exits 0. Pictures that are missing or do not decode are faults here, although a run
would leave them out and count them, and so is one picture file under two ids. What will surprise
is a warning and changes no exit status: two pictures that are nearly the same, a picture of one
colour, a model's control token in a caption, ids that differ in case only.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lmms_eval_tasks.dataset.checks import Fault
from lmms_eval_tasks.dataset.folder import MANIFEST, check_folder, load_folder
from lmms_eval_tasks.dataset.same_pictures import Twin, twins
from lmms_eval_tasks.dataset.warnings import folder_warnings
from postprocess.benchmarks import benchmarks
from pragclash.cli.arguments import add_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash validate`."""
    parser.add_argument("folder", type=Path, help="folder with manifest.json, rows and images/")
    parser.add_argument(
        "--benchmark", choices=list(benchmarks()), help="default: what the manifest says"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print all faults; 1 where there is one."""
    faults = check_folder(args.folder, args.benchmark)
    found: list[Fault] = []
    if not faults:
        manifest = json.loads((args.folder / MANIFEST).read_text(encoding="utf-8"))
        folder = load_folder(args.folder, args.benchmark or manifest["benchmark"])
        pictures = {row["image_id"]: args.folder / row["image"] for row in folder.rows}
        same = twins(pictures.items())
        faults = [_fault(twin, args.folder) for twin in same if twin.is_error]
        found = folder_warnings(args.folder, folder.benchmark)
        found += [_fault(twin, args.folder) for twin in same if not twin.is_error]
    if args.json:
        listed = {
            "faults": [fault._asdict() for fault in faults],
            "warnings": [warning._asdict() for warning in found],
        }
        print(json.dumps({"folder": str(args.folder), **listed}))
        return 1 if faults else 0
    for line in [*faults, *(f"warning: {warning}" for warning in found)]:
        print(line)
    if faults:
        print(f"{args.folder}: {len(faults)} faults")
        return 1
    print(
        f"{args.folder}: sound; {folder.benchmark}, {folder.kind}, {len(folder.rows)} rows, "
        f"{len(pictures)} pictures, fingerprint {folder.fingerprint[:16]}"
    )
    return 0


def _fault(twin: Twin, folder: Path) -> Fault:
    return Fault(twin.path.relative_to(folder).as_posix(), None, str(twin))
