"""The OCR cue: words read off the picture, or words in the manner of overlay text.

The picture stays as it is: both edits are made in the caption.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from random import Random

from lmms_eval_tasks.pragmatch.make.cues.text import (
    RUN,
    WORD,
    Span,
    content_words,
    is_tokenised,
    word_lists,
    words,
)

MIN_SHARED_CHARS = 3
"""A shorter word on the picture is no evidence that the caption reads it."""
MIN_PART_CHARS = 6
"""Text recognition glues words together; a caption word this long may be found inside one."""


@functools.lru_cache(maxsize=1)
def _overlay() -> re.Pattern[str]:
    lists = word_lists("ocr.txt")
    spaced = {
        name: "|".join(
            r"\s+".join(map(re.escape, phrase.split()))
            for phrase in sorted(lists[name], key=len, reverse=True)
        )
        for name in ("head", "tail")
    }
    return re.compile(
        rf"(?:^|(?<=[.!?…]))\s*(?P<head>(?:{spaced['head']})\s?:(?!\S*[)(]))"
        rf"|(?<![\w'’])(?P<tail>{spaced['tail']})(?![\w'’])",
        re.IGNORECASE,
    )


def find_ocr(caption: str, picture_text: str | None) -> Iterator[Span]:
    """Overlay phrases, and words that stand on the picture where its text is known."""
    for match in _overlay().finditer(caption):
        start, end = match.span("head" if match["head"] else "tail")
        before, after = caption[:start].rstrip(), caption[end:].lstrip()
        marks = RUN.match(after)
        if match["tail"] and before.endswith("(") and after.startswith(")"):
            start, end = len(before) - 1, len(caption) - len(after) + 1
        elif match["tail"] and marks and (not before or before[-1] in ".!?…"):
            end = len(caption) - len(after) + marks.end()
        yield Span(start, end, "overlay_text", "")
    if picture_text:
        yield from _shared_words(caption, picture_text)


def shared_words(caption: str, picture_text: str) -> list[str]:
    r"""The content words of a caption that also stand on the picture, in the caption's order.

    >>> shared_words("a sign that says stop", "STOP\nALL WAY")
    ['stop']
    """
    on_picture = {word.casefold() for word in words(picture_text)}
    long = [word for word in on_picture if len(word) > MIN_PART_CHARS]

    def shared(word: str) -> bool:
        folded = word.casefold()
        if len(folded) < MIN_SHARED_CHARS:
            return False
        return folded in on_picture or (
            len(folded) >= MIN_PART_CHARS and any(folded in other for other in long)
        )

    return [word for word in content_words(caption) if shared(word)]


def _shared_words(caption: str, picture_text: str) -> Iterator[Span]:
    shared = set(shared_words(caption, picture_text))
    if not shared:
        return
    tokens = list(WORD.finditer(caption))
    index = 0
    while index < len(tokens):
        if tokens[index][0] not in shared:
            index += 1
            continue
        first = last = index
        while last + 1 < len(tokens) and tokens[last + 1][0] in shared:
            if re.search(r"[.!?,;:]", caption[tokens[last].end() : tokens[last + 1].start()]):
                break
            last += 1
        yield _phrase_span(caption, tokens, first, last)
        index = last + 1


def _phrase_span(caption: str, tokens: list[re.Match[str]], first: int, last: int) -> Span:
    """A run of shared words with what would hang in the air without it.

    A following "'s" goes with the run. A hash or at sign before it goes. Articles, prepositions
    and conjunctions that lead up to it go where nothing follows that they could lead to.
    """
    lists = word_lists("words.txt")
    start, end = tokens[first].start(), tokens[last].end()
    if clitic := re.match(r"\s?['’](?:s|d|ll|re|ve|m)\b", caption[end:]):
        end += clitic.end()
    if sign := re.search(r"[#@]+\s?$", caption[:start]):
        start = sign.start()
    following = re.match(r"\s*(<\w+>|[\w]+|$|[^\w\s])", caption[end:])
    after = following[1].casefold() if following else ""
    closed = ("prepositions", "conjunctions", "determiners", "subjects", "auxiliaries")
    leads_nowhere = not after[:1].isalnum() or any(after in lists[group] for group in closed)
    index = first - 1
    if leads_nowhere:
        for group in ("determiners", "prepositions", "conjunctions"):
            if (
                index >= 0
                and tokens[index][0].casefold() in lists[group]
                and not caption[tokens[index].end() : start].strip()
            ):
                start = tokens[index].start()
                index -= 1
    return Span(start, end, "shared_word", "")


def inject_ocr(caption: str, rng: Random) -> Iterator[str]:
    """The caption with an overlay phrase before or after it, in seeded order."""
    lists = word_lists("ocr.txt")
    gap = " " if is_tokenised(caption) else ""
    body = caption.rstrip()
    rest = caption[len(body) :]
    heads = [f"{phrase}{gap}: {caption}" for phrase in lists["head"]]
    # A button's text stands in brackets where no mark ends the caption.
    left, right = (f"({gap}", f"{gap})") if body[-1:].isalnum() else ("", "")
    tails = [f"{body} {left}{phrase}{right}{rest}" for phrase in lists["tail"]]
    if caption[:1].isupper():
        heads = [f"{head[:1].upper()}{head[1:]}" for head in heads]
    candidates = heads + tails
    rng.shuffle(candidates)
    yield from candidates
