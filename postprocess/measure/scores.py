"""What the score s of an answer is worth: AUROC, ranking curves, calibration, a fairer threshold.

Items are captions; `picture` says to which picture each belongs, because pictures are what is
resampled and what is held out together. Nothing here may look at a verdict, and nothing may be
tuned on the items that it judges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from postprocess.measure.stats import SEED, Floats, Ints, ratio

_BLOCK = 4_000_000
"""Weights held at once (draws times pictures)."""


class Bin(NamedTuple):
    """One bin of a reliability diagram."""

    low: float
    high: float
    n: int
    predicted: float | None
    """Mean probability of the positive class that the model stated; None in an empty bin."""
    observed: float | None
    """Share of the positive class among the bin's items."""


class Calibration(NamedTuple):
    """Whether a stated probability means what it says."""

    bins: tuple[Bin, ...]
    ece: float | None
    """Expected calibration error, 0 to 1."""
    n: int


def auroc(positive: Floats, negative: Floats, weights: Floats) -> Floats:
    """Probability that a positive score is above a negative one, under weights; ties count half.

    Negatives are sorted once. Weights only change how much lies below each positive, and that is
    read off one running sum.

    Args:
        positive: Shape (pictures,): the positive score of each picture.
        negative: Shape (pictures,): the negative score of each picture.
        weights: Shape (draws, pictures); the two scores of a picture are weighed alike.

    Returns:
        Shape (draws,); NaN under weights that are all 0.

    >>> auroc(np.array([0.4, 0.1]), np.array([0.4, 0.0]), np.ones((1, 2))).tolist()
    [0.625]
    """
    order = np.argsort(negative, kind="stable")
    below = np.searchsorted(negative[order], positive, side="left")
    upto = np.searchsorted(negative[order], positive, side="right")
    out = np.full(len(weights), np.nan)
    step = max(1, _BLOCK // max(len(order), 1))
    for start in range(0, len(weights), step):
        rows = weights[start : start + step]
        running = np.zeros((len(rows), len(order) + 1))
        np.cumsum(rows[:, order], axis=1, out=running[:, 1:])
        won = np.einsum("ij,ij->i", rows, running[:, below] + running[:, upto]) / 2
        out[start : start + step] = ratio(won, rows.sum(axis=1) * running[:, -1])
    return out


def calibration(scores: npt.ArrayLike, labels: npt.ArrayLike, bins: int = 10) -> Calibration:
    """Reliability of s read as log-odds, and the expected calibration error.

    The stated probability is 1/(1+exp(-s)): the share of the positive set in the mass on both
    sets. ECE depends on the base rate, so the items must be those of complete pairs (half of them
    positive); the caller sees to that.

    Args:
        scores: Shape (items,), s of each item.
        labels: Shape (items,), 1 or 0.
        bins: Number of bins of equal width over 0 to 1.

    Returns:
        All bins, empty ones included; ECE weighs each bin by its items.

    Source: Naeini et al. 2015 for ECE; equal-width bins.

    >>> round(calibration([-100.0, 100.0, 0.0, 0.0], [0, 1, 1, 1], bins=2).ece, 3)
    0.25
    """
    s, y, _ = _items(scores, labels, np.zeros(np.shape(scores)))
    stated = np.exp(-np.logaddexp(0.0, -s))
    index = np.minimum((stated * bins).astype(np.int64), bins - 1)
    n = _tally(index, np.ones(len(s)), bins)
    predicted = ratio(_tally(index, stated, bins), n)
    observed = ratio(_tally(index, y, bins), n)
    out = tuple(
        Bin(
            i / bins,
            (i + 1) / bins,
            int(n[i]),
            float(predicted[i]) if n[i] else None,
            float(observed[i]) if n[i] else None,
        )
        for i in range(bins)
    )
    filled = n > 0
    gap = np.abs(observed[filled] - predicted[filled])
    ece = float((n[filled] * gap).sum() / n.sum()) if len(s) else None
    return Calibration(out, ece, len(s))


def expected_error(scores: Floats, labels: Floats, weights: Floats, bins: int = 10) -> Floats:
    """The expected calibration error under weights of the items; see `calibration`.

    Args:
        scores: Shape (items,).
        labels: Shape (items,), 1 or 0.
        weights: Shape (draws, items).
        bins: Number of bins of equal width over 0 to 1.

    Returns:
        Shape (draws,); NaN without items.
    """
    stated = np.exp(-np.logaddexp(0.0, -scores))
    index = np.minimum((stated * bins).astype(np.int64), bins - 1)
    gap = np.zeros((len(scores), bins))
    gap[np.arange(len(scores)), index] = labels - stated
    return ratio(np.abs(weights @ gap).sum(axis=1), weights.sum(axis=1))


def cross_fit(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    picture: npt.ArrayLike,
    pictures: int,
    *,
    folds: int = 5,
    seed: int = SEED,
) -> Floats:
    """Which items are right at the best threshold that the other folds of pictures choose.

    It says what a model would score if only its bias towards Yes or No were removed. Choosing the
    threshold on the judged items themselves would flatter it.

    Args:
        scores: Shape (items,), s of each item.
        labels: Shape (items,), 1 or 0.
        picture: Shape (items,), index of the item's picture, 0 to `pictures` - 1.
        pictures: Number of pictures; at least two are needed.
        folds: Folds of pictures (no more than there are pictures).
        seed: Seed of the folds.

    Returns:
        Shape (items,), 1 or 0; all NaN where there are too few pictures.
    """
    s, y, where = _items(scores, labels, picture)
    folds = min(folds, pictures)
    right = np.full(len(s), np.nan)
    if folds < 2:
        return right
    fold = np.empty(pictures, dtype=np.int64)
    fold[np.random.default_rng(seed).permutation(pictures)] = np.arange(pictures) % folds
    for k in range(folds):
        inside = fold[where] == k
        threshold = _best_threshold(s[~inside], y[~inside])
        right[inside] = (s[inside] > threshold) == (y[inside] == 1)
    return right


def _best_threshold(s: Floats, y: Floats) -> float:
    """The threshold of highest accuracy; among equals the one nearest to the model's own, 0."""
    values, index = np.unique(s, return_inverse=True)
    gain = np.bincount(index, 1 - 2 * y, len(values))
    # Moving the threshold past a value turns its items negative: right for label 0, wrong for 1.
    right = (y == 1).sum() + np.concatenate([[0.0], np.cumsum(gain)])
    between = (values[1:] + values[:-1]) / 2
    cuts = np.concatenate([[values[0] - 1.0], between, [values[-1] + 1.0]])
    # The outermost cuts and the gap around 0 hold 0 itself when it lies in them.
    edges_low = np.concatenate([[-np.inf], values])
    edges_high = np.concatenate([values, [np.inf]])
    cuts = np.where((edges_low <= 0) & (edges_high > 0), 0.0, cuts)
    best = np.flatnonzero(right == right.max())
    return float(cuts[best[np.argmin(np.abs(cuts[best]))]])


def roc(
    scores: npt.ArrayLike, labels: npt.ArrayLike, points: int = 200
) -> list[tuple[float, float]]:
    """The ROC curve as (false positive rate, true positive rate), from (0, 0) to (1, 1).

    Args:
        scores: Shape (items,).
        labels: Shape (items,), 1 or 0.
        points: Longer curves are thinned to about this many corners.

    Returns:
        No points where one class is missing.

    >>> roc([0.9, 0.1], [1, 0])
    [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    """
    s, y, _ = _items(scores, labels, np.zeros(np.shape(scores)))
    ones, zeros = int((y == 1).sum()), int((y == 0).sum())
    if not ones or not zeros:
        return []
    values, index = np.unique(-s, return_inverse=True)
    tpr = np.concatenate([[0.0], np.cumsum(np.bincount(index, y, len(values))) / ones])
    fpr = np.concatenate([[0.0], np.cumsum(np.bincount(index, 1 - y, len(values))) / zeros])
    keep = np.unique(np.linspace(0, len(tpr) - 1, min(points, len(tpr))).round().astype(np.int64))
    return [(float(fpr[i]), float(tpr[i])) for i in keep]


def _tally(index: Ints, amounts: Floats, size: int) -> Floats:
    return np.bincount(index, amounts, size).astype(np.float64)


def _one_dimensional(values: npt.ArrayLike) -> Floats:
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != 1:
        raise ValueError(f"one value a unit, but the shape is {out.shape}")
    return out


def _items(
    scores: npt.ArrayLike, labels: npt.ArrayLike, picture: npt.ArrayLike
) -> tuple[Floats, Floats, Ints]:
    s, y = _one_dimensional(scores), _one_dimensional(labels)
    where: npt.NDArray[Any] = np.asarray(picture)
    if not len(s) == len(y) == len(where):
        raise ValueError(f"{len(s)} scores, {len(y)} labels, {len(where)} pictures of items")
    if not np.isfinite(s).all():
        raise ValueError("a score is not finite")
    if not np.isin(y, (0.0, 1.0)).all():
        raise ValueError("a label is neither 0 nor 1")
    return s, y, where.astype(np.int64)
