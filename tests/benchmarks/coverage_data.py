"""The data of `tests.benchmarks.coverage`: models whose true figures are known."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from postprocess.measure.stats import Floats


def cells(p: float, m: float, r: float = 0.0) -> Floats:
    """Chances of (P right, M right) = (1,1), (1,0), (0,1), (0,0), with correlation r."""
    both = p * m + r * (p * (1 - p) * m * (1 - m)) ** 0.5
    chances = np.clip([both, p - both, m - both, 1 - p - m + both], 0, None)
    out: Floats = chances / chances.sum()
    return out


P, M = np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 1, 0])
"""Whether P and M are right, by cell."""


ONE_MODEL = {
    "independent .7 .7": cells(0.7, 0.7),
    "independent .3 .9": cells(0.3, 0.9),
    "both .98": cells(0.98, 0.98),
    "both .02": cells(0.02, 0.02),
    "always No, nearly": cells(0.02, 0.98),
    "Yes-biased .98 .05": cells(0.98, 0.05),
    "Yes-biased .95 .3": cells(0.95, 0.3),
    "correlated .7 .7": cells(0.7, 0.7, 0.8),
    "correlated .95 .95": cells(0.95, 0.95, 0.5),
    "opposed .5 .5": cells(0.5, 0.5, -0.6),
}


def drawn(chances: Floats, n: int, times: int, seed: int) -> tuple[Floats, Floats]:
    """Distinct samples as counts by cell, and the share of each."""
    counts = np.random.default_rng([seed, n]).multinomial(n, chances, times)
    kinds, how_often = np.unique(counts, axis=0, return_counts=True)
    return kinds.astype(np.float64), how_often / times


FLIPS = {"2% lost": (0.0, 0.02), "5% 5%": (0.05, 0.05), "10% lost 2% gained": (0.02, 0.1)}
FLIPS |= {"30% lost 2% gained": (0.02, 0.3), "15% 15%": (0.15, 0.15), "25% 25%": (0.25, 0.25)}


def joint(a: Floats, b: Floats, same: float = 0.0) -> Floats:
    """16 cells of two models; a share of the pictures is answered alike (where a equals b)."""
    out: Floats = (same * np.diag(a) + (1 - same) * np.outer(a, b)).ravel()
    return out


TWO_MODELS = {
    "equal, independent .7 .7": joint(cells(0.7, 0.7), cells(0.7, 0.7)),
    "equal, alike on 80%": joint(cells(0.6, 0.8), cells(0.6, 0.8), 0.8),
    "equal, alike on 95%": joint(cells(0.6, 0.8), cells(0.6, 0.8), 0.95),
    "equal, captions err together": joint(cells(0.7, 0.7, 0.8), cells(0.7, 0.7, 0.8)),
    "equal, opposed biases": joint(cells(0.95, 0.1), cells(0.1, 0.95)),
    "Yes against No, nearly": joint(cells(0.98, 0.02), cells(0.05, 0.99)),
    ".8 .8 against .6 .7": joint(cells(0.8, 0.8), cells(0.6, 0.7)),
    ".95 .95 against .9 .9": joint(cells(0.95, 0.95), cells(0.9, 0.9)),
}
A, B = np.repeat(np.arange(4), 4), np.tile(np.arange(4), 4)
"""Cell of model A and of model B in each of the 16."""


def placements(positive: Floats, negative: Floats) -> tuple[float, Floats]:
    """AUROC and its exact values without each picture, in n log n."""
    n = len(positive)

    def won(x: Floats, among: Floats) -> Floats:
        ordered = np.sort(among)
        below = np.searchsorted(ordered, x, "left") + np.searchsorted(ordered, x, "right")
        return below / 2

    over, under = won(positive, negative), n - won(negative, positive)
    own = (positive > negative) + (positive == negative) / 2
    gone = (over.sum() - over - under + own) / (n - 1) ** 2
    return float(over.sum() / n**2), gone


SCORES = [(auc, r) for auc in (0.5, 0.7, 0.9, 0.98) for r in (0.0, 0.5, 0.8)]
"""AUROC, and how far the two scores of a picture go up and down together."""


def scores(rng: np.random.Generator, n: int, auc: float, r: float) -> tuple[Floats, Floats, Floats]:
    picture = rng.normal(size=n) * r**0.5
    shift = 2**0.5 * norm.ppf(auc)
    return (
        picture,
        shift + picture + rng.normal(size=n) * (1 - r) ** 0.5,
        picture + rng.normal(size=n) * (1 - r) ** 0.5,
    )
