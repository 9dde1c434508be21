"""What people's votes add up to: agreement between annotators, and how often they are right.

A vote is one annotator's label of one sample. Items that one of two annotators did not judge are
left out of what they have in common, and counted; nothing here fills in a vote. As everywhere,
intervals are over pictures, because the captions of one picture stand or fall together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from postprocess.measure import intervals, stats
from postprocess.measure import pragmatch as metrics
from postprocess.measure.estimate import Sampling, estimates
from postprocess.measure.groups import Answer, Slots
from postprocess.measure.stats import Estimate, Floats

VERDICTS: dict[str, int | None] = {"yes": 1, "no": 0, "unclear": None}
"""Label of the sarcasm task to verdict; no verdict counts as wrong, as a model's would."""

Votes = Mapping[str, str]
"""Sample id to label, of one annotator."""


class Agreement(NamedTuple):
    """Two annotators on the items that both judged."""

    a: str
    b: str
    n: int
    """Items that both judged."""
    counts: tuple[tuple[int, ...], ...]
    """Items by A's label (row) and B's (column), in the order of the labels."""
    raw: Estimate
    """Share of items with the same label."""
    kappa: Estimate
    """Cohen's kappa over all labels; no value where chance agreement is 1."""
    ceiling: float | None
    """No kappa above this is possible with that raw agreement and that many labels."""


class People(NamedTuple):
    """How often one annotator, or all on average, is right about clean captions."""

    annotator: str
    estimates: dict[str, Estimate]
    """`accuracy`, `acc_p`, `acc_m`, `acc_l`, `pair_acc`, `group_acc` and `independence`, where the
    votes allow them."""
    n_pairs: int
    """Pictures with a vote on P and on M."""
    n_left_out: int
    """Pictures with a vote on one of the two only."""


def ceiling(raw: float, labels: int) -> float | None:
    """The highest kappa that two raters can have who agree on this share of the items.

    Kappa is highest where chance agreement is lowest. With k labels and disagreement d no two
    raters' chance agreement lies below 1/k - d^2/2: the mean of their label shares is at its
    flattest, and all disagreement goes from one label to one other.

    Args:
        raw: Share of items with the same label, 0 to 1.
        labels: Number of labels that the raters could choose from, 2 or more.

    Returns:
        At most 1; exact as long as d is at most 2/k, else a bound.

    Source: ours. It is how the PragMatch paper's agreement and kappa are seen not to go with two
    labels.

    >>> round(ceiling(0.775, 2), 3), round(ceiling(0.775, 3), 3)
    (0.572, 0.675)
    """
    if not 0 <= raw <= 1 or labels < 2:
        raise ValueError(f"agreement {raw} with {labels} labels")
    different = 1 - raw
    chance = max(0.0, 1 / labels - different**2 / 2)
    return 1 - different / (1 - chance)


def agreement(
    votes: Mapping[str, Votes],
    picture_of: Mapping[str, str],
    labels: Sequence[str],
    *,
    draws: int = stats.DRAWS,
    seed: int = stats.SEED,
    level: float = stats.LEVEL,
) -> list[Agreement]:
    """Every pair of annotators.

    Args:
        votes: Annotator to votes.
        picture_of: Sample id to picture; it must know every sample that was voted on.
        labels: All labels that could be given, also those that nobody gave.
        draws: Resamples of the pictures.
        seed: Seed of the resamples.
        level: Coverage.

    Returns:
        Pairs in the order of the annotators' names.

    Raises:
        ValueError: A vote on an unknown sample or with an unknown label.

    Source: Cohen, "A coefficient of agreement for nominal scales", 1960; the values are
    scikit-learn's `cohen_kappa_score`.

    >>> two = {"ada": {"1": "yes", "2": "no"}, "bob": {"1": "yes", "2": "yes", "3": "no"}}
    >>> (pair,) = agreement(two, {"1": "x", "2": "y", "3": "z"}, ["yes", "no"])
    >>> pair.n, pair.raw.value, pair.kappa.value
    (2, 0.5, 0.0)
    """
    place = {label: index for index, label in enumerate(labels)}
    for annotator, own in votes.items():
        for sample_id, label in own.items():
            if label not in place:
                raise ValueError(f"{annotator!r} votes {label!r} on {sample_id!r}: no such label")
            if sample_id not in picture_of:
                raise ValueError(f"{annotator!r} votes on {sample_id!r}: no such sample")
    out = []
    for a, b in combinations(sorted(votes), 2):
        common = sorted(votes[a].keys() & votes[b].keys())
        pictures = {x: i for i, x in enumerate(sorted({picture_of[s] for s in common}))}
        where = [pictures[picture_of[sample_id]] for sample_id in common]
        left = [place[votes[a][sample_id]] for sample_id in common]
        right = [place[votes[b][sample_id]] for sample_id in common]
        table = np.zeros((len(pictures), len(labels), len(labels)))
        np.add.at(table, (where, left, right), 1)
        same = np.trace(table, axis1=1, axis2=2)
        raw = intervals.ratio(same, table.sum(axis=(1, 2)), level)
        counts = tuple(tuple(int(n) for n in row) for row in table.sum(axis=0))
        highest = None if raw.value is None else ceiling(raw.value, len(labels))
        kappa = _kappa(left, right, table, draws, seed, level)
        out.append(Agreement(a, b, len(common), counts, raw, kappa, highest))
    return out


def people(
    votes: Mapping[str, Votes],
    rows: Iterable[Mapping[str, Any]],
    *,
    draws: int = stats.DRAWS,
    seed: int = stats.SEED,
    level: float = stats.LEVEL,
) -> list[People]:
    """How often each annotator is right, and, where there are several, their mean.

    The rules are those for models: `accuracy` and `pair_acc` over pictures with a vote on P and M,
    `group_acc` over those with L too, and Unclear is wrong. The mean is over the pictures that
    every annotator completed, so that all have a part in each.

    Args:
        votes: Annotator to votes, with the labels of `VERDICTS`.
        rows: Caption rows of the dataset; only the clean captions are used.
        draws: Resamples of the pictures.
        seed: Seed of the resamples.
        level: Coverage.

    Raises:
        ValueError: An unknown label.
    """
    clean = [row for row in rows if row["edit"] is None]
    answers = {name: _answers(own, clean) for name, own in sorted(votes.items())}
    out = [_person(name, own, seed, level) for name, own in answers.items()]
    if len(out) > 1:
        out.append(_mean(list(answers.values()), level))
    return out


def _kappa(
    left: Sequence[int], right: Sequence[int], table: Floats, draws: int, seed: int, level: float
) -> Estimate:
    """Kappa of all items, with an interval from the counts by picture."""
    if not left:
        return stats.EMPTY
    pictures, k, _ = table.shape
    value = None
    # With one label between them chance agreement is 1 and kappa 0/0.
    if len({*left, *right}) > 1:
        from sklearn.metrics import cohen_kappa_score

        value = float(cohen_kappa_score(left, right, labels=list(range(k))))
        value = value if math.isfinite(value) else None
    sums = stats.resampled_sums(table.reshape(pictures, k * k), draws, seed).reshape(-1, k, k)
    return stats.bootstrap(value, kappas(sums), pictures, level)


def kappas(tables: Floats) -> Floats:
    """Cohen's kappa of many confusion tables.

    Args:
        tables: Counts of shape (tables, labels, labels).

    Returns:
        Shape (tables,); NaN where chance agreement is 1.

    >>> kappas(np.array([[[2, 0], [0, 2]], [[1, 1], [1, 1]]], dtype=float)).tolist()
    [1.0, 0.0]
    """
    n = tables.sum(axis=(1, 2))
    agreed = np.trace(tables, axis1=1, axis2=2) * n
    chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1)
    return stats.ratio(agreed - chance, n * n - chance)


def _answers(votes: Votes, rows: Sequence[Mapping[str, Any]]) -> list[Answer]:
    """Votes as answers, so that people are scored by the very code that scores models."""
    out = []
    for row in rows:
        label = votes.get(row["sample_id"])
        if label is None:
            continue
        if label not in VERDICTS:
            raise ValueError(f"vote {label!r} on {row['sample_id']!r} is none of {list(VERDICTS)}")
        verdict = VERDICTS[label]
        answer = Answer(
            image_id=row["image_id"],
            sample_id=row["sample_id"],
            condition=row["condition"],
            cue=None,
            edit=None,
            label=row["label"],
            verdict=verdict,
            correct=int(verdict == row["label"]),
            s=None,
            status="unusable" if verdict is None else "ok",
            n_omitted=0,
        )
        out.append(answer)
    return out


def _person(name: str, answers: Sequence[Answer], seed: int, level: float) -> People:
    frames = {slots: metrics.frame(answers, slots) for slots in (metrics.PM, metrics.PML)}
    kept = (
        (metrics.PM, ("accuracy", "acc_p", "acc_m", "pair_acc", "independence")),
        (metrics.PML, ("acc_l", "group_acc")),
    )
    how = Sampling(seed, level)
    found: dict[str, Estimate] = {}
    for slots, names in kept:
        found |= estimates([metrics.METRICS[name] for name in names], frames[slots], how)
    known = {key: estimate for key, estimate in found.items() if estimate.value is not None}
    pairs = frames[metrics.PM]
    return People(name, known, int(pairs["whole"].sum()), pairs.left_out)


def _mean(answers: Sequence[Sequence[Answer]], level: float) -> People:
    pairs, n_pairs = _mean_counts(answers, metrics.PM)
    groups, _ = _mean_counts(answers, metrics.PML)
    counts = {
        "accuracy": (pairs["P"] + pairs["M"], 2),
        "acc_p": (pairs["P"], 1),
        "acc_m": (pairs["M"], 1),
        "acc_l": (groups["L"], 1),
        "pair_acc": (pairs["all"], 1),
        "group_acc": (groups["all"], 1),
    }
    found = {
        name: intervals.mean(np.clip(top / items, 0, 1), level=level)
        for name, (top, items) in counts.items()
        if len(top)
    }
    seen = {answer.image_id for own in answers for answer in own if answer.slot in metrics.PM}
    return People(f"mean of {len(answers)}", found, n_pairs, len(seen) - n_pairs)


def _mean_counts(
    answers: Sequence[Sequence[Answer]], slots: Slots
) -> tuple[dict[str, Floats], int]:
    """Right answers by picture, averaged over annotators: by slot, and `all` slots right.

    Over the pictures in which every annotator judged every slot; also says how many those are.
    """
    frames = [metrics.frame(own, slots) for own in answers]
    whole = [
        {x for x, complete in zip(one.ids, one["whole"], strict=True) if complete} for one in frames
    ]
    common = sorted(set.intersection(*whole))
    right = np.empty((len(frames), len(slots), len(common)))
    for index, one in enumerate(frames):
        place = {image_id: position for position, image_id in enumerate(one.ids)}
        rows = [place[image_id] for image_id in common]
        right[index] = [one[f"right.{slot}"][rows] for slot in slots]
    by_slot = dict(zip(slots, right.mean(axis=0), strict=True))
    return {**by_slot, "all": right.prod(axis=1).mean(axis=0)}, len(common)
