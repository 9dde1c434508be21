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

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from postprocess.read.verdict_inferred import claim, closing_claim
from postprocess.read.vocabulary import POLAR, WORDS, holds, is_cot, is_label, whole_word
from postprocess.response.folding import MASK, Sentence, first_turn, fold, sentences

_VALUES = POLAR | {"true": 1, "false": 0}
_ABSENT = dict.fromkeys(("none", "absent", "nil"), 0)
_MARKS = " \n*_#`~\"'(){}[]<>$.!¡,|•-"
_DECORATION = f"[{re.escape(_MARKS)}]"
_LABELLED = re.compile(rf"(?:answer|boxed){_DECORATION}{{0,9}}:{_DECORATION}{{0,9}}")
_LINE = re.compile(
    rf"^{_DECORATION}{{0,8}}([^:=\n]{{1,24}}?){_DECORATION}{{0,4}}[:=]{_DECORATION}{{0,8}}"
    rf"([^:=\n]{{1,24}}?){_DECORATION}{{0,8}}$",
    re.MULTILINE,
)
_YES_NO = "|".join(sorted(POLAR))
_OPTIONS = re.compile(
    rf"(?<!\w)(?:{_YES_NO})(?!\w)[\W_]{{0,12}}(?:(?<!\w)(?:or|nor|vs|versus)(?!\w)|[/|])"
    rf"[^\w\n]{{0,12}}(?:(?:verdict|answer)[\W_]{{0,4}})?(?<!\w)(?:{_YES_NO}|not)(?!\w)"
)
"""The echo of "Yes or No"."""
_TELLING = re.compile(
    "|".join([*(rf"{word}(?![^\W_])" for word in sorted({*_VALUES, *WORDS["labels"]})), "sarcas"])
)
_CHANGE_OF_MIND = re.compile(
    r"(?:\A|[.!?,;\n—-])\W{0,6}(?:no wait|wait|actually|correction|hmm+|oops|scratch that"
    r"|on (?:second thoughts?|reflection|reconsideration)|i (?:overlooked|misread|was wrong"
    r"|was mistaken)|let me (?:look|think|check)|look(?:ing)? again|think again"
    r"|reconsider\w*|revis\w*)(?!\w)"
)
_CAPTION_LINE = re.compile(r"\W*(?:caption|user|human|question|q|post|text)\W{0,3}:")
_ASKED = f"sarcas|{MASK}"
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
    """Whether it is an English yes or no: only there can P(Yes) be held against P(No)."""


UNREAD = Reading()


class _Statement(NamedTuple):
    """A place where the answer states a verdict, or (value None) states that it has none."""

    value: int | None
    start: int
    end: int
    word: bool
    rank: int
    """3 a final answer, 2 a verdict, 1 behind another label, 0 a yes or no that opens or closes."""


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
    words = text.strip()
    found = _find(words, cot)
    if found == UNREAD:
        return found
    before = len(text) - len(text.lstrip())
    return found._replace(start=found.start + before, end=found.end + before)


def _find(text: str, cot: bool) -> Reading:
    """The verdict of an answer without space around it."""
    turn = first_turn(text)
    if turn is not None and any(map(str.isalnum, fold(text[:turn]))):
        # A base model goes on with the next exercise; its first answer is the one asked for.
        text = text[:turn]
    folded = fold(text)
    if any(joint in folded for joint in (" or", "nor", "/", "|", "vs", "versus")):
        folded = _OPTIONS.sub(lambda echo: MASK * len(echo.group()), folded)
    if (bare := _bare(folded, cot)) is not None:
        return bare
    found = sentences(folded)
    stated = list(_statements(folded, found, cot))
    chosen = _decide(folded, stated, cot)
    if chosen is not None and chosen.value is not None and not _taken_back(found, chosen):
        _, start, end, word, *_ = chosen
        return Reading(_one(chosen.value), "stated", start, end, word)
    inferred = None if stated else closing_claim(found, cot)
    return UNREAD if inferred is None else Reading(inferred[0], "inferred", *inferred[1:])


def _bare(text: str, cot: bool) -> Reading | None:
    """The verdict of an answer that is one word, alone or behind "answer"."""
    end = len(text.rstrip(_MARKS))
    start = len(text) - len(text.lstrip(_MARKS))
    label = _LABELLED.match(text, start, end)
    start = label.end() if label else start
    word = text[start:end] if 0 < end - start <= 24 else ""
    value = None if cot and len(word) < 2 else whole_word(word)
    return None if value is None else Reading(_one(value), "stated", start, end, word in POLAR)


def _one(value: int) -> Literal[0, 1]:
    return 1 if value else 0


def _statements(text: str, found: Sequence[Sentence], cot: bool) -> Iterator[_Statement]:
    """All that the answer states, in its order; what it merely supposes or quotes has no value."""
    opened = False
    for sentence in found:
        before = sentence.previous
        if sentence.asks or _CAPTION_LINE.match(sentence.body):
            continue
        echo = MASK in sentence.body
        if not _TELLING.search(sentence.body):
            opened = opened or not echo
            continue
        here = list(_labelled(sentence))
        other = before is not None and before.asks and not re.search(_ASKED, before.body)
        last = sentence.following is None
        first = None if here or other else _opening(sentence, 0)
        here = [one for one in here if one.rank > 1 or not other]
        if first is not None:
            retracts = bool(_CHANGE_OF_MIND.match(sentence.body))
            bare = all(w in POLAR or w in WORDS["openers"] for w in sentence.words)
            direct = not opened or last or bare
            stands = last and _closes(sentence, first) if cot else direct
            here = [first] if stands or retracts else []
        elif not here and last and not other:
            here = [one for one in _concluded(sentence) if one is not None]
        if before is not None and _speaks_of_other(before):
            here = [one._replace(value=None, rank=0) for one in here]
        yield from here
        opened = True
    for line in _LINE.finditer(text):
        value = whole_word(line[2]) if is_label(line[1]) else None
        read = line[1] in WORDS["labels"] and (line[2] in _VALUES or line[2] in ("y", "n"))
        if value is not None and not read:
            yield _Statement(value, *line.span(2), line[2] in POLAR, 2)


def _decide(text: str, stated: Sequence[_Statement], cot: bool) -> _Statement | None:
    """The one statement that counts.

    Where statements differ it is the last, if it is plainly final: behind a change of mind, or a
    "verdict" or "final answer" behind lesser ones. Otherwise there is none.
    """
    labels = [n for n, one in enumerate(stated) if one.rank]
    if cot and labels:
        stated = stated[labels[0] :]
    if not stated:
        return None
    last = stated[-1]
    others = [one for one in stated if one.value != last.value]
    if not others:
        return last if cot else stated[0]
    if sum(a.value != b.value for a, b in pairwise(stated)) >= _MAX_TURNS:
        return None
    between = text[others[-1].end : last.start]
    thought_again = _CHANGE_OF_MIND.search(between) and not holds("supposing", between.split())
    outranks = last.rank > 1 and cot and last.rank > max(one.rank for one in others)
    return last if thought_again or outranks else None


def _taken_back(found: Sequence[Sentence], chosen: _Statement) -> bool:
    """Whether a sentence behind the statement decides otherwise, or shows that it was no answer."""
    behind = [sentence for sentence in found if sentence.start >= chosen.end]
    for sentence in behind:
        if "sarcas" in sentence.body and not sentence.asks:
            decided = claim(sentence)
            turns = holds("turning", sentence.words[:1]) or _CHANGE_OF_MIND.match(sentence.body)
            if decided[0] != chosen.value if decided else turns:
                return True
    if chosen.rank or not chosen.value or not behind:
        return False
    words = behind[0].words
    offers = words[:1] == ["please"] or words[:2] in (["i", "can"], ["i", "see"], ["let", "me"])
    return offers or (behind[0].asks and holds("offering", words[:1]))


def _speaks_of_other(sentence: Sentence) -> bool:
    """Whether what follows the sentence is supposed, or somebody else's words."""
    words = [word for word in sentence.words if word not in WORDS["openers"]]
    # "Without a picture there is nothing to compare." regrets, and supposes nothing.
    regrets = words[:1] == ["without"] and {"nothing", "cannot", "can't"} & set(words)
    supposes = holds("supposing", words[:1]) and "," not in sentence.body and not regrets
    heads = sentence.body.rstrip(" *_`").endswith(":") and holds("quoting supposed_in", words)
    breaks = sentence.mark.startswith("\n") and not holds("labels", words)
    return supposes or heads or (breaks and holds("leading_on", words[-1:]))


def _labelled(sentence: Sentence) -> Iterator[_Statement]:
    """The verdicts behind labels of a sentence."""
    words = sentence.words
    for k, word in enumerate(words):
        key = re.search(r"[{,]\s*[\"']\Z", sentence.gaps[k][-40:]) is not None
        turns = word in WORDS["concluders"] or (k and words[k - 1] == "but")
        if k == 0 or key or (turns and not holds("supposed_in", words[:k])):
            found = _behind_label(sentence, k, key)
            if found is not None:
                yield found


def _opening(sentence: Sentence, at: int) -> _Statement | None:
    """The yes or no that opens the sentence, or the part of it from a word on."""
    i = _skip(sentence, at, WORDS["openers"], 8)
    for start, passed in (("first_person", "saying"), ("it_is", "it_is")):
        if i < len(sentence.words) and sentence.words[i] in WORDS[start] - WORDS["yes"]:
            i = _skip(sentence, i, WORDS[passed], 10)
    if i >= len(sentence.words) or sentence.words[i] not in POLAR or not _alone(sentence, i):
        return None
    return _with_tail(sentence, i, POLAR[sentence.words[i]], rank=0)


def _concluded(sentence: Sentence) -> Iterator[_Statement | None]:
    """The yes or no with which the sentence ends: "it is what it says, so no"."""
    for k, word in enumerate(sentence.words):
        if k and word in WORDS["concluders"] and not holds("supposed_in", sentence.words[:k]):
            found = _opening(sentence, k)
            yield found if found is not None and found.end == sentence.spans[-1][1] else None


def _closes(sentence: Sentence, found: _Statement) -> bool:
    """Whether a yes or no that opens the last sentence closes a chain of thought."""
    tail, before = sentence.text[found.end : sentence.stop], sentence.previous
    concludes = holds("concluders first_person", sentence.words[:1])
    own = concludes or before is None or before.asks or "\n" in before.mark + sentence.before
    return "sarcas" in tail or (own and (found.value is None or not re.search(r"\w", tail)))


def _skip(sentence: Sentence, at: int, known: frozenset[str], most: int) -> int:
    """The first word from `at` on that is none of the known ones, nor a number of a list."""
    words, gaps = sentence.words, sentence.gaps
    while at < len(words) and most:
        numbered = (words[at].isdigit() or len(words[at]) == 1) and gaps[at + 1][:1] in (*"):]",)
        if not numbered and words[at] not in known:
            break
        at, most = at + 1, most - 1
    if words[at : at + 1] and words[at] in ("based", "given", "considering"):
        return _skip(sentence, at + 1, WORDS["grounds"] | {"so"}, 14)
    return at


def _alone(sentence: Sentence, i: int) -> bool:
    """Whether the yes or no at word i is said for itself: not "no dog", "No. 5", "no-one"."""
    words, gaps = sentence.words, sentence.gaps
    if i and gaps[i] == "-" and words[i - 1] not in WORDS["labels"]:
        return False
    if i + 1 == len(words):
        return True
    following, gap = words[i + 1], gaps[i + 1].strip(" \n*_`~\"'")
    if gaps[i + 1] == "-" or (following[0].isdigit() and gap.startswith(".")):
        return False
    return bool(gap) or following in WORDS["clause_starters"] | WORDS["conditions"]


def _behind_label(sentence: Sentence, at: int, key: bool) -> _Statement | None:
    """What a label that begins at a word announces, if one does."""
    words = sentence.words
    i = at if key else _skip(sentence, at, WORDS["openers"], 8)
    if holds("first_person", words[i : i + 1]) and not key:
        i = _skip(sentence, i, WORDS["believing"], 4)
    label = _skip(sentence, i, WORDS["label_modifiers"], len(words))
    if holds("labels", words[label : label + 1]):
        rank = 3 if holds("final", words[at:label]) else 2 if words[label] == "verdict" else 1
        return _value(sentence, label + 1, rank, key)
    for k in range(i, min(len(words) - 1, i + 8)):
        if words[k] in ("sarcastic", "sarcasm"):
            end = _skip(sentence, k + 1, WORDS["named"], 2)
            separated = end < len(words) and re.search(r"[:=|—]| - ", sentence.gaps[end])
            return _from(sentence, end, 1, key, _VALUES | _ABSENT) if separated else None
        if words[k] not in WORDS["subjects"] and words[k] not in ("is", "are"):
            break
    return None


def _value(sentence: Sentence, at: int, rank: int, key: bool) -> _Statement | None:
    """The verdict from a word on, behind its label."""
    words, following = sentence.words, sentence.following
    at += 3 if words[at : at + 3] == ["to", "the", "question"] else 0
    modal = words[at + 1 : at + 2] == ["be"] and words[at] in ("would", "must", "should")
    copula = 2 if modal else int(words[at : at + 1] in (["is"], ["was"], ["remains"]))
    if at + copula >= len(words):
        if MASK in sentence.gaps[-1] and not re.search(r"[:=]\s*\Z", sentence.gaps[-1]):
            return _statement(sentence, at - 1, None, rank)
        announces = following is not None and following.words and not copula and len(words) <= 6
        return _from(following, 0, rank, key, _VALUES) if announces and following else None
    gap = sentence.gaps[at]
    separated = re.search(r"[:=|—>]| - |\.\.", gap) or copula or gap.strip() == "-"
    named = gap.strip(" *_`") == "" and words[at] in POLAR
    if not (separated or named) or ("(" in gap and ")" in gap and MASK not in gap):
        return None
    found = _from(sentence, at + copula, rank, key, _VALUES)
    behind = words[at + copula + 1 : at + copula + 2]
    supposed = words[at] == "would" and behind and behind[0] not in ("because", "since", "as")
    return None if modal and supposed else found


def _from(
    sentence: Sentence, at: int, rank: int, key: bool, values: Mapping[str, int]
) -> _Statement | None:
    """The verdict that the words from `at` on give behind a label, or their doubt."""
    words = sentence.words
    i = _skip(sentence, at, WORDS["value_openers"], 6)
    if i < len(words) and words[i] in values and _alone(sentence, i):
        if key and re.match(r"[\"']?\s*(?:[,}]|\Z)", sentence.gaps[i + 1]):
            return _statement(sentence, i, values[words[i]], rank)
        return _with_tail(sentence, i, values[words[i]], rank)
    decided = claim(sentence, at)
    if decided is not None:
        return _Statement(*decided, False, rank)
    doubts = MASK in sentence.gaps[at] or holds("hedges", words[at : at + 6])
    return _statement(sentence, at, None, rank) if doubts else None


def _statement(sentence: Sentence, i: int, value: int | None, rank: int) -> _Statement:
    return _Statement(value, *sentence.spans[i], sentence.words[i] in POLAR, rank)


def _with_tail(sentence: Sentence, i: int, value: int, rank: int) -> _Statement | None:
    """The statement at word i after a look at what its sentence says behind it.

    None where the word is spoken about or supposed ("No if ..."), a statement without a value
    where the sentence takes it back, doubts it or says yes to something else.
    """
    words, tail = sentence.words, sentence.words[i + 1 :]
    said, withheld = (_statement(sentence, i, one, rank) for one in (value, None))
    sure = tail[1:2] == ["anything"] or {"doubt", "question"} & set(tail[1:4])
    if (holds("conditions", tail[:1]) and not sure) or holds("set_apart", tail[:6]):
        return None
    for k in range(i + 1, len(words)):
        if POLAR.get(words[k], value) != value and _alone(sentence, k):
            corrected = k - i <= 6 and holds("correcting", words[i + 1 : k])
            return _with_tail(sentence, k, 1 - value, rank) if corrected else withheld
    doubted = holds("doubts", tail[:4]) or holds("turning", tail[:1])
    if doubted or _contradicts(tail, value) or _says_something_else(sentence, tail, value):
        return withheld
    return said


def _contradicts(tail: Sequence[str], value: int) -> bool:
    """Whether the words behind a yes or no say the opposite of it."""
    denied = False
    for word, following in pairwise((*tail, "")):
        if word in WORDS["negators"] or word.endswith("n't"):
            denied = denied or following not in ("doubt", "question", "only", "just")
        if "sarcas" in word:
            return (denied or not word.startswith("sarcas")) == bool(value)
        if not denied and word in WORDS["plain" if value else "ironic"]:
            return True
    return False


def _says_something_else(sentence: Sentence, tail: Sequence[str], value: int) -> bool:
    """Whether a yes or no agrees to help, or a yes to what the picture shows."""
    own = bool(tail) and tail[0] in WORDS["first_person"]
    if any("sarcas" in word for word in tail):
        return own and holds("serving", tail[1:4])
    if own:
        opines = holds("opinions", tail[1:4])
        return not opines or holds("helping", tail[:5])
    if not value or not tail:
        return False
    rest = sentence.text[sentence.start : sentence.stop + 200]
    explained = holds("matter", re.findall(r"[a-z']+", rest))
    shown = tail[0] == "in" or holds("showing", tail[:7])
    shows = shown and holds("pictures", tail[:4])
    points = tail[0] in WORDS["it_is"] | {"this", "there's", "here's"}
    names = points and holds("pictures showing", tail[1:5])
    return tail[0] in WORDS["offering"] or ((shows or names) and not explained)
