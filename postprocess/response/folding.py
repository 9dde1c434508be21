"""Folding an answer to one spelling and cutting it into sentences, for the reader of verdicts.

Folding takes thoughts, chat tokens and quotations off. It replaces characters one to one, so that
offsets stay those of the answer, and it must stay so. Every pattern here is bounded: the time
grows with the length and no faster.

The harness strips blocks of reasoning that are closed, in the tags it was told of. What it leaves
is a thought cut at the token limit, and blocks in tags it does not know. Nothing that stands in a
thought is an answer, so the readers, of verdicts and of option letters, must never see it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property
from itertools import pairwise

EDGE = 50_000
"""Characters that are read from either end of an answer: ten times the longest chain of thought."""

MAX_SENTENCE = 5_000
"""A sentence of more characters is none: it is passed over."""

MASK = "\x01"
"""What a reader may put in the place of characters that are no words; folding leaves none."""


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
_TAG = re.compile(r"<\|?/?(?!yes>|no>)[a-z_]{1,20} ?/?\|?>|\[/?inst\]")
_STYLE_TAG = re.compile(r"</?(?:b|i|u|em|strong|code|span|mark|text)>")
_LABEL_TAG = re.compile(r"<(answer|verdict|conclusion|decision|response|output)>")
_LATEX = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:bf|rm)) ?\{")
_DIRECTED = re.compile(r"[“„«「『][^“”„«»「」『』]{1,600}[”“»」』]")
_QUOTED = (
    re.compile(r"\"(?<![\w\"].)(?=\S)(?:[^\"]{1,600}\"|[^\"\n]{1,600})"),
    re.compile(r"'(?<!\w.)(?=\w)(?:[^'\n]|(?<=\w)'(?=\w)){1,400}'(?!\w)"),
)
_ANNOUNCED = re.compile(r"(?:answer|verdict|conclusion|response|output)[\"'*_` ]*(?:[:=]|is) *\Z")
_END = re.compile(r"[.!?;\n]+")
_BEHIND_STOP = " \"')]}*_~`$"
_WORD = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+(?:'[^\W_]+)*")
_ABBREVIATIONS = frozenset({"dr", "mr", "mrs", "ms", "prof", "vs", "st"})
_TURN = re.compile(
    r"\n[ \t]*(?:#{2,}[ \t]*(?=\n)|(?:#{1,6} ?|\*\*)?(?:user|human|instruction|question|input|q)"
    r"(?:\*\*)?[ \t]*:)"
    r"|</s>|<\|(?:im_end|endoftext|eot_id|end|eos)\|>|<(?:end_of_turn|eos)>"
)
_NAMES = "antthinking|seed:think|think(?:ing)?|thoughts?|analysis|reasoning|reflection|scratchpad"
_THOUGHT = re.compile(
    rf"(?:< ?\|?|◁) ?(?P<end>/|end_(?:of_)?)? ?(?:(?:begin|start)_(?:of_)?)?(?P<name>{_NAMES})"
    r" ?(?:\|? ?>|▷)"
    r"|\[(?P<square_end>/)?think(?:ing)?\]",
    re.IGNORECASE,
)


class Sentence:
    """One sentence of a folded text."""

    def __init__(self, text: str, start: int, stop: int, mark: str, before: str) -> None:
        """The sentence between two offsets, the mark that ends it, the text before it."""
        self.text, self.start, self.stop, self.before = text, start, stop, before
        self.mark, self.asks = mark, "?" in mark
        self.body = text[start:stop] if stop - start <= MAX_SENTENCE else ""
        self.previous: Sentence | None = None
        self.following: Sentence | None = None

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Offsets of the words in the answer."""
        stop = self.start + len(self.body)
        return [match.span() for match in _WORD.finditer(self.text, self.start, stop)]

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
    if "\\" in text:
        text = text.replace("\\boxed{", " boxed:")
        text = _LATEX.sub(lambda match: " " * len(match.group()), text)
    if "<" in text or "[" in text:
        text = _TAG.sub(_untag, text)
    for quoted in _QUOTED:
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


def sentences(text: str) -> list[Sentence]:
    """The sentences of a folded text that hold a word or a masked place, in order."""
    found: list[Sentence] = []
    start = at = 0
    for end in [*_END.finditer(text), None]:
        stop, mark = (len(text), "") if end is None else (end.start(), end.group())
        after = text[stop + len(mark) : stop + len(mark) + 1]
        if mark and not mark.strip(".") and after and after not in _BEHIND_STOP:
            continue
        if mark == ".":
            last = text[max(start, stop - 8) : stop].rpartition(" ")[2]
            # "No. 5", "Dr. No" and "e.g. this" go on.
            numbers = last in ("", "no") and text[stop + 1 : stop + 3].strip()[:1].isdigit()
            if numbers or last in _ABBREVIATIONS or last[1:2] == ".":
                continue
        if MASK in text[start:stop] or _WORD.search(text, start, stop):
            found.append(Sentence(text, start, stop, mark, text[at:start]))
            at = stop
        start = stop + len(mark)
    for one, other in pairwise(found):
        one.following, other.previous = other, one
    return found


def blank_thoughts(text: str) -> str:
    r"""The text with each thought, tags included, as spaces and a line break of the same length.

    A thought runs from its opening tag to the closing tag of the same name; without one, to the
    end of the text. A closing tag that nothing opened ends a thought that began with the text:
    some chat templates write the opening tag into the prompt.

    >>> blank_thoughts("<think>No.</think>Yes").split()
    ['Yes']
    >>> blank_thoughts("So it is plain.</think>No").split()
    ['No']
    >>> blank_thoughts("Yes <think>Or no").split()
    ['Yes']
    """
    if not any(opening in text for opening in "<[◁"):
        return text
    thoughts: list[tuple[int, int]] = []
    opened: tuple[str, int] | None = None
    for tag in _THOUGHT.finditer(text):
        name = (tag["name"] or "[think]").lower()
        closes = bool(tag["end"] or tag["square_end"])
        if opened is None:
            if closes:
                thoughts = [(0, tag.end())]
            else:
                opened = name, tag.start()
        elif closes and name == opened[0]:
            thoughts.append((opened[1], tag.end()))
            opened = None
    if opened is not None:
        thoughts.append((opened[1], len(text)))
    pieces: list[str] = []
    at = 0
    for start, end in thoughts:
        pieces += (text[at:start], " " * (end - start - 1), "\n")
        at = end
    return "".join([*pieces, text[at:]])


def _untag(match: re.Match[str]) -> str:
    """A tag as white space of its length: none of its letters is the model's word."""
    tag = match.group()
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
