"""An append-only file of results, so that an interrupted build goes on where it stopped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class JournalError(ValueError):
    """A journal that holds something else than results: which file, which row."""


class Journal:
    """Results by key, each written to disk before the next is computed.

    A process that is killed leaves at most one half-written line at the end; it is dropped when
    the journal is opened again.
    """

    def __init__(self, path: Path) -> None:
        """Open a journal, or begin one.

        Raises:
            JournalError: A complete line is no result.
        """
        self.path = path
        self._results: dict[str, Any] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes() if path.exists() else b""
        whole = content.rpartition(b"\n")[0]
        for number, line in enumerate(whole.split(b"\n") if whole else [], start=1):
            try:
                key, value = json.loads(line)
            except (ValueError, TypeError, RecursionError) as error:
                raise JournalError(f"{path}:{number}: is no result ({error})") from error
            self._results[key] = value
        self._file = path.open("ab")
        self._file.truncate(len(whole) + 1 if whole else 0)

    def __contains__(self, key: str) -> bool:
        """Whether the result of a key is known."""
        return key in self._results

    def __getitem__(self, key: str) -> Any:
        """The result of a key."""
        return self._results[key]

    def put(self, key: str, value: Any) -> None:
        """Keep a result; it is on disk when this returns."""
        line = json.dumps([key, value], ensure_ascii=True, allow_nan=False).encode() + b"\n"
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._results[key] = value

    def __enter__(self) -> Journal:
        """The journal itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; every result is in it already."""
        self._file.close()
