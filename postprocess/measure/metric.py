"""What a metric is: one entry that says everything about a figure, with the one formula for it.

A formula takes a frame (counts by picture) and weights of shape (rows, pictures) and gives one
value a row: all ones are the figure itself, and zeros leave a picture out. So a figure, its
interval and its paired test can never rest on two different definitions. Nothing here knows a
benchmark, draws a random number, or reads an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from postprocess.measure.stats import Floats, ratio


class NotAskedError(KeyError):
    """A frame lacks a column: the answers could not bear the figure, which is then n/a."""


@dataclass(frozen=True)
class Frame:
    """Answers laid out by picture: every column has one value a picture, in the order of `ids`."""

    ids: tuple[str, ...]
    columns: Mapping[str, Floats]
    left_out: int = 0
    """Pictures that are no part of it: incomplete ones, and those that loading omitted."""

    def __getitem__(self, name: str) -> Floats:
        """A column.

        Raises:
            NotAskedError: The answers do not have it.
        """
        try:
            return self.columns[name]
        except KeyError:
            raise NotAskedError(name) from None

    def take(self, keep: Floats) -> Frame:
        """The pictures where `keep` is not 0."""
        chosen = np.flatnonzero(keep)
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return Frame(tuple(self.ids[i] for i in chosen), columns, self.left_out)


def stacked(a: Frame, b: Frame) -> Frame:
    """Both frames as one, A's pictures first; of the columns that both have."""
    columns = {
        name: np.concatenate([values, b.columns[name]])
        for name, values in a.columns.items()
        if name in b.columns
    }
    return Frame(a.ids + b.ids, columns, a.left_out)


Column: TypeAlias = str | Callable[[Frame], Floats]
"""Counts by picture: a column of the frame, or something computed from columns."""


def counted(frame: Frame, column: Column) -> Floats:
    """The values of a column."""
    return frame[column] if isinstance(column, str) else column(frame)


@dataclass(frozen=True)
class Formula:
    """A figure as a function of weighted pictures."""

    evaluate: Callable[[Frame, Floats], Floats]
    """Frame, and weights of shape (draws, pictures), to values of shape (draws,); NaN is n/a."""
    over: Column
    """Not 0 for the pictures that the figure rests on."""
    parts: tuple[Column, ...] = ()
    """All that it is computed from, by picture: two sides alike in these are alike in it."""

    def __call__(self, frame: Frame, weights: Floats) -> Floats:
        """The figure under each row of weights."""
        return self.evaluate(frame, weights)

    def rests_on(self, frame: Frame) -> Floats:
        """Not 0 for the pictures that count."""
        return counted(frame, self.over)


@dataclass(frozen=True)
class Rate:
    """A ratio of two sums over pictures: how many of how many, or a mean difference."""

    top: Column
    bottom: Column
    step: float = 1.0
    """The least by which `top` can move in one picture: one half where ties count half."""

    def __call__(self, frame: Frame, weights: Floats) -> Floats:
        """The rate under each row of weights; NaN out of nothing."""
        top, bottom = self.counts(frame)
        return ratio(weights @ top, weights @ bottom)

    def counts(self, frame: Frame) -> tuple[Floats, Floats]:
        """What is counted and out of how many, by picture."""
        return counted(frame, self.top), counted(frame, self.bottom)

    def rests_on(self, frame: Frame) -> Floats:
        """Not 0 for the pictures that count."""
        return counted(frame, self.bottom)


def of_sums(combine: Callable[..., Floats], *parts: Column, over: Column) -> Formula:
    """A formula that is a function of several sums over pictures, elementwise in the draws."""
    return Formula(
        lambda frame, w: combine(*(w @ counted(frame, part) for part in parts)), over, parts
    )


def total(column: Column) -> Formula:
    """A sum over pictures."""
    return of_sums(lambda summed: summed, column, over=column)


def _everywhere(frame: Frame) -> Floats:
    return np.ones(len(frame.ids))


LEFT_OUT = Formula(lambda frame, w: np.full(len(w), float(frame.left_out)), _everywhere)
"""How many pictures are no part of the figures; a property of the frame, whatever the weights."""

Kind: TypeAlias = Literal[
    "accuracy", "rate", "f1", "auroc", "difference", "excess", "number", "count"
]
"""With the formula it chooses interval and test (`postprocess.measure.estimate`). `f1`: the parts
are hits, false alarms and misses. `excess`: the second and third part are the two sides."""


@dataclass(frozen=True)
class Metric:
    """One figure: all that any room needs to know of it."""

    name: str
    title: str
    """Head of its column."""
    doc: str
    """One line: what it is."""
    over: str
    """What it counts: captions, pictures, pairs, groups, documents, sets."""
    formula: Formula | Rate
    kind: Kind = "accuracy"
    chance: float | None = None
    """What a fair coin for each caption reaches; None where there is no such level."""
    always_no: float | None = None
    """What a model reaches that always says No (in CLASH: never flags a conflict)."""
    higher_is_better: bool | None = True
    bounds: tuple[float, float] = (0.0, 1.0)
    """Between which a figure that is no mean over pictures lies."""
    compared: bool = False
    """Whether two models are compared by it."""
    alone: bool = False
    """Each document counts by itself, so that its top and bottom are all it has to hand over."""
    slot: str | None = None
    """The slot whose accuracy it is: the harness's own error fits such a figure."""

    @property
    def unit(self) -> str:
        """`percent`, `points`, `number` or `count`: how a table prints it."""
        units = {"difference": "points", "excess": "points", "number": "number", "count": "count"}
        return units.get(self.kind, "percent")


def registry(metrics: Iterable[Metric]) -> dict[str, Metric]:
    """Metrics by name.

    Raises:
        ValueError: Two have one name, or the harness's table would hide a name.
    """
    found: dict[str, Metric] = {}
    for metric in metrics:
        if metric.name in found:
            raise ValueError(f"metric {metric.name!r} is there twice")
        if metric.name.startswith("paired_") or metric.name.endswith(HIDDEN):
            raise ValueError(f"metric {metric.name!r}: the harness prints no such name")
        found[metric.name] = metric
    return found


HIDDEN = (
    "_stderr",
    "_consistency_rate",
    "_expected_accuracy",
    "_consensus_accuracy",
    "_internal_variance",
)
"""Endings of names that the harness's table drops without a word."""


def value(metric: Metric, frame: Frame) -> float | int | None:
    """The figure itself; a whole number where it counts, None where it does not apply."""
    try:
        found = float(metric.formula(frame, np.ones((1, len(frame.ids))))[0])
    except NotAskedError:
        return None
    if not np.isfinite(found):
        return None
    return round(found) if metric.kind == "count" else found


def by_picture(
    pictures: Sequence[str], columns: Mapping[str, Sequence[float | None]]
) -> tuple[tuple[str, ...], dict[str, Floats]]:
    """Sums by picture of what single documents count.

    Args:
        pictures: The picture of each document.
        columns: One value a document; None where the question does not arise.

    Returns:
        The pictures, sorted, and two columns for each: `name`, the sum, and `n.name`, out of how
        many.
    """
    ids, where = np.unique(np.array(pictures, dtype=object).astype(str), return_inverse=True)
    out = {}
    for name, values in columns.items():
        told = np.array([np.nan if x is None else x for x in values], dtype=np.float64)
        known = np.isfinite(told)
        out[name] = np.bincount(where, np.where(known, told, 0.0), len(ids)).astype(np.float64)
        out[f"n.{name}"] = np.bincount(where, known, len(ids)).astype(np.float64)
    return tuple(map(str, ids)), out
