"""How sure a figure is: intervals and paired tests, all of them over *pictures*.

The captions of one picture stand or fall together, so the picture is what is resampled and never
the caption. Every function here takes arrays in which one row is one picture (or an index that
says to which picture an item belongs); who belongs to which picture is decided in
`postprocess.measure.groups` alone. Nothing here draws without a seed, and nothing loops over
draws: a bootstrap is one matrix product of resampling weights with counts per picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

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


def ratio(top: Floats, bottom: Floats) -> Floats:
    """Elementwise quotient; NaN where the denominator is 0.

    >>> ratio(np.array([1.0, 1.0]), np.array([2.0, 0.0])).tolist()
    [0.5, nan]
    """
    out = np.full(np.broadcast(top, bottom).shape, np.nan)
    np.divide(top, bottom, out=out, where=bottom != 0)
    return out


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
