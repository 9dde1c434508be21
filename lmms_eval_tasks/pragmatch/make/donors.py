"""Chooses M, the arbitrary mismatch: a fluent caption of another picture, out of the set's reach.

A donor is a caption that belongs to a picture outside the set. It must not fit the picture it goes
to (an encoder keeps the two apart), must not be absurd (so the choice among those that do not fit
is random: the least similar would be the strangest), and donors serve about equally often. Folds
are fixed by picture before anything is chosen, and no caption string may stand in two of them:
otherwise a baseline that only reads captions would be trained on its test.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from lmms_eval_tasks.pragmatch.make import cues
from lmms_eval_tasks.pragmatch.make.caption_only import caption_key

MAX_SIMILARITY = 0.3
"""Cosine above which a donor's caption might fit the picture after all."""

MIN_WORDS, MAX_WORDS = 4, 40
_REFUSAL = re.compile(
    r"\b(?:i['’ ]?m sorry|i am sorry|i can(?:not|['’ ]?t)|as an ai|unable to|no image|"
    r"not able to|the caption|description:)",
    re.IGNORECASE,
)
_FORBIDDEN = 1e6
_REPEATED_USE = 1e3


class DonorError(ValueError):
    """Too few donors, or none, and what to do about it."""


class LeakError(ValueError):
    """A caption string that stands in two folds: which, and in which samples."""


class Donor(NamedTuple):
    """A caption on offer."""

    donor_id: str
    """The picture it belongs to."""
    caption: str


class Target(NamedTuple):
    """A picture of the set that needs an M."""

    image_id: str
    texts: tuple[str, ...]
    """What is known of the picture: its L, its P, what an encoder says it shows."""
    fold: int


class Choice(NamedTuple):
    """The M of a picture."""

    donor_id: str
    caption: str
    similarity: float
    """Highest cosine between the caption and what is known of the picture."""


class Chosen(NamedTuple):
    """The Ms of a set."""

    by_picture: dict[str, Choice]
    left_out: list[str]
    """Pictures for which every donor left was too similar."""
    offered: int
    """Donors that could have been used."""
    uses: dict[str, int]
    """Donor id to the number of pictures it serves."""


def plan_folds(strings: Mapping[str, Iterable[str]], n_folds: int, seed: int) -> dict[str, int]:
    """Each picture's fold, such that pictures that share a caption string share a fold.

    Args:
        strings: Image id to all captions known for it, edited ones included.
        n_folds: Number of folds, at least 2.
        seed: Decides the order in which folds are filled.

    Raises:
        ValueError: There are fewer groups of pictures than folds.

    >>> folds = plan_folds({"1": ["a"], "2": ["b", "a "], "3": ["c"]}, 2, 0)
    >>> folds["1"] == folds["2"] != folds["3"]
    True
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ids = sorted(strings)
    owner: dict[str, int] = {}
    links = [
        (place, owner.setdefault(caption_key(caption), place))
        for place, image_id in enumerate(ids)
        for caption in strings[image_id]
    ]
    ends = np.array(links, dtype=int).reshape(-1, 2)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(ids), len(ids)))
    groups: dict[int, list[str]] = defaultdict(list)
    for image_id, group in zip(ids, connected_components(graph, directed=False)[1], strict=True):
        groups[int(group)].append(image_id)
    if n_folds < 2 or len(groups) < n_folds:
        raise ValueError(
            f"{len(strings)} pictures, of which {len(groups)} share no caption, cannot make "
            f"{n_folds} folds (at least 2)"
        )
    order = list(groups.values())
    Random(f"{seed}:folds").shuffle(order)
    order.sort(key=len, reverse=True)
    sizes = [0] * n_folds
    folds: dict[str, int] = {}
    for members in order:
        fold = min(range(n_folds), key=lambda fold: (sizes[fold], fold))
        sizes[fold] += len(members)
        folds |= dict.fromkeys(members, fold)
    return folds


def is_fluent(caption: str) -> bool:
    """Whether a caption reads as a plain sentence about a picture.

    Neither too short nor too long, in letters of the language, without the loops, refusals and
    loose ends that captioners produce, not in capitals, and without overt markers or overlay text.

    >>> is_fluent("A brown dog sleeps on a couch."), is_fluent("dog dog dog dog dog dog")
    (True, False)
    """
    words = cues.words(caption)
    content = cues.content_words(caption)
    if not MIN_WORDS <= len(words) <= MAX_WORDS or len(content) < 2:
        return False
    if len({word.casefold() for word in words}) < 0.6 * len(words) or _REFUSAL.search(caption):
        return False
    if caption.isupper():
        return False
    if sum(char.isascii() for char in caption) < 0.9 * len(caption):
        return False
    lists = cues.word_lists("words.txt")
    hanging = words[-1].casefold() in lists["determiners"] + lists["conjunctions"]
    return not hanging and not any(cues.detect(caption, cue) for cue in ("lexical", "ocr"))


def usable(
    donors: Iterable[Donor],
    taken: Iterable[str],
    accept: Callable[[str], bool] = is_fluent,
) -> list[Donor]:
    """Donors with an accepted caption that no other donor and no caption of the set has.

    Args:
        donors: All captions on offer.
        taken: The set's own captions, edited ones included.
        accept: What a donor's caption must be.

    Returns:
        Donors by id; of equal strings the first.
    """
    seen = {caption_key(caption) for caption in taken}
    kept = []
    for donor in sorted(donors):
        key = caption_key(donor.caption)
        if key not in seen and accept(donor.caption):
            seen.add(key)
            kept.append(donor)
    return kept


def choose(
    targets: Sequence[Target],
    donors: Sequence[Donor],
    embed: Callable[[str], np.ndarray],
    seed: int,
    max_similarity: float = MAX_SIMILARITY,
) -> Chosen:
    """Give every picture a donor's caption that does not fit it.

    Donors are dealt to folds in proportion to the folds' pictures, so none serves two folds. Within
    a fold the assignment is random among what does not fit, with equal use as the first concern.

    Args:
        targets: The set.
        donors: Captions on offer, each string once (see `usable`).
        embed: A text to its vector of length one.
        seed: Decides who gets whose caption.
        max_similarity: Cosine that no chosen caption may exceed.

    Raises:
        DonorError: There are fewer donors than folds.
    """
    by_fold: dict[int, list[Target]] = defaultdict(list)
    for target in sorted(targets):
        by_fold[target.fold].append(target)
    if len(donors) < len(by_fold):
        raise DonorError(
            f"{len(donors)} donors for {len(by_fold)} folds: no donor may serve two folds. Give "
            "more captions of pictures outside the set (--l-captions, --donors), or fewer --folds"
        )
    dealt = _deal(sorted(donors), {fold: len(by_fold[fold]) for fold in sorted(by_fold)}, seed)
    by_picture: dict[str, Choice] = {}
    left_out: list[str] = []
    for fold, members in sorted(by_fold.items()):
        found = _assign(members, dealt[fold], embed, f"{seed}:{fold}", max_similarity)
        for target, choice in found:
            if choice.similarity <= max_similarity:
                by_picture[target.image_id] = choice
            else:
                left_out.append(target.image_id)
    uses = Counter(choice.donor_id for choice in by_picture.values())
    return Chosen(by_picture, sorted(left_out), len(donors), dict(sorted(uses.items())))


def _deal(donors: Sequence[Donor], sizes: Mapping[int, int], seed: int) -> dict[int, list[Donor]]:
    """Donors to folds in proportion to their sizes, each fold at least one."""
    order = list(donors)
    Random(f"{seed}:donors").shuffle(order)
    dealt: dict[int, list[Donor]] = {fold: [] for fold in sizes}
    for donor in order:
        fold = min(dealt, key=lambda fold: ((len(dealt[fold]) + 0.5) / sizes[fold], fold))
        if spare := [fold for fold in dealt if not dealt[fold]]:
            fold = spare[0]
        dealt[fold].append(donor)
    return dealt


def _assign(
    targets: Sequence[Target],
    donors: Sequence[Donor],
    embed: Callable[[str], np.ndarray],
    seed: str,
    max_similarity: float,
) -> list[tuple[Target, Choice]]:
    from scipy.optimize import linear_sum_assignment

    similarity = similarities(targets, donors, embed)
    rounds = -(-len(targets) // len(donors))
    rng = Random(seed)
    luck = np.array([[rng.random() for _ in donors] for _ in targets])
    fits = np.where(similarity > max_similarity, _FORBIDDEN * (1 + similarity), 0.0)
    # A donor's second use costs more than any luck and less than a caption that fits.
    costs = [luck + fits + use * _REPEATED_USE for use in range(rounds + 1)]
    rows, columns = linear_sum_assignment(np.concatenate(costs, axis=1))
    out = []
    for row, column in zip(rows, columns % len(donors), strict=True):
        donor = donors[column]
        choice = Choice(donor.donor_id, donor.caption, float(similarity[row, column]))
        out.append((targets[row], choice))
    return out


def similarities(
    targets: Sequence[Target], donors: Sequence[Donor], embed: Callable[[str], np.ndarray]
) -> np.ndarray:
    """Highest cosine of each donor's caption with what is known of each picture.

    Returns:
        Shape (targets, donors), rounded to six places so that no last bit decides.
    """
    offered = np.stack([embed(donor.caption) for donor in donors])
    rows = []
    for target in targets:
        known = np.stack([embed(text) for text in target.texts if text.strip()])
        rows.append((known @ offered.T).max(axis=0))
    return np.round(np.stack(rows), 6)


def find_leaks(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Caption strings that stand in more than one fold, each with the samples it stands in.

    Case and spacing do not make two strings of one.
    """
    where: dict[str, list[tuple[Any, str]]] = defaultdict(list)
    for row in rows:
        where[caption_key(row["caption"])].append((row.get("fold"), row["sample_id"]))
    return {
        key: sorted(sample_id for _, sample_id in found)
        for key, found in sorted(where.items())
        if len({fold for fold, _ in found}) > 1
    }


def check_leaks(rows: Iterable[Mapping[str, Any]]) -> None:
    """Make sure that no caption string crosses the folds.

    Raises:
        LeakError: One does; the first three are named with their samples.
        ValueError: A row has no fold.
    """
    rows = list(rows)
    for row in rows:
        if row.get("fold") is None:
            raise ValueError(f"sample {row['sample_id']} has no fold")
    leaks = find_leaks(rows)
    if leaks:
        shown = "; ".join(
            f"{key[:60]!r} in {', '.join(ids)}" for key, ids in list(leaks.items())[:3]
        )
        raise LeakError(f"{len(leaks)} caption strings cross the folds: {shown}")
