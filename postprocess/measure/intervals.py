"""An interval for every figure, over pictures: rates, pooled rates, F1, AUROC and differences.

Three ideas carry all of it. A figure that is a mean (or a ratio of sums) of what one picture gives
has a score interval: every value that the score test would not refuse, the spread being that of
the likeliest distribution with this very value. For a yes or no a picture this is Wilson's
interval, for a paired difference of two it is Tango's, and for several captions of one picture it
is the same with more steps. A figure that is no mean has a Wilson-like interval whose spread is
corrected by a jackknife over pictures. A difference of two such figures combines their intervals
by the correlation of the two jackknives. None of them draws, so nothing depends on a seed, and
none may return nothing: where all pictures agree the interval is wide, never missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from postprocess.measure.limits import (
    auroc_spread,
    correlation,
    difference_limits,
    excess_limits,
    jackknife_variance,
    mean_limits,
    rate_spread,
    ratio_limits,
    spread_limits,
)
from postprocess.measure.stats import EMPTY, LEVEL, Estimate, Floats, wilson

__all__ = [
    "TOO_FEW",
    "Evaluate",
    "auroc_spread",
    "difference",
    "excess",
    "f1",
    "furthest",
    "left_out",
    "mean",
    "mean_difference",
    "newcombe",
    "over_pictures",
    "ratio",
    "tango",
    "too_few",
    "wilson",
]

Evaluate: TypeAlias = Callable[[Floats], Floats]
"""Weights of shape (rows, pictures) to the figure under each row; all ones is the figure itself."""

TOO_FEW = 8
"""Pictures below which a figure tells nothing: at 7, all right still allows a true rate of 65%."""

GROUPS = 1000
"""Jackknife values at most; more pictures than that are left out in groups, so time stays linear
in them."""

_BLOCK = 4_000_000
"""Weights held at once."""


def too_few(n: int) -> bool:
    """Whether a row over so many pictures must be marked "too few pictures to tell".

    >>> too_few(7), too_few(8)
    (True, False)
    """
    return n < TOO_FEW


def tango(gained: int, lost: int, n: int, level: float = LEVEL) -> Estimate:
    """The score interval of a difference of two rates on the same pictures.

    Args:
        gained: Pictures that only the first has right.
        lost: Pictures that only the second has right.
        n: All pictures, those on which both agree included.
        level: Coverage, 0 to 1.

    Returns:
        (gained - lost) / n with its interval, as proportions; `EMPTY` without pictures.

    Raises:
        ValueError: A count is negative, or the two are more than `n`.

    Source: Tango, "Equivalence test and confidence interval for the difference in proportions for
    the paired-sample design", 1998.

    >>> [round(x, 3) for x in tango(1, 7, 21)[:3]]
    [-0.286, -0.517, -0.026]
    >>> [round(x, 3) for x in tango(0, 0, 19)[:3]]
    [0.0, -0.168, 0.168]
    """
    if min(gained, lost) < 0 or gained + lost > n:
        raise ValueError(f"{gained} gained and {lost} lost of {n}")
    if n == 0:
        return EMPTY
    counts = np.array([[lost, n - gained - lost, gained]], dtype=np.float64)
    low, high = mean_limits(counts, np.array([-1.0, 0.0, 1.0]), level)
    value = (gained - lost) / n
    se = ((gained + lost) / n - value**2) ** 0.5 / n**0.5
    return Estimate(value, float(low[0]), float(high[0]), n, "tango", se)


def newcombe(k1: int, n1: int, k2: int, n2: int, level: float = LEVEL) -> Estimate:
    """The hybrid score interval of a difference of two rates on *different* pictures.

    Returns:
        k1/n1 - k2/n2 with its interval; n is the smaller number of pictures; `EMPTY` where one
        side has none.

    Source: Newcombe, "Interval estimation for the difference between independent proportions",
    1998, method 10.

    >>> [round(x, 4) for x in newcombe(56, 70, 48, 80)[:3]]
    [0.2, 0.0524, 0.3339]
    """
    a, b = wilson(k1, n1, level), wilson(k2, n2, level)
    return difference(a, b, None, None)._replace(method="newcombe" if n1 and n2 else "none")


def mean(
    values: npt.ArrayLike, low: float = 0.0, high: float = 1.0, level: float = LEVEL
) -> Estimate:
    """The score interval of the mean of one value a picture, between known bounds.

    Values of 0 and 1 give Wilson's interval and those of -1, 0 and 1 give Tango's; 0, .5 and 1 is
    an accuracy over two captions or a ranking with ties.

    Args:
        values: Shape (pictures,).
        low: The least value that a picture can have, whether or not one has it.
        high: The greatest.
        level: Coverage, 0 to 1.

    Raises:
        ValueError: A value is out of bounds or not finite.

    >>> [round(x, 4) for x in mean([1] * 8 + [0] * 2)[:3]]
    [0.8, 0.4902, 0.9433]
    >>> [round(x, 3) for x in mean([0.5] * 19)[:3]]
    [0.5, 0.416, 0.584]
    """
    v = np.asarray(values, dtype=np.float64)
    if v.ndim != 1 or not (np.isfinite(v) & (v >= low) & (v <= high)).all():
        raise ValueError(f"one value a picture, each from {low:g} to {high:g}")
    if not len(v):
        return EMPTY
    kinds, where = np.unique(np.concatenate([v, [low, high]]), return_inverse=True)
    counts = np.bincount(where[: len(v)], minlength=len(kinds)).astype(np.float64)
    # Equal values must give their very mean, and not one that rounding moved past the interval.
    value = float(v.mean()) if v.min() < v.max() else float(v[0])
    a, b = mean_limits(counts[None], kinds, level)
    return Estimate(
        value, float(a[0]), float(b[0]), len(v), "score", float(v.std() / len(v) ** 0.5)
    )


def mean_difference(
    differences: npt.ArrayLike, step: float = 1.0, level: float = LEVEL
) -> Estimate:
    """The score interval of a mean of paired differences, one a picture.

    As `mean`, between bounds that mirror the largest difference seen: a picture moves as far up or
    down as one has moved. The widest conceivable bounds would double the width where single
    captions flip, and cover 100% (tests/benchmarks/coverage.py).

    Args:
        differences: Shape (pictures,): what A's answers to a picture give less what B's give.
        step: The smallest difference there can be: 1 for a yes or no a picture, 1/2 for the mean
            of two captions; the bound where nothing differs.
        level: Coverage, 0 to 1.

    >>> [round(x, 3) for x in mean_difference([1] + [-1] * 7 + [0] * 13)[:3]]
    [-0.286, -0.517, -0.026]
    """
    d = np.asarray(differences, dtype=np.float64)
    bound = furthest(d, step)
    return mean(d, -bound, bound, level)


def furthest(differences: Floats, step: float) -> float:
    """How far a picture may move either way: as far as one did, and no less than `step`.

    >>> furthest(np.array([0.0, -0.5]), 0.25)
    0.5
    """
    return max(step, float(np.abs(differences).max(initial=0.0)))


def ratio(
    top: npt.ArrayLike,
    bottom: npt.ArrayLike,
    level: float = LEVEL,
    possible: npt.ArrayLike | None = None,
) -> Estimate:
    """The score interval of a ratio of sums over pictures.

    A rate over items of which pictures have different numbers, or F1 (see `f1`).

    Args:
        top: Shape (pictures,), not negative: what is counted.
        bottom: Shape (pictures,): out of how many; pictures with 0 are left out.
        level: Coverage, 0 to 1.
        possible: Shape (k, 2): pairs (top, bottom) that a picture could have had; default: all or
            none of as many items as the largest picture has.

    Returns:
        n is the number of pictures with a denominator; `EMPTY` where there is none.

    >>> [round(x, 4) for x in ratio([2] * 8 + [0] * 2, [2] * 10)[:3]]
    [0.8, 0.4902, 0.9433]
    """
    pairs = np.column_stack([np.asarray(top, dtype=np.float64), np.asarray(bottom)])
    pairs = pairs[pairs[:, 1] > 0]
    n = len(pairs)
    if not n:
        return EMPTY
    most = pairs[:, 1].max()
    extra = np.asarray([(0.0, most), (most, most)] if possible is None else possible)
    cells, where = np.unique(np.concatenate([pairs, extra]), axis=0, return_inverse=True)
    counts = np.bincount(np.ravel(where)[:n], minlength=len(cells)).astype(np.float64)
    sums = pairs.sum(axis=0)
    value = float(sums[0] / sums[1])
    low, high = ratio_limits(counts[None], cells[:, 0], cells[:, 1], level)
    residual = (pairs[:, 0] - value * pairs[:, 1]) * n / sums[1]
    se = float((residual**2).mean() ** 0.5 / n**0.5)
    return Estimate(value, float(low[0]), float(high[0]), n, "score", se)


def f1(tp: npt.ArrayLike, fp: npt.ArrayLike, fn: npt.ArrayLike, level: float = LEVEL) -> Estimate:
    """The score interval of F1 from counts by picture, each of shape (pictures,).

    F1 is at least x exactly where the sum of 2 tp - x (2 tp + fp + fn) is at least 0, which is a
    mean over pictures. A picture without any count says nothing and is left out of n.

    >>> estimate = f1([1, 0, 1, 1], [0, 0, 1, 0], [0, 1, 0, 0])
    >>> round(estimate.value, 3), estimate.low < 0.4, estimate.high > 0.9
    (0.75, True, True)
    """
    t, p, n = (np.asarray(x, dtype=np.float64) for x in (tp, fp, fn))
    if not t.size:
        return EMPTY
    positive, negative = max(float((t + n).max()), 1.0), max(float(p.max()), 1.0)
    possible = [(0.0, positive + negative), (2 * positive, 2 * positive)]
    return ratio(2 * t, 2 * t + p + n, level, possible)


def excess(right_a: npt.ArrayLike, right_b: npt.ArrayLike, level: float = LEVEL) -> Estimate:
    """Pair accuracy less the product of the two accuracies, from 0 and 1 a picture and caption.

    >>> found = excess([1, 1, 1, 1, 0, 0, 0, 0] * 3, [1, 1, 1, 0, 1, 0, 0, 0] * 3)
    >>> [round(x, 3) for x in found[:3]]
    [0.125, 0.018, 0.196]
    """
    a, b = np.asarray(right_a) > 0, np.asarray(right_b) > 0
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"one value a picture of both captions, not {a.shape} and {b.shape}")
    n = len(a)
    if not n:
        return EMPTY
    cells = [(a & b).sum(), (a & ~b).sum(), (~a & b).sum(), (~a & ~b).sum()]
    low, high = excess_limits(np.array([cells], dtype=np.float64), level)
    value = float((a & b).mean() - a.mean() * b.mean())
    se = float(((a - a.mean()) * (b - b.mean())).std() / n**0.5)
    return Estimate(value, float(low[0]), float(high[0]), n, "added pictures", se)


def over_pictures(
    evaluate: Evaluate,
    pictures: int,
    *,
    n: int | None = None,
    spread: Callable[[Floats, int], Floats] | None = None,
    level: float = LEVEL,
    leave_out: Floats | None = None,
) -> Estimate:
    """An interval for a figure from 0 to 1 that is no mean over pictures (AUROC, independence).

    The limits are the values x with |value - x| = z sqrt(f V(x)): V is the variance that the
    figure would have over independent pictures at x, and f, the design effect, is what the
    jackknife over pictures finds, drawn towards 1 by a few pictures' worth. So a figure of 1 with
    no spread at all still has an interval.

    Args:
        evaluate: Weights of shape (rows, pictures) to the figure under each row.
        pictures: Pictures that `evaluate` knows.
        n: Pictures that the figure rests on, where that is fewer.
        spread: V(x, n), such as `auroc_spread`; default: that of a rate, x (1 - x) / n.
        level: Coverage, 0 to 1.
        leave_out: `left_out(evaluate, pictures)` where the caller has it already.

    Returns:
        `EMPTY` (with n) where the figure is undefined.

    >>> hits = np.array([1.0] * 8 + [0.0] * 2)
    >>> found = over_pictures(lambda w: w @ hits / w.sum(axis=1), 10)
    >>> [round(x, 2) for x in found[:3]]
    [0.8, 0.48, 0.95]
    """
    n = pictures if n is None else n
    value = float(evaluate(np.ones((1, pictures)))[0]) if n else float("nan")
    if not np.isfinite(value):
        return EMPTY._replace(n=n)
    gone = left_out(evaluate, pictures) if leave_out is None else leave_out
    variance = jackknife_variance(gone, value)
    low, high = spread_limits(
        np.array([value]), np.array([variance]), n, spread or rate_spread, level
    )
    return Estimate(value, float(low[0]), float(high[0]), n, "jackknife", variance**0.5)


def left_out(evaluate: Evaluate, pictures: int) -> Floats:
    """The figure without each picture in turn, or without each of `GROUPS` groups of them.

    Args:
        evaluate: Weights of shape (rows, pictures) to the figure under each row.
        pictures: Number of pictures.

    Returns:
        Shape (min(pictures, GROUPS),); NaN where nothing is left to compute it from.
    """
    groups = min(pictures, GROUPS)
    member = np.arange(pictures) % groups
    step = max(1, _BLOCK // max(pictures, 1))
    rows = [np.arange(at, min(at + step, groups)) for at in range(0, groups, step)]
    return np.concatenate([evaluate((member != row[:, None]).astype(np.float64)) for row in rows])


def difference(a: Estimate, b: Estimate, left_a: Floats | None, left_b: Floats | None) -> Estimate:
    """The first less the second, from their own intervals and from how they move together.

    Args:
        a: One figure with its interval.
        b: The other, over the same pictures.
        left_a: `left_out` of `a`; None where the two rest on different pictures.
        left_b: `left_out` of `b`, over the same pictures in the same order.

    Returns:
        n is that of the smaller side; `EMPTY` where one side has no value.

    Source: the square-and-add method; Newcombe 1998 (method 10) with the correlation of Zou and
    Donner 2008.

    >>> [round(x, 3) for x in difference(wilson(9, 10), wilson(3, 10), None, None)[:3]]
    [0.6, 0.171, 0.809]
    """
    n = min(a.n, b.n)
    known = (a.value, a.low, a.high, b.value, b.low, b.high)
    if any(x is None for x in known):
        return EMPTY._replace(n=n)
    r = 0.0 if left_a is None or left_b is None else float(correlation(left_a, left_b))
    ends = np.array([[float(x or 0.0)] for x in known])
    low, high = difference_limits(ends[:3], ends[3:], np.array([r]))
    sa, sb = a.se or 0.0, b.se or 0.0
    se = max(sa * sa + sb * sb - 2 * r * sa * sb, 0.0) ** 0.5
    value = float(ends[0, 0] - ends[3, 0])
    return Estimate(value, float(low[0]), float(high[0]), n, "square-and-add", se)
