"""The harness's response cache, made safe: sees data and weights, forgets failures, saves often.

Its own key knows a document's number but not its picture, and a model's path but not its weights;
it stores the text of a failed request like any answer; and it stores nothing before the whole run
is through. A run that is started again with the same command goes on from what it has.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from lmms_eval_tasks.documents import task_folder
from postprocess.response.line import is_failed
from pragclash.harness.keeping import health
from pragclash.harness.keeping.weights import weights_of

BENCHMARKS = ("pragmatch", "clash")
PORTION = 128
"""Most requests between two saves; the captions of one picture stay in one portion."""

FIRST_PORTION = 16
"""Requests up to the first save, while nobody knows how fast the model is."""

SAVE_SECONDS = 10.0
"""Time that should lie between two saves."""

_weights: dict[str, str] = {}
"""The fingerprints of the running model's weights, by argument."""

RUN_ID = "LMMS_CACHE_RUN_ID"
"""The harness's variable for the folder that an unfinished run saves into."""


def install(argv: Sequence[str]) -> None:
    """Put the changes where the harness looks its own functions up."""
    from lmms_eval.caching import response_cache

    cache = response_cache.ResponseCache
    response_cache._extract_content_hash = data_aware(response_cache._extract_content_hash)
    cache._is_valid_response = staticmethod(no_failures(cache._is_valid_response))
    cache._log_to_audit = unreplayed(cache._log_to_audit)
    cache._lookup = health.harmless("cannot be read", cache._lookup)
    cache._log_to_audit = health.storing(cache._log_to_audit)
    cache._store = health.storing(cache._store)
    cache.finalize = health.harmless("was not merged", cache.finalize)
    cache.create = classmethod(created(cache.create.__func__))
    cache.execute = in_portions(cache.execute)
    # Without a name of its own each start saves into a new folder and finds nothing.
    os.environ.setdefault(RUN_ID, run_id(argv))


def benchmarks_of(name: str) -> list[str]:
    """The benchmarks of ours that a task or a bundle belongs to."""
    return [b for b in BENCHMARKS if name == b or name.startswith(f"{b}_")]


def run_id(argv: Sequence[str]) -> str:
    """A name that is the same whenever the same command is given again."""
    return "run-" + hashlib.sha256("\0".join(argv).encode(errors="replace")).hexdigest()[:16]


def created(create: Callable[..., Any]) -> Callable[..., Any]:
    """Look at the model's weights when a run's cache is opened; no cache where that fails."""
    safe = health.harmless("cannot be opened", create)

    @functools.wraps(create)
    def wrapper(cls: Any, *args: Any, **kwargs: Any) -> Any:
        _weights.clear()
        _weights.update(weights_of(kwargs.get("model_args")))
        return safe(cls, *args, **kwargs) or health.NoCache(cls)

    return wrapper


def data_aware(content_hash: Callable[[Any], str]) -> Callable[[Any], str]:
    """Let the key see the data and the weights: their fingerprints, and our version."""

    @functools.cache
    def data_of(benchmark: str) -> str:
        return f"{task_folder(benchmark).fingerprint}-{metadata.version('pragclash')}"

    @functools.wraps(content_hash)
    def wrapper(instance: Any) -> str:
        parts = [content_hash(instance), *map(data_of, benchmarks_of(instance.task_name))]
        # A model without files of its own keeps the answers that it has.
        return "-".join(parts + [f"{name}={seen}" for name, seen in sorted(_weights.items())])

    return wrapper


def no_failures(valid: Callable[[Any, str], bool]) -> Callable[[Any, str], bool]:
    """Keep failed requests out of the cache, so that the next run asks again."""

    @functools.wraps(valid)
    def wrapper(response: Any, request_type: str) -> bool:
        return not _failed(response) and valid(response, request_type)

    return wrapper


def unreplayed(log: Callable[..., None]) -> Callable[..., None]:
    """Log a failed request without its key: the log is read back into the cache after a crash."""

    @functools.wraps(log)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        response = args[5] if len(args) > 5 else kwargs.get("response")
        if _failed(response) or response in (None, ""):
            kwargs["cache_key"] = ""
        log(self, *args, **kwargs)

    return wrapper


def in_portions(execute: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Ask portion by portion: the cache saves whenever a call to the model returns."""

    @functools.wraps(execute)
    def wrapper(self: Any, lm: Any, reqtype: str, requests: list[Any]) -> list[Any]:
        results: list[Any] = [None] * len(requests)
        groups = grouped(_pictures(lm, requests))
        batch = getattr(lm, "batch_size", 1)
        batch = min(batch, PORTION) if isinstance(batch, int) else 1
        # Ranks that share a model's layers must call it equally often.
        size = PORTION if self._world_size > 1 else min(FIRST_PORTION, PORTION)
        while groups:
            # Half a batch would take as long, and pad its prompts differently.
            portion = take(groups, max(size, batch))
            before, start = self._misses + self._skipped, time.monotonic()
            answers = execute(self, lm, reqtype, [requests[i] for i in portion])
            asked = self._misses + self._skipped - before
            if self._world_size == 1:
                size = next_size(size, asked, time.monotonic() - start)
            for i, answer in zip(portion, answers, strict=True):
                results[i] = answer
        return results

    return wrapper


def next_size(size: int, asked: int, seconds: float) -> int:
    """Requests until the next save, after a model took some seconds for what it was asked.

    >>> next_size(16, asked=16, seconds=80.0), next_size(16, asked=0, seconds=0.1)
    (2, 16)
    """
    if not asked:
        return size
    return max(1, min(PORTION, int(asked * SAVE_SECONDS / max(seconds, 1e-3))))


def grouped(pictures: Sequence[str]) -> list[list[int]]:
    """Indices of requests, a picture's together, in the order of the pictures.

    >>> grouped(["a", "b", "a", "c"])
    [[0, 2], [1], [3]]
    """
    groups: dict[str, list[int]] = {}
    for i, picture in enumerate(pictures):
        groups.setdefault(picture, []).append(i)
    return list(groups.values())


def take(groups: list[list[int]], size: int) -> list[int]:
    """Take whole groups off the front until there are `size` indices or none are left.

    >>> take([[0, 2], [1], [3]], size=3)
    [0, 2, 1]
    """
    n = count = 0
    while n < len(groups) and count < size:
        count += len(groups[n])
        n += 1
    taken = [i for group in groups[:n] for i in group]
    del groups[:n]
    return taken


def _pictures(lm: Any, requests: Sequence[Any]) -> list[str]:
    """What each request shows: its picture's id, or the request itself in tasks without ids."""
    columns: dict[tuple[str, str | None], list[str] | None] = {}

    def picture(request: Any) -> str:
        task, split = request.task_name, (request.metadata or {}).get("split")
        if (task, split) not in columns:
            docs = lm.task_dict.get(task, {}).get(split)
            named = "image_id" in getattr(docs, "column_names", ())
            columns[task, split] = list(docs["image_id"]) if named else None
        ids = columns[task, split]
        return f"{task}:{request.doc_id}" if ids is None else f"picture {ids[request.doc_id]}"

    return [picture(request) for request in requests]


def _failed(response: Any) -> bool:
    text = getattr(response, "text", response)
    return isinstance(text, str) and is_failed(text)
