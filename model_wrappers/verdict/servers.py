"""Jobs on a server that speaks the OpenAI interface: vLLM, SGLang, llama.cpp, a hosted model.

The harness's backend builds and sends the requests; this module stands before its client, asks
for log-probabilities, and retries what may pass (time-outs, 429, 5xx) with growing pauses. Which
reply belongs to which job is known by a mark that the prompt carries as far as the client and that
is taken off before it is sent. A reply is a stranger's text: what is not a number in it is left
out. A key is never logged, and a permanent failure is never passed off as an answer.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
import random
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmms_eval.api.instance import unwrap_generation_output
from loguru import logger

from model_wrappers.verdict.capture import REASONING, Reading, Score, answer_step, stated_at
from model_wrappers.verdict.requests import Answer, Job, reason, wanted
from model_wrappers.verdict.spellings import spellings

TOP_LOGPROBS = (20, 5, None)
"""How many alternatives a token is asked for, in the order in which servers refuse them."""

DEFAULT_TIMEOUT_S = 120.0
MAX_PAUSE_S = 60.0
_MAX_TOKENS_READ = 32_768
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class ReplyError(RuntimeError):
    """The server replied with something that is no answer."""


@dataclass
class _Reply:
    """What came back for one job."""

    text: str | None = None
    finish: str | None = None
    tokens: list[tuple[str, dict[str, float]]] = field(default_factory=list)
    """Text of each generated token, and the log-probabilities returned for its place."""
    error: Exception | None = None
    attempts: int = 0


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
        self._replies: dict[int, _Reply] = {}
        # One place decides about retries: neither the client nor the backend adds its own.
        backend.max_retries = 1
        client = backend.client
        self._key = str(getattr(client, "api_key", "") or "")
        if hasattr(client, "with_options"):
            client = client.with_options(
                max_retries=0, timeout=float(timeout_s or DEFAULT_TIMEOUT_S)
            )
        backend.client = _Client(client, self)

    def run(
        self, jobs: Sequence[Job], readings: Sequence[Reading | None]
    ) -> Iterator[tuple[Job, Answer]]:
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
                yield job, Answer(failure=reason(job.error), retries=0)
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

    def _answer(self, output: Any, reply: _Reply | None, readings: Sequence[Reading]) -> Answer:
        _, token_counts = unwrap_generation_output(output)
        if reply is None:
            return Answer(failure="the backend never sent this request (token budget spent?)")
        if reply.error is not None or reply.text is None:
            failure = reason(reply.error or ReplyError("no reply"))
            return Answer(failure=self.scrubbed(failure), retries=reply.attempts - 1)
        answer = Answer(reply.text, token_counts, finish=reply.finish)
        for reading in readings:
            score = score_reply(reply.tokens, reply.text, reading)
            if score is not None:
                answer.scores[reading] = score
            answer.details[reading] = {"top_logprobs": TOP_LOGPROBS[self._level]}
        return answer

    def scrubbed(self, text: str) -> str:
        """A text without the key, which servers like to repeat in their errors."""
        return text.replace(self._key, "***") if len(self._key) > 3 else text

    def opened(self, payload: Mapping[str, Any]) -> tuple[dict[str, Any], _Reply]:
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
        reply = _Reply()
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

    def noted(self, response: Any, reply: _Reply) -> Any:
        """Take a reply apart; the backend gets it with a text in it.

        Raises:
            ReplyError: There is no choice in the response.
        """
        choices = getattr(response, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise ReplyError("the response holds no choice")
        message = choices[0].message
        if not isinstance(message.content, str):
            message.content = _text(message.content)
        reply.text = message.content
        finish = getattr(choices[0], "finish_reason", None)
        reply.finish = finish if isinstance(finish, str) else None
        reply.tokens = _tokens(getattr(choices[0], "logprobs", None))
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
        pause = self.pause_s * 2 ** (attempt - 1) * (1 + random.random() / 4)
        return min(MAX_PAUSE_S, max(pause, _retry_after(error)))


class _Client:
    """A client whose `chat.completions.create` is watched; the rest is its own."""

    def __init__(self, client: Any, runner: ServerRunner) -> None:
        self._client = client
        self.chat = _Chat(client, runner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_client"], name)


class _Chat:
    def __init__(self, client: Any, runner: ServerRunner) -> None:
        self.completions = _Completions(client.chat.completions.create, runner)


class _Completions:
    def __init__(self, create: Callable[..., Any], runner: ServerRunner) -> None:
        self._create = create
        self._runner = runner

    def create(self, **payload: Any) -> Any:
        """One request, tried until it passes or will not."""
        # The client's own decorator hides that its method is a coroutine function.
        if inspect.iscoroutinefunction(inspect.unwrap(self._create)):
            return self._create_async(payload)
        payload, reply = self._runner.opened(payload)
        failures = 0
        while True:
            asked, level = self._runner.asking(payload)
            try:
                return self._runner.noted(self._create(**asked), reply)
            except Exception as error:
                failures += 1
                time.sleep(self._pause(error, failures, level, reply))

    async def _create_async(self, payload: Mapping[str, Any]) -> Any:
        payload, reply = self._runner.opened(payload)
        failures = 0
        while True:
            asked, level = self._runner.asking(payload)
            try:
                return self._runner.noted(await self._create(**asked), reply)
            except Exception as error:
                failures += 1
                await asyncio.sleep(self._pause(error, failures, level, reply))

    def _pause(self, error: Exception, failures: int, level: int, reply: _Reply) -> float:
        """Seconds to wait; raises where the request is given up."""
        reply.attempts = failures
        pause = self._runner.pause_after(error, failures, level)
        if pause is None:
            reply.error = error
            raise ReplyError(self._runner.scrubbed(reason(error))) from None
        return pause


def score_reply(
    tokens: Sequence[tuple[str, Mapping[str, float]]], answer: str, reading: Reading
) -> Score | None:
    """The score of a reply, read off the log-probabilities that the server returned.

    A set of which no spelling was returned is at most as probable as the least probable token
    that was, and as what the returned ones leave: the smaller of the two stands for it, and the
    set is named as censored.

    Args:
        tokens: Text of each generated token, and what was returned for its place.
        answer: The answer's text, which the tokens' text holds (reasoning may come before it).
        reading: What the task asks for.

    Returns:
        The score, or None where nothing was returned for the verdict position, or no verdict
        stands in a chain of thought.
    """
    step = _step(tokens, answer, reading)
    if step is None or not tokens[step][1]:
        return None
    returned = tokens[step][1]
    # Rounding can put the returned probabilities at one or above: little is left, not anything.
    rest = max(1.0 - math.fsum(map(math.exp, returned.values())), 1e-9)
    bound = min(*returned.values(), math.log(rest))
    choices: dict[str, float] = {}
    censored = []
    for name, words in reading.choices:
        accepted = {spelling for word in words for spelling in spellings(word)}
        found = [logp for token, logp in returned.items() if token.strip() in accepted]
        if not found:
            censored.append(name)
        choices[name] = min(0.0, _logsumexp(found) if found else bound)
    return Score(choices, step, tuple(censored))


def _step(
    tokens: Sequence[tuple[str, Mapping[str, float]]], answer: str, reading: Reading
) -> int | None:
    texts = [text for text, _ in tokens]
    if not texts:
        return None
    start = "".join(texts).rfind(answer)
    if reading.position == "last_stated":
        stated = stated_at(answer)
        if stated is None or start < 0:
            return None
        return _token_at(texts, start + stated)
    lead = len(answer) - len(answer.lstrip())
    block = REASONING.match(answer, lead)
    begin = max(start, 0) + (block.end() if block else 0)
    first = _token_at(texts, begin)
    if first is None:
        return len(texts) - 1
    step = answer_step(texts[first:], reading)
    return len(texts) - 1 if step is None else first + step


def _token_at(texts: Sequence[str], offset: int) -> int | None:
    """Index of the token that holds a character of their joined text."""
    end = 0
    for index, text in enumerate(texts):
        end += len(text)
        if end > offset:
            return index
    return None


def _tokens(logprobs: Any) -> list[tuple[str, dict[str, float]]]:
    """What a server returned for each generated token; nothing that is not a probability."""
    content = getattr(logprobs, "content", None)
    if not isinstance(content, list):
        return []
    tokens = []
    for item in content[:_MAX_TOKENS_READ]:
        text = getattr(item, "token", None)
        if not isinstance(text, str):
            return []
        entries = [item, *(getattr(item, "top_logprobs", None) or [])]
        returned: dict[str, float] = {}
        for entry in entries:
            token, logp = getattr(entry, "token", None), getattr(entry, "logprob", None)
            if (
                isinstance(token, str)
                and isinstance(logp, int | float)
                and not isinstance(logp, bool)
                and -1e6 < logp <= 1e-4
            ):
                returned[token] = min(0.0, float(logp))
        tokens.append((text, returned))
    return tokens


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


def _text(content: Any) -> str:
    """The text of a message content that is none, or a list of parts."""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        return "".join(part for part in parts if isinstance(part, str))
    return ""


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


def _logsumexp(values: Sequence[float]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))
