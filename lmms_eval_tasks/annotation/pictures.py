"""A picture as a browser can show it, and as a model sees it.

Formats that every browser knows go out as they are. Others, and moving pictures, of which a model
sees the first frame only, go out as PNG.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import NamedTuple

from PIL import Image, UnidentifiedImageError

MEDIA_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}


class Picture(NamedTuple):
    """Bytes and what they are."""

    data: bytes
    media_type: str


class PictureChangedError(ValueError):
    """The file is gone or no longer the one that the item was made with."""


def picture(path: Path, digest: str) -> Picture:
    """A picture of the dataset.

    Args:
        path: Its file.
        digest: SHA-256 that its bytes must have.

    Raises:
        PictureChangedError: The file is missing, has other bytes, or does not decode.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PictureChangedError(f"{path.name}: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise PictureChangedError(f"{path.name} has changed since the page was started")
    try:
        with Image.open(io.BytesIO(data)) as opened:
            form = opened.format or ""
            if form in MEDIA_TYPES and getattr(opened, "n_frames", 1) == 1:
                return Picture(data, MEDIA_TYPES[form])
            out = io.BytesIO()
            opened.convert("RGBA" if opened.has_transparency_data else "RGB").save(out, "PNG")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise PictureChangedError(f"{path.name}: {error}") from error
    return Picture(out.getvalue(), "image/png")
