"""Who gets whose caption as M: folds, equal use, distance, and no string in two folds."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_eval_tasks.pragmatch.make.caption_only import caption_key
from lmms_eval_tasks.pragmatch.make.donors import (
    Donor,
    DonorError,
    LeakError,
    Target,
    check_leaks,
    choose,
    find_leaks,
    is_fluent,
    plan_folds,
    similarities,
    usable,
)
from tests.lmms_eval_tasks.fake_mmsd import embed

captions = st.lists(st.sampled_from(list("abcdefghijkl")), min_size=1, max_size=2)
sets = st.dictionaries(st.integers(0, 99).map(str), captions, min_size=2, max_size=30)


@given(sets, st.integers(2, 4), st.integers(0, 5))
@settings(deadline=None)
def test_pictures_that_share_a_string_share_a_fold(strings, n_folds, seed):
    try:
        folds = plan_folds(strings, n_folds, seed)
    except ValueError:
        return
    assert set(folds) == set(strings)
    assert set(folds.values()) == set(range(n_folds))
    where = {}
    for image_id, found in strings.items():
        for caption in found:
            assert where.setdefault(caption, folds[image_id]) == folds[image_id]
    backwards = dict(reversed(strings.items()))
    assert plan_folds(backwards, n_folds, seed) == folds, "order changes nothing"


def test_folds_without_shared_strings_are_of_one_size():
    folds = plan_folds({str(i): [f"caption {i}"] for i in range(103)}, 5, 7)
    sizes = Counter(folds.values())
    assert max(sizes.values()) - min(sizes.values()) <= 1
    assert folds != plan_folds({str(i): [f"caption {i}"] for i in range(103)}, 5, 8)


def world(n_targets, n_donors, n_folds):
    targets = [Target(f"t{i:02}", (f"thing{i}",), i % n_folds) for i in range(n_targets)]
    donors = [Donor(f"d{j:02}", f"other{j} stuff{j}") for j in range(n_donors)]
    return targets, donors


@given(st.integers(2, 24), st.integers(1, 30), st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_donors_serve_equally_and_one_fold_each(n_targets, n_donors, n_folds, seed):
    n_folds = min(n_folds, n_targets, n_donors)
    targets, donors = world(n_targets, n_donors, n_folds)
    chosen = choose(targets, donors, embed, seed)
    assert chosen.left_out == []
    assert set(chosen.by_picture) == {target.image_id for target in targets}
    fold = {target.image_id: target.fold for target in targets}
    served = {}
    for image_id, choice in chosen.by_picture.items():
        served.setdefault(choice.donor_id, set()).add(fold[image_id])
    assert all(len(found) == 1 for found in served.values())
    for number in range(n_folds):
        uses = [n for d, n in chosen.uses.items() if served[d] == {number}]
        size = sum(target.fold == number for target in targets)
        assert sum(uses) == size
        assert max(uses) - min(uses) <= 1
    again = choose(list(reversed(targets)), list(reversed(donors)), embed, seed)
    assert again == chosen


def test_what_fits_is_never_chosen():
    targets, donors = world(6, 6, 1)
    donors = [Donor(d.donor_id, f"thing{i} seen again") for i, d in enumerate(donors)]
    for seed in range(5):
        chosen = choose(targets, donors, embed, seed, 0.3)
        for image_id, choice in chosen.by_picture.items():
            assert f"thing{int(image_id[1:])} " not in choice.caption
            assert choice.similarity <= 0.3


def test_the_choice_is_not_the_least_similar_one():
    targets, donors = world(1, 20, 1)
    seen = {choose(targets, donors, embed, seed).by_picture["t00"].donor_id for seed in range(40)}
    assert len(seen) > 8


def test_a_picture_that_every_donor_fits_is_left_out():
    targets = [Target("t0", ("red dog",), 0), Target("t1", ("blue cat",), 0)]
    donors = [Donor("d0", "red dog runs"), Donor("d1", "red dog sits")]
    chosen = choose(targets, donors, embed, 0, 0.3)
    assert chosen.left_out == ["t0"]
    assert set(chosen.by_picture) == {"t1"}


def test_too_few_donors_say_what_to_do():
    targets, donors = world(9, 2, 3)
    with pytest.raises(DonorError, match="--l-captions"):
        choose(targets, donors, embed, 0)


def test_similarities_agree_with_one_pair_at_a_time():
    targets, donors = world(3, 4, 1)
    targets[0] = Target("t00", ("thing0", "other2", " "), 0)
    found = similarities(targets, donors, embed)
    for i, target in enumerate(targets):
        for j, donor in enumerate(donors):
            one = max(
                float(np.dot(embed(text), embed(donor.caption)))
                for text in target.texts
                if text.strip()
            )
            assert found[i, j] == pytest.approx(one, abs=1e-6)


@pytest.mark.parametrize(
    ("caption", "fluent"),
    [
        ("A brown dog sleeps on a couch.", True),
        ("two people riding horses on the beach", True),
        ("A dog.", False),
        ("it is what it is and so on", False),
        ("a dog a dog a dog a dog a dog a dog", False),
        ("I'm sorry, I cannot describe this picture well.", False),
        ("A man standing next to a", False),
        ("A BOY DOING A TRICK WITH HIS SKATEBOARD", False),
        ("lol a brown dog sleeps on a couch", False),
        ("breaking news : a brown dog sleeps on a couch", False),
        ("собака спит на диване у окна", False),
        (" ".join(f"word{i}" for i in range(41)), False),
    ],
)
def test_fluent_captions(caption, fluent):
    assert is_fluent(caption) == fluent


def test_a_string_is_offered_once_and_never_the_sets_own():
    donors = [
        Donor("b", "A Dog on a couch"),
        Donor("a", "a dog  on a couch"),
        Donor("c", "own text"),
    ]
    found = usable(donors, ["OWN text"], lambda caption: True)
    assert found == [Donor("a", "a dog  on a couch")]


def row(sample_id, caption, fold):
    return {"sample_id": sample_id, "caption": caption, "fold": fold}


@given(st.lists(st.tuples(st.sampled_from(["a", "A ", "b", "c"]), st.integers(0, 2)), max_size=8))
@settings(deadline=None)
def test_leaks_are_found_exactly(pairs):
    rows = [row(f"s{i}", caption, fold) for i, (caption, fold) in enumerate(pairs)]
    naive = any(caption_key(a) == caption_key(b) and f != g for a, f in pairs for b, g in pairs)
    assert bool(find_leaks(rows)) == naive
    if naive:
        with pytest.raises(LeakError):
            check_leaks(rows)
    else:
        check_leaks(rows)


def test_a_leak_names_its_samples():
    rows = [row("1-M", "A dog.", 0), row("2-L", "a DOG.", 1), row("3-L", "a cat", 1)]
    with pytest.raises(LeakError, match=r"1 caption strings .* 'a dog\.' in 1-M, 2-L"):
        check_leaks(rows)
