import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.read.matching import choice_outcome
from postprocess.read.verdict import find_verdict, read_verdict
from postprocess.response.folding import blank_thoughts

PAIRS = [
    ("<think>", "</think>"),
    ("<THINK>", "</Think>"),
    ("<thinking>", "</thinking>"),
    ("<|think|>", "<|/think|>"),
    ("<analysis>", "</analysis>"),
    ("<reasoning>", "</reasoning>"),
    ("<reflection>", "</reflection>"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
]
LETTERS = {"image": "A", "text": "B", "distractor": "C", "conflict": "D"}
OPTIONS = {"image": "Red", "text": "Blue", "distractor": "Green", "conflict": "Conflict"}
pieces = st.lists(
    st.sampled_from(
        [*(tag for pair in PAIRS for tag in pair), "<answer>", "<b>", "<", "Yes", "no ", "\n"]
    ),
    max_size=30,
).map("".join)


@pytest.mark.parametrize(("opening", "closing"), PAIRS)
@pytest.mark.parametrize(("word", "value"), [("Yes", 1), ("No", 0)])
def test_what_follows_a_thought_counts_and_what_stands_in_it_does_not(
    opening, closing, word, value
):
    other = "No" if value else "Yes"
    for prompt, said in (("zero_shot", word), ("cot", f"Verdict: {word}")):
        thought = f"{other}. Verdict: {other}. It is not sarcastic."
        assert read_verdict(f"{opening}{thought}", prompt) is None
        assert read_verdict(f"{opening}{thought}{closing}", prompt) is None
        closed = f"{opening}{thought}{closing}\n{said}"
        assert read_verdict(closed, prompt) == value
        assert find_verdict(closed, prompt)[2:4] == (len(closed) - len(word), len(closed))
        # Some chat templates write the opening tag into the prompt.
        assert read_verdict(f"{thought}{closing}\n{said}", prompt) == value
        assert read_verdict(f"{said}\n{opening}{thought}", prompt) == value
        assert read_verdict(f"{closed}\n{opening}{thought}", prompt) == value


@pytest.mark.parametrize(("opening", "closing"), PAIRS)
def test_no_option_is_read_in_a_thought(opening, closing):
    def letter(text):
        return choice_outcome(text, LETTERS, relaxed=True, options=OPTIONS).letter

    assert letter(f"{opening}The car is red") is None
    assert letter(f"{opening}A or B?") is None
    assert letter(f"{opening}(A) or (B)?{closing}\nD") == "D"


def test_another_tag_does_not_close_a_thought():
    assert read_verdict("<think>a <reasoning>b</reasoning> Yes") is None
    assert read_verdict("<think>a <reasoning>b</reasoning> no</think> Yes") == 1


@given(pieces)
@settings(max_examples=300, deadline=None)
def test_blanking_keeps_the_length_and_what_is_no_thought(text):
    blanked = blank_thoughts(text)
    assert len(blanked) == len(text)
    assert all(new in (old, " ", "\n") for old, new in zip(text, blanked, strict=True))
    assert blank_thoughts(blanked) == blanked


@given(st.text())
def test_a_text_without_tags_is_left_alone(text):
    if not set("<[◁").intersection(text):
        assert blank_thoughts(text) == text
