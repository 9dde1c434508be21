"""Folding an answer to one spelling and cutting it into sentences, for `postprocess.read.verdict`.

Folding replaces characters one to one, so that offsets stay those of the answer, and it must stay
so. Every pattern here is bounded: the time grows with the length and no faster.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from postprocess.read import verdict_words as vocabulary
from postprocess.response.thoughts import blank_thoughts


def _folding() -> dict[int, str]:
    """One character for each that answers write in more than one way."""
    table = {code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)}
    # Full-width forms, and the mathematical alphabets that stand in for bold and italics.
    for code in (*range(0xFF01, 0xFF5F), *range(0x1D400, 0x1D800)):
        plain = unicodedata.normalize("NFKC", chr(code))
        if len(plain) == 1 and plain.isascii():
            table[code] = plain.lower()
    for characters, plain in (
        ("‘’‚‛ʼ′´＇", "'"),
        ("“”„‟«»″＂「」『』", '"'),
        ("‐‑", "-"),
        ("‒–—―−", "—"),
        ("…。", "."),
        ("、", ","),
        ("→⇒➔", "="),
        ("\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"),
        ("\t\0\xa0\xad\u1680\u180e\u202f\u205f\u2060\u3000\ufeff", " "),
        ("".join(map(chr, range(0x2000, 0x200E))), " "),
    ):
        table.update(dict.fromkeys(map(ord, characters), plain))
    return table


_FOLDING = _folding()
_TAG = re.compile(r"<\|?/?[a-z_]{1,20} ?/?\|?>|\[/?inst\]")
_STYLE_TAG = re.compile(r"</?(?:b|i|u|em|strong|code|span|mark|text)>")
_LABEL_TAG = re.compile(r"<(answer|verdict|conclusion|decision|response|output)>")
_DOUBLE_QUOTED = re.compile(r'"[^"\n]{1,400}"')
_SINGLE_QUOTED = re.compile(r"(?<!\w)'(?=\w)(?:[^'\n]|(?<=\w)'(?=\w)){1,400}'(?!\w)")
_ANSWER_LABEL = re.compile(r"(?:answer|verdict|conclusion|response|output)[\"'*_` ]*[:=] *\Z")
_MAX_QUOTED_WORDS = 3
_END = re.compile(r"\n+|[!?]+|;|\.+(?=[\s\"')\]}*_~`$]|\Z)")
_WORD = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+(?:'[^\W_]+)*")
_NUMBER_SIGN = re.compile(r"(?<!\w)no ?\Z")
_NUMBER_NEXT = re.compile(r" *\d")
_TURN = re.compile(
    r"\n[ \t]*(?:#{2,}[ \t]*(?=\n)|(?:#{1,6} ?|\*\*)?(?:user|human|instruction|question|input|q)"
    r"(?:\*\*)?[ \t]*:)"
    r"|</s>|<\|(?:im_end|endoftext|eot_id|end|eos)\|>|<(?:end_of_turn|eos)>"
)
_ABBREVIATION = re.compile(r"(?:(?<!\w)(?:dr|mr|mrs|ms|prof|vs|st)|(?<!\w)[a-z]\.[a-z])\Z")

_TELLING_WORDS = "|".join(sorted(vocabulary.YES | vocabulary.NO | vocabulary.LABELS | {"not"}))
_TELLING = re.compile(
    rf"(?<![^\W_])(?:{_TELLING_WORDS})(?![^\W_])"
    r"|sarcas|n't|(?:it|this|they) (?:is|are)(?=\W{0,20}\Z)"
)
_APART = re.compile(r"[^\w']")

MAX_SENTENCE = 5_000
"""Characters in one piece of a sentence that has no end."""

MAX_TELLING = 50_000
"""Characters of telling sentences that are read from either end of an answer.

Two to ten times what the longest chain of thought, 1,024 tokens, comes to.
"""

SOFT = " \n*_`~"
"""Characters that part words without ending a phrase: white space and emphasis."""


class Span(NamedTuple):
    """Where a sentence stands in the answer."""

    start: int
    stop: int
    asks: bool
    """Whether it ends in a question mark."""


class Sentence(NamedTuple):
    """One sentence's words with the text between them."""

    words: list[str]
    spans: list[tuple[int, int]]
    """Offsets of the words in the answer."""
    gaps: list[str]
    """`gaps[i]` stands before word i, the last one behind the last word."""
    asks: bool
    """Whether it ends in a question mark."""
    polar: list[int | None]
    """1 or 0 where a word is a yes or a no that may be a verdict."""
    options: set[int]
    """The words of echoed options, "Yes or No"."""


def fold(text: str) -> str:
    r"""The text in one case and spelling, of the same length, tags and quotations blanked.

    A thought in tags is blanked too, closed or cut (`postprocess.response.thoughts`).

    >>> fold("“Yes” — it is\xa0<b>ＮＯ</b>")
    '"yes" — it is    no    '
    """
    text = text.translate(_FOLDING)
    text = blank_thoughts(text)
    if "<" in text or "[" in text:
        text = _TAG.sub(_untag, text)
    for quoted in (_DOUBLE_QUOTED, _SINGLE_QUOTED):
        text = quoted.sub(_unquote, text)
    return text


def first_turn(text: str) -> int | None:
    r"""Where the answer ends if a base model ran on into the next exercise or turn, else None.

    Such a turn begins behind an end-of-turn token, at a line of number signs, or at a line that a
    user's label begins. Nothing in it is part of the answer.

    >>> first_turn("No\n\nUser: Is it sarcastic?\nAssistant: Yes")
    3
    """
    turn = _TURN.search(blank_thoughts(text.translate(_FOLDING)))
    return None if turn is None else turn.start()


def spans(text: str) -> list[Span]:
    """Where the sentences of a folded text are that hold a word, in order.

    One of more than `MAX_SENTENCE` characters is cut between words.
    """
    found: list[Span] = []
    start = 0
    for end in _END.finditer(text):
        stop = end.start()
        if end.group() == ".":
            ending = text[max(start, stop - 8) : stop]
            numbers = _NUMBER_SIGN.search(ending) and _NUMBER_NEXT.match(text, end.end())
            # "No. 5" and "Dr. No" go on.
            if numbers or _ABBREVIATION.search(ending):
                continue
        found.extend(_cut(text, start, stop, "?" in end.group()))
        start = end.end()
    found.extend(_cut(text, start, len(text), asks=False))
    return found


def telling(text: str, found: list[Span]) -> list[int]:
    """Which sentences, by their place, hold a word that a verdict could rest on.

    Of an endless answer only what begins it and what ends it: `MAX_TELLING` characters each.
    """
    places = [k for k, span in enumerate(found) if _TELLING.search(text, span.start, span.stop)]
    kept: set[int] = set()
    for direction in (places, places[::-1]):
        size = 0
        for k in direction:
            size += found[k].stop - found[k].start
            if size > MAX_TELLING:
                break
            kept.add(k)
    return sorted(kept)


def sentence_at(text: str, span: Span) -> Sentence:
    """The words of one sentence of a folded text."""
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    gaps: list[str] = []
    at = span.start
    for match in _WORD.finditer(text, span.start, span.stop):
        words.append(match.group())
        spans.append(match.span())
        gaps.append(text[at : match.start()])
        at = match.end()
    gaps.append(text[at : span.stop])
    polar = [1 if w in vocabulary.YES else 0 if w in vocabulary.NO else None for w in words]
    sentence = Sentence(words, spans, gaps, span.asks, polar, set())
    _mask_compounds(sentence)
    _mask_options(sentence)
    return sentence


def stands_alone(sentence: Sentence, i: int) -> bool:
    """Whether the yes or no at word i is said for itself.

    Not where it is a determiner ("no dog"), the short form of number ("No. 5"), or spoken about
    ("Yes if it is sarcastic", "No otherwise").
    """
    words, gaps = sentence.words, sentence.gaps
    if i + 1 == len(words):
        return words[i] != "no" or i == 0 or words[i - 1] != "oh"
    following, gap = words[i + 1], gaps[i + 1].strip(SOFT)
    if gap in ("'", '"') and gaps[i + 1][0] == " ":
        # A quotation mark behind a space opens what follows.
        gap = ""
    if following in vocabulary.MEANINGS and not set(gap) - set("\"'(),"):
        return words[i + 1 : i + 3] == ["if", "anything"]
    if following == "for" and i + 2 < len(words):
        target = words[i + 2]
        if vocabulary.SARCASM.match(target) or target in ("non", "not", "literal"):
            return False
    if words[i] != "no":
        # "the Yes Men"
        named = i > 0 and words[i - 1] in ("the", "a", "my")
        return bool(gap) or not named or following in vocabulary.CLAUSE_STARTERS
    if i > 0 and words[i - 1] == "oh":
        return False
    if following[0].isdigit() and gap.startswith("."):
        return False
    return bool(gap) or following in vocabulary.CLAUSE_STARTERS


def _untag(match: re.Match[str]) -> str:
    """A tag as white space of its length: none of its letters is the model's word."""
    tag = match.group()
    if tag.strip("</> ") in vocabulary.YES | vocabulary.NO:
        return tag
    if label := _LABEL_TAG.fullmatch(tag):
        return f" {label.group(1)}:"
    return ("" if _STYLE_TAG.fullmatch(tag) else "\n").ljust(len(tag))


def _unquote(match: re.Match[str]) -> str:
    """A quotation of more than a few words as spaces: it is the caption's voice, not the model's.

    Unless the quotation is the whole answer, or what a label announces.
    """
    quoted = match.group()
    if len(quoted.split(maxsplit=_MAX_QUOTED_WORDS)) <= _MAX_QUOTED_WORDS:
        return quoted
    text, start, end = match.string, match.start(), match.end()
    before = text[max(0, start - 40) : start]
    whole = start < 40 and not before.strip() and not text[end : end + 40].strip(" .\n")
    if whole or _ANSWER_LABEL.search(before):
        return quoted
    return quoted[0] + " " * (len(quoted) - 2) + quoted[-1]


def _cut(text: str, start: int, stop: int, asks: bool) -> Iterator[Span]:
    """The sentence between two offsets, in pieces if it is very long."""
    while start < stop:
        end = stop
        if stop - start > MAX_SENTENCE:
            apart = _APART.search(text, start + MAX_SENTENCE, stop)
            end = apart.start() if apart else stop
        if _WORD.search(text, start, end):
            yield Span(start, end, asks)
        start = end


def _mask_compounds(sentence: Sentence) -> None:
    """Take the polarity from "no-one", "yes-man" and the like."""
    words, gaps, polar = sentence.words, sentence.gaps, sentence.polar
    for i, value in enumerate(polar):
        if value is None:
            continue
        left = i > 0 and gaps[i] == "-" and words[i - 1] not in vocabulary.LABELS
        right = i + 1 < len(words) and gaps[i + 1] == "-" and polar[i + 1] is None
        if (left and words[i - 1] not in vocabulary.YES | vocabulary.NO) or right:
            polar[i] = None


def _mask_options(sentence: Sentence) -> None:
    """Take the polarity from both of "Yes or No", "yes/no", "Verdict: Yes or Verdict: No"."""
    words, gaps, polar = sentence.words, sentence.gaps, sentence.polar
    first: int | None = None
    for i, value in enumerate(polar):
        if value is None:
            continue
        if words[i + 1 : i + 3] == ["or", "not"]:
            polar[i] = None
            sentence.options.update((i, i + 1, i + 2))
            continue
        if first is not None and polar[first] != value and i - first <= 6:
            between = words[first + 1 : i]
            if between:
                joined = vocabulary.COORDINATED.issuperset(
                    between
                ) and not vocabulary.COORDINATORS.isdisjoint(between)
            else:
                joined = not set(gaps[i]) - set(" *_`~\"'/|,\\&-—+()[]<>")
                # "No — yes, it does not match" answers first.
                joined = joined and ("—" not in gaps[i] or i + 1 == len(words))
            if joined and stands_alone(sentence, i):
                polar[first] = polar[i] = None
                sentence.options.update(range(first, i + 1))
                first = None
                continue
        first = i
