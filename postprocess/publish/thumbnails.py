"""Small pictures for the report, within a budget of bytes.

A picture that `postprocess.pictures` refuses has no thumbnail. Thumbnails carry no metadata of
their originals.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from postprocess.pictures import PictureError, picture_of

SIZES = (256, 192, 144, 112, 88)
"""Longest sides to choose from, in pixels; the largest that fits the budget is taken."""

QUALITY = 68
TRIED = 16
"""Pictures that are encoded at each size to find out what the others will take."""


class Thumbnails(NamedTuple):
    """Pictures as data URIs."""

    uris: dict[str, str]
    """By image id; pictures without one are missing here."""
    left_out: int
    """Pictures that could not be read, or found no room."""


def make(pictures: Mapping[str, Path], ids: Iterable[str], budget: int) -> Thumbnails:
    """Thumbnails of the pictures with these ids.

    Args:
        pictures: File of each picture, by image id.
        ids: The pictures that are wanted, the more important ones first.
        budget: Characters that all data URIs together may take.

    Returns:
        As many as fit, at one size for all.
    """
    wanted = list(dict.fromkeys(ids))
    found = [image_id for image_id in wanted if image_id in pictures]
    size = _size(pictures, found, budget)
    uris: dict[str, str] = {}
    used = 0
    for image_id in found:
        uri = encode(pictures[image_id], size)
        if uri is None or used + len(uri) > budget:
            continue
        uris[image_id] = uri
        used += len(uri)
    return Thumbnails(uris, len(wanted) - len(uris))


def encode(path: Path, size: int) -> str | None:
    """A JPEG of the picture as a data URI, or None where it does not decode."""
    try:
        small = picture_of(path, about=size)
    except PictureError:
        return None
    small.thumbnail((size, size))
    stream = io.BytesIO()
    small.save(stream, "JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def _size(pictures: Mapping[str, Path], found: list[str], budget: int) -> int:
    if not found:
        return SIZES[0]
    step = max(1, len(found) // TRIED)
    for size in SIZES:
        tried = [uri for i in found[::step] if (uri := encode(pictures[i], size)) is not None]
        mean = sum(map(len, tried)) / len(tried) if tried else 0
        if 1.1 * mean * len(found) <= budget:
            return size
    return SIZES[-1]
