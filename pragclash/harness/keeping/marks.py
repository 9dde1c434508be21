"""Marks of finished evaluations: believed only while the files that they name are what they were.

A mark is the last thing that an evaluation writes, whole or not at all. It names the results file
and the sample log of one task with their hashes and rows. A mark of an earlier release names no
files and is not believed: the evaluation is run again, from its response cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pragclash.harness.keeping.weights import same_weights

_RESULTS = "_results.json"


def results_below(folder: Path) -> set[Path]:
    """The results files in a folder of runs."""
    return set(folder.rglob(f"*{_RESULTS}"))


def holds(mark: Path, out: Path, weights: Mapping[str, str]) -> bool:
    """Whether a task is finished: the mark is whole, its files are there, the weights the same.

    Args:
        mark: The mark's path.
        out: The folder of the results, which the mark's paths are relative to.
        weights: The fingerprints of the model's weights now.
    """
    try:
        content = json.loads(mark.read_bytes())
        files = content["files"]
        return (
            bool(files)
            and same_weights(content["weights"], weights)
            and all(_seen(out / name) == file for name, file in files.items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def write(
    mark: Path, out: Path, task: str, results: Iterable[Path], content: Mapping[str, Any]
) -> str | None:
    """Mark a task as finished.

    Args:
        mark: The mark's path.
        out: The folder of the results.
        task: The task.
        results: The results files that the evaluation has written.
        content: What else the mark says.

    Returns:
        Why no mark was written, or None.
    """
    files = {}
    for path in sorted(results):
        samples = path.with_name(f"{path.name.removesuffix(_RESULTS)}_samples_{task}.jsonl")
        if samples.is_file():
            for file in (path, samples):
                files[file.relative_to(out).as_posix()] = _seen(file)
    if not files:
        return f"no new results file with a sample log of it lies below {out}"
    partial = mark.with_name(f".{mark.name}-{os.getpid()}")
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as stream:
            stream.write(json.dumps({**content, "files": files}) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(mark)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        return f"{mark} cannot be written ({error.strerror or error})"
    return None


def _seen(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"sha256": hashlib.sha256(content).hexdigest(), "rows": content.count(b"\n")}
