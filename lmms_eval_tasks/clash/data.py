"""CLASH rows: what a sample must say, and the prompts that a dataset folder may carry.

One row is one question about one picture, with a true caption and one that differs from it in a
single object or attribute. A picture may have several rows, so nothing here is keyed by picture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lmms_eval_tasks.dataset.checks import Format, brief, check_text
from postprocess.measure.clash import CATEGORIES
from postprocess.read.matching import normalise
from postprocess.record import clash as clash_records

CHANGE_TYPES = tuple(CATEGORIES)

TEXTS = (
    "original_caption",
    "conflicting_caption",
    "question",
    "original_word",
    "conflicting_word",
    "image_answer",
    "text_answer",
    "distractor",
)
"""Columns that hold text; leading and trailing spaces are kept as they are."""

_ANSWERS = ("image_answer", "text_answer", "distractor")
_MATCHED = _ANSWERS[:2]
"""Those that open answers are searched for, in their normal form."""

PROMPT_NAMES = ("multiple_choice", "open_ended", "judge")
"""The official prompts that a folder's manifest may carry."""


class OfficialPrompt(NamedTuple):
    """A prompt taken out of a user's copy of the release."""

    text: str
    sha256: str


def check_row(row: Mapping[str, Any]) -> list[str]:
    """Faults of one row."""
    faults = [fault for name in TEXTS for fault in check_text(name, row[name])]
    if not faults:
        if _same(row["original_caption"], row["conflicting_caption"]):
            faults.append("conflicting_caption says the same as original_caption")
        faults += _check_answers(row)
    change_type, categories = row["change_type"], row["categories"]
    if change_type not in CHANGE_TYPES:
        known = " or ".join(CHANGE_TYPES)
        return [*faults, f"change_type must be {known}, not {brief(change_type)}"]
    if not isinstance(categories, list) or not all(isinstance(x, str) for x in categories):
        return [*faults, "categories must be a list of names"]
    if len(set(categories)) != len(categories):
        faults.append("categories names one of them twice")
    for name in categories:
        if name not in CATEGORIES[change_type]:
            known = ", ".join(CATEGORIES[change_type])
            faults.append(f"category {name[:40]!r} is none of {known} ({change_type})")
    return faults


def check_rows(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> list[tuple[int, str]]:
    """Faults between rows: the same question asked twice with the same two captions."""
    faults: list[tuple[int, str]] = []
    seen: dict[tuple[str, ...], int] = {}
    for line, row in rows:
        key = (row["image_id"], *(row[name] for name in TEXTS[:3]))
        first = seen.setdefault(key, line)
        if first != line:
            faults.append((line, f"has picture, captions and question of row {first}"))
    return faults


N_SAMPLES, N_PICTURES = 1_289, 1_281
"""Size of the released test set."""


def not_full(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Why rows cannot be the released test set: its size (the builder compares the content)."""
    n_pictures = len({row["image_id"] for row in rows})
    if (len(rows), n_pictures) == (N_SAMPLES, N_PICTURES):
        return None
    return f"{len(rows)} samples on {n_pictures} pictures are not its 1,289 on 1,281"


FORMAT = Format(
    benchmark="clash",
    rows_file="samples.jsonl",
    required=("sample_id", "image_id", "image", *TEXTS, "change_type", "categories"),
    optional=("extra",),
    check_row=check_row,
    check_rows=check_rows,
    not_full=not_full,
)


def sample_id_of(image_id: str, row: Mapping[str, Any]) -> str:
    """A name for a sample that follows from its content alone.

    The picture's id does not do: eight pictures of the release are asked about twice.

    >>> row = {"original_caption": "A kite.", "conflicting_caption": "A ball.", "question": "What?"}
    >>> sample_id_of("42", row)
    '42-882e7f8e'
    """
    return clash_records.sample_id_of(image_id, *(row[name] for name in TEXTS[:3]))


def prompt_hash(text: str) -> str:
    """SHA-256 of a prompt, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def official_prompts(manifest: Mapping[str, Any]) -> dict[str, OfficialPrompt]:
    """The official prompts that a folder carries, by name; empty without a release.

    Raises:
        ValueError: A prompt is unknown, damaged, or does not have the hash stored beside it.
    """
    stored = manifest.get("prompts")
    if stored is None:
        return {}
    if not isinstance(stored, Mapping):
        raise ValueError('"prompts" is not a JSON object')
    prompts = {}
    for name, entry in stored.items():
        if name not in PROMPT_NAMES:
            known = ", ".join(PROMPT_NAMES)
            raise ValueError(f'"prompts" holds the unknown {name[:40]!r}; known: {known}')
        text: Any = entry.get("text") if isinstance(entry, Mapping) else None
        faults = check_text(f"prompt {name}", text)
        if faults:
            raise ValueError(faults[0])
        if entry.get("sha256") != prompt_hash(text):
            raise ValueError(f"prompt {name} was changed after it was taken out of the release")
        prompts[name] = OfficialPrompt(text, entry["sha256"])
    return prompts


def _check_answers(row: Mapping[str, Any]) -> list[str]:
    """Faults of the three answers: those that scoring could never find, or never tell apart."""
    faults = []
    for name in _MATCHED:
        if not normalise(row[name]):
            faults.append(f"{name} {row[name][:40]!r} has no word to match an answer with")
    for index, name in enumerate(_ANSWERS):
        for other in _ANSWERS[index + 1 :]:
            one, two = row[name], row[other]
            if _same(one, two):
                faults.append(f"{name} and {other} are the same ({one[:40]!r})")
            elif name in _MATCHED and other in _MATCHED and normalise(one) == normalise(two) != "":
                words = f"{one[:40]!r} and {two[:40]!r}"
                faults.append(f"{name} and {other} match the same answers ({words})")
    return faults


def _same(one: str, other: str) -> bool:
    return one.casefold().split() == other.casefold().split()
