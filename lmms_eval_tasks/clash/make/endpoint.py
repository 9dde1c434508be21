"""Asks a language model over the wire, within limits, and survives a bad line.

Two ways: an OpenAI-compatible endpoint by plain HTTP, and the harness's judge providers. Address
and key are read from the environment, never from a command line, and are neither logged nor
written; what a server says in an error is not passed on either, because servers repeat keys in it.
One policy holds for both: a deadline over the whole request, so that a server that sends a byte a
second ends too; time-outs, 429 and 5xx are tried again after a pause that grows, with a seeded
jitter. A refused key or request ends the run: the next one would be refused too.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

URL_VARIABLES = ("OPENAI_API_URL", "OPENAI_BASE_URL")
KEY_VARIABLE = "OPENAI_API_KEY"
DEFAULT_URL = "https://api.openai.com/v1"

MAX_REPLY_BYTES = 1_000_000
MAX_RETRY_AFTER_S = 120.0
CHARS_PER_TOKEN = 3
"""For estimates before a server has counted; low, so that a budget is not overrun."""

_PASSING = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529))
_PAYLOADS: tuple[Callable[[int], dict[str, Any]], ...] = (
    lambda limit: {"max_tokens": limit, "temperature": 0.0},
    # Reasoning models refuse both of the above.
    lambda limit: {"max_completion_tokens": limit},
)


class EndpointError(ValueError):
    """The endpoint cannot be used any further; what is finished stays."""


class BudgetError(EndpointError):
    """The token budget does not allow another request."""


class Passing(Exception):
    """A fault that may be gone at the next try; `after` is what the server asks to wait, in s."""

    def __init__(self, reason: str, after: float = 0.0, *, costs: bool = False) -> None:
        """Keep the reason, the pause, and whether the server may have billed the work."""
        super().__init__(reason)
        self.after, self.costs = after, costs


class Reply(NamedTuple):
    """What a model answered."""

    text: str
    tokens: int
    """Tokens of request and reply, as the server counts them, else estimated."""


class Limits(NamedTuple):
    """What a run may do."""

    parallel: int = 4
    """Requests at the same time."""
    tries: int = 6
    """Tries of one request, the first included."""
    timeout_s: float = 60.0
    """Seconds for one request, from the connection to the reply's last byte."""
    pause_s: float = 1.0
    """Pause after the first failed try; it doubles with each further one."""
    max_pause_s: float = 60.0
    max_tokens: int = 512
    """Tokens of one reply."""
    token_budget: int | None = None
    """Tokens of all requests and replies together; None for no limit."""


class Budget:
    """Counts tokens; what a request may cost is set aside before it is sent."""

    def __init__(self, limit: int | None, spent: int = 0) -> None:
        """Take the limit, and what earlier runs of the same job spent."""
        self.limit, self.spent, self._held = limit, spent, 0
        self._lock = threading.Lock()

    def hold(self, tokens: int) -> None:
        """Set tokens aside.

        Raises:
            BudgetError: They are not there.
        """
        with self._lock:
            if self.limit is not None and self.spent + self._held + tokens > self.limit:
                raise BudgetError(
                    f"the token budget of {self.limit} is used up ({self.spent} spent)"
                )
            self._held += tokens

    def settle(self, held: int, used: int) -> None:
        """Give tokens back that were set aside, and count those that were used."""
        with self._lock:
            self._held -= held
            self.spent += used


class Asker:
    """Asks with tries, pauses and a budget; as many at a time as there are threads that ask.

    Args:
        send: One request: the prompt and the limit of the reply's tokens; raises `Passing` or
            `EndpointError`.
        limits: What the run may do.
        budget: Counts tokens.
        seed: Of the pauses' jitter.
        stop: Set when the run ends; pauses end with it.
    """

    def __init__(
        self,
        send: Callable[[str, int], Reply],
        limits: Limits,
        budget: Budget,
        seed: int = 0,
        stop: threading.Event | None = None,
    ) -> None:
        """Nothing is sent yet."""
        self.limits, self.budget = limits, budget
        self._send, self._seed, self._stop = send, seed, stop or threading.Event()
        self.requests = 0
        self.asked_again = 0
        self._lock = threading.Lock()

    def ask(self, prompt: str) -> Reply:
        """The reply to a prompt.

        Raises:
            EndpointError: All tries failed, the endpoint refuses, the budget is used up, or the
                run was stopped.
        """
        cost = len(prompt) // CHARS_PER_TOKEN + self.limits.max_tokens
        for attempt in range(1, self.limits.tries + 1):
            if self._stop.is_set():
                raise EndpointError("stopped")
            self.budget.hold(cost)
            used = 0
            try:
                with self._lock:
                    self.requests += 1
                reply = self._send(prompt, self.limits.max_tokens)
                used = reply.tokens
                return reply
            except Passing as fault:
                used = cost if fault.costs else 0
                if attempt == self.limits.tries:
                    raise EndpointError(f"{fault} ({attempt} tries)") from None
                pause = self.pause(prompt, attempt, fault.after)
            finally:
                self.budget.settle(cost, used)
            with self._lock:
                self.asked_again += 1
            self._stop.wait(pause)
        raise EndpointError("no try is allowed")

    def pause(self, prompt: str, attempt: int, after: float = 0.0) -> float:
        """Seconds to wait after a failed try: doubled each time, with up to a quarter of jitter."""
        content = f"{self._seed}\0{attempt}\0{prompt}".encode()
        jitter = int.from_bytes(hashlib.sha256(content).digest()[:4], "big") / 2**32
        pause = self.limits.pause_s * 2.0 ** (attempt - 1) * (1 + jitter / 4)
        return max(min(pause, self.limits.max_pause_s), min(after, MAX_RETRY_AFTER_S))


class HttpEndpoint:
    """`POST {url}/chat/completions` of an OpenAI-compatible server."""

    def __init__(self, model: str, timeout_s: float = 60.0) -> None:
        """Read address and key from the environment.

        Raises:
            EndpointError: The default address is used without a key, or the address is none.
        """
        import httpx

        url = next((os.environ[name] for name in URL_VARIABLES if os.environ.get(name)), None)
        key = os.environ.get(KEY_VARIABLE, "")
        if url is None and not key:
            raise EndpointError(
                f"set {KEY_VARIABLE}, or {URL_VARIABLES[0]} to the address of a server without keys"
            )
        url = (url or DEFAULT_URL).rstrip("/").removesuffix("/chat/completions")
        if not url.startswith(("http://", "https://")):
            raise EndpointError(f"{URL_VARIABLES[0]} must begin with http:// or https://")
        if not key.isascii() or not key.isprintable():
            raise EndpointError(f"{KEY_VARIABLE} holds a character that no key has")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.model, self._url, self._level = model, f"{url}/chat/completions", 0
        self._timeout_s = timeout_s
        self._client = httpx.Client(timeout=timeout_s, headers=headers)

    def send(self, prompt: str, max_tokens: int) -> Reply:
        """One request, once.

        Raises:
            Passing: It may pass at the next try.
            EndpointError: It will not.
        """
        import httpx

        level = self._level
        payload = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            **_PAYLOADS[level](max_tokens),
        }
        try:
            status, headers, body = _within(self._timeout_s, lambda: self._post(payload))
        except (httpx.TimeoutException, TimeoutError) as error:
            raise Passing("the endpoint does not answer in time", costs=True) from error
        except httpx.HTTPError as error:
            raise Passing(f"the endpoint cannot be reached ({type(error).__name__})") from error
        except httpx.InvalidURL as error:
            raise EndpointError(f"{URL_VARIABLES[0]} is no address") from error
        if status == 200:
            return _reply(body, prompt)
        text = body.decode("utf-8", "replace").casefold()
        quota = "insufficient_quota" in text
        if status in _PASSING and not quota:
            raise Passing(f"the endpoint answers HTTP {status}", _seconds(headers))
        refuses = status == 400 and ("max_completion_tokens" in text or "temperature" in text)
        if refuses and level + 1 < len(_PAYLOADS):
            self._level = level + 1
            raise Passing("the endpoint wants other arguments")
        meaning = {
            401: ": the key is refused",
            403: ": the key is refused",
            404: f": no model {self.model[:80]!r} there, or not the right address",
        }
        why = ": the account has no credit left" if quota else meaning.get(status, "")
        raise EndpointError(f"the endpoint answers HTTP {status}{why}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _post(self, payload: dict[str, Any]) -> tuple[int, Any, bytes]:
        body = b""
        with self._client.stream("POST", self._url, json=payload) as response:
            for part in response.iter_bytes():
                body += part
                if len(body) > MAX_REPLY_BYTES:
                    raise Passing("the endpoint's reply is too long", costs=True)
        return response.status_code, response.headers, body


class HarnessEndpoint:
    """A judge provider of the harness (`lmms_eval.llm_judge`), which has its own variables."""

    def __init__(self, provider: str, model: str, timeout_s: float = 60.0) -> None:
        """Make the provider.

        Raises:
            EndpointError: The harness does not know it, or its key or address is not set.
        """
        from lmms_eval.llm_judge import ServerConfig, get_server
        from loguru import logger

        # The provider logs what a server says in an error, and that can hold the key.
        logger.disable("lmms_eval.llm_judge")
        self._timeout_s = timeout_s
        self._config = ServerConfig(
            model_name=model, temperature=0.0, timeout=int(timeout_s) or 1, num_retries=1
        )
        try:
            self._server = get_server(provider, self._config)
            available = self._server.is_available()
        except Exception as error:
            raise EndpointError(
                f"provider {provider[:40]!r} cannot be used ({type(error).__name__})"
            ) from error
        client: Any = getattr(self._server, "client", None)
        if hasattr(client, "with_options"):
            # The provider sets no time limit, and its client tries again beside our own tries.
            self._server.client = client.with_options(timeout=timeout_s, max_retries=0)
        if not available:
            raise EndpointError(f"provider {provider!r}: its key or address is not set")

    def send(self, prompt: str, max_tokens: int) -> Reply:
        """One request, once where the provider can be told so.

        Raises:
            Passing: It may pass at the next try.
            EndpointError: It will not.
        """
        import dataclasses

        from lmms_eval.llm_judge import Request

        config = dataclasses.replace(self._config, max_tokens=max_tokens)
        messages = [{"role": "user", "content": prompt}]
        request = Request(messages=messages, config=config)
        try:
            response = _within(self._timeout_s, lambda: self._server.evaluate(request))
        except Exception as error:
            status = getattr(error, "status_code", None)
            name = type(error).__name__
            if isinstance(status, int) and status not in _PASSING:
                raise EndpointError(f"the provider answers HTTP {status} ({name})") from None
            raise Passing(f"the provider failed ({name})", costs="Timeout" in name) from None
        if not response.success or not isinstance(response.content, str):
            raise Passing("the provider gave no answer")
        usage = response.usage if isinstance(response.usage, dict) else {}
        return Reply(response.content, _total(usage, prompt, response.content))

    def close(self) -> None:
        """Nothing to close."""


def endpoint_of(name: str, model: str | None, timeout_s: float) -> HttpEndpoint | HarnessEndpoint:
    """The endpoint that a command line names.

    Args:
        name: `openai`, or `harness:PROVIDER`.
        model: Name of the model.
        timeout_s: Seconds that one request may take.

    Raises:
        EndpointError: It is none of these, has no model, or cannot be used.
    """
    if not model:
        raise EndpointError(f"{name} needs --model")
    if name == "openai":
        return HttpEndpoint(model, timeout_s)
    provider = name.removeprefix("harness:")
    if not name.startswith("harness:") or not provider:
        raise EndpointError(f"unknown endpoint {name[:40]!r}; known: openai, harness:PROVIDER")
    return HarnessEndpoint(provider, model, timeout_s)


def _within(seconds: float, work: Callable[[], T]) -> T:
    """What the work returns, or a time-out; a thread that hangs on is left to itself.

    A client limits single reads only, and a server may send a byte a second.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result(timeout=seconds)


def _reply(body: bytes, prompt: str) -> Reply:
    try:
        data = json.loads(body)
        text = data["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise Passing("the endpoint's reply is no completion", costs=True) from error
    if isinstance(text, list):
        parts = [part.get("text") for part in text if isinstance(part, dict)]
        text = "".join(part for part in parts if isinstance(part, str))
    # A model that says nothing gave a reply: the stage finds it malformed.
    text = text if isinstance(text, str) else ""
    usage = data.get("usage")
    return Reply(text, _total(usage if isinstance(usage, dict) else {}, prompt, text))


def _total(usage: dict[str, Any], prompt: str, text: str) -> int:
    total = usage.get("total_tokens")
    if isinstance(total, int) and not isinstance(total, bool) and 0 < total < 10**7:
        return total
    return (len(prompt) + len(text)) // CHARS_PER_TOKEN + 1


def _seconds(headers: Any) -> float:
    try:
        seconds = float(headers.get("retry-after", 0))
    except (TypeError, ValueError):
        return 0.0
    return seconds if 0 <= seconds < 1e6 else 0.0
