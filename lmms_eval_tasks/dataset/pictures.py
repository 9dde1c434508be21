"""Which pictures of a dataset can be used: inside the folder, and whole to the last pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from postprocess.pictures import checked


def picture_fault(path: Path) -> str | None:
    """Why a picture cannot be used, or None when all its pixels decode."""
    return checked(path).fault


def picture_faults(
    path: Path, rows: Sequence[tuple[int, Mapping[str, Any]]]
) -> dict[str, tuple[int, str]]:
    """The pictures of a folder that cannot be used: name to the first row's line and a reason."""
    faults: dict[str, tuple[int, str]] = {}
    root, seen = path.resolve(), set()
    for line, row in rows:
        name = row["image"]
        if name in seen:
            continue
        seen.add(name)
        picture = path / name
        try:
            inside = picture.resolve().is_relative_to(root)
        except (OSError, RuntimeError):  # links in a circle
            faults[name] = (line, "is a link that leads nowhere")
            continue
        if not inside:
            faults[name] = (line, "is a link that leaves the folder")
            continue
        reason = picture_fault(picture)
        if reason:
            faults[name] = (line, reason)
    return faults
