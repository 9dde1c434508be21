"""Figures with intervals equal the metrics without them; differences are paired."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from postprocess.measure import intervals, scores, stats
from postprocess.measure import pragmatch as metrics
from postprocess.measure.estimate import Sampling, differences, estimates
from postprocess.measure.groups import Answer, complete

CONDITION = {
    "P": ("P", None),
    "M": ("M", None),
    "L": ("L", None),
    "P-": ("P", "mask"),
    "M+": ("M", "inject"),
}


def answer(number, slot, verdict=1, s=None, status=None):
    condition, edit = CONDITION[slot]
    label = int(condition == "P")
    return Answer(
        image_id=str(number),
        sample_id=f"{number}-{slot}",
        condition=condition,
        cue="ocr" if edit else None,
        edit=edit,
        label=label,
        verdict=verdict,
        correct=int(verdict == label),
        s=s,
        status=status or ("ok" if verdict is not None else "unusable"),
        n_omitted=0,
    )


def table(answers, slots):
    return estimates(metrics.METRICS.values(), metrics.frame(answers, slots), Sampling())


def compared(a, b, slots):
    """Differences over the pictures that are complete in both."""
    common = complete(a, slots).groups.keys() & complete(b, slots).groups.keys()
    frames = [metrics.frame([x for x in one if x.image_id in common], slots) for one in (a, b)]
    return differences(metrics.METRICS.values(), *frames, Sampling())


@st.composite
def a_family_and_answers(draw):
    family = draw(st.sampled_from(metrics.FAMILIES))
    answers = []
    for number in range(draw(st.integers(0, 8))):
        for slot in metrics.slots_for(family):
            if draw(st.integers(0, 9)) == 0:
                continue
            verdict = draw(st.sampled_from([0, 1, 1, 0, None]))
            s = draw(st.sampled_from([None, -1.0, 0.0, 0.5, 2.0]))
            answers.append(answer(number, slot, verdict, s))
    return family, draw(st.permutations(answers))


@given(a_family_and_answers())
@settings(max_examples=100, deadline=None)
def test_every_interval_is_of_the_figure_itself(case):
    family, answers = case
    slots = metrics.slots_for(family)
    found = table(answers, slots)
    for name in metrics.metrics_for(family):
        want = metrics.figure(name, answers, slots)
        got = found.get(name, stats.EMPTY)
        assert got.value == (None if want is None else pytest.approx(want)), name
        if got.low is not None:
            assert got.low - 1e-9 <= got.high + 1e-9


@given(a_family_and_answers())
@settings(max_examples=25, deadline=None)
def test_order_changes_no_interval(case):
    family, answers = case
    slots = metrics.slots_for(family)
    one = table(answers, slots)
    assert one == table(sorted(answers, key=lambda a: a.sample_id), slots)


def pairs(rights, slots=("P", "M")):
    """Answers from rows of 1 and 0: which slots of each picture are right."""
    return [
        answer(n, slot, int((slot[0] == "P") == bool(right)))
        for n, row in enumerate(rights)
        for slot, right in zip(slots, row, strict=True)
    ]


def test_plain_rates_have_wilsons_interval_and_the_others_a_score_interval():
    rights = [(1, 0), (1, 1), (0, 1), (1, 0), (1, 1), (0, 0)]
    got = table(pairs(rights), metrics.PM)
    assert got["pair_acc"] == stats.wilson(2, 6)
    assert got["acc_p"] == stats.wilson(4, 6)
    assert got["accuracy"].method == got["f1"].method == "score"
    assert got["accuracy"].n == 6
    tp = [row[0] for row in rights]
    fp, fn = [1 - row[1] for row in rights], [1 - row[0] for row in rights]
    assert got["f1"] == intervals.f1(tp, fp, fn)


@pytest.mark.parametrize("right", [(1, 1), (0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("n", [1, 2, 19])
def test_no_figure_is_without_an_interval_however_much_pictures_agree(right, n):
    answers = [
        answer(i, slot, told, float(told == (slot == "P")))
        for i in range(n)
        for slot, told in zip("PM", right, strict=True)
    ]
    for name, one in table(answers, metrics.PM).items():
        # A threshold needs other pictures to be chosen on.
        if metrics.METRICS[name].kind != "count" and (n, name) != (1, "threshold_accuracy"):
            assert one.low <= one.value <= one.high, name
            assert one.high > one.low, name


def test_independence_is_the_product_and_excess_what_pairs_add():
    rights = [(1, 1)] * 3 + [(0, 0)] * 3
    got = table(pairs(rights), metrics.PM)
    assert got["independence"].value == pytest.approx(0.25)
    assert got["pair_excess"].value == pytest.approx(0.25)
    always_no = table(pairs([(0, 1)] * 20), metrics.PM)
    assert always_no["independence"].value == 0
    assert always_no["pair_excess"].value == 0


def test_figures_of_scores_are_those_of_the_scored_items():
    rng = np.random.default_rng(0)
    values = {(n, slot): float(rng.normal()) for n in range(30) for slot in "PM"}
    answers = [answer(n, slot, int(s > 0), s) for (n, slot), s in values.items()]
    got = table(answers, metrics.PM)
    s, labels, where = metrics.scored_items(metrics.frame(answers, metrics.PM))
    assert got["n_scored"].value == 30
    assert got["auroc"].value == pytest.approx(roc_auc_score(labels, s))
    again = intervals.over_pictures(
        lambda w: np.array([roc_auc_score(labels, s, sample_weight=one[where]) for one in w]),
        30,
        spread=intervals.auroc_spread,
    )
    assert got["auroc"][:4] == pytest.approx(again[:4])
    assert got["ece"].value == pytest.approx(scores.calibration(s, labels).ece)
    right = scores.cross_fit(s, labels, where, 30)
    assert got["threshold_accuracy"].value == pytest.approx(right.mean())
    assert got["threshold_accuracy"].n == 30


def test_no_score_gives_no_figure_that_needs_one():
    got = table(pairs([(1, 1), (0, 1)]), metrics.PM)
    assert got["n_scored"].value == 0
    for name in ("auroc", "pair_ranking", "ece", "threshold_accuracy"):
        assert got[name].value is None


def test_a_model_does_not_differ_from_itself():
    answers = pairs([(1, 0), (1, 1), (0, 1), (0, 0)])
    for one in compared(answers, answers, metrics.PM):
        assert one.estimate.value == pytest.approx(0)
        assert one.estimate.low < 0 < one.estimate.high
        assert one.test.p_value == 1.0


def test_differences_are_paired_over_the_pictures_that_both_have():
    a = pairs([(1, 1)] * 10 + [(0, 0)])
    b = pairs([(1, 0)] * 8 + [(1, 1)] * 2)
    found = {one.metric: one for one in compared(a, b, metrics.PM)}
    pair = found["pair_acc"]
    assert (pair.a, pair.b) == (1.0, 0.2)
    assert pair.estimate.n == 10
    assert (pair.only_a, pair.only_b) == (8, 0)
    assert pair.test.exact == pytest.approx(2 * 0.5**8)
    # P is right in both everywhere, so a picture speaks for whoever has its M right.
    assert (found["accuracy"].only_a, found["accuracy"].only_b) == (8, 0)
    assert found["accuracy"].estimate.value == pytest.approx(0.4)
    assert found["acc_p"].test.p_value == 1.0
    assert pair.estimate.low < 0.8 < pair.estimate.high


def test_the_interval_of_a_difference_covers():
    rng = np.random.default_rng(5)
    n, runs, covered = 200, 200, 0
    for _ in range(runs):
        # A is right where B is, and on a tenth of the pictures more: strongly dependent.
        b = rng.random(n) < 0.3
        a = b | (rng.random(n) < 0.1)
        left = [answer(i, "P", int(right)) for i, right in enumerate(a)]
        right = [answer(i, "P", int(x)) for i, x in enumerate(b)]
        found = compared(left, right, ("P",))
        (one,) = [x for x in found if x.metric == "acc_p"]
        covered += one.estimate.low <= 0.07 <= one.estimate.high
    assert 0.91 <= covered / runs <= 0.99


def test_auroc_differences_use_pictures_scored_by_both():
    a = [answer(n, slot, 1, s) for n in range(4) for slot, s in (("P", 1.0 + n), ("M", 0.0))]
    b = [
        answer(n, slot, 1, s if n else None) for n in range(4) for slot, s in (("P", 0.0), ("M", n))
    ]
    (got,) = [x for x in compared(a, b, metrics.PM) if x.metric == "auroc"]
    assert (got.a, got.b) == (1.0, 0.0)
    assert got.estimate.n == 3
    assert compared(a, [], metrics.PM) == []


def test_a_score_that_one_side_lacks_is_not_compared():
    with_scores = [answer(n, slot, 1, 0.5) for n in range(3) for slot in "PM"]
    without = [answer(n, slot, 1) for n in range(3) for slot in "PM"]
    for a, b in ((with_scores, without), (without, with_scores)):
        found = {one.metric for one in compared(a, b, metrics.PM)}
        assert "pair_acc" in found
        assert not {"auroc", "pair_ranking"} & found


def test_the_clean_twin_of_an_edit_counts_only_where_the_edit_is():
    answers = [answer(0, "P", 1), answer(0, "P-", 0), answer(1, "P", 0)]
    got = table(answers, metrics.P_P_MINUS)
    assert got["acc_p"] == stats.wilson(1, 1)
    assert got["n_left_out"].value == 1


def test_a_vote_that_was_never_cast_is_in_no_figure():
    cast = pairs([(1, 1), (1, 0)])
    absent = answer(2, "P", None, status="left_out"), answer(2, "M", 0)
    got = table([*cast, *absent], metrics.PM)
    assert got["acc_p"] == stats.wilson(2, 2)
    assert (got["n_pairs"].value, got["n_left_out"].value) == (2, 1)
    assert got["yes_rate"].value == pytest.approx(3 / 5)
