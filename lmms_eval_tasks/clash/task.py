"""What the CLASH YAML files call: documents, requests, one record an answer, metrics.

Every document carries all that its record needs, because the harness hands `process_results`
nothing else. Only the first metric of a task, `conflict`, carries the record; the others carry a
short list, which the harness cannot mistake for a score of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from loguru import logger

from lmms_eval_tasks.clash import judge
from lmms_eval_tasks.clash.data import official_prompts
from lmms_eval_tasks.clash.options import ROTATIONS, option_order, rotate
from lmms_eval_tasks.clash.prompts import SLOTS, Instruction, compose, instruction, judge_request
from lmms_eval_tasks.documents import (
    build_docs,
    loud,
    picture_of,
    stop,
    task_folder,
    tell_once,
    user_turn,
)
from lmms_eval_tasks.values import Aggregation, aggregation, aggregations, handed_over
from postprocess.benchmarks.clash import BENCHMARK
from postprocess.measure import clash_counts
from postprocess.measure.clash import ClashAnswer
from postprocess.measure.judges import combined
from postprocess.read import matching
from postprocess.record.clash import clash_record

if TYPE_CHECKING:
    import datasets


class TaskSpec(NamedTuple):
    """What a CLASH task asks."""

    form: str
    """`mc` (multiple choice) or `open`."""
    caption_kind: str
    """`conflicting`, or `original`: the true caption, where a conflict is a false alarm."""
    circular: bool = False
    """Ask every sample in four rotations of its options."""
    judged: bool = False
    """Let language models judge the answers too."""


TASKS = {
    "clash_mc": TaskSpec("mc", "conflicting"),
    "clash_open": TaskSpec("open", "conflicting"),
    "clash_mc_original": TaskSpec("mc", "original"),
    "clash_open_original": TaskSpec("open", "original"),
    "clash_open_judge": TaskSpec("open", "conflicting", judged=True),
    "clash_mc_circular": TaskSpec("mc", "conflicting", circular=True),
}
"""Every CLASH task; the YAML files are compared with it in a test."""

_PROMPT_OF = {"mc": "multiple_choice", "open": "open_ended"}
_COPIED = (
    *("sample_id", "image_id", "image", "original_caption", "conflicting_caption", "question"),
    *("change_type", "categories", "original_word", "conflicting_word"),
    *("image_answer", "text_answer", "distractor"),
)


def docs(placeholder: datasets.Dataset) -> datasets.Dataset:
    """The documents of the task that the placeholder's configuration is named after.

    Raises:
        SystemExit: The dataset or its prompts cannot be used, or the task needs a judge and none
            can be asked.
    """
    from datasets import Sequence as ListOf
    from datasets import Value

    name = placeholder.config_name
    spec, folder = TASKS[name], task_folder("clash")
    try:
        official = official_prompts(folder.manifest)
    except ValueError as error:
        raise stop(f"{folder.path}: manifest.json: {error}") from error
    asked = instruction(_PROMPT_OF[spec.form], official)
    common = {
        "task": name,
        "form": spec.form,
        "caption_kind": spec.caption_kind,
        "instruction": asked.text,
        "prompt": asked.prompt,
        "prompt_hash": asked.sha256,
        "dataset_kind": folder.kind,
        "dataset_fingerprint": folder.fingerprint,
        "n_omitted": len({row["image_id"] for row in folder.omitted_rows}),
    }
    if spec.judged:
        common |= _judge_columns(len(folder.rows), instruction("judge", official))
    rows = []
    for row in folder.rows:
        shown = {column: row[column] for column in _COPIED} | common
        shown |= {"caption": row[f"{spec.caption_kind}_caption"]}
        order = option_order(row["sample_id"]) if spec.form == "mc" else None
        if spec.circular and order is not None:
            turns = range(ROTATIONS)
            rows += [{**shown, "option_order": rotate(str(order), r), "rotation": r} for r in turns]
        else:
            rows.append({**shown, "option_order": order, "rotation": None})
    text = Value("string")
    columns = {column: text for column in rows[0] if column != "image"}
    columns |= {"categories": ListOf(text), "rotation": Value("int64"), "n_omitted": Value("int64")}
    return build_docs(rows, columns, folder.path)


def _judge_columns(n_docs: int, head: Instruction) -> dict[str, str]:
    try:
        judge_request(head.text, dict.fromkeys(SLOTS, ""), "")
        judges = judge.current_judges()
    except ValueError as error:
        raise stop(f"clash_open_judge: {error}") from error
    names = ", ".join(one.name for one in judges)
    tell_once(f"clash_open_judge: up to {n_docs} answers go to {names}", "INFO")
    return {
        "judge_instruction": head.text,
        "judge_prompt": head.prompt,
        "judge_prompt_hash": head.sha256,
    }


def doc_to_visual(doc: Mapping[str, Any]) -> list[Any]:
    """The document's picture."""
    return [picture_of(doc)]


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: object = None) -> str:
    """Instruction, caption, question and, in multiple choice, the options."""
    return compose(doc["instruction"], doc, doc["caption"], doc["option_order"])


def doc_to_messages(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: object = None
) -> list[dict[str, Any]]:
    """The chat form of the same request."""
    return user_turn(doc_to_visual(doc), doc_to_text(doc))


def doc_to_target(doc: Mapping[str, Any]) -> str:
    """The right answer: the conflict, or with a true caption what the picture shows."""
    role = "conflict" if doc["caption_kind"] == "conflicting" else "image"
    if doc["form"] == "mc":
        return f"({matching.letters_of(doc['option_order'])[role]})"
    return "conflicting information" if role == "conflict" else str(doc["image_answer"])


@loud
def process_results(doc: Mapping[str, Any], results: list[str]) -> dict[str, Any]:
    """One document's values, exactly the keys of its task's `metric_list`."""
    record = clash_record(doc, results[0])
    if TASKS[doc["task"]].judged:
        record |= _judged(doc, record)
        record |= {name: doc[name] for name in ("judge_prompt", "judge_prompt_hash")}
    return handed_over(record)


def _judged(doc: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """The judges' labels by the strict rule, which the paper's figures rest on, and the relaxed."""
    judges = judge.current_judges()
    if record["status"] == "failed" or not record["response"]:
        label = None if record["status"] == "failed" else "NONE"
        replies = dict.fromkeys((one.name for one in judges), label)
    else:
        replies = judge.judge_replies(judges, doc["judge_instruction"], doc, record["response"])
    return {
        "judges": judge.labels_of(replies),
        "judges_relaxed": judge.labels_of(replies, relaxed=True),
    }


def _judge_conflict(items: Sequence[Any]) -> float | int | None:
    """As any aggregation; the harness's table has one row a metric, so the judges are logged."""
    _log_judges(clash_counts.answers_of(item[1:] for item in items))
    return aggregation(BENCHMARK, "judge_conflict")(items)


def _log_judges(answers: Sequence[ClashAnswer]) -> None:
    """Each judge's own figures, and which judges count together."""
    together = combined([answer.judges or {} for answer in answers])
    logger.info(
        f"judge_* are those of {', '.join(together.names) or 'no judge'} ({together.why}), which "
        f"judged {together.covered} of {together.n} answers"
    )
    for name, found in clash_counts.judged(answers).items():
        rates = ", ".join(f"{outcome} {rate.held}" for outcome, rate in found.rates.items())
        kappa = "n/a" if found.kappa is None else f"{found.kappa:.3f}"
        logger.info(
            f"judge {name}: {rates} of {found.n} judged; {found.unreadable} without a label, "
            f"{found.unjudged} unjudged; kappa with the matching rule {kappa}"
        )


_AGGREGATIONS = {**aggregations(BENCHMARK), "judge_conflict": _judge_conflict}
_judge_conflict.__name__ = _judge_conflict.__qualname__ = "judge_conflict"


def __getattr__(name: str) -> Aggregation:
    """The aggregation of a metric, so that YAML files can name it as this module's function."""
    try:
        return _AGGREGATIONS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
