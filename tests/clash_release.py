"""A stand-in for the CLASH release's prediction files: its counts, our words.

The release has no licence, so that none of its text is part of this project. Of twelve of its
files counts are kept (`known_answers/clash_released_flags.json`): for pictures of which categories
how many rows have which flags and which verdicts of which judges. `write` spells them out again as
files of the release's layout, with captions and answers of our own, so that every figure of the
paper that the files yield can be tested without them. `counts_of` reads the counts from the files
themselves: with them at hand, `python -m tests.clash_release FOLDER` writes the table, and a test
says when it is stale.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from postprocess.read.matching import judge_label, open_outcome
from tests import KNOWN_ANSWERS

TABLE = KNOWN_ANSWERS / "clash_released_flags.json"
NAMES = ("conflict", "image", "text", "none")
STORED = {
    **{"conflict": "matches_contradiction", "image": "matches_image_only"},
    **{"text": "matches_text_only", "none": "matches_none", "distractor": "matches_irrelevant"},
}
CHOICES = {
    **{"contradiction": "A", "image_only": "B"},
    **{"text_only": "C", "irrelevant_but_plausible": "D"},
}
LABELS = dict(zip(NAMES, ("CONFLICT", "IMAGE", "TEXT", "NONE"), strict=True))
WORDS = {"conflict": "a conflict", "image": "a kite", "text": "a drone", "none": "nothing"}
ERROR, UNREADABLE = "ERROR", "UNREADABLE"
"""Of a judge: the request failed; an answer without a label."""


def main() -> None:
    """Write the table of counts from the files."""
    counts = counts_of(Path(sys.argv[1]))
    groups = ",\n".join("  " + json.dumps(group) for group in counts["groups"])
    files = []
    for name, entries in counts["files"].items():
        rows = ",\n".join("   " + json.dumps(entry) for entry in entries)
        files.append(f"  {json.dumps(name)}: [\n{rows}\n  ]")
    why, joined = json.dumps(counts["why"]), ",\n".join(files)
    text = f'{{\n "why": {why},\n "groups": [\n{groups}\n ],\n "files": {{\n{joined}\n }}\n}}\n'
    TABLE.write_text(text, encoding="utf-8")


def table() -> dict[str, Any]:
    """The counts as they are kept."""
    counts: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return counts


def names_of(file: str) -> tuple[str, ...]:
    """The flags of a file's form, in the order of the table."""
    return (*NAMES[:3], "distractor") if file.startswith("multiple_choice") else NAMES


def counts_of(golden: Path) -> dict[str, Any]:
    """The counts of the files in a folder, in the form of the table."""
    said: dict[Any, list[list[Any]]] = {}
    for sample in _read(golden / "test.json.gz")["samples"]:
        category = sample["category"]
        names = [category] if isinstance(category, str) else category
        said.setdefault(sample["image_id"], []).append([sample["change_type"], names])
    kinds = {image: json.dumps(sorted(samples)) for image, samples in said.items()}
    sizes = Counter(kinds.values())
    order = sorted(sizes, key=lambda kind: (-sizes[kind], kind))
    files = {}
    folder = golden / "predictions"
    for path in sorted(folder.rglob("*_predictions.json.gz")):
        name = path.relative_to(folder).as_posix().removesuffix("_predictions.json.gz")
        counted = Counter(
            (order.index(kinds[row["image_id"]]), _flags(row, names_of(name)), _judges(row))
            for row in _read(path)
        )
        files[name] = [[*key, n] for key, n in sorted(counted.items())]
    return {
        "why": "counts of the flags in the authors' released prediction files (arXiv 2511.19199), "
        "without their texts",
        "groups": [{"samples": json.loads(kind), "pictures": sizes[kind]} for kind in order],
        "files": files,
    }


def write(golden: Path) -> Path:
    """Write files of the release's layout with the counts of the table and words of our own."""
    counts = table()
    pictures: list[list[int]] = []
    samples = []
    for group in counts["groups"]:
        first = 10_000 * len(pictures)
        pictures.append(list(range(first, first + group["pictures"])))
        for picture in pictures[-1]:
            for kind, names in group["samples"]:
                category = names if len(names) > 1 else names[0]
                samples.append({**_shown(picture), "change_type": kind, "category": category})
    _write(golden / "test.json.gz", {"metadata": {}, "samples": samples})
    for name, entries in counts["files"].items():
        left = [iter(ids) for ids in pictures]
        rows = [
            row_of(next(left[group]), flags, judges, names_of(name))
            for group, flags, judges, n in entries
            for _ in range(n)
        ]
        _write(golden / "predictions" / f"{name}_predictions.json.gz", rows)
    return golden


def row_of(picture: int, flags: str, judges: str, names: tuple[str, ...]) -> dict[str, Any]:
    """A prediction in our own words that has these flags."""
    held, _, kept = flags.partition(" ")
    values = {name: mark == "1" for name, mark in zip(names, held, strict=True)}
    row = _shown(picture)
    if names != NAMES:
        letter = next((x for x, on in zip("ABCD", values.values(), strict=True) if on), None)
        row["prediction"] = f"({letter})" if letter else "no letter"
        row["modality_answers"] = {x: {"choice": c, "answer": x} for x, c in CHOICES.items()}
    else:
        row["prediction"] = " or ".join(WORDS[name] for name in NAMES if values[name])
        row["modality_answers"] = {"image_only": "kite", "text_only": "drone"}
    marks = kept or "s" * len(names)
    row["evaluation"] = {
        STORED[name]: values[name] for name, mark in zip(names, marks, strict=True) if mark == "s"
    }
    for judge, _, label in (part.partition("=") for part in judges.split(",") if part):
        if label == ERROR:
            row[f"evaluation_{judge}"] = {"error": "no answer"}
            continue
        row[f"evaluation_{judge}_prediction"] = "what?" if label == UNREADABLE else label
        row[f"evaluation_{judge}"] = {STORED[x]: LABELS[x] == label for x in NAMES}
    return row


def _shown(picture: int) -> dict[str, Any]:
    captions = {"original_caption": "A kite.", "conflicting_caption": "A drone."}
    return {"image_id": picture, "question": f"What is at place {picture}?", **captions}


def _flags(row: dict[str, Any], names: tuple[str, ...]) -> str:
    """A row's flags as marks; behind them, where some are not stored, which are."""
    stored = row["evaluation"]
    values = {name: stored[STORED[name]] for name in names if STORED[name] in stored}
    if len(values) == len(names):
        return "".join("01"[values[name]] for name in names)
    answers = row["modality_answers"]
    found = open_outcome(row["prediction"], answers["image_only"], answers["text_only"])
    assert all(getattr(found, name) == value for name, value in values.items())
    held = "".join("01"[getattr(found, name)] for name in names)
    return f"{held} {''.join('s' if name in values else '-' for name in names)}"


def _judges(row: dict[str, Any]) -> str:
    parts = []
    for key in sorted(row):
        if key.startswith("evaluation_") and not key.endswith("_prediction"):
            said = judge_label(row.get(f"{key}_prediction"))
            label = ERROR if "error" in row[key] else said or UNREADABLE
            parts.append(f"{key.removeprefix('evaluation_')}={label}")
    return ",".join(parts)


def _read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(value).encode(), mtime=0))


if __name__ == "__main__":
    main()
