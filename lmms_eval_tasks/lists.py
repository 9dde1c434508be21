"""Writes what follows from the registry of metrics: the YAML metric lists, the README tables.

`python -m lmms_eval_tasks.lists` writes all of them anew, `--check` only says which are stale. They
are checked in, because the harness and readers open the files. Nothing else is ever written over.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import yaml

from postprocess.benchmarks import Benchmark, benchmarks
from postprocess.measure.metric import Metric

BEGIN, END = "<!-- metrics: made by python -m lmms_eval_tasks.lists -->", "<!-- /metrics -->"


class _Loader(yaml.SafeLoader):
    """YAML whose `!function` tags are read as text."""


_Loader.add_constructor("!function", lambda loader, node: str(node.value))


def metric_list(benchmark: Benchmark, task: str) -> str:
    """The `metric_list` of a task as YAML text."""
    lines = ["# Made by `python -m lmms_eval_tasks.lists`: change the registry, not this file.\n"]
    lines.append("metric_list:\n")
    for name in benchmark.printed(task):
        better = benchmark.better(task, benchmark.metrics[name])
        lines += [
            f"  - metric: {name}\n",
            f"    aggregation: !function {benchmark.package}.task.{name}\n",
            f"    higher_is_better: {'null' if better is None else str(better).lower()}\n",
        ]
    return "".join(lines)


def metric_table(benchmark: Benchmark) -> str:
    """The metrics that tasks print as a Markdown table."""
    printed = {name for task in benchmark.task_names() for name in benchmark.printed(task)}
    rows = ["| metric | definition | over | chance |", "|---|---|---|---|"]
    rows += [_row(one) for name, one in benchmark.metrics.items() if name in printed]
    return "\n".join(rows) + "\n"


def _row(metric: Metric) -> str:
    chance = "" if metric.chance is None else f"{metric.chance:g}"
    return f"| `{metric.name}` | {metric.doc} | {metric.over} | {chance} |"


def made(benchmark: Benchmark) -> dict[Path, str]:
    """Every file that follows from a benchmark's registry, with what must stand in it.

    Raises:
        ValueError: A task's file names no metric list, or two tasks of one list differ.
    """
    folder = Path(str(importlib.import_module(benchmark.package).__file__)).parent
    out: dict[Path, str] = {}
    for task in benchmark.task_names():
        path = folder / f"{task}.yaml"
        included = yaml.load(path.read_text(encoding="utf-8"), _Loader).get("include", [])
        included = [included] if isinstance(included, str) else included
        lists = [name for name in included if str(name).startswith("_metrics_")]
        if len(lists) != 1:
            raise ValueError(f"{path}: include exactly one _metrics_*.yaml")
        text = metric_list(benchmark, task)
        if out.setdefault(folder / lists[0], text) != text:
            raise ValueError(f"{path}: {lists[0]} is the list of a task with other metrics")
    readme = folder / "README.md"
    if readme.exists():
        before, begin, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
        _, end, after = rest.partition(END)
        if begin and end:
            out[readme] = f"{before}{BEGIN}\n\n{metric_table(benchmark)}\n{END}{after}"
    return out


def main(argv: list[str] | None = None) -> int:
    """Write the files, or with `--check` name those that are stale.

    Returns:
        0; 1 where `--check` finds a stale one.
    """
    parser = argparse.ArgumentParser(prog="python -m lmms_eval_tasks.lists", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args(argv)
    stale = []
    for benchmark in benchmarks().values():
        for path, text in made(benchmark).items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(path)
                if not args.check:
                    path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{path}: {'stale' if args.check else 'written'}")
    return int(args.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
