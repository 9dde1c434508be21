"""Reads a language model's replies, each of which should hold one JSON object.

A reply that cannot be read is asked for once more with what was wrong. Replies are hostile: they
are bounded, and parsed as data.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lmms_eval_tasks.clash.make.endpoint import Asker
from postprocess.response.folding import blank_thoughts

MAX_REPLY_CHARS = 20_000
MAX_OPENINGS = 20
"""So many opening braces are tried as the start of the JSON object."""

FORM = "Reply with one JSON object that has these fields, all of them strings, and nothing else."


class MalformedReply(ValueError):
    """A reply that does not have the form asked for, twice."""


class RuleFailure(ValueError):
    """A reply of the right form that fails a rule."""

    def __init__(self, check: str, reason: str) -> None:
        """Keep the rule's name."""
        super().__init__(reason)
        self.check = check


def ask_twice(asker: Asker, prompt: str, read: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """What a reply says, asked for once more where it cannot be read.

    Returns:
        The reply as read.

    Raises:
        MalformedReply: Both replies could not be read.
        RuleFailure: The second reply was read, and is not sound.
        EndpointError: The endpoint gave no reply at all.
    """
    first = asker.ask(prompt)
    try:
        return read(first.text)
    except ValueError as error:
        why = str(error)[:200]
    second = asker.ask(f"{prompt}\nAn earlier reply could not be used: it {why}. {FORM}")
    try:
        return read(second.text)
    except RuleFailure:
        raise
    except ValueError as error:
        raise MalformedReply(str(error)[:200]) from None


def json_object(reply: str) -> dict[str, Any]:
    """The first JSON object in a reply, with or without words and fences around it.

    What stands in a model's reasoning is not its reply, braces or not.

    Raises:
        ValueError: There is none.

    >>> json_object('Sure! ```json {"question": "What?"} ```')
    {'question': 'What?'}
    """
    reply = blank_thoughts(reply)[:MAX_REPLY_CHARS]
    decoder = json.JSONDecoder()
    start = -1
    for _ in range(MAX_OPENINGS):
        start = reply.find("{", start + 1)
        if start < 0:
            break
        try:
            value, _end = decoder.raw_decode(reply, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise ValueError("holds no JSON object")
