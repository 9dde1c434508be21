"""Brings captions to one surface form, MMSD2.0's: small letters, tokens apart, placeholders.

Where P is a post and L and M are ordinary English, case and spacing alone give the condition away.
This takes such tells away from all three alike. What remains is register, which no surface form
can hide.
"""

from __future__ import annotations

import re

_URL = re.compile(r"\b(?:https?://|www\.)\S+|\bpic\.twitter\.com/\S+", re.IGNORECASE)
_MENTION = re.compile(r"@\s?\w+")
_TOKEN = re.compile(
    r"<\w+>"  # a placeholder
    r"|(?<!\S)[:;=][-']?[()dp/|o](?!\S)"  # an emoticon
    r"|\.{2,}|…"  # an ellipsis
    r"|\d+(?:[.,:]\d+)*(?!\w)"  # a number
    r"|[^\W_]+(?:[-_][^\W_]+)*"  # a word
    r"|'(?:s|t|m|re|ve|ll|d)\b"  # a clitic
    r"|\S"
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "…": "..."})


def normalise(caption: str) -> str:
    """A caption in the common surface form.

    Small letters; web addresses dropped; mentions are `<user>`, numbers `<num>`; every mark and
    clitic a token of its own; straight quotes; no full stop at the very end, since posts mostly
    have none and descriptions mostly do. Doing it twice changes nothing more.

    >>> normalise("It's a great day, @Sam! 3 dogs can't be wrong.")
    "it 's a great day , <user> ! <num> dogs can 't be wrong"
    """
    text = _URL.sub(" ", caption.translate(_QUOTES).casefold())
    text = _MENTION.sub(" <user> ", text)
    tokens = [_placeholder(token) for token in _TOKEN.findall(text)]
    while tokens and tokens[-1] == ".":
        tokens.pop()
    return " ".join(tokens)


def _placeholder(token: str) -> str:
    return "<num>" if _NUMBER.fullmatch(token) else token
