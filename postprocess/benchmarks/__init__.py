"""The benchmarks, one object each; the shared rooms ask them and no task's name."""

from postprocess.benchmarks.base import (
    Benchmark,
    UnknownBenchmarkError,
    benchmarks,
    named,
    of_task,
    register,
)

__all__ = ["Benchmark", "UnknownBenchmarkError", "benchmarks", "named", "of_task", "register"]
