"""The answers of a run that people are asked to read, and the file of what they decided.

Asked are answers without a stated verdict and those whose verdict points the other way than the
score. Equal answers to the same prompt are one item. Nothing that the page gets tells the label or
the score; the picture is there to be asked for, where the dataset folder is given.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from lmms_eval_tasks.annotation.plan import Item, Label, Task, Unaskable
from lmms_eval_tasks.annotation.store import Store
from lmms_eval_tasks.dataset.folder import Folder
from postprocess.read.decisions import is_open, key_of
from postprocess.runs.folder import read_runs

READING = Task(
    name="reading",
    benchmark="pragmatch",
    title="Unread answers",
    question="What does the answer say: is the pair sarcastic?",
    labels=(
        Label("yes", "Yes", "y"),
        Label("no", "No", "n"),
        Label("neither", "Says neither", "u"),
    ),
    reason=False,
    kinds=(),
    default=(),
    kind_of=lambda row: str(row["condition"]),
    shown=("question", "answer"),
)
"""What is asked about an answer."""

DECISIONS = "decisions.jsonl"


def unread_items(run: Path, folder: Folder | None = None) -> list[Item]:
    """The answers to read, each once, in the run's order.

    Args:
        run: A run folder.
        folder: The dataset folder, for the pictures.

    Raises:
        Unaskable: The run has no open answer.
    """
    pictures = {} if folder is None else {row["sample_id"]: row["image"] for row in folder.rows}
    items: dict[str, Item] = {}
    for one in read_runs([run]).runs:
        for task in one.tasks.values():
            for record, prompt in zip(task.records, task.prompts, strict=True):
                if not is_open(record):
                    continue
                key = key_of(record["response"], record["prompt"])
                shown = {"question": prompt, "answer": record["response"]}
                image = pictures.get(record["sample_id"], "")
                digest = _digest(folder, image) if folder is not None and image else ""
                items.setdefault(key, Item(key, key, image, digest, key, shown))
    if not items:
        raise Unaskable(f"{run}: no answer is left to read")
    return list(items.values())


def write_decisions(store: Store, path: Path) -> None:
    """Write all votes of a store as decisions, on disk before this returns."""
    rows = [
        {"key": vote.content, "says": vote.label, "by": vote.annotator, "at": vote.at}
        for vote in store.votes()
    ]
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with partial.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _digest(folder: Folder, image: str) -> str:
    return hashlib.sha256((folder.path / image).read_bytes()).hexdigest()
