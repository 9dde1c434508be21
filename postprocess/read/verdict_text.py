"""Folding an answer to one spelling and cutting it into sentences, for `postprocess.read.verdict`.

Folding replaces characters one to one, so that offsets stay those of the answer, and it must stay
so. Every pattern here is bounded: the time grows with the length and no faster.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cached_property
from pathlib import Path

from postprocess.response.thoughts import blank_thoughts

WORDS: dict[str, frozenset[str]] = {
    name: frozenset(words)
    for name, words in json.loads(
        Path(__file__).with_name("verdict_words.json").read_text(encoding="utf-8")
    ).items()
}
"""The vocabulary by its use, in lower case; `verdict_words.json` is only data."""

EDGE = 50_000
"""Characters that are read from either end of an answer: ten times the longest chain of thought."""

OPTIONS = "\x01"
"""What stands in a folded text for each character of an echoed "Yes or No"."""


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
        ("…。।", "."),
        ("、", ","),
        ("→⇒➔", "="),
        ("\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"),
        ("\t\0\x01\xa0\xad\u1680\u180e\u202f\u205f\u2060\u3000\ufeff", " "),
        ("".join(map(chr, range(0x2000, 0x200E))), " "),
    ):
        table.update(dict.fromkeys(map(ord, characters), plain))
    return table


_FOLDING = _folding()
_YES_NO = "|".join(sorted(WORDS["yes"] | WORDS["no"]))
_TAG = re.compile(r"<\|?/?[a-z_]{1,20} ?/?\|?>|\[/?inst\]")
_STYLE_TAG = re.compile(r"</?(?:b|i|u|em|strong|code|span|mark|text)>")
_LABEL_TAG = re.compile(r"<(answer|verdict|conclusion|decision|response|output)>")
_LATEX = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:bf|rm)) ?\{")
_DIRECTED = re.compile(r"[“„«「『][^“”„«»「」『』]{1,600}[”“»」』]")
_QUOTED = re.compile(
    r"(?<![\w\"])\"(?=\S)(?:[^\"]{1,600}\"|[^\"\n]{1,600})"
    r"|(?<!\w)'(?=\w)(?:[^'\n]|(?<=\w)'(?=\w)){1,400}'(?!\w)"
)
_ANNOUNCED = re.compile(r"(?:answer|verdict|conclusion|response|output)[\"'*_` ]*(?:[:=]|is) *\Z")
_OPTIONS = re.compile(
    rf"(?<!\w)(?:{_YES_NO})(?!\w)[\W_]{{0,12}}(?:(?<!\w)(?:or|nor|vs|versus)(?!\w)|[/|])[\W_]{{0,12}}"
    rf"(?:(?:verdict|answer)[\W_]{{0,4}})?(?<!\w)(?:{_YES_NO}|not)(?!\w)"
)
_END = re.compile(r"\n+|[!?]+|;|\.+(?=[\s\"')\]}*_~`$]|\Z)")
_WORD = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+(?:'[^\W_]+)*")
_NUMBER_SIGN = re.compile(r"(?<!\w)no ?\Z")
_NUMBER_NEXT = re.compile(r" *\d")
_ABBREVIATION = re.compile(r"(?:(?<!\w)(?:dr|mr|mrs|ms|prof|vs|st)|(?<!\w)[a-z]\.[a-z])\Z")
_TURN = re.compile(
    r"\n[ \t]*(?:#{2,}[ \t]*(?=\n)|(?:#{1,6} ?|\*\*)?(?:user|human|instruction|question|input|q)"
    r"(?:\*\*)?[ \t]*:)"
    r"|</s>|<\|(?:im_end|endoftext|eot_id|end|eos)\|>|<(?:end_of_turn|eos)>"
)


class Sentence:
    """One sentence of a folded text."""

    def __init__(self, text: str, start: int, stop: int, mark: str, before: str) -> None:
        """The sentence between two offsets, the mark that ends it, the text before it."""
        self.text, self.start, self.stop, self.before = text, start, stop, before
        self.mark, self.asks = mark, "?" in mark
        self.body = text[start:stop]

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Offsets of the words in the answer."""
        return [match.span() for match in _WORD.finditer(self.text, self.start, self.stop)]

    @cached_property
    def words(self) -> list[str]:
        """The words."""
        return [self.text[a:b] for a, b in self.spans]

    @cached_property
    def gaps(self) -> list[str]:
        """`gaps[i]` stands before word i, the last one behind the last word."""
        edges = [self.start, *(at for span in self.spans for at in span), self.stop]
        return [self.text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]


def fold(text: str) -> str:
    r"""The text in one case and spelling, of the same length.

    Thoughts, tags and quotations become spaces, and so does the middle of an endless answer.

    >>> fold("“Yes” — it is\xa0<b>ＮＯ</b>")
    '"yes" — it is    no    '
    """
    text = blank_thoughts(_DIRECTED.sub(_unquote, text).translate(_FOLDING))
    if len(text) > 2 * EDGE:
        head, tail = text[:EDGE], text[-EDGE:]
        # A word cut in two is no word.
        head = head[: max(head.rfind(" "), head.rfind("\n"), 0)]
        tail = tail[min(at for at in (tail.find(" "), tail.find("\n"), EDGE) if at >= 0) :]
        text = head + "\n" * (len(text) - len(head) - len(tail)) + tail
    text = _LATEX.sub(_spaces, text.replace("\\boxed{", " boxed:"))
    if "<" in text or "[" in text:
        text = _TAG.sub(_untag, text)
    text = _QUOTED.sub(_unquote, text)
    return _OPTIONS.sub(lambda match: OPTIONS * len(match.group()), text)


def first_turn(text: str) -> int | None:
    r"""Where the answer ends if a base model ran on into the next exercise or turn, else None.

    Such a turn begins behind an end-of-turn token, at a line of number signs, or at a line that a
    user's label begins. Nothing in it is part of the answer.

    >>> first_turn("No\n\nUser: Is it sarcastic?\nAssistant: Yes")
    3
    """
    turn = _TURN.search(blank_thoughts(text.translate(_FOLDING)))
    return None if turn is None else turn.start()


def sentences(text: str) -> list[Sentence]:
    """The sentences of a folded text that hold a word or echoed options, in order."""
    found: list[Sentence] = []
    start = at = 0
    for end in [*_END.finditer(text), None]:
        stop, mark = (len(text), "") if end is None else (end.start(), end.group())
        if mark == ".":
            ending = text[max(start, stop - 8) : stop]
            numbers = _NUMBER_SIGN.search(ending) and _NUMBER_NEXT.match(text, stop + 1)
            # "No. 5" and "Dr. No" go on.
            if numbers or _ABBREVIATION.search(ending):
                continue
        if OPTIONS in text[start:stop] or _WORD.search(text, start, stop):
            found.append(Sentence(text, start, stop, mark, text[at:start]))
            at = stop
        start = stop + len(mark)
    return found


def _spaces(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _untag(match: re.Match[str]) -> str:
    """A tag as white space of its length: none of its letters is the model's word."""
    tag = match.group()
    if tag.strip("</> ") in WORDS["yes"] | WORDS["no"]:
        return tag
    if label := _LABEL_TAG.fullmatch(tag):
        return f" {label.group(1)}:"
    return ("" if _STYLE_TAG.fullmatch(tag) else "\n").ljust(len(tag))


def _unquote(match: re.Match[str]) -> str:
    """A quotation as spaces: it is the caption's voice, not the model's.

    Unless it is the whole answer, one word that stands for itself, or what a label announces.
    """
    quoted, text = match.group(), match.string
    before, behind = (
        text[max(0, match.start() - 40) : match.start()],
        text[match.end() : match.end() + 40],
    )
    whole = match.start() < 40 and not before.strip() and not behind.strip(" .\n")
    own = re.fullmatch(r".[^\w\s]?\w{1,20}\W?.?", quoted) and not re.match(r" *\w", behind)
    if whole or own or _ANNOUNCED.search(before.lower()):
        return quoted
    return quoted[0] + re.sub(r"[^\n]", " ", quoted[1:-1]) + quoted[-1]
