"""From a user's own copies of the CLASH release and of COCO to a dataset folder.

Samples whose picture is missing, does not decode or is a placeholder are left out, listed and
counted; the rest is built. The folder is called `full` only when every sample and picture of the
released test set is in it, unchanged; anything less is `custom`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.data import TEXTS, check_row, sample_id_of
from lmms_eval_tasks.clash.make.release_prompts import has_prompts, read_prompts
from lmms_eval_tasks.dataset.files import UnreadableError, read_bytes
from lmms_eval_tasks.dataset.folder import write_folder
from lmms_eval_tasks.dataset.pictures import picture_fault
from postprocess.pictures import picture_of

SPLITS = {
    "test": "data/synthetic_captions_test_filtered.json",
    "finetune": "data/filtered_data_finetune.json",
    "finetune-merged": "data/merged_data_finetune.json",
}
"""Split to its file in the release: the test set, and the fine-tuning sets of 18,097 and 31,676."""

TEST_DIGEST = "e244bdc59c3282030bf2b19793f80e48467c22e1e5d2b3298dc697dd41b37a88"
"""`content_digest` of the released test set."""

MAX_DATA_BYTES = 1_000_000_000

COCO_FOLDERS = ("", "train2017", "images/train2017")
"""Where the pictures may lie inside the folder that the user names."""

MIN_SIDE = 32
"""Pixels; the smallest picture of COCO has more."""

MIN_DEVIATION = 1.0
"""Standard deviation of the liveliest channel, of 255, from which a picture shows something."""

SHOWN = 10
"""So many left-out pictures and samples are printed; the manifest lists all."""


class Samples(NamedTuple):
    """The samples of one file of the release."""

    rows: list[dict[str, Any]]
    """Rows of our format without `image`, in the file's order."""
    faults: list[str]
    """One line for each sample that cannot be used, with its place in the file from 0."""
    sha256: str
    """Hash of the file."""


def read_samples(release: Path, split: str) -> Samples:
    """The samples of a split, in the release's order.

    Raises:
        ValueError: The file is missing, or is not what the release has there.
    """
    name = SPLITS[split]
    content = _read(release, name, MAX_DATA_BYTES)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: is not JSON ({str(error)[:120]})") from error
    samples = data.get("samples") if isinstance(data, Mapping) else data
    if not isinstance(samples, list):
        raise ValueError(f'{name}: holds no list of samples under "samples"')
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    places: dict[str, int] = {}
    for place, sample in enumerate(samples):
        try:
            row = parse_sample(sample)
        except ValueError as error:
            faults.append(f"{name}: sample {place}: {error}")
            continue
        first = places.setdefault(row["sample_id"], place)
        if first == place:
            rows.append(row)
        else:
            faults.append(f"{name}: sample {place}: says the same as sample {first}")
    return Samples(rows, faults, hashlib.sha256(content).hexdigest())


def parse_sample(sample: object) -> dict[str, Any]:
    """One sample of the release as a row of our format, `image` left out.

    Texts stay exactly as they are, because a prompt is made of them: many captions of the release
    end in a space. A category may be one name, a list of names, or absent (fine-tuning files).

    Raises:
        ValueError: The sample lacks something, or says something that no row may say.
    """
    if not isinstance(sample, Mapping):
        raise ValueError("is not a JSON object")
    image_id = sample.get("image_id")
    if isinstance(image_id, str) and image_id.isascii() and image_id.isdecimal():
        image_id = int(image_id[:20])
    if isinstance(image_id, bool) or not isinstance(image_id, int) or not 0 <= image_id < 10**12:
        raise ValueError(f"image_id {str(image_id)[:40]!r} is no COCO image id")
    category = sample.get("category")
    categories = [] if category is None else [category] if isinstance(category, str) else category
    if isinstance(categories, list) and all(isinstance(name, str) for name in categories):
        categories = list(dict.fromkeys(categories))
    row: dict[str, Any] = {
        "image_id": str(image_id),
        "original_caption": sample.get("original_caption"),
        "conflicting_caption": sample.get("conflicting_caption"),
        "question": sample.get("question"),
        "change_type": sample.get("change_type"),
        "categories": categories,
        "original_word": _inner(sample, "changed_words", "original"),
        "conflicting_word": _inner(sample, "changed_words", "conflicting"),
        "image_answer": _inner(sample, "answers", "image_only"),
        "text_answer": _inner(sample, "answers", "text_only"),
        "distractor": _inner(sample, "answers", "irrelevant_but_plausible"),
    }
    faults = check_row(row)
    if faults:
        raise ValueError(f"image_id {image_id}: {'; '.join(faults)}")
    return {"sample_id": sample_id_of(row["image_id"], row), **row}


def paper_view(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that the paper's figures rest on: of a picture's rows the last one in the file.

    The release keys its results by picture, so that a later row overwrites an earlier one: its
    files have n = 1,281. (Checked on twelve of its prediction files: eleven hold the last question
    of all eight pictures; in gpt-5's multiple choice three of them have their first.)

    >>> rows = [{"image_id": "1", "n": 1}, {"image_id": "2", "n": 2}, {"image_id": "1", "n": 3}]
    >>> paper_view(rows)
    [{'image_id': '2', 'n': 2}, {'image_id': '1', 'n': 3}]
    """
    last = {row["image_id"]: place for place, row in enumerate(rows)}
    return [row for place, row in enumerate(rows) if last[row["image_id"]] == place]


def content_digest(rows: list[dict[str, Any]]) -> str:
    """SHA-256 over the rows' content, whatever their order and whichever picture file they name."""
    names = ("sample_id", "image_id", *TEXTS, "change_type", "categories")
    lines = sorted(json.dumps([row[name] for name in names]) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


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
        ValueError: The release cannot be read, or none of its pictures is there.
        FolderError: The folder would not be sound.
        FileExistsError: `out` holds something already.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} exists already; choose another folder or remove it")
    samples = read_samples(release, split)
    official = {}
    if not own_prompts and has_prompts(release):
        official = read_prompts(release)
    if not samples.rows:
        reason = f"; the first: {samples.faults[0]}" if samples.faults else ""
        raise ValueError(f"{SPLITS[split]}: no sample can be used{reason}")
    wanted = paper_view(samples.rows) if paper_compat else samples.rows
    rows: list[dict[str, Any]] = []
    files: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for row in wanted:
        name = f"{int(row['image_id']):012d}.jpg"
        if name not in missing and f"images/{name}" not in files:
            path = _picture(coco, name)
            fault = picture_fault(path) or placeholder_fault(path)
            if fault:
                missing[name] = fault
            else:
                files[f"images/{name}"] = path
        if name not in missing:
            image = {"image": f"images/{name}"}
            rows.append(
                {"sample_id": row["sample_id"], "image_id": row["image_id"], **image, **row}
            )
    if not rows:
        name = next(iter(missing))
        raise ValueError(
            f"no picture can be used: {_counted(missing)} of {len(missing)}; the first, "
            f"{_picture(coco, name)}, {missing[name]}; looked in {coco} and its "
            f"{' and '.join(COCO_FOLDERS[1:])}"
        )
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


def placeholder_fault(path: Path) -> str | None:
    """Why a picture that decodes is none: tiny or of one colour, as failed downloads leave it."""
    from PIL import ImageStat

    picture = picture_of(path, about=MIN_SIDE)
    if min(picture.size) < MIN_SIDE:
        return f"is a placeholder ({picture.width} x {picture.height} pixels)"
    if max(ImageStat.Stat(picture).stddev) < MIN_DEVIATION:
        return "is a placeholder (a single colour)"
    return None


def lines_of(report: Mapping[str, Any]) -> list[str]:
    """What became of a build, for people."""
    lines = [
        f"{report['out']}: {report['n_rows']} samples on {report['n_pictures']} pictures, "
        f"kind {report['kind']}, prompts {report['prompt']}"
    ]
    missing, faulty = report["missing_pictures"], report["faulty_samples"]
    if missing:
        lines.append(
            f"{len(missing)} pictures cannot be used ({_counted(missing)}); "
            f"{report['n_rows_without_picture']} samples are left out with them:"
        )
        lines += _first([f"{name} {reason}" for name, reason in missing.items()])
    if faulty:
        lines.append(f"{len(faulty)} samples of the release cannot be used:")
        lines += _first(faulty)
    if report["prompt"] != "official":
        lines.append("the release's prompts are not in the folder: tasks will use pragclash's own")
    overlap = report.get("pictures_of_the_test_set")
    if overlap:
        lines.append(f"{len(overlap)} pictures are in the test set too: not to be trained on")
    return lines


def _picture(coco: Path, name: str) -> Path:
    """Where a picture lies, else where it should."""
    places = [coco / folder / name for folder in COCO_FOLDERS]
    return next((place for place in places if place.is_file()), places[0])


def _counted(missing: Mapping[str, str]) -> str:
    """Unusable pictures by the kind of reason."""
    kinds = {"missing": "is missing", "placeholders": "is a placeholder"}
    counts = {
        kind: sum(reason.startswith(words) for reason in missing.values())
        for kind, words in kinds.items()
    }
    counts["damaged"] = len(missing) - sum(counts.values())
    return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)


def _first(lines: Sequence[str]) -> list[str]:
    more = len(lines) - SHOWN
    tail = [f"  and {more} more, listed in manifest.json"] if more > 0 else []
    return [f"  {line}" for line in lines[:SHOWN]] + tail


def _inner(sample: Mapping[str, Any], outer: str, name: str) -> object:
    inner = sample.get(outer)
    return inner.get(name) if isinstance(inner, Mapping) else None


def _read(release: Path, name: str, limit: int) -> bytes:
    try:
        return read_bytes(release / name, limit)
    except UnreadableError as error:
        raise ValueError(f"{name}: {error.reason} in {release}") from error
