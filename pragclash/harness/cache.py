"""The harness's response cache, made safe: it sees the data, forgets failures, saves as it goes.

Its own key knows a document's number but not its picture; it stores the text of a failed request
like any answer; and it stores nothing before the whole run is through. A run that is started again
with the same command goes on from what it has.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from lmms_eval_tasks.documents import task_folder
from postprocess.response.line import is_failed

BENCHMARKS = ("pragmatch", "clash")
PORTION = 128
"""Requests between two saves; the captions of one picture stay in one portion."""

RUN_ID = "LMMS_CACHE_RUN_ID"
"""The harness's variable for the folder that an unfinished run saves into."""


def install(argv: Sequence[str]) -> None:
    """Put the changes where the harness looks its own functions up."""
    from lmms_eval.caching import response_cache

    cache = response_cache.ResponseCache
    response_cache._extract_content_hash = data_aware(response_cache._extract_content_hash)
    cache._is_valid_response = staticmethod(no_failures(cache._is_valid_response))
    cache._log_to_audit = unreplayed(cache._log_to_audit)
    cache.execute = in_portions(cache.execute)
    # Without a name of its own each start saves into a new folder and finds nothing.
    os.environ.setdefault(RUN_ID, run_id(argv))


def benchmarks_of(name: str) -> list[str]:
    """The benchmarks of ours that a task or a bundle belongs to."""
    return [b for b in BENCHMARKS if name == b or name.startswith(f"{b}_")]


def run_id(argv: Sequence[str]) -> str:
    """A name that is the same whenever the same command is given again."""
    return "run-" + hashlib.sha256("\0".join(argv).encode(errors="replace")).hexdigest()[:16]


def data_aware(content_hash: Callable[[Any], str]) -> Callable[[Any], str]:
    """Let the key see the data: the fingerprint of the dataset, and our version."""

    @functools.cache
    def data_of(benchmark: str) -> str:
        return f"{task_folder(benchmark).fingerprint}-{metadata.version('pragclash')}"

    @functools.wraps(content_hash)
    def wrapper(instance: Any) -> str:
        return "-".join([content_hash(instance), *map(data_of, benchmarks_of(instance.task_name))])

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
        for portion in portions(_pictures(lm, requests), PORTION):
            answers = execute(self, lm, reqtype, [requests[i] for i in portion])
            for i, answer in zip(portion, answers, strict=True):
                results[i] = answer
        return results

    return wrapper


def portions(pictures: Sequence[str], size: int) -> list[list[int]]:
    """Indices of requests, a picture's together, in portions of at least `size` but for the last.

    >>> portions(["a", "b", "a", "c"], size=2)
    [[0, 2], [1, 3]]
    """
    groups: dict[str, list[int]] = {}
    for i, picture in enumerate(pictures):
        groups.setdefault(picture, []).append(i)
    found: list[list[int]] = []
    for group in groups.values():
        if not found or len(found[-1]) >= size:
            found.append([])
        found[-1] += group
    return found


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
