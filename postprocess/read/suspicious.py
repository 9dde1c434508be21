"""Answers to CLASH that the official matching may read otherwise than a person would.

The paper's figures rest on the matching as it is, so nothing here ever changes a flag: a row that
is read suspiciously is counted beside the faithful figure, and can be looked up. The signs are
meant for people, who decide; a sign may be wrong. Time stays linear in the length of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from postprocess.read.matching import normalise, prediction_text

SIGNS = {
    "negated_conflict": "a conflict is flagged, but its word stands only under a negation",
    "negated_answer": "an answer alone is flagged, but stands only under a negation",
    "missed_conflict": "no conflict is flagged, but other words speak of one",
    "letter_in_explanation": "the letter that counts stands only in an explanation",
}
"""What each sign means, by its name."""

MAX_CHARS = 20_000
"""Answers are looked at up to here."""

_NEGATION = re.compile(
    r"\b(?:no|not|never|without|neither|nor|cannot|isn|aren|wasn|weren|doesn|don|didn|won|rather"
    r"|instead)\b"
)
_CLAUSE = re.compile(r"[.;:!?,\n]|\b(?:but|however|although|though|whereas|because|and|or)\b")
_CONFLICT = re.compile(r"\b(?:conflict|contradict)(?:s|ed|ing|ion|ions)?\b")
_MISSED = re.compile(
    r"\b(?:do(?:es)?(?: not|n['’]t) (?:match|agree|correspond|fit|align)"
    r"|(?:can ?not|can['’]t|unable to|impossible to|not possible to)"
    r" (?:be )?(?:answer|determin|tell)"
    r"|contradictory|inconsisten\w*|mismatch\w*|discrepan\w*|incompatible|disagree\w*"
    r"|(?:caption|sentence|description|text) (?:is|seems|must be) (?:wrong|incorrect|false))"
)


def signs(
    prediction: Any,
    image_answer: Any,
    text_answer: Any,
    flags: Mapping[str, Any],
    letter: str | None = None,
    relaxed_letter: str | None = None,
) -> tuple[str, ...]:
    """What is suspicious about how an answer was read, as names of `SIGNS`.

    Args:
        prediction: The model's words, without a response line.
        image_answer: The answer that the picture gives.
        text_answer: The answer that the caption gives.
        flags: The official flags, `conflict`, `image` and `text`; others do not matter.
        letter: In multiple choice, the letter by the release's rule.
        relaxed_letter: The letter by the relaxed rule.

    >>> signs("There is no conflict: red", "red", "blue", {"conflict": 1, "image": 1})
    ('negated_conflict',)
    >>> signs("Not green.", "red", "green", {"text": 1})
    ('negated_answer',)
    >>> signs("Picture and caption do not match.", "red", "green", {})
    ('missed_conflict',)
    >>> signs("B because (A) is wrong", "red", "green", {"conflict": 1}, "A", "B")
    ('letter_in_explanation',)
    """
    if letter is not None or relaxed_letter is not None:
        other = letter is not None and letter != relaxed_letter
        return ("letter_in_explanation",) * other
    words = prediction_text(prediction)[:MAX_CHARS].lower()
    clauses = _CLAUSE.split(words)
    found = []
    spoken = [clause for clause in clauses if _CONFLICT.search(clause)]
    if flags.get("conflict") and spoken and all(map(_denied_conflict, spoken)):
        found.append("negated_conflict")
    forms = [
        normalise(prediction_text(answer))
        for name, answer in (("image", image_answer), ("text", text_answer))
        if flags.get(name)
    ]
    # "Red, not green" has several flags already, and is counted as such.
    denied = [_only_denied(form, clauses) for form in forms if form]
    if denied and all(denied) and not flags.get("conflict"):
        found.append("negated_answer")
    if not flags.get("conflict") and _MISSED.search(words):
        found.append("missed_conflict")
    return tuple(found)


def signs_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The signs of a CLASH record; none for a failed or empty answer."""
    if record.get("status") in ("failed", "empty"):
        return ()
    return signs(
        record.get("response"),
        record.get("image_answer"),
        record.get("text_answer"),
        {name: record.get(f"flag_{name}") for name in ("conflict", "image", "text")},
        record.get("letter") if record.get("form") == "mc" else None,
        record.get("relaxed_letter") if record.get("form") == "mc" else None,
    )


def _denied_conflict(clause: str) -> bool:
    """Whether a negation stands before the clause's first word of conflict."""
    word = _CONFLICT.search(clause)
    return word is not None and _NEGATION.search(clause, 0, word.start()) is not None


def _only_denied(form: str, clauses: list[str]) -> bool:
    """Whether an answer stands in some clauses, and in each of them behind a negation.

    An answer that holds a negation itself ("no one") is not looked for.
    """
    if _NEGATION.search(form):
        return False
    holding = [clause for clause in clauses if f" {form} " in f" {normalise(clause)} "]
    return bool(holding) and all(_denied(clause, form) for clause in holding)


def _denied(clause: str, form: str) -> bool:
    negation = _NEGATION.search(clause)
    if negation is None:
        return False
    return f" {form} " not in f" {normalise(clause[: negation.start()])} "
