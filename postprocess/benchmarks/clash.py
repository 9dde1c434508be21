"""CLASH as the shared rooms see it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from postprocess.benchmarks.base import Benchmark, Unit
from postprocess.measure import clash as metrics
from postprocess.measure.clash import ClashAnswer
from postprocess.measure.judges import described
from postprocess.measure.metric import Frame, Metric
from postprocess.publish.report_clash import sections
from postprocess.record.clash import clash_record
from postprocess.runs.folder import Run
from postprocess.tables.clash import TABLES
from postprocess.tables.model import RESCORED
from postprocess.tables.setting import Setting, clash_setting

_EXPORTED = ("conflict", "image", "text", "none", "distractor", "unusable_rate")


def _frame(task: str, answers: Sequence[ClashAnswer]) -> Frame:
    return metrics.frame(answers)


def _units(task: str, answers: Sequence[ClashAnswer]) -> dict[Hashable, Unit]:
    return {
        (x.sample_id, x.caption_kind, x.rotation): Unit(x.sample_id, {"outcome": x.outcome}, (x,))
        for x in answers
    }


def _fault(record: Mapping[str, Any]) -> str | None:
    answer = ClashAnswer.of(record)
    for name in ("conflict", "image", "text", "correct", "overlap"):
        if getattr(answer, name) not in (0, 1):
            return f"sample {answer.sample_id!r}: {name} is neither 0 nor 1"
    for name in ("none", "distractor", "unusable", "letter_correct"):
        if getattr(answer, name) not in (0, 1, None):
            return f"sample {answer.sample_id!r}: {name} is neither 0, 1 nor null"
    if not isinstance(answer.outcome, str) or not all(
        isinstance(name, str) for name in answer.categories
    ):
        return f"sample {answer.sample_id!r}: outcome or categories are no text"
    return None


def _original(task: str) -> bool:
    return task.endswith("_original")


def _better(task: str, metric: Metric) -> bool | None:
    """On true captions a conflict is a false alarm, and the picture's answer is right."""
    turned = metric.name == "image" or metric.name.startswith("conflict")
    if _original(task) and turned:
        return not metric.higher_is_better
    return metric.higher_is_better


def _exports(task: str) -> dict[str, str]:
    names = {name.removesuffix("_rate"): name for name in _EXPORTED}
    if not _original(task):
        return names
    del names["conflict"]
    return {"false_alarms": "conflict", **names, "accuracy": "accuracy"}


def _reference(record: Mapping[str, Any]) -> list[str]:
    if record.get("caption_kind") == "original":
        return [str(record.get("image_answer") or "")]
    return ["Conflicting information"]


def _wording(record: Mapping[str, Any]) -> tuple[str, str]:
    form, digest = str(record.get("form")), str(record.get("prompt_hash") or "unknown")
    return form, f"{form}: {record.get('prompt')} ({digest[:12]})"


def _judged_frame(task: str, answers: Sequence[ClashAnswer], judges: Sequence[str]) -> Frame:
    return metrics.frame(answers, judges)


def _setting(run: Run, tasks: Sequence[str]) -> Setting:
    return clash_setting(run, tasks, RESCORED)


BENCHMARK = Benchmark(
    name="clash",
    title="CLASH",
    package="lmms_eval_tasks.clash",
    task_names=lambda: list(metrics.TASKS),
    metrics=metrics.METRICS,
    printed=metrics.metrics_for,
    record=clash_record,
    answers=metrics.answers_of,
    frame=_frame,
    units=_units,
    unit="documents",
    fault=_fault,
    better=_better,
    exports=_exports,
    joined=lambda task, record: "accuracy" if _original(task) else "conflict",
    reference=_reference,
    extracted=lambda record: str(record.get("letter") or record.get("outcome") or ""),
    judges_told=lambda answers, judges: described([a.judges or {} for a in answers], judges),
    judged_frame=_judged_frame,
    setting=_setting,
    wording=_wording,
    tables=TABLES,
    report=sections,
)
