"""Every figure has an interval, and it is the published one where there is one."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.metrics import roc_auc_score
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from postprocess.measure import intervals, limits, stats
from tests import KNOWN_ANSWERS
from tests.benchmarks.coverage_data import placements

KNOWN = json.loads((KNOWN_ANSWERS / "intervals.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", KNOWN, ids=[row["name"] for row in KNOWN])
def test_known_answers(row):
    got = getattr(intervals, row["function"])(*row["input"])[:3]
    assert got == pytest.approx(row["expected"], abs=row["tolerance"]), row["why"]


def tango_by_roots(gained, lost, n):
    """Tango's closed form for the likeliest nuisance rate, and a root finder."""

    def refused(delta):
        a, b = 2 * n, -gained - lost + (2 * n - gained + lost) * delta
        q = (np.sqrt(max(b * b + 8 * n * lost * delta * (1 - delta), 0)) - b) / (2 * a)
        variance = n * (2 * q + delta * (1 - delta))
        return (gained - lost - n * delta) ** 2 - norm.ppf(0.975) ** 2 * variance

    value, edge = (gained - lost) / n, 1 - 1e-9
    low = -1.0 if refused(-edge) <= 0 else brentq(refused, -edge, value)
    high = 1.0 if refused(edge) <= 0 else brentq(refused, value, edge)
    return low, high


@pytest.mark.parametrize(
    ("gained", "lost", "n"),
    [(1, 7, 21), (12, 2, 44), (4, 0, 19), (0, 4, 19), (3, 3, 12), (9, 3, 32), (30, 300, 1000)],
)
def test_tango_equals_the_closed_form(gained, lost, n):
    got = intervals.tango(gained, lost, n)
    assert got[1:3] == pytest.approx(tango_by_roots(gained, lost, n), abs=1e-7)


@pytest.mark.parametrize("n", [1, 2, 12, 1000])
def test_the_mean_of_yes_and_no_is_wilsons(n):
    for right in {0, 1, n // 3, n - 1, n}:
        got = intervals.mean([1] * right + [0] * (n - right))
        expected = proportion_confint(right, n, method="wilson")
        assert got[1:3] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("counts", [(3, 9, 7, 12), (0, 5, 5, 5), (6, 6, 0, 8), (1, 1, 0, 1)])
def test_newcombe_equals_statsmodels(counts):
    expected = confint_proportions_2indep(*counts, method="newcomb", compare="diff")
    assert intervals.newcombe(*counts)[1:3] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([(1, 1), (1, 0), (0, 1), (0, 0)]), min_size=1, max_size=25),
)
def test_no_figure_is_without_an_interval_around_it(pictures):
    p, m = np.array(pictures, dtype=float).T
    n = len(pictures)
    whole = intervals.mean(p * m)
    single = [
        whole,
        intervals.mean((p + m) / 2),
        intervals.f1(p, 1 - m, 1 - p),
        intervals.excess(p, m),
        intervals.over_pictures(lambda w: stats.ratio((w @ p) * (w @ m), w.sum(axis=1) ** 2), n),
        intervals.mean_difference((p - m) / 2, step=0.5),
        intervals.tango(int((p > m).sum()), int((m > p).sum()), n),
    ]
    for found in [*single, intervals.difference(single[2], single[0], None, None)]:
        assert found.low <= found.value + 1e-12
        assert found.value <= found.high + 1e-12
        assert found.high - found.low > 1.0 / (n + 10)


def test_captions_that_repeat_each_other_add_no_certainty():
    right = np.array([1.0, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1])
    once = intervals.ratio(right, np.ones(12))
    thrice = intervals.ratio(3 * right, np.full(12, 3))
    assert thrice[:3] == pytest.approx(once[:3], abs=1e-9)


def test_a_mean_and_a_ratio_over_equal_numbers_agree():
    halves = np.array([0.5, 1, 0, 0.5, 0.5, 1, 1, 1, 0.5, 0.5])
    assert intervals.ratio(2 * halves, np.full(10, 2))[:3] == pytest.approx(
        intervals.mean(halves)[:3], abs=1e-7
    )


def test_auroc_by_weights_equals_the_plain_count_and_delongs_variance():
    rng = np.random.default_rng(5)
    positive, negative = rng.normal(0.8, 1, 40).round(1), rng.normal(0, 1, 40).round(1)
    won = (positive[:, None] > negative) + (positive[:, None] == negative) / 2

    def auroc(w):
        return ((w @ won) * w).sum(axis=1) / w.sum(axis=1) ** 2

    found = intervals.over_pictures(auroc, 40, spread=intervals.auroc_spread)
    assert found.value == pytest.approx(roc_auc_score([1] * 40 + [0] * 40, [*positive, *negative]))
    value, gone = placements(positive, negative)
    assert found.value == pytest.approx(value)
    assert intervals.left_out(auroc, 40) == pytest.approx(gone)
    # DeLong's components, added by picture since both captions of one come together.
    both = won.mean(axis=1) + won.mean(axis=0) - 2 * value
    assert found.se**2 == pytest.approx(both.var(ddof=1) / 40, rel=0.05)


def test_a_perfect_ranking_of_few_pictures_is_not_certain():
    won = np.ones((19, 19))
    found = intervals.over_pictures(
        lambda w: ((w @ won) * w).sum(axis=1) / w.sum(axis=1) ** 2, 19, spread=limits.auroc_spread
    )
    assert (found.value, found.high) == (1.0, 1.0)
    assert 0.85 < found.low < 0.97


def test_the_paired_difference_of_figures_uses_that_they_move_together():
    rng = np.random.default_rng(2)
    a = (rng.random(200) < 0.7) * 1.0
    b = np.where(rng.random(200) < 0.9, a, 1 - a)
    sides = []
    for right in (a, b):
        value = lambda w, right=right: w @ right / w.sum(axis=1)  # noqa: E731
        sides.append((intervals.mean(right), intervals.left_out(value, 200)))
    (one, left_one), (two, left_two) = sides
    paired = intervals.difference(one, two, left_one, left_two)
    exact = intervals.mean_difference(a - b)
    assert paired[:3] == pytest.approx(exact[:3], abs=0.01)
    apart = intervals.difference(one, two, None, None)
    assert apart.high - apart.low > 2 * (paired.high - paired.low)


def test_more_pictures_than_jackknife_groups_give_the_same_spread():
    right = (np.arange(3500) % 7 < 3) * 1.0
    found = intervals.over_pictures(lambda w: w @ right / w.sum(axis=1), 3500)
    assert len(intervals.left_out(lambda w: w @ right / w.sum(axis=1), 3500)) == intervals.GROUPS
    assert found[:3] == pytest.approx(stats.wilson(int(right.sum()), 3500)[:3], abs=0.002)


def test_an_undefined_figure_has_no_interval_and_says_how_many_pictures():
    found = intervals.over_pictures(lambda w: np.full(len(w), np.nan), 4)
    assert (found.value, found.low, found.n) == (None, None, 4)
    assert intervals.mean([]) == stats.EMPTY
    assert intervals.f1([], [], []) == stats.EMPTY
    assert intervals.difference(found, intervals.mean([1, 0]), None, None).value is None


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ValueError, match="from 0 to 1"):
        intervals.mean([0, 2])
    with pytest.raises(ValueError, match="3 gained and 2 lost of 4"):
        intervals.tango(3, 2, 4)
