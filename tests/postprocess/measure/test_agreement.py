"""Agreement and people's accuracy: known answers, scikit-learn, and invariance."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from postprocess.measure import agreement as module
from postprocess.measure import pragmatch as metrics
from postprocess.measure.agreement import agreement, ceiling, kappas, people
from tests import KNOWN_ANSWERS

KNOWN = json.loads((KNOWN_ANSWERS / "agreement.json").read_text(encoding="utf-8"))
LABELS = ("yes", "no", "unclear")


def votes_of(table) -> tuple[dict, dict, list[str]]:
    """Votes of two people with these counts, one picture an item."""
    labels = [f"label {i}" for i in range(len(table))]
    votes = {"ada": {}, "bob": {}}
    for i, row in enumerate(table):
        for j, count in enumerate(row):
            for _ in range(count):
                sample = f"s{len(votes['ada'])}"
                votes["ada"][sample], votes["bob"][sample] = labels[i], labels[j]
    return votes, {sample: sample for sample in votes["ada"]}, labels


@pytest.mark.parametrize("row", KNOWN, ids=[row["name"] for row in KNOWN])
def test_known_answers(row):
    if row["function"] == "ceiling":
        assert ceiling(*row["input"]) == pytest.approx(row["expected"], abs=1e-6), row["why"]
        return
    (pair,) = agreement(*votes_of(row["input"]))
    assert pair.kappa.value == pytest.approx(row["expected"], abs=1e-9), row["why"]
    assert [list(counts) for counts in pair.counts] == row["input"]
    (many,) = kappas(np.array([row["input"]], dtype=float))
    expected = float("nan") if row["expected"] is None else row["expected"]
    assert many == pytest.approx(expected, abs=1e-9, nan_ok=True)


@st.composite
def two_annotators(draw):
    n = draw(st.integers(1, 30))
    label = st.sampled_from(LABELS)
    picture_of = {f"s{i}": f"p{draw(st.integers(0, 6))}" for i in range(n)}
    votes = {
        name: {s: draw(label) for s in picture_of if draw(st.integers(0, 4))}
        for name in ("ada", "bob", "cyd")
    }
    return votes, picture_of


@given(two_annotators())
@settings(max_examples=60, deadline=None)
def test_kappa_is_scikit_learns_on_the_common_items(data):
    votes, picture_of = data
    for pair in agreement(votes, picture_of, LABELS, draws=20):
        common = sorted(votes[pair.a].keys() & votes[pair.b].keys())
        left = [votes[pair.a][s] for s in common]
        right = [votes[pair.b][s] for s in common]
        assert pair.n == len(common) == sum(map(sum, pair.counts))
        if not common:
            assert pair.raw.value is pair.kappa.value is pair.ceiling is None
            continue
        same = sum(a == b for a, b in zip(left, right, strict=True)) / len(common)
        assert pair.raw.value == pytest.approx(same)
        if len({*left, *right}) == 1:
            assert pair.kappa.value is None
        else:
            expected = cohen_kappa_score(left, right)
            assert pair.kappa.value == pytest.approx(expected)
            assert pair.kappa.value <= pair.ceiling + 1e-9
        for one in (pair.raw, pair.kappa):
            if one.low is not None:
                assert one.low <= one.high


@given(two_annotators(), st.randoms())
@settings(max_examples=30, deadline=None)
def test_the_order_of_votes_changes_nothing(data, random):
    votes, picture_of = data
    mixed = {}
    for name in random.sample(sorted(votes), len(votes)):
        mixed[name] = dict(random.sample(sorted(votes[name].items()), len(votes[name])))
    plain = agreement(votes, picture_of, LABELS, draws=20)
    assert agreement(mixed, picture_of, LABELS, draws=20) == plain


@pytest.mark.parametrize("labels", [2, 3])
def test_no_confusion_table_beats_the_ceiling_and_one_reaches_it(labels):
    n = 8 if labels == 2 else 6
    best: dict[int, float] = {}
    cells = labels * labels
    for cuts in itertools.combinations(range(n + cells - 1), cells - 1):
        edges = (-1, *cuts, n + cells - 1)
        flat = [b - a - 1 for a, b in itertools.pairwise(edges)]
        table = np.array(flat, dtype=float).reshape(labels, labels)
        (kappa,) = kappas(table[None])
        if np.isfinite(kappa):
            same = int(np.trace(table))
            best[same] = max(best.get(same, -1.0), float(kappa))
    for same, highest in best.items():
        assert highest <= ceiling(same / n, labels) + 1e-12
    # Disagreement on an even number of items can be laid out as the bound asks for.
    even = n - 2
    assert best[even] == pytest.approx(ceiling(even / n, labels))


def test_the_interval_of_kappa_covers_what_it_claims():
    rng = np.random.default_rng(7)
    joint = np.array([[0.42, 0.06, 0.02], [0.05, 0.30, 0.03], [0.02, 0.04, 0.06]])
    (truth,) = kappas(joint[None])
    covered, rounds = 0, 200
    for _ in range(rounds):
        cells = rng.choice(9, size=150, p=joint.ravel())
        votes = {"a": {}, "b": {}}
        for i, cell in enumerate(cells):
            votes["a"][f"s{i}"], votes["b"][f"s{i}"] = LABELS[cell // 3], LABELS[cell % 3]
        picture_of = {f"s{i}": f"p{i}" for i in range(150)}
        (pair,) = agreement(votes, picture_of, LABELS, draws=300)
        covered += pair.kappa.low <= truth <= pair.kappa.high
    assert 0.90 <= covered / rounds <= 0.99


def rows_for(pictures: int) -> list[dict]:
    rows = []
    for i in range(pictures):
        for condition in "PML":
            rows.append(
                {
                    "sample_id": f"{i}-{condition}",
                    "image_id": str(i),
                    "condition": condition,
                    "cue": None,
                    "edit": None,
                    "label": int(condition == "P"),
                }
            )
    masked = {**rows[0], "sample_id": "0-mask", "cue": "style", "edit": "mask"}
    return [*rows, masked]


def test_people_are_scored_as_models_are():
    # 0: all right; 1: M wrong; 2: M unclear; 3: M without a vote.
    ada = {"0-P": "yes", "0-M": "no", "0-L": "no", "1-P": "yes", "1-M": "yes", "1-L": "no"}
    ada |= {"2-P": "yes", "2-M": "unclear", "2-L": "no", "3-P": "yes", "3-L": "yes"}
    ada["0-mask"] = "no"
    (one,) = people({"ada": ada}, rows_for(5))
    got = {name: estimate.value for name, estimate in one.estimates.items()}
    assert (one.n_pairs, one.n_left_out) == (3, 1)
    assert got["accuracy"] == pytest.approx(4 / 6)
    assert got["acc_p"] == 1
    assert got["acc_m"] == pytest.approx(1 / 3)
    assert got["acc_l"] == pytest.approx(3 / 4)
    assert got["pair_acc"] == got["group_acc"] == pytest.approx(1 / 3)
    low, high = one.estimates["pair_acc"][1:3]
    assert 0 < low < 1 / 3 < high < 1


def test_the_mean_is_over_pictures_that_everybody_completed():
    ada = {"0-P": "yes", "0-M": "no", "0-L": "no", "1-P": "yes", "1-M": "yes", "2-P": "yes"}
    ada["2-M"] = "no"
    bob = {"0-P": "no", "0-M": "no", "0-L": "no", "1-P": "yes", "1-M": "no"}
    *_, mean = people({"bob": bob, "ada": ada}, rows_for(3))
    got = {name: estimate.value for name, estimate in mean.estimates.items()}
    assert mean.annotator == "mean of 2"
    assert (mean.n_pairs, mean.n_left_out) == (2, 1)
    assert got["pair_acc"] == pytest.approx((0.5 + 0.5) / 2)
    assert got["accuracy"] == pytest.approx((1.5 + 1.5) / 4)
    assert got["group_acc"] == pytest.approx(0.5)


@given(two_annotators())
@settings(max_examples=30, deadline=None)
def test_pair_accuracy_is_the_metric_of_the_tables(data):
    votes, _ = data
    rows = rows_for(7)
    ids = [row["sample_id"] for row in rows]
    mine = {
        name: {ids[int(s[1:]) % len(ids)]: label for s, label in own.items()}
        for name, own in votes.items()
    }
    for one in people(mine, rows, draws=20)[: len(mine)]:
        answers = module._answers(mine[one.annotator], [r for r in rows if r["edit"] is None])
        pair = one.estimates.get("pair_acc")
        assert (pair and pair.value) == metrics.figure("pair_acc", answers, metrics.PM)
        accuracy = one.estimates.get("accuracy")
        assert (accuracy and accuracy.value) == metrics.figure("accuracy", answers, metrics.PM)


def test_unknown_labels_and_samples_are_named():
    with pytest.raises(ValueError, match="'maybe'"):
        agreement({"ada": {"1": "maybe"}}, {"1": "x"}, LABELS)
    with pytest.raises(ValueError, match="'9'"):
        agreement({"ada": {"9": "yes"}}, {"1": "x"}, LABELS)
    with pytest.raises(ValueError, match="'accept'"):
        people({"ada": {"0-P": "accept"}}, rows_for(1))
