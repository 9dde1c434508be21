"""PragMatch as the shared rooms see it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from postprocess.benchmarks.base import Benchmark, Unit
from postprocess.benchmarks.pragmatch_tasks import spec_of, task_names
from postprocess.measure import pragmatch as metrics
from postprocess.measure.groups import Answer, AnswerError, Slots, complete
from postprocess.measure.metric import Frame
from postprocess.publish.report_pragmatch import sections
from postprocess.record.pragmatch import pragmatch_record, with_inferred
from postprocess.tables.model import PROMPT_TITLES
from postprocess.tables.pragmatch import TABLES
from postprocess.tables.setting import pragmatch_setting

_HEADLINE = {
    "pm": "pair_acc",
    "pml": "group_acc",
    "p_minus": "p_p_minus",
    "m_plus": "m_m_plus",
    "p_minus_m_plus": "p_minus_m_plus",
    "p": "acc_p",
    "m": "acc_m",
    "l": "acc_l",
}
_NOT_EXPORTED = ("yes_rate", "failed_rate", "n_scored", "n_pairs", "n_left_out")


def _slots(task: str) -> Slots:
    return metrics.slots_for(spec_of(task).family)


def _printed(task: str) -> tuple[str, ...]:
    return metrics.metrics_for(spec_of(task).family)


def _frame(task: str, answers: Sequence[Answer]) -> Frame:
    return metrics.frame(answers, _slots(task))


def _units(task: str, answers: Sequence[Answer]) -> dict[Hashable, Unit]:
    return {
        image_id: Unit(
            image_id,
            {slot: answer.correct for slot, answer in found.items()},
            tuple(found.values()),
        )
        for image_id, found in complete(answers, _slots(task)).groups.items()
    }


def _fault(record: Mapping[str, Any]) -> str | None:
    try:
        Answer.of(record)
    except AnswerError as error:
        return str(error)
    return None


def _exports(task: str) -> dict[str, str]:
    first = _HEADLINE[spec_of(task).family]
    names = (first, *(n for n in _printed(task) if n != first and n not in _NOT_EXPORTED))
    return {name: name for name in names}


def _joined(task: str, record: Mapping[str, Any]) -> str | None:
    slot = Answer.of(record).slot
    return next(name for name, one in metrics.METRICS.items() if one.slot == slot)


def _wording(record: Mapping[str, Any]) -> tuple[str, str]:
    prompt = str(record.get("prompt"))
    title = PROMPT_TITLES.get(prompt, prompt)
    return prompt, f"{title}, version {record.get('prompt_version')}"


BENCHMARK = Benchmark(
    name="pragmatch",
    title="PragMatch",
    package="lmms_eval_tasks.pragmatch",
    task_names=task_names,
    metrics=metrics.METRICS,
    printed=_printed,
    record=pragmatch_record,
    answers=metrics.answers_of,
    frame=_frame,
    units=_units,
    fault=_fault,
    exports=_exports,
    joined=_joined,
    reference=lambda record: ["Yes" if record["label"] else "No"],
    extracted=lambda record: {1: "Yes", 0: "No"}.get(record["verdict"], ""),
    choices=("Yes", "No"),
    second_view=metrics.without_unreadable,
    inferred_view=with_inferred,
    setting=pragmatch_setting,
    wording=_wording,
    tables=TABLES,
    report=sections,
)
