"""The intervals cover what they claim, and the fast forms equal the plain ones."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.metrics import roc_auc_score, roc_curve
from statsmodels.stats.proportion import proportion_confint

from postprocess.measure import scores, stats
from tests import KNOWN_ANSWERS

KNOWN = json.loads((KNOWN_ANSWERS / "stats.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", KNOWN, ids=[row["name"] for row in KNOWN])
def test_known_answers(row):
    module = scores if row["function"] == "calibration" else stats
    got = getattr(module, row["function"])(*row["input"])
    for field in row.get("field", "").split("."):
        got = getattr(got, field) if field else got
    assert got == pytest.approx(row["expected"], abs=row.get("tolerance", 1e-12)), row["why"]


@pytest.mark.parametrize("n", [1, 2, 12, 1000, 1281])
def test_wilson_equals_statsmodels(n):
    for right in {0, 1, n // 3, n - 1, n}:
        for level in (0.8, 0.95):
            got = stats.wilson(right, n, level)
            low, high = proportion_confint(right, n, 1 - level, method="wilson")
            assert (got.low, got.high) == pytest.approx((low, high), abs=1e-12)
            assert got.low <= got.value <= got.high


def test_wilson_refuses_more_right_than_there_are():
    with pytest.raises(ValueError, match="3 right of 2"):
        stats.wilson(3, 2)


@pytest.mark.parametrize("p", [0.07, 0.25, 0.9])
def test_wilson_covers_at_a_thousand(p):
    right = np.random.default_rng(1).binomial(1000, p, 2000)
    covered = np.mean(
        [low <= p <= high for _, low, high, *_ in (stats.wilson(int(r), 1000) for r in right)]
    )
    assert 0.935 <= covered <= 0.965


def test_wilson_covers_at_twelve():
    # At n = 12 the coverage at one p jumps with p: simulation must agree with exact enumeration
    # there, and the average over p must be what is claimed.
    intervals = [stats.wilson(k, 12)[1:3] for k in range(13)]

    def exact(p):
        return sum(
            binom.pmf(k, 12, p) for k, (low, high) in enumerate(intervals) if low <= p <= high
        )

    rng = np.random.default_rng(12)
    for p in (0.07, 0.25, 0.9):
        drawn = rng.binomial(12, p, 2000)
        simulated = np.mean([intervals[k][0] <= p <= intervals[k][1] for k in drawn])
        assert simulated == pytest.approx(exact(p), abs=0.02)
        assert exact(p) > 0.91
    assert 0.935 <= np.mean([exact(p) for p in np.linspace(0.01, 0.99, 99)]) <= 0.965


@pytest.mark.parametrize("p", [0.07, 0.25, 0.9])
def test_the_bootstrap_of_a_rate_covers(p):
    runs = np.random.default_rng(7).random((1000, 2000)) < p
    means = stats.resampled_sums(runs) / 1000
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    assert 0.935 <= np.mean((low <= p) & (p <= high)) <= 0.965


def test_the_bootstrap_of_a_clustered_rate_covers():
    # Two captions a picture that are right or wrong together: an interval over captions would be
    # too narrow by the square root of two.
    p = 0.3
    runs = 2.0 * (np.random.default_rng(8).random((400, 2000)) < p)
    means = stats.resampled_sums(runs) / 800
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    assert 0.935 <= np.mean((low <= p) & (p <= high)) <= 0.965


def test_every_resample_draws_as_many_pictures_as_there_are():
    for block in stats.weights(17, 100, 2):
        assert (block.sum(axis=1) == 17).all()
    assert len({tuple(row) for row in block}) > 90


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    top, bottom = np.arange(30) % 3, np.full(30, 3)
    one, again = (stats.bootstrap_ratio(top, bottom, seed=1) for _ in range(2))
    other = stats.bootstrap_ratio(top, bottom, seed=2)
    assert one == again
    assert one != other


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(3, 6)), min_size=2, max_size=30))
@settings(max_examples=50, deadline=None)
def test_an_interval_holds_its_figure_and_stays_a_proportion(rows):
    top, bottom = zip(*rows, strict=True)
    value, low, high, n, *_ = stats.bootstrap_ratio(top, bottom, draws=200)
    assert n == len(rows)
    if low is not None:
        assert 0 <= low < high <= 1
    assert min(t / b for t, b in rows) <= value <= max(t / b for t, b in rows)


def test_one_picture_gives_a_figure_without_an_interval():
    assert stats.bootstrap_ratio([1], [2]) == (0.5, None, None, 1, "none", None)
    assert stats.bootstrap_ratio([], []) == stats.EMPTY


def test_the_standard_error_of_a_rate_and_of_its_resamples_agree():
    right = np.random.default_rng(5).random(400) < 0.3
    plain = stats.wilson(int(right.sum()), 400)
    resampled = stats.bootstrap_ratio(right, np.ones(400))
    assert plain.se == pytest.approx((plain.value * (1 - plain.value) / 400) ** 0.5)
    assert resampled.se == pytest.approx(plain.se, rel=0.1)


def test_calibration_equals_a_plain_loop():
    rng = np.random.default_rng(11)
    s, y = rng.normal(0, 3, 500), rng.integers(0, 2, 500)
    got = scores.calibration(s, y)
    total = 0.0
    for i in range(10):
        inside = [
            (1 / (1 + math.exp(-a)), b)
            for a, b in zip(s, y, strict=True)
            if i / 10 <= 1 / (1 + math.exp(-a)) < (i + 1) / 10
        ]
        assert got.bins[i].n == len(inside)
        if inside:
            stated = sum(p for p, _ in inside) / len(inside)
            seen = sum(b for _, b in inside) / len(inside)
            assert got.bins[i].predicted == pytest.approx(stated)
            assert got.bins[i].observed == pytest.approx(seen)
            total += len(inside) / 500 * abs(stated - seen)
    assert got.ece == pytest.approx(total)


def test_a_calibrated_score_has_little_error_and_a_shifted_one_much():
    rng = np.random.default_rng(13)
    p = rng.random(20_000)
    y = rng.random(20_000) < p
    s = np.log(p / (1 - p))
    assert scores.calibration(s, y).ece < 0.02
    assert scores.calibration(s + 3, y).ece > 0.2


def test_extreme_scores_do_not_overflow():
    with np.errstate(over="raise", invalid="raise"):
        assert scores.calibration([-1e6, 1e6, 0.0], [0, 1, 1]).n == 3


def _loop_cross_fit(s, y, where, pictures, folds, seed):
    fold = np.empty(pictures, dtype=int)
    fold[np.random.default_rng(seed).permutation(pictures)] = np.arange(pictures) % folds
    right = 0
    for k in range(folds):
        outside = [i for i in range(len(s)) if fold[where[i]] != k]
        values = sorted({s[i] for i in outside})
        edges = [-math.inf, *values, math.inf]
        best = None
        for low, high in itertools.pairwise(edges):
            if low <= 0 < high:
                cut = 0.0
            elif low == -math.inf:
                cut = high - 1
            elif high == math.inf:
                cut = low + 1
            else:
                cut = (low + high) / 2
            hits = sum((s[i] > cut) == (y[i] == 1) for i in outside)
            if best is None or (hits, -abs(cut)) > best[:2]:
                best = (hits, -abs(cut), cut)
        right += sum((s[i] > best[2]) == (y[i] == 1) for i in range(len(s)) if fold[where[i]] == k)
    return right / len(s)


@pytest.mark.parametrize("seed", range(6))
def test_cross_fit_equals_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    y = np.tile([1, 0], 20)
    where = np.repeat(np.arange(20), 2)
    s = (rng.normal(0, 1, 40) + y - 3).round(1)
    got = scores.cross_fit(s, y, where, 20, seed=seed)
    assert got.mean() == pytest.approx(_loop_cross_fit(s, y, where, 20, 5, seed))


def test_cross_fit_repairs_a_bias_but_invents_no_skill():
    rng = np.random.default_rng(2)
    y = np.tile([1, 0], 500)
    where = np.repeat(np.arange(500), 2)
    skilled = rng.normal(0, 1, 1000) + 2 * y - 10
    blind = rng.normal(0, 1, 1000) - 10
    assert scores.cross_fit(skilled, y, where, 500).mean() > 0.8
    assert scores.cross_fit(blind, y, where, 500).mean() < 0.56
    assert np.isnan(scores.cross_fit([1.0], [1], [0], 1)).all()


def test_the_roc_curve_equals_scikit_learn():
    rng = np.random.default_rng(6)
    s, y = rng.normal(size=100).round(1), rng.integers(0, 2, 100)
    got = scores.roc(s, y)
    fpr, tpr, _ = roc_curve(y, s, drop_intermediate=False)
    assert np.array(got) == pytest.approx(np.column_stack([fpr, tpr]))
    long = scores.roc(rng.normal(size=5000), rng.integers(0, 2, 5000))
    assert len(long) <= 200
    assert (long[0], long[-1]) == ((0.0, 0.0), (1.0, 1.0))
    assert scores.roc([1.0, 2.0], [1, 1]) == []


@pytest.mark.parametrize(
    ("values", "labels", "message"),
    [([math.nan], [1], "not finite"), ([1.0], [2], "neither 0 nor 1"), ([1.0, 2.0], [1], "labels")],
)
def test_bad_items_are_refused(values, labels, message):
    with pytest.raises(ValueError, match=message):
        scores.calibration(values, labels)


@pytest.mark.parametrize("block", [10, 4_000_000])
def test_auroc_under_weights_equals_scikit_learn(monkeypatch, block):
    monkeypatch.setattr(scores, "_BLOCK", block)
    rng = np.random.default_rng(3)
    p, m = rng.normal(size=(2, 20)).round(1)
    (weights,) = stats.weights(20, 50, 5)
    got = scores.auroc(p, m, weights)
    labels, items = np.repeat([1, 0], 20), np.concatenate([p, m])
    want = [roc_auc_score(labels, items, sample_weight=np.tile(w, 2)) for w in weights]
    assert got == pytest.approx(want, abs=1e-12)
    assert np.isnan(scores.auroc(p, m, np.zeros((1, 20)))).all()
    assert scores.auroc(np.zeros(4), np.zeros(4), np.ones((1, 4))) == [0.5]


def test_the_bootstrap_of_auroc_covers():
    # s of P ~ N(1, 1) and of M ~ N(0, 1): AUROC is Phi(1/sqrt 2).
    truth = 0.5 * (1 + math.erf(0.5))
    rng = np.random.default_rng(10)
    n, runs, covered = 150, 300, 0
    (weights,) = stats.weights(n, 400)
    for _ in range(runs):
        m, p = rng.normal(size=(2, n))
        low, high = stats.percentile(scores.auroc(p + 1, m, weights))
        covered += low <= truth <= high
    assert 0.92 <= covered / runs <= 0.98


def test_the_error_under_weights_is_that_of_the_repeated_items():
    rng = np.random.default_rng(1)
    s, y = rng.normal(size=30), rng.integers(0, 2, 30).astype(float)
    weights = rng.integers(0, 4, (5, 30)).astype(float)
    got = scores.expected_error(s, y, weights)
    for w, value in zip(weights.astype(int), got, strict=True):
        assert value == pytest.approx(scores.calibration(np.repeat(s, w), np.repeat(y, w)).ece)


def test_many_pictures_are_drawn_in_blocks(monkeypatch):
    monkeypatch.setattr(stats, "_BLOCK", 1000)
    blocks = list(stats.weights(100, 25, 3))
    assert [b.shape for b in blocks] == [(10, 100), (10, 100), (5, 100)]
