"""Reading a verdict, Yes (sarcastic) or No, out of a model's answer.

Two layers. What is *stated*: a yes or no that opens a direct answer or is all of it, one behind a
label ("Verdict: No", JSON, a box, a tag), and in a chain of thought the last one that is labelled
or closes it. What may be *inferred*: a sentence that decides ("The caption is not sarcastic"),
which is a second view and never in a table's headline. The reader must never take for a verdict
what the answer does not use as one (a quoted caption, "if the street were empty: No", "Yes, I can
help"): an answer left unread is counted, shown and settled by people, one read wrongly is not.

A statement is read where a sentence is built as one, word by word; any word out of place and it is
none. Words are data (`verdict_words.json`, `verdict_languages.json`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from postprocess.read.verdict_inferred import claim, closing_claim
from postprocess.read.verdict_text import OPTIONS, WORDS, Sentence, first_turn, fold, sentences

PROMPTS = ("zero_shot", "cot")

_POLAR = dict.fromkeys(WORDS["yes"], 1) | dict.fromkeys(WORDS["no"], 0)
_TRUTH = {"true": 1, "false": 0}
_ABSENT = dict.fromkeys(("none", "absent", "nil"), 0)
_SARCASM = ("sarcastic", "sarcasm")
_LANGUAGES = json.loads(
    Path(__file__).with_name("verdict_languages.json").read_text(encoding="utf-8")
)
_WHOLE = {
    unicodedata.normalize("NFC", word): value
    for language in _LANGUAGES.values()
    for value, words in ((1, language["yes"]), (0, language["no"]))
    for word in words
}
_FOREIGN_LABELS = frozenset(
    unicodedata.normalize("NFC", label)
    for language in _LANGUAGES.values()
    for label in language["labels"]
)
_DECORATION = r"[\s*_#`~\"'(){}\[\]<>$.!,|>•-]"
_BARE = re.compile(rf"\A{_DECORATION}*([^\n]{{1,24}}?){_DECORATION}*\Z")
_LINE = re.compile(
    rf"^{_DECORATION}{{0,8}}([^:=\n]{{1,24}}?){_DECORATION}{{0,4}}[:=]{_DECORATION}{{0,8}}"
    rf"([^:=\n]{{1,24}}?){_DECORATION}{{0,8}}$",
    re.MULTILINE,
)
_TELLING = re.compile(
    rf"(?<![^\W_])(?:{'|'.join(sorted(_POLAR | _TRUTH))}|{'|'.join(sorted(WORDS['labels']))})"
    r"(?![^\W_])|sarcas"
)
_CHANGE_OF_MIND = re.compile(
    r"(?:\A|[.!?,;\n—-])\W{0,6}(?:wait|actually|correction|hmm+|oops|scratch that|no wait"
    r"|on (?:second thoughts?|reflection|reconsideration)|i (?:overlooked|misread|was wrong"
    r"|was mistaken)|let me (?:look|think|check)|look(?:ing)? again|think again"
    r"|reconsider\w*|revis\w*|but now)(?!\w)"
)
_CAPTION_LINE = re.compile(r"\W*(?:caption|user|human|question|q|post|text)\W{0,3}:")
_MAX_TURNS = 3
"""How often statements may change sides before none of them counts."""


class Reading(NamedTuple):
    """A verdict, the layer that gave it and the words that give it."""

    verdict: Literal[0, 1] | None = None
    """1 for Yes (sarcastic), 0 for No, None where the answer is left unread."""
    by: Literal["stated", "inferred"] | None = None
    start: int = 0
    """Offset in the answer of the deciding words' first character."""
    end: int = 0
    """Offset behind their last character; 0 without a verdict."""
    word: bool = False
    """Whether a yes or no of English stands there: only there does P(Yes) against P(No) mean
    anything."""


UNREAD = Reading()


class _Statement(NamedTuple):
    """A place where the answer states a verdict, or (value None) states that it has none."""

    value: int | None
    start: int
    end: int
    word: bool
    rank: int
    """3 a final answer, 2 a verdict, 1 behind another label, 0 a yes or no that opens or closes."""
    sentence: int


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


def read_verdict(text: str | None, prompt: str = "zero_shot") -> Literal[0, 1] | None:
    r"""The verdict that an answer states: 1 for Yes, 0 for No, None for none.

    Any string is read, whatever it holds, in time linear in its length.

    Args:
        text: The model's words, without a response line; None reads as empty.
        prompt: `zero_shot` or `cot`, or a form of one (`zero_shot_b`).

    Raises:
        ValueError: Unknown prompt.

    >>> read_verdict("**No**"), read_verdict("Yes, but it is not sarcastic.")
    (0, None)
    >>> read_verdict("No dog is seen, so the words mean the opposite.\nVerdict: Yes", "cot")
    1
    """
    reading = find_verdict(text, prompt)
    return reading.verdict if reading.by == "stated" else None


def find_verdict(text: str | None, prompt: str = "zero_shot") -> Reading:
    """The verdict with its layer and place: the stated one, failing that the inferred one.

    Raises:
        ValueError: Unknown prompt.

    >>> find_verdict("Answer: no")
    Reading(verdict=0, by='stated', start=8, end=10, word=True)
    >>> find_verdict("This caption isn't sarcastic.")
    Reading(verdict=0, by='inferred', start=13, end=28, word=False)
    """
    text, cot = text or "", is_cot(prompt)
    turn = first_turn(text)
    if turn is not None and any(map(str.isalnum, fold(text[:turn]))):
        # A base model goes on with the next exercise; its first answer is the one asked for.
        text = text[:turn]
    folded = fold(text)
    if bare := _bare(folded):
        return bare
    found = sentences(folded)
    stated = list(_statements(folded, found, cot))
    chosen = _decide(folded, stated, cot)
    if chosen is not None and chosen.value is not None and not _taken_back(found, chosen):
        value: Literal[0, 1] = 1 if chosen.value else 0
        return Reading(value, "stated", chosen.start, chosen.end, chosen.word)
    if stated:
        return UNREAD
    inferred = closing_claim(found, cot)
    return UNREAD if inferred is None else Reading(inferred[0], "inferred", *inferred[1:])


def _bare(text: str) -> Reading | None:
    """The verdict of an answer that is one word: true, Y, or a yes or no of any language known."""
    whole = _BARE.match(text)
    value = None if whole is None else _WHOLE.get(unicodedata.normalize("NFC", whole[1]))
    if whole is None or value is None:
        return None
    return Reading(1 if value else 0, "stated", *whole.span(1), whole[1] in _POLAR)


def _statements(text: str, found: Sequence[Sentence], cot: bool) -> Iterator[_Statement]:
    """All that the answer states, in its order."""
    opened = False
    for n, sentence in enumerate(found):
        previous = found[n - 1] if n else None
        echo = OPTIONS in sentence.body and not sentence.asks
        heard = previous is not None and _speaks_of_other(previous)
        if sentence.asks or _CAPTION_LINE.match(sentence.body) or heard:
            opened = opened or not (sentence.asks or _CAPTION_LINE.match(sentence.body))
            continue
        if not _TELLING.search(sentence.body):
            opened = opened or not echo
            continue
        scan = _Scan(sentence, n)
        labelled = list(scan.labelled(found[n + 1] if n + 1 < len(found) else None))
        answers_other = previous is not None and previous.asks and not _asks_it(previous)
        yield from (s for s in labelled if s.rank > 1 or not answers_other)
        if labelled:
            opened = True
            continue
        first = scan.opening()
        if first is not None and not answers_other:
            retracts = bool(_CHANGE_OF_MIND.match(sentence.body))
            last = n == len(found) - 1
            if cot:
                stands = retracts or (last and scan.closes(first, previous))
            else:
                stands = retracts or not opened or last or scan.is_bare()
            if stands:
                yield first
        elif first is None and n == len(found) - 1 and (late := scan.concluded()) is not None:
            yield late
        opened = True
    for line in _LINE.finditer(text):
        label, value = (unicodedata.normalize("NFC", part) for part in line.groups())
        if label in _FOREIGN_LABELS and value in _WHOLE and value not in _POLAR | _TRUTH:
            if len(value) > 1 or not value.isascii():
                yield _Statement(_WHOLE[value], *line.span(2), False, 2, len(found))


def _decide(text: str, stated: Sequence[_Statement], cot: bool) -> _Statement | None:
    """The one statement that counts.

    Where statements differ it is the last, if it is plainly final: behind a change of mind, or a
    "verdict" or "final answer" behind lesser ones. Otherwise there is none.
    """
    if cot and any(s.rank for s in stated):
        labels = [n for n, s in enumerate(stated) if s.rank]
        stated = [s for n, s in enumerate(stated) if s.rank or n > labels[0]]
    if not stated:
        return None
    last = stated[-1]
    others = [s for s in stated if s.value != last.value]
    if not others:
        return last if cot else stated[0]
    if sum(a.value != b.value for a, b in pairwise(stated)) >= _MAX_TURNS:
        return None
    between = text[others[-1].end : last.start]
    thought_again = _CHANGE_OF_MIND.search(between) and not any(
        word in WORDS["supposing"] for word in re.findall(r"[a-z']+", between)
    )
    outranks = last.rank > 1 and cot and last.rank > max(s.rank for s in others)
    return last if thought_again or outranks else None


def _taken_back(found: Sequence[Sentence], chosen: _Statement) -> bool:
    """Whether a sentence behind the statement decides otherwise, or shows that it was no answer."""
    behind = [sentence for sentence in found if sentence.start >= chosen.end]
    for sentence in behind:
        if "sarcas" not in sentence.body or sentence.asks:
            continue
        decided = claim(sentence)
        contrasts = sentence.words[0] in WORDS["turning"] and decided is None
        if contrasts or (decided is not None and decided[0] != chosen.value):
            return True
    if chosen.rank or not chosen.value or not behind:
        return False
    words = behind[0].words
    offers = words[:1] == ["please"] or words[:2] in (["i", "can"], ["i", "see"], ["let", "me"])
    return offers or (behind[0].asks and bool(words) and words[0] in WORDS["offering"])


def _speaks_of_other(sentence: Sentence) -> bool:
    """Whether what follows the sentence is supposed, or somebody else's words."""
    words = [word for word in sentence.words if word not in WORDS["openers"]]
    if words[:1] and words[0] in WORDS["supposing"] and "," not in sentence.body:
        return True
    heads = sentence.body.rstrip(" *_`\"'").endswith(":") and len(words) <= 30
    speaks = not WORDS["quoting"].isdisjoint(words) or not WORDS["supposed_in"].isdisjoint(words)
    ends = bool(words) and (words[-1] in WORDS["quoting"] or words[-1] == "is")
    return (heads and speaks) or (ends and WORDS["labels"].isdisjoint(words) and not sentence.asks)


def _asks_it(sentence: Sentence) -> bool:
    """Whether a question asks for the verdict."""
    return "sarcas" in sentence.body or OPTIONS in sentence.body


class _Scan:
    """One look over one sentence for the statements that it makes."""

    def __init__(self, sentence: Sentence, number: int) -> None:
        self.sentence, self.number = sentence, number
        self.words, self.gaps = sentence.words, sentence.gaps

    def opening(self, at: int = 0) -> _Statement | None:
        """The yes or no that opens the sentence, or the part of it from a word on."""
        i = self._skip(at, WORDS["openers"], 8)
        if i < len(self.words) and self.words[i] not in _POLAR:
            for start, passed in (("first_person", "saying"), ("it_is", "it_is")):
                if self.words[i] in WORDS[start]:
                    i = self._skip(i, WORDS[passed], 10)
                    break
        if i >= len(self.words) or self.words[i] not in _POLAR or not self._alone(i):
            return None
        return self._with_tail(i, _POLAR[self.words[i]], rank=0)

    def concluded(self) -> _Statement | None:
        """The yes or no with which the sentence ends: "it is what it says, so no"."""
        for k in range(len(self.words) - 1, 0, -1):
            if self.words[k] in WORDS["concluders"]:
                found = None if self._supposed(k) else self.opening(k)
                return found if found is not None and self._last_word(found) else None
        return None

    def labelled(self, following: Sentence | None) -> Iterator[_Statement]:
        """The verdicts behind labels."""
        for k in range(len(self.words)):
            in_json = self.gaps[k].rstrip()[-1:] in ('"', "'") and bool(
                re.search(r"[{,]\s*[\"']\Z", self.gaps[k][-40:])
            )
            turns = self.words[k] in WORDS["concluders"] or (k and self.words[k - 1] == "but")
            if k == 0 or in_json or (turns and not self._supposed(k)):
                found = self._behind_label(k, in_json, following)
                if found is not None:
                    yield found

    def closes(self, found: _Statement, previous: Sentence | None) -> bool:
        """Whether a yes or no that opens the last sentence closes a chain of thought."""
        concludes = self.words[0] in WORDS["concluders"] or self.words[0] == "overall"
        own_line = "\n" in self.sentence.before or previous is None
        asked = previous is not None and previous.asks and _asks_it(previous)
        tail = self.sentence.body[found.end - self.sentence.start :]
        agrees = "sarcas" in tail or not re.search(r"\w", tail)
        return agrees and (concludes or own_line or asked or "sarcas" in tail) or (
            concludes and found.value is None
        )

    def is_bare(self) -> bool:
        """Whether the sentence holds nothing beside its yes or no."""
        return all(w in _POLAR or w in WORDS["openers"] for w in self.words)

    def _skip(self, at: int, words: frozenset[str], most: int) -> int:
        """The first word from `at` on that is none of some words, nor a number of a list."""
        while at < len(self.words) and most:
            word, gap = self.words[at], self.gaps[at + 1]
            numbered = (word.isdigit() or len(word) == 1) and gap[:1] in (")", ":", "]")
            if not numbered and word not in words:
                break
            at, most = at + 1, most - 1
        if self.words[at : at + 1] and self.words[at] in ("based", "given", "considering"):
            end = self._skip(at + 1, WORDS["grounds"], 14)
            return self._skip(end, WORDS["openers"], 4) if end < len(self.words) else at
        return at

    def _supposed(self, k: int) -> bool:
        return not WORDS["supposed_in"].isdisjoint(self.words[:k])

    def _last_word(self, found: _Statement) -> bool:
        return found.value is None or found.end == self.sentence.spans[-1][1]

    def _alone(self, i: int) -> bool:
        """Whether the yes or no at word i is said for itself: not "no dog", "No. 5", "no-one"."""
        if self.gaps[i].endswith("-") and self.gaps[i][:-1].strip() == "" and i:
            return self.words[i - 1] in WORDS["labels"] or self.gaps[i] != "-"
        if i + 1 == len(self.words):
            return True
        following, gap = self.words[i + 1], self.gaps[i + 1].strip(" \n*_`~\"'")
        if gap == "-" and self.gaps[i + 1] == "-":
            return False
        if self.words[i] == "no" and following[0].isdigit() and gap.startswith("."):
            return False
        return bool(gap) or following in WORDS["clause_starters"] | WORDS["conditions"]

    def _behind_label(
        self, at: int, in_json: bool, following: Sentence | None
    ) -> _Statement | None:
        """What a label that begins at a word announces, if one does."""
        words = self.words
        i = at if in_json else self._skip(at, WORDS["openers"], 8)
        if not in_json and words[i : i + 1] and words[i] in WORDS["first_person"]:
            i = self._skip(i, frozenset({"i", "we", "believe", "think", "conclude", "that"}), 4)
        label = i
        while label < min(len(words), i + 6) and words[label] in WORDS["label_modifiers"]:
            label += 1
        final = "final" in words[at:label]
        if label >= len(words):
            return None
        if words[label] in WORDS["labels"]:
            rank = 3 if final else 2 if words[label] == "verdict" else 1
            return self._value(label + 1, rank, in_json, following)
        for k in range(i, min(len(words), i + 8)):
            if words[k] in _SARCASM:
                end = self._skip(k + 1, WORDS["named"], 2)
                separated = end < len(words) and re.search(r"[:=|—]| - ", self.gaps[end])
                return self._value(end, 1, in_json, None, _ABSENT) if separated else None
            if words[k] not in WORDS["subjects"] and words[k] not in ("is", "are"):
                break
        return None

    def _value(
        self,
        at: int,
        rank: int,
        in_json: bool,
        following: Sentence | None,
        further: dict[str, int] | None = None,
    ) -> _Statement | None:
        """The verdict from a word on, behind its label."""
        words = self.words
        if words[at : at + 3] == ["to", "the", "question"]:
            at += 3
        would = words[at : at + 2] == ["would", "be"]
        copula = 2 if words[at : at + 2] in (
            ["would", "be"], ["must", "be"], ["should", "be"],
        ) else int(words[at : at + 1] in (["is"], ["was"], ["remains"]))  # fmt: skip
        if at + copula >= len(words):
            if following is None or copula or OPTIONS in self.gaps[-1] or len(words) > 6:
                return None
            return _Scan(following, self.number + 1)._from(0, rank, further)
        gap = self.gaps[at]
        separated = bool(re.search(r"[:=|—>]| - |\.\.", gap)) or copula or gap.strip() in ("-", "")
        if "(" in gap and ")" in gap and OPTIONS not in gap:
            separated = False
        if not separated or (gap.strip() == "" and not copula and words[at] not in _POLAR):
            return None
        found = self._from(at + copula, rank, further, in_json)
        behind = words[at + copula + 1 : at + copula + 2]
        if would and found is not None and behind and behind[0] not in ("because", "since", "as"):
            return None
        return found

    def _from(
        self, at: int, rank: int, further: dict[str, int] | None, in_json: bool = False
    ) -> _Statement | None:
        """The verdict that the words from `at` on give behind a label, or their doubt."""
        i = self._skip(at, WORDS["value_openers"], 6)
        i = i if i < len(self.words) else at
        values = _POLAR | _TRUTH | (further or {})
        if i < len(self.words) and self.words[i] in values and self._alone(i):
            if in_json and re.match(r"[\"']?\s*(?:[,}]|\Z)", self.gaps[i + 1]):
                word = self.words[i] in _POLAR
                return self._statement(i, i, values[self.words[i]], word, rank)
            return self._with_tail(i, values[self.words[i]], rank)
        decided = claim(self.sentence, at)
        if decided is not None:
            return _Statement(*decided, False, rank, self.number)
        rest = self.words[at : at + 6]
        if OPTIONS in self.gaps[at] or not WORDS["hedges"].isdisjoint(rest):
            return self._statement(at, at, None, False, rank)
        return None

    def _statement(self, i: int, j: int, value: int | None, word: bool, rank: int) -> _Statement:
        spans = self.sentence.spans
        return _Statement(value, spans[i][0], spans[j][1], word, rank, self.number)

    def _with_tail(self, i: int, value: int, rank: int) -> _Statement | None:
        """The statement at word i after a look at what its sentence says behind it.

        None where the word is spoken about or supposed ("No if ..."), a statement without a value
        where the sentence takes it back, doubts it or says yes to something else.
        """
        tail = self.words[i + 1 :]
        said = self._statement(i, i, value, self.words[i] in _POLAR, rank)
        withheld = said._replace(value=None)
        supposed = tail[:1] and tail[0] in WORDS["conditions"] and tail[1:2] != ["anything"]
        sure = tail[:1] == ["without"] and not {"doubt", "question"}.isdisjoint(tail[1:4])
        if (supposed and not sure) or not WORDS["set_apart"].isdisjoint(tail[:6]):
            return None
        for k in range(i + 1, len(self.words)):
            if _POLAR.get(self.words[k], value) != value and self._alone(k):
                corrected = not WORDS["correcting"].isdisjoint(self.words[i + 1 : k])
                if not corrected or "no" in self.words[i + 1 : k] or k - i > 6:
                    return withheld
                return self._with_tail(k, 1 - value, rank)
        if not WORDS["hedges"].isdisjoint(tail[:4]) or (tail and tail[0] in WORDS["turning"]):
            return withheld
        if self._contradicts(tail, value) or self._says_something_else(tail, value):
            return withheld
        return said

    def _contradicts(self, tail: Sequence[str], value: int) -> bool:
        """Whether the words behind a yes or no say the opposite of it."""
        denied = False
        for k, word in enumerate(tail):
            if word in WORDS["negators"] or word.endswith("n't"):
                denied = denied or not {"doubt", "question", "only", "just"} & set(tail[k + 1 : k + 2])
            if word.startswith("sarcas"):
                return denied if value else not denied
            if not denied and word in WORDS["plain" if value else "ironic"]:
                return True
            if value and word.startswith(("nonsarcas", "unsarcas")):
                return True
        return False

    def _says_something_else(self, tail: Sequence[str], value: int) -> bool:
        """Whether a yes or no agrees to help, or a yes to what the picture shows."""
        if not tail or any(word.startswith("sarcas") for word in tail):
            return bool(tail) and not WORDS["helping"].isdisjoint(tail[:3])
        if tail[0] in WORDS["first_person"]:
            opines = not WORDS["opinions"].isdisjoint(tail[1:4])
            return not opines or not WORDS["helping"].isdisjoint(tail[:5])
        if not value:
            return False
        if tail[0] in WORDS["offering"]:
            return True
        rest = self.sentence.text[self.sentence.start : self.sentence.stop + 200]
        explains = not WORDS["matter"].isdisjoint(re.findall(r"[a-z']+", rest))
        shows = not WORDS["pictures"].isdisjoint(tail[:4]) and not WORDS["showing"].isdisjoint(tail[:7])
        names = tail[0] in ("this", "it", "that", "here") and not WORDS["pictures"].isdisjoint(tail[1:5])
        return (shows or names) and not explains
