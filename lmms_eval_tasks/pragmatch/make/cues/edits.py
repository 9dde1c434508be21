"""The cue edits: take a surface cue out of a caption (mask) or put one in (inject).

An edit is a function of caption and seed alone, works on MMSD2.0's tokenised text and on ordinary
English, and must never touch a word that is not part of a cue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from lmms_eval_tasks.pragmatch.make.cues.lexical import find_lexical, inject_lexical
from lmms_eval_tasks.pragmatch.make.cues.ocr import find_ocr, inject_ocr
from lmms_eval_tasks.pragmatch.make.cues.style import find_style, inject_style
from lmms_eval_tasks.pragmatch.make.cues.text import WORD, Span, content_words, words
from postprocess.benchmarks.pragmatch_tasks import CUES

_PASSES = 12

_FINDERS: dict[str, Callable[[str, str | None], Iterator[Span]]] = {
    "lexical": lambda caption, _: find_lexical(caption),
    "style": lambda caption, _: find_style(caption),
    "ocr": find_ocr,
}
_INJECTIONS: dict[str, Callable[[str, Random], Iterator[str]]] = {
    "lexical": inject_lexical,
    "style": inject_style,
    "ocr": inject_ocr,
}


def detect(caption: str, cue: str, picture_text: str | None = None) -> list[Span]:
    """Find a cue's pieces in a caption.

    Args:
        caption: The caption, tokenised or not.
        cue: `lexical`, `style` or `ocr`.
        picture_text: The text on the picture, where it is known; used by `ocr` alone.

    Returns:
        Pieces in their order, not overlapping; empty where the cue is absent.

    Raises:
        ValueError: The cue is none of the three.

    >>> [span.name for span in detect("so happy ! # monday lol", "style")]
    ['exclamation', 'hashtag']
    """
    if cue not in _FINDERS:
        raise ValueError(f"unknown cue {cue!r}; known: {', '.join(CUES)}")
    found = _FINDERS[cue](caption, picture_text)
    spans: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end)):
        if not spans or span.start >= spans[-1].end:
            spans.append(span)
    return spans


def mask(caption: str, cue: str, picture_text: str | None = None) -> str | None:
    """Take a cue out of a caption.

    Afterwards the detector finds nothing, and every word outside the cue stands where it stood.

    Args:
        caption: The caption.
        cue: `lexical`, `style` or `ocr`.
        picture_text: As for `detect`.

    Returns:
        The masked caption, or None where the cue is absent or no content word would remain.

    >>> mask("yup lol , that 's a giraffe", "lexical")
    "yup , that 's a giraffe"
    >>> mask("lol", "lexical") is None
    True
    """
    spans = detect(caption, cue, picture_text)
    others = _words_outside(caption, spans)
    text = caption
    for _ in range(_PASSES):
        if not spans:
            break
        text = _apply(text, spans)
        # Taking one piece out can bring two others together, or leave half of it ("SOOOO").
        spans = detect(text, cue, picture_text)
    if spans or text == caption or not content_words(text):
        return None
    # "yeah lol right" would lose words that were no cue when it began.
    return text if _in_order(others, words(text)) else None


def inject(caption: str, cue: str, rng: Random, picture_text: str | None = None) -> str | None:
    """Put a cue into a caption.

    Where the caption had no such cue, masking the result gives the caption back.

    Args:
        caption: The caption.
        cue: `lexical`, `style` or `ocr`.
        rng: Decides which cue and where; the same state gives the same edit.
        picture_text: Not drawn on: injected overlay text comes from the list, so that all
            pictures get the same kind. It says only which captions have the cue already.

    Returns:
        The caption with the cue, or None where the caption has no content word to begin with.

    >>> inject("a dog on a couch", "lexical", Random(3))
    'a dog on a couch lol'
    """
    if cue not in CUES:
        raise ValueError(f"unknown cue {cue!r}; known: {', '.join(CUES)}")
    if not content_words(caption):
        return None
    before = len(detect(caption, cue, picture_text))
    for candidate in _INJECTIONS[cue](caption, rng):
        if before == 0:
            accepted = mask(candidate, cue, picture_text) == caption
        else:
            accepted = len(detect(candidate, cue, picture_text)) > before
        if accepted:
            return candidate
    return None


def _words_outside(caption: str, spans: Sequence[Span]) -> list[str]:
    return [
        match.group()
        for match in WORD.finditer(caption)
        if not any(match.start() < span.end and span.start < match.end() for span in spans)
    ]


def _in_order(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether `part` is `whole` with some elements left out."""
    rest = iter(whole)
    return all(word in rest for word in part)


def _apply(text: str, spans: Sequence[Span]) -> str:
    """Write each span's replacement, and close the gap where nothing is written."""
    out, position = "", 0
    for span in spans:
        out += text[position : span.start]
        position = span.end
        if span.replacement:
            out += span.replacement
        elif out[-1:].isalnum() and text[position : position + 1].isalnum():
            out += " "
        elif span.opens:
            position += _one_space(text, position)
        elif not out.strip():
            out, position = out.rstrip(), position + _spaces(text, position)
        elif position == len(text) or text[position].isspace() or not text[position].isalnum():
            out = out.rstrip()
    return out + text[position:]


def _one_space(text: str, position: int) -> int:
    return int(text[position : position + 1] in (" ", "\t"))


def _spaces(text: str, position: int) -> int:
    rest = text[position:]
    return len(rest) - len(rest.lstrip())
