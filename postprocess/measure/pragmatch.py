"""PragMatch's figures, each written once.

Two rules hold throughout: an answer without a verdict is wrong, and ties count half. No formula may
read a position, invent a score where none was measured, or divide by nothing.

Definitions: the PragMatch paper (arXiv 2608.09772), whose names and chance levels are kept.
`pair_ranking`, `flip_difference`, `independence`, the rates and the counts are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from postprocess.measure import scores
from postprocess.measure.groups import Answer, Slots
from postprocess.measure.metric import (
    LEFT_OUT,
    Column,
    Formula,
    Frame,
    Metric,
    Rate,
    of_sums,
    registry,
    total,
    value,
)
from postprocess.measure.pragmatch_answers import (
    M_M_PLUS,
    P_MINUS_M_PLUS,
    P_P_MINUS,
    PM,
    PML,
    answers_of,
    frame,
    scored_items,
    without_unreadable,
)
from postprocess.measure.stats import Floats, ratio

__all__ = [
    "FAMILIES",
    "METRICS",
    "M_M_PLUS",
    "PM",
    "PML",
    "P_MINUS_M_PLUS",
    "P_P_MINUS",
    "answers_of",
    "figure",
    "frame",
    "metrics_for",
    "scored_items",
    "slots_for",
    "without_unreadable",
]


def _accuracy(slot: str) -> Rate:
    """Accuracy in one slot; on whole pictures where a caption and its edit are both asked."""
    among = f"among.{slot}"
    return Rate(lambda laid: laid[among] * laid[f"right.{slot}"], among)


def _all_right(*slots: str) -> Rate:
    """Share of whole pictures with every one of the slots right."""

    def top(laid: Frame) -> Floats:
        both: Floats = laid["whole"] * np.prod([laid[f"right.{slot}"] for slot in slots], axis=0)
        return both

    def bottom(laid: Frame) -> Floats:
        _ = top(laid)
        return laid["whole"]

    return Rate(top, bottom)


def _whole(side: Column, wrong: bool = False) -> Callable[[Frame], Floats]:
    def right(laid: Frame) -> Floats:
        held = laid[side] if isinstance(side, str) else side(laid)
        return laid["whole"] * ((1 - held) if wrong else held)

    return right


def _pairs(laid: Frame) -> Floats:
    """Whole pictures, where the slots hold both classes."""
    _ = laid["positive"]
    return laid["whole"]


def _f1(hits: Floats, false_alarms: Floats, misses: Floats) -> Floats:
    return ratio(2 * hits, 2 * hits + false_alarms + misses)


def _ranked(laid: Frame, w: Floats) -> Floats:
    keep = laid["scored"] > 0
    return scores.auroc(laid["s.positive"][keep], laid["s.negative"][keep], w[:, keep])


def _both_scored(laid: Frame) -> Floats:
    _ = laid["positive"]
    return laid["scored"]


def _won(laid: Frame) -> Floats:
    p, m = np.nan_to_num(laid["s.positive"]), np.nan_to_num(laid["s.negative"])
    won: Floats = laid["scored"] * ((p > m) + 1.0 * (p >= m)) / 2
    return won


def _calibration_error(laid: Frame, w: Floats) -> Floats:
    s, labels, where = scored_items(laid)
    keep = np.flatnonzero(laid["scored"])
    return scores.expected_error(s, labels, w[:, keep][:, where])


def _cross_fitted(laid: Frame) -> Floats:
    out = np.zeros(len(laid.ids))
    s, labels, where = scored_items(laid)
    keep = np.flatnonzero(laid["scored"])
    right = scores.cross_fit(s, labels, where, len(keep))
    if len(keep):
        out[keep] = np.bincount(where, right, len(keep))
    return out


_PRODUCT = (_whole("positive"), _whole("negative"), "whole")


def _product(p: Floats, m: Floats, n: Floats) -> Floats:
    return ratio(p, n) * ratio(m, n)


def _excess(both: Floats, p: Floats, m: Floats, n: Floats) -> Floats:
    return ratio(both, n) - _product(p, m, n)


def _of_slot(name: str, slot: str, what: str, always_no: float) -> Metric:
    return Metric(
        name,
        slot,
        f"Accuracy on {what} captions",
        "captions",
        _accuracy(slot),
        chance=0.5,
        always_no=always_no,
        compared=True,
        slot=slot,
    )


def _of_pictures(
    name: str, title: str, slots: Slots, doc: str, over: str, always_no: float
) -> Metric:
    return Metric(
        name,
        title,
        doc,
        over,
        _all_right(*slots),
        chance=0.5 ** len(slots),
        always_no=always_no,
        compared=True,
    )


METRICS: dict[str, Metric] = registry(
    (
        Metric(
            "accuracy",
            "Acc",
            "Share of right answers over complete pictures (P and M)",
            "captions",
            Rate("right", "items"),
            chance=0.5,
            always_no=0.5,
            compared=True,
        ),
        Metric(
            "f1",
            "F1",
            "F1 of the sarcastic class over complete pairs; 0 without a Yes",
            "pairs",
            of_sums(
                _f1,
                *(_whole("positive"), _whole("negative", wrong=True)),
                _whole("positive", wrong=True),
                over=_pairs,
            ),
            kind="f1",
            always_no=0.0,
            compared=True,
        ),
        Metric(
            "auroc",
            "AUROC",
            "AUROC of log P(Yes) - log P(No) on P against M; ties count half, n/a without scores",
            "pairs",
            Formula(_ranked, _both_scored, ("s.positive", "s.negative")),
            kind="auroc",
            chance=0.5,
            always_no=0.5,
            compared=True,
        ),
        Metric(
            "pair_ranking",
            "P ranked above M",
            "Share of pictures whose P scores above their M; ties count half",
            "pairs",
            Rate(_won, _both_scored, step=0.5),
            kind="rate",
            chance=0.5,
            always_no=0.5,
            compared=True,
        ),
        Metric(
            "n_scored",
            "n with scores",
            "Complete pairs with a score on both sides, which AUROC and ranking rest on",
            "pairs",
            total("scored"),
            kind="count",
            higher_is_better=None,
        ),
        _of_slot("acc_p", "P", "sarcastic", 0.0),
        _of_slot("acc_m", "M", "mismatched", 1.0),
        _of_slot("acc_l", "L", "literal", 1.0),
        _of_slot("acc_p_minus", "P-", "masked sarcastic", 0.0),
        _of_slot("acc_m_plus", "M+", "injected mismatched", 1.0),
        Metric(
            "flip_difference",
            "edited less clean",
            "Accuracy on edited less original captions of the same pictures",
            "pictures",
            Rate("flip", lambda laid: laid["flip"] * 0 + laid["whole"]),
            kind="difference",
            chance=0.0,
            always_no=0.0,
            compared=True,
        ),
        _of_pictures(
            "pair_acc",
            "paired P-M",
            PM,
            "Share of pictures with P and M both right; chance 0.25",
            "pairs",
            0.0,
        ),
        _of_pictures(
            "group_acc",
            "grouped P-M-L",
            PML,
            "Share of pictures with P, M and L all right; chance 0.125",
            "groups",
            0.0,
        ),
        _of_pictures(
            "p_p_minus",
            "P and P-",
            P_P_MINUS,
            "Share of pictures with P and masked P both right",
            "pictures",
            0.0,
        ),
        _of_pictures(
            "m_m_plus",
            "M and M+",
            M_M_PLUS,
            "Share of pictures with M and injected M both right",
            "pictures",
            1.0,
        ),
        _of_pictures(
            "p_minus_m_plus",
            "P- and M+",
            P_MINUS_M_PLUS,
            "Share of pictures with masked P and injected M both right",
            "pictures",
            0.0,
        ),
        Metric(
            "yes_rate",
            "Yes",
            "Share of answers read as Yes, of all answers",
            "captions",
            Rate("yes", "asked"),
            kind="rate",
            always_no=0.0,
            higher_is_better=None,
            compared=True,
            alone=True,
        ),
        Metric(
            "unusable_rate",
            "unusable",
            "Share of answers without a verdict, which count as wrong",
            "captions",
            Rate("unread", "asked"),
            kind="rate",
            always_no=0.0,
            higher_is_better=False,
            alone=True,
        ),
        Metric(
            "failed_rate",
            "failed",
            "Share of requests that failed; above 1% the run exits non-zero",
            "captions",
            Rate("failed", "asked"),
            kind="rate",
            always_no=0.0,
            higher_is_better=False,
            alone=True,
        ),
        Metric(
            "n_pairs",
            "n",
            "Complete pictures: pairs, or groups where three captions are asked",
            "pictures",
            total("whole"),
            kind="count",
            higher_is_better=None,
        ),
        Metric(
            "n_left_out",
            "left out",
            "Pictures left out: incomplete ones, and those that loading omitted",
            "pictures",
            LEFT_OUT,
            kind="count",
            higher_is_better=False,
        ),
        Metric(
            "independence",
            "independence",
            "P times M: the pair accuracy if P and M had nothing to do with each other",
            "pairs",
            of_sums(_product, *_PRODUCT, over=_pairs),
            chance=0.25,
            always_no=0.0,
        ),
        Metric(
            "pair_excess",
            "pair less independence",
            "Pair accuracy less independence",
            "pairs",
            of_sums(
                _excess,
                lambda laid: laid["whole"] * laid["positive"] * laid["negative"],
                *_PRODUCT,
                over=_pairs,
            ),
            kind="excess",
            always_no=0.0,
        ),
        Metric(
            "ece",
            "calibration error",
            "Expected calibration error of s read as log-odds",
            "pairs",
            Formula(_calibration_error, _both_scored),
            kind="number",
            higher_is_better=False,
        ),
        Metric(
            "threshold_accuracy",
            "Acc, fitted threshold",
            "Accuracy at a threshold that the other folds of pictures choose",
            "captions",
            Rate(_cross_fitted, lambda laid: 2 * _both_scored(laid)),
        ),
    )
)
"""Every figure of PragMatch; those that no task prints stand at the end."""

_RATES = ("yes_rate", "unusable_rate", "failed_rate")
_COUNTS = ("n_pairs", "n_left_out")
_RANKED = ("f1", "auroc", "pair_ranking", "n_scored")

_FAMILIES: dict[str, tuple[Slots, tuple[str, ...]]] = {
    "p": (("P",), ("acc_p", *_RATES, "n_left_out")),
    "m": (("M",), ("acc_m", *_RATES, "n_left_out")),
    "l": (("L",), ("acc_l", *_RATES, "n_left_out")),
    "pm": (PM, (*_RANKED, "acc_p", "acc_m", "pair_acc", *_RATES, *_COUNTS)),
    "pml": (
        PML,
        (*_RANKED, "acc_p", "acc_m", "acc_l", "pair_acc", "group_acc", *_RATES, *_COUNTS),
    ),
    "p_minus": (
        P_P_MINUS,
        ("acc_p", "acc_p_minus", "flip_difference", "p_p_minus", *_RATES, *_COUNTS),
    ),
    "m_plus": (
        M_M_PLUS,
        ("acc_m", "acc_m_plus", "flip_difference", "m_m_plus", *_RATES, *_COUNTS),
    ),
    "p_minus_m_plus": (
        P_MINUS_M_PLUS,
        (*_RANKED, "acc_p_minus", "acc_m_plus", "p_minus_m_plus", *_RATES, *_COUNTS),
    ),
}
"""Task family to the slots of a complete picture, and to what its tasks print after `accuracy`."""

FAMILIES = tuple(_FAMILIES)
"""The task families: a task is `pragmatch_{family}` with its forms and cues."""


def slots_for(family: str) -> Slots:
    """The slots that a picture of this task family must have to be complete.

    Raises:
        ValueError: No such family.

    >>> slots_for("pml")
    ('P', 'M', 'L')
    """
    return _FAMILIES[_known(family)][0]


def metrics_for(family: str) -> tuple[str, ...]:
    """The metrics of this task family, `accuracy` first.

    Raises:
        ValueError: No such family.

    >>> metrics_for("l")
    ('accuracy', 'acc_l', 'yes_rate', 'unusable_rate', 'failed_rate', 'n_left_out')
    """
    return ("accuracy", *_FAMILIES[_known(family)][1])


def figure(name: str, answers: Iterable[Answer], slots: Slots) -> float | int | None:
    """One figure of some answers; None where it does not apply.

    >>> p = Answer("7", "7-P", "P", None, None, 1, 1, 1, None, "ok", 0)
    >>> m = Answer("7", "7-M", "M", None, None, 0, 1, 0, None, "ok", 0)
    >>> figure("accuracy", [p, m], PM), figure("group_acc", [p, m], PM)
    (0.5, None)
    """
    return value(METRICS[name], frame(answers, slots))


def _known(family: str) -> str:
    """The family, or an error that lists the known ones."""
    if family not in _FAMILIES:
        raise ValueError(f"task family {family!r}: know {', '.join(FAMILIES)}")
    return family
