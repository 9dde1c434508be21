"""`pragclash data clash`: a dataset folder out of a user's own copies of the release and of COCO.

Samples whose picture is missing or does not decode are left out, listed and counted; the rest is
built. The folder is called `full` only when every sample and picture of the released test set is
in it, unchanged; anything less is `custom`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmms_eval_tasks.clash.make.release import (
    PROMPTS_FILE,
    SPLITS,
    TEST_DIGEST,
    ReleaseError,
    content_digest,
    has_prompts,
    paper_view,
    read_prompts,
    read_samples,
)
from lmms_eval_tasks.clash.prompts import judge_request
from lmms_eval_tasks.dataset.current import data_home
from lmms_eval_tasks.dataset.folder import FolderError, write_folder
from lmms_eval_tasks.dataset.pictures import picture_fault

COCO_FOLDERS = ("", "train2017", "images/train2017")
"""Where the pictures may lie inside the folder that the user names."""

SHOWN = 10
"""So many left-out pictures and samples are printed; the manifest lists all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "--release", type=Path, required=True, metavar="DIR", help="your copy of the CLASH release"
    )
    parser.add_argument(
        "--coco", type=Path, required=True, metavar="DIR", help="your copy of COCO train2017"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder to make (default: the data folder that tasks look in)",
    )
    parser.add_argument(
        "--split",
        choices=tuple(SPLITS),
        default="test",
        help="the test set, or one of the two fine-tuning sets (default: test)",
    )
    parser.add_argument(
        "--paper-compat",
        action="store_true",
        help="keep one question a picture, as the paper's figures do (n = 1,281 for the test set)",
    )
    parser.add_argument(
        "--own-prompts",
        action="store_true",
        help="leave the release's prompts out; tasks then use pragclash's",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Build the folder and print what became of it; the exit status."""
    out = args.out or default_out(args.split)
    try:
        report = build(
            args.release,
            args.coco,
            out,
            split=args.split,
            paper_compat=args.paper_compat,
            own_prompts=args.own_prompts,
        )
    except (ReleaseError, FolderError, OSError) as error:
        print(f"pragclash data clash: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print_report(report)
    return 0


def default_out(split: str) -> Path:
    """Where the tasks look for the test set; fine-tuning sets lie beside it."""
    return data_home() / ("clash" if split == "test" else f"clash-{split}")


def build(
    release: Path,
    coco: Path,
    out: Path,
    *,
    split: str = "test",
    paper_compat: bool = False,
    own_prompts: bool = False,
) -> dict[str, Any]:
    """Build the dataset folder of one split.

    Args:
        release: A copy of the release.
        coco: A folder with COCO train2017's pictures, or one that holds `train2017/`.
        out: The folder to make; it must not exist, or be empty.
        split: A name of `SPLITS`.
        paper_compat: Keep the last question of each picture only.
        own_prompts: Do not take the official prompts over.

    Returns:
        `out`, `kind`, `fingerprint`, `n_rows`, `n_pictures`, `prompt` (`official` or `pragclash`),
        `missing_pictures` (file name to reason), `n_rows_without_picture`, `faulty_samples` (one
        line each), `n_rows_in_release`, and for fine-tuning sets `pictures_of_the_test_set`: the
        ids of pictures that must not be trained on, null where the test file is not there.

    Raises:
        ReleaseError: The release cannot be read, or none of its pictures is there.
        FolderError: The folder would not be sound.
        FileExistsError: `out` holds something already.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} exists already; choose another folder or remove it")
    samples = read_samples(release, split)
    official = {}
    if not own_prompts and has_prompts(release):
        official = read_prompts(release)
        try:
            judge_request(official["judge"].text, {"image_answer": "", "text_answer": ""}, "")
        except ValueError as error:
            raise ReleaseError(f"{PROMPTS_FILE}: JUDGE_PROMPT: {error}") from error
    if not samples.rows:
        reason = f"; the first: {samples.faults[0]}" if samples.faults else ""
        raise ReleaseError(f"{SPLITS[split]}: no sample can be used{reason}")
    wanted = paper_view(samples.rows) if paper_compat else samples.rows
    pictures = _picture_folder(coco, wanted)
    missing: dict[str, str] = {}
    rows, files = [], {}
    for row in wanted:
        name = f"{int(row['image_id']):012d}.jpg"
        if name not in missing and f"images/{name}" not in files:
            reason = picture_fault(pictures / name)
            if reason:
                missing[name] = reason
            else:
                files[f"images/{name}"] = pictures / name
        if name not in missing:
            image = {"image": f"images/{name}"}
            rows.append(
                {"sample_id": row["sample_id"], "image_id": row["image_id"], **image, **row}
            )
    if not rows:
        first = next(iter(missing))
        raise ReleaseError(f"no picture can be used: {pictures / first} {missing[first]}")
    whole = split == "test" and not samples.faults and content_digest(rows) == TEST_DIGEST
    manifest: dict[str, Any] = {
        "kind": "full" if whole else "custom",
        "split": split,
        "view": "paper" if paper_compat else "samples",
        "encoders": [],
        "sources": [
            {"name": "CLASH release", "file": SPLITS[split], "sha256": samples.sha256},
            {"name": "COCO train2017", "file": "{image_id:012d}.jpg"},
        ],
        "left_out": {"pictures": missing, "samples": samples.faults},
    }
    if official:
        manifest["prompts"] = {name: prompt._asdict() for name, prompt in official.items()}
    overlap = None
    if split != "test" and (release / SPLITS["test"]).is_file():
        tested = {row["image_id"] for row in read_samples(release, "test").rows}
        overlap = sorted({row["image_id"] for row in rows} & tested, key=int)
        manifest["pictures_of_the_test_set"] = overlap
    folder = write_folder(out, "clash", rows, files, manifest)
    report = {
        "out": str(out),
        "kind": folder.kind,
        "fingerprint": folder.fingerprint,
        "n_rows": len(rows),
        "n_pictures": len(files),
        "n_rows_in_release": len(samples.rows) + len(samples.faults),
        "n_rows_without_picture": len(wanted) - len(rows),
        "prompt": "official" if official else "pragclash",
        "missing_pictures": missing,
        "faulty_samples": samples.faults,
    }
    return report if split == "test" else {**report, "pictures_of_the_test_set": overlap}


def _picture_folder(coco: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """The folder that holds most of the first rows' pictures."""
    names = [f"{int(row['image_id']):012d}.jpg" for row in rows[:100]]
    places = [coco / name for name in COCO_FOLDERS]
    return max(places, key=lambda place: sum((place / name).is_file() for name in names))


def _print_report(report: dict[str, Any]) -> None:
    print(
        f"{report['out']}: {report['n_rows']} samples on {report['n_pictures']} pictures, "
        f"kind {report['kind']}, prompts {report['prompt']}"
    )
    missing, faulty = report["missing_pictures"], report["faulty_samples"]
    if missing:
        lost = report["n_rows_without_picture"]
        print(f"{len(missing)} pictures cannot be used; {lost} samples are left out with them:")
        _print_first([f"{name} {reason}" for name, reason in missing.items()])
    if faulty:
        print(f"{len(faulty)} samples of the release cannot be used:")
        _print_first(faulty)
    if report["prompt"] != "official":
        print("the release's prompts are not in the folder: tasks will use pragclash's own")
    overlap = report.get("pictures_of_the_test_set")
    if overlap:
        print(f"{len(overlap)} pictures are in the test set too and must not be trained on")


def _print_first(lines: Sequence[str]) -> None:
    for line in lines[:SHOWN]:
        print(f"  {line}")
    if len(lines) > SHOWN:
        print(f"  and {len(lines) - SHOWN} more, listed in manifest.json")
