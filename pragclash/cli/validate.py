"""Check a dataset folder: every fault is listed with its file and row.

A sound folder exits 0. Pictures that are missing or do not decode are faults here, although a run
would leave them out and count them. What will surprise is a warning and changes no exit status: a
picture of one colour, a model's control token in a caption, ids that differ in case only.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lmms_eval_tasks.dataset.folder import MANIFEST, check_folder, load_folder
from lmms_eval_tasks.dataset.warnings import folder_warnings
from postprocess.benchmarks import benchmarks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash validate`."""
    parser.add_argument("folder", type=Path, help="folder with manifest.json, rows and images/")
    parser.add_argument(
        "--benchmark", choices=list(benchmarks()), help="default: what the manifest says"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")


def run(args: argparse.Namespace) -> int:
    """Print all faults; 1 where there is one."""
    faults = check_folder(args.folder, args.benchmark)
    benchmark = args.benchmark or ("" if faults else _benchmark(args.folder))
    found = [] if faults else folder_warnings(args.folder, benchmark)
    if args.json:
        listed = {
            "faults": [fault._asdict() for fault in faults],
            "warnings": [warning._asdict() for warning in found],
        }
        print(json.dumps({"folder": str(args.folder), **listed}))
    elif faults:
        print("\n".join(str(fault) for fault in faults))
        print(f"{args.folder}: {len(faults)} faults")
    else:
        print("".join(f"warning: {warning}\n" for warning in found), end="")
        folder = load_folder(args.folder, benchmark)
        pictures = len({row["image_id"] for row in folder.rows})
        print(
            f"{args.folder}: sound; {folder.benchmark}, {folder.kind}, {len(folder.rows)} rows, "
            f"{pictures} pictures, fingerprint {folder.fingerprint[:16]}"
        )
    return 1 if faults else 0


def _benchmark(folder: Path) -> str:
    """The benchmark that a sound folder's manifest names."""
    return str(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["benchmark"])
