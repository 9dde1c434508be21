"""Asks language models which kind of answer an open reply is, through the harness's providers.

Which judges are asked is the user's choice, in `PRAGCLASH_JUDGES`. A judge that cannot be reached
leaves a row unjudged; that is counted and never read as the label NONE. Replies are kept on disk
under a hash of everything that the reply depends on, so that a changed prediction, prompt, model
or endpoint is always asked anew. No key is read, logged or stored here.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from loguru import logger
from platformdirs import user_cache_dir

from lmms_eval_tasks.clash.make.endpoint import (
    Asker,
    Budget,
    EndpointError,
    HarnessEndpoint,
    Limits,
)
from lmms_eval_tasks.clash.prompts import judge_request
from postprocess.measure.clash import UNREADABLE
from postprocess.read.matching import judge_label

ENVIRONMENT = "PRAGCLASH_JUDGES"
CACHE_ENVIRONMENT = "PRAGCLASH_CACHE"

LIMITS = Limits(max_tokens=1024)
"""Of one request; reasoning models spend most of the tokens before the label."""

MAX_PREDICTION_CHARS = 8000
"""Longer replies are cut before they are sent: a runaway answer must not cost money."""

MAX_FAILURES = 10
"""After so many failures in a row, each tried several times, a judge is given up."""

_ENDPOINTS = ("OPENAI_API_URL", "AZURE_ENDPOINT", "AWS_REGION", "LLM_JUDGE_URL")
_CACHE_VERSION = 1
_MAX_ENTRY_BYTES = 100_000

_lock = threading.Lock()
_failures: dict[str, int] = {}


class Judge(NamedTuple):
    """A provider of the harness, and the model it is asked for."""

    provider: str
    model: str

    @property
    def name(self) -> str:
        """How records and tables name the judge."""
        return f"{self.provider}:{self.model}"


def judges_of(value: str | None) -> tuple[Judge, ...]:
    """The judges that a value of `PRAGCLASH_JUDGES` names.

    Raises:
        ValueError: It names none, one twice, or is not in the form `provider:model,...`.

    >>> judges_of("openai:gpt-5, local:qwen3:8b")[1]
    Judge(provider='local', model='qwen3:8b')
    """
    example = f'for example {ENVIRONMENT}="openai:gpt-5"'
    names = [name.strip() for name in (value or "").split(",") if name.strip()]
    if not names:
        raise ValueError(f"no judge is named: set {ENVIRONMENT} to provider:model, {example}")
    judges = []
    for name in names:
        provider, _, model = (part.strip() for part in name.partition(":"))
        if not provider or not model:
            raise ValueError(f"{ENVIRONMENT}: {name[:80]!r} is not provider:model, {example}")
        if provider.startswith("async_"):
            raise ValueError(
                f"{ENVIRONMENT}: use {provider.removeprefix('async_')}, not {provider}"
            )
        judges.append(Judge(provider, model))
    if len(set(judges)) < len(judges):
        raise ValueError(f"{ENVIRONMENT} names a judge twice")
    return tuple(judges)


def current_judges() -> tuple[Judge, ...]:
    """The judges of this run, each known to the harness and with what it needs to be asked.

    Raises:
        ValueError: None is named, or one cannot be used; the message says which and why.
    """
    judges = judges_of(os.environ.get(ENVIRONMENT))
    for judge in judges:
        try:
            _asker(judge)
        except EndpointError as error:
            raise ValueError(f"judge {judge.name} cannot be used: {error}") from error
    return judges


def judge_replies(
    judges: tuple[Judge, ...], head: str, row: Mapping[str, Any], prediction: str
) -> dict[str, str | None]:
    """What each judge replies about a prediction.

    Args:
        judges: The judges to ask.
        head: The judge's instruction.
        row: A row or document with `image_answer` and `text_answer`.
        prediction: The model's words; not a failed request, and not empty.

    Returns:
        By the judge's name its words, None where it could not be asked.
    """
    request = judge_request(head, row, prediction[:MAX_PREDICTION_CHARS])
    return {judge.name: _ask(judge, request) for judge in judges}


def labels_of(replies: Mapping[str, str | None], *, relaxed: bool = False) -> dict[str, str | None]:
    """The labels that replies are read as.

    Args:
        replies: From `judge_replies`.
        relaxed: Read by the relaxed rule; the paper's figures rest on the strict one, where a
            reply is the label and nothing else.

    Returns:
        By the judge's name: IMAGE, TEXT, CONFLICT or NONE; `UNREADABLE` where it answered with no
        label; None where it could not be asked (unjudged).

    >>> labels_of({"a": "text", "b": "Label: TEXT", "c": None})
    {'a': 'TEXT', 'b': 'UNREADABLE', 'c': None}
    >>> labels_of({"b": "Label: TEXT"}, relaxed=True)
    {'b': 'TEXT'}
    """
    return {
        name: None if reply is None else judge_label(reply, relaxed=relaxed) or UNREADABLE
        for name, reply in replies.items()
    }


def _ask(judge: Judge, request: str) -> str | None:
    """The judge's reply, from the disk where it was given before; None where there is none."""
    path = _entry_path(judge, request)
    known = _read_entry(path)
    if known is not None:
        return known
    with _lock:
        if _failures.get(judge.name, 0) >= MAX_FAILURES:
            return None
    reply = _request(judge, request)
    with _lock:
        _failures[judge.name] = 0 if reply else _failures.get(judge.name, 0) + 1
        given_up = _failures[judge.name] == MAX_FAILURES
    if given_up:
        logger.error(
            f"judge {judge.name} failed {MAX_FAILURES} times in a row and is not asked again: "
            "the remaining rows are unjudged; run the task again to fill them in"
        )
    # A reply without a label is not kept: the next run asks again.
    if reply and judge_label(reply, relaxed=True):
        _write_entry(path, reply)
    return reply


def _request(judge: Judge, request: str) -> str | None:
    try:
        return _asker(judge).ask(request).text.strip() or None
    except EndpointError as error:
        logger.warning(f"judge {judge.name}: {error}: row left unjudged")
        return None


@functools.cache
def _asker(judge: Judge) -> Asker:
    endpoint = HarnessEndpoint(judge.provider, judge.model, LIMITS.timeout_s)
    return Asker(endpoint.send, LIMITS, Budget(None))


def _entry_path(judge: Judge, request: str) -> Path:
    home = Path(os.environ.get(CACHE_ENVIRONMENT) or user_cache_dir("pragclash"))
    endpoints = [os.environ.get(name) for name in _ENDPOINTS]
    content = json.dumps([_CACHE_VERSION, *judge, LIMITS.max_tokens, endpoints, request])
    key = hashlib.sha256(content.encode()).hexdigest()
    return home / "judges" / key[:2] / f"{key}.json"


def _read_entry(path: Path) -> str | None:
    try:
        if path.stat().st_size > _MAX_ENTRY_BYTES:
            return None
        entry = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    reply = entry.get("reply") if isinstance(entry, dict) else None
    return reply if isinstance(reply, str) and reply else None


def _write_entry(path: Path, reply: str) -> None:
    """Keep a reply; other threads and processes see all of it or nothing."""
    content = json.dumps({"reply": reply})
    if len(content) > _MAX_ENTRY_BYTES:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError as error:
        logger.warning(f"the judge's reply could not be kept: {error.strerror}")
