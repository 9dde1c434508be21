"""What the PragMatch YAML files call: documents, requests, one record an answer, metrics.

Every document carries all that its record needs, because the harness hands `process_results`
nothing else. Only the first metric of a task carries the record; the others carry a short list,
which the harness cannot mistake for a score of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lmms_eval_tasks.harness import build_docs, loud, picture_of, stop, task_folder, user_turn
from lmms_eval_tasks.pragmatch.data import absent, select
from lmms_eval_tasks.pragmatch.prompts import PROMPT_VERSION, question
from postprocess.benchmarks.pragmatch_tasks import spec_of
from postprocess.measure import pragmatch as metrics
from postprocess.measure.groups import Answer
from postprocess.record.pragmatch import pragmatch_record
from postprocess.response.line import LEFT_OUT

if TYPE_CHECKING:
    import datasets

_SLOT_ACCURACIES = {
    "acc_p": "P",
    "acc_m": "M",
    "acc_l": "L",
    "acc_p_minus": "P-",
    "acc_m_plus": "M+",
}
"""Metrics that are a plain mean over one condition, so that the harness's error fits them."""


def docs(placeholder: datasets.Dataset) -> datasets.Dataset:
    """The documents of the task that the placeholder's configuration is named after.

    Raises:
        SystemExit: The dataset cannot be used, or holds no caption for this task.
    """
    from datasets import Value

    spec = spec_of(placeholder.config_name)
    folder = task_folder("pragmatch")
    lost = {row["image_id"] for row in select(folder.omitted_rows, spec)}
    common = {
        "task": spec.name,
        "modality": spec.modality,
        "prompt": spec.prompt,
        "prompt_version": PROMPT_VERSION,
        "dataset_kind": folder.kind,
        "dataset_fingerprint": folder.fingerprint,
        "n_omitted": len(lost),
    }
    missing = absent(folder.rows, spec)
    if missing:
        wanted = " and ".join(
            f"condition={condition}" + (f" cue={cue} edit={edit}" if edit else "")
            for condition, cue, edit in missing
        )
        raise stop(f"{spec.name}: {folder.path} has no captions with {wanted}")
    rows = [{"fold": None, **row, **common} for row in select(folder.rows, spec)]
    text, number = Value("string"), Value("int64")
    columns = dict.fromkeys(
        ("task", "sample_id", "image_id", "condition", "cue", "edit", "caption"), text
    )
    columns |= {"label": number, "modality": text, "prompt": text, "prompt_version": number}
    columns |= {"fold": number, "dataset_kind": text, "dataset_fingerprint": text}
    return build_docs(rows, {**columns, "n_omitted": number}, folder.path)


def doc_to_visual(doc: Mapping[str, Any]) -> list[Any]:
    """The picture, or nothing where the task is text only."""
    return [] if doc["modality"] == "text_only" else [picture_of(doc)]


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: object = None) -> str:
    """The question about the document's caption."""
    return question(doc["caption"], doc["prompt"], doc["modality"])


def doc_to_messages(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: object = None
) -> list[dict[str, Any]]:
    """The chat form of the same request."""
    return user_turn(doc_to_visual(doc), doc_to_text(doc))


def doc_to_target(doc: Mapping[str, Any]) -> str:
    """The right answer in words."""
    return "Yes" if doc["label"] else "No"


@loud
def process_results(doc: Mapping[str, Any], results: list[str]) -> dict[str, Any]:
    """One document's values, exactly the keys of its task's `metric_list`."""
    record = pragmatch_record(doc, results[0])
    answer = Answer.of(record)
    first, *others = metrics.metrics_for(spec_of(doc["task"]).family)
    values: dict[str, Any] = {first: record}
    for name in others:
        slot = _SLOT_ACCURACIES.get(name)
        if slot is None:
            values[name] = [record["task"], *answer.to_list()]
        elif answer.status == LEFT_OUT:
            values[name] = []
        elif slot == answer.slot:
            values[name] = {"correct": record["correct"], "image_id": record["image_id"]}
        else:
            values[name] = [record["image_id"]]
    return values


def _over_answers(name: str) -> Callable[[Sequence[Any]], float | None]:
    """A metric over what the harness has gathered: records of the first metric, else lists."""

    def aggregate(items: Sequence[Any]) -> float | None:
        tasks, answers = set(), []
        for item in items:
            if isinstance(item, Mapping):
                tasks.add(item["task"])
                answers.append(Answer.of(item))
            else:
                tasks.add(item[0])
                answers.append(Answer.from_list(item[1:]))
        if len(tasks) != 1:
            raise ValueError(f"{name} is a metric of one task, not of {sorted(tasks)}")
        return metrics.METRICS[name](answers, metrics.slots_for(spec_of(tasks.pop()).family))

    aggregate.__name__ = aggregate.__qualname__ = name
    return aggregate


def over_condition(items: Sequence[Any]) -> float | None:
    """Accuracy over all items of a condition."""
    correct = [item["correct"] for item in items if isinstance(item, Mapping)]
    return sum(correct) / len(correct) if correct else None


def over_same_pictures(items: Sequence[Any]) -> float | None:
    """Accuracy over the items of a condition whose picture has its other caption here too."""
    others = {item[0] for item in items if item and not isinstance(item, Mapping)}
    return over_condition(
        [item for item in items if isinstance(item, Mapping) and item["image_id"] in others]
    )


accuracy = _over_answers("accuracy")
f1 = _over_answers("f1")
auroc = _over_answers("auroc")
pair_acc = _over_answers("pair_acc")
group_acc = _over_answers("group_acc")
pair_ranking = _over_answers("pair_ranking")
p_p_minus = _over_answers("p_p_minus")
m_m_plus = _over_answers("m_m_plus")
p_minus_m_plus = _over_answers("p_minus_m_plus")
flip_difference = _over_answers("flip_difference")
yes_rate = _over_answers("yes_rate")
unusable_rate = _over_answers("unusable_rate")
failed_rate = _over_answers("failed_rate")
n_scored = _over_answers("n_scored")
n_pairs = _over_answers("n_pairs")
n_left_out = _over_answers("n_left_out")
