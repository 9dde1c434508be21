"""A small part of `tests.benchmarks.coverage`: intervals hold the truth, tests keep their level.

Where a line may cover more than 98% it says why: a figure near a bound, or two sides that hardly
differ, gives the truth no room outside any honest interval.
"""

import pytest

from tests.benchmarks import coverage

TIMES = 1500
NOISE = 3 * (0.95 * 0.05 / TIMES) ** 0.5
"""Three standard errors of a simulated coverage."""


def lines(figure, sizes, times=TIMES):
    return list(coverage.FIGURES[figure](sizes, times))


def test_wilson_covers_on_average_over_near_rates():
    for line in lines("rate, smoothed", (12, 19, 50, 100, 638)):
        assert line.coverage > 0.93, line
    worst = min(lines("rate", (12,)), key=lambda line: line.coverage)
    assert 0.91 < worst.coverage < 0.92  # at a rate of .25, exactly


@pytest.mark.parametrize("figure", ["pooled", "ranking", "no_means", "flips"])
def test_every_figure_covers_and_none_is_without_an_interval(figure):
    found = lines(figure, (12, 19, 100))
    assert {line.missing for line in found} == {0.0}
    for line in found:
        least = coverage.BAND_AT_12 if line.n == 12 else coverage.BAND[0]
        assert line.coverage > least - NOISE, line
        assert line.size is None or line.size < coverage.SIZE[1] + NOISE, line


def test_intervals_are_not_simply_wide():
    narrow = {
        (line.figure, line.scenario): line
        for line in lines("pooled", (100,)) + lines("flips", (100,))
    }
    for key in (
        ("accuracy", "Yes-biased .95 .3"),
        ("accuracy", "correlated .7 .7"),
        ("f1", "independent .7 .7"),
        ("flips, paired rates", "10% lost 2% gained"),
        ("flips, paired rates", "15% 15%"),
    ):
        assert narrow[key].coverage < coverage.BAND[1], key


def test_auroc_and_its_differences_cover():
    for line in lines("auroc", (19, 50), 1000) + lines("auroc_differences", (19,), 1000):
        assert line.missing == 0
        assert line.coverage > coverage.BAND[0] - 3 * (0.95 * 0.05 / 500) ** 0.5, line


def test_differences_of_two_models_keep_their_level(monkeypatch):
    monkeypatch.setattr(coverage, "SWAPPED_UP_TO", 0)
    for line in lines("differences", (19,)):
        assert line.missing == 0
        assert line.coverage > coverage.BAND[0] - NOISE, line
        assert line.size is None or line.size < coverage.SIZE[1] + NOISE, line
