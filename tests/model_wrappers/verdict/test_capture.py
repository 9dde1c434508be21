"""Where a verdict is read, and what a tap sees."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LogitsProcessorList, RepetitionPenaltyLogitsProcessor

from model_wrappers.verdict.answer_tokens import answer_step
from model_wrappers.verdict.capture import (
    Capture,
    Reader,
    ReadingRule,
    Tap,
    end_ids,
    stated_at,
    tapped,
)
from postprocess.read.verdict import read_verdict
from tests.model_wrappers.tiny import LETTERS, YES_NO, byte_level_tokenizer

ZERO_SHOT = ReadingRule.of({"choices": YES_NO, "verdict_position": "first"})
COT = ReadingRule.of({"choices": YES_NO, "verdict_position": "last_stated"})
MULTIPLE_CHOICE = ReadingRule.of({"choices": LETTERS, "verdict_position": "first"})


@pytest.fixture(scope="module")
def reader() -> Reader:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=byte_level_tokenizer(["</s>", "<pad>", "<think>", "</think>"]),
        eos_token="</s>",
        pad_token="<pad>",
    )
    return Reader(tokenizer)


def capture_of(reader: Reader, pieces: list[str], width: int = 2) -> Capture:
    """A capture of an answer given as pieces, each of its own tokens; step k holds the value -k."""
    ids = [i for piece in pieces for i in reader.tokenizer.encode(piece, add_special_tokens=False)]
    logps = -torch.arange(len(ids), dtype=torch.float32)[:, None].expand(-1, width).clone()
    return Capture(tuple(ids), logps, True, "stop", (), 1.0)


@pytest.mark.parametrize(
    ("pieces", "reading", "read_at"),
    [
        (["Yes", "."], ZERO_SHOT, "Yes"),
        ([" ", "\n", "Yes", "."], ZERO_SHOT, "Yes"),
        (["sarcastic", " Yes"], ZERO_SHOT, None),
        (["(", "A", ")"], MULTIPLE_CHOICE, "A"),
        (["answer", " is", " B"], MULTIPLE_CHOICE, " B"),
        ([" C", ".", " D"], MULTIPLE_CHOICE, " C"),
    ],
)
def test_a_direct_answer_is_read_at_its_first_word(
    reader: Reader, pieces: list[str], reading: ReadingRule, read_at: str | None
) -> None:
    capture = capture_of(reader, pieces)
    step = reader.step(capture, reading, "".join(pieces))
    assert step is not None
    text = reader.tokenizer.decode([capture.ids[step]])
    if read_at is not None:
        assert text == read_at
    else:
        assert step == 0


@pytest.mark.parametrize("pieces", [["</s>"], [" ", " "], ["\n", "</s>"]])
def test_an_answer_of_no_words_is_read_at_its_last_token(reader: Reader, pieces: list[str]) -> None:
    capture = capture_of(reader, pieces)
    assert reader.step(capture, ZERO_SHOT, "") == len(capture.ids) - 1
    assert reader.score(capture, ZERO_SHOT, "", 0) is not None


def test_a_closed_block_of_reasoning_is_not_the_answer(reader: Reader) -> None:
    # Written in plain characters: a tokenizer that drops special tokens would hide the block.
    capture = capture_of(reader, ["<thin", "k>", "No", " no", "</thin", "k>", "\n", "Yes", "."])
    text = reader.text(capture.ids)
    assert text.startswith("<think>")
    step = reader.step(capture, ZERO_SHOT, text)
    assert reader.tokenizer.decode([capture.ids[step]]) == "Yes"


def test_a_chain_of_thought_that_says_both_has_no_place(reader: Reader) -> None:
    text = "So the verdict is: Yes. So the verdict is: No"
    assert reader.step(capture_of(reader, [text]), COT, text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Think step by step. So the verdict is: Yes.",
        "The answer is No. Think again. So the verdict is: Yes.",
        "So the verdict is: Yes. Wait, the sky is blue. So the verdict is: No",
    ],
)
def test_a_chain_of_thought_is_read_at_its_last_verdict(reader: Reader, text: str) -> None:
    capture = capture_of(reader, [text])
    step = reader.step(capture, COT, text)
    said = reader.tokenizer.decode([capture.ids[step]]).strip()
    last = max(text.rfind("Yes"), text.rfind("No"))
    assert len(reader.text(capture.ids[:step])) <= last < len(reader.text(capture.ids[: step + 1]))
    assert said == {1: "Yes", 0: "No"}[read_verdict(text, "cot")]


def test_a_chain_of_thought_without_a_verdict_has_no_score(reader: Reader) -> None:
    for text in ("a red bus stands beside", "", "<think>So the verdict is: Yes.</think> a dog"):
        assert reader.score(capture_of(reader, [text]), COT, text, 0) is None


def test_reasoning_that_is_stripped_does_not_hide_a_verdict(reader: Reader) -> None:
    said = "So the verdict is:"
    pieces = [said, " Yes", ". ", "<thin", "k>", said, " No", "</thin", "k>"]
    capture = capture_of(reader, pieces)
    answer = reader.text(capture.ids)
    assert answer == "".join(pieces)
    step = reader.step(capture, COT, answer)
    assert reader.tokenizer.decode([capture.ids[step]]) == " Yes"


def test_an_answer_that_the_backend_stripped_is_still_found(reader: Reader) -> None:
    text = " \n So the verdict is: No."
    capture = capture_of(reader, [text])
    step = reader.step(capture, COT, text.strip())
    assert reader.tokenizer.decode([capture.ids[step]]).strip() == "No"


def test_the_score_is_the_summed_probability_of_all_spellings(reader: Reader) -> None:
    ids = reader.token_ids(ZERO_SHOT)
    spelled = reader.spellings(ZERO_SHOT)
    assert {s.strip().lower() for s in spelled["Yes"]} == {"yes"}
    assert len(spelled["Yes"]) > 3
    torch.manual_seed(0)
    scores = torch.randn(2, len(reader.tokenizer))
    tap = Tap(list(ids.values()))
    tap(torch.zeros(2, 5, dtype=torch.long), scores)
    sequences = torch.zeros(2, 6, dtype=torch.long)
    captures = tap.captures(sequences, end_ids=frozenset(), repetition_penalty=1.0)
    for row, capture in enumerate(captures):
        probabilities = scores[row].double().softmax(0)
        for at, tokens in enumerate(ids.values()):
            expected = sum(float(probabilities[t]) for t in tokens)
            assert float(capture.logps[0, at].exp()) == pytest.approx(expected, rel=1e-5)


def test_rows_end_at_their_own_end_token() -> None:
    tap = Tap([[3]])
    sequences = torch.tensor([[9, 9, 1, 4, 0], [9, 9, 1, 2, 3]])
    for step in range(3):
        scores = torch.zeros(2, 5)
        if step == 2:
            scores[0] = float("nan")
        tap(sequences[:, : 2 + step], scores)
    ended, cut = tap.captures(sequences, end_ids=frozenset({4}), repetition_penalty=1.0)
    assert (ended.ids, ended.finish, ended.finite) == ((1, 4), "stop", True)
    assert (cut.ids, cut.finish, cut.finite) == ((1, 2, 3), "length", True)
    assert cut.prompt_ids == (9, 9)


@pytest.mark.parametrize(
    "returned", [[[9, 1, 2]], [[9, 1, 2]] * 4, [[9, 2, 1], [9, 2, 1]], [[1], [1]]]
)
def test_tokens_that_are_not_those_seen_are_an_error(returned: list[list[int]]) -> None:
    tap = Tap([[3]])
    for step in range(2):
        tap(torch.tensor([[9, 1], [9, 1]])[:, : 1 + step], torch.zeros(2, 5))
    known = {"end_ids": frozenset(), "repetition_penalty": 1.0}
    assert [c.ids for c in tap.captures(torch.tensor([[9, 1, 2]] * 2), **known)] == [(1, 2)] * 2
    assert [c.ids for c in tap.captures(torch.tensor([[1, 2]] * 2), **known)] == [(1, 2)] * 2
    with pytest.raises(RuntimeError, match="cannot be attributed"):
        tap.captures(torch.tensor(returned), **known)


def test_a_tap_sees_logits_before_every_other_processor() -> None:
    class Model(torch.nn.Module):
        def _get_logits_processor(self) -> LogitsProcessorList:
            return LogitsProcessorList([RepetitionPenaltyLogitsProcessor(2.0)])

    model, tap = Model(), Tap([[1]])
    ids, scores = torch.tensor([[1]]), torch.tensor([[0.0, 4.0, 1.0]])
    with tapped(model, tap):
        processed = model._get_logits_processor()(ids, scores.clone())
    assert processed[0, 1] == 2.0
    (capture,) = tap.captures(torch.tensor([[1, 1]]), end_ids=frozenset(), repetition_penalty=2.0)
    assert capture.logps[0, 0] == pytest.approx(float(scores.log_softmax(-1)[0, 1]), abs=1e-5)
    assert model._get_logits_processor()[0].__class__ is RepetitionPenaltyLogitsProcessor


def test_settings_of_the_call_come_before_the_models() -> None:
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=[7, 8]))
    assert end_ids(model, {}) == {7, 8}
    assert end_ids(model, {"eos_token_id": 3}) == {3}
    assert end_ids(model, {"eos_token_id": torch.tensor([4])}) == {4}


@pytest.mark.parametrize(
    "metadata",
    [
        {"choices": {True: ["Yes"], False: ["No"]}},
        {"choices": {"Yes": [True]}},
        {"choices": ["Yes", "No"]},
        {"choices": YES_NO, "verdict_position": "somewhere"},
    ],
)
def test_metadata_of_another_form_is_an_error(metadata: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="metadata"):
        ReadingRule.of(metadata)


def test_no_choices_want_no_reading() -> None:
    assert ReadingRule.of({"task": "x"}) is None


def test_letters_are_found_behind_words_and_brackets() -> None:
    assert answer_step(["The", " answer", " (B", ")"], MULTIPLE_CHOICE.letters) == 2
    assert answer_step([" ", "maybe"], MULTIPLE_CHOICE.letters) == 1
    assert answer_step(["\n"], MULTIPLE_CHOICE.letters) is None


def test_a_verdict_by_sentence_has_no_token_to_score():
    assert stated_at("The author praises rain, so the caption is sarcastic.") is None
    head = "The author praises rain.\nVerdict: "
    assert stated_at(f"{head}Yes") == len(head)
