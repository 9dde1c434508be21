"""What the embedded generator asks about a word of a caption, in the caption's own words.

A question must fit the original and the exchanged word alike, and have one right answer; where
that is not certain there is none. Nothing here chooses what is exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from lmms_eval_tasks.clash.make.word_lists.lexicon import LISTED, Found, Group, Lexicon, word_set

MAX_REST = 10
"""A question quotes at most so many words of the caption."""

_PREPOSITIONS = word_set("prepositions")
_LOOSE = word_set("loose")
_ING_NOUNS = word_set("ing_nouns")
_PARTICIPLES = word_set("participles")
_VERBS = word_set("verbs")
_STOPS = word_set("stops")
_COLLECTIVES = word_set("collectives")
_VAGUE = frozenset(("item", "object", "container", "piece of furniture", "toy", "thing"))
"""Kinds of which every picture shows several: a question needs more than the kind."""

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


def object_questions(
    one: Found,
    group: Group,
    words: Sequence[str],
    found: Sequence[Found],
    others: Sequence[Sequence[Found]],
    lexicon: Lexicon,
) -> list[str]:
    """Questions that the picture answers with an object and the caption with another.

    Args:
        one: The object's word in the caption.
        group: What it can be exchanged with.
        words: The caption's words, case folded.
        found: Every listed word of the caption.
        others: The same for each of the picture's captions.
        lexicon: The lists.
    """
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
    if any(x.last <= one.first and x.is_thing for x in found):
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
    subject = next((x for x in found if x.is_thing), None)
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
    if any(x.first < one.first and x.first >= subject.last and x.is_thing for x in found):
        return None
    shown = words[subject.first : subject.last]
    return " ".join(shown), be, " ".join(verb)


def attribute_questions(
    one: Found,
    group: Group,
    words: Sequence[str],
    found: Sequence[Found],
    others: Sequence[Sequence[Found]],
) -> list[str]:
    """Questions about a thing's attribute; arguments as for `object_questions`."""
    noun = next(
        (x for x in found if x.first >= one.last and x.is_thing),
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
        (x for x in found if x.first == last.last and x.is_thing),
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
