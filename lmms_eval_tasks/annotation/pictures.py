"""A picture of the dataset for the page: the bytes that were planned, as a model sees them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from postprocess.pictures import Encoded, PictureError, browser_picture


class PictureChangedError(ValueError):
    """The file is gone or no longer the one that the item was made with."""


def picture(path: Path, digest: str) -> Encoded:
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
        return browser_picture(data)
    except PictureError as error:
        raise PictureChangedError(f"{path.name}: {error}") from error
