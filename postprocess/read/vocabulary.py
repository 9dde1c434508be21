"""The words by which verdicts are read, loaded from data.

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
