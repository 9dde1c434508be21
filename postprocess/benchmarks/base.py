"""What a benchmark is, and which ones there are: the only place where that is known.

Shared rooms ask `of_task`, `named` and `benchmarks`; they must never read a benchmark out of a
task's name themselves. A benchmark registers itself once, with `register`: the two of this project
when first asked for, another package's through the entry-point group `pragclash.benchmarks`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points

_BUILT_IN = ("postprocess.benchmarks.pragmatch", "postprocess.benchmarks.clash")
_GROUP = "pragclash.benchmarks"
_registered: dict[str, Benchmark] = {}
_loaded = False


class UnknownBenchmarkError(ValueError):
    """A name that no registered benchmark has; the message lists the known ones."""


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

    def has(self, task: str) -> bool:
        """Whether the name has this benchmark's prefix, as a task, a tag or a run of it.

        >>> named("clash").has("clash_mc"), named("clash").has("clashing")
        (True, False)
        """
        return task == self.name or task.startswith(f"{self.name}_")


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
