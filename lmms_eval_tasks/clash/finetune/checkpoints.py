"""Checkpoints and the log of a run: a checkpoint counts only once all of it is on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

LOG = "log.jsonl"
CHECKPOINTS = "checkpoints"
COMPLETE = "complete.json"
"""Written last into a checkpoint: names and sizes of its files."""


def seal(checkpoint: Path) -> None:
    """Say of a checkpoint that all of it is there."""
    sizes = {file.name: file.stat().st_size for file in checkpoint.iterdir() if file.is_file()}
    partial = checkpoint / f".{COMPLETE}"
    partial.write_text(json.dumps(sizes), encoding="utf-8")
    partial.replace(checkpoint / COMPLETE)


def is_sealed(checkpoint: Path) -> bool:
    """Whether all of a checkpoint is there."""
    try:
        sizes = json.loads((checkpoint / COMPLETE).read_text(encoding="utf-8"))
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def last_checkpoint(out: Path) -> Path | None:
    """The newest complete checkpoint of a run, or None; incomplete ones are removed."""
    found = sorted((out / CHECKPOINTS).glob("checkpoint-*"), key=step_of)
    for checkpoint in found:
        if not is_sealed(checkpoint):
            shutil.rmtree(checkpoint)
    whole = [checkpoint for checkpoint in found if checkpoint.exists()]
    return whole[-1] if whole else None


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was written; -1 where its name tells none."""
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def read_log(out: Path) -> list[dict[str, Any]]:
    """The lines of a run's log; a last line cut short by a kill is left out."""
    try:
        text = (out / LOG).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines
