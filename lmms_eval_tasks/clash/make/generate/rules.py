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

from lmms_eval_tasks.clash.make.generate.stages import Answers, Change, Dropped, Question, Source
from lmms_eval_tasks.clash.make.word_lists.lexicon import (
    LISTED,
    Entry,
    Found,
    Group,
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

MAX_REST = 10
"""A question quotes at most so many words of the caption."""

_UNSURE = word_set("unsure")
_SHADES = word_set("shades")
_PREPOSITIONS = word_set("prepositions")
_LOOSE = word_set("loose")
_ING_NOUNS = word_set("ing_nouns")
_PARTICIPLES = word_set("participles")
_VERBS = word_set("verbs")
_STOPS = word_set("stops")
_COLLECTIVES = word_set("collectives")
_MANY = word_set("many")
_SINGULAR = word_set("singular")
_VAGUE = frozenset(("item", "object", "container", "piece of furniture", "toy", "thing"))
"""Kinds of which every picture shows several: a question needs more than the kind."""
_ANIMAL_COLORS = frozenset(("black", "white", "brown", "gray"))
_VOWEL_SOUNDS = ("hour", "honest", "heir")
_CONSONANT_SOUNDS = ("uni", "use", "usu", "eu", "one", "ukulele")

_COLOR = ("What color {be} the {thing}?", "Which color {do} the {thing} have?",
          "What is the color of the {thing}?")  # fmt: skip
_NUMBER = ("How many {thing} are there?", "How many {thing} can be counted?",
           "What is the number of {thing}?")  # fmt: skip
_MATERIAL = ("What {be} the {thing} made of?", "Which material {be} the {thing} made of?",
             "What is the material of the {thing}?")  # fmt: skip
_LOOKS = ("What {kind} {do} the {thing} have?", "Which {kind} {do} the {thing} have?")
_WEATHER = ("What is the weather like?", "What kind of weather is it?")
_ATTRIBUTES = {
    "colors": _COLOR,
    "numbers": _NUMBER,
    "materials": _MATERIAL,
    "shapes": ("What shape {be} the {thing}?", *_LOOKS),
    "weather": _WEATHER,
}
_SHOWN = (
    "What {kind} can be seen here?",
    "Which {kind} {be} shown?",
    "What {kind} {be} visible in the scene?",
)
_WHICH = ("Which {kind} {rest}?", "What {kind} {rest}?")
_WHAT = ("What {be} the {subject} {verb}?", "Which {kind} {be} the {subject} {verb}?")


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
        kind = _change_type(swap.found.entry)
        return Change(caption.strip(), old, new, kind)

    def question(self, source: Source, change: Change) -> Question:
        """Ask for what the exchanged word says."""
        swap = self._swap(source)
        return Question(self._random(source, "question").choice(swap.questions))

    def answers(self, source: Source, change: Change, question: Question) -> Answers:
        """The two words, and a third of their group that no caption speaks of."""
        swap = self._swap(source)
        original = swap.found.entry.answer or folded_text(change.original_word)
        if swap.found.entry.answer and swap.found.form.text not in _head_texts(swap.found.entry):
            original = folded_text(change.original_word)
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
        kind = chooser.choice(sorted({_change_type(swap.found.entry) for swap in swaps}))
        swap = chooser.choice([one for one in swaps if _change_type(one.found.entry) == kind])
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


def folded_text(word: str) -> str:
    """A changed word as an answer: in lower case."""
    return word.casefold()


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
        kind = _change_type(one.entry)
        sure = kind == "attribute" and one.entry.category != "numbers"
        if len(captions) >= WITNESSES and support < (1 if sure else 2):
            continue
        if kind == "object":
            questions = _object_questions(one, group, tokens, words, found, others, lexicon)
        else:
            questions = _attribute_questions(one, group, words, found, others)
        if questions:
            yield _Swap(one, targets, number, tuple(questions))


def _change_type(entry: Entry) -> str:
    return "object" if entry.category in LISTED["object"] else "attribute"


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
    if _change_type(one.entry) == "attribute":
        joined = before is not None and before.folded in ("and", *_SHADES)
        # "white and blue" is one thing of two colors, "white cars and trucks" is not.
        return not joined and (after is None or after.folded not in ("and", "or"))
    nouns = [x for x in found if x.entry.category not in LISTED["attribute"]]
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


def _object_questions(
    one: Found,
    group: Group,
    tokens: Sequence[Token],
    words: Sequence[str],
    found: Sequence[Found],
    others: Sequence[Sequence[Found]],
    lexicon: Lexicon,
) -> list[str]:
    many = one.form.number == "many" or (one.form.number == "both" and words[one.first - 1] != "a")
    kind = group.kinds if many else group.kind
    be = "are" if many else "is"
    rest = _rest_of(one, words, found, be)
    if rest is not None:
        return [template.format(kind=kind, rest=rest) for template in _WHICH]
    asked = _asked_by_subject(one, words, found)
    if asked is not None:
        subject, subject_be, verb = asked
        return [
            template.format(kind=kind, be=subject_be, subject=subject, verb=verb)
            for template in _WHAT
        ]
    # A question without a context must have one answer only.
    if one.entry.flag == "common" or group.kind in _VAGUE:
        return []
    same = {
        x.entry.head
        for line in others
        for x in line
        if x.entry.category in LISTED["object"] and lexicon.group_of(x.entry).kind == group.kind
    }
    if same <= {one.entry.head}:
        return [template.format(kind=kind, be=be) for template in _SHOWN]
    return []


def _rest_of(one: Found, words: Sequence[str], found: Sequence[Found], be: str) -> str | None:
    """What the caption says about its first noun, as the end of a question; None if it is not that.

    "A white cat is eating by the door" gives "is eating by the door".
    """
    lead = words[: one.first]
    if len(lead) > 4 or any(x in _PREPOSITIONS - {"of"} or x.endswith("ing") for x in lead):
        return None
    if any(x.last <= one.first and x.entry.category not in LISTED["attribute"] for x in found):
        return None
    if "of" in lead and not _COLLECTIVES.intersection(lead):
        return None
    rest = list(words[one.last :])
    for place, word in enumerate(rest):
        # "between a sign and a light" is one place.
        joins = word == "and" and "between" in rest[:place] and "and" not in rest[:place]
        if word in _STOPS and place > 1 and not joins:
            rest = rest[:place]
            break
    if not 2 <= len(rest) <= MAX_REST:
        return None
    head = rest[0]
    if head in ("is", "are"):
        if rest[1] in ("a", "an", "the") or rest[1].endswith("ly"):
            return None
        if len(rest) < 3:
            return None
        return " ".join(rest) if rest[1] not in ("on", "in") or len(rest) > 3 else None
    if (head.endswith("ing") and head not in _ING_NOUNS) or head in _PARTICIPLES:
        return f"{be} {' '.join(rest)}"
    if head in _VERBS:
        return " ".join(rest)
    if head in _PREPOSITIONS - _LOOSE:
        return f"{be} {' '.join(rest)}"
    return None


def _asked_by_subject(
    one: Found, words: Sequence[str], found: Sequence[Found]
) -> tuple[str, str, str] | None:
    """Subject, its is/are, and verb where the form is what a caption's subject does something to.

    "A man is riding on a skateboard" gives ("man", "is", "riding on").
    """
    subject = next((x for x in found if x.entry.category not in LISTED["attribute"]), None)
    if (
        subject is None
        or subject.last >= one.first
        or subject.first > 2
        or subject.form.number not in ("one", "many")
    ):
        return None
    if any(word in _PREPOSITIONS for word in words[: subject.first]):
        return None
    middle = list(words[subject.last : one.first])
    be = "is" if subject.form.number == "one" else "are"
    linked = middle[:1] in (["is"], ["are"])
    middle = middle[linked:]
    acts = bool(middle) and middle[0].endswith("ing") and middle[0] not in _ING_NOUNS
    if not acts and not (middle and middle[0] in _PARTICIPLES):
        return None
    verb = [middle.pop(0)]
    while middle and middle[0] in _PREPOSITIONS - {"of"}:
        verb.append(middle.pop(0))
        if verb[-1] == "top" and middle[:1] == ["of"]:
            verb.append(middle.pop(0))
    if verb == ["looking"] or verb[-1] in ("down", "up", "around", "next"):
        return None
    if len(middle) > 3 or any(
        word in _PREPOSITIONS or word.endswith("ing") or word == "and" for word in middle
    ):
        return None
    if any(
        x.first < one.first
        and x.first >= subject.last
        and x.entry.category not in LISTED["attribute"]
        for x in found
    ):
        return None
    shown = words[subject.first : subject.last]
    return " ".join(shown), be, " ".join(verb)


def _attribute_questions(
    one: Found,
    group: Group,
    words: Sequence[str],
    found: Sequence[Found],
    others: Sequence[Sequence[Found]],
) -> list[str]:
    noun = next(
        (x for x in found if x.first >= one.last and x.entry.category not in LISTED["attribute"]),
        None,
    )
    gap = noun.first - one.last if noun else None
    if group.name == "weather":
        return (
            list(_WEATHER)
            if noun and gap == 0 and noun.entry.head in ("day", "sky", "street")
            else []
        )
    limit = 1 if group.name == "numbers" else 0
    if noun is None or gap is None or gap > limit:
        return []
    if any(x in _PREPOSITIONS or x in ("and", "or") for x in words[one.last : noun.first]):
        return []
    last = noun
    while after := next(
        (x for x in found if x.first == last.last and x.entry.category not in LISTED["attribute"]),
        None,
    ):
        last = after
    if last.last < len(words) and words[last.last].endswith("ed") and group.name == "colors":
        return []
    thing = " ".join(words[one.last : last.last])
    many = last.form.number == "many"
    if group.name == "numbers":
        if not many or (one.first and words[one.first - 1] in ("of", "top", "the", "level", "for")):
            return []
    elif _says_otherwise(one, noun, others):
        return []
    templates = _ATTRIBUTES.get(group.name, _LOOKS)
    be, do = ("are", "do") if many else ("is", "does")
    return [t.format(thing=thing, kind=group.kind, be=be, do=do) for t in templates]


def _says_otherwise(one: Found, noun: Found, others: Sequence[Sequence[Found]]) -> bool:
    """Whether a caption gives the same thing another attribute of the group, or several."""
    for found in others:
        things = [x for x in found if x.entry.key == noun.entry.key]
        for x in found:
            near = any(0 <= thing.first - x.last <= 2 for thing in things)
            if near and x.entry.key[:2] == one.entry.key[:2] and x.entry.key != one.entry.key:
                return True
    return False


def _head_texts(entry: Entry) -> set[str]:
    return {form.text for form in entry.forms[: entry.n_head]}


def _form(entry: Entry, number: str) -> str:
    form = entry.head_form(number)
    if form is None:
        raise AssertionError(f"{entry.head} has no form {number}")
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
