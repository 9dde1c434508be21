"""How many of how many, for people who read counts: what `pragclash score` prints of a file.

Every count is read off the frame that the metrics rest on; nothing is defined here a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from postprocess.measure import judges as judging
from postprocess.measure.clash import figure, kappas
from postprocess.measure.clash_answers import (
    CATEGORIES,
    CATEGORY_NAMES,
    ClashAnswer,
    answers_of,
    frame,
)
from postprocess.measure.metric import Frame
from postprocess.read import matching

__all__ = ["Circular", "Judged", "LetterBias", "Rate", "answers_of"]


class Rate(NamedTuple):
    """How many of how many."""

    held: int
    n: int

    @property
    def value(self) -> float | None:
        """The proportion, 0 to 1; None out of nothing."""
        return self.held / self.n if self.n else None


class Circular(NamedTuple):
    """Samples that were shown in all four rotations."""

    right: int
    """Samples right in every rotation."""
    n: int
    """Samples shown in every rotation."""
    left_out: int
    """Samples of which a rotation is missing."""

    @property
    def value(self) -> float | None:
        """The share of samples right in every rotation, 0 to 1; None without a complete one."""
        return self.right / self.n if self.n else None


class LetterBias(NamedTuple):
    """Which letters a model picks, whatever stands behind them."""

    shares: dict[str, float | None]
    """Share of each letter among the answers with a letter, 0 to 1."""
    distance: float | None
    """Total-variation distance from equal shares: half the summed differences, 0 to 0.75."""
    n: int
    """Answers with a letter."""


class Judged(NamedTuple):
    """What one judge, or several together, made of the answers."""

    rates: dict[str, Rate]
    """By outcome (`image`, `text`, `conflict`, `none`), out of the answers judged."""
    n: int
    """Answers judged, those without a readable label included."""
    unreadable: int
    unjudged: int
    kappa: float | None
    """Cohen's kappa with the matching rule over readable labels; None for several judges."""


def _tally(laid: Frame, column: str) -> Rate:
    return Rate(int(laid[column].sum()), int(laid[f"n.{column}"].sum()))


def outcome_rates(answers: Sequence[ClashAnswer]) -> dict[str, Rate]:
    """The exclusive outcomes, those that never occurred included; their counts add up to n.

    Outcomes of both forms are listed where both forms occur.
    """
    forms = {answer.form for answer in answers}
    names = (
        *matching.OPEN_OUTCOMES * ("open" in forms),
        *matching.CHOICE_OUTCOMES * ("mc" in forms),
    )
    counts = Counter(answer.outcome for answer in answers)
    return {name: Rate(counts[name], len(answers)) for name in dict.fromkeys(names)}


def by_change_type(answers: Sequence[ClashAnswer]) -> dict[str, Rate]:
    """Conflict over the samples whose object, or whose attribute, was changed."""
    laid = frame(answers)
    return {kind: _tally(laid, f"conflict.{kind}") for kind in CATEGORIES}


def by_category(answers: Sequence[ClashAnswer], *, paper_compat: bool = False) -> dict[str, Rate]:
    """Conflict in each category, named `animals`, ..., `other_object`, `other_attribute`.

    Args:
        answers: Answers with change type and categories.
        paper_compat: Drop samples that are in two categories, as the paper's tables do; else they
            count in both.
    """
    laid = frame(answers, dedouble=paper_compat)
    return {name: _tally(laid, f"conflict.{name}") for name in CATEGORY_NAMES}


def circular(answers: Sequence[ClashAnswer]) -> Circular:
    """Samples right in all four rotations, by sample id (and caption kind), never by position."""
    laid = frame(answers)
    return Circular(*_tally(laid, "circular"), int(laid["sets_cut"].sum()))


def letter_bias(answers: Sequence[ClashAnswer]) -> LetterBias:
    """Shares of the letters among the letters answered, and their distance from equal shares.

    Where rotations are given only complete sets count: there every role stands behind every letter
    once, so a model that follows the options' content picks the four letters equally often. Without
    rotations the orders are equally likely only on average, and a small distance is chance.
    """
    laid = frame(answers)
    rates = {letter: _tally(laid, f"letter.{letter}") for letter in matching.LETTERS}
    shares = {letter: rate.value for letter, rate in rates.items()}
    return LetterBias(shares, figure("letter_bias", answers), rates[matching.LETTERS[0]].n)


def letter_prob(answers: Sequence[ClashAnswer]) -> Rate:
    """Answers whose likeliest letter is right, out of those with letter log-probabilities."""
    return _tally(frame(answers), "letter_prob")


def judged(answers: Sequence[ClashAnswer]) -> dict[str, Judged]:
    """What each judge made of the answers, by the judge's name.

    Rates are out of the answers that the judge answered at all: one without a label is counted as
    unreadable and has no outcome. A row that the judge never answered is unjudged, never `none`.
    """
    labels, laid = [answer.judges or {} for answer in answers], frame(answers)
    agreement = kappas(laid, np.ones((1, len(laid.ids))))
    out = {}
    for name in judging.named(labels):
        rates = {x: _tally(laid, f"by.{name}.{x}") for x in matching.JUDGE_LABELS.values()}
        given = [one[name] for one in labels if one.get(name) is not None]
        unreadable = sum(label not in matching.JUDGE_LABELS for label in given)
        kappa = float(agreement[name][0])
        out[name] = Judged(
            rates,
            len(given),
            unreadable,
            len(answers) - len(given),
            kappa if np.isfinite(kappa) else None,
        )
    return out


def judged_together(
    answers: Sequence[ClashAnswer], judges: Sequence[str] | None = None
) -> tuple[Judged, Judged]:
    """The labels that at least one judge gave, and those that all of them gave.

    Args:
        answers: Answers with labels.
        judges: The judges to combine; those of `judges.combined` where None.

    Returns:
        Two figures over the answers that every one of the judges answered; the others are unjudged.
    """
    labels = [answer.judges or {} for answer in answers]
    if judges is None:
        judges = judging.combined(labels).names
    laid = frame(answers, judges)
    sets = [[one.get(name) for name in judges] for one in labels]
    given = [own for own in sets if own and None not in own]
    out = []
    for prefix, combine in (("judge", any), ("every", all)):
        rates = {x: _tally(laid, f"{prefix}.{x}") for x in matching.JUDGE_LABELS.values()}
        unreadable = sum(combine(x not in matching.JUDGE_LABELS for x in own) for own in given)
        out.append(Judged(rates, len(given), unreadable, len(sets) - len(given), None))
    return out[0], out[1]
