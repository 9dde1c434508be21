"""A figure with its interval, and the difference of two on the same pictures: for every metric.

Which interval and which test a metric takes is decided in `interval_of` and `test_of` alone. The
picture is what is resampled, and two frames over the same pictures get the same resamples, which
is what makes their difference a paired one. Nothing here knows a benchmark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from postprocess.measure import stats
from postprocess.measure.metric import Frame, Metric, NotAskedError, Rate, value
from postprocess.measure.stats import EMPTY, Estimate, Floats


class Sampling(NamedTuple):
    """How intervals are computed."""

    draws: int = stats.DRAWS
    seed: int = stats.SEED
    level: float = stats.LEVEL


DEFAULT = Sampling()


class Difference(NamedTuple):
    """A metric of A less that of B on the same pictures."""

    metric: str
    a: float | None
    b: float | None
    estimate: Estimate
    """A less B, as a proportion."""
    p_value: float | None
    """Over pictures; None where the metric takes no test."""
    only_a: int | None
    """Pictures on which A does better."""
    only_b: int | None


def estimates(
    metrics: Iterable[Metric], frame: Frame, how: Sampling = DEFAULT
) -> dict[str, Estimate]:
    """Every figure that the frame bears, with its interval.

    All resamples of a block of weights are used for all metrics before the next block is drawn.
    """
    found: dict[str, tuple[Metric, float | int | None]] = {}
    for metric in metrics:
        try:
            metric.formula.rests_on(frame)
        except NotAskedError:
            continue
        found[metric.name] = (metric, value(metric, frame))
    drawn = [metric for metric, known in found.values() if known is not None and _drawn(metric)]
    resampled = _resampled(drawn, frame, how)
    return {
        name: interval_of(metric, frame, known, resampled.get(name), how.level)
        for name, (metric, known) in found.items()
    }


def estimate(metric: Metric, frame: Frame, how: Sampling = DEFAULT) -> Estimate:
    """One figure with its interval; `EMPTY` where it does not apply."""
    return estimates([metric], frame, how).get(metric.name, EMPTY)


def interval_of(
    metric: Metric,
    frame: Frame,
    known: float | int | None,
    resampled: Floats | None,
    level: float,
) -> Estimate:
    """The interval that a metric takes: the one place where it is chosen.

    Args:
        metric: The metric.
        frame: Its pictures.
        known: The figure itself.
        resampled: The figure in every resample, where the metric is drawn.
        level: Coverage.
    """
    if known is None:
        return EMPTY
    if metric.kind == "count":
        return Estimate(float(known), None, None, int(known), "none")
    n = int(np.count_nonzero(metric.formula.rests_on(frame)))
    if isinstance(metric.formula, Rate):
        top, bottom = metric.formula.counts(frame)
        if metric.interval == "wilson":
            return stats.wilson(round(float(top.sum())), round(float(bottom.sum())), level)
        if metric.interval == "rate":
            plain = stats.unanimous(top, bottom, level)
            if plain is not None:
                return plain
    if metric.interval == "none" or resampled is None:
        return Estimate(float(known), None, None, n, "none")
    return stats.bootstrap(float(known), resampled, n, level)


def test_of(metric: Metric, a: Frame, b: Frame) -> stats.McNemar | None:
    """The paired test that a metric takes: the one place where it is chosen.

    Where a picture holds several captions it is one unit all the same: it speaks for the model
    that does better on it.
    """
    if metric.test == "none" or not isinstance(metric.formula, Rate):
        return None
    (top_a, of_a), (top_b, of_b) = metric.formula.counts(a), metric.formula.counts(b)
    gap = stats.ratio(top_a, of_a) - stats.ratio(top_b, of_b)
    return stats.mcnemar(gap > 0, gap < 0)


def against_none(metric: Metric, frame: Frame) -> stats.McNemar:
    """The test of a difference within one frame, as of a caption and its edit, against none."""
    if not isinstance(metric.formula, Rate):
        raise TypeError(f"{metric.name} is no mean difference")
    top, _ = metric.formula.counts(frame)
    return stats.mcnemar(top > 0, top < 0)


def difference(metric: Metric, a: Frame, b: Frame, how: Sampling = DEFAULT) -> Difference | None:
    """A less B over the pictures on which the metric rests in both; None where there are none.

    Args:
        metric: The metric.
        a: Answers of one model, form or edit.
        b: Answers of the other, over the same pictures in the same order.
        how: Resamples, which both share.

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
    drawn = [_resampled([metric], one, how)[metric.name] for one in (a, b)]
    gap = stats.bootstrap(values[0] - values[1], drawn[0] - drawn[1], len(a.ids), how.level)
    test = test_of(metric, a, b)
    tested = (None, None, None) if test is None else (test.p_value, test.only_a, test.only_b)
    return Difference(metric.name, values[0], values[1], gap, *tested)


def differences(
    metrics: Iterable[Metric], a: Frame, b: Frame, how: Sampling = DEFAULT
) -> list[Difference]:
    """The differences of the metrics by which models are compared."""
    found = (difference(metric, a, b, how) for metric in metrics if metric.compared)
    return [one for one in found if one is not None]


def _drawn(metric: Metric) -> bool:
    return metric.kind != "count" and metric.interval in ("rate", "bootstrap")


def _resampled(metrics: Sequence[Metric], frame: Frame, how: Sampling) -> dict[str, Floats]:
    """Every metric in every resample of the pictures."""
    parts: dict[str, list[Floats]] = {metric.name: [] for metric in metrics}
    if metrics and frame.ids:
        for block in stats.weights(len(frame.ids), how.draws, how.seed):
            for metric in metrics:
                parts[metric.name].append(metric.formula(frame, block))
    return {name: np.concatenate(part) for name, part in parts.items() if part}
