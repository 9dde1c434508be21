"""The cue edits: what they find, what they leave alone, and that one undoes the other."""

import gzip
import json
import random
import re
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmms_eval_tasks.pragmatch.make import cues
from tests import KNOWN_ANSWERS, TESTS

ANSWERS = KNOWN_ANSWERS

PIECES = [
    *["a", "dog", "on the couch", "sarah", "man", "holding two", "so great", "cool", "book", "big"],
    *["lol", "LMAO", "hahaha", "yeah", "right", "smh", "# sarcasm", "#irony", "/s", "not"],
    *["!", "?", ".", "..", "...", "…", ",", "# monday", "#fun", "# 4", '"', "*", "_", "~", ":)"],
    *["SOOOO", "sooo", "cooool", "NASA", "HUGE", "WONDERFUL", "😀", "<user>", "<num>", "& amp"],
    *[
        "breaking news :",
        "like if you agree",
        "see more",
        "stop",
        "it",
        "'s",
        "don",
        "'t",
        "5",
        ")",
    ],
]
made_up = st.lists(
    st.tuples(st.sampled_from(PIECES), st.sampled_from([" ", " ", " ", "", "  "])), max_size=14
).map(lambda parts: "".join(piece + gap for piece, gap in parts))
captions = st.one_of(made_up, st.text(max_size=60))
cue = st.sampled_from(cues.CUES)
seeds = st.integers(0, 2**32)
picture_texts = st.one_of(
    st.none(), st.sampled_from(["STOP", "the cool BOOK\nof sarah", "dogcouchman"])
)


@pytest.fixture(scope="session")
def positives(golden):
    """Sarcastic posts: MMSD2.0's test texts, in a plain clone a few of our own."""
    if golden is None:
        posts = json.loads((TESTS / "lmms_eval_tasks" / "photo_posts.json").read_text())
    else:
        path = golden / "golden" / "mmsd" / "mmsd2_test.json.gz"
        posts = json.loads(gzip.decompress(path.read_bytes()))
    return [post["text"] for post in posts if post["label"] == 1]


def rows(name):
    return json.loads((ANSWERS / name).read_text(encoding="utf-8"))


def spelled_out_subsequence(part, whole):
    """Independent of the module's own check: walks both lists by index."""
    i = 0
    for item in whole:
        if i < len(part) and part[i] == item:
            i += 1
    return i == len(part)


def words_left_alone(caption, spans):
    touched = {place for span in spans for place in range(span.start, span.end)}
    found = re.finditer(r"<\w+>|[^\W_]+(?:['’][^\W_]+)*", caption)
    return [m.group() for m in found if not touched & set(range(*m.span()))]


def check_mask(caption, name, picture_text=None):
    masked = cues.mask(caption, name, picture_text)
    spans = cues.detect(caption, name, picture_text)
    if masked is None:
        return None
    assert spans, "a caption without the cue has no masked form"
    assert cues.detect(masked, name, picture_text) == []
    assert cues.content_words(masked)
    assert spelled_out_subsequence(words_left_alone(caption, spans), cues.words(masked))
    assert len(masked) <= len(caption) + 2 * len(spans)
    return masked


def check_round_trip(caption, name, seed, picture_text=None):
    injected = cues.inject(caption, name, random.Random(seed), picture_text)
    if injected is None:
        return None
    assert injected != caption
    assert cues.detect(injected, name, picture_text)
    if not cues.detect(caption, name, picture_text):
        assert cues.mask(injected, name, picture_text) == caption
    return injected


@pytest.mark.parametrize("row", rows("cue_masks.json"), ids=lambda row: row["name"])
def test_masks_of_known_captions(row):
    masked = cues.mask(row["caption"], row["cue"], row.get("picture_text"))
    assert masked == row["expected"], row["why"]


@given(captions, cue, picture_texts)
@example("yeah lol right dog", "lexical", None)
@example("a😀b", "style", None)
@example('a"b"c', "style", None)
@settings(max_examples=300, deadline=None)
def test_after_a_mask_nothing_is_found_and_all_else_stands(caption, name, picture_text):
    check_mask(caption, name, picture_text)


@given(captions, cue, seeds, picture_texts)
@settings(max_examples=300, deadline=None)
def test_injecting_then_masking_gives_the_caption_back(caption, name, seed, picture_text):
    check_round_trip(caption, name, seed, picture_text)


@given(captions, cue, seeds)
@settings(deadline=None)
def test_a_seed_gives_one_edit(caption, name, seed):
    first = cues.inject(caption, name, random.Random(seed))
    assert first == cues.inject(caption, name, random.Random(seed))


@given(captions, cue, picture_texts)
@settings(deadline=None)
def test_spans_stand_in_order_inside_the_caption(caption, name, picture_text):
    end = 0
    for span in cues.detect(caption, name, picture_text):
        assert end <= span.start < span.end <= len(caption)
        end = span.end


@pytest.mark.parametrize("name", cues.CUES)
def test_real_positives_keep_every_property(positives, name):
    for seed, caption in enumerate(positives):
        check_mask(caption, name)
        injected = check_round_trip(caption, name, seed)
        assert (injected is None) == (not cues.content_words(caption)), caption


def test_words_on_the_picture_are_masked_in_real_captions(positives):
    for caption in positives[:300]:
        content = cues.content_words(caption)
        picture_text = "\n".join(content[::2]).upper()
        masked = check_mask(caption, "ocr", picture_text)
        if masked is not None:
            kept = {word.casefold() for word in cues.words(masked)}
            assert not kept & {word.casefold() for word in content[::2] if len(word) >= 3}


def count_cues(captions):
    """How many captions carry each cue, by rule, and how many can be masked."""
    out = {}
    for cue in cues.CUES:
        counts = Counter()
        for caption in captions:
            spans = cues.detect(caption, cue)
            counts["present"] += bool(spans)
            counts["maskable"] += cues.mask(caption, cue) is not None
            counts.update({span.name for span in spans})
        out[cue] = dict(sorted(counts.items()))
    return out


def test_counts_on_the_positives_are_the_documented_ones(shared, positives):
    (expected,) = rows("cue_counts.json")
    assert count_cues(positives) == expected["expected"], expected["why"]


def test_seeds_reach_different_edits():
    caption = "a brown dog sleeps on a couch ."
    for name in cues.CUES:
        found = {cues.inject(caption, name, random.Random(seed)) for seed in range(40)}
        assert len(found) >= 5


def test_a_caption_without_substance_gets_no_edit():
    for caption in ("", " ", "<user> <user>", "lol", "it is", "7 <num> !"):
        for name in cues.CUES:
            assert cues.inject(caption, name, random.Random(1)) is None
            assert cues.mask(caption, name) is None


def test_ordinary_english_keeps_its_spacing():
    caption = "A brown dog sleeps on a couch."
    for name in cues.CUES:
        for seed in range(30):
            injected = cues.inject(caption, name, random.Random(seed))
            assert " ." not in injected
            assert " !" not in injected
            assert "# " not in injected


def test_an_unknown_cue_is_named():
    with pytest.raises(ValueError, match="'smell'"):
        cues.detect("a dog", "smell")
    with pytest.raises(ValueError, match="'smell'"):
        cues.inject("a dog", "smell", random.Random(0))


def test_long_hostile_captions_do_not_hang():
    for caption in ("!" * 20_000, "ha" * 10_000, '"' * 20_000, "# " * 10_000, "a*" * 10_000):
        for name in cues.CUES:
            cues.mask(caption, name, caption)


def test_lists_are_versioned():
    versions = cues.list_versions()
    assert set(versions) == set(cues.LIST_FILES)
    assert all(value.startswith("1 sha256:") for value in versions.values())
