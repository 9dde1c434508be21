"""What a run writes is its own, and whole: a stamp nobody else has, room, and rows counted after.

Mends, in lmms-eval 0.7.3: files are named by the second of the launch, so that two runs of one
second in one folder write into one another (`get_datetime_str` of `lmms_eval.utils`), and a write
that fails is logged and forgotten (`EvaluationTracker`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Mapping, Sized
from pathlib import Path
from types import TracebackType
from typing import Any

MIN_FREE_BYTES = 50_000_000
"""Free space below which no model is loaded; a run's files and cache seldom take more."""


class Stamp:
    """Holds, while a run lasts, the time stamp of its files against other runs in its folder.

    A run that starts in a second which another holds waits for the next. Only the rank that writes
    needs one.
    """

    def __init__(self, folder: str | None, rank: int = 0) -> None:
        """Hold stamps below this folder; None where nothing is written."""
        self.folder = Path(folder) if folder and rank == 0 else None
        self.value: str | None = None
        self._held: list[Path] = []

    def __enter__(self) -> Stamp:
        """Let the harness take its stamps from here."""
        from lmms_eval import utils

        self._original = utils.get_datetime_str
        utils.get_datetime_str = self._take
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the stamps back; the files that bear them go on holding them."""
        from lmms_eval import utils

        utils.get_datetime_str = self._original
        for path in self._held:
            with contextlib.suppress(OSError):
                path.unlink()

    def _take(self, *args: Any, **kwargs: Any) -> str:
        while True:
            value = str(self._original(*args, **kwargs))
            if self.folder is None or self._hold(value.replace(":", "-")):
                return value
            time.sleep(0.1)

    def _hold(self, value: str) -> bool:
        assert self.folder is not None
        path = self.folder / f".run-{value}"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        self._held.append(path)
        self.value = value
        # Whoever held it may have gone and left its files.
        return not any(self.folder.rglob(f"{value}_*"))


def no_room(*folders: str | None) -> str | None:
    """Which of the folders has too little free space, in words; None where all have enough."""
    for name in folders:
        if not name:
            continue
        folder = Path(name).absolute()
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if free < MIN_FREE_BYTES:
            return (
                f"{name}: {free / 1e6:.0f} MB of disk are free, and a run may need "
                f"{MIN_FREE_BYTES / 1e6:.0f}: make room, or write elsewhere"
            )
    return None


def unsaved(folder: str, stamp: str | None, samples: Mapping[str, Sized] | None) -> list[str]:
    """What a run should have written and did not; empty where every row is there.

    Args:
        folder: The `--output_path`.
        stamp: The run's, from `Stamp.value`.
        samples: The rows that were to be logged, by task; None without a sample log.
    """
    results = sorted(Path(folder).rglob(f"{stamp}_results.json")) if stamp else []
    if not results or not _is_json(results[0]):
        return [f"no results file was written below {folder} (is the disk full?)"]
    faults = []
    for task, rows in (samples or {}).items():
        path = results[0].with_name(f"{stamp}_samples_{task}.jsonl")
        written = _rows(path)
        if written != len(rows):
            faults.append(
                f"{path}: {written} of {len(rows)} rows were written (is the disk full?); "
                "the run is no result, start it again"
            )
    return faults


def _is_json(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_bytes()), dict)
    except (OSError, ValueError):
        return False


def _rows(path: Path) -> int:
    """Rows that are there to their end."""
    try:
        with path.open("rb") as stream:
            return sum(line.endswith(b"}\n") for line in stream)
    except OSError:
        return 0
