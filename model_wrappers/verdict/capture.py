"""Raw log-probabilities around a model's `generate`, and a verdict's score out of them.

A backend of the harness calls `model.generate` and hands back text. For the time of such a call
this module stands first in the line of logits processors: it sees the logits as the model made
them, before a repetition penalty or a temperature touches them, and keeps a few numbers a step.
It must never change what is generated, and it must never hand out a score that rests on logits
that are not finite or on steps that cannot be told apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList

from model_wrappers.verdict.answer_tokens import answer_step, choice_ids
from model_wrappers.verdict.reading import REASONING, ReadingRule, SetScore, stated_at


class NotFiniteError(RuntimeError):
    """The model's logits hold NaN or infinity: what follows from them is no answer."""


@dataclass(frozen=True)
class Capture:
    """What was seen while one answer was generated."""

    ids: tuple[int, ...]
    """The generated tokens, the end token included where the model wrote one."""
    logps: torch.Tensor | None
    """Natural logs, steps x token sets, float32 on the CPU; None where beams, or answers drawn
    together, leave no token whose distribution is this answer's."""
    finite: bool
    """Whether every logit of every step was finite."""
    finish: str
    """`stop` where the model ended by itself, `length` where a limit ended it."""
    prompt_ids: tuple[int, ...]
    """The tokens of the prompt, padding included; empty where only embeddings were given."""
    repetition_penalty: float
    """The setting under which the tokens were chosen; the log-probabilities are before it."""


class Tap(LogitsProcessor):
    """Keeps, for each step and row, the log-probability of some token sets.

    Args:
        token_sets: Ids of each set.
        keep_first: Also keep the whole log-probabilities of the first step (rows x vocabulary).
    """

    def __init__(self, token_sets: Sequence[Sequence[int]], keep_first: bool = False) -> None:
        """Nothing is seen yet."""
        self.token_sets = [torch.tensor(list(ids), dtype=torch.long) for ids in token_sets]
        self.keep_first = keep_first
        self.first: torch.Tensor | None = None
        self.prompt_length: int | None = None
        self._steps: list[torch.Tensor] = []
        self._written: torch.Tensor | None = None

    @torch.no_grad()
    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """See one step; the logits go on unchanged."""
        if self.prompt_length is None:
            self.prompt_length = input_ids.shape[1]
            self.token_sets = [ids.to(scores.device) for ids in self.token_sets]
        self._written = input_ids[:, self.prompt_length :]
        raw = scores.float()
        total = torch.logsumexp(raw, dim=-1)
        columns = [torch.isfinite(raw).all(dim=-1).float()]
        columns += [torch.logsumexp(raw[:, ids], dim=-1) - total for ids in self.token_sets]
        # Stays on the device: one transfer at the end instead of a wait at every step.
        self._steps.append(torch.stack(columns, dim=-1))
        if self.keep_first and self.first is None:
            self.first = torch.log_softmax(raw, dim=-1)
        return scores

    def captures(
        self, output: Any, *, end_ids: frozenset[int], repetition_penalty: float
    ) -> list[Capture]:
        """One capture a row of what `generate` returned.

        Args:
            output: What `generate` returned: prompt and answer, or the answer alone.
            end_ids: Tokens that end an answer.
            repetition_penalty: The setting under which the tokens were chosen.

        Raises:
            RuntimeError: The tokens returned are not those whose distributions were seen.
        """
        sequences = output if isinstance(output, torch.Tensor) else output.sequences
        sequences = sequences.cpu()
        if not self._steps or self._written is None:
            raise RuntimeError("generate ran without asking for a single token")
        seen = torch.stack(self._steps).cpu()
        steps, rows = seen.shape[:2]
        start = sequences.shape[1] - steps
        written = self._written.cpu()
        if (
            sequences.shape[0] != rows
            or start < 0
            or not torch.equal(sequences[:, start : start + written.shape[1]], written)
        ):
            raise RuntimeError(
                f"{rows} rows and {steps} steps were seen for sequences of shape "
                f"{tuple(sequences.shape)}: log-probabilities cannot be attributed"
            )
        return [
            _row(
                sequences[row],
                start,
                seen[:, row],
                end_ids,
                repetition_penalty,
                holds_prompt=start == self.prompt_length,
            )
            for row in range(rows)
        ]


def captures_without_scores(
    output: Any, prompt_length: int, *, end_ids: frozenset[int], repetition_penalty: float
) -> list[Capture]:
    """What can be said of rows whose distributions cannot be told apart.

    Args:
        output: What `generate` returned.
        prompt_length: How many tokens of each row are the prompt.
        end_ids: Tokens that end an answer.
        repetition_penalty: The setting under which the tokens were chosen.
    """
    sequences = output if isinstance(output, torch.Tensor) else output.sequences
    return [
        _row(sequence, prompt_length, None, end_ids, repetition_penalty, holds_prompt=True)
        for sequence in sequences.cpu()
    ]


def _row(
    sequence: torch.Tensor,
    start: int,
    seen: torch.Tensor | None,
    end_ids: frozenset[int],
    repetition_penalty: float,
    *,
    holds_prompt: bool,
) -> Capture:
    ids = sequence[start:].tolist()
    # After its end token a row of a batch is padded until the last row ends.
    end = next((step for step, token in enumerate(ids) if token in end_ids), None)
    length = len(ids) if end is None else end + 1
    return Capture(
        ids=tuple(ids[:length]),
        logps=None if seen is None else seen[:length, 1:],
        finite=seen is None or bool(seen[:length, 0].all()),
        finish="length" if end is None else "stop",
        prompt_ids=tuple(sequence[:start].tolist()) if holds_prompt else (),
        repetition_penalty=repetition_penalty,
    )


@contextmanager
def tapped(model: Any, tap: Tap) -> Iterator[None]:
    """Put a tap before all other logits processors of a model's `generate`.

    A processor passed to `generate` would come last, after the repetition penalty; the list that
    the model builds for itself is the only place from which the raw logits are seen. Some models
    hand the call on to a part of themselves, so that the tap is put before the parts' as well.
    """
    modules = [m for m in model.modules() if hasattr(m, "_get_logits_processor")]

    def with_tap(original: Callable[..., Any]) -> Callable[..., LogitsProcessorList]:
        return lambda *args, **kwargs: LogitsProcessorList([tap, *original(*args, **kwargs)])

    for module in modules:
        module._get_logits_processor = with_tap(module._get_logits_processor)
    try:
        yield
    finally:
        for module in modules:
            del module._get_logits_processor


def setting(model: Any, kwargs: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """The value of a generation setting as `generate(**kwargs)` would take it."""
    for value in (
        kwargs.get(name),
        getattr(kwargs.get("generation_config"), name, None),
        getattr(getattr(model, "generation_config", None), name, None),
    ):
        if value is not None:
            return value
    return default


def end_ids(model: Any, kwargs: Mapping[str, Any]) -> frozenset[int]:
    """The tokens that end an answer under `generate(**kwargs)`."""
    value = setting(model, kwargs, "eos_token_id")
    if value is None:
        return frozenset()
    if isinstance(value, torch.Tensor):
        value = value.flatten().tolist()
    return frozenset([value] if isinstance(value, int) else value)


class Reader:
    """Reads the scores of a run's tasks from captures, with one tokenizer.

    Args:
        tokenizer: The backend's tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        """Ids are looked up once a set, when first asked for."""
        self.tokenizer = tokenizer
        self._ids: dict[tuple[tuple[str, tuple[str, ...]], ...], dict[str, list[int]]] = {}

    def token_ids(self, reading: ReadingRule) -> dict[str, list[int]]:
        """Token ids of each answer set.

        Raises:
            ValueError: The tokenizer holds no single token for a set, or one for two sets.
        """
        if reading.choices not in self._ids:
            self._ids[reading.choices] = choice_ids(self.tokenizer, reading.sets)
        return self._ids[reading.choices]

    def spellings(self, reading: ReadingRule) -> dict[str, list[str]]:
        """The text of the tokens that each set sums over."""
        return {
            name: [self.tokenizer.decode([token]) for token in tokens]
            for name, tokens in self.token_ids(reading).items()
        }

    def text(self, ids: Sequence[int]) -> str:
        """The words of some generated tokens, without special tokens."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def step(self, capture: Capture, reading: ReadingRule, answer: str) -> int | None:
        """Index of the generated token at which the verdict of an answer stands.

        A direct answer always has one: the first token that is not white space; of option letters
        the first token that is such a letter, a bracket before it allowed, and failing that the
        first token that is a word at all. Where the model wrote white space alone, or ended at
        once, it is the last token, whose distribution is the nearest to the verdict that was due.
        A block of reasoning that the harness strips comes before the answer, not in it.

        A chain of thought has one only where the answer states a verdict: the first token of the
        last one stated.

        Args:
            capture: What was seen.
            reading: What the task asks for.
            answer: The answer as the backend handed it over.

        Returns:
            The index, or None without a verdict.
        """
        if reading.position == "last_stated":
            return self._stated_step(capture, answer)
        skip = self._reasoning_steps(capture)
        texts = [self.text([token]) for token in capture.ids[skip:]]
        step = answer_step(texts, reading.letters)
        return skip + step if step is not None else len(capture.ids) - 1

    def score(
        self, capture: Capture, reading: ReadingRule, answer: str, column: int
    ) -> SetScore | None:
        """The log-probabilities of a reading's sets at the verdict position.

        Args:
            capture: What was seen.
            reading: What the task asks for.
            answer: The answer as the backend handed it over.
            column: Where the reading's sets begin among the tap's token sets.

        Returns:
            The score, or None without a verdict or without log-probabilities.

        Raises:
            NotFiniteError: A logit was NaN or infinite.
        """
        if not capture.finite:
            raise NotFiniteError("the model's logits hold NaN or infinity")
        if capture.logps is None:
            return None
        step = self.step(capture, reading, answer)
        if step is None:
            return None
        values = capture.logps[step, column : column + len(reading.choices)].tolist()
        names = [name for name, _ in reading.choices]
        return SetScore(dict(zip(names, values, strict=True)), step)

    def _reasoning_steps(self, capture: Capture) -> int:
        """How many tokens a leading, closed block of reasoning takes."""
        text = self.text(capture.ids)
        block = REASONING.match(text.lstrip())
        if block is None:
            return 0
        offset = len(text) - len(text.lstrip()) + block.end()
        return self._steps_until(capture, offset)

    def _stated_step(self, capture: Capture, answer: str) -> int | None:
        stated = stated_at(answer)
        if stated is None:
            return None
        # A backend may have stripped its answer or cut it at a stop string.
        shift = self.text(capture.ids).find(answer)
        if shift < 0:
            return None
        return self._steps_until(capture, shift + stated + 1) - 1

    def _steps_until(self, capture: Capture, length: int) -> int:
        """The fewest leading tokens whose text is so long, one at least."""
        counts = range(len(capture.ids))
        return bisect_left(counts, length, lo=1, key=lambda n: len(self.text(capture.ids[:n])))
