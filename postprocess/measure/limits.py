"""The arithmetic of `postprocess.measure.intervals`, for many samples at once.

Each function takes counts (or figures) of many samples, one a row, and returns a limit or a
variance for each: one row is one figure of a table, and many are a simulation of coverage, which
therefore tests the very code that prints. Nothing here knows pictures, metrics or p values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from scipy.stats import t as student

from postprocess.measure.stats import LEVEL, Floats

_PRIOR = 2.0
"""Pictures' worth of trust in the spread of independent captions; found by the simulation in
tests/benchmarks/coverage.py: without it an AUROC near 1 covers 91% at 50 pictures."""

_STEPS = 50
"""Halvings of a bracket: far below what is printed."""

_SECANTS = 18
"""Steps where each costs a bracket of its own."""


def rate_spread(x: Floats, n: int) -> Floats:
    """Variance of a rate x over n independent pictures."""
    return x * (1 - x) / n


def auroc_spread(x: Floats, n: int) -> Floats:
    """Variance of an AUROC x with n positive and n negative items.

    Source: Hanley and McNeil 1982, in the form of Newcombe 2006 (method 5).
    """
    return x * (1 - x) * (1 + (n - 1) * ((1 - x) / (2 - x) + x / (1 + x))) / (n * n)


def jackknife_variance(leave_out: Floats, value: float) -> float:
    """Variance of a figure from its values without each picture; undefined ones move nothing."""
    found = np.where(np.isfinite(leave_out), leave_out, value)
    return float(((found - found.mean()) ** 2).sum() * (len(found) - 1) / max(len(found), 1))


def correlation(left_a: Floats, left_b: Floats) -> float:
    """Correlation of two figures over the same pictures; 0 where one of them never moves."""
    both = np.isfinite(left_a) & np.isfinite(left_b)
    a, b = left_a[both], left_b[both]
    if len(a) < 3 or np.ptp(a) < 1e-12 or np.ptp(b) < 1e-12:
        return 0.0
    return float(np.clip(np.corrcoef(a, b)[0, 1], -1.0, 1.0))


def spread_limits(
    value: Floats,
    variance: Floats,
    n: int,
    spread: Callable[[Floats, int], Floats],
    level: float = LEVEL,
) -> tuple[Floats, Floats]:
    """Limits as in `over_pictures`, for many figures at once: shapes (figures,)."""
    z2 = norm.ppf(0.5 + level / 2) ** 2
    trust = _PRIOR * spread((value * n + 0.5) / (n + 1), n)
    effect = (variance * n + trust) / (spread(value, n) * n + trust)
    out = []
    for end in (0.0, 1.0):
        far, near = np.full(len(value), end), value.copy()
        for _ in range(_STEPS):
            middle = (far + near) / 2
            outside = (value - middle) ** 2 > z2 * effect * spread(middle, n)
            far, near = np.where(outside, middle, far), np.where(outside, near, middle)
        # Only what lies beyond every refused value is out; an end that is never refused is in.
        out.append(np.where((value - end) ** 2 > 0, far, end))
    return out[0], out[1]


def difference_limits(a: Floats, b: Floats, r: Floats) -> tuple[Floats, Floats]:
    """Limits of a less b; `a` and `b` of shape (3, figures): value, low, high; r (figures,)."""
    down_a, up_a, down_b, up_b = a[0] - a[1], a[2] - a[0], b[0] - b[1], b[2] - b[0]
    low = down_a**2 + up_b**2 - 2 * r * down_a * up_b
    high = up_a**2 + down_b**2 - 2 * r * up_a * down_b
    value = a[0] - b[0]
    return value - np.sqrt(np.maximum(low, 0)), value + np.sqrt(np.maximum(high, 0))


def excess_limits(counts: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Limits of what pair accuracy has beyond the product of two accuracies, over pictures.

    A picture is added to each of the four cells first, and the rest is t: taking the accuracies as
    known covers 45% at 19 pictures where the two captions stand and fall together, and says nothing
    where a cell is empty.

    Args:
        counts: Shape (samples, 4): pictures with both right, the first, the second, neither.
        level: Coverage, 0 to 1.
    """
    c = counts + 1
    n = c.sum(axis=1)
    a, b = (c[:, 0] + c[:, 1]) / n, (c[:, 0] + c[:, 2]) / n
    moved = np.stack([(1 - a) * (1 - b), -(1 - a) * b, -a * (1 - b), a * b], axis=1)
    centre = c[:, 0] / n - a * b
    variance = ((c * moved**2).sum(axis=1) / n - centre**2) / (n - 1)
    half = student.ppf(0.5 + level / 2, n - 1) * np.sqrt(np.maximum(variance, 0))
    whole = counts.sum(axis=1)
    value = (
        counts[:, 0] / whole
        - (counts[:, 0] + counts[:, 1]) * (counts[:, 0] + counts[:, 2]) / whole**2
    )
    low, high = np.minimum(centre - half, value), np.maximum(centre + half, value)
    return np.maximum(low, -0.25), np.minimum(high, 0.25)


def tilted_variance(counts: Floats, g: Floats) -> Floats:
    """Mean square of g under the likeliest distribution in which the mean of g is 0.

    The likelihood is that of the counts, over the given values of g and no others; a value without
    a count takes mass only where the counted ones cannot balance.

    Args:
        counts: Shape (rows, cells).
        g: Shape (rows, cells); each row holds a value on both sides of 0, or 0.

    Returns:
        Shape (rows,).
    """
    n = counts.sum(axis=1)
    most, least = g.max(axis=1), g.min(axis=1)
    low = -(1 - 1e-10) / np.maximum(most, 1e-12)
    high = (1 - 1e-10) / np.maximum(-least, 1e-12)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        right = (counts * g / (1 + middle[:, None] * g)).sum(axis=1) > 0
        low, high = np.where(right, middle, low), np.where(right, high, middle)
    p = counts / n[:, None] / (1 + ((low + high) / 2)[:, None] * g)
    missing = np.maximum(1 - p.sum(axis=1), 0.0)
    beyond = np.where((counts * g).sum(axis=1) > 0, least, most)
    out: Floats = (p * g * g).sum(axis=1) + missing * beyond**2
    return out


def ratio_limits(
    counts: Floats, top: Floats, bottom: Floats, level: float = LEVEL
) -> tuple[Floats, Floats]:
    """Score limits of sum(top) / sum(bottom) for many samples at once.

    Args:
        counts: Shape (samples, cells): pictures by cell.
        top: Shape (cells,).
        bottom: Shape (cells,), above 0.
        level: Coverage, 0 to 1.

    Returns:
        Two arrays of shape (samples,).
    """
    z2 = norm.ppf(0.5 + level / 2) ** 2
    samples = len(counts)
    both = np.concatenate([counts, counts])
    n, sums = both.sum(axis=1), np.column_stack([both @ top, both @ bottom])

    def beyond(x: Floats) -> Floats:
        gap = np.abs(sums[:, 0] - x * sums[:, 1])
        variance = tilted_variance(both, top - x[:, None] * bottom)
        out: Floats = gap - np.sqrt(z2 * n * variance)
        return out

    value = sums[:, 0] / sums[:, 1]
    end = np.repeat([(top / bottom).min(), (top / bottom).max()], samples)
    # A hair inside: at the end itself, and where nothing varies, no variance can be told.
    far, near = end + 1e-9 * (value - end), value + 1e-6 * (end - value)
    f_far, f_near = beyond(far), beyond(near)
    never = f_far <= 0
    middle, last = far, np.zeros(len(far), dtype=bool)
    for step in range(_SECANTS):
        # The chord's root, leaning away from an end that stayed twice; now and then the middle.
        share = f_far / np.maximum(f_far - f_near, 1e-300) if step % 4 < 3 else 0.5
        middle = far + np.clip(share, 0, 1) * (near - far)
        found = beyond(middle)
        out = found > 0
        again = out == last if step else np.zeros(len(far), dtype=bool)
        f_near = np.where(out, np.where(again, f_near / 2, f_near), found)
        f_far = np.where(out, found, np.where(again, f_far / 2, f_far))
        far, near = np.where(out, middle, far), np.where(out, near, middle)
        last = out
    limit = np.where(never, end, middle)
    return limit[:samples], limit[samples:]


def mean_limits(counts: Floats, values: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Score limits of a mean for many samples at once.

    Args:
        counts: Shape (samples, values): pictures by value.
        values: Shape (values,), increasing; the first and the last are the bounds.
        level: Coverage, 0 to 1.

    Returns:
        Two arrays of shape (samples,).
    """
    z2 = float(norm.ppf(0.5 + level / 2)) ** 2
    mirrored = -_lower_limit(counts[:, ::-1], -values[::-1], z2)
    return _lower_limit(counts, values, z2), mirrored


def _lower_limit(counts: Floats, values: Floats, z2: float) -> Floats:
    """The lower score limit; the likeliest distributions of each mean lie on one known curve.

    With w the distance from the lower bound, the likeliest distribution of a mean below the
    sample's has p = c / (n l (w + k)): each k > 0 is one mean, and l makes p sum to 1. Where no
    picture has the bound itself, means below that of k = 0 put the missing mass there.
    """
    c, w = counts, values - values[0]
    n = c.sum(axis=1)
    sample = c @ w / n
    empty = c[:, 0] == 0
    rest = (c[:, 1:] / w[1:]).sum(axis=1) / n

    def outside(at: Floats, p: Floats) -> npt.NDArray[np.bool_]:
        refused: npt.NDArray[np.bool_] = n * (sample - at) ** 2 > z2 * (
            (p * (w - at[:, None]) ** 2).sum(axis=1)
        )
        return refused

    def tilted(log_k: Floats) -> tuple[Floats, Floats]:
        p = c / (w + w[-1] * np.exp(log_k)[:, None])
        p = p / p.sum(axis=1, keepdims=True)
        return p @ w, p

    far, near = np.full(len(c), -30.0), np.full(len(c), 30.0)
    beyond = empty & ~outside(*tilted(far))
    for _ in range(_STEPS):
        middle = (far + near) / 2
        out = outside(*tilted(middle))
        far, near = np.where(out, middle, far), np.where(out, near, middle)
    limit = tilted(far)[0]
    if beyond.any():
        far, near = np.zeros(len(c)), np.where(beyond, 1 / np.where(empty, rest, 1.0), 0.0)
        for _ in range(_STEPS):
            middle = (far + near) / 2
            p = np.zeros_like(c)
            p[:, 1:] = c[:, 1:] / n[:, None] * middle[:, None] / w[1:]
            p[:, 0] = np.maximum(1 - middle * rest, 0.0)
            out = outside(middle, p)
            far, near = np.where(out, middle, far), np.where(out, near, middle)
        limit = np.where(beyond, far, limit)
    # At the bound itself the curve ends in a point that only rounding keeps apart from it.
    limit = np.where(limit < 1e-9 * w[-1], 0.0, np.minimum(limit, sample))
    out_: Floats = values[0] + limit
    return out_
