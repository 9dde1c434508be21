"""PragMatch's metrics with intervals, and paired differences of two sets of answers.

Definitions are those of `postprocess.measure.pragmatch`; here each is written once more as counts
by picture and a formula over their sums, because that is what can be resampled: all metrics of a
task share one matrix product. Which caption belongs to which picture is asked of
`postprocess.measure.groups` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from postprocess.measure import pragmatch as metrics
from postprocess.measure import stats
from postprocess.measure.groups import Answer, Slots, complete, group_by_picture
from postprocess.measure.stats import Estimate, Floats

ACCURACIES = {
    "acc_p": "P",
    "acc_m": "M",
    "acc_l": "L",
    "acc_p_minus": "P-",
    "acc_m_plus": "M+",
}
"""Accuracies of one condition."""

WHOLE = {
    "pair_acc": metrics.PM,
    "group_acc": metrics.PML,
    "p_p_minus": metrics.P_P_MINUS,
    "m_m_plus": metrics.M_M_PLUS,
    "p_minus_m_plus": metrics.P_MINUS_M_PLUS,
}
"""Metrics that ask for several captions of one picture to be right."""

PLAIN = (*ACCURACIES, *WHOLE)
"""One yes or no a picture: Wilson's interval holds."""

NOT_COMPARED = ("independence", "pair_excess", "unusable_rate", "failed_rate")
"""Figures whose difference answers no question."""

_POSITIVE, _NEGATIVE = ("P", "P-"), ("M", "M+")
_CLEAN_OF = {"P-": "P", "M+": "M"}


class Frame(NamedTuple):
    """Answers laid out by picture: every array has one value a picture, in the order of `ids`."""

    ids: tuple[str, ...]
    slots: Slots
    here: dict[str, Floats]
    """1 where the picture has an answer in the slot."""
    correct: dict[str, Floats]
    yes: dict[str, Floats]
    unread: dict[str, Floats]
    failed: dict[str, Floats]
    s: dict[str, Floats]
    """NaN where there is no score."""
    whole: Floats
    """1 where the picture has every slot."""
    left_out: int


class Table(NamedTuple):
    """What is known about one task's answers."""

    estimates: dict[str, Estimate]
    n_items: int
    n_pairs: int
    """Complete pictures."""
    n_left_out: int
    n_scored: int
    """Complete pictures whose positive and negative answer both carry s."""


class Difference(NamedTuple):
    """A metric of A less that of B on the same pictures."""

    metric: str
    a: float | None
    b: float | None
    estimate: Estimate
    """A less B, as a proportion."""
    p_value: float | None
    """Exact McNemar; None where the metric is no rate of right units."""
    only_a: int | None
    """Units that A alone has right."""
    only_b: int | None
    unit: str
    """`picture`, or `caption` where several captions of one picture count one by one."""


def frame(answers: Iterable[Answer], slots: Slots) -> Frame:
    """Lay answers out by picture; pictures with none of the slots are no part of it.

    Raises:
        ValueError: See `postprocess.measure.groups.complete`.
    """
    answers = list(answers)
    left_out = complete(answers, slots).left_out
    pictures = {
        image_id: found
        for image_id, found in group_by_picture(answers).items()
        if any(slot in found for slot in slots)
    }

    def column(value: Callable[[Answer], float], empty: float = 0.0) -> dict[str, Floats]:
        return {
            slot: np.array(
                [value(found[slot]) if slot in found else empty for found in pictures.values()],
                dtype=np.float64,
            )
            for slot in slots
        }

    here = column(lambda answer: 1.0)
    return Frame(
        ids=tuple(pictures),
        slots=slots,
        here=here,
        correct=column(lambda answer: answer.correct),
        yes=column(lambda answer: answer.verdict == 1),
        unread=column(
            lambda answer: answer.status in ("unusable", "empty", "truncated", "refused")
        ),
        failed=column(lambda answer: answer.status == "failed"),
        s=column(lambda answer: np.nan if answer.s is None else answer.s, np.nan),
        whole=np.prod([here[slot] for slot in slots], axis=0),
        left_out=left_out,
    )


def table(
    answers: Iterable[Answer],
    slots: Slots,
    *,
    draws: int = stats.DRAWS,
    seed: int = stats.SEED,
    level: float = stats.LEVEL,
) -> Table:
    """Every metric that these slots allow, with its interval.

    Beside the metrics of `postprocess.measure.pragmatch` stand `independence` (acc_p times
    acc_m over the complete pictures), `pair_excess` (pair accuracy less independence), `ece` and
    `threshold_accuracy` (cross-fit), the last two only where scores are there.

    Args:
        answers: Answers of one task, any order.
        slots: What a picture must have to be complete.
        draws: Resamples.
        seed: Seed of the resamples.
        level: Coverage.
    """
    laid = frame(answers, slots)
    n = len(laid.ids)
    columns = _columns(laid)
    out: dict[str, Estimate] = {}
    sums = None
    if n:
        stacked = np.column_stack([column for part in columns.values() for column in part])
        sums = stats.resampled_sums(stacked, draws, seed)
    at = 0
    for name, part in columns.items():
        totals = [np.atleast_1d(column.sum()) for column in part]
        resampled = [] if sums is None else list(sums[:, at : at + len(part)].T)
        at += len(part)
        out[name] = _estimate(name, part, totals, resampled, level)
    scored = _scored(laid)
    n_scored = int(scored.sum()) if scored is not None else 0
    if scored is not None and n_scored:
        s, labels, where = _scores(laid, scored)
        out["auroc"] = stats.bootstrap_auroc(
            s, labels, where, n_scored, draws=draws, seed=seed, level=level
        )
        ece = stats.calibration(s, labels).ece
        out["ece"] = Estimate(ece, None, None, n_scored, "none")
        fit = stats.cross_fit_accuracy(
            s, labels, where, n_scored, draws=draws, seed=seed, level=level
        )
        out["threshold_accuracy"] = fit.accuracy
    items = int(sum(column.sum() for column in laid.here.values()))
    return Table(out, items, int(laid.whole.sum()), laid.left_out, n_scored)


def differences(
    a: Iterable[Answer],
    b: Iterable[Answer],
    slots: Slots,
    *,
    draws: int = stats.DRAWS,
    seed: int = stats.SEED,
    level: float = stats.LEVEL,
) -> list[Difference]:
    """A less B, metric by metric, over the pictures that are complete in both.

    Args:
        a: Answers of one model, form or edit.
        b: Answers of the other, about the same pictures.
        slots: What a picture must have to be complete.
        draws: Resamples; both sides share them, which makes the interval a paired one.
        seed: Seed of the resamples.
        level: Coverage.

    Returns:
        Nothing where no picture is complete in both.
    """
    left, right = (complete(answers, slots).groups for answers in (list(a), list(b)))
    common = sorted(left.keys() & right.keys())
    if not common:
        return []
    frames = [
        frame([answer for image_id in common for answer in groups[image_id].values()], slots)
        for groups in (left, right)
    ]
    columns_a, columns_b = (_columns(one) for one in frames)
    out = []
    for name in columns_a:
        # A score that one side lacks cannot be compared.
        if name in NOT_COMPARED or name not in columns_b:
            continue
        values, resampled = [], []
        for part in (columns_a[name], columns_b[name]):
            values.append(_combine(name, [np.atleast_1d(column.sum()) for column in part])[0])
            sums = stats.resampled_sums(np.column_stack(part), draws, seed)
            resampled.append(_combine(name, list(sums.T)))
        out.append(
            _difference(name, values, resampled[0] - resampled[1], frames, len(common), level)
        )
    out += _auroc_difference(frames, draws, seed, level)
    return out


def calibration(answers: Iterable[Answer], slots: Slots = metrics.PM) -> stats.Calibration:
    """Calibration of s over the complete pictures whose two answers both carry it."""
    s, labels, _ = scored_items(answers, slots)
    return stats.calibration(s, labels)


def scored_items(
    answers: Iterable[Answer], slots: Slots = metrics.PM
) -> tuple[Floats, Floats, stats.Ints]:
    """Scores, labels and picture indices of complete pictures whose two answers both carry s."""
    laid = frame(answers, slots)
    scored = _scored(laid)
    if scored is None:
        return np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)
    return _scores(laid, scored)


def _columns(laid: Frame) -> dict[str, list[Floats]]:
    """Counts by picture of every metric that the slots allow; `_combine` knows the formulas."""
    slots, here, correct, whole = laid.slots, laid.here, laid.correct, laid.whole
    edits = [slot for slot in slots if slot in _CLEAN_OF and _CLEAN_OF[slot] in slots]
    scored = slots if len(slots) == 1 else tuple(slot for slot in slots if slot != "L")
    out: dict[str, list[Floats]] = {
        "accuracy": [whole * sum(correct[slot] for slot in scored), whole * len(scored)]
    }
    for name, slot in ACCURACIES.items():
        if slot in slots:
            # The clean twin of an edit is judged on the same pictures as the edit.
            among = whole if edits else here[slot]
            out[name] = [among * correct[slot], among]
    for name, needed in WHOLE.items():
        if set(needed) <= set(slots):
            right = np.prod([correct[slot] for slot in needed], axis=0)
            out[name] = [whole * right, whole]
    positive, negative = _sides(slots)
    if positive and negative:
        p, m = correct[positive], correct[negative]
        out["f1"] = [whole * p, whole * (1 - m), whole * (1 - p)]
        out["independence"] = [whole * p, whole * m, whole]
        out["pair_excess"] = [whole * p * m, whole * p, whole * m, whole]
        ranked = _scored(laid)
        if ranked is not None and ranked.any():
            s_p, s_m = np.nan_to_num(laid.s[positive]), np.nan_to_num(laid.s[negative])
            won = ((s_p > s_m) + 1.0 * (s_p >= s_m)) / 2
            out["pair_ranking"] = [ranked * won, ranked]
    if edits:
        edited = correct[edits[0]] - correct[_CLEAN_OF[edits[0]]]
        out["flip_difference"] = [whole * edited, whole]
    asked = np.sum(list(here.values()), axis=0)
    for name, source in (
        ("yes_rate", laid.yes),
        ("unusable_rate", laid.unread),
        ("failed_rate", laid.failed),
    ):
        out[name] = [np.sum(list(source.values()), axis=0), asked]
    return out


def _combine(name: str, sums: Sequence[Floats]) -> Floats:
    """The metric from its summed columns, elementwise."""
    if name == "f1":
        tp, fp, fn = sums
        return np.where(tp + fp + fn > 0, stats.f1_of(tp, fp, fn), np.nan)
    if name == "independence":
        p, m, n = sums
        return stats.ratio(p, n) * stats.ratio(m, n)
    if name == "pair_excess":
        both, p, m, n = sums
        return stats.ratio(both, n) - stats.ratio(p, n) * stats.ratio(m, n)
    top, bottom = sums
    return stats.ratio(top, bottom)


def _estimate(
    name: str,
    part: list[Floats],
    totals: list[Floats],
    resampled: list[Floats],
    level: float,
) -> Estimate:
    if name in PLAIN:
        return stats.wilson(round(float(totals[0][0])), round(float(totals[1][0])), level)
    value = float(_combine(name, totals)[0])
    asked = np.sum(part, axis=0) if name == "f1" else part[-1]
    pictures = int(np.count_nonzero(asked))
    if name in ("accuracy", "pair_ranking", "yes_rate", "unusable_rate", "failed_rate"):
        plain = stats.unanimous(part[0], part[1], level)
        if plain is not None:
            return plain
    if not resampled:
        return Estimate(None, None, None, 0, "none")
    return stats.bootstrap(value, _combine(name, resampled), pictures, level)


def _difference(
    name: str,
    values: list[float],
    resampled: Floats,
    frames: list[Frame],
    pictures: int,
    level: float,
) -> Difference:
    value = values[0] - values[1]
    estimate = stats.bootstrap(value, resampled, pictures, level)
    right = [_right_units(name, one) for one in frames]
    if right[0] is None or right[1] is None:
        return Difference(name, *_known(values), estimate, None, None, None, "picture")
    test = stats.mcnemar(right[0], right[1])
    unit = "caption" if len(right[0]) > pictures else "picture"
    return Difference(name, *_known(values), estimate, test.p_value, test.only_a, test.only_b, unit)


def _right_units(name: str, laid: Frame) -> Floats | None:
    """1 or 0 for every unit of a rate of right answers; None for any other metric."""
    if name in ACCURACIES:
        return laid.correct[ACCURACIES[name]]
    if name in WHOLE:
        right: Floats = np.prod([laid.correct[slot] for slot in WHOLE[name]], axis=0)
        return right
    if name == "accuracy":
        scored = laid.slots if len(laid.slots) == 1 else [s for s in laid.slots if s != "L"]
        return np.concatenate([laid.correct[slot] for slot in scored])
    return None


def _auroc_difference(frames: list[Frame], draws: int, seed: int, level: float) -> list[Difference]:
    scored = [_scored(one) for one in frames]
    if scored[0] is None or scored[1] is None:
        return []
    both = scored[0] * scored[1]
    n = int(both.sum())
    if not n:
        return []
    values, resampled = [], []
    for one in frames:
        s, labels, where = _scores(one, both)
        value = stats.auroc(s, labels)
        values.append(np.nan if value is None else value)
        resampled.append(stats.resampled_auroc(s, labels, where, n, draws, seed))
    estimate = stats.bootstrap(values[0] - values[1], resampled[0] - resampled[1], n, level)
    return [Difference("auroc", *_known(values), estimate, None, None, None, "picture")]


def _known(values: Sequence[float]) -> tuple[float | None, float | None]:
    a, b = (float(value) if np.isfinite(value) else None for value in values)
    return a, b


def _sides(slots: Slots) -> tuple[str | None, str | None]:
    positive = next((slot for slot in slots if slot in _POSITIVE), None)
    negative = next((slot for slot in slots if slot in _NEGATIVE), None)
    return positive, negative


def _scored(laid: Frame) -> Floats | None:
    """1 where the picture is complete and both sides carry s; None without two sides."""
    positive, negative = _sides(laid.slots)
    if positive is None or negative is None:
        return None
    known = np.isfinite(laid.s[positive]) & np.isfinite(laid.s[negative])
    scored: Floats = laid.whole * known
    return scored


def _scores(laid: Frame, scored: Floats) -> tuple[Floats, Floats, stats.Ints]:
    positive, negative = _sides(laid.slots)
    if positive is None or negative is None:
        raise ValueError(f"slots {laid.slots} hold one class: no score to compare")
    keep = scored > 0
    n = int(scored.sum())
    s = np.concatenate([laid.s[positive][keep], laid.s[negative][keep]])
    return s, np.repeat([1.0, 0.0], n), np.tile(np.arange(n), 2)


def answers_of(records: Iterable[Mapping[str, object]]) -> list[Answer]:
    """The answers in records."""
    return [Answer.of(record) for record in records]
