"""Small pictures for the report, within a budget of bytes.

Files come from a dataset folder and are hostile until decoded: one that does not decode, or would
decode to something enormous, has no thumbnail. Thumbnails carry no metadata of their originals.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageOps

from postprocess.pictures import strict_decoding

SIZES = (256, 192, 144, 112, 88)
"""Longest sides to choose from, in pixels; the largest that fits the budget is taken."""

QUALITY = 68
TRIED = 16
"""Pictures that are encoded at each size to find out what the others will take."""

MAX_PIXELS = 80_000_000


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
        with strict_decoding(), Image.open(path) as image:
            if image.width * image.height > MAX_PIXELS:
                return None
            image.draft("RGB", (size, size))
            small = ImageOps.exif_transpose(image)
            small.thumbnail((size, size))
            stream = io.BytesIO()
            _flat(small).save(stream, "JPEG", quality=QUALITY, optimize=True)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def _flat(image: Image.Image) -> Image.Image:
    """In RGB, what is transparent on white, and nothing of the original's metadata."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        ground = Image.new("RGBA", layer.size, "white")
        image = Image.alpha_composite(ground, layer)
    out = image.convert("RGB")
    out.info.clear()
    return out


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
