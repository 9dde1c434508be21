"""Reads the rows of a dataset folder, and says everything that is wrong with them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from lmms_eval_tasks.dataset.checks import (
    Fault,
    Format,
    brief,
    check_id,
    check_text,
    damaged_id,
    has_surrogate,
    rounded_ids,
    unsafe_path,
)
from lmms_eval_tasks.dataset.files import MAX_BYTES, UnreadableError, read_bytes

MAX_LINE_BYTES = 1_000_000
MAX_DEPTH = 16
"""Lists and objects inside one another, in a column that may hold them."""


def read_rows(
    path: Path, fmt: Format
) -> tuple[list[tuple[int, dict[str, Any]]], list[Fault], list[tuple[int, dict[str, Any]]]]:
    """Rows with their line numbers, every fault of the file, and the rows whose ids can be read.

    A row with a fault is in the last list alone, so that its other faults are found as well.
    """
    file, faults = fmt.rows_file, []
    try:
        raw = read_bytes(path / file, MAX_BYTES)
    except UnreadableError as error:
        return [], [Fault(file, None, error.reason)], []
    rows: list[tuple[int, dict[str, Any]]] = []
    identified: list[tuple[int, dict[str, Any]]] = []
    for line, content in enumerate(raw.split(b"\n"), start=1):
        if not content.strip():
            continue
        row, messages = _parse_row(content, fmt)
        faults += [Fault(file, line, message) for message in messages]
        if row is not None and not messages:
            rows.append((line, row))
        if row is not None and _is_identified(row):
            identified.append((line, row))
    faults += [Fault(file, line, message) for line, message in _common_faults(identified)]
    faults += [Fault(file, line, message) for line, message in fmt.check_rows(rows)]
    return rows, sorted(faults, key=lambda fault: fault.row or 0), identified


def _is_identified(row: Mapping[str, Any]) -> bool:
    """Whether a row's ids and picture can be compared with those of others."""
    names = ("sample_id", "image_id", "image")
    return (
        all(isinstance(row.get(name), str) for name in names)
        and not check_id("sample_id", row["sample_id"])
        and not check_id("image_id", row["image_id"])
        and unsafe_path(row["image"]) is None
    )


def _parse_row(content: bytes, fmt: Format) -> tuple[dict[str, Any] | None, list[str]]:
    if len(content) > MAX_LINE_BYTES:
        return None, [f"has {len(content)} bytes; at most {MAX_LINE_BYTES} are allowed"]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return None, [f"is not UTF-8 (byte {error.start}: {error.reason})"]
    try:
        row = json.loads(
            text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=no_number
        )
    except (ValueError, RecursionError) as error:
        return None, [f"is not JSON ({str(error)[:120]})"]
    if not isinstance(row, dict):
        return None, ["is not a JSON object"]
    messages = [f"has no {name!r}" for name in fmt.required if name not in row]
    known = (*fmt.required, *fmt.optional)
    for name in row:
        if name not in known:
            allowed = ", ".join(known)
            messages.append(f"has the unknown column {str(name)[:40]!r}; known: {allowed}")
    if messages:
        return row, messages
    messages = check_id("sample_id", row["sample_id"]) + check_id("image_id", row["image_id"])
    messages += check_text("image", row["image"])
    messages += [fault for name, value in row.items() for fault in _check_nested(name, value)]
    if not messages:
        reason = unsafe_path(row["image"])
        messages += [f"image {row['image'][:80]!r}: {reason}"] if reason else []
        messages += damaged_id(row["image_id"], PurePosixPath(row["image"]).stem)
    return row, messages + fmt.check_row(row)


def _check_nested(name: str, value: object) -> list[str]:
    """Faults inside a list or an object: depth, and text that no file can hold."""
    if name == "extra" and value is not None and not isinstance(value, dict):
        return [f"extra must be an object, not {brief(value)}"]
    if not isinstance(value, dict | list):
        return []
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner = [item for one in level for item in (one.values() if isinstance(one, dict) else one)]
        names = [key for one in level if isinstance(one, dict) for key in one]
        if any(has_surrogate(x) for x in (*inner, *names) if isinstance(x, str)):
            return [f"{name} holds a lone surrogate"]
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return []
    return [f"{name} is nested deeper than {MAX_DEPTH} levels"]


def _common_faults(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> list[tuple[int, str]]:
    faults: list[tuple[int, str]] = []
    samples: dict[str, int] = {}
    pictures: dict[str, tuple[str, int]] = {}
    for line, row in rows:
        first = samples.setdefault(row["sample_id"], line)
        if first != line:
            faults.append((line, f"sample_id {row['sample_id']!r} stands in row {first} already"))
        picture, where = pictures.setdefault(row["image_id"], (row["image"], line))
        if picture != row["image"]:
            message = f"image_id {row['image_id']!r} has picture {picture!r} in row {where}"
            faults.append((line, f"{message} and {row['image']!r} here"))
    lines = {row["image_id"]: line for line, row in rows}
    faults += [(lines[x], f"image_id {x} looks rounded by a float") for x in rounded_ids(lines)]
    return faults


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise ValueError("a key stands twice")
    return row


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def no_number(text: str) -> NoReturn:
    """What JSON readers of this project do with NaN and Infinity."""
    raise ValueError(f"{text} is no JSON number")
