"""Makes a test set of what people accepted: somebody accepted a sample, and nobody rejected it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_tasks.dataset.files import read_text
from lmms_eval_tasks.dataset.folder import load_folder, write_folder

LABELS = ("accept", "reject")
MAX_BYTES = 100_000_000


def read_votes(path: Path) -> dict[str, set[str]]:
    """Labels given to each sample, by its id.

    Args:
        path: JSON lines `{sample_id, annotator, label}`, label `accept` or `reject`.

    Raises:
        ValueError: The file or a line cannot be read; file and line are in the message.
    """
    text = read_text(path, MAX_BYTES)
    votes: dict[str, set[str]] = {}
    last: dict[tuple[str, str], str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            vote = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}:{number}: is not JSON ({str(error)[:80]})") from error
        if not isinstance(vote, Mapping) or not isinstance(vote.get("sample_id"), str):
            raise ValueError(f"{path}:{number}: has no sample_id")
        label = vote.get("label")
        if label not in LABELS:
            raise ValueError(
                f"{path}:{number}: label must be {' or '.join(LABELS)}, not {str(label)[:40]!r}"
            )
        # A person's later vote replaces the earlier one.
        last[vote["sample_id"], str(vote.get("annotator"))] = label
    for (sample_id, _), label in last.items():
        votes.setdefault(sample_id, set()).add(label)
    return votes


def keep_accepted(source: Path, votes: Path, out: Path) -> dict[str, Any]:
    """Write a dataset folder that holds the accepted samples of another.

    Args:
        source: The dataset folder that people voted on.
        votes: See `read_votes`.
        out: The folder to make.

    Returns:
        `out`, `n_rows`, `n_pictures`, `fingerprint` and `votes`: samples `accepted`, `rejected`,
        `without` a vote, and voted on that are not in the folder (`unknown`).

    Raises:
        ValueError: Folder or votes cannot be used, or nothing was accepted.
    """
    folder = load_folder(source, "clash")
    given = read_votes(votes)
    rows = [row for row in folder.rows if given.get(row["sample_id"]) == {"accept"}]
    ids = {row["sample_id"] for row in folder.rows}
    counts = {
        "accepted": len(rows),
        "rejected": sum("reject" in labels for x, labels in given.items() if x in ids),
        "without": sum(sample_id not in given for sample_id in ids),
        "unknown": sum(sample_id not in ids for sample_id in given),
    }
    if not rows:
        raise ValueError(f"{votes}: accepts no sample of {source}")
    names = sorted({row["image"] for row in rows})
    files = {name: folder.path / name for name in names}
    added = ("format", "version", "benchmark", "n_rows", "n_pictures")
    manifest = {name: value for name, value in folder.manifest.items() if name not in added}
    manifest |= {"kind": "custom", "votes": counts, "selected_from": folder.fingerprint}
    made = write_folder(out, "clash", rows, files, manifest)
    return {
        "out": str(out),
        "n_rows": len(rows),
        "n_pictures": len(names),
        "fingerprint": made.fingerprint,
        "votes": counts,
    }
