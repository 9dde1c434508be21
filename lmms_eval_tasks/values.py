"""What a document hands over to the harness, and how the harness's lists become figures.

The harness calls a metric's aggregation with the list of what `process_results` returned for it.
Only a task's first metric carries the record; every other one hands over as little as its figure
needs, as a list, which the harness cannot mistake for a score of its own, or as a dict with
`correct` where the harness's standard error is that of the figure. A new metric needs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from postprocess.benchmarks import Benchmark, owner
from postprocess.measure.metric import Rate, value
from postprocess.response.line import LEFT_OUT

Aggregation: TypeAlias = Callable[[Sequence[Any]], float | int | None]


def handed_over(record: Mapping[str, Any]) -> dict[str, Any]:
    """One document's values, exactly the keys of its task's `metric_list`.

    The first metric hands over the record; a metric to which each document counts by itself what
    it counts and out of how many; the accuracy of one condition `correct` and the picture, with the
    answer; all others the answer.
    """
    task = str(record["task"])
    benchmark = owner(task)
    (answer,) = benchmark.answers([record])
    listed = [task, *answer.to_list()]
    frame = benchmark.frame(task, [answer])
    first, *others = benchmark.printed(task)
    values: dict[str, Any] = {first: dict(record)}
    for name in others:
        metric = benchmark.metrics[name]
        own = metric.slot in ("", getattr(answer, "slot", None)) and metric.slot is not None
        if own and record["status"] != LEFT_OUT:
            scored = {"correct": record["correct"], "image_id": record["image_id"]}
            values[name] = scored if metric.alone else {**scored, "answer": listed}
        elif metric.alone and isinstance(metric.formula, Rate):
            top, bottom = (int(counts.sum()) for counts in metric.formula.counts(frame))
            values[name] = [top, bottom] if bottom else []
        else:
            values[name] = listed
    return values


def aggregation(benchmark: Benchmark, name: str) -> Aggregation:
    """The function that makes a metric's figure of what its documents handed over."""
    metric = benchmark.metrics[name]

    def aggregate(items: Sequence[Any]) -> float | int | None:
        records = [item for item in items if isinstance(item, Mapping) and "record" in item]
        if metric.alone and not records:
            pairs = [(x["correct"], 1) if isinstance(x, Mapping) else x for x in items if x]
            n = sum(bottom for _, bottom in pairs)
            return sum(top for top, _ in pairs) / n if n else None
        told = [
            (item["task"], item)
            if isinstance(item, Mapping) and "record" in item
            else _split(item["answer"] if isinstance(item, Mapping) else item)
            for item in items
        ]
        tasks = {task for task, _ in told}
        if not tasks:
            return None
        if len(tasks) > 1:
            raise ValueError(f"{name} is a metric of one task, not of {sorted(tasks)}")
        task = tasks.pop()
        return value(metric, benchmark.frame(task, benchmark.answers(x for _, x in told)))

    aggregate.__name__ = aggregate.__qualname__ = name
    return aggregate


def aggregations(benchmark: Benchmark) -> dict[str, Aggregation]:
    """The aggregation of every metric that a task of the benchmark prints."""
    printed = {name for task in benchmark.task_names() for name in benchmark.printed(task)}
    return {name: aggregation(benchmark, name) for name in benchmark.metrics if name in printed}


def _split(listed: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    return listed[0], listed[1:]
