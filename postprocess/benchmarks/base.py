"""What a benchmark is, and which ones there are: the only place where that is known.

Shared rooms ask `of_task`, `named` and `benchmarks`; they must never read a benchmark out of a
task's name themselves. A benchmark registers itself once, with `register`: the two of this project
when first asked for, another package's through the entry-point group `pragclash.benchmarks`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from postprocess.measure.metric import Frame, Metric

_BUILT_IN = ("postprocess.benchmarks.pragmatch", "postprocess.benchmarks.clash")
_GROUP = "pragclash.benchmarks"
_registered: dict[str, Benchmark] = {}
_loaded = False


class UnknownBenchmarkError(ValueError):
    """A name that no registered benchmark has; the message lists the known ones."""


class _NoPaper(NamedTuple):
    """What is said of rows where a benchmark has no paper's numbers."""

    row: str | None = None
    why: str | None = None


class Unit(NamedTuple):
    """What two models are compared on: a complete picture, or a document."""

    name: str
    """Its id, to be shown."""
    told: dict[str, Any]
    """What the model made of it; units that differ here are listed."""
    answers: tuple[Any, ...]


class TableMaker(NamedTuple):
    """A table of a benchmark."""

    make: Callable[[Any], Any]
    """From a `postprocess.tables.model.Builder` to a `Draft`."""
    tasks: tuple[str, ...]
    """The tasks whose records it is made of."""
    takes: Callable[[Any], bool] = lambda run: True
    """Whether a run belongs into it at all."""
    shown: Callable[[Sequence[Any]], bool] | None = None
    """Whether a report of these runs shows it; where None, whenever a run holds a task of it."""


class Sections(NamedTuple):
    """What a benchmark adds to a report."""

    headlines: Sequence[str] = ()
    data: Mapping[str, Any] = {}
    """JSON values by section of the page."""
    answers: Sequence[dict[str, Any]] = ()
    """The answers in it, whose words (`w`) may have to be cut."""
    pictures: Sequence[str] = ()
    """Image ids that it shows, the more important ones first."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark as the shared rooms see it."""

    name: str
    """Prefix of its tasks, name of its dataset folder: `pragmatch`."""
    title: str
    """As people write it: `PragMatch`."""
    package: str
    """Where its tasks live, with a module `data` that describes its rows."""
    task_names: Callable[[], list[str]]
    """Every task, in the order of its documentation."""
    metrics: Mapping[str, Metric]
    """Every figure."""
    printed: Callable[[str], tuple[str, ...]]
    """The metrics that a task hands to the harness; the first carries the record."""
    record: Callable[[Mapping[str, Any], Any], dict[str, Any]]
    """The record of one answered document."""
    answers: Callable[[Iterable[Any]], list[Any]]
    """Checked answers of records, or of the lists that `to_list` of an answer gives."""
    frame: Callable[[str, Sequence[Any]], Frame]
    """The answers of a task, laid out by picture."""
    units: Callable[[str, Sequence[Any]], dict[Hashable, Unit]]
    """What two models are compared on, by key."""
    unit: str = "pictures"
    """What the units are called."""
    fault: Callable[[Mapping[str, Any]], str | None] = lambda record: None
    """What is wrong with a record of its own that a run folder holds."""
    better: Callable[[str, Metric], bool | None] = lambda task, metric: metric.higher_is_better
    """Whether a higher figure is better on this task."""
    exports: Callable[[str], Mapping[str, str]] = lambda task: {}
    """Name in a submission to metric, for a task; the first is the one a model page shows."""
    joined: Callable[[str, Mapping[str, Any]], str | None] = lambda task, record: None
    """The name in a submission of the figure to which one record counts as one unit."""
    reference: Callable[[Mapping[str, Any]], list[str]] = lambda record: []
    """The right answers to a record's document, in words."""
    extracted: Callable[[Mapping[str, Any]], str] = lambda record: str(record.get("outcome") or "")
    """What was read out of a record's answer, in words."""
    choices: tuple[str, ...] = ()
    """The answers that every document offers; with them the right one gives nothing away."""
    second_view: Callable[[Sequence[Any]], list[Any]] | None = None
    """`--exclude`: the answers that are left when those without a verdict are."""
    inferred_view: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """`--inferred`: a record with what a sentence decides, where its answer states nothing."""
    judges_told: Callable[[Sequence[Any], Sequence[str] | None], str | None] = (
        lambda answers, judges: None
    )
    """Which judges count together in some answers, in words; None where nothing was judged."""
    judged_frame: Callable[[str, Sequence[Any], Sequence[str]], Frame] | None = None
    """`frame` with the judges that shall count together."""
    setting: Callable[[Any, Sequence[str]], Any] = lambda run, tasks: _NoPaper()
    """A `postprocess.tables.setting.Setting`: which row of the paper tasks of a run stand for."""
    wording: Callable[[Mapping[str, Any]], tuple[str, str]] = lambda record: (
        str(record.get("prompt")),
        str(record.get("prompt")),
    )
    """What a record's prompt may be compared with, and the wording, equal where comparable."""
    tables: Mapping[str, TableMaker] = field(default_factory=dict)
    """Its tables, by name."""
    report: Callable[[Any], Sections] = lambda asked: Sections()
    """What it adds to a report, of a `postprocess.publish.report_data.Asked`."""

    def has(self, task: str) -> bool:
        """Whether the name has this benchmark's prefix, as a task, a tag or a run of it.

        >>> named("clash").has("clash_mc"), named("clash").has("clashing")
        (True, False)
        """
        return task == self.name or task.startswith(f"{self.name}_")

    def first(self, task: str) -> str:
        """The metric of a task that carries the record."""
        return self.printed(task)[0]

    def laid(self, task: str, answers: Sequence[Any], judges: Sequence[str] | None) -> Frame:
        """The answers of a task, laid out by picture, with certain judges or the usual ones."""
        if judges is None or self.judged_frame is None:
            return self.frame(task, answers)
        return self.judged_frame(task, answers, judges)

    def paired(
        self,
        task: str,
        a: Sequence[Any],
        b: Sequence[Any],
        judges: Sequence[str] | None = None,
    ) -> tuple[Frame, Frame]:
        """The answers of two models on the units that both have, laid out alike."""
        units = [self.units(task, side) for side in (a, b)]
        common = sorted(units[0].keys() & units[1].keys(), key=str)
        frames = [
            self.laid(task, [answer for key in common for answer in side[key].answers], judges)
            for side in units
        ]
        return frames[0], frames[1]


def register(benchmark: Benchmark) -> Benchmark:
    """Make a benchmark known.

    Raises:
        ValueError: Another one has its name, or a prefix that would claim the same tasks.
    """
    for other in _registered.values():
        if other != benchmark and (other.has(benchmark.name) or benchmark.has(other.name)):
            raise ValueError(f"benchmark {benchmark.name!r}: its tasks could be {other.name!r}'s")
    _registered[benchmark.name] = benchmark
    return benchmark


def unregister(name: str) -> None:
    """Forget a benchmark, as tests do with theirs."""
    _registered.pop(name, None)


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name, this project's first.

    >>> list(benchmarks())[:2]
    ['pragmatch', 'clash']
    """
    global _loaded
    if not _loaded:
        _loaded = True
        for module in _BUILT_IN:
            register(importlib.import_module(module).BENCHMARK)
        for point in entry_points(group=_GROUP):
            register(point.load())
    return dict(_registered)


def named(name: str) -> Benchmark:
    """The benchmark of that name.

    Raises:
        UnknownBenchmarkError: There is none.
    """
    known = benchmarks()
    if name not in known:
        raise UnknownBenchmarkError(f"unknown benchmark {name!r}; known: {', '.join(known)}")
    return known[name]


def of_task(task: str) -> Benchmark | None:
    """The benchmark that a task belongs to, or None for a task of somebody else.

    >>> of_task("pragmatch_pm_cot").title, of_task("mme")
    ('PragMatch', None)
    """
    return next((one for one in benchmarks().values() if one.has(task)), None)


def owner(task: str) -> Benchmark:
    """The benchmark that a task belongs to.

    Raises:
        UnknownBenchmarkError: It is a task of somebody else.
    """
    found = of_task(task)
    if found is None:
        raise UnknownBenchmarkError(f"{task!r} is a task of none of {', '.join(benchmarks())}")
    return found
