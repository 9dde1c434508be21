"""The CLASH paper's bootstrap, exactly as it is printed there.

The paper prints, in percent, the mean of the resample means and their standard deviation; it gives
no seed, so its cells differ from the plain rate by noise. Our intervals are elsewhere
(`postprocess.measure.stats`): this module exists so that a table can be compared with the
paper's, and must never stand alone where a plain rate is meant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from postprocess.measure.stats import DRAWS, SEED, resampled_sums


class PaperBootstrap(NamedTuple):
    """What the paper prints of a rate, as proportions."""

    mean: float | None
    """Mean of the resample means; None without samples."""
    sd: float | None
    """Standard deviation of the resample means, ddof 0; None without samples."""
    n: int
    draws: int


def paper_bootstrap(
    values: npt.ArrayLike, draws: int = DRAWS, seed: int = SEED
) -> tuple[PaperBootstrap, ...]:
    """Mean and standard deviation of the means of resampled samples, a pair for each column.

    All columns share the resamples, so that figures of one file stay comparable.

    Args:
        values: Shape (samples, figures), or (samples,) for one figure; flags as 0 and 1.
        draws: Number of resamples; the paper's is 1,000.
        seed: Seed of the resamples.

    Returns:
        One result for each figure.

    Raises:
        ValueError: `values` has no samples-by-figures shape, or `draws` is below 1.

    Source: arXiv 2511.19199 and its release: 1,000 resamples of samples, ddof 0.

    >>> paper_bootstrap([1, 1, 1])
    (PaperBootstrap(mean=1.0, sd=0.0, n=3, draws=1000),)
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or draws < 1:
        raise ValueError(f"values of shape {table.shape}, {draws} draws")
    n, figures = len(table), table.shape[1]
    if not n:
        return tuple(PaperBootstrap(None, None, 0, draws) for _ in range(figures))
    # One row a figure: a sum's rounding then does not depend on how many figures there are.
    means = np.ascontiguousarray(resampled_sums(table, draws, seed).T) / n
    return tuple(
        PaperBootstrap(float(mean), float(sd), n, draws)
        for mean, sd in zip(means.mean(axis=1), means.std(axis=1), strict=True)
    )
