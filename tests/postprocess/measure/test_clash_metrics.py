import json
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from postprocess.measure import clash as clash_metrics
from postprocess.measure import clash_counts
from postprocess.measure.clash import METRICS, TASKS, ClashAnswer, answers_of, figure, frame
from postprocess.measure.groups import DuplicateSampleError, MixedDataError
from postprocess.measure.metric import value
from postprocess.read.matching import JUDGE_LABELS
from postprocess.record.clash import clash_record
from postprocess.response.line import resealed
from tests import KNOWN_ANSWERS

KNOWN = json.loads((KNOWN_ANSWERS / "clash_rates.json").read_text())
LABELS = ["IMAGE", "TEXT", "CONFLICT", "NONE", clash_metrics.UNREADABLE, None]
WORDS = ["kite", "balloon", "kite balloon", "conflict", "", "no idea", "kite conflict"]


def answer(sample_id, prediction, judges=None, rotation=None, **shown):
    shown = {
        "sample_id": sample_id,
        "image_id": sample_id,
        "form": "open",
        "caption_kind": "conflicting",
        "image_answer": "kite",
        "text_answer": "balloon",
        "rotation": rotation,
        **shown,
    }
    return ClashAnswer.of({**clash_record(shown, prediction), "judges": judges})


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: row["name"])
def test_rates_are_those_counted_by_hand(row):
    # The lines of the file are measurements, as if a wrapper of this process had written them.
    answers = answers_of(clash_record(x, resealed(x["prediction"])) for x in row["input"])
    found = {name: figure(name, answers) for name in row["expected"]}
    expected = {
        name: None if value is None else pytest.approx(float(Fraction(value)), abs=1e-12)
        for name, value in row["expected"].items()
    }
    assert found == expected


circular = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from(["(A)", "(B)", "(C)", "x"])),
    unique_by=lambda one: one[:2],
    max_size=24,
)
open_rows = st.lists(
    st.tuples(st.sampled_from(WORDS), st.sampled_from(LABELS), st.sampled_from(LABELS)),
    max_size=12,
)


def rotated(rows):
    orders = ["citd", "itdc", "tdci", "dcit"]
    return [
        answer(f"s{i}", words, rotation=r, form="mc", option_order=orders[r])
        for i, r, words in rows
    ]


def judged(rows):
    kinds = [("object", ["food"]), ("attribute", ["other", "colors"]), (None, [])]
    return [
        answer(f"s{i}", words, {"a": one, "b": other}, change_type=kind, categories=categories)
        for i, (words, one, other) in enumerate(rows)
        for kind, categories in [kinds[i % 3]]
    ]


def figures(answers):
    laid = frame(answers)
    return {name: value(metric, laid) for name, metric in METRICS.items()}


@settings(deadline=None)
@given(circular.map(rotated) | open_rows.map(judged), st.randoms(use_true_random=False))
def test_order_changes_no_figure(answers, rng):
    shuffled = list(answers)
    rng.shuffle(shuffled)
    assert figures(shuffled) == figures(answers)


@settings(deadline=None)
@given(circular.map(rotated) | open_rows.map(judged), st.integers(2, 3))
def test_two_ranks_give_the_figures_of_one(answers, world):
    ranks = [[json.dumps(a.to_list()) for a in answers[rank::world]] for rank in range(world)]
    gathered = answers_of(json.loads(text) for rank in ranks for text in rank)
    assert sorted(gathered, key=repr) == sorted(answers, key=repr)
    assert figures(gathered) == figures(answers)


@settings(deadline=None)
@given(circular)
def test_circular_agrees_with_a_plain_count(rows):
    found = clash_counts.circular(rotated(rows))
    samples = {i for i, _, _ in rows}
    complete = [s for s in samples if sum(i == s for i, _, _ in rows) == 4]
    letter_of_conflict = "ADCB"
    right = [
        s
        for s in complete
        if all(words == f"({letter_of_conflict[r]})" for i, r, words in rows if i == s)
    ]
    assert found == (len(right), len(complete), len(samples) - len(complete))


def test_an_odd_limit_leaves_the_cut_sample_out_of_circular():
    rows = [(i, r, "(A)") for i in range(3) for r in range(4)][:7]
    found = clash_counts.circular(rotated(rows))
    assert (found.n, found.left_out) == (1, 2 - 1)


def test_pictures_left_out_are_counted_once_and_not_as_cut_samples():
    rows = [answer(f"s{i}", "kite", n_omitted=3) for i in range(5)]
    assert figure("n_left_out", rows) == 3
    cut = [answer("s", "(A)", rotation=0, form="mc", option_order="citd", n_omitted=2)]
    assert figure("n_left_out", cut) == 2
    assert figure("n_sets_left_out", cut) == 1
    assert figure("n_left_out", []) == 0


def test_answers_over_different_data_are_not_counted_together():
    with pytest.raises(MixedDataError, match="0 by sample 'a', 2 by sample 'b'"):
        figure("n_left_out", [answer("a", "kite"), answer("b", "kite", n_omitted=2)])


def test_a_model_that_follows_the_content_has_no_letter_bias():
    orders = "ADCB"
    answers = rotated([(i, r, f"({orders[r]})") for i in range(5) for r in range(4)])
    assert clash_counts.letter_bias(answers).distance == 0
    always = rotated([(i, r, "(A)") for i in range(5) for r in range(4)])
    assert clash_counts.letter_bias(always).distance == 0.75


def test_a_sample_answered_twice_is_refused():
    twice = [answer("s1", "kite"), answer("s1", "kite")]
    with pytest.raises(DuplicateSampleError, match="'s1'"):
        answers_of(twice)
    with pytest.raises(DuplicateSampleError, match="rotation 2"):
        answers_of(rotated([(1, 2, "(A)")]) * 2)


@settings(deadline=None)
@given(open_rows)
def test_kappa_is_scikit_learns(rows):
    answers = judged(rows)
    labels = JUDGE_LABELS
    readable = [
        (labels[a.judges["a"]], "none" if a.outcome == "empty" else a.outcome)
        for a in answers
        if a.judges["a"] in labels
    ]
    if not rows:
        return
    found = clash_counts.judged(answers)["a"].kappa
    if len({x for pair in readable for x in pair}) < 2:
        assert found is None
    else:
        assert found == pytest.approx(cohen_kappa_score(*zip(*readable, strict=True)))


def test_unjudged_is_never_none():
    rows = [("kite", "IMAGE", None), ("kite", None, "NONE"), ("", "UNREADABLE", "NONE")]
    answers = judged(rows)
    one, other = clash_counts.judged(answers).values()
    assert (one.n, one.unjudged, one.unreadable) == (2, 1, 1)
    assert one.rates["none"] == (0, 2)
    assert one.rates["image"] == (1, 2)
    assert other.rates["none"] == (2, 2)
    some, every = clash_counts.judged_together(answers, ["a", "b"])
    assert (some.n, some.unjudged) == (1, 2)
    assert some.rates["none"] == (1, 1)
    assert every.rates["none"] == (0, 1)


def test_at_least_one_and_all_judges():
    rows = [("kite", "IMAGE", "IMAGE"), ("kite", "IMAGE", "TEXT"), ("kite", "TEXT", "TEXT")]
    some, every = clash_counts.judged_together(judged(rows))
    assert (some.rates["image"], every.rates["image"]) == ((2, 3), (1, 3))
    only, _ = clash_counts.judged_together(judged(rows), ["b"])
    assert only.rates["image"] == (1, 3)


def test_a_sample_in_two_categories_counts_in_both_or_not_at_all():
    answers = [
        answer("1", "conflict", change_type="object", categories=["food", "household"]),
        answer("2", "kite", change_type="object", categories=["food"]),
    ]
    both = clash_counts.by_category(answers)
    assert (both["food"], both["household"]) == ((1, 2), (1, 1))
    paper = clash_counts.by_category(answers, paper_compat=True)
    assert (paper["food"], paper["household"]) == ((0, 1), (0, 0))
    assert paper["household"].value is None


@settings(deadline=None)
@given(open_rows.map(judged))
def test_outcomes_add_up(answers):
    assert sum(rate.held for rate in clash_counts.outcome_rates(answers).values()) == len(answers)


@pytest.mark.parametrize("task", TASKS)
def test_the_first_metric_carries_the_record_and_names_survive_the_harness_table(task):
    names = clash_metrics.metrics_for(task)
    assert names[0] == "conflict"
    assert len(set(names)) == len(names)
    assert set(names) <= set(METRICS)


def test_nothing_counted_is_none_and_never_zero():
    counts = {"n_letter_prob", "n_sets", "n_sets_left_out", "n_left_out", "n_judged", "n_unjudged"}
    assert {n: x for n, x in figures([]).items() if n not in counts} == (
        dict.fromkeys(set(METRICS) - counts)
    )


def test_a_shuffle_of_a_thousand_answers_is_quick_and_equal():
    rng = random.Random(0)
    answers = judged([(rng.choice(WORDS), rng.choice(LABELS), None) for _ in range(1000)])
    shuffled = rng.sample(answers, len(answers))
    assert figures(answers) == figures(shuffled)
