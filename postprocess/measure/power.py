"""How many pictures a paired difference needs, and what a number of pictures can show.

The test is the one that stands in the tables (`significance.paired`); its power is summed over all
outcomes and not drawn. What decides is the discordance: how many pictures one side has right and
the other wrong. Nothing here reads a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, norm

from postprocess.measure.stats import LEVEL, Floats

POWER = 0.8
"""Chance of finding a difference that is there, as is usual."""

MOST = 1_000_000
"""Pictures beyond which nobody asks."""

_EXACT = 20_000
"""Pictures up to which the needed number is found from the exact power."""


class Design(NamedTuple):
    """What is to be told apart, in shares of pictures."""

    gained: float
    """Right only after the change, or only by the second model."""
    lost: float
    """Right only before, or only by the first."""

    @property
    def difference(self) -> float:
        """Second less first."""
        return self.gained - self.lost

    @property
    def discordance(self) -> float:
        """Pictures on which the two differ."""
        return self.gained + self.lost


def design(rate: float, difference: float, discordance: float | None = None) -> Design:
    """The design of two rates on the same pictures.

    Args:
        rate: The first model's rate, 0 to 1.
        difference: Second less first.
        discordance: Share of pictures on which the two differ; default: that of two models that
            go right independently, which is more than models of one kind show.

    Raises:
        ValueError: No two such rates exist.

    >>> [round(x, 3) for x in design(0.3, 0.05)]
    [0.245, 0.195]
    """
    second = rate + difference
    if not (0 <= rate <= 1 and 0 <= second <= 1):
        raise ValueError(f"a rate of {rate:g} and a difference of {difference:g} give {second:g}")
    if discordance is None:
        discordance = rate * (1 - second) + second * (1 - rate)
    most = min(rate + second, 2 - rate - second)
    if not abs(difference) - 1e-12 <= discordance <= most + 1e-12:
        raise ValueError(
            f"a discordance of {discordance:g} does not fit: rates of {rate:g} and {second:g} "
            f"differ on {abs(difference):g} to {most:g} of the pictures"
        )
    return Design(
        max((discordance + difference) / 2, 0.0), max((discordance - difference) / 2, 0.0)
    )


def power(n: int, of: Design, level: float = LEVEL) -> float:
    """Chance that the test over n pictures refuses "no difference" at 1 - `level`.

    >>> round(power(19, Design(0.0, 0.1)), 2), round(power(638, Design(0.0, 0.02)), 2)
    (0.11, 1.0)
    """
    if of.discordance == 0 or n == 0:
        return 0.0
    z = float(norm.ppf(0.5 + level / 2))
    # Numbers of differing pictures that matter; what is left out weighs less than 1e-12.
    least, most = binom.ppf([5e-13, 1 - 5e-13], n, of.discordance)
    d = np.arange(int(least), int(most) + 1)
    d = d[d > 0]
    # With d pictures differing, the test refuses where at most this many go one of the two ways.
    few = np.ceil((d - z * np.sqrt(d)) / 2 - 1e-9) - 1
    share = of.gained / of.discordance
    refused: Floats = binom.cdf(few, d, share) + binom.cdf(few, d, 1 - share)
    return float((binom.pmf(d, n, of.discordance) * refused).sum())


def pictures_needed(of: Design, wanted: float = POWER, level: float = LEVEL) -> int | None:
    """The number of pictures from which on the power is at least `wanted`.

    The power of counts goes up in a saw: the number returned is the first after which the next
    twentieth more pictures (and 20 at least) all suffice. Above 20,000 it is the normal formula's.

    Returns:
        None where there is no difference, or more than a million pictures are needed.

    Source: Connor, "Sample size for testing differences in proportions for the paired-sample
    design", 1987, as the start of the exact search.

    >>> pictures_needed(Design(0.10, 0.02)), pictures_needed(Design(0.2, 0.2)) is None
    (133, True)
    """
    gap, discordance = abs(of.difference), of.discordance
    if gap < 1e-12:
        return None
    a, b = (float(norm.ppf(x)) for x in (0.5 + level / 2, wanted))
    start = (a * discordance**0.5 + b * max(discordance - gap**2, 0.0) ** 0.5) ** 2 / gap**2
    if start > _EXACT:
        return int(np.ceil(start)) if start <= MOST else None
    n = last_short = max(1, int(start * 0.7))
    while n < last_short + 20 + last_short // 20:
        n += 1
        if power(n, of, level) < wanted:
            last_short = n
    return last_short + 1


def detectable(
    n: int, of: Callable[[float], Design], wanted: float = POWER, level: float = LEVEL
) -> float | None:
    """The smallest difference that n pictures show with power `wanted`.

    Args:
        n: Pictures.
        of: From the size of a difference to its design; a size without one raises ValueError.
        wanted: Power.
        level: Of the test, as coverage of its interval.

    Returns:
        To a tenth of a point, rounded up; None where not even the largest possible one shows.

    >>> detectable(19, lambda lost: Design(0.0, lost))
    0.272
    """

    def shown(thousandths: int) -> bool:
        try:
            return power(n, of(thousandths / 1000), level) >= wanted
        except ValueError:
            return False

    return next((x / 1000 for x in range(1, 1001) if shown(x)), None)
