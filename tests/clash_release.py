"""A stand-in for the CLASH release's prediction files: its counts, our words.

The release has no licence, so that none of its text is part of this project. Of twelve of its
files counts are kept (`known_answers/clash_release_counts.json`): how many rows have which flags,
which verdicts of which judges, and in one file which category. `write` spells them out again as
files of the release's layout, with captions and answers of our own, so that every figure of the
paper that the files yield can be tested without them. `counts_of` reads the counts from the files
themselves: with them at hand, `python -m tests.clash_release FOLDER` writes the table, and a test
says when it is stale.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from postprocess.read.matching import open_outcome
from tests import KNOWN_ANSWERS

TABLE = KNOWN_ANSWERS / "clash_release_counts.json"
FLAGS = {
    "matches_contradiction": "conflict",
    "matches_image_only": "image",
    "matches_text_only": "text",
    "matches_irrelevant": "distractor",
    "matches_none": "none",
}
FORMS = {
    "multiple_choice": ("conflict", "image", "text", "distractor"),
    "open_ended": ("conflict", "image", "text", "none"),
}
ROLES = ("contradiction", "image_only", "text_only", "irrelevant_but_plausible")
WITH_CATEGORY = "multiple_choice/gpt-5"
"""The file of which the paper prints categories."""
ORIGINAL = "_wo_contr"
ABSENT, ERROR = "absent", "error"
NOTHING = "nothing"
"""All flags are false."""
ONE_FLAG = "; one flag stored"
WORDS = (
    ("kite", "drone", "lantern"),
    ("Two herons", "five herons", "no heron"),
    ("wooden", "steel", "glass"),
    ("a grey tram", "the green truck", "an old ferry"),
    ("3", "7", "9"),
)
"""What the picture shows, what the caption says, and what neither does."""


def main() -> None:
    """Write the table of counts from the files."""
    entries = counts_of(Path(sys.argv[1]))
    lines = []
    for entry in entries:
        rows = ",\n".join("   " + json.dumps(row) for row in entry.pop("rows"))
        head = json.dumps(entry, indent=1)[1:-2].replace("\n", "\n ")
        lines.append(f' {{{head},\n  "rows": [\n{rows}\n  ]\n }}')
    TABLE.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def table() -> list[dict[str, Any]]:
    """The counts as they are kept."""
    entries: list[dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return entries


def counts_of(golden: Path) -> list[dict[str, Any]]:
    """The counts of the files in a folder, in the form of the table."""
    labels = _labels(golden / "test.json.gz")
    out = []
    folder = golden / "predictions"
    for path in sorted(folder.rglob("*_predictions.json.gz")):
        name = path.relative_to(folder).as_posix().removesuffix("_predictions.json.gz")
        if name.endswith(ORIGINAL):
            continue
        rows = {row["image_id"]: row for row in _read(path)}
        other = path.with_name(path.name.replace("_predictions", f"{ORIGINAL}_predictions"))
        original = {row["image_id"]: row for row in _read(other)} if other.exists() else {}
        judges = sorted({judge for row in rows.values() for judge in _judges(row)})
        columns = ["category"] if name == WITH_CATEGORY else []
        columns += ["flags", *(["original"] if original else []), *judges]
        counted: Counter[tuple[str, ...]] = Counter()
        for image, row in rows.items():
            cells = [labels[image]] if name == WITH_CATEGORY else []
            cells.append(_flags(row))
            cells += [_flags(original[image])] if original else []
            counted[(*cells, *(_judge(row, judge) for judge in judges))] += 1
        why = "rows of the released file with these flags"
        out.append(
            {
                "name": name,
                "why": why + (", of the same picture in both files" if original else ""),
                "columns": columns,
                "rows": [[*cells, n] for cells, n in sorted(counted.items())],
            }
        )
    return out


def write(golden: Path) -> Path:
    """Write files of the release's layout with the counts of the table and words of our own."""
    entries = table()
    (labelled,) = (entry for entry in entries if entry["name"] == WITH_CATEGORY)
    labels = [row[0] for row in labelled["rows"] for _ in range(row[-1])]
    samples = [
        {**_shown(image, again), "change_type": kind, "category": category}
        for image, label in enumerate(labels)
        for again, (kind, category) in enumerate(_parse(label))
    ]
    _write(golden / "test.json.gz", {"samples": samples})
    for entry in entries:
        names = entry["columns"]
        spread = [row[:-1] for row in entry["rows"] for _ in range(row[-1])]
        if entry is not labelled:
            random.Random(entry["name"]).shuffle(spread)
        rows = [dict(zip(names, cells, strict=True)) for cells in spread]
        path = golden / "predictions" / f"{entry['name']}_predictions.json.gz"
        _write(path, [_row(image, cells, path) for image, cells in enumerate(rows)])
        if "original" in names:
            path = path.with_name(path.name.replace("_predictions", f"{ORIGINAL}_predictions"))
            swapped = [{"flags": cells["original"]} for cells in rows]
            _write(path, [_row(image, cells, path) for image, cells in enumerate(swapped)])
    return golden


def _row(image: int, cells: dict[str, str], path: Path) -> dict[str, Any]:
    """A row of a prediction file whose words have the flags that are wanted."""
    form = "multiple_choice" if "multiple_choice" in path.parts else "open_ended"
    flags, one_flag = cells["flags"].removesuffix(ONE_FLAG), cells["flags"].endswith(ONE_FLAG)
    held = [] if flags == NOTHING else flags.split("+")
    texts = dict(zip(("image", "text", "distractor"), WORDS[image % len(WORDS)], strict=True))
    texts["conflict"] = "Conflicting information"
    answers: dict[str, Any]
    if form == "multiple_choice":
        letters = {role: "ABCD"[(image + i) % 4] for i, role in enumerate(FORMS[form])}
        answers = {
            role: {"choice": letters[name], "answer": texts[name]}
            for role, name in zip(ROLES, FORMS[form], strict=True)
        }
        prediction = " ".join(f"({letters[name]})" for name in held)
    else:
        answers = {"image_only": texts["image"], "text_only": texts["text"]}
        said = [texts[name].upper() if image % 3 else f"the {texts[name]}" for name in held
                if name != "none"]  # fmt: skip
        prediction = " or ".join(said) + "." if said else "Nobody can tell." * (image % 2)
    stored = {key: name in held for key, name in FLAGS.items() if name in FORMS[form]}
    if one_flag:
        stored = {"matches_contradiction": "conflict" in held}
    row = {**_shown(image), "prediction": prediction, "modality_answers": answers}
    row["evaluation"] = stored
    for judge in set(cells) - {"category", "flags", "original"}:
        label = cells[judge]
        if label == ERROR:
            row[f"evaluation_{judge}"] = {"error": "no answer"}
        elif label != ABSENT:
            row[f"evaluation_{judge}"] = {
                key: name == label for key, name in FLAGS.items() if name in FORMS[form]
            }
            words = "SAY MORE ABOUT IT" if label == NOTHING else label.upper()
            row[f"evaluation_{judge}_prediction"] = words
    return row


def _shown(image: int, again: int = 0) -> dict[str, Any]:
    shows, says, _ = WORDS[image % len(WORDS)]
    return {
        "image_id": image,
        "original_caption": f"Number {image} is {shows}. ",
        "conflicting_caption": f"Number {image} is {says}.",
        "question": f"What is number {image}{' really' * again}?",
    }


def _flags(row: dict[str, Any]) -> str:
    stored = row["evaluation"]
    if set(stored) != {"matches_contradiction"}:
        return _held(stored)
    answers = row["modality_answers"]
    found = open_outcome(row["prediction"], answers["image_only"], answers["text_only"])
    assert found.conflict == stored["matches_contradiction"]
    return "+".join(x for x in FORMS["open_ended"] if getattr(found, x)) + ONE_FLAG


def _held(stored: dict[str, bool]) -> str:
    return "+".join(name for key, name in FLAGS.items() if stored.get(key)) or NOTHING


def _judges(row: dict[str, Any]) -> list[str]:
    names = [key for key in row if key.startswith("evaluation_")]
    return [x.removeprefix("evaluation_") for x in names if not x.endswith("_prediction")]


def _judge(row: dict[str, Any], judge: str) -> str:
    stored = row.get(f"evaluation_{judge}")
    if stored is None:
        return ABSENT
    return ERROR if "error" in stored else _held(stored)


def _labels(path: Path) -> dict[Any, str]:
    """What is said of a picture's samples, such as `object sports, transportation`."""
    said: dict[Any, list[str]] = {}
    for sample in _read(path)["samples"]:
        category = sample["category"]
        names = [category] if isinstance(category, str) else category
        said.setdefault(sample["image_id"], []).append(
            f"{sample['change_type']} {', '.join(names)}"
        )
    return {image: "; ".join(sorted(labels)) for image, labels in said.items()}


def _parse(label: str) -> list[tuple[str, str | list[str]]]:
    out: list[tuple[str, str | list[str]]] = []
    for part in label.split("; "):
        kind, _, names = part.partition(" ")
        categories = names.split(", ")
        out.append((kind, categories[0] if len(categories) == 1 else categories))
    return out


def _read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(value).encode(), mtime=0))


if __name__ == "__main__":
    main()
