import itertools
import json
import re
import sys
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.read.verdict import UNREAD, find_verdict, is_cot, read_verdict
from postprocess.response.folding import MAX_SENTENCE, fold, sentences
from tests import KNOWN_ANSWERS, ROOT
from tests.benchmarks.verdict_reading import first_word, measure, table_lines

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
def test_no_answer_is_read_as_what_it_does_not_say(row):
    found = find_verdict(row["text"], row["prompt"])
    assert found.verdict in (None, row["expected"]), row["why"]
    if row["set"] == "frozen":
        # What was written before the reader is read in full, and by the layer that owes it.
        assert (found.verdict, found.by) == (row["expected"], row["by"]), row["why"]


def test_known_answers_say_where_they_are_from_and_cover_every_kind():
    assert max(Counter(row["name"] for row in ROWS).values()) == 1
    assert {(row["prompt"], row["expected"]) for row in ROWS} == {
        (prompt, value) for prompt in PROMPTS for value in (1, 0, None)
    }
    assert all((row["expected"] is None) == (row["by"] is None) for row in ROWS)
    assert {row["source"].split(":")[0] for row in ROWS} <= {"written", "recorded"}
    kinds = Counter(row["why"] for row in ROWS if row["set"] == "frozen")
    assert len(kinds) >= 12
    assert min(kinds.values()) >= 5


def test_the_docs_tell_the_error_that_is_measured():
    page = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    assert "\n".join(table_lines(measure(ROWS))) in page


def test_published_answers_are_read_as_their_first_word_says_and_beyond_it():
    rows = [row for row in ROWS if row["source"].startswith("recorded: ")]
    # Source, model and licence of each; models of seven families state a verdict.
    named = {tuple(row["source"].removeprefix("recorded: ").split(", ")) for row in rows}
    assert {len(one) for one in named} == {3}
    assert {licence for *_, licence in named} <= {"Apache-2.0", "BSD-3-Clause", "MIT"}
    read = [(read_verdict(row["text"], row["prompt"]), first_word(row["text"])) for row in rows]
    opening = [(ours, rule) for ours, rule in read if rule is not None]
    same = sum(ours == rule for ours, rule in opening)
    assert all(ours in (None, rule) for ours, rule in opening)
    page = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    told = f"Of the {len(opening)} that open with yes or no it reads {same} the same, none"
    assert told in page
    assert sum(ours is not None for ours, _ in read) > 2 * len(opening)


@pytest.mark.parametrize("row", [r for r in ROWS if r["expected"] is not None])
def test_the_span_of_a_stated_word_is_that_word(row):
    found = find_verdict(row["text"], row["prompt"])
    words = fold(row["text"])[found.start : found.end]
    if found.word:
        assert re.fullmatch(r"yes|yeah|yep|yup" if found.verdict else r"no|nope", words)
    elif found.by == "inferred":
        assert re.search(r"sarcas", words)
    else:
        assert bool(words) == (found.verdict is not None)


@given(answers, st.sampled_from(PROMPTS))
@settings(max_examples=400, deadline=None)
def test_any_string_gives_a_verdict_or_none_and_its_span(text, prompt):
    found = find_verdict(text, prompt)
    assert read_verdict(text, prompt) == (found.verdict if found.by == "stated" else None)
    assert (found.verdict is None) == (found == UNREAD)
    if found.by:
        assert 0 <= found.start < found.end <= len(text)
        assert text[found.start : found.end].strip()


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
    found = sentences(fold(text))
    assert all(a.stop <= b.start for a, b in itertools.pairwise(found))


@given(answers, st.sampled_from([("Yes", 1), ("No", 0)]))
@settings(max_examples=150, deadline=None)
def test_a_verdict_line_at_the_end_is_never_turned_round(text, said):
    word, value = said
    whole = f"{text}\n\n.\n\nVerdict: {word}"
    found = find_verdict(whole, "cot")
    if found.by == "stated" and found.end > len(text):
        assert (found.verdict, found.end) == (value, len(whole))
    if not re.search(r"verdict|answer|boxed|[\"'“’<>{]", text, re.IGNORECASE):
        assert found.verdict in (value, None)


CHANGE = r"wait|actually|correct|rather|scratch|mean|sorry|mistake|rethink|revis|oops|hmm|on second"


@given(st.sampled_from(["Yes", "No", "yes.", "**No**", "(Yes)", "NO!"]), answers)
@settings(max_examples=150, deadline=None)
def test_a_zero_shot_answer_never_turns_into_its_opposite(opening, text):
    # What follows may take a verdict back; only a change of mind that says so may turn it round.
    if re.search(r"think|reasoning", text) or re.search(CHANGE, text, re.IGNORECASE):
        return
    leading = read_verdict(opening)
    assert read_verdict(f"{opening}\n\n.\n\n{text}") in (leading, None)


def test_forms_of_a_prompt_are_read_alike_and_unknown_ones_are_refused():
    assert read_verdict("Yes", "zero_shot_b") == 1
    assert is_cot("cot_b")
    for prompt in ("", "zero", "zeroshot", "COT", "cots"):
        with pytest.raises(ValueError, match=re.escape(repr(prompt))):
            read_verdict("Yes", prompt)


def test_verdicts_that_differ_settle_nothing_without_a_change_of_mind():
    loop = "Verdict: Yes\nWait, no.\nVerdict: No\nHmm, wait.\n" * 50
    assert read_verdict(loop, "cot") is None
    assert read_verdict(f"{loop}Verdi", "cot") is None
    assert read_verdict("Verdict: Yes\nVerdict: No", "cot") is None
    assert read_verdict("Verdict: Yes\nWait, I misread it.\nVerdict: No", "cot") == 0
    assert read_verdict("Answer: Yes\nVerdict: No", "cot") == 0
    assert read_verdict("Verdict: No\n" * 50, "cot") == 0


@pytest.mark.parametrize("turn", ["\n\nUser: ", "\n###\n", "</s>", "<|im_end|>\n", "\n### Human: "])
@pytest.mark.parametrize(("word", "value"), [("Yes", 1), ("No.", 0)])
def test_the_first_answer_counts_where_a_base_model_runs_on(turn, word, value):
    other = "No" if value else "Yes"
    assert read_verdict(f"{word}{turn}Is it?\nAssistant: {other}") == value
    # What it answers to a question of its own is not the answer.
    assert read_verdict(f"Well.{turn}\nAssistant: {other}") is None


def test_no_text_is_no_verdict():
    assert read_verdict(None) is None
    assert find_verdict(None, "cot") == UNREAD


def test_a_verdict_is_found_at_either_end_of_a_very_long_answer():
    filler = "no dog is seen and the answer is not told "
    long = filler * (200_000 // len(filler))
    assert read_verdict(f"{long}.\nVerdict: Yes", "cot") == 1
    assert read_verdict(f"Yes.\n{long}") == 1
    assert read_verdict("x" * 1_000_000 + "\nVerdict: No", "cot") == 0


@pytest.mark.parametrize(
    "unit", ["yes ", "so no ", "{'answer': ", " ", "\n", "Yes\n", '"a ', "a:", "no or "]
)
def test_two_megabytes_are_read_in_seconds(unit):
    text = unit * (2_000_000 // len(unit))
    start = time.process_time()
    read_verdict(text)
    read_verdict(text, "cot")
    assert time.process_time() - start < 5


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
