"""Who is asked what, and in which order."""

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_eval_tasks.annotation.plan import (
    TASKS,
    Item,
    Unaskable,
    arrange,
    items_of,
    spacing,
    token,
)
from lmms_eval_tasks.dataset.folder import load_folder
from tests.lmms_eval_tasks.annotation_fixtures import caption_folder

SARCASM = TASKS["sarcasm"]


def items_for(counts: list[int]) -> list[Item]:
    return [
        Item(f"{i}-{j}", f"{i}", f"images/{i}.png", "hash", f"content {i} {j}", {})
        for i, count in enumerate(counts)
        for j in range(count)
    ]


def distances(order: list[Item]) -> list[int]:
    last, out = {}, []
    for place, item in enumerate(order):
        if item.image_id in last:
            out.append(place - last[item.image_id])
        last[item.image_id] = place
    return out


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_captions_of_one_picture_stand_as_far_apart_as_promised(counts, seed):
    items = items_for(counts)
    order = arrange(items, seed, "ada")
    assert sorted(order) == sorted(items)
    assert all(distance >= spacing(counts) for distance in distances(order))


def test_the_usual_data_keeps_captions_well_apart():
    assert min(distances(arrange(items_for([3] * 100), 0, "ada"))) >= 30
    assert min(distances(arrange(items_for([3] * 19), 0, "ada"))) >= 9


@given(st.lists(st.integers(1, 5), min_size=2, max_size=20), st.randoms())
@settings(max_examples=50, deadline=None)
def test_the_order_depends_on_seed_and_annotator_only(counts, rng):
    items = items_for(counts)
    mixed = rng.sample(items, len(items))
    assert arrange(mixed, 1, "ada") == arrange(items, 1, "ada")


def test_another_seed_or_annotator_gives_another_order():
    items = items_for([3] * 20)
    orders = [arrange(items, s, a) for s, a in ((0, "ada"), (1, "ada"), (0, "bob"))]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_each_condition_comes_first_equally_often():
    first = defaultdict(int)
    for seed in range(40):
        seen = set()
        for item in arrange(items_for([3] * 20), seed, "ada"):
            if item.image_id not in seen:
                seen.add(item.image_id)
                first[item.sample_id[-1]] += 1
    # 800 draws of three: 267 each, standard deviation 13.
    assert all(200 < first[condition] < 334 for condition in "012")


@pytest.fixture
def folder(tmp_path):
    return load_folder(caption_folder(tmp_path / "pragmatch"), "pragmatch")


def test_edited_captions_are_asked_only_on_demand(folder):
    assert len(items_of(folder, SARCASM)) == 12
    assert [x.sample_id for x in items_of(folder, SARCASM, ["P-"])] == ["pic0-mask"]
    assert len(items_of(folder, SARCASM, ["P", "P-"])) == 5


def test_a_choice_that_leaves_nothing_is_an_error(folder):
    with pytest.raises(Unaskable, match="P, L, M"):
        items_of(folder, SARCASM, ["Q"])
    with pytest.raises(Unaskable, match="no row"):
        items_of(folder, SARCASM, ["M+"])


def test_more_pictures_hold_the_fewer(folder):
    drawn = [{x.image_id for x in items_of(folder, SARCASM, None, n, seed=5)} for n in (1, 2, 3)]
    assert [len(x) for x in drawn] == [1, 2, 3]
    assert drawn[0] < drawn[1] < drawn[2]


def test_tokens_say_nothing_and_differ_by_annotator_and_content(folder):
    items = items_of(folder, SARCASM)
    names = {token(b"secret", "ada", item) for item in items}
    assert len(names) == len(items)
    assert not names & {token(b"secret", "bob", item) for item in items}
    assert not names & {token(b"other", "ada", item) for item in items}
    assert not any(part in name for name in names for part in ("pic", "-P", "-M", "-L"))
    changed = items[0]._replace(content="other words")
    assert token(b"secret", "ada", changed) not in names


def test_content_follows_words_and_picture(folder, tmp_path):
    before = {x.sample_id: x.content for x in items_of(folder, SARCASM)}
    rng = random.Random(0)
    path = folder.path / "images" / "pic1.png"
    path.write_bytes(path.read_bytes() + bytes(rng.randrange(256) for _ in range(9)))
    after = {x.sample_id: x.content for x in items_of(folder, SARCASM)}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"pic1-P", "pic1-M", "pic1-L"}
