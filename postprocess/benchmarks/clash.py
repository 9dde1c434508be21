"""CLASH as the shared rooms see it."""

from postprocess.benchmarks.base import Benchmark

TASKS = (
    "clash_mc",
    "clash_open",
    "clash_mc_original",
    "clash_open_original",
    "clash_open_judge",
    "clash_mc_circular",
)

BENCHMARK = Benchmark("clash", "CLASH", "lmms_eval_tasks.clash", lambda: list(TASKS))
