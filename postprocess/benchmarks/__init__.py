"""The benchmarks, one object each; the shared rooms ask them and no task's name."""

from postprocess.benchmarks.base import (
    Benchmark,
    Sections,
    TableMaker,
    Unit,
    UnknownBenchmarkError,
    benchmarks,
    named,
    of_task,
    owner,
    register,
    unregister,
)

__all__ = [
    "Benchmark",
    "Sections",
    "TableMaker",
    "Unit",
    "UnknownBenchmarkError",
    "benchmarks",
    "named",
    "of_task",
    "owner",
    "register",
    "unregister",
]
