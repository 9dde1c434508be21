"""Is a CLASH sample sound: rule checks as pure functions, and what a language model is asked.

The checks work on rows of our format, whoever made them. Order matters: the first check that fails
ends a sample's examination, so that a funnel adds up and no request is spent on a lost sample.

The rules of the paper, with two faults of the release's own code put right. A distractor of several
words is searched as a whole for the changed words, so "sweet potatoes" does not pass beside
"potatoes". And a word counts as standing in a text only as whole words, so that "car" does not
stand in "carpet"; what may differ is inflection (Porter stems), one compound written in two words,
and the words of `matching.normalise`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.make.word_lists.lexicon import folded, lexicon, word_set
from postprocess.read.matching import normalise

MAX_TEXT_WORDS = 400
"""Longer texts are no captions and are not searched."""

MAX_SPAN = 6
"""So many words of a text may be one compound of the word that is looked for."""

_WORD = re.compile(r"\w+")
_ARTICLES = frozenset(("a", "an", "the"))
_BE = frozenset(("is", "are", "was", "were", "has", "have"))
_ONE = frozenset(("a", "an", "one", "another", "single", "solo", "lone"))
_HINTS = word_set("hints")


class Verdict(NamedTuple):
    """What one check says about one sample."""

    check: str
    passed: bool
    reason: str
    """Why, in one line; empty where a rule has nothing to say."""


class Rule(NamedTuple):
    """A check that needs no model."""

    name: str
    stage: str
    """Stage of generation after which the sample can be checked: change, question or answers."""
    fault: Callable[[Mapping[str, Any]], str | None]
    """The reason why a row fails, or None where it passes."""


class Examined(NamedTuple):
    """A sample with its verdicts, in the order in which they were given."""

    sample_id: str
    verdicts: tuple[Verdict, ...]

    @property
    def failure(self) -> Verdict | None:
        """The verdict that it failed by, always the last one; None for a sound sample."""
        return None if not self.verdicts or self.verdicts[-1].passed else self.verdicts[-1]


def stands_in(word: str, text: str) -> bool:
    """Whether a word or phrase stands in a text as whole words.

    Case, articles and inflection do not matter, nor whether a compound is one word or two.

    >>> stands_in("tooth brush", "Two toothbrushes"), stands_in("wooden", "wood")
    (True, True)
    >>> stands_in("car", "a carpet"), stands_in("potatoes", "sweet potatoes")
    (False, True)
    """
    wanted = _joined(_words(word))
    words = _words(text)
    return bool(wanted) and any(_joined(span) == wanted for span in _spans(words))


def names_word(answer: str, word: str) -> bool:
    """Whether an answer names a changed word: as it is, as its head or first part, or as "one".

    An answer may leave a part of a phrase out ("magnet" for "refrigerator magnet") or add to it
    ("black and white" for "black"), and "one" answers for "a".

    >>> names_word("Curtain", "shower curtain"), names_word("One", "another")
    (True, True)
    >>> names_word("Carpet", "car"), names_word("Skateboard", "board")
    (False, False)
    """
    if stands_in(word, answer) or stands_in(answer, word):
        return True
    return folded(word)[:1] != () and folded(word)[0] in _ONE and stands_in("one", answer)


def captions_differ(row: Mapping[str, Any]) -> str | None:
    """The two captions may not be the same in words."""
    if _plain(row["original_caption"]) == _plain(row["conflicting_caption"]):
        return "the captions are the same"
    return None


def words_differ(row: Mapping[str, Any]) -> str | None:
    """The changed words may not be forms of one word."""
    one, other = row["original_word"], row["conflicting_word"]
    if _joined(_words(one)) == _joined(_words(other)):
        return f"{one!r} and {other!r} are one word"
    return None


def original_in_caption(row: Mapping[str, Any]) -> str | None:
    """The original word stands in the original caption."""
    return _missing(row["original_word"], row["original_caption"], "the original caption")


def conflicting_in_caption(row: Mapping[str, Any]) -> str | None:
    """The conflicting word stands in the conflicting caption."""
    return _missing(row["conflicting_word"], row["conflicting_caption"], "the conflicting caption")


def one_change(row: Mapping[str, Any]) -> str | None:
    """One span is exchanged: what differs is the changed words, articles, number and is/are."""
    before, after = _content(row["original_caption"]), _content(row["conflicting_caption"])
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    for place, (words, changed) in enumerate(
        ((before, row["original_word"]), (after, row["conflicting_word"]))
    ):
        left = words[start : len(words) - end]
        known = {*_content(changed), *(("one",) if folded(changed)[:1] == ("a",) else ())}
        extra = [word for word in left if word not in known and word not in _joined(known)]
        if extra:
            which = ("original", "conflicting")[place]
            return f"the {which} caption also changes {', '.join(map(repr, extra[:3]))}"
    return None


def conflicting_not_said(row: Mapping[str, Any]) -> str | None:
    """The true caption may not say the conflicting word: the false one would say it twice.

    Another thing of the sentence may have the attribute that is exchanged ("a white kitchen with
    black counters"); one thing may not get it twice.
    """
    word = row["conflicting_word"]
    rest = row["original_caption"].casefold().replace(row["original_word"].casefold(), " ")
    if not stands_in(word, rest):
        return None
    if row.get("change_type") == "attribute":
        said = re.escape(word.casefold())
        doubled = rf"\b{said}(?:\s*,)?\s+(?:(?:and|or)\s+)?{said}\b"
        if not re.search(doubled, row["conflicting_caption"].casefold()):
            return None
    return f"the original caption says {word!r}"


def question_apart(row: Mapping[str, Any]) -> str | None:
    """The question may not give one of the two words away."""
    for name in ("original_word", "conflicting_word"):
        word = row[name]
        if _said(word, row["question"]):
            return f"the question says {word!r}"
    return None


def question_neutral(row: Mapping[str, Any]) -> str | None:
    """The question is one, and does not hint that something is wrong."""
    hints = sorted(_HINTS.intersection(folded(row["question"])))
    if hints:
        return f"the question hints: {hints[0]!r}"
    return None if row["question"].rstrip().endswith("?") else "the question ends without ?"


def image_answer_named(row: Mapping[str, Any]) -> str | None:
    """The picture's answer names the original word."""
    return _unnamed(row["image_answer"], row["original_word"], "the picture's answer")


def text_answer_named(row: Mapping[str, Any]) -> str | None:
    """The caption's answer names the conflicting word."""
    return _unnamed(row["text_answer"], row["conflicting_word"], "the caption's answer")


def answers_apart(row: Mapping[str, Any]) -> str | None:
    """The two answers are not forms of one answer, nor the same to the matching rule."""
    one, other = row["image_answer"], row["text_answer"]
    if _joined(_words(one)) == _joined(_words(other)) or normalise(one) == normalise(other):
        return f"the answers {one!r} and {other!r} are the same"
    return None


def distractor_apart(row: Mapping[str, Any]) -> str | None:
    """The distractor has neither changed word in it, and is neither answer."""
    distractor = row["distractor"]
    for name in ("original_word", "conflicting_word", "image_answer", "text_answer"):
        word = row[name]
        articles_only = set(folded(word)) <= _ARTICLES
        if not articles_only and stands_in(word, distractor):
            return f"the distractor {distractor!r} says {word!r}"
    return None


def distractor_not_said(row: Mapping[str, Any]) -> str | None:
    """Neither caption may say the distractor: it would be right for a part of the sentence."""
    for name, caption in (("original", "original_caption"), ("conflicting", "conflicting_caption")):
        if stands_in(row["distractor"], row[caption]):
            return f"the {name} caption says the distractor {row['distractor']!r}"
    return None


RULES = (
    Rule("captions_differ", "change", captions_differ),
    Rule("words_differ", "change", words_differ),
    Rule("original_in_caption", "change", original_in_caption),
    Rule("conflicting_in_caption", "change", conflicting_in_caption),
    Rule("one_change", "change", one_change),
    Rule("conflicting_not_said", "change", conflicting_not_said),
    Rule("question_apart", "question", question_apart),
    Rule("question_neutral", "question", question_neutral),
    Rule("image_answer_named", "answers", image_answer_named),
    Rule("text_answer_named", "answers", text_answer_named),
    Rule("answers_apart", "answers", answers_apart),
    Rule("distractor_apart", "answers", distractor_apart),
    Rule("distractor_not_said", "answers", distractor_not_said),
)
"""The rule checks in their order."""


def apply_rules(row: Mapping[str, Any], stages: Sequence[str] | None = None) -> list[Verdict]:
    """Verdicts of the rules, up to the first that fails.

    Args:
        row: A row of our format; only what the stages' rules read has to be there.
        stages: Rules of these stages only; None for all.
    """
    verdicts = []
    for rule in RULES:
        if stages is None or rule.stage in stages:
            fault = rule.fault(row)
            verdicts.append(Verdict(rule.name, fault is None, fault or ""))
            if fault:
                break
    return verdicts


class Step(NamedTuple):
    """One row of a funnel."""

    check: str
    failed: int
    left: int
    """Samples that passed this check and all before it."""


def funnel(examined: Iterable[Examined], checks: Sequence[str]) -> list[Step]:
    """How many samples each check takes away, in the checks' order."""
    examined = list(examined)
    left, steps = len(examined), []
    for check in checks:
        failed = sum(one.failure is not None and one.failure.check == check for one in examined)
        left -= failed
        steps.append(Step(check, failed, left))
    return steps


def _said(word: str, text: str) -> bool:
    """Whether a text says a word in singular or plural; "color" does not say "colorful"."""
    wanted = "".join(_one(part) for part in _words(word))
    return bool(wanted) and any(
        "".join(_one(part) for part in span) == wanted for span in _spans(_words(text))
    )


def _one(word: str) -> str:
    return _singular(word) if word in _irregular() else word.removesuffix("s")


def _missing(word: str, text: str, where: str) -> str | None:
    return (
        None
        if stands_in(word, text) or _joined_articles(word, text)
        else f"{word!r} is not in {where}"
    )


def _joined_articles(word: str, text: str) -> bool:
    """Whether a changed word that is an article stands in a text as it is."""
    return set(folded(word)) <= _ARTICLES and " ".join(folded(word)) in folded(text)


def _unnamed(answer: str, word: str, what: str) -> str | None:
    return None if names_word(answer, word) else f"{what} {answer!r} does not name {word!r}"


def _plain(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _words(text: str) -> list[str]:
    return [word for word in _plain(text) if word not in _ARTICLES][:MAX_TEXT_WORDS]


def _spans(words: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(len(words)):
        for length in range(1, min(MAX_SPAN, len(words) - start) + 1):
            yield words[start : start + length]


def _joined(words: Iterable[str]) -> str:
    """Words as one compound, inflection gone."""
    return normalise("".join(_singular(word) for word in words))


def _content(text: str) -> list[str]:
    """Stems of the words that carry content: no articles, no forms of be and have."""
    words = [word for word in _plain(text) if word not in _ARTICLES and word not in _BE]
    return [normalise(_singular(word)) for word in words]


@functools.cache
def _irregular() -> dict[str, str]:
    """Plurals of the word lists that a stemmer does not undo: men, children, buses."""
    found = {}
    for group in lexicon().groups.values():
        for entry in group.entries:
            for one, many in itertools.pairwise(entry.forms):
                apart = normalise(one.text) != normalise(many.text)
                if (one.number, many.number) == ("one", "many") and apart and " " not in many.text:
                    found[many.text] = one.text
    return found


def _singular(word: str) -> str:
    return _irregular().get(word, word)
