"""Measurements stay measurements: seals across the harness's stores, seen in lmms-eval 0.7.3.

A response line is believed only under the seal of the process that measured it. The harness hands
answers from one process to another in three ways, and each is mended here: the response cache keeps
a measured answer apart from a model's text and gives it back under the seal of the process that
reads it; the sample log is written without seals and without the lines of anybody else; and the
model `from_log`, which replays such a log, seals what it reads there. The key never leaves a
process, and no seal is ever stored.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from postprocess.response.line import read_response, resealed, unsealed

_measures = False
"""Whether the model of this run is one of ours, whose stored lines were always its own."""

MEASURED = "pragclash_measured"
"""Key of a measured answer in the response cache; an answer of text alone is no object there."""


def install() -> None:
    """Put the changes where the harness's cache looks its own functions up."""
    from lmms_eval.caching import response_cache

    response_cache._serialize_response = stored(response_cache._serialize_response)
    response_cache._deserialize_response = restored(response_cache._deserialize_response)


def stored(serialize: Callable[[Any], str]) -> Callable[[Any], str]:
    """Write a measured answer as an object, and any other as the text it is."""

    @functools.wraps(serialize)
    def wrapper(response: Any) -> str:
        if not isinstance(response, str):
            return serialize(response)
        if read_response(response).sealed:
            return json.dumps({MEASURED: unsealed(response)}, ensure_ascii=False)
        return serialize(response)

    return wrapper


def restored(deserialize: Callable[[str], Any]) -> Callable[[str], Any]:
    """Seal a measured answer anew; any other stays what it was, a line in it unbelieved.

    Caches of versions before seals hold the lines of our own models in the text; such an entry is
    believed where the model is one of ours, since those take any other line off before they answer.
    """

    @functools.wraps(deserialize)
    def wrapper(text: str) -> Any:
        response = deserialize(text)
        if isinstance(response, dict) and isinstance(response.get(MEASURED), str):
            return resealed(response[MEASURED])
        return resealed(response) if _measures and isinstance(response, str) else response

    return wrapper


def believe_replays(lm: Any) -> None:
    """Say whose stored lines are measurements: our own models', and those of a replayed log.

    The harness's model `from_log` hands over the measurements of the log that it replays.
    """
    global _measures
    _measures = type(lm).__module__.startswith("model_wrappers.")
    if type(lm).__module__.endswith(".from_log"):
        generate = lm.generate_until
        lm.generate_until = lambda requests: [
            resealed(answer) if isinstance(answer, str) else answer for answer in generate(requests)
        ]


def without_seals(value: Any) -> Any:
    """Answers as the sample log may hold them: no seal, and no line that nobody measured."""
    if isinstance(value, str):
        return unsealed(value)
    if isinstance(value, list | tuple):
        return [without_seals(item) for item in value]
    return value
