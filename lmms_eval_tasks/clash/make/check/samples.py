"""Reads CLASH samples out of whatever a user has: a dataset folder, its rows, a release file.

A sample that cannot be read keeps its place and the reason, so that it can be counted and named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.data import FORMAT, check_row, sample_id_of
from lmms_eval_tasks.clash.make.release import MAX_DATA_BYTES, parse_sample
from lmms_eval_tasks.dataset.files import read_text


class Read(NamedTuple):
    """One sample of a file."""

    place: int
    """From 0."""
    row: dict[str, Any] | None
    fault: str | None
    """Why there is no row."""


def read_rows(path: Path) -> list[Read]:
    """The samples of a file, in its order.

    Args:
        path: A dataset folder, `samples.jsonl`, or a JSON file of the release's form (a list, or a
            mapping with `samples`); each may be gzipped.

    Raises:
        ValueError: The file is missing, is too large, or holds no samples.
    """
    if path.is_dir():
        path = path / FORMAT.rows_file
    text = read_text(path, MAX_DATA_BYTES)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _lines(path, text)
    if isinstance(data, Mapping) and "samples" not in data:
        data = [data]
    samples = data.get("samples") if isinstance(data, Mapping) else data
    if not isinstance(samples, list):
        raise ValueError(f'{path}: holds no list of samples under "samples"')
    return [_read(place, sample) for place, sample in enumerate(samples)]


def _lines(path: Path, text: str) -> list[Read]:
    read: list[Read] = []
    broken = 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            read.append(_read(len(read), json.loads(line)))
        except (ValueError, RecursionError) as error:
            broken += 1
            read.append(Read(len(read), None, f"is not JSON ({str(error)[:80]})"))
    if not read or broken == len(read):
        raise ValueError(f"{path}: is neither JSON nor JSON lines")
    return read


def _read(place: int, sample: object) -> Read:
    if isinstance(sample, Mapping) and "image_answer" in sample:
        missing = [name for name in FORMAT.required if name not in sample and name != "sample_id"]
        if missing:
            return Read(place, None, f"has no {missing[0]!r}")
        row = {"sample_id": "", **sample}
        faults = check_row(row)
        if faults:
            return Read(place, None, faults[0])
        row["sample_id"] = str(row["sample_id"] or sample_id_of(str(row["image_id"]), row))
        return Read(place, row, None)
    try:
        return Read(place, parse_sample(sample), None)
    except ValueError as error:
        return Read(place, None, str(error))
