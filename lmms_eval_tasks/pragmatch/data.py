"""PragMatch rows: what a caption row must say, and which rows a task asks about.

One row is one caption of one picture: P (sarcastic), L (literal) or M (arbitrary mismatch), clean
or with one cue edited. Rows are always put together by picture id, never by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lmms_eval_tasks.dataset.checks import Format, brief, check_text, text_key
from lmms_eval_tasks.dataset.folder import Folder
from postprocess.benchmarks.pragmatch_tasks import CUES, TaskSpec

CONDITIONS = ("P", "L", "M")
EDITS = {"mask": "P", "inject": "M"}
"""Cue edit to the condition it applies to."""

MAX_FOLD = 9_999

Slot = tuple[str, str | None, str | None]
"""Condition, cue and edit: what one picture has at most one caption of."""


def slot_of(row: Mapping[str, Any]) -> Slot:
    """The place a row takes among the captions of its picture."""
    return row["condition"], row["cue"], row["edit"]


def check_row(row: Mapping[str, Any]) -> list[str]:
    """Faults of one caption row."""
    faults = check_text("caption", row["caption"])
    condition, cue, edit, label = row["condition"], row["cue"], row["edit"], row["label"]
    if condition not in CONDITIONS:
        faults.append(f"condition {brief(condition)} is none of {', '.join(CONDITIONS)}")
    elif isinstance(label, bool) or label not in (0, 1) or not isinstance(label, int):
        faults.append(f"label must be 0 or 1, not {brief(label)}")
    elif label != (condition == "P"):
        faults.append(f"label {label} contradicts condition {condition}: only P is sarcastic (1)")
    if (cue is None) != (edit is None):
        faults.append("cue and edit are set together or not at all")
    elif cue is not None:
        if cue not in CUES:
            faults.append(f"cue {brief(cue)} is none of {', '.join(CUES)}")
        if edit not in tuple(EDITS):  # a list or an object has no hash
            faults.append(f"edit {brief(edit)} is none of {', '.join(EDITS)}")
        elif condition in CONDITIONS and EDITS[edit] != condition:
            faults.append(f"edit {edit!r} is for condition {EDITS[edit]}, not {condition}")
    fold = row.get("fold")
    whole = isinstance(fold, int) and not isinstance(fold, bool)
    if fold is not None and not (whole and 0 <= fold <= MAX_FOLD):
        faults.append(f"fold must be a whole number from 0 to {MAX_FOLD}, not {brief(fold)}")
    return faults


def check_rows(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> list[tuple[int, str]]:
    """Faults between rows: a place or text taken twice, edits without an original, split folds."""
    faults: list[tuple[int, str]] = []
    places: dict[tuple[str, Slot], int] = {}
    folds: dict[str, tuple[Any, int]] = {}
    for line, row in rows:
        place = (row["image_id"], slot_of(row))
        first = places.setdefault(place, line)
        if first != line:
            faults.append((line, f"picture {row['image_id']} has this caption in row {first} too"))
        fold, where = folds.setdefault(row["image_id"], (row.get("fold"), line))
        if fold != row.get("fold"):
            message = f"fold {row.get('fold')} differs from fold {fold} of its picture in row"
            faults.append((line, f"{message} {where}"))
    said: dict[tuple[str, str], tuple[int, int]] = {}
    for line, row in rows:
        if row["edit"] is None:
            key = (row["image_id"], text_key(row["caption"]))
            label, where = said.setdefault(key, (row["label"], line))
            if label != row["label"]:
                message = f"says the same as row {where} about one picture, with another label"
                faults.append((line, f"caption {message}"))
    for line, row in rows:
        original = (row["image_id"], (row["condition"], None, None))
        if row["edit"] is not None and original not in places:
            message = f"picture {row['image_id']} has no clean {row['condition']} to compare with"
            faults.append((line, message))
    return faults


FULL_PICTURES = 1_000
"""Pictures of the benchmark (protocol of the PragMatch paper)."""


def not_full(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Why rows cannot be the whole benchmark: it asks P, L and M about 1,000 pictures."""
    clean: dict[str, set[str]] = {}
    for row in rows:
        if row["edit"] is None:
            clean.setdefault(row["image_id"], set()).add(row["condition"])
    whole = sum(set(CONDITIONS) <= found for found in clean.values())
    return None if whole >= FULL_PICTURES else f"{whole} pictures have P, L and M, of 1,000"


FORMAT = Format(
    benchmark="pragmatch",
    rows_file="captions.jsonl",
    required=("sample_id", "image_id", "image", "condition", "cue", "edit", "caption", "label"),
    optional=("fold", "extra"),
    check_row=check_row,
    check_rows=check_rows,
    not_full=not_full,
)


def select(rows: Iterable[Mapping[str, Any]], spec: TaskSpec) -> list[Mapping[str, Any]]:
    """The rows a task asks about: picture by picture, a picture's captions next to each other.

    Pictures stand in the order in which `rows` first names them. For cue tasks only pictures that
    have an edited caption count, because the clean one is asked on the same pictures.
    """
    pictures: dict[str, dict[Slot, Mapping[str, Any]]] = {}
    for row in rows:
        pictures.setdefault(row["image_id"], {})[slot_of(row)] = row
    chosen = []
    for captions in pictures.values():
        if all(slot in captions for slot in spec.needed):
            chosen += [captions[slot] for slot in spec.slots if slot in captions]
    return chosen


def absent(rows: Iterable[Mapping[str, Any]], spec: TaskSpec) -> list[Slot]:
    """The places of a task that no row takes; with one of them no picture can be complete."""
    found = {slot_of(row) for row in select(rows, spec)}
    return [slot for slot in spec.slots if slot not in found]


def has_rows(folder: Folder, spec: TaskSpec) -> bool:
    """Whether a dataset has captions in every place that a task asks about.

    Rows whose picture cannot be used do not count: a task of those alone has no documents.
    """
    return not absent(folder.rows, spec)
