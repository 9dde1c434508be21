"""How sure a figure is: intervals, paired tests, calibration, all of them over *pictures*.

The captions of one picture stand or fall together, so the picture is what is resampled and never
the caption. Every function here takes arrays in which one row is one picture (or an index that
says to which picture an item belongs); who belongs to which picture is decided in
`postprocess.measure.groups` alone. Nothing here draws without a seed, and nothing loops over
draws: a bootstrap is one matrix product of resampling weights with counts per picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest, norm

DRAWS = 1000
"""Resamples of a bootstrap, as in the CLASH paper."""

SEED = 20_260_801
"""The seed of every bootstrap that is not given another."""

LEVEL = 0.95
"""Coverage that an interval claims."""

_BLOCK = 4_000_000
"""Weights held at once (draws times pictures): bounds memory at some 32 MB."""

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]


class Estimate(NamedTuple):
    """A figure and how sure it is; None where there is nothing to say."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    """Units behind the figure: pictures, or groups, or the items of a plain rate."""
    method: str
    """`wilson`, `bootstrap` or `none`."""
    se: float | None = None
    """Standard error: of the binomial beside Wilson's interval, else that of the resamples."""


class McNemar(NamedTuple):
    """Two models on the same units: where one was right and the other wrong."""

    only_a: int
    only_b: int
    n: int
    p_value: float
    """Exact and two-sided; 1 where the models never differ."""


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


class CrossFit(NamedTuple):
    """Accuracy at a threshold that the judged picture had no part in choosing."""

    accuracy: Estimate
    thresholds: tuple[float, ...]
    """One a fold; an item is positive above it."""


EMPTY = Estimate(None, None, None, 0, "none")
"""What is known about nothing."""


def wilson(right: int, n: int, level: float = LEVEL) -> Estimate:
    """The score interval of a plain rate.

    Args:
        right: Units that were right, 0 to `n`.
        n: Units; they must be independent (one a picture, or one group a picture).
        level: Coverage, 0 to 1.

    Returns:
        Rate and interval as proportions; `EMPTY` without units.

    Raises:
        ValueError: `right` is not between 0 and `n`.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference", 1927.

    >>> [round(x, 4) for x in wilson(8, 10)[:3]]
    [0.8, 0.4902, 0.9433]
    >>> wilson(0, 0).value is None
    True
    """
    if not 0 <= right <= n:
        raise ValueError(f"{right} right of {n}")
    if n == 0:
        return EMPTY
    z2 = float(norm.ppf(0.5 + level / 2)) ** 2
    rate = right / n
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = (z2 * (rate * (1 - rate) / n + z2 / (4 * n * n))) ** 0.5 / (1 + z2 / n)
    # At the ends the closed form is exact only up to rounding.
    low = 0.0 if right == 0 else centre - half
    high = 1.0 if right == n else centre + half
    return Estimate(rate, low, high, n, "wilson", (rate * (1 - rate) / n) ** 0.5)


def weights(pictures: int, draws: int = DRAWS, seed: int = SEED) -> Iterator[Floats]:
    """How often each picture is drawn in each resample, in blocks of resamples.

    Two metrics over the same pictures with the same seed get the same resamples, which is what
    makes their difference a paired one.

    Args:
        pictures: Number of pictures.
        draws: Number of resamples.
        seed: Seed of the generator.

    Yields:
        Arrays of shape (resamples of the block, pictures); each row sums to `pictures`.
    """
    rows = max(1, min(draws, _BLOCK // max(pictures, 1)))
    if rows == draws:
        yield _one_block(pictures, draws, seed)
        return
    rng = np.random.default_rng(seed)
    for start in range(0, draws, rows):
        yield _draw(rng, pictures, min(rows, draws - start))


@lru_cache(maxsize=2)
def _one_block(pictures: int, draws: int, seed: int) -> Floats:
    block = _draw(np.random.default_rng(seed), pictures, draws)
    block.flags.writeable = False
    return block


def _draw(rng: np.random.Generator, pictures: int, rows: int) -> Floats:
    drawn = rng.integers(0, pictures, size=(rows, pictures))
    drawn += np.arange(rows)[:, None] * pictures
    counted = np.bincount(drawn.ravel(), minlength=rows * pictures)
    return counted.reshape(rows, pictures).astype(np.float64)


def resampled_sums(counts: npt.ArrayLike, draws: int = DRAWS, seed: int = SEED) -> Floats:
    """Column sums of counts in every resample of the pictures.

    Args:
        counts: Shape (pictures, k): whatever is counted, a row a picture.
        draws: Number of resamples.
        seed: Seed of the generator.

    Returns:
        Shape (draws, k).

    >>> resampled_sums([[1, 2], [1, 2], [1, 2]], draws=2).tolist()
    [[3.0, 6.0], [3.0, 6.0]]
    """
    table = _two_dimensional(counts)
    return np.concatenate([block @ table for block in weights(len(table), draws, seed)])


def resampled_auroc(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    picture: npt.ArrayLike,
    pictures: int,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Floats:
    """AUROC in every resample of the pictures; ties count half.

    Negatives are sorted once. A resample only changes their weights, so the weight that lies below
    each positive is read off one running sum.

    Args:
        scores: Shape (items,), finite.
        labels: Shape (items,), 1 for the positive class and 0 for the other.
        picture: Shape (items,), index of the item's picture, 0 to `pictures` - 1.
        pictures: Number of pictures.
        draws: Number of resamples.
        seed: Seed of the generator.

    Returns:
        Shape (draws,); NaN in a resample that holds one class only.
    """
    s, y, where = _items(scores, labels, picture)
    negative = np.flatnonzero(y == 0)
    negative = negative[np.argsort(s[negative], kind="stable")]
    positive = np.flatnonzero(y == 1)
    below = np.searchsorted(s[negative], s[positive], side="left")
    upto = np.searchsorted(s[negative], s[positive], side="right")
    out = []
    for block in weights(pictures, draws, seed):
        # A block of weights by picture can be many items wide: cut it again.
        step = max(1, _BLOCK // max(len(s), 1))
        for start in range(0, len(block), step):
            rows = block[start : start + step]
            running = np.zeros((len(rows), len(negative) + 1))
            np.cumsum(rows[:, where[negative]], axis=1, out=running[:, 1:])
            mine = rows[:, where[positive]]
            won = np.einsum("ij,ij->i", mine, running[:, below] + running[:, upto]) / 2
            pairs = mine.sum(axis=1) * running[:, -1]
            out.append(np.divide(won, pairs, out=np.full(len(rows), np.nan), where=pairs > 0))
    return np.concatenate(out)


def ratio(top: Floats, bottom: Floats) -> Floats:
    """Elementwise quotient; NaN where the denominator is 0.

    >>> ratio(np.array([1.0, 1.0]), np.array([2.0, 0.0])).tolist()
    [0.5, nan]
    """
    out = np.full(np.broadcast(top, bottom).shape, np.nan)
    np.divide(top, bottom, out=out, where=bottom != 0)
    return out


def f1_of(tp: Floats, fp: Floats, fn: Floats) -> Floats:
    """F1 of the positive class from counts, elementwise; 0 where nothing was found or asked.

    >>> f1_of(np.array([625.0]), np.array([141.0]), np.array([375.0])).round(3).tolist()
    [0.708]
    """
    return np.nan_to_num(ratio(2 * tp, 2 * tp + fp + fn))


def percentile(values: Floats, level: float = LEVEL) -> tuple[float | None, float | None]:
    """The percentile interval of resampled values; resamples without a value are left out.

    >>> percentile(np.arange(101.0), 0.5)
    (25.0, 75.0)
    >>> percentile(np.array([float("nan")]))
    (None, None)
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return None, None
    low, high = np.quantile(known, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)


def bootstrap(value: float | None, resampled: Floats, n: int, level: float = LEVEL) -> Estimate:
    """A figure with the percentile interval of its resamples.

    Below two pictures a resample can only repeat the picture, and where all resamples agree they
    say nothing of what other pictures would give: no interval then.

    >>> bootstrap(0.5, np.array([0.4, 0.6]), n=1)
    Estimate(value=0.5, low=None, high=None, n=1, method='none', se=None)
    """
    if value is None or not np.isfinite(value):
        return EMPTY._replace(n=n)
    known = resampled[np.isfinite(resampled)]
    if n < 2 or not len(known) or known.min() == known.max():
        return Estimate(float(value), None, None, n, "none")
    se = float(known.std(ddof=1))
    return Estimate(float(value), *percentile(known, level), n, "bootstrap", se)


def bootstrap_ratio(
    top: npt.ArrayLike,
    bottom: npt.ArrayLike,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
    level: float = LEVEL,
) -> Estimate:
    """A ratio of sums over pictures: a rate over items, or a mean difference.

    Args:
        top: Shape (pictures,): what is counted, by picture; may be negative.
        bottom: Shape (pictures,): out of how many, by picture.
        draws: Number of resamples.
        seed: Seed of the generator.
        level: Coverage, 0 to 1.

    Returns:
        The ratio; n is the number of pictures.

    >>> bootstrap_ratio([1, 0, 2, 1], [2, 2, 2, 2]).value
    0.5
    """
    counts = np.column_stack([_one_dimensional(top), _one_dimensional(bottom)])
    if not len(counts):
        return EMPTY
    total = counts.sum(axis=0)
    sums = resampled_sums(counts, draws, seed)
    value = float(total[0] / total[1]) if total[1] else None
    return bootstrap(value, ratio(sums[:, 0], sums[:, 1]), len(counts), level)


def unanimous(top: npt.ArrayLike, bottom: npt.ArrayLike, level: float = LEVEL) -> Estimate | None:
    """Wilson's interval of a rate over items where every picture is all right or all wrong.

    Then the picture itself is one yes or no, whatever its number of items, and a bootstrap of a
    rate of 0 or 1 would claim certainty.

    Args:
        top: Shape (pictures,): items counted, by picture.
        bottom: Shape (pictures,): items, by picture; pictures without items are ignored.
        level: Coverage, 0 to 1.

    Returns:
        None where pictures are split within, or have different numbers of items and differ.

    >>> unanimous([2, 0], [2, 2]).value
    0.5
    >>> unanimous([1, 0], [2, 2]) is None
    True
    """
    counted, items = _one_dimensional(top), _one_dimensional(bottom)
    counted, items = counted[items > 0], items[items > 0]
    whole = counted == items
    if not (whole | (counted == 0)).all():
        return None
    if len(items) and (items != items[0]).any() and 0 < whole.sum() < len(whole):
        return None
    return wilson(int(whole.sum()), len(whole), level)


def rate(
    top: npt.ArrayLike,
    bottom: npt.ArrayLike,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
    level: float = LEVEL,
) -> Estimate:
    """A rate of items over pictures: Wilson where a picture is one unit, else the bootstrap.

    >>> rate([1, 0, 1], [1, 1, 1]).method, rate([1, 0, 1], [2, 2, 2]).method
    ('wilson', 'bootstrap')
    """
    plain = unanimous(top, bottom, level)
    if plain is not None:
        return plain
    return bootstrap_ratio(top, bottom, draws=draws, seed=seed, level=level)


def bootstrap_f1(
    tp: npt.ArrayLike,
    fp: npt.ArrayLike,
    fn: npt.ArrayLike,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
    level: float = LEVEL,
) -> Estimate:
    """F1 of the positive class from counts by picture, each of shape (pictures,).

    >>> bootstrap_f1([1, 0], [0, 0], [0, 1]).value
    0.6666666666666666
    """
    counts = np.column_stack([_one_dimensional(tp), _one_dimensional(fp), _one_dimensional(fn)])
    if not len(counts):
        return EMPTY
    value = float(f1_of(*(counts.sum(axis=0, keepdims=True).T))[0])
    return bootstrap(value, f1_of(*resampled_sums(counts, draws, seed).T), len(counts), level)


def bootstrap_auroc(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    picture: npt.ArrayLike,
    pictures: int,
    *,
    draws: int = DRAWS,
    seed: int = SEED,
    level: float = LEVEL,
) -> Estimate:
    """AUROC of items that belong to pictures; shapes as in `resampled_auroc`.

    >>> bootstrap_auroc([2.0, 1.0, 0.5, 0.5], [1, 0, 1, 0], [0, 0, 1, 1], 2).value
    0.625
    """
    value = auroc(scores, labels)
    if value is None:
        return EMPTY._replace(n=pictures)
    resampled = resampled_auroc(scores, labels, picture, pictures, draws, seed)
    return bootstrap(value, resampled, pictures, level)


def auroc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float | None:
    """Probability that a positive item scores above a negative one; ties count half.

    Returns:
        0 to 1, or None where one class is missing.

    >>> auroc([0.1, 0.4, 0.4], [0, 0, 1])
    0.75
    """
    s, y, _ = _items(scores, labels, np.zeros(np.shape(scores)))
    negative = np.sort(s[y == 0])
    positive = s[y == 1]
    if not len(negative) or not len(positive):
        return None
    won = np.searchsorted(negative, positive, side="left")
    won = won + np.searchsorted(negative, positive, side="right")
    return float(won.sum() / 2 / len(negative) / len(positive))


def mcnemar(right_a: npt.ArrayLike, right_b: npt.ArrayLike) -> McNemar:
    """The exact test of two models on the same units.

    Only units on which one model is right and the other wrong say anything. The units must be
    independent: groups of one picture are, its captions are not quite, so a p value over captions
    is a second view and the one over groups the first.

    Args:
        right_a: Shape (units,), 1 where model A was right.
        right_b: Shape (units,), 1 where model B was right, in the same order.

    Source: McNemar 1947; the binomial form, `scipy.stats.binomtest` on the discordant units.

    >>> mcnemar([1, 1, 1, 0], [0, 0, 0, 0])
    McNemar(only_a=3, only_b=0, n=4, p_value=0.25)
    """
    a, b = _one_dimensional(right_a) > 0, _one_dimensional(right_b) > 0
    if len(a) != len(b):
        raise ValueError(f"two models on the same units, but {len(a)} and {len(b)} units")
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    discordant = only_a + only_b
    p = float(binomtest(only_a, discordant, 0.5).pvalue) if discordant else 1.0
    return McNemar(only_a, only_b, len(a), p)


def independence(acc_p: float | None, acc_m: float | None) -> float | None:
    """Pair accuracy that a model with these accuracies has when P and M go right independently.

    A model that always says No has acc_p 0 and therefore independence 0, far below the 25 of
    chance: it is compared with this value, not with 25.

    >>> independence(0.5, 0.25)
    0.125
    """
    return None if acc_p is None or acc_m is None else acc_p * acc_m


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


def cross_fit_accuracy(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    picture: npt.ArrayLike,
    pictures: int,
    *,
    folds: int = 5,
    draws: int = DRAWS,
    seed: int = SEED,
    level: float = LEVEL,
) -> CrossFit:
    """Accuracy at the best threshold, each picture judged by a threshold from the other folds.

    It says what a model would score if only its bias towards Yes or No were removed. Choosing the
    threshold on the judged items themselves would flatter it.

    Args:
        scores: Shape (items,), s of each item.
        labels: Shape (items,), 1 or 0.
        picture: Shape (items,), index of the item's picture, 0 to `pictures` - 1.
        pictures: Number of pictures; at least two are needed.
        folds: Folds of pictures (no more than there are pictures).
        draws: Resamples of the interval.
        seed: Seed of the folds and of the bootstrap.
        level: Coverage of the interval.

    Returns:
        Accuracy over items with an interval over pictures, and each fold's threshold.
    """
    s, y, where = _items(scores, labels, picture)
    folds = min(folds, pictures)
    if folds < 2 or not len(s):
        return CrossFit(EMPTY._replace(n=pictures), ())
    fold = np.empty(pictures, dtype=np.int64)
    fold[np.random.default_rng(seed).permutation(pictures)] = np.arange(pictures) % folds
    right = np.zeros(len(s))
    thresholds = []
    for k in range(folds):
        inside = fold[where] == k
        thresholds.append(_best_threshold(s[~inside], y[~inside]))
        right[inside] = (s[inside] > thresholds[-1]) == (y[inside] == 1)
    top = np.bincount(where, right, pictures)
    bottom = np.bincount(where, minlength=pictures)
    estimate = bootstrap_ratio(top, bottom, draws=draws, seed=seed, level=level)
    return CrossFit(estimate, tuple(thresholds))


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


def _two_dimensional(values: npt.ArrayLike) -> Floats:
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != 2:
        raise ValueError(f"counts need the shape (pictures, k), but it is {out.shape}")
    if not len(out):
        raise ValueError("no pictures to resample")
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
