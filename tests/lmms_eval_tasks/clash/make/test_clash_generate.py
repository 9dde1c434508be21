"""The embedded generator and its word lists: what it changes, and what it leaves alone."""

from __future__ import annotations

import contextlib
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_eval_tasks.clash.make.check import rules
from lmms_eval_tasks.clash.make.generate.rules import RuleGenerator
from lmms_eval_tasks.clash.make.generate.stages import Dropped, Source, make_row, parse_fields
from lmms_eval_tasks.clash.make.word_lists.lexicon import (
    LISTED,
    WordListError,
    find,
    folded,
    lexicon,
    parse_list,
    tokens_of,
)


def make(caption: str, *others: str, seed: int = 0) -> dict:
    return make_row(Source("1", "1.jpg", (caption, *others), 0), RuleGenerator(seed))


def changes(caption: str, *others: str) -> set[str]:
    """What a caption becomes over many seeds."""
    found = set()
    for seed in range(30):
        try:
            found.add(make(caption, *others, seed=seed)["conflicting_caption"])
        except Dropped:
            return set()
    return found


def test_articles_follow_the_new_word() -> None:
    found = changes("A bear sitting in the grass.")
    assert "An elephant sitting in the grass." in found
    assert "A giraffe sitting in the grass." in found
    assert not any(text.startswith(("A e", "An z", "A o")) for text in found)


def test_plurals_stay_plural_and_capitals_stay_capitals() -> None:
    assert all("wolves" in x or not x.endswith("wolf.") for x in changes("Two bears in the grass."))
    assert changes("Several buses parked on the street.") >= {
        "Several trains parked on the street."
    }
    assert all(text.isupper() for text in changes("A DOG SITTING ON THE GRASS."))
    assert all(text[0].isupper() for text in changes("Horses standing on a hill."))


def test_numbers_stay_near_and_colors_stay_apart() -> None:
    assert changes("Four people riding across the field.") <= {
        f"{number} people riding across the field." for number in ("Two", "Three", "Five", "Six")
    }
    greys = changes("A gray shirt.")
    assert greys
    assert not any(color in text for text in greys for color in ("white", "black", "silver"))


def test_nothing_is_put_in_that_another_caption_speaks_of() -> None:
    plain = changes("A dog tied to a post.")
    assert any("rabbit" in text for text in plain)
    told = changes("A dog tied to a post.", "A dog beside a bunny.", "A dog and a kitten.")
    assert told
    assert not any("rabbit" in text or "cat" in text for text in told)


def test_a_word_that_the_captions_do_not_agree_on_is_left_alone() -> None:
    others = ("A brown animal on the grass.", "Something sleeping in the sun.")
    assert changes("A dog sitting on the grass.", *others) == set()
    assert changes("A dog sitting on the grass.", others[0], "The dog sleeps.") != set()
    assert changes("A red car.", "The black car.") == set()


@pytest.mark.parametrize(
    "caption",
    [
        "There is no dog on the grass.",
        "A cloud that looks like a dog on the grass.",
        "A toy dog sitting on the grass.",
        "A picture of a dog sitting on the grass.",
        "A dog food bowl.",
        "A bus stop by the road.",
        "A man doing a skateboard trick.",
        "A hot-dog-shaped balloon.",
        "A dog-friendly bar.",
        "A dog chasing another dog on the grass.",
        "A black and white shirt.",
        "A light blue shirt.",
        "Men playing frisbee.",
        "People stand and talk.",
        "",
        "?!",
    ],
)
def test_captions_that_are_not_certain_are_skipped(caption: str) -> None:
    assert changes(caption) == set()


def test_questions_name_neither_word_and_vary() -> None:
    questions = {make("A man holding a frisbee.", seed=seed)["question"] for seed in range(20)}
    assert "What is the man holding?" in questions
    assert len(questions) >= 2
    subject = {make("A white cat sitting on the bed.", seed=s)["question"] for s in range(40)}
    assert "Which animal is sitting on the bed?" in subject


def test_a_pictures_captions_change_different_words_where_they_can() -> None:
    captions = ("A dog sitting on a bench.", "A dog on a bench.", "The dog sits on the bench.")
    for seed in range(10):
        generator = RuleGenerator(seed)
        rows = [make_row(Source("1", "1.jpg", captions, i), generator) for i in range(3)]
        assert len({(row["original_word"], row["conflicting_word"]) for row in rows}) == 3


def test_a_sample_follows_from_its_source_and_the_seed_alone() -> None:
    captions = ("A dog tied to a post.", "A dog by a red car.", "The dog sits on the grass.")
    sources = [Source(str(n), "1.jpg", captions, i) for n in range(8) for i in range(3)]
    rows = {source.key: make_row(source, RuleGenerator(4)) for source in sources}
    random.Random(0).shuffle(sources)
    shared = RuleGenerator(4)
    assert {source.key: make_row(source, shared) for source in sources} == rows


def test_every_sample_of_the_photographs_is_sound(shared: Path) -> None:
    made, kinds = 0, Counter()
    for record in json.loads((shared / "photos" / "photos.json").read_text()):
        captions = tuple(record["captions"])
        for index in range(len(captions)):
            source = Source(str(record["image_id"]), "x.jpg", captions, index)
            try:
                row = make_row(source, RuleGenerator())
            except Dropped:
                continue
            made += 1
            kinds[row["change_type"]] += 1
            assert all(verdict.passed for verdict in rules.apply_rules(row))
            assert row["categories"] != ["other"]
            told = " ".join(captions).casefold()
            assert f" {row['conflicting_word'].casefold()} " not in told
    assert made >= 60
    assert min(kinds.values()) >= 8


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=120))
def test_no_caption_makes_the_generator_raise(caption: str) -> None:
    with contextlib.suppress(Dropped):
        assert make(caption)["conflicting_caption"]


def test_no_two_entries_of_a_group_share_a_form() -> None:
    for group in lexicon().groups.values():
        forms = Counter(form for entry in group.entries for form in
                        {" ".join(folded(form.text)) for form in entry.forms})  # fmt: skip
        twice = [form for form, n in forms.items() if n > 1]
        assert not twice, (group.name, twice)


def test_words_that_are_named_too_near_exist() -> None:
    for group in lexicon().groups.values():
        heads = {entry.head for entry in group.entries}
        for entry in group.entries:
            assert entry.apart <= heads, (group.name, entry.head, entry.apart - heads)


def test_every_category_can_be_exchanged() -> None:
    for kind in LISTED.values():
        for category in kind:
            groups = [g for (name, _), g in lexicon().groups.items() if name == category]
            assert any(sum(e.flag is None for e in g.entries) >= 3 for g in groups), category


def test_the_longest_form_is_found() -> None:
    found = find(tokens_of("A hot air balloon over hot dogs"), lexicon())
    assert [x.form.text for x in found] == ["hot air balloon", "hot dogs"]


@pytest.mark.parametrize(
    ("text", "why"),
    [("dog", "x.txt:1"), ("version 1\n[a] b\n: dog", "x.txt:3"), ("[a] b\ndog", "no version")],
)
def test_a_list_that_cannot_be_read_is_named(text: str, why: str) -> None:
    with pytest.raises(WordListError, match=why):
        parse_list(text, "animals", "x.txt")


@pytest.mark.parametrize(
    ("stage", "data"),
    [
        ("question", []),
        ("question", {}),
        ("question", {"question": 3}),
        ("question", {"question": " "}),
        ("question", {"question": "x" * 501}),
        ("answers", {"image_answer": "a", "text_answer": "b"}),
        ("change", {"conflicting_caption": "a", "original_word": "b", "conflicting_word": "c",
                    "change_type": "person"}),
    ],
)  # fmt: skip
def test_replies_outside_the_schema_are_refused(stage: str, data: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_fields(stage, data)
