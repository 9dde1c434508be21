"""CLASH's figures, each written once.

Every figure is a function of a set of answers: their order, and how they were spread over
processes, changes nothing. Rates are proportions (0 to 1) over all documents given, failed requests
included; None stands where there is nothing to count, never 0 or 0.5.

Definitions: the CLASH paper (arXiv 2511.19199) and its release; what is ours is in the README.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from postprocess.measure.clash_answers import (
    CATEGORIES,
    CATEGORY_NAMES,
    KINDS,
    ROTATIONS,
    UNREADABLE,
    ClashAnswer,
    answers_of,
    category_name,
    frame,
    n_left_out,
)
from postprocess.measure.metric import (
    LEFT_OUT,
    Formula,
    Frame,
    Metric,
    Rate,
    of_sums,
    registry,
    total,
    value,
)
from postprocess.measure.stats import Floats, ratio
from postprocess.read import matching

__all__ = [
    "CATEGORIES",
    "CATEGORY_NAMES",
    "METRICS",
    "ROTATIONS",
    "TASKS",
    "UNREADABLE",
    "ClashAnswer",
    "answers_of",
    "category_name",
    "figure",
    "frame",
    "kappa_of",
    "metrics_for",
    "n_left_out",
]


def kappas(laid: Frame, weights: Floats) -> dict[str, Floats]:
    """Cohen's kappa of each judge with the matching rule, under each row of weights.

    NaN where chance agreement is 1 or there is nothing to compare.

    Source: Cohen, "A coefficient of agreement for nominal scales", 1960.
    """
    k = len(KINDS)
    suffix = ".0.0"
    names = [
        c.removeprefix("table.").removesuffix(suffix)
        for c in laid.columns
        if c.startswith("table.") and c.endswith(suffix)
    ]
    out = {}
    for name in names:
        cells = [laid[f"table.{name}.{row}.{col}"] for row, col in np.ndindex(k, k)]
        table = (weights @ np.column_stack(cells)).reshape(-1, k, k)
        n = table.sum(axis=(1, 2))
        agreed = np.trace(table, axis1=1, axis2=2)
        chance = (table.sum(axis=1) * table.sum(axis=2)).sum(axis=1)
        out[name] = ratio(agreed * n - chance, n * n - chance)
    return out


def kappa_of(judge: str) -> Formula:
    """Cohen's kappa of one judge with the matching rule, over the answers it judged."""
    return Formula(lambda laid, w: kappas(laid, w)[judge], f"n.by.{judge}.conflict")


def _mean_kappa(laid: Frame, weights: Floats) -> Floats:
    found = np.array(list(kappas(laid, weights).values())).reshape(-1, len(weights))
    known = np.isfinite(found)
    return ratio(np.where(known, found, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def _bias(*counts: Floats) -> Floats:
    """Total-variation distance of the letters from equal shares."""
    n = np.sum(counts, axis=0)
    return np.asarray(sum(np.abs(ratio(x, n) - 1 / len(counts)) for x in counts) / 2)


def _counted(name: str) -> Rate:
    return Rate(name, f"n.{name}")


def _rate(name: str, title: str, doc: str, column: str | None = None, **other: Any) -> Metric:
    """A rate over documents."""
    other = {"kind": "rate", "alone": True, **other}
    return Metric(name, title, doc, "documents", _counted(column or name), **other)


def _total(name: str, title: str, doc: str, column: str, better: bool | None) -> Metric:
    other: dict[str, Any] = {"kind": "count", "higher_is_better": better}
    return Metric(name, title, doc, "documents", total(column), **other)


def _judge(name: str, title: str, doc: str, column: str, better: bool = False) -> Metric:
    compared = name == "judge_conflict"
    return _rate(name, title, doc, column, higher_is_better=better, alone=False, compared=compared)


_LETTER_COLUMNS = tuple(f"letter.{letter}" for letter in matching.LETTERS)
METRICS: dict[str, Metric] = registry(
    (
        _rate(
            "conflict",
            "conflict",
            "Share of captions for which a conflict is flagged; on true captions a false alarm",
            always_no=0.0,
            compared=True,
        ),
        _rate(
            "image",
            "image",
            "Share of answers that give the picture's answer",
            always_no=1.0,
            higher_is_better=False,
            compared=True,
        ),
        _rate(
            "text",
            "text",
            "Share of answers that give the caption's answer",
            always_no=0.0,
            higher_is_better=False,
            compared=True,
        ),
        _rate(
            "none",
            "none",
            "Share of answers in which nothing is recognised (open questions)",
            always_no=0.0,
            higher_is_better=False,
            compared=True,
        ),
        _rate(
            "distractor",
            "distractor",
            "Share of answers that give the distractor (multiple choice)",
            always_no=0.0,
            higher_is_better=False,
            compared=True,
        ),
        _rate(
            "unusable_rate",
            "unusable",
            "Share of answers without a single letter in the form (A) (multiple choice)",
            "unusable",
            always_no=0.0,
            higher_is_better=False,
            compared=True,
        ),
        _rate(
            "accuracy",
            "right",
            "Share of true captions to which the picture's answer is given without a conflict",
            "correct",
            kind="accuracy",
            compared=True,
            slot="",
        ),
        _rate(
            "both_rate",
            "both",
            "Share of answers with the picture's and the caption's answer but no conflict",
            "both",
            higher_is_better=False,
        ),
        _rate(
            "overlap_rate",
            "several at once",
            "Share of answers with more than one flag",
            "overlap",
            always_no=0.0,
            higher_is_better=False,
            compared=True,
        ),
        _rate(
            "empty_rate",
            "empty",
            "Share of empty answers",
            "empty",
            higher_is_better=False,
            compared=True,
        ),
        _rate(
            "failed_rate",
            "failed",
            "Share of requests that failed; above 1% the run exits non-zero",
            "failed",
            higher_is_better=False,
            compared=True,
        ),
        _rate(
            "conflict_relaxed",
            "conflict, relaxed reading",
            "Conflict where a bare letter or one option's text counts too",
            "relaxed.conflict",
            always_no=0.0,
            compared=True,
        ),
        _rate(
            "unusable_relaxed",
            "unusable, relaxed reading",
            "Unusable answers of the relaxed reading",
            "relaxed.unusable",
            higher_is_better=False,
        ),
        _rate(
            "letter_prob_acc",
            "right by letter probability",
            "Share of answers whose likeliest letter is right, of those with log-probabilities",
            "letter_prob",
            compared=True,
        ),
        _total(
            "n_letter_prob",
            "n with letter probabilities",
            "Answers with log-probabilities of all letters",
            "n.letter_prob",
            True,
        ),
        _rate(
            "circular_acc",
            "right in all rotations",
            "Share of samples that are right in all four rotations",
            "circular",
            kind="accuracy",
            alone=False,
        ),
        _total("n_sets", "n sets", "Samples shown in all rotations", "n.circular", True),
        _total(
            "n_sets_left_out",
            "sets left out",
            "Samples of which a rotation is missing, as where --limit cuts one",
            "sets_cut",
            False,
        ),
        Metric(
            "n_left_out",
            "left out",
            "Pictures left out with their samples: missing, or not decodable",
            "pictures",
            LEFT_OUT,
            kind="count",
            higher_is_better=False,
        ),
        Metric(
            "letter_bias",
            "letter bias",
            "Distance of the letters answered from equal shares (0 to 0.75)",
            "documents",
            of_sums(_bias, *_LETTER_COLUMNS, over="n.letter.A"),
            kind="number",
            bounds=(0.0, 0.75),
            higher_is_better=False,
        ),
        *(
            _rate(
                f"share_{letter.lower()}",
                letter,
                f"Share of {letter} among the letters answered",
                f"letter.{letter}",
                higher_is_better=None,
                alone=False,
            )
            for letter in matching.LETTERS
        ),
        *(
            _judge(
                f"judge_{outcome}",
                f"{outcome}, a judge",
                f"At least one judge says {outcome}, of the rows that all of them judged",
                f"judge.{outcome}",
                outcome == "conflict",
            )
            for outcome in matching.JUDGE_LABELS.values()
        ),
        _judge(
            "judge_conflict_all",
            "conflict, all judges",
            "All judges see a conflict",
            "every.conflict",
            better=True,
        ),
        Metric(
            "judge_kappa",
            "kappa with matching",
            "Mean Cohen's kappa of the judges with the matching rule",
            "documents",
            Formula(_mean_kappa, "judged"),
            kind="number",
            bounds=(-1.0, 1.0),
        ),
        _total("n_judged", "n judged", "Rows that all of them judged", "judged", True),
        _total("n_unjudged", "unjudged", "The other rows", "unjudged", False),
        *(
            _rate(
                f"conflict_{group}",
                group.replace("_", ", "),
                f"Conflict among samples of {group.replace('_', ', ')}; two categories count twice",
                f"conflict.{group}",
            )
            for group in (*CATEGORIES, *CATEGORY_NAMES)
        ),
    )
)
"""Every figure of CLASH; on original captions `conflict` is the rate of false alarms."""

_SHARED = ("empty_rate", "failed_rate", "n_left_out")
_OPEN = ("conflict", "image", "text", "none", "both_rate", "overlap_rate", *_SHARED)
_MC = (
    *("conflict", "image", "text", "distractor", "unusable_rate", *_SHARED),
    *("conflict_relaxed", "unusable_relaxed", "letter_prob_acc", "n_letter_prob"),
)
_LETTERS = ("letter_bias", *(f"share_{letter.lower()}" for letter in matching.LETTERS))
_GROUPS = tuple(f"conflict_{name}" for name in (*CATEGORIES, *CATEGORY_NAMES))
_TRUE_CAPTION = tuple(f"conflict_{kind}" for kind in CATEGORIES)
TASKS = {
    "clash_mc": (*_MC, *_LETTERS, *_GROUPS),
    "clash_open": (*_OPEN, *_GROUPS),
    "clash_mc_original": ("conflict", "accuracy", *_MC[1:], *_LETTERS, *_TRUE_CAPTION),
    "clash_open_original": ("conflict", "accuracy", *_OPEN[1:], *_TRUE_CAPTION),
    "clash_open_judge": (
        *_OPEN,
        *(f"judge_{outcome}" for outcome in matching.JUDGE_LABELS.values()),
        *("judge_conflict_all", "judge_kappa", "n_judged", "n_unjudged"),
        *_GROUPS,
    ),
    "clash_mc_circular": (
        *("conflict", "circular_acc", "n_sets", "n_sets_left_out"),
        *(*_MC[1:], *_LETTERS),
    ),
}
"""Metrics by task."""


def metrics_for(task: str) -> tuple[str, ...]:
    """The metrics of a task, in the order of its table; the first, `conflict`, carries the record.

    Raises:
        KeyError: The task is none of CLASH.

    >>> metrics_for("clash_open")[:4]
    ('conflict', 'image', 'text', 'none')
    """
    return TASKS[task]


def figure(
    name: str, answers: Sequence[ClashAnswer], judges: Sequence[str] | None = None
) -> float | int | None:
    """One figure of some answers; None where it does not apply."""
    return value(METRICS[name], frame(answers, judges))
