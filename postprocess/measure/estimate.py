"""A figure with its interval, and the difference of two on the same pictures: for every metric.

Which interval and which test a metric takes is decided here alone, by the form of its formula and
by what its pictures hold. Nothing here draws pictures, knows a benchmark, or counts captions as if
they were pictures.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from postprocess.measure import intervals, significance, stats
from postprocess.measure.metric import (
    Frame,
    Metric,
    NotAskedError,
    Rate,
    counted,
    stacked,
    value,
)
from postprocess.measure.significance import Significance
from postprocess.measure.stats import EMPTY, Estimate, Floats


class Sampling(NamedTuple):
    """How intervals and tests are computed."""

    seed: int = stats.SEED
    """Of the swaps of a test, where there are too many to count all."""
    level: float = stats.LEVEL


DEFAULT = Sampling()


class Difference(NamedTuple):
    """A metric of A less that of B on the same pictures."""

    metric: str
    a: float | None
    b: float | None
    estimate: Estimate
    """A less B, as a proportion."""
    test: Significance
    why: str | None
    """Where interval and test are on different sides of zero: why."""
    only_a: int | None
    """Pictures on which A does better; None where a picture has no figure of its own."""
    only_b: int | None


def estimates(
    metrics: Iterable[Metric], frame: Frame, how: Sampling = DEFAULT
) -> dict[str, Estimate]:
    """Every figure that the frame bears, with its interval."""
    found = {}
    for metric in metrics:
        try:
            metric.formula.rests_on(frame)
        except NotAskedError:
            continue
        found[metric.name] = _interval(metric, frame, how.level)
    return found


def estimate(metric: Metric, frame: Frame, how: Sampling = DEFAULT) -> Estimate:
    """One figure with its interval; `EMPTY` where it does not apply."""
    return estimates([metric], frame, how).get(metric.name, EMPTY)


def _interval(metric: Metric, frame: Frame, level: float) -> Estimate:
    """The interval that a metric takes; the figure itself is always that of its formula."""
    known = value(metric, frame)
    if known is None:
        return EMPTY
    if metric.kind == "count":
        return Estimate(float(known), None, None, int(known), "none")
    frame = frame.take(metric.formula.rests_on(frame))
    return _fitting(metric, frame, level)._replace(value=float(known))


def _fitting(metric: Metric, frame: Frame, level: float) -> Estimate:
    """The interval over pictures all of which the figure rests on."""
    formula = metric.formula
    if isinstance(formula, Rate):
        top, bottom = formula.counts(frame)
        if metric.kind == "difference":
            return _of_gaps(stats.ratio(top, bottom), formula.step / float(bottom.max()), level)
        if (bottom != bottom[0]).any():
            return intervals.ratio(top, bottom, level)
        if bottom[0] == 1 and formula.step == 1:
            return intervals.wilson(round(float(top.sum())), len(top), level)
        return intervals.mean(top / bottom[0], level=level)
    parts = [counted(frame, part) for part in formula.parts]
    if metric.kind == "f1":
        hits, false_alarms, misses = parts
        return intervals.f1(hits, false_alarms, misses, level)
    if metric.kind == "excess":
        return intervals.excess(parts[1], parts[2], level)
    low, high = metric.bounds
    spread = intervals.auroc_spread if metric.kind == "auroc" else None
    found = intervals.over_pictures(
        lambda w: (formula(frame, w) - low) / (high - low),
        len(frame.ids),
        spread=spread,
        level=level,
    )
    ends = [None if x is None else low + (high - low) * x for x in (found.low, found.high)]
    se = None if found.se is None else found.se * (high - low)
    return found._replace(low=ends[0], high=ends[1], se=se)


def _of_gaps(gaps: Floats, step: float, level: float) -> Estimate:
    """The interval of a mean of per-picture differences."""
    if step == 1 and np.isin(gaps, (-1, 0, 1)).all():
        return intervals.tango(int((gaps > 0).sum()), int((gaps < 0).sum()), len(gaps), level)
    return intervals.mean_difference(gaps, step, level)


def _test_of_gaps(gaps: Floats, step: float, seed: int) -> Significance:
    """The test that `_of_gaps` inverts."""
    if step == 1 and np.isin(gaps, (-1, 0, 1)).all():
        return significance.paired(int((gaps > 0).sum()), int((gaps < 0).sum()), len(gaps))
    return significance.of_differences(gaps, step, seed)


def against_none(metric: Metric, frame: Frame, how: Sampling = DEFAULT) -> Significance:
    """The test of a difference within one frame, as of a caption and its edit, against none."""
    if not isinstance(metric.formula, Rate):
        raise TypeError(f"{metric.name} is no mean difference")
    top, bottom = metric.formula.counts(frame.take(metric.formula.rests_on(frame)))
    step = metric.formula.step / float(bottom.max(initial=1.0))
    return _test_of_gaps(stats.ratio(top, bottom), step, how.seed)


def difference(metric: Metric, a: Frame, b: Frame, how: Sampling = DEFAULT) -> Difference | None:
    """A less B over the pictures on which the metric rests in both; None where there are none.

    Args:
        metric: The metric.
        a: Answers of one model, form or edit.
        b: Answers of the other, over the same pictures in the same order.
        how: Level of the interval, and seed of a test that draws.

    Raises:
        ValueError: The frames hold different pictures.
    """
    if a.ids != b.ids:
        raise ValueError("a paired difference needs the same pictures on both sides")
    try:
        both = metric.formula.rests_on(a) * metric.formula.rests_on(b)
    except NotAskedError:
        return None
    a, b = a.take(both), b.take(both)
    values = [value(metric, one) for one in (a, b)]
    if values[0] is None or values[1] is None:
        return None
    only: tuple[int | None, int | None] = (None, None)
    gaps = step = None
    if isinstance(metric.formula, Rate):
        (top_a, of_a), (top_b, of_b) = metric.formula.counts(a), metric.formula.counts(b)
        found = stats.ratio(top_a, of_a) - stats.ratio(top_b, of_b)
        only = int((found > 1e-12).sum()), int((found < -1e-12).sum())
        if (of_a == of_a[0]).all() and (of_b == of_a[0]).all():
            gaps, step = found, metric.formula.step / float(of_a[0])
    if gaps is not None and step is not None:
        gap = _of_gaps(gaps, step, how.level)
        test = _test_of_gaps(gaps, step, how.seed)
    else:
        gap, test = _by_swapping(metric, a, b, how)
    gap = gap._replace(value=values[0] - values[1])
    why = significance.disagreement(gap, test, how.level)
    return Difference(metric.name, values[0], values[1], gap, test, why, *only)


def _by_swapping(
    metric: Metric, a: Frame, b: Frame, how: Sampling
) -> tuple[Estimate, Significance]:
    """The difference of two figures that are no mean over pictures, and its permutation test."""
    formula, n = metric.formula, len(a.ids)
    sides = [_interval(metric, one, how.level) for one in (a, b)]
    left = [intervals.left_out(partial(formula, one), n) for one in (a, b)]
    both = stacked(a, b)
    parts = (formula.top, formula.bottom) if isinstance(formula, Rate) else formula.parts
    told = [[counted(one, part) for part in parts or one.columns] for one in (a, b)]
    same = np.all(
        [np.isclose(x, y, rtol=0, atol=0, equal_nan=True) for x, y in zip(*told, strict=True)],
        axis=0,
    )
    test = significance.swap(
        lambda w: formula(both, w), n, differing=np.flatnonzero(~same), seed=how.seed
    )
    return intervals.difference(sides[0], sides[1], left[0], left[1]), test


def differences(
    metrics: Iterable[Metric], a: Frame, b: Frame, how: Sampling = DEFAULT
) -> list[Difference]:
    """The differences of the metrics by which models are compared."""
    found = (difference(metric, a, b, how) for metric in metrics if metric.compared)
    return [one for one in found if one is not None]
