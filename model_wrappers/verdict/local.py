"""Jobs on a backend whose model runs in this process.

One job at a time is handed to the backend, so that every capture belongs to the job it was made
for, whatever order the backend would sort its requests into. What the backend hands over is
compared with what was captured: a backend that swallows an exception and answers "" is found out,
the job is run once more without a shared prefix, and then it has failed.
"""

from __future__ import annotations

import copy
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lmms_eval.api.instance import unwrap_generation_output
from loguru import logger
from tqdm import tqdm

from model_wrappers.verdict.capture import Capture, NotFiniteError, Reader
from model_wrappers.verdict.intercept import (
    Interceptor,
    Session,
    free_memory,
    generating_module,
    is_out_of_memory,
)
from model_wrappers.verdict.no_picture import allow_no_picture, visuals_for
from model_wrappers.verdict.reading import ReadingRule
from model_wrappers.verdict.requests import Job, JobAnswer, reason, wanted

_MEMORY_ADVICE = (
    "set profile=t4 (4-bit weights), or a smaller max_pixels or max_patches of the backend, or "
    "prefix_cache=false (no cache is kept between captions)"
)
_WORD = re.compile(r"\w+")


class LocalRunner:
    """Runs jobs on a backend with a transformers model.

    Args:
        backend: The harness's backend.
        share: Whether captions of a picture share its prefix; batches run only without.
    """

    def __init__(self, backend: Any, share: bool) -> None:
        """Intercepts the model; raises TypeError where the backend has none."""
        self.backend = backend
        self.interceptor = Interceptor(generating_module(backend), share)
        self.reader = Reader(backend.tokenizer)
        self.retried = 0
        self.unscorable: dict[ReadingRule, str] = {}
        """Readings whose sets the tokenizer does not spell in single tokens, and why."""
        self.batches = not share
        """Whether rows are run together; given up where a backend pads them wrongly."""
        allow_no_picture(backend)

    def run(
        self, jobs: Sequence[Job], readings: Sequence[ReadingRule | None]
    ) -> Iterator[tuple[Job, JobAnswer]]:
        """Each job with its answer, in order.

        Args:
            jobs: What to run, grouped by picture.
            readings: What each request of the run wants read, by its position.
        """
        for chunk in self._chunks(jobs):
            answers: list[JobAnswer] = []
            if len(chunk) > 1:
                answers = self._batch(chunk, readings)
            for at, job in enumerate(chunk):
                if answers and answers[at].failure is None:
                    yield job, answers[at]
                else:
                    yield job, self._alone(job, readings)
        self.interceptor.prefixes.forget()

    def _chunks(self, jobs: Sequence[Job]) -> Iterator[list[Job]]:
        size = int(getattr(self.backend, "batch_size", 1) or 1)
        chunk: list[Job] = []
        for job in jobs:
            if chunk and (
                not self.batches
                or len(chunk) >= size
                or job.error is not None
                or job.batch_key != chunk[0].batch_key
            ):
                yield chunk
                chunk = []
            chunk.append(job)
        if chunk:
            yield chunk

    def _alone(self, job: Job, readings: Sequence[ReadingRule | None]) -> JobAnswer:
        """A job by itself, and once more on the plain path if it fails."""
        if job.error is not None:
            return JobAnswer(failure=reason(job.error), retries=0)
        try:
            return self._attempt([job], readings, plain=False)[0]
        except Exception as error:
            logger.warning(f"verdict: retrying a request after {reason(error)}")
            self.retried += 1
            self.interceptor.prefixes.forget()
            if is_out_of_memory(error):
                free_memory()
        try:
            return self._attempt([job], readings, plain=True)[0]
        except Exception as error:
            failure = reason(error)
            if is_out_of_memory(error):
                free_memory()
                failure = f"{failure}: {_MEMORY_ADVICE}"
            logger.error(f"verdict: a request failed: {failure}")
            return JobAnswer(failure=failure)

    def _batch(
        self, chunk: Sequence[Job], readings: Sequence[ReadingRule | None]
    ) -> list[JobAnswer]:
        """Jobs as rows of one batch; on any doubt none of them is answered."""
        try:
            return self._attempt(chunk, readings, plain=True)
        except Exception as error:
            self.batches = False
            logger.warning(f"verdict: rows run one by one from here on: {reason(error)}")
            if is_out_of_memory(error):
                free_memory()
            return []

    def _attempt(
        self, chunk: Sequence[Job], readings: Sequence[ReadingRule | None], *, plain: bool
    ) -> list[JobAnswer]:
        """Answers of a chunk in its order.

        Raises:
            Exception: Whatever the backend raised or swallowed, and what its captures tell.
        """
        columns = self._columns(chunk, readings)
        sets = [ids for reading in columns for ids in self.reader.token_ids(reading).values()]
        lookups = _Lookups(self.backend.task_dict) if len(chunk) > 1 else None
        with self.interceptor.session(sets, plain) as session, self._watched(lookups):
            outputs = self.backend.generate_until([self._request(job) for job in chunk])
        if len(outputs) != len(chunk):
            raise RuntimeError(f"{len(chunk)} requests, {len(outputs)} answers")
        captures = _captures(session, chunk, lookups)
        return [
            self._answer(job, output, capture, wanted(job, readings), columns)
            for job, output, capture in zip(chunk, outputs, captures, strict=True)
        ]

    def _columns(
        self, chunk: Sequence[Job], readings: Sequence[ReadingRule | None]
    ) -> dict[ReadingRule, int]:
        """The readings of a chunk, with the place of their sets among all that are tapped."""
        columns: dict[ReadingRule, int] = {}
        width = 0
        for reading in dict.fromkeys(r for job in chunk for r in wanted(job, readings)):
            if reading in self.unscorable:
                continue
            try:
                ids = self.reader.token_ids(reading)
            except ValueError as error:
                self.unscorable[reading] = str(error)
                logger.error(f"verdict: answers without scores: {error}")
                continue
            columns[reading] = width
            width += len(ids)
        return columns

    def _answer(
        self,
        job: Job,
        output: Any,
        capture: Capture,
        readings: Sequence[ReadingRule],
        columns: Mapping[ReadingRule, int],
    ) -> JobAnswer:
        text, token_counts = unwrap_generation_output(output)
        if not capture.finite:
            raise NotFiniteError("the model's logits hold NaN or infinity")
        # Errors of decoding are swallowed as well.
        if not text.strip() and not job.gen_kwargs.get("until"):
            words = self.reader.text(capture.ids).strip()
            if words:
                raise RuntimeError("the backend handed over nothing of what was generated")
        if not self._holds(capture.prompt_ids, job.text):
            raise RuntimeError(
                "the tokens that the backend sends do not hold the prompt: its chat template "
                "expects messages of another form"
            )
        answer = JobAnswer(text, token_counts, finish=capture.finish)
        for reading in readings:
            rests_on: dict[str, Any] = {
                "repetition_penalty": capture.repetition_penalty,
                "dtype": str(self.interceptor.model.dtype).removeprefix("torch."),
            }
            if reading in columns:
                rests_on["spellings"] = self.reader.spellings(reading)
                score = self.reader.score(capture, reading, text, columns[reading])
                if score is not None:
                    answer.scores[reading] = score
            answer.details[reading] = rests_on
        return answer

    def _holds(self, prompt_ids: Sequence[int], text: str) -> bool:
        """Whether a prompt's tokens hold its words; half of them will do, for odd tokenizers."""
        words = set(_WORD.findall(text.casefold()))
        if not prompt_ids or not words:
            return True
        sent = "".join(self.reader.text(prompt_ids).casefold().split())
        return 2 * sum(word in sent for word in words) >= len(words)

    def _request(self, job: Job) -> Any:
        """A job's request for the backend, its arguments copied, since backends edit them."""
        request = copy.copy(job.request)
        arguments = list(request.args)
        if self.backend.is_simple:
            arguments[1] = copy.deepcopy(job.gen_kwargs)
            arguments[2] = visuals_for(self.backend, arguments[2])
        else:
            arguments[2] = copy.deepcopy(job.gen_kwargs)
        request.arguments = tuple(arguments)
        return request

    @contextmanager
    def _watched(self, lookups: _Lookups | None) -> Iterator[None]:
        """The backend without its progress bars, and in a batch with its documents watched."""
        names = {cls.__module__ for cls in type(self.backend).__mro__}
        modules: list[Any] = [
            module
            for name in names
            if (module := sys.modules.get(name)) is not None
            and getattr(module, "tqdm", None) is tqdm
        ]
        documents = self.backend.task_dict
        for module in modules:
            module.tqdm = _no_bar
        if lookups is not None:
            self.backend.task_dict = lookups
        try:
            yield
        finally:
            self.backend.task_dict = documents
            for module in modules:
                module.tqdm = tqdm


def _no_bar(*args: Any, **kwargs: Any) -> Any:
    return tqdm(*args, **{**kwargs, "disable": True})


class _Lookups(Mapping[str, Any]):
    """Documents by task, split and number, noting the order in which a backend asks for them.

    A backend sorts the rows of a batch; it reads the documents in the order of its rows.
    """

    def __init__(
        self,
        documents: Mapping[str, Any],
        path: tuple[Any, ...] = (),
        seen: list[Any] | None = None,
    ) -> None:
        self._documents = documents
        self._path = path
        self.seen: list[Any] = [] if seen is None else seen

    def __getitem__(self, name: Any) -> Any:
        path = (*self._path, name)
        if len(path) < 3:
            return _Lookups(self._documents[name], path, self.seen)
        self.seen.append(path)
        return self._documents[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)


def _captures(session: Session, chunk: Sequence[Job], lookups: _Lookups | None) -> list[Capture]:
    """The captures of a session in the order of its jobs.

    Raises:
        Exception: What the backend swallowed.
        RuntimeError: Captures and requests do not correspond.
    """
    if len(session.captures) != len(chunk):
        if session.errors:
            raise session.errors[-1]
        raise RuntimeError(
            f"the backend answered {len(chunk)} requests out of {len(session.captures)} generations"
        )
    if lookups is None:
        return session.captures
    documents = [(job.request.args[4], job.request.args[5], job.request.args[3]) for job in chunk]
    if Counter(lookups.seen) != Counter(documents) or len(set(documents)) != len(documents):
        raise RuntimeError("the rows of a batch cannot be told apart")
    row_of = {document: row for row, document in enumerate(lookups.seen)}
    return [session.captures[row_of[document]] for document in documents]
