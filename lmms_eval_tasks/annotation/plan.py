"""What an annotator is asked, and in which order.

Nothing that leaves this module for the page may tell a caption's condition: items carry a token
instead of their id, and the captions of one picture never stand together. What is shown is hashed,
so that a vote stays tied to the words and the picture that it was given on.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.dataset.folder import Folder

FAR_ENOUGH = 30
"""Items between two captions of one picture are at least this many where the data allows it."""


class Label(NamedTuple):
    """One answer that the page offers."""

    value: str
    """What is stored."""
    text: str
    key: str
    """The key that gives this answer."""


class Task(NamedTuple):
    """What people are asked about a benchmark."""

    name: str
    benchmark: str
    title: str
    question: str
    labels: tuple[Label, ...]
    reason: bool
    """Whether a reason may be written beside the answer."""
    kinds: tuple[str, ...]
    """What `--only` chooses from."""
    default: tuple[str, ...]
    kind_of: Callable[[Mapping[str, Any]], str]
    shown: tuple[str, ...]
    """The columns that the page shows."""


class Item(NamedTuple):
    """One row to judge."""

    sample_id: str
    image_id: str
    image: str
    """Path inside the dataset folder."""
    picture_hash: str
    """SHA-256 of the picture's bytes."""
    content: str
    """Hash of everything that is shown: a vote holds for this content only."""
    shown: dict[str, str]


class Unaskable(ValueError):
    """Nothing to ask, or a kind of row that the task does not have."""


_EDIT_SIGNS = {None: "", "mask": "-", "inject": "+"}


def _caption_kind(row: Mapping[str, Any]) -> str:
    return f"{row['condition']}{_EDIT_SIGNS[row['edit']]}"


def _change_kind(row: Mapping[str, Any]) -> str:
    kind: str = row["change_type"]
    return kind


TASKS = {
    "sarcasm": Task(
        name="sarcasm",
        benchmark="pragmatch",
        title="Sarcasm",
        question="Together, are picture and caption sarcastic?",
        labels=(Label("yes", "Yes", "y"), Label("no", "No", "n"), Label("unclear", "Unclear", "u")),
        reason=False,
        kinds=("P", "L", "M", "P-", "M+"),
        default=("P", "L", "M"),
        kind_of=_caption_kind,
        shown=("caption",),
    ),
    "clash": Task(
        name="clash",
        benchmark="clash",
        title="Contradiction check",
        question="Is this a sound test item?",
        labels=(Label("accept", "Accept", "y"), Label("reject", "Reject", "n")),
        reason=True,
        kinds=("object", "attribute"),
        default=("object", "attribute"),
        kind_of=_change_kind,
        shown=(
            "conflicting_caption",
            "original_caption",
            "conflicting_word",
            "original_word",
            "question",
            "image_answer",
            "text_answer",
            "distractor",
        ),
    ),
}
"""The tasks by name."""


def items_of(
    folder: Folder,
    task: Task,
    only: Sequence[str] | None = None,
    pictures: int | None = None,
    seed: int = 0,
) -> list[Item]:
    """The rows to judge, in the folder's order.

    Args:
        folder: A dataset folder of the task's benchmark.
        task: What people are asked.
        only: Kinds of rows (see `Task.kinds`); the task's default where not given.
        pictures: Rows of this many pictures only. They are drawn by `seed` alone, so that all
            annotators get the same ones, and a larger number holds the smaller's pictures.
        seed: Seed of that draw.

    Raises:
        Unaskable: An unknown kind, or no row is left.
    """
    chosen = tuple(only or task.default)
    unknown = [kind for kind in chosen if kind not in task.kinds]
    if unknown:
        raise Unaskable(f"--only {unknown[0]!r}: the task knows {', '.join(task.kinds)}")
    rows = [row for row in folder.rows if task.kind_of(row) in chosen]
    if pictures is not None:
        drawn = sorted({row["image_id"] for row in rows})
        random.Random(f"pictures/{seed}").shuffle(drawn)
        kept = set(drawn[:pictures])
        rows = [row for row in rows if row["image_id"] in kept]
    if not rows:
        raise Unaskable(f"{folder.path} has no row of {', '.join(chosen)} to ask about")
    return list(contents(folder.path, task, rows))


def contents(path: Path, task: Task, rows: Iterable[Mapping[str, Any]]) -> Iterable[Item]:
    """The rows as items, each with the hash of what it shows."""
    hashes: dict[str, str] = {}
    for row in rows:
        image = row["image"]
        if image not in hashes:
            hashes[image] = hashlib.sha256((path / image).read_bytes()).hexdigest()
        shown = {name: row[name] for name in task.shown}
        text = json.dumps([task.name, hashes[image], shown], sort_keys=True)
        content = hashlib.sha256(text.encode()).hexdigest()[:32]
        yield Item(row["sample_id"], row["image_id"], image, hashes[image], content, shown)


def arrange(items: Sequence[Item], seed: int, annotator: str) -> list[Item]:
    """The items in this annotator's order: shuffled, a picture's items far apart.

    Two items of one picture are at least `spacing(...)` places apart. Who has the most items left
    comes first among the rested pictures, which is what makes that distance always reachable; among
    those with equally many the draw decides.
    """
    rng = random.Random(f"order/{seed}/{annotator}")
    left: dict[str, list[Item]] = {}
    for item in sorted(items):
        left.setdefault(item.image_id, []).append(item)
    rested: dict[int, list[str]] = {}
    for image_id, own in left.items():
        rng.shuffle(own)
        rested.setdefault(len(own), []).append(image_id)
    apart = spacing([len(own) for own in left.values()])
    resting: deque[tuple[int, str]] = deque()
    order = []
    for place in range(len(items)):
        while resting and resting[0][0] <= place:
            image_id = resting.popleft()[1]
            rested.setdefault(len(left[image_id]), []).append(image_id)
        pool = rested[max(n for n, waiting in rested.items() if waiting)]
        drawn = rng.randrange(len(pool))
        pool[drawn], pool[-1] = pool[-1], pool[drawn]
        image_id = pool.pop()
        order.append(left[image_id].pop())
        if left[image_id]:
            resting.append((place + apart, image_id))
    return order


def spacing(counts: Sequence[int]) -> int:
    """How far apart the items of one picture can stand, up to `FAR_ENOUGH`.

    Args:
        counts: Items of each picture.

    Returns:
        Places from one item to the picture's next, at least 1. At most half of the pictures, so
        that the draw still has a choice.

    >>> spacing([3] * 100), spacing([3] * 8), spacing([3])
    (30, 4, 1)
    """
    most = max(counts)
    if most == 1:
        return 1
    # The fullest pictures need (most - 1) whole distances and one last place each.
    reachable = (sum(counts) - sum(n == most for n in counts)) // (most - 1)
    return max(1, min(FAR_ENOUGH, len(counts) // 2, reachable))


def token(secret: bytes, annotator: str, item: Item) -> str:
    """The item's name in the page: it tells nothing about the item to whoever lacks the secret."""
    return keyed(secret, "item", annotator, item.sample_id, item.content)[:24]


def keyed(secret: bytes, *parts: str) -> str:
    """HMAC-SHA256 of the parts, in hexadecimal digits."""
    return hmac.new(secret, json.dumps(parts).encode(), hashlib.sha256).hexdigest()
