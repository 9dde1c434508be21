"""Check a dataset folder: every fault is listed with its file and row.

A sound folder exits 0. Pictures that are missing or do not decode are faults here, although a run
would leave them out and count them. One picture file under two ids is a fault; two files with the
same pixels, or nearly the same, are a warning.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lmms_eval_tasks.dataset.checks import Fault
from lmms_eval_tasks.dataset.folder import check_folder, load_folder
from lmms_eval_tasks.same_pictures import Twin, twins
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
    warnings: list[str] = []
    if not faults:
        manifest = json.loads((args.folder / "manifest.json").read_text(encoding="utf-8"))
        folder = load_folder(args.folder, args.benchmark or manifest["benchmark"])
        pictures = {row["image_id"]: args.folder / row["image"] for row in folder.rows}
        found = twins(pictures.items())
        faults = [_fault(twin, args.folder) for twin in found if twin.is_error]
        warnings = [str(_fault(twin, args.folder)) for twin in found if not twin.is_error]
    if args.json:
        listed = [fault._asdict() for fault in faults]
        print(json.dumps({"folder": str(args.folder), "faults": listed, "warnings": warnings}))
        return 1 if faults else 0
    for line in [*faults, *(f"warning: {warning}" for warning in warnings)]:
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
