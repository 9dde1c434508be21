"""The words by which verdicts are read, loaded from data, and the prompts that ask for them.

`verdict_words.json` holds them by use, in lower case and folded; `verdict_languages.json` has yes,
no and "answer" in the most used languages.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def _data(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return data


WORDS = {use: frozenset(words) for use, words in _data("verdict_words.json").items()}
"""The vocabulary by its use."""

POLAR = dict.fromkeys(WORDS["yes"], 1) | dict.fromkeys(WORDS["no"], 0)
"""The English yes and no, as said in any place."""

_LANGUAGES = _data("verdict_languages.json").values()
_WHOLE = {
    word: value
    for language in _LANGUAGES
    for value, words in ((1, language["yes"]), (0, language["no"]))
    for word in words
}
_LABELS = frozenset(label for language in _LANGUAGES for label in language["labels"])


def holds(uses: str, words: Iterable[str]) -> bool:
    """Whether any of the words has one of some uses.

    >>> holds("yes no", ["well", "nope"])
    True
    """
    return any(not WORDS[use].isdisjoint(words) for use in uses.split())


def whole_word(word: str) -> int | None:
    """What a word says as a whole answer: true, Y, or a yes or no of any language known.

    >>> whole_word("nein"), whole_word("hm")
    (0, None)
    """
    return _WHOLE.get(unicodedata.normalize("NFC", word).casefold(), POLAR.get(word))


def is_label(word: str) -> bool:
    """Whether a word announces an answer in any language known."""
    return unicodedata.normalize("NFC", word).casefold() in _LABELS


PROMPTS = ("zero_shot", "cot")
"""One asks for the verdict directly, one for a chain of thought."""


def is_cot(prompt: str) -> bool:
    """Whether a prompt asks for a chain of thought; `zero_shot_b` is a form of `zero_shot`.

    Raises:
        ValueError: The name is neither a known prompt nor begins with one and an underscore.

    >>> is_cot("zero_shot_b"), is_cot("cot")
    (False, True)
    """
    for known in PROMPTS:
        if prompt == known or prompt.startswith(f"{known}_"):
            return known == "cot"
    raise ValueError(f"prompt {prompt!r}: know {', '.join(PROMPTS)} and their forms")
