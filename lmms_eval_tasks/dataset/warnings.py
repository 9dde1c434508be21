"""What is no fault of a dataset folder, but will surprise whoever evaluates on it.

A warning never keeps a folder from being used. It names the row, so that its owner can look.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval_tasks.dataset.checks import Fault
from lmms_eval_tasks.dataset.folder import format_of
from lmms_eval_tasks.dataset.pictures import picture_fault
from lmms_eval_tasks.dataset.rows import read_rows
from postprocess.pictures import picture_of, size_of

MIN_SIDE = 14
"""Pixels; a shorter side is less than one patch of the usual vision encoders."""

MAX_RATIO = 200
"""Processors of the usual models refuse pictures that are longer in relation to their width."""

MAX_DECODED = 100_000_000
"""Pixels of a picture that is decoded to see whether it has one colour only."""

_THUMBNAIL = 64
_CONTROL = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|<(?:image|video|audio|img|pad|bos|eos|unk)>|</?s>|\[/?INST\]|<</?SYS>>"
    r"|<(?:start|end)_of_(?:turn|image)>|<image_soft_token>",
    re.IGNORECASE,
)


def folder_warnings(path: Path, benchmark: str) -> list[Fault]:
    """The warnings of a folder that has no fault, in the order of its rows."""
    fmt = format_of(benchmark)
    rows = read_rows(path, fmt)[0]
    found = [*_control_tokens(rows), *_alike_ids(rows), *_odd_pictures(path, rows)]
    return [Fault(fmt.rows_file, line, message) for line, message in sorted(found)]


def _control_tokens(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[int, str]]:
    for line, row in rows:
        for name, value in row.items():
            token = _CONTROL.search(value) if isinstance(value, str) else None
            if token:
                yield line, f"{name} holds {token[0]!r}, which some models read as a command"


def _alike_ids(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[tuple[int, str]]:
    for name in ("image_id", "sample_id"):
        seen: dict[str, tuple[str, int]] = {}
        for line, row in rows:
            first, where = seen.setdefault(row[name].casefold(), (row[name], line))
            if first != row[name]:
                message = f"differs from {first!r} in row {where} by case only"
                yield line, f"{name} {row[name]!r} {message}"


def _odd_pictures(
    path: Path, rows: Sequence[tuple[int, Mapping[str, Any]]]
) -> Iterator[tuple[int, str]]:
    first = {row["image"]: line for line, row in reversed(rows)}
    for picture, line in first.items():
        if picture_fault(path / picture) is None:
            for message in _oddities(path / picture):
                yield line, f"picture {picture} {message}"


def _oddities(path: Path) -> Iterator[str]:
    """What is odd about a picture, by its header and a thumbnail."""
    width, height = size_of(path)
    short, long = sorted((width, height))
    if short < MIN_SIDE:
        yield f"is {width} x {height} pixels: too small to see anything on"
    if long > MAX_RATIO * short:
        yield f"is {width} x {height} pixels: processors refuse sides beyond 1 to {MAX_RATIO}"
    if width * height <= MAX_DECODED:
        small = picture_of(path, about=_THUMBNAIL)
        small.thumbnail((_THUMBNAIL, _THUMBNAIL))
        if len(small.getcolors(_THUMBNAIL * _THUMBNAIL) or ()) == 1:
            yield "has one colour only"
