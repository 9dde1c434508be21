"""A CLASH dataset folder out of your own copies of the release and of COCO train2017.

Samples whose picture is missing, does not decode or is a placeholder are left out, listed and
counted; the rest is built. The folder is called `full` only when every sample and picture of the
released test set is in it, unchanged; anything less is `custom`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lmms_eval_tasks.clash.make import release
from lmms_eval_tasks.dataset.current import data_home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add = parser.add_argument
    add("--release", type=Path, required=True, metavar="DIR", help="your copy of the CLASH release")
    add("--coco", type=Path, required=True, metavar="DIR", help="your copy of COCO train2017")
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder to make (default: the data folder that tasks look in)",
    )
    add(
        "--split",
        choices=tuple(release.SPLITS),
        default="test",
        help="the test set, or one of the two fine-tuning sets (default: test)",
    )
    add(
        "--paper-compat",
        action="store_true",
        help="keep one question a picture, as the paper's figures do (n = 1,281 for the test set)",
    )
    add(
        "--own-prompts",
        action="store_true",
        help="leave the release's prompts out; tasks then use pragclash's",
    )
    add("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Build the folder and print what became of it."""
    name = "clash" if args.split == "test" else f"clash-{args.split}"
    report = release.build(
        args.release,
        args.coco,
        args.out or data_home() / name,
        split=args.split,
        paper_compat=args.paper_compat,
        own_prompts=args.own_prompts,
    )
    if args.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        print("\n".join(release.lines_of(report)))
    return 0
