import itertools
import json
import re
import sys
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.read.verdict import find_verdict, is_cot, read_verdict, verdict_span
from postprocess.read.verdict_text import MAX_SENTENCE, fold, spans
from tests import KNOWN_ANSWERS

ROWS = json.loads((KNOWN_ANSWERS / "verdicts.json").read_text(encoding="utf-8"))
PROMPTS = ("zero_shot", "cot")

WORDS = """
yes no Yes No YES not sarcastic sarcasm non is isn't it the caption this pair Verdict Answer
answer verdict : : . , ; ? ! - — ( ) [ ] { } ' ’ “ ” * ** _ ` and or but so therefore if maybe
cannot because wait actually boxed no. 5 true </think> <answer> \\ / | < > # false Ｙｅｓ 𝐍𝐨 é
"""
PIECES = (*WORDS.split(), '"', "\n", "\n\n", "\ud800", "\x00", "\xa0", "\u0301", "")
answers = st.one_of(
    st.text(st.characters(codec=None), max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_known_answers_are_read_as_a_person_reads_them(row):
    assert read_verdict(row["text"], row["prompt"]) == row["expected"], row["why"]


def test_every_rule_has_rows_and_names_are_unique():
    assert len(ROWS) >= 100
    assert max(Counter(row["name"] for row in ROWS).values()) == 1
    assert {(row["prompt"], row["expected"]) for row in ROWS} == {
        (prompt, value) for prompt in PROMPTS for value in (1, 0, None)
    }


@pytest.mark.parametrize("row", [r for r in ROWS if r["expected"] is not None])
def test_the_span_of_a_stated_word_is_that_word(row):
    found = find_verdict(row["text"], row["prompt"])
    words = fold(row["text"])[found.start : found.end]
    if found.by == "word":
        pattern = r"yes|yeah|yep|yup|true" if found.value else r"no|nope|false"
        assert re.fullmatch(pattern, words)
    else:
        assert re.search(r"sarcas|not|n't|it is|think so", words)


@given(answers, st.sampled_from(PROMPTS))
@settings(max_examples=400, deadline=None)
def test_any_string_gives_a_verdict_or_none_and_its_span(text, prompt):
    verdict, span = read_verdict(text, prompt), verdict_span(text, prompt)
    assert verdict in (1, 0, None)
    assert (verdict is None) == (span is None)
    if span is not None:
        assert 0 <= span[0] < span[1] <= len(text)
        assert text[span[0] : span[1]].strip()


@given(answers, st.sampled_from(PROMPTS))
@settings(max_examples=150, deadline=None)
def test_case_and_surrounding_space_do_not_matter(text, prompt):
    # Letters whose other case is another letter, or two of them, are left as they are.
    upper = "".join(c.upper() if c.isascii() else c for c in text)
    assert read_verdict(upper, prompt) == read_verdict(text, prompt)
    assert read_verdict(f"\n\n  {text}  \n", prompt) == read_verdict(text, prompt)


@given(answers)
@settings(max_examples=150, deadline=None)
def test_folding_keeps_every_offset(text):
    assert len(fold(text)) == len(text)
    found = spans(fold(text))
    assert all(a.stop <= b.start for a, b in itertools.pairwise(found))


@given(answers)
@settings(max_examples=150, deadline=None)
def test_a_verdict_line_at_the_end_decides_a_chain_of_thought(text):
    # A reasoning tag left open at the end, or a label left without its answer, stays the text's.
    for word, value in (("Yes", 1), ("No", 0)):
        whole = f"{text}\n\n.\n\nVerdict: {word}"
        assert read_verdict(whole, "cot") == value
        assert verdict_span(whole, "cot") == (len(whole) - len(word), len(whole))


@given(st.sampled_from(["Yes", "No", "yes.", "**No**", "(Yes)", "NO!"]), answers)
@settings(max_examples=150, deadline=None)
def test_a_zero_shot_answer_never_turns_into_its_opposite(opening, text):
    # What follows may take a verdict back; it cannot turn a leading one round.
    if re.search(r"think|reasoning", text):
        return
    leading = read_verdict(opening)
    assert read_verdict(f"{opening}\n\n.\n\n{text}") in (leading, None)


def test_forms_of_a_prompt_are_read_alike_and_unknown_ones_are_refused():
    assert read_verdict("Yes", "zero_shot_b") == 1
    assert is_cot("cot_b")
    for prompt in ("", "zero", "zeroshot", "COT", "cots"):
        with pytest.raises(ValueError, match=re.escape(repr(prompt))):
            read_verdict("Yes", prompt)


def test_a_chain_of_thought_that_goes_back_and_forth_settles_nothing():
    loop = "Verdict: Yes\nVerdict: No\n" * 50
    assert read_verdict(loop, "cot") is None
    assert read_verdict(f"{loop}Verdi", "cot") is None
    # Two turns may be a change of mind, and the same verdict again is none.
    assert read_verdict("Verdict: Yes\nVerdict: No\nVerdict: Yes", "cot") == 1
    assert read_verdict("Verdict: No\n" * 50, "cot") == 0


@pytest.mark.parametrize("turn", ["\n\nUser: ", "\n###\n", "</s>", "<|im_end|>\n", "\n### Human: "])
@pytest.mark.parametrize(("word", "value"), [("Yes", 1), ("No.", 0)])
def test_the_first_answer_counts_where_a_base_model_runs_on(turn, word, value):
    other = "No" if value else "Yes"
    assert read_verdict(f"{word}{turn}Is it?\nAssistant: {other}") == value
    # With no verdict in front of the turn there is no first answer.
    assert read_verdict(f"Well.{turn}\nAssistant: {other}") == 1 - value


def test_no_text_is_no_verdict():
    assert read_verdict(None) is None
    assert verdict_span(None, "cot") is None


def test_a_verdict_is_found_at_either_end_of_a_very_long_answer():
    filler = "no dog is seen and the answer is not told "
    long = filler * (200_000 // len(filler))
    assert read_verdict(f"{long}.\nVerdict: Yes", "cot") == 1
    assert read_verdict(f"Yes.\n{long}") == 1
    assert read_verdict("x" * 1_000_000 + "\nVerdict: No", "cot") == 0


def test_words_are_never_cut_where_a_sentence_is():
    text = "notice," * (3 * MAX_SENTENCE)
    assert read_verdict(text) is None
    assert read_verdict(text, "cot") is None


UNITS = [
    "yes ",
    "no ",
    "Verdict: ",
    "Verdict: Yes. ",
    "is not sarcastic ",
    "sarcastic,",
    '"',
    '"a ',
    " 'a",
    "a'a",
    "<a",
    "</think>",
    "<think>",
    "◁think▷",
    "<think>a</think>",
    "sarcasm: ",
    "sarcasm: none, ",
    "opposite of ",
    "\nUser: ",
    "\n###",
    "</s>",
    "Verdict: Yes\nVerdict: No\n",
    "the picture and caption are ",
    "\n",
    ". ",
    "1. ",
    "no. 5 ",
    "if ",
    "yes or no ",
    "answer is ",
    "it is not ",
    "x",
    "\u0301",
]


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_work_grows_no_faster_than_the_length(unit, prompt):
    def calls(length):
        count = 0

        def count_one(*_):
            nonlocal count
            count += 1

        text = unit * (length // len(unit))
        sys.setprofile(count_one)
        try:
            read_verdict(text, prompt)
        finally:
            sys.setprofile(None)
        return count

    # Four times the text: quadratic work would be sixteen times as much.
    assert calls(32_000) <= 6 * calls(8_000) + 1_000


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_patterns_do_not_backtrack_over_the_whole_answer(unit):
    def seconds(length):
        text = unit * (length // len(unit))
        spent = []
        for _ in range(3):
            start = time.process_time()
            read_verdict(text, "cot")
            spent.append(time.process_time() - start)
        return min(spent)

    # Quadratic time would be 64 times as much; the constant is the clock's and the start's.
    assert seconds(80_000) <= 24 * seconds(10_000) + 0.02
