"""What the PragMatch YAML files call: documents, requests, one record an answer, metrics.

Every document carries all that its record needs, because the harness hands `process_results`
nothing else. Only the first metric of a task carries the record; the others carry a short list,
which the harness cannot mistake for a score of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lmms_eval_tasks.documents import build_docs, loud, picture_of, stop, task_folder, user_turn
from lmms_eval_tasks.pragmatch.data import absent, select
from lmms_eval_tasks.pragmatch.prompts import PROMPT_VERSION, question
from lmms_eval_tasks.values import Aggregation, aggregations, handed_over
from postprocess.benchmarks.pragmatch import BENCHMARK
from postprocess.benchmarks.pragmatch_tasks import spec_of
from postprocess.record.pragmatch import pragmatch_record

if TYPE_CHECKING:
    import datasets


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
    return handed_over(pragmatch_record(doc, results[0]))


_AGGREGATIONS = aggregations(BENCHMARK)


def __getattr__(name: str) -> Aggregation:
    """The aggregation of a metric, so that YAML files can name it as this module's function."""
    try:
        return _AGGREGATIONS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
