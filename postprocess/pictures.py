"""Decoding pictures strictly, whatever other code of the process has asked of the library."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import ImageFile

_lock = threading.RLock()


@contextmanager
def strict_decoding() -> Iterator[None]:
    """Let a truncated picture be an error in here; afterwards the process's own choice holds again.

    The harness sets `ImageFile.LOAD_TRUNCATED_IMAGES` for the whole process, and grey then stands
    where bytes are missing. One thread at a time, or two would restore each other's setting.

    >>> before = ImageFile.LOAD_TRUNCATED_IMAGES
    >>> with strict_decoding():
    ...     ImageFile.LOAD_TRUNCATED_IMAGES
    False
    >>> ImageFile.LOAD_TRUNCATED_IMAGES is before
    True
    """
    with _lock:
        before, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, False
        try:
            yield
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = before
