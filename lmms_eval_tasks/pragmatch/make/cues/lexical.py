"""The lexical cue: overt markers such as "lol", found and put in."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from lmms_eval_tasks.pragmatch.make.cues.text import (
    RUN,
    Span,
    has_words,
    is_tokenised,
    markers,
    word_lists,
)


def find_lexical(caption: str) -> Iterator[Span]:
    """Markers, each with the punctuation that belongs to it alone."""
    for match in markers().finditer(caption):
        start, end = match.span()
        before, after = caption[:start].rstrip(), caption[end:].lstrip()
        begins = not before or before[-1] in ".!?…"
        marks = RUN.match(after)
        if before.endswith("(") and after.startswith(")"):
            start, end = len(before) - 1, len(caption) - len(after) + 1
        elif begins and after[:1] in (",", ":") and after[1:2] != ")":
            # "lol , that 's": the comma belonged to the marker.
            end = len(caption) - len(after) + 1
        elif begins and marks and not after[marks.end() :][:1].isalnum():
            # ". lol .": a sentence of its own goes with its full stop.
            end = len(caption) - len(after) + marks.end()
        elif before.endswith(",") and not has_words(after[:1]) and (not after or after[0] in ".!?"):
            start = len(before) - 1
        yield Span(start, end, "marker", "")


def inject_lexical(caption: str, rng: Random) -> Iterator[str]:
    """The caption with a marker at its start or end, in seeded order."""
    markers = [
        marker.replace("{#}", "# " if is_tokenised(caption) else "#")
        for marker in word_lists("lexical.txt")["inject"]
    ]
    rng.shuffle(markers)
    at_start = rng.random() < 0.5 and caption[:1].islower()
    body = caption.rstrip()
    tail = caption[len(body) :]
    for marker in markers:
        gap = " " if is_tokenised(caption) else ""
        front = f"{marker}{gap}, {caption}" if " " in marker else f"{marker} {caption}"
        # A phrase needs a comma where no mark ends the caption.
        pause = f"{gap}," if " " in marker and body[-1:].isalnum() else ""
        back = f"{body}{pause} {marker}{tail}"
        if at_start and not marker.startswith("#"):
            yield from (front, back)
        else:
            yield from (back, front)
