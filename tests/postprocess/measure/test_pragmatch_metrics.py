import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from postprocess.measure import pragmatch as metrics
from postprocess.measure.groups import Answer, SlotConflictError, complete
from postprocess.measure.pragmatch import (
    FAMILIES,
    PM,
    figure,
    metrics_for,
    slots_for,
    without_unreadable,
)
from tests import KNOWN_ANSWERS
from tests.postprocess.pragmatch_answers import answer, answers_from, runs

FOLDER = KNOWN_ANSWERS
METRICS = {name: metrics.METRICS[name] for family in FAMILIES for name in metrics_for(family)}
ROWS = [
    pytest.param(name, row, id=f"{name}-{row['name']}")
    for name in METRICS
    for row in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
]
TWO_CLASSES = ("pm", "pml", "p_minus_m_plus")
families = st.sampled_from(FAMILIES)


def scores_of(answers, family):
    return {name: figure(name, answers, slots_for(family)) for name in METRICS}


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_known_answers(name, row):
    answers = answers_from(row["answers"], row["n_omitted"])
    value = figure(name, answers, slots_for(row["family"]))
    if row["expected"] is None:
        assert value is None, row["why"]
    else:
        assert value == pytest.approx(row["expected"], abs=1e-12), row["why"]


# --- an independent reference: one array a slot, NaN where nothing stands -----------------------


def reference(answers, family):
    """The metrics of a family in NumPy and scikit-learn, from a table of pictures and slots."""
    slots = slots_for(family)
    pictures = sorted({a.image_id for a in answers})
    place = {(a.image_id, a.slot): a for a in answers}
    there = np.array([[(p, c) in place for c in slots] for p in pictures]).reshape(-1, len(slots))
    verdict = np.full(there.shape, np.nan)
    score = np.full(there.shape, np.nan)
    for (row, column), found in np.ndenumerate(there):
        if found:
            a = place[pictures[row], slots[column]]
            verdict[row, column] = np.nan if a.verdict is None else a.verdict
            score[row, column] = np.nan if a.s is None else a.s
    label = np.array([c in ("P", "P-") for c in slots], dtype=float)
    right = verdict == label
    whole = there.all(axis=1)
    n_omitted = max([a.n_omitted for a in answers], default=0)
    out = {
        "n_pairs": int(whole.sum()),
        "n_left_out": int((there.any(axis=1) & ~whole).sum()) + n_omitted,
        "yes_rate": (verdict[there] == 1).mean() if there.any() else None,
        "unusable_rate": np.isnan(verdict[there]).mean() if there.any() else None,
        "failed_rate": 0.0 if there.any() else None,
    }
    edited = family in ("p_minus", "m_plus")
    for name, slot in zip(
        ("acc_p", "acc_m", "acc_l", "acc_p_minus", "acc_m_plus"),
        ("P", "M", "L", "P-", "M+"),
        strict=True,
    ):
        out[name] = None
        if slot in slots:
            column = slots.index(slot)
            rows = whole if edited else there[:, column]
            out[name] = right[rows, column].mean() if rows.any() else None
    balanced = [i for i, c in enumerate(slots) if c != "L" or len(slots) == 1]
    truth = np.tile(label[balanced], (whole.sum(), 1)).ravel()
    # Unreadable is wrong: it counts as the other label.
    said = np.where(np.isnan(verdict), 1 - label, verdict)[whole][:, balanced].ravel()
    out["accuracy"] = accuracy_score(truth, said) if truth.size else None
    out["f1"] = out["auroc"] = out["pair_ranking"] = None
    out["n_scored"] = 0
    if family in TWO_CLASSES:
        if truth.size:
            out["f1"] = f1_score(truth, said, zero_division=0.0)
        both = score[whole][:, balanced]
        both = both[~np.isnan(both).any(axis=1)]
        out["n_scored"] = len(both)
        if len(both):
            out["auroc"] = roc_auc_score(np.tile(label[balanced], len(both)), both.ravel())
            out["pair_ranking"] = np.mean((np.sign(both[:, 0] - both[:, 1]) + 1) / 2)
    for name, needed in (
        ("pair_acc", ("P", "M")),
        ("group_acc", ("P", "M", "L")),
        ("p_p_minus", ("P", "P-")),
        ("m_m_plus", ("M", "M+")),
        ("p_minus_m_plus", ("P-", "M+")),
    ):
        out[name] = None
        if set(needed) <= set(slots) and whole.any():
            columns = [slots.index(c) for c in needed]
            out[name] = right[whole][:, columns].all(axis=1).mean()
    out["flip_difference"] = None
    if edited and whole.any():
        out["flip_difference"] = right[whole, 1].mean() - right[whole, 0].mean()
    return out


@given(runs(), families)
@settings(max_examples=150, deadline=None)
def test_every_metric_equals_its_reference(answers, family):
    expected, found = reference(answers, family), scores_of(answers, family)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert found[name] is None, name
        else:
            assert found[name] == pytest.approx(value, abs=1e-12), name


def test_a_thousand_pictures_with_ties_equal_the_reference():
    draw = random.Random(5)
    answers = [
        answer(str(i), slot, draw.choice([1, 0, None]), round(draw.gauss(slot == "P", 1), 1))
        for i in range(1000)
        for slot in ("P", "M", "L")
        if draw.random() > 0.05
    ]
    for family in ("pm", "pml"):
        expected = reference(answers, family)
        for name, value in scores_of(answers, family).items():
            assert value == (None if expected[name] is None else pytest.approx(expected[name]))


# --- properties ---------------------------------------------------------------------------------


@given(runs(), families, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_order_changes_nothing(answers, family, draw):
    other = list(answers)
    draw.shuffle(other)
    assert scores_of(other, family) == scores_of(answers, family)


@given(runs(), families, st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_shards_put_together_equal_the_whole_to_the_last_digit(answers, family, world):
    shards = [answers[rank::world] for rank in range(world)]
    gathered = json.loads(json.dumps([a.to_list() for shard in shards for a in shard]))
    again = [Answer.from_list(values) for values in gathered]
    assert scores_of(again, family) == scores_of(answers, family)


@pytest.mark.parametrize("family", ["pm", "pml", "p_minus", "m_plus", "p_minus_m_plus"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_pairs_survive_an_odd_limit(family, data):
    slots = slots_for(family)
    whole = [
        answer(f"{i:02}", slot, data.draw(st.sampled_from([1, 0, None])), float(i))
        for i in range(6)
        for slot in slots
    ]
    limit = data.draw(st.integers(0, len(whole)))
    pictures, rest = divmod(limit, len(slots))
    found = scores_of(whole[:limit], family)
    assert found["n_pairs"] == pictures
    assert found["n_left_out"] == (rest > 0)
    without_rest = scores_of(whole[: pictures * len(slots)], family)
    for name in ("accuracy", "f1", "auroc", "pair_acc", "group_acc", "pair_ranking"):
        assert found[name] == without_rest[name]


@given(runs())
@settings(max_examples=60, deadline=None)
def test_f1_follows_from_the_two_accuracies_on_the_same_pairs(answers):
    both = [a for group in complete(answers, ("P", "M")).groups.values() for a in group.values()]
    if not both:
        return
    p, m = figure("acc_p", both, PM), figure("acc_m", both, PM)
    assert figure("f1", answers, PM) == pytest.approx(2 * p / (2 * p + (1 - m) + (1 - p)))
    assert figure("accuracy", answers, PM) == pytest.approx((p + m) / 2)


@given(runs(), families)
@settings(max_examples=60, deadline=None)
def test_rates_and_accuracies_stay_in_range(answers, family):
    for name, value in scores_of(answers, family).items():
        if value is None or name.startswith("n_"):
            continue
        assert (-1 if name == "flip_difference" else 0) <= value <= 1


# --- the paper's checks, chance, independence ---------------------------------------------------


@pytest.mark.parametrize(
    ("p", "m", "accuracy", "f1"), [(625, 859, 74.2, 70.8), (139, 993, None, 24.3)]
)
def test_definitions_give_the_papers_own_figures(p, m, accuracy, f1):
    answers = [answer(str(i), "P", int(i < p)) for i in range(1000)]
    answers += [answer(str(i), "M", int(i >= m)) for i in range(1000)]
    assert round(100 * figure("f1", answers, PM), 1) == f1
    if accuracy is not None:
        assert round(100 * figure("accuracy", answers, PM), 1) == accuracy


def test_an_always_no_model_is_at_half_accuracy_and_no_pair():
    answers = [answer(str(i), slot, 0, -1.0) for i in range(9) for slot in ("P", "M", "L")]
    found = scores_of(answers, "pml")
    assert (found["accuracy"], found["f1"], found["auroc"]) == (0.5, 0.0, 0.5)
    assert found["pair_acc"] == found["group_acc"] == 0.0
    assert figure("independence", answers, slots_for("pml")) == 0.0


def test_a_mismatch_spotter_is_caught_by_pairs_alone():
    answers = [
        answer(str(i), slot, int(slot != "L"), float(slot != "L"))
        for i in range(9)
        for slot in ("P", "M", "L")
    ]
    found = scores_of(answers, "pml")
    assert (found["acc_p"], found["acc_l"], found["acc_m"]) == (1.0, 1.0, 0.0)
    assert (found["pair_acc"], found["pair_ranking"]) == (0.0, 0.5)


def test_the_second_view_drops_what_was_not_read_and_counts_it():
    answers = answers_from(
        [["1", "P", 1], ["1", "M", 0], ["2", "P", None], ["2", "M", 0], ["3", "P", None, None]]
    )
    assert figure("accuracy", answers, PM) == 0.75
    view = without_unreadable(answers)
    assert figure("accuracy", view, PM) == 1.0
    assert figure("n_left_out", view, PM) == 1
    assert figure("unusable_rate", view, PM) == 0.0


@pytest.mark.parametrize("name", METRICS)
def test_chance_is_a_coin_for_each_caption_and_always_no_is_what_such_a_model_has(name):
    family = next(f for f in ("pml", *FAMILIES) if name in metrics_for(f))
    slots, draw = slots_for(family), random.Random(name)
    metric = METRICS[name]
    if metric.chance is not None:
        coins = [
            answer(str(i), slot, draw.randrange(2), draw.random())
            for i in range(4000)
            for slot in slots
        ]
        assert figure(name, coins, slots) == pytest.approx(metric.chance, abs=0.03)
    if metric.always_no is not None:
        no = [answer(str(i), slot, 0, -1.0) for i in range(9) for slot in slots]
        assert figure(name, no, slots) == metric.always_no


def test_independence_is_the_product_over_complete_pairs():
    answers = [answer(str(i), "P", int(i < 5)) for i in range(8)]
    answers += [answer(str(i), "M", int(i >= 6)) for i in range(8)]
    assert figure("independence", answers, PM) == pytest.approx(5 / 8 * 6 / 8)
    assert figure("independence", answers[:8], ("P",)) is None


# --- what a task of each family prints ----------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_begins_with_accuracy_and_prints_what_it_can_answer(family):
    names = metrics_for(family)
    assert names[0] == "accuracy"
    assert len(set(names)) == len(names)
    answers = [answer("1", slot, 1, 1.0) for slot in slots_for(family)]
    assert all(figure(name, answers, slots_for(family)) is not None for name in names)
    counts = {"n_pairs"} if len(slots_for(family)) == 1 else set()
    elsewhere = set(METRICS) - set(names) - counts - {"n_scored"}
    assert all(figure(name, answers, slots_for(family)) is None for name in elsewhere)


def test_unknown_families_are_refused_by_name():
    for call in (slots_for, metrics_for):
        with pytest.raises(ValueError, match="'pq'"):
            call("pq")


@pytest.mark.parametrize("name", sorted(METRICS))
def test_no_metric_scores_two_captions_for_one_slot(name):
    one = answer("7", "P", 1, 1.0)
    answers = [one, answer("7", "M", 0, 0.0), one._replace(sample_id="other")]
    if name in ("flip_difference", "group_acc", "p_p_minus", "m_m_plus", "p_minus_m_plus"):
        slots = {"flip_difference": ("P", "P-"), "group_acc": ("P", "M", "L")}.get(
            name, {"p_p_minus": ("P", "P-"), "m_m_plus": ("M", "M+")}.get(name, ("P-", "M+"))
        )
    elif name in ("acc_l", "acc_p_minus", "acc_m_plus"):
        slots = {"acc_l": ("L",), "acc_p_minus": ("P-",), "acc_m_plus": ("M+",)}[name]
    else:
        slots = ("P", "M")
    with pytest.raises(SlotConflictError, match="'other'"):
        figure(name, answers, slots)
