"""The embedded generator: exchanges one word by the project's word lists, with no model.

It must never say what may be true. So a word is only taken out where the picture's captions agree
on it, and only put in where none of them has it or anything that gives it away; words that are
usual in their surroundings are never put in. Captions that may not mean what they say (negations,
comparisons, pictures in pictures) are left alone. What it makes follows from the source and a seed.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lmms_eval_tasks.clash.make.generate.questions import attribute_questions, object_questions
from lmms_eval_tasks.clash.make.generate.stages import Answers, Change, Dropped, Question, Source
from lmms_eval_tasks.clash.make.word_lists.lexicon import (
    Entry,
    Found,
    Lexicon,
    Token,
    find,
    folded,
    lexicon,
    tokens_of,
    word_set,
)

VERSION = 1
"""Raised with every change of what the rules make out of the same captions."""

WITNESSES = 3
"""From so many captions of a picture on, two must agree on an object or a number."""

_UNSURE = word_set("unsure")
_SHADES = word_set("shades")
_PREPOSITIONS = word_set("prepositions")
_MANY = word_set("many")
_SINGULAR = word_set("singular")
_ANIMAL_COLORS = frozenset(("black", "white", "brown", "gray"))
_VOWEL_SOUNDS = ("hour", "honest", "heir")
_CONSONANT_SOUNDS = ("uni", "use", "usu", "eu", "one", "ukulele")


class _Swap(NamedTuple):
    """One exchange that a caption allows."""

    found: Found
    targets: tuple[Entry, ...]
    """Entries that may be put in, in a seeded order; at least two: the second is the distractor."""
    number: str
    questions: tuple[str, ...]


class RuleGenerator:
    """Makes samples by rules, each from its source alone, so that order changes nothing."""

    name = f"rules/{VERSION}"

    def __init__(self, seed: int = 0) -> None:
        """Take the seed that decides between several exchanges."""
        self.seed = seed
        self._lexicon = lexicon()

    def change(self, source: Source) -> Change:
        """Exchange one word.

        Raises:
            Dropped: Nothing in the caption can be exchanged for certain.
        """
        swap = self._swap(source)
        tokens = tokens_of(source.caption)
        first, last = swap.found.first, swap.found.last
        text = source.caption
        old = text[tokens[first].start : tokens[last - 1].end]
        new = _cased(_form(swap.targets[0], swap.number), old)
        begin, before = tokens[first].start, text[: tokens[first].start]
        if first and tokens[first - 1].folded in ("a", "an"):
            article = tokens[first - 1]
            before = text[: article.start] + _article(new, article.text)
            before += text[article.end : begin]
        caption = before + new + text[tokens[last - 1].end :]
        kind = swap.found.entry.change_type
        return Change(caption.strip(), old, new, kind)

    def question(self, source: Source, change: Change) -> Question:
        """Ask for what the exchanged word says."""
        swap = self._swap(source)
        return Question(self._random(source, "question").choice(swap.questions))

    def answers(self, source: Source, change: Change, question: Question) -> Answers:
        """The two words, and a third of their group that no caption speaks of."""
        swap = self._swap(source)
        original = swap.found.entry.answer or change.original_word.casefold()
        if swap.found.entry.answer and swap.found.form.text not in _head_texts(swap.found.entry):
            original = change.original_word.casefold()
        return Answers(original, *(_answer(entry, swap.number) for entry in swap.targets[:2]))

    def _swap(self, source: Source) -> _Swap:
        """The exchange that is made of a source: always the same one.

        A picture's captions are gone through in their order, so that a later one changes another
        word, or at least into another, where it can.
        """
        swap: _Swap | None = None
        used: set[tuple[str, str, str]] = set()
        put_in: set[tuple[str, str, str]] = set()
        for index in range(source.place + 1):
            one = source._replace(place=index)
            swap = self._choose(one, _swaps(one.captions, index), used, put_in)
            if swap is not None:
                used.add(swap.found.entry.key)
                put_in.add(swap.targets[0].key)
        if swap is None:
            raise Dropped("change", "no word that can be exchanged for certain")
        return swap

    def _choose(
        self,
        source: Source,
        swaps: Sequence[_Swap],
        used: set[tuple[str, str, str]],
        put_in: set[tuple[str, str, str]],
    ) -> _Swap | None:
        if not swaps:
            return None
        chooser = self._random(source, "swap")
        fresh = [swap for swap in swaps if swap.found.entry.key not in used]
        swaps = fresh or swaps
        # Objects and attributes alike: the rarer kind in captions must not drown.
        kind = chooser.choice(sorted({swap.found.entry.change_type for swap in swaps}))
        swap = chooser.choice([one for one in swaps if one.found.entry.change_type == kind])
        targets = list(swap.targets)
        chooser.shuffle(targets)
        if swap.found.entry.category == "numbers":
            # Near numbers only: "two" changed into "nine" is seen without counting.
            order = [entry.head for entry in self._lexicon.group_of(swap.found.entry).entries]
            here = order.index(swap.found.entry.head)
            targets.sort(key=lambda entry: abs(order.index(entry.head) - here))
            targets = targets[:3]
            chooser.shuffle(targets)
        targets.sort(key=lambda entry: entry.key in put_in)
        return swap._replace(targets=tuple(targets))

    def _random(self, source: Source, purpose: str) -> random.Random:
        content = "\0".join([str(self.seed), purpose, source.image_id, source.caption])
        return random.Random(hashlib.sha256(content.encode()).digest())


@functools.lru_cache(maxsize=256)
def _swaps(captions: tuple[str, ...], index: int) -> tuple[_Swap, ...]:
    """All exchanges that one of a picture's captions allows."""
    return tuple(_find_swaps(captions, index, lexicon()))


def _find_swaps(captions: tuple[str, ...], index: int, lexicon: Lexicon) -> Iterator[_Swap]:
    caption = captions[index]
    tokens = tokens_of(caption)
    words = [token.folded for token in tokens]
    if _UNSURE.intersection(words) or any(word.endswith("n't") for word in words):
        return
    found = find(tokens, lexicon)
    others = [find(tokens_of(text), lexicon) for text in captions]
    said = [" " + " ".join(folded(text)) + " " for text in captions]
    for one in found:
        if one.entry.category == "nouns" or one.entry.flag == "member":
            continue
        if not _stands_alone(one, found, tokens, caption):
            continue
        number = one.form.number if one.form.number != "both" else _number_before(one, words)
        if not number or not _counted_as(number, one, words):
            continue
        group = lexicon.group_of(one.entry)
        thing = next((x for x in found if x.first == one.last), None)
        animal = one.entry.category == "colors" and thing and thing.entry.category == "animals"
        targets = tuple(
            entry
            for entry in group.entries
            if _may_stand_for(entry, one.entry, number)
            and (not animal or entry.head in _ANIMAL_COLORS)
            and not any(_speaks(entry, x) for x in said)
        )
        if len(targets) < 2 or _times(one.entry, words) > 1:
            continue
        support = sum(_speaks(one.entry, text) for text in said)
        kind = one.entry.change_type
        sure = kind == "attribute" and one.entry.category != "numbers"
        if len(captions) >= WITNESSES and support < (1 if sure else 2):
            continue
        if kind == "object":
            questions = object_questions(one, group, words, found, others, lexicon)
        else:
            questions = attribute_questions(one, group, words, found, others)
        if questions:
            yield _Swap(one, targets, number, tuple(questions))


def _may_stand_for(entry: Entry, original: Entry, number: str) -> bool:
    return (
        entry.key != original.key
        and entry.flag is None
        and entry.head not in original.apart
        and original.head not in entry.apart
        and entry.head_form(number) is not None
    )


def _speaks(entry: Entry, text: str) -> bool:
    """Whether a folded text says the entry or gives it away."""
    return any(f" {term} " in text for term in entry.terms)


def _times(entry: Entry, words: Sequence[str]) -> int:
    """How often a caption speaks of an entry; twice, and one exchange would contradict itself."""
    text = f" {' '.join(words)} "
    covered: set[int] = set()
    times = 0
    for term in sorted(entry.terms, key=len, reverse=True):
        start = text.find(f" {term} ")
        while start >= 0:
            span = set(range(start + 1, start + 1 + len(term)))
            if not span & covered:
                times += 1
                covered |= span
            start = text.find(f" {term} ", start + 1)
    return times


def _stands_alone(
    one: Found, found: Sequence[Found], tokens: Sequence[Token], caption: str
) -> bool:
    """Whether a form is a word of its own: no part of a compound, a hyphened word, a possessive."""
    before = tokens[one.first - 1] if one.first else None
    after = tokens[one.last] if one.last < len(tokens) else None
    begin, end = tokens[one.first].start, tokens[one.last - 1].end
    if caption[begin - 1 : begin] in ("-", "/", "&") or caption[end : end + 1] in ("-", "/", "&"):
        return False
    if one.entry.change_type == "attribute":
        joined = before is not None and before.folded in ("and", *_SHADES)
        # "white and blue" is one thing of two colors, "white cars and trucks" is not.
        return not joined and (after is None or after.folded not in ("and", "or"))
    nouns = [x for x in found if x.is_thing]
    touching = caption[end : after.start] if after else "."
    if touching.strip() == "" and any(x.first == one.last for x in nouns):
        allowed = one.entry.group == "games" and after is not None
        if not allowed:
            return False
    gap = caption[before.end : begin] if before else ""
    return not (gap.strip() == "" and any(x.last == one.first for x in nouns if before))


def _number_before(one: Found, words: Sequence[str]) -> str | None:
    """Number of a form that has only one (sheep, fish), by the word before it."""
    word = words[one.first - 1] if one.first else ""
    if word in ("a", "an", "one", "this", "that", "another"):
        return "one"
    return "many" if word in ("two", "three", "four", "five", "several", "many", "some") else None


def _counted_as(number: str, one: Found, words: Sequence[str]) -> bool:
    """Whether a form agrees with the words before it: no "several horse", no "play frisbee"."""
    if number != "one" or not one.first:
        return True
    for word in reversed(words[max(0, one.first - 3) : one.first]):
        if word in _SINGULAR:
            return True
        if word in _MANY or word in _PREPOSITIONS or word.endswith("ing"):
            return False
    return False


def _head_texts(entry: Entry) -> set[str]:
    return {form.text for form in entry.forms[: entry.n_head]}


def _form(entry: Entry, number: str) -> str:
    form = entry.head_form(number)
    assert form is not None, f"{entry.head} has no form {number}"
    return form


def _answer(entry: Entry, number: str) -> str:
    return entry.answer or _form(entry, number)


def _cased(word: str, like: str) -> str:
    """A word in the capitals of another.

    >>> _cased("cat", "DOG"), _cased("cat", "Dog"), _cased("cat", "dog")
    ('CAT', 'Cat', 'cat')
    """
    if like.isupper() and len(like) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word


def _article(word: str, like: str) -> str:
    """The indefinite article before a word, in the capitals of another article.

    >>> _article("elephant", "A"), _article("unicycle", "an"), _article("hour", "a")
    ('An', 'a', 'an')
    """
    low = word.casefold()
    vowel = low[:1] in "aeiou" and not low.startswith(_CONSONANT_SOUNDS)
    article = "an" if vowel or low.startswith(_VOWEL_SOUNDS) else "a"
    if word.isupper() and len(word) > 1:
        return article.upper()
    return article.capitalize() if like[:1].isupper() else article
