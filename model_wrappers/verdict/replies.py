"""The score in a server's reply, read off the log-probabilities that it returned.

A reply is a stranger's text: what is not a number in it is left out, and what was not returned is
bounded and named, never guessed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from model_wrappers.verdict.answer_tokens import answer_step, spellings
from model_wrappers.verdict.reading import REASONING, ReadingRule, SetScore, stated_at

_MAX_TOKENS_READ = 32_768


@dataclass
class Reply:
    """What came back for one job."""

    text: str | None = None
    finish: str | None = None
    tokens: list[tuple[str, dict[str, float]]] = field(default_factory=list)
    """Text of each generated token, and the log-probabilities returned for its place."""
    error: Exception | None = None
    attempts: int = 0


def score_reply(
    tokens: Sequence[tuple[str, Mapping[str, float]]], answer: str, reading: ReadingRule
) -> SetScore | None:
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
        choices[name] = min(0.0, float(np.logaddexp.reduce(found)) if found else bound)
    return SetScore(choices, step, tuple(censored))


def _step(
    tokens: Sequence[tuple[str, Mapping[str, float]]], answer: str, reading: ReadingRule
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
    step = answer_step(texts[first:], reading.letters)
    return len(texts) - 1 if step is None else first + step


def _token_at(texts: Sequence[str], offset: int) -> int | None:
    """Index of the token that holds a character of their joined text."""
    index = bisect_right(list(accumulate(map(len, texts))), offset)
    return index if index < len(texts) else None


def tokens_of(logprobs: Any) -> list[tuple[str, dict[str, float]]]:
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


def text_of(content: Any) -> str:
    """The text of a message content that is none, or a list of parts."""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        return "".join(part for part in parts if isinstance(part, str))
    return ""
