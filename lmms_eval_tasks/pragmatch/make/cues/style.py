"""The style cue: emphasis in the writing, from "!!" to hash signs and capitals."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from random import Random

from lmms_eval_tasks.pragmatch.make.cues.text import (
    PLACEHOLDER,
    RUN,
    WORD,
    Span,
    content_words,
    has_words,
    is_tokenised,
    word_lists,
    words,
)

MAX_QUOTED_WORDS = 3
"""Quotes around more words are speech, not emphasis."""
_HASH = re.compile(r"(?<![\w&#])#+[^\S\n]?(?![^\S\n]*\d+\b)")
_QUOTE = re.compile(r"[\"“”]")
_STARRED = re.compile(r"(?<![\w*])\*[^\S\n]?(?=[\w<])([^*\n]{1,60}?)[^\S\n]?\*(?![\w*])")
_UNDERLINED = re.compile(r"(?<![\w])_(?=[^\W_])([^_\n]{1,60}?)_(?!\w)")
_TILDE = re.compile(r"(?<!\S)~+(?!\S)")
_LETTERS = re.compile(r"[^\W\d_]+")
_STRETCHED = re.compile(r"([A-Za-z])\1\1")
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
_EMOJI = re.compile(
    "[\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2600-\u27bf\u2b50\u2b55\u2190-\u21ff]"
    "[\ufe0f\u200d\U0001f3fb-\U0001f3ff]*"
)


def find_style(caption: str) -> Iterator[Span]:
    """Every piece of emphasis; pieces may overlap."""
    yield from _terminal_runs(caption)
    for match in _HASH.finditer(caption):
        yield Span(match.start(), match.end(), "hashtag", "", opens=True)
    yield from _scare_quotes(caption)
    for name, pattern in (("starred", _STARRED), ("underlined", _UNDERLINED)):
        for match in pattern.finditer(caption):
            yield Span(match.start(), match.end(), name, match[1])
    for match in _TILDE.finditer(caption):
        yield Span(match.start(), match.end(), "tilde", "")
    yield from _stretched_words(caption)
    yield from _shouted_words(caption)
    for match in _emoticons().finditer(caption):
        yield Span(match.start(), match.end(), "emoticon", "")
    for match in _EMOJI.finditer(caption):
        yield Span(match.start(), match.end(), "emoji", "")


def _terminal_runs(caption: str) -> Iterator[Span]:
    """Marks that end sentences, where they exclaim or repeat; plain ".", "?" are no cue."""
    for match in RUN.finditer(caption):
        start, end = match.span()
        marks = re.sub(r"\s", "", match[0])
        exclaims, dots = "!" in marks, "." in marks or "…" in marks
        spaced_dots = set(marks) == {"."} and ".." not in match[0]
        if (
            not exclaims
            and "…" not in marks
            and (len(marks) < 2 or (spaced_dots and len(marks) < 3))
        ):
            continue
        before, after = caption[:start].rstrip(), caption[end:]
        inside = start > 0 and caption[start - 1].isalnum() and after[:1].isalnum()
        if inside and marks == "!":
            continue
        last = not has_words(after)
        if not has_words(before) or before[-1] in ",;:-(":
            mark = ""
        elif "?" in marks:
            mark = "?"
        elif last:
            mark = "." if dots else ""
        else:
            mark = "." if exclaims else ","
        if mark and inside:
            mark += " "
        if mark == match[0]:
            continue
        yield Span(start, end, "exclamation" if exclaims else "repeated_marks", mark)


def _scare_quotes(caption: str) -> Iterator[Span]:
    marks = [match.start() for match in _QUOTE.finditer(caption)]
    for left, right in zip(marks[::2], marks[1::2], strict=False):
        inside = caption[left + 1 : right]
        count = len(words(inside))
        if 0 < count <= MAX_QUOTED_WORDS and not re.search(r"[.!?…,]", inside):
            yield Span(left, left + 1, "scare_quotes", "", opens=True)
            yield Span(right, right + 1, "scare_quotes", "")


def _stretched_words(caption: str) -> Iterator[Span]:
    lists = word_lists("style.txt")
    for match in _LETTERS.finditer(caption):
        word = match[0]
        if not _STRETCHED.search(word) or word.lower() in lists["not_elongated"]:
            continue
        yield Span(match.start(), match.end(), "elongation", _unstretched(word, lists["doubled"]))


def _unstretched(word: str, doubled: Sequence[str]) -> str:
    """The word with its long runs cut to one letter, or to two where the list knows that word."""
    single = re.sub(r"([A-Za-z])\1{2,}", r"\1", word)
    double = re.sub(r"([A-Za-z])\1{2,}", r"\1\1", word)
    return double if double.lower() in doubled else single


def _shouted_words(caption: str) -> Iterator[Span]:
    if not re.search(r"[a-z]", PLACEHOLDER.sub("", caption)):
        return
    lists = word_lists("style.txt")
    for match in _CAPITALS.finditer(caption):
        word = match[0]
        if word in lists["shouted"] or (len(word) >= 5 and word not in lists["acronyms"]):
            yield Span(match.start(), match.end(), "capitals", word.lower())


@functools.lru_cache(maxsize=1)
def _emoticons() -> re.Pattern[str]:
    entries = sorted(word_lists("style.txt")["emoticons"], key=len, reverse=True)
    return re.compile(rf"(?<!\S)(?:{'|'.join(map(re.escape, entries))})(?!\S)", re.IGNORECASE)


def inject_style(caption: str, rng: Random) -> Iterator[str]:
    """An ending mark and one word set off, then either alone, in seeded order."""
    endings = list(_endings(caption, rng))
    for _ in range(3):
        ending = rng.choice(endings) if endings else caption
        yield _set_off(ending, caption, rng)
    yield from endings
    for _ in range(5):
        yield _set_off(caption, caption, rng)


def _endings(caption: str, rng: Random) -> Iterator[str]:
    core = re.sub(r"(?:\s|<\w+>)+$", "", caption)
    rest = caption[len(core) :]
    gap = " " if is_tokenised(caption) else ""
    if core.endswith("?") and not core.endswith(("!?", "??")):
        yield f"{core}{gap}?{rest}"
        yield f"{core}{gap}!{rest}"
    elif core.endswith(".") and not core.endswith(".."):
        yield f"{core}..{rest}"
        yield f"{core}...{rest}"
    elif core[-1:].isalnum():
        marks = ["!", f"!{gap}!", f"!{gap}!{gap}!"]
        rng.shuffle(marks)
        for mark in marks:
            yield f"{core}{gap}{mark}{rest}"


def _set_off(text: str, caption: str, rng: Random) -> str:
    """One content word of the caption stretched, tagged, quoted or in capitals, inside `text`."""
    tokenised = is_tokenised(caption)
    stretched = dict(entry.split() for entry in word_lists("style.txt")["elongated"])
    places = [m for m in WORD.finditer(caption) if content_words(m[0]) and m[0].isalpha()]
    stretchable = [m for m in WORD.finditer(caption) if m[0] in stretched]
    if stretchable and rng.random() < 0.5:
        place = rng.choice(stretchable)
        return text[: place.start()] + stretched[place[0]] + text[place.end() :]
    if not places:
        return text
    place = rng.choice(places)
    word = place[0]
    forms = [f"# {word}", f'" {word} "'] if tokenised else [f"#{word}", f'"{word}"']
    # Capitals are no emphasis where everything is in small letters anyway.
    if caption != caption.lower() and word == word.lower() and len(word) >= 5:
        forms.append(word.upper())
    return text[: place.start()] + rng.choice(forms) + text[place.end() :]
