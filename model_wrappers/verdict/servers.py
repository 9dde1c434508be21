"""Jobs on a server that speaks the OpenAI interface: vLLM, SGLang, llama.cpp, a hosted model.

The harness's backend builds and sends the requests; this module stands before its client, asks
for log-probabilities, and retries what may pass (time-outs, 429, 5xx) with growing pauses. Which
reply belongs to which job is known by a mark that the prompt carries as far as the client and that
is taken off before it is sent. A key is never logged, and a permanent
failure is never passed off as an answer.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import random
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lmms_eval.api.instance import unwrap_generation_output
from loguru import logger

from model_wrappers.verdict.reading import ReadingRule
from model_wrappers.verdict.replies import Reply, score_reply, text_of, tokens_of
from model_wrappers.verdict.requests import Job, JobAnswer, reason, wanted

TOP_LOGPROBS = (20, 5, None)
"""How many alternatives a token is asked for, in the order in which servers refuse them."""

DEFAULT_TIMEOUT_S = 120.0
MAX_PAUSE_S = 60.0
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class ReplyError(RuntimeError):
    """The server replied with something that is no answer."""


def is_server(backend: Any) -> bool:
    """Whether a backend talks to an OpenAI-compatible server through a client of its own."""
    completions = getattr(
        getattr(getattr(backend, "client", None), "chat", None), "completions", None
    )
    return callable(getattr(completions, "create", None))


def talks_to_a_server(model_class: type) -> bool:
    """Whether the harness's class is one of its OpenAI-compatible backends."""
    return model_class.__module__.rpartition(".")[2] in ("openai", "async_openai")


class ServerRunner:
    """Runs jobs over a backend's client.

    Args:
        backend: One of the harness's OpenAI-compatible backends.
        timeout_s: Seconds after which a request is tried again; the harness's `openai` backend
            takes the argument and does not use it.
    """

    def __init__(self, backend: Any, timeout_s: float | None = None) -> None:
        """Takes the place of the backend's client."""
        self.backend = backend
        self.attempts = max(1, int(getattr(backend, "max_retries", 5)))
        self.pause_s = float(getattr(backend, "retry_backoff_s", 1.0))
        self.asked_again = 0
        self._level = 0
        self._session = secrets.token_hex(8)
        self._mark = re.compile(f"\ue000{self._session}-(\\d+)\ue001")
        self._replies: dict[int, Reply] = {}
        # One place decides about retries: neither the client nor the backend adds its own.
        backend.max_retries = 1
        client = backend.client
        self._key = str(getattr(client, "api_key", "") or "")
        if hasattr(client, "with_options"):
            client = client.with_options(
                max_retries=0, timeout=float(timeout_s or DEFAULT_TIMEOUT_S)
            )
        completions = client.chat.completions
        self._create = completions.create
        completions.create = self.create
        backend.client = client

    def run(
        self, jobs: Sequence[Job], readings: Sequence[ReadingRule | None]
    ) -> Iterator[tuple[Job, JobAnswer]]:
        """Each job with its answer, in order; the backend's own concurrency runs them.

        Args:
            jobs: What to run, grouped by picture, which servers that keep prefixes profit from.
            readings: What each request of the run wants read, by its position.
        """
        runnable = [job for job in jobs if job.error is None]
        self._replies = {}
        outputs: Sequence[Any] = []
        if runnable:
            outputs = self.backend.generate_until(
                [self._request(job, number) for number, job in enumerate(runnable)]
            )
        numbers = {id(job): number for number, job in enumerate(runnable)}
        for job in jobs:
            if job.error is not None:
                yield job, JobAnswer(failure=reason(job.error), retries=0)
            else:
                number = numbers[id(job)]
                yield (
                    job,
                    self._answer(
                        outputs[number], self._replies.pop(number, None), wanted(job, readings)
                    ),
                )

    def notes(self) -> dict[str, Any]:
        """What the scores of the run rest on, as JSON values."""
        return {
            "model": getattr(self.backend, "model_version", None),
            "top_logprobs": TOP_LOGPROBS[self._level],
            "asked_again": self.asked_again,
        }

    def _request(self, job: Job, number: int) -> Any:
        mark = f"\ue000{self._session}-{number}\ue001"
        request = copy.copy(job.request)
        arguments = list(request.args)
        if self.backend.is_simple:
            arguments[0] = f"{arguments[0]}{mark}"
            arguments[1] = copy.deepcopy(job.gen_kwargs)
        else:
            arguments[1] = _marking(arguments[1], mark)
            arguments[2] = copy.deepcopy(job.gen_kwargs)
        request.arguments = tuple(arguments)
        return request

    def _answer(
        self, output: Any, reply: Reply | None, readings: Sequence[ReadingRule]
    ) -> JobAnswer:
        _, token_counts = unwrap_generation_output(output)
        if reply is None:
            return JobAnswer(failure="the backend never sent this request (token budget spent?)")
        if reply.error is not None or reply.text is None:
            failure = reason(reply.error or ReplyError("no reply"))
            return JobAnswer(failure=self.scrubbed(failure), retries=reply.attempts - 1)
        answer = JobAnswer(reply.text, token_counts, finish=reply.finish)
        for reading in readings:
            score = score_reply(reply.tokens, reply.text, reading)
            if score is not None:
                answer.scores[reading] = score
            answer.details[reading] = {"top_logprobs": TOP_LOGPROBS[self._level]}
        return answer

    def scrubbed(self, text: str) -> str:
        """A text without the key, which servers like to repeat in their errors."""
        return text.replace(self._key, "***") if len(self._key) > 3 else text

    def create(self, **payload: Any) -> Any:
        """One request of the backend's, tried until it passes or will not."""
        # The client's own decorator hides that its method is a coroutine function.
        if inspect.iscoroutinefunction(inspect.unwrap(self._create)):
            return self._create_async(payload)
        payload, reply = self.opened(payload)
        while True:
            asked, level = self.asking(payload)
            try:
                return self.noted(self._create(**asked), reply)
            except Exception as error:
                time.sleep(self._pause(error, level, reply))

    async def _create_async(self, payload: Mapping[str, Any]) -> Any:
        payload, reply = self.opened(payload)
        while True:
            asked, level = self.asking(payload)
            try:
                return self.noted(await self._create(**asked), reply)
            except Exception as error:
                await asyncio.sleep(self._pause(error, level, reply))

    def _pause(self, error: Exception, level: int, reply: Reply) -> float:
        """Seconds to wait; raises where the request is given up."""
        reply.attempts += 1
        pause = self.pause_after(error, reply.attempts, level)
        if pause is None:
            reply.error = error
            raise ReplyError(self.scrubbed(reason(error))) from None
        return pause

    def opened(self, payload: Mapping[str, Any]) -> tuple[dict[str, Any], Reply]:
        """A payload without its mark, and where its reply is noted."""
        payload = {**payload, "messages": copy.copy(payload["messages"])}
        number = None
        for at, message in enumerate(payload["messages"]):
            content = message.get("content")
            parts = content if isinstance(content, list) else [content]
            cleaned = []
            for part in parts:
                text = part.get("text") if isinstance(part, Mapping) else part
                if isinstance(text, str) and (found := self._mark.search(text)):
                    number = int(found.group(1))
                    text = self._mark.sub("", text)
                    part = {**part, "text": text} if isinstance(part, Mapping) else text
                cleaned.append(part)
            payload["messages"][at] = {
                **message, "content": cleaned if isinstance(content, list) else cleaned[0]
            }  # fmt: skip
        reply = Reply()
        if number is not None:
            self._replies[number] = reply
        return payload, reply

    def asking(self, payload: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """A payload that asks for as many log-probabilities as the server is known to give."""
        level = self._level
        top = TOP_LOGPROBS[level]
        if top is None:
            return dict(payload), level
        return {**payload, "logprobs": True, "top_logprobs": top}, level

    def noted(self, response: Any, reply: Reply) -> Any:
        """Take a reply apart; the backend gets it with a text in it.

        Raises:
            ReplyError: There is no choice in the response.
        """
        choices = getattr(response, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise ReplyError("the response holds no choice")
        message = choices[0].message
        if not isinstance(message.content, str):
            message.content = text_of(message.content)
        reply.text = message.content
        finish = getattr(choices[0], "finish_reason", None)
        reply.finish = finish if isinstance(finish, str) else None
        reply.tokens = tokens_of(getattr(choices[0], "logprobs", None))
        return response

    def pause_after(self, error: Exception, attempt: int, level: int) -> float | None:
        """Seconds to wait before a request is tried again, or None where it is given up.

        Args:
            error: What the last try raised.
            attempt: How many tries there were.
            level: Place in `TOP_LOGPROBS` that the last try asked for.
        """
        status = getattr(error, "status_code", None)
        refuses = isinstance(status, int) and 400 <= status < 500 and status != 429
        if refuses and "logprob" in str(error).lower() and TOP_LOGPROBS[level] is not None:
            if self._level == level:
                self._level += 1
                logger.warning(
                    "verdict: the server refuses so many log-probabilities; asking for "
                    f"{TOP_LOGPROBS[self._level] or 'none: verdicts without scores'}"
                )
            return 0.0
        passing = status in _PASSING if isinstance(status, int) else _is_transport(error)
        if not passing or attempt >= self.attempts or "insufficient_quota" in str(error):
            return None
        self.asked_again += 1
        pause: float = self.pause_s * 2 ** (attempt - 1) * (1 + random.random() / 4)
        return min(MAX_PAUSE_S, max(pause, _retry_after(error)))


def _marking(to_messages: Callable[[Any], Any], mark: str) -> Callable[[Any], Any]:
    """A `doc_to_messages` whose last text carries a mark."""

    def messages(doc: Any) -> Any:
        turns = [dict(turn) for turn in to_messages(doc)]
        for turn in reversed(turns):
            turn["content"] = [dict(part) for part in turn["content"]]
            for part in reversed(turn["content"]):
                if part.get("type") == "text":
                    part["text"] = f"{part['text']}{mark}"
                    return turns
        return turns

    return messages


def _is_transport(error: Exception) -> bool:
    """Whether an error without a status is one of the way, not of the request."""
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(
        names & {"APIConnectionError", "APITimeoutError", "ReplyError", "JSONDecodeError",
                 "APIResponseValidationError", "TransportError", "TimeoutError"}
    )  # fmt: skip


def _retry_after(error: Exception) -> float:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        seconds = float(headers.get("retry-after", 0))
    except (TypeError, ValueError):
        return 0.0
    return seconds if 0 <= seconds < 1e6 else 0.0
