"""One p a difference, over pictures, on the same side of zero as its interval."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, permutation_test
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

from postprocess.measure import intervals, significance
from tests import KNOWN_ANSWERS

KNOWN = json.loads((KNOWN_ANSWERS / "significance.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", KNOWN, ids=[row["name"] for row in KNOWN])
def test_known_answers(row):
    got = getattr(significance, row["function"])(*row["input"])
    got = getattr(got, row["field"]) if "field" in row else got
    tolerance = row.get("tolerance", 1e-12)
    if isinstance(row["expected"], list):
        for one, expected in zip(got, row["expected"], strict=True):
            assert one == (expected if expected is None else pytest.approx(expected, abs=tolerance))
    else:
        assert got == pytest.approx(row["expected"], abs=tolerance), row["why"]


@pytest.mark.parametrize(("a", "b"), [(4, 0), (7, 1), (5, 5), (12, 30), (1, 0)])
def test_mcnemar_equals_statsmodels(a, b):
    table = [[3, a], [b, 4]]
    assert significance.mcnemar(a, b) == pytest.approx(statsmodels_mcnemar(table).pvalue)
    score = statsmodels_mcnemar(table, exact=False, correction=False).pvalue
    assert significance.paired(a, b, a + b + 7).p_value == pytest.approx(score)
    d = [1] * a + [-1] * b + [0] * 7
    assert significance.of_differences(d).p_value == pytest.approx(score)
    assert significance.of_differences(d).exact == pytest.approx(significance.mcnemar(a, b))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.0, 0.5, 1.0]), min_size=1, max_size=60))
def test_interval_and_p_never_disagree_about_zero(d):
    found = intervals.mean_difference(d, step=0.5)
    test = significance.of_differences(d, step=0.5)
    if abs(test.p_value - 0.05) > 1e-6:
        assert (test.p_value < 0.05) == (found.low > 0 or found.high < 0)
    said = significance.disagreement(found, test)
    assert (said is None) == ((test.exact < 0.05) == (test.p_value < 0.05))


@pytest.mark.parametrize("seed", range(3))
def test_sign_flips_equal_scipys_permutations(seed):
    rng = np.random.default_rng(seed)
    for d in (rng.choice([-1, -0.5, 0.5, 1], 9), rng.normal(0.4, 1, 9)):
        expected = permutation_test(
            (d, np.zeros(9)),
            lambda x, y: (x - y).sum(),
            permutation_type="samples",
            n_resamples=999,
        ).pvalue
        assert significance.sign_flip(d) == (pytest.approx(expected), False)


def test_the_exact_count_and_the_draws_agree_on_many_pictures():
    d = np.random.default_rng(1).normal(0.25, 1, 60)
    p, bound = significance.sign_flip(d)
    assert not bound
    rounded, _ = significance.sign_flip(np.round(d * 12) / 12)
    assert p == pytest.approx(rounded, abs=0.02)


def test_opposed_biases_are_told_apart_though_accuracies_are_near():
    # A always says Yes; B says No except on 50 of 1,000 sarcastic captions.
    test = significance.of_differences([-0.5] * 50 + [0.0] * 950, step=0.5)
    assert max(test.p_value, test.exact) < 1e-6
    assert test.differ == 50


def test_ten_copies_of_four_pictures_that_all_go_down_are_no_chance():
    test = significance.of_differences([-0.5] * 40 + [0.0] * 150, step=0.5)
    assert max(test.p_value, test.exact) < 1e-6


def test_swapping_equals_counting_all_swaps_by_hand():
    rng = np.random.default_rng(3)
    tp, fp = rng.integers(0, 2, 14) * 1.0, rng.integers(0, 2, 14) * 1.0
    n = 7

    def f1(w):
        return 2 * (w @ tp) / (w.sum(axis=1) + w @ tp + w @ fp)

    def gap(swapped):
        sides = [np.array([i + n * s for i, s in enumerate(x)]) for x in (swapped, 1 - swapped)]
        one, two = (2 * tp[x].sum() / (n + tp[x].sum() + fp[x].sum()) for x in sides)
        return one - two

    all_gaps = [abs(gap(np.array(s))) for s in itertools.product((0, 1), repeat=n)]
    expected = np.mean([g >= all_gaps[0] - 1e-12 for g in all_gaps])
    test = significance.swap(f1, n)
    assert (test.p_value, test.n, test.at_most) == (pytest.approx(expected), n, False)
    differing = np.flatnonzero((tp[:n] != tp[n:]) | (fp[:n] != fp[n:]))
    assert significance.swap(f1, n, differing).p_value == pytest.approx(expected)


def test_swaps_that_are_drawn_have_a_floor_and_say_so():
    score = np.concatenate([np.ones(200), np.zeros(200)])
    test = significance.swap(lambda w: w @ score / w.sum(axis=1), 200, draws=99)
    assert (test.p_value, test.at_most) == (0.01, True)
    again = significance.swap(lambda w: w @ score / w.sum(axis=1), 200, draws=99)
    assert test == again


def test_equal_answers_are_no_difference():
    assert significance.swap(lambda w: w.sum(axis=1), 3, []).p_value == 1.0
    assert significance.of_differences([0, 0, 0]).p_value == 1.0


def test_holm_equals_statsmodels():
    p = list(np.random.default_rng(0).random(9) ** 3)
    expected = multipletests(p, method="holm")[1]
    assert significance.holm(p) == pytest.approx(list(expected))


def test_the_score_test_keeps_its_level_at_every_discordance():
    # Summed over all outcomes: what differs is binomial, and so is its direction.
    for n in (12, 19, 50, 200):
        for share in (0.1, 0.3, 0.5, 0.9):
            size = sum(
                binom.pmf(d, n, share)
                * sum(
                    binom.pmf(k, d, 0.5)
                    for k in range(d + 1)
                    if significance.paired(k, d - k, n).p_value < 0.05
                )
                for d in range(n + 1)
                if binom.pmf(d, n, share) > 1e-8
            )
            assert size < 0.06, (n, share)
