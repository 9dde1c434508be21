import json
import re
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer

from postprocess.read import matching
from tests import KNOWN_ANSWERS

KNOWN = KNOWN_ANSWERS
LETTERS = {"image": "B", "text": "C", "distractor": "D", "conflict": "A"}
OPTIONS = {"image": "Kite", "text": "Balloon", "distractor": "Drone", "conflict": "Conflict"}
WORDS = st.sampled_from(
    [
        *("the", "a", "an", "2", "10", "11", "two", "wooden", "golden", "sandy", "brightly"),
        *("dogs", "dog", "running", "ran", "dying", "flies", "conflict", "conflicting"),
        *("contradicts", "contradictory", "kite's", "kite_red", "CAFÉ", "Straße", "ﬁne", "İ"),
    ]
)
MEGABYTE = 2**20


def cases(name):
    rows = json.loads((KNOWN / f"{name}.json").read_text())
    return [pytest.param(row["input"], row["expected"], id=row["name"]) for row in rows]


@pytest.mark.parametrize(("given_", "expected"), cases("matching_open"))
def test_open_answers_are_read_as_known(given_, expected):
    assert matching.open_outcome(**given_)._asdict() == expected


@pytest.mark.parametrize(("given_", "expected"), cases("matching_mc"))
def test_choices_are_read_as_known(given_, expected):
    options = {} if not given_["relaxed"] else {"relaxed": True, "options": given_["options"]}
    read = matching.choice_outcome(given_["prediction"], given_["letters"], **options)
    flags = [name for name in (*matching.ROLES, "unusable") if getattr(read, name)]
    assert {"letter": read.letter, "outcome": read.outcome, "flags": flags} == expected
    assert read.overlap is False


@pytest.mark.parametrize(("given_", "expected"), cases("judge"))
def test_judges_are_read_as_known(given_, expected):
    assert matching.judge_label(given_) == expected["strict"]
    assert matching.judge_label(given_, relaxed=True) == expected["relaxed"]


def reference_form(text, stem):
    """The definition of facts, word for word and unremembered."""
    number = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    number.append("ten")
    noun = {"wooden": "wood", "golden": "gold", "sandy": "sand", "brightly": "bright"}
    out = []
    for token in re.findall(r"\w+", text.lower()):
        if token in ("the", "a", "an"):
            continue
        if token in [str(n) for n in range(11)]:
            token = number[int(token)]
        out.append(stem(noun.get(token, token)))
    return " ".join(out)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=8), st.lists(WORDS, max_size=3), st.sampled_from(" .,-\n"))
def test_matching_equals_a_search_between_word_boundaries(prediction, answer, mark):
    stem = PorterStemmer().stem
    text, wanted = mark.join(prediction), mark.join(answer)
    form, part = reference_form(text, stem), reference_form(wanted, stem)
    assert matching.normalise(text) == form
    found = bool(part) and re.search(rf"\b{re.escape(part)}\b", form) is not None
    assert matching.open_outcome(text, wanted, "zzz").image == (found and bool(text.strip()))


@settings(deadline=None)
@given(st.lists(WORDS, max_size=8))
def test_normalising_twice_in_any_order_gives_the_same(words):
    text = " ".join(words)
    first = matching.normalise(text)
    matching.normalise(" ".join(reversed(words)))
    assert matching.normalise(text) == first


hostile = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters() | st.characters(categories=["Cs"]))
    | st.text("(ABCD)[] \n.:*isanwer", max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(deadline=None)
@given(hostile, hostile, hostile)
def test_open_flags_and_outcome_always_agree(prediction, image_answer, text_answer):
    read = matching.open_outcome(prediction, image_answer, text_answer)
    assert read.none == (not (read.conflict or read.image or read.text))
    assert read.overlap == (sum(read[:3]) > 1)
    expected = (
        "conflict"
        if read.conflict
        else "both"
        if read.image and read.text
        else "image"
        if read.image
        else "text"
        if read.text
        else "none"
    )
    assert read.outcome in (expected, "empty", "failed")
    assert read.outcome == expected or read.none


@settings(deadline=None)
@given(hostile, st.booleans())
def test_exactly_one_flag_of_a_choice_holds(prediction, relaxed):
    read = matching.choice_outcome(prediction, LETTERS, relaxed=relaxed, options=OPTIONS)
    flags = {name: getattr(read, name) for name in (*matching.ROLES, "unusable")}
    assert sum(flags.values()) == 1
    assert read.outcome in matching.CHOICE_OUTCOMES
    assert flags.get(read.outcome, True)


@settings(deadline=None)
@given(hostile)
def test_a_usable_strict_answer_is_the_relaxed_one_too(prediction):
    strict = matching.choice_outcome(prediction, LETTERS)
    relaxed = matching.choice_outcome(prediction, LETTERS, relaxed=True, options=OPTIONS)
    assert strict.unusable or relaxed == strict


@settings(deadline=None)
@given(hostile, st.booleans())
def test_a_judge_gives_a_label_or_none(text, relaxed):
    label = matching.judge_label(text, relaxed=relaxed)
    assert label is None or label in matching.JUDGE_LABELS


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    ["(", "(A)(B)", "((A))", "y", "ing ", "a" * 97 + " ", "\x00", "\ud800", "!", " ", "answer ",
     "answer is A!", "A) ", "dark red ", "İ", "conflict ", "[" * 50 + "]" * 50, "the ", "_",
     "<think>", "</think>", "D ", "B C ", "not red ", "<a", "choose "],
)  # fmt: skip
def test_a_megabyte_is_read_in_linear_time(unit):
    text = (unit * (MEGABYTE // len(unit) + 1))[:MEGABYTE]
    options = {"image": "red", "text": "dark red", "distractor": text, "conflict": "conflict"}
    start = time.perf_counter()
    matching.open_outcome(text, "dark red", text)
    matching.choice_outcome(text, LETTERS)
    matching.choice_outcome(text, LETTERS, relaxed=True, options=options)
    matching.judge_label(text, relaxed=True)
    # Quadratic work on a megabyte takes minutes.
    assert time.perf_counter() - start < 20


def test_a_deeply_nested_list_counts_by_its_innermost_first_element():
    prediction = "(A)"
    for _ in range(100_000):
        prediction = [prediction]
    assert matching.choice_outcome(prediction, LETTERS).letter == "A"
    while isinstance(prediction, list):  # else freeing it recurses
        prediction = prediction.pop()


def test_a_number_too_long_to_print_says_nothing():
    assert matching.open_outcome(10**5000, "one", "two").outcome == "empty"


def test_the_memory_for_stems_is_bounded():
    matching.normalise("x" * 5000)
    assert matching._cached_stem.cache_info().maxsize is not None
    assert matching._normalise_short.cache_info().maxsize is not None


@pytest.mark.parametrize(
    "letters",
    [{}, {"image": "B", "text": "B"}, {"image": "E"}, {"image": ""}, {"picture": "A"}],
)
def test_letters_that_are_no_mapping_of_roles_are_refused(letters):
    with pytest.raises(ValueError, match="letters must map"):
        matching.choice_outcome("(A)", letters)


def test_the_relaxed_reading_needs_the_options():
    with pytest.raises(ValueError, match="options"):
        matching.choice_outcome("(A)", LETTERS, relaxed=True)


@pytest.mark.parametrize("order", ["", "tci", "tcii", "ABCD", None, 5, "x" * 10_000])
def test_a_wrong_option_order_is_refused(order):
    with pytest.raises(ValueError, match="permutation"):
        matching.letters_of(order)


@settings(deadline=None)
@given(st.permutations("itdc"))
def test_orders_and_letters_are_inverse(order):
    order = "".join(order)
    assert matching.order_of(matching.letters_of(order)) == order


def test_importing_costs_no_nltk():
    code = "import sys, postprocess.read.matching; sys.exit('nltk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
