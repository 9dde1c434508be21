"""Whether two models differ: one p a difference, over pictures, and why it may seem to disagree.

The p that stands beside an interval is that of the test which the interval inverts, wherever there
is such a test, so the two cannot disagree about zero. The exact test is computed beside it: where
few pictures differ it is the more careful of the two, and `disagreement` says so in words rather
than leaving the reader with one of them. Captions are never counted as if they were pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest, norm

from postprocess.measure.intervals import furthest
from postprocess.measure.limits import tilted_variance
from postprocess.measure.stats import LEVEL, SEED, Estimate, Floats

EXACT = 20
"""Pictures that differ, up to which all ways of swapping them are counted."""

SWAPS = 1_999
"""Swaps drawn beyond that; p is then at least 1 / (SWAPS + 1), and says that it is a bound."""

_GRID = 12
"""Denominators tried to write per-picture differences as whole numbers."""

_WORK = 40_000_000
"""Weights (swaps times pictures) up to which all swaps are counted."""

_BLOCK = 4_000_000


class Significance(NamedTuple):
    """What a test says about "no difference"."""

    p_value: float
    """Two-sided; belongs beside the interval."""
    exact: float
    """Two-sided p of the permutation test; McNemar's where a picture gives one yes or no."""
    method: str
    """`score` (inverted by the interval) or `swap` (the permutation is the only test)."""
    n: int
    """Pictures."""
    differ: int
    """Pictures on which the two differ: what the test rests on."""
    at_most: bool = False
    """p was drawn and no draw reached the difference: it is at most this."""


def mcnemar(only_a: int, only_b: int) -> float:
    """The exact two-sided p of McNemar's test; 1 where the two never differ.

    >>> mcnemar(4, 0), mcnemar(0, 0)
    (0.125, 1.0)
    """
    n = only_a + only_b
    return float(binomtest(only_a, n, 0.5).pvalue) if n else 1.0


def paired(only_a: int, only_b: int, n: int) -> Significance:
    """The test beside `intervals.tango`: one yes or no a picture and model.

    Source: McNemar 1947, without continuity correction, which is Tango's score test at 0.
    Fagerland, Lydersen and Laake 2013 find its size at most 5.4%, where that of the exact test
    stays far below 5%.

    >>> test = paired(4, 0, 19)
    >>> round(test.p_value, 4), test.exact
    (0.0455, 0.125)
    """
    differ = only_a + only_b
    z = abs(only_a - only_b) / differ**0.5 if differ else 0.0
    return Significance(float(2 * norm.sf(z)), mcnemar(only_a, only_b), "score", n, differ)


def of_differences(differences: npt.ArrayLike, step: float = 1.0, seed: int = SEED) -> Significance:
    """The test beside `intervals.mean_difference`.

    Args:
        differences: Shape (pictures,): what A's answers to a picture give less what B's give.
        step: As given to `intervals.mean_difference`.
        seed: Seed of the sign flips, where they must be drawn.

    >>> test = of_differences([-0.5] * 40 + [0.0] * 150, step=0.5)
    >>> test.p_value < 1e-9, test.exact < 1e-11
    (True, True)
    """
    d = np.asarray(differences, dtype=np.float64)
    moved = d[d != 0]
    exact, at_most = sign_flip(moved, seed)
    if not len(moved):
        return Significance(1.0, 1.0, "score", len(d), 0)
    bound = furthest(d, step)
    kinds, where = np.unique(np.concatenate([d, [-bound, bound]]), return_inverse=True)
    counts = np.bincount(where[: len(d)], minlength=len(kinds)).astype(np.float64)
    variance = float(tilted_variance(counts[None], kinds[None])[0])
    z = abs(float(d.sum())) / (len(d) * variance) ** 0.5
    return Significance(float(2 * norm.sf(z)), exact, "score", len(d), len(moved), at_most)


def sign_flip(differences: npt.ArrayLike, seed: int = SEED) -> tuple[float, bool]:
    """The exact p that a sum of differences has when each could as well have the other sign.

    Differences that are whole multiples of one step (halves, thirds) are counted exactly for any
    number of pictures. Others are up to `EXACT` that are not 0, and drawn beyond.

    Returns:
        Two-sided p, and whether it is only a bound.

    >>> sign_flip([1, 1, 1, 1, 0, 0]), sign_flip([])
    ((0.125, False), (1.0, False))
    """
    d = np.abs(np.asarray(differences, dtype=np.float64))
    seen = abs(float(np.sum(differences)))
    d = d[d > 0]
    if not len(d):
        return 1.0, False
    for step in range(1, _GRID + 1):
        whole = np.rint(d * step)
        if np.abs(whole - d * step).max() < 1e-9 and whole.sum() <= 200_000:
            return _counted(whole.astype(np.int64), round(seen * step)), False
    if len(d) <= EXACT:
        sums = np.zeros(1)
        for x in d:
            sums = np.concatenate([sums + x, sums - x])
        return float((np.abs(sums) >= seen - 1e-12 * d.sum()).mean()), False
    rng = np.random.default_rng(seed)
    reached = 0
    for _ in range(10):
        signs = rng.integers(0, 2, size=(SWAPS // 10 + 1, len(d))) * 2.0 - 1
        reached += int((np.abs(signs @ d) >= seen - 1e-12 * d.sum()).sum())
    drawn = 10 * (SWAPS // 10 + 1)
    return (reached + 1) / (drawn + 1), reached == 0


def _counted(whole: npt.NDArray[np.int64], seen: int) -> float:
    """Two-sided p of the sum, from the distribution of the sum of those with a plus."""
    total = int(whole.sum())
    chance = np.zeros(total + 1)
    chance[0], top = 1.0, 0
    for x in whole:
        chance[: top + x + 1] /= 2
        chance[x : top + x + 1] += chance[: top + 1].copy() if x else 0
        top += int(x)
    low = (total - seen) // 2
    return float(min(1.0, 2 * chance[: low + 1].sum())) if seen else 1.0


def swap(
    evaluate: Callable[[Floats], Floats],
    pictures: int,
    differing: npt.ArrayLike | None = None,
    *,
    exact: int = EXACT,
    draws: int = SWAPS,
    seed: int = SEED,
) -> Significance:
    """The permutation test of a figure that is no sum: the two models' answers change places.

    Args:
        evaluate: Weights of shape (rows, 2 x pictures) to the figure under each row; the first
            half of the columns are A's answers to each picture, the second B's to the same ones.
        pictures: Number of pictures.
        differing: Indices of the pictures on which the two differ (default: all): swapping the
            others changes nothing, and they need not be drawn.
        exact: Differing pictures up to which all swaps are counted.
        draws: Swaps drawn where there are too many to count all.
        seed: Seed of those.

    Returns:
        p is the share of swaps whose difference is as large as the one seen; a swap that leaves a
        side without a figure counts as large.

    >>> score = np.array([3.0, 2, 4, 3, 0, 0, 0, 0])
    >>> swap(lambda w: w @ score / w.sum(axis=1), 4).p_value
    0.125
    """
    where = np.arange(pictures) if differing is None else np.asarray(differing, dtype=np.int64)
    k = len(where)

    def gap(swapped: npt.NDArray[np.bool_]) -> Floats:
        b = np.zeros((len(swapped), pictures))
        b[:, where] = swapped
        stays, goes = np.hstack([1 - b, b]), np.hstack([b, 1 - b])
        out: Floats = evaluate(stays) - evaluate(goes)
        return out

    seen = abs(float(gap(np.zeros((1, k), dtype=bool))[0])) if k else 0.0
    if not k or not np.isfinite(seen) or seen < 1e-12:
        return Significance(1.0, 1.0, "swap", pictures, k)
    # A swap and its opposite give the same size of difference, so half of them are enough.
    all_of_them = k <= exact and 2 ** (k - 1) * pictures <= _WORK
    all_of_them = all_of_them or 2 ** (k - 1) <= draws
    rng, total = np.random.default_rng(seed), 2 ** (k - 1) if all_of_them else draws
    step, reached = max(1, _BLOCK // (2 * pictures)), 0
    for start in range(0, total, step):
        rows = np.arange(start, min(start + step, total))
        if all_of_them:
            swapped = (rows[:, None] >> np.arange(k)) & 1 > 0
        else:
            swapped = rng.integers(0, 2, size=(len(rows), k)) > 0
        reached += int((~(np.abs(gap(swapped)) < seen - 1e-12)).sum())
    p = reached / total if all_of_them else (reached + 1) / (total + 1)
    return Significance(p, p, "swap", pictures, k, not all_of_them and reached == 0)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p of one family; None stays None and is no member of it.

    Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    out: list[float | None] = [None] * len(p_values)
    so_far = 0.0
    for rank, (p, i) in enumerate(known):
        so_far = max(so_far, min(1.0, (len(known) - rank) * p))
        out[i] = so_far
    return out


def disagreement(estimate: Estimate, test: Significance, level: float = LEVEL) -> str | None:
    """Why a row's interval and a test of it are on different sides of zero; None where they agree.

    >>> from postprocess.measure.intervals import tango
    >>> disagreement(tango(4, 0, 19), paired(4, 0, 19))
    'only 4 of 19 pictures differ: the interval excludes zero, the exact test does not (p = 0.125)'
    >>> disagreement(tango(9, 0, 19), paired(9, 0, 19)) is None
    True
    """
    if estimate.low is None or estimate.high is None:
        return None
    excluded = estimate.low > 0 or estimate.high < 0
    alpha = 1 - level
    if excluded == (test.p_value < alpha) == (test.exact < alpha):
        return None
    few = (
        f"only {test.differ} of {test.n} pictures differ" if test.differ <= EXACT else "borderline"
    )
    said = f"p = {test.exact:.3g}"
    if excluded:
        return f"{few}: the interval excludes zero, the exact test does not ({said})"
    return f"{few}: the interval includes zero, the exact test does not ({said})"
