"""Check a dataset folder: every fault is listed with its file and row.

A sound folder exits 0. Pictures that are missing or do not decode are faults here, although a run
would leave them out and count them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lmms_eval_tasks.dataset.folder import check_folder, load_folder
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
    if args.json:
        listed = [fault._asdict() for fault in faults]
        print(json.dumps({"folder": str(args.folder), "faults": listed}))
    elif faults:
        print("\n".join(str(fault) for fault in faults))
        print(f"{args.folder}: {len(faults)} faults")
    else:
        manifest = json.loads((args.folder / "manifest.json").read_text(encoding="utf-8"))
        folder = load_folder(args.folder, args.benchmark or manifest["benchmark"])
        pictures = len({row["image_id"] for row in folder.rows})
        print(
            f"{args.folder}: sound; {folder.benchmark}, {folder.kind}, {len(folder.rows)} rows, "
            f"{pictures} pictures, fingerprint {folder.fingerprint[:16]}"
        )
    return 1 if faults else 0
