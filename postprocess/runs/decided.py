"""Writes a run anew with what people decided about its unread answers.

The run that was read stays as it is; the new folder has the same files with other records, and its
results file says how many verdicts are a person's. Figures that the harness had printed are left
out of it: they were made from the old records.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from postprocess.read.decisions import Decision, DecisionError, apply, read_decisions

_FILE = re.compile(r".+(?:_samples_.+\.jsonl|_results\.json)\Z")


class DecidedRun(NamedTuple):
    """What was written."""

    files: tuple[Path, ...]
    n_person: int
    n_open: int
    n_disputed: int


def write_decided(run: Path, decisions: Path, out: Path, *, force: bool = False) -> DecidedRun:
    """Write a run folder with decisions applied.

    Args:
        run: The run folder.
        decisions: The file of decisions.
        out: The folder to write; another one than `run`.
        force: Write over files that stand there.

    Raises:
        DecisionError: The decisions cannot be used, the run holds no samples, or files stand in
            the way.
        OSError: A file cannot be read or written.
    """
    made = read_decisions(decisions)
    files = sorted(path for path in run.rglob("*") if path.is_file() and _FILE.match(path.name))
    samples = [path for path in files if path.suffix == ".jsonl"]
    if not samples:
        raise DecisionError(f"{run}: no *_samples_*.jsonl here; run with --log_samples")
    if out.resolve() == run.resolve():
        raise DecisionError(f"{out} is the run itself: choose another folder")
    taken = [out / path.relative_to(run) for path in files]
    standing = [path for path in taken if path.exists()]
    if standing and not force:
        raise DecisionError(f"{standing[0]} exists already: choose another folder, or --force")
    texts: dict[Path, str] = {}
    person = still_open = disputed = 0
    for path in samples:
        rows = path.read_text(encoding="utf-8").splitlines()
        changed = [_decide(path, number, row, made) for number, row in enumerate(rows, start=1)]
        texts[out / path.relative_to(run)] = "".join(f"{row}\n" for row, *_ in changed)
        person += sum(one[1] for one in changed)
        still_open += sum(one[2] for one in changed)
        disputed += sum(one[3] for one in changed)
    said = {
        "decisions": decisions.name,
        "sha256": hashlib.sha256(decisions.read_bytes()).hexdigest(),
        "read_by_a_person": person,
        "open": still_open,
        "disputed": disputed,
    }
    for path in files:
        if path.suffix == ".json":
            texts[out / path.relative_to(run)] = _results(path, said)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    return DecidedRun(tuple(texts), person, still_open, disputed)


def _decide(path: Path, number: int, line: str, made: list[Decision]) -> tuple[str, int, int, int]:
    """A row of a sample file with decisions applied, and the counts of it."""
    if not line.strip():
        return line, 0, 0, 0
    try:
        row: dict[str, Any] = json.loads(line)
        name = next(key for key, told in row.items() if isinstance(told, dict) and "record" in told)
    except (ValueError, RecursionError, AttributeError, StopIteration) as error:
        raise DecisionError(f"{path} row {number}: no record of this suite") from error
    decided = apply([row[name]], made)
    record = decided.records[0]
    if decided.n_person:
        row[name] = record
        # What other metrics hand over carries the same document's correctness.
        for key, value in row.items():
            if key != name and isinstance(value, dict) and "correct" in value:
                row[key] = {**value, "correct": record["correct"]}
        line = json.dumps(row, ensure_ascii=False)
    return line, decided.n_person, decided.n_open, decided.n_disputed


def _results(path: Path, said: Mapping[str, Any]) -> str:
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        tasks = whole.get("results", {})
    except (ValueError, RecursionError, AttributeError) as error:
        raise DecisionError(f"{path}: not readable as a results file") from error
    whole["results"] = {task: {"alias": task} for task in tasks}
    return json.dumps({**whole, "decided": dict(said)}, indent=2, ensure_ascii=False) + "\n"
