"""PragMatch as the shared rooms see it."""

from postprocess.benchmarks.base import Benchmark
from postprocess.benchmarks.pragmatch_tasks import task_names

BENCHMARK = Benchmark("pragmatch", "PragMatch", "lmms_eval_tasks.pragmatch", task_names)
