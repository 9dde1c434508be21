"""Reads whole files that somebody else made: never more than a limit, never anything but a file."""

from __future__ import annotations

import gzip
import hashlib
import stat
import zlib
from pathlib import Path

MAX_BYTES = 1_000_000_000
"""Of a file with the rows or the manifest of a dataset."""


class UnreadableError(ValueError):
    """A file that cannot be read; `reason` says why without the path."""

    def __init__(self, path: Path, reason: str) -> None:
        """Put the path before the reason."""
        self.reason = reason
        super().__init__(f"{path}: {reason}")


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The content of a file, unpacked where it is gzipped.

    Raises:
        UnreadableError: It is missing, no plain file (a folder, a pipe), larger than `max_bytes`,
            damaged, or the system refuses it.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "no plain file"
            raise UnreadableError(path, f"is {what}")
        if status.st_size > max_bytes:
            raise UnreadableError(path, f"is larger than {max_bytes} bytes")
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        if not packed:
            return path.read_bytes()
        with gzip.open(path) as unpacked:
            content = unpacked.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise UnreadableError(path, f"is larger than {max_bytes} bytes")
        return content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnreadableError(path, f"is damaged ({error})") from error
    except FileNotFoundError as error:
        raise UnreadableError(path, "is missing") from error
    except OSError as error:
        raise UnreadableError(path, f"cannot be read ({error.strerror or error})") from error


def read_text(path: Path, max_bytes: int) -> str:
    """The text of a UTF-8 file, without the byte order mark that some programs put first.

    Raises:
        UnreadableError: As `read_bytes`, or the bytes are not UTF-8.
    """
    content = read_bytes(path, max_bytes)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 (byte {error.start}: {error.reason})"
        raise UnreadableError(path, reason) from error


def sha256(path: Path) -> str:
    """SHA-256 of a file of any size, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
