"""The votes of a file that hold for a dataset as it is now, and the files made of them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from lmms_eval_tasks.annotation.plan import Task, contents
from lmms_eval_tasks.annotation.store import Store, Vote
from lmms_eval_tasks.dataset.folder import Folder


class Results(NamedTuple):
    """Votes by annotator and sample id, and what is not among them."""

    votes: dict[str, dict[str, Vote]]
    missing: dict[str, int]
    """Items that were asked and have no vote, by annotator."""
    stale: dict[str, int]
    """Votes on rows that are gone, or were given on other words or another picture."""


def collect(store: Store, folder: Folder, task: Task) -> Results:
    """The votes on the rows of a dataset.

    Args:
        store: The votes file.
        folder: The dataset; its rows decide which votes still hold.
        task: The task of the votes.
    """
    asked, votes = store.asked(), store.votes()
    known = {sample_id for samples in asked.values() for sample_id, _ in samples}
    rows = [row for row in folder.rows if row["sample_id"] in known]
    now = {(item.sample_id, item.content) for item in contents(folder.path, task, rows)}
    kept: dict[str, dict[str, Vote]] = {name: {} for name in asked}
    stale = dict.fromkeys(asked, 0)
    for vote in votes:
        if (vote.sample_id, vote.content) in now:
            kept[vote.annotator][vote.sample_id] = vote
        else:
            stale[vote.annotator] += 1
    missing = {
        name: sum(sample[0] not in kept[name] for sample in samples & now)
        for name, samples in asked.items()
    }
    return Results(kept, missing, stale)


def accepted(results: Results) -> list[str]:
    """Ids of the samples that somebody accepted and nobody rejected, in sorted order."""
    labels: dict[str, set[str]] = {}
    for own in results.votes.values():
        for sample_id, vote in own.items():
            labels.setdefault(sample_id, set()).add(vote.label)
    return sorted(sample_id for sample_id, given in labels.items() if given == {"accept"})


def vote_lines(results: Results) -> list[str]:
    """One JSON object a vote, sorted by annotator and sample, as `human_votes` reads them."""
    lines = []
    for annotator, own in sorted(results.votes.items()):
        for sample_id, vote in sorted(own.items()):
            row = {"sample_id": sample_id, "annotator": annotator, "label": vote.label}
            if vote.reason:
                row["reason"] = vote.reason
            lines.append(json.dumps(row, ensure_ascii=False))
    return lines


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file in one step: who reads it meanwhile sees the old one or the new one.

    Raises:
        OSError: The folder cannot be written.
    """
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        # Such a temporary file is its owner's alone; results are for everybody.
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
