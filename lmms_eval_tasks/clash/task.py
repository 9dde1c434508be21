"""What the CLASH YAML files call: documents, requests, one record an answer, metrics.

Every document carries all that its record needs, because the harness hands `process_results`
nothing else. Only the first metric of a task, `conflict`, carries the record; the others carry a
short list, which the harness cannot mistake for a score of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from loguru import logger

from lmms_eval_tasks.clash import judge
from lmms_eval_tasks.clash.data import official_prompts
from lmms_eval_tasks.clash.options import ROTATIONS, option_order, rotate
from lmms_eval_tasks.clash.prompts import SLOTS, Instruction, compose, instruction, judge_request
from lmms_eval_tasks.harness import (
    build_docs,
    loud,
    picture_of,
    stop,
    task_folder,
    tell_once,
    user_turn,
)
from postprocess.measure import clash as clash_metrics
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

WHOLE = (
    *("n_letter_prob", "circular_acc", "n_sets", "n_sets_left_out", "n_left_out", "letter_bias"),
    *(f"share_{letter.lower()}" for letter in matching.LETTERS),
    *(f"judge_{outcome}" for outcome in matching.JUDGE_LABELS.values()),
    *("judge_conflict_all", "judge_kappa", "n_judged", "n_unjudged"),
)
"""Metrics that need whole answers; every other one is a mean of what single answers say."""

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
        if spec.circular:
            turns = range(ROTATIONS)
            rows += [{**shown, "option_order": rotate(order, r), "rotation": r} for r in turns]
        else:
            rows.append({**shown, "option_order": order, "rotation": None})
    text = Value("string")
    columns = {column: text for column in rows[0] if column != "image"}
    columns |= {"categories": ListOf(text), "rotation": Value("int64"), "n_omitted": Value("int64")}
    return build_docs(rows, columns, folder.path)


def _judge_columns(n_docs: int, head: Instruction) -> dict[str, str]:
    try:
        judge_request(head.text, dict.fromkeys(SLOTS, ""), "")
        judges = judge.usable_judges()
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
    answer = clash_metrics.ClashAnswer.of(record)
    first, *others = clash_metrics.metrics_for(doc["task"])
    values: dict[str, Any] = {first: record}
    for name in others:
        if name == "accuracy":
            values[name] = {"correct": record["correct"], "image_id": record["image_id"]}
        elif name in WHOLE:
            values[name] = answer.to_list()
        else:
            share = clash_metrics.METRICS[name]([answer])
            values[name] = [] if share is None else [share]
    return values


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


def _aggregation(name: str) -> Callable[[Sequence[Any]], float | None]:
    def aggregate(items: Sequence[Any]) -> float | None:
        if name in WHOLE or any(isinstance(item, Mapping) and "record" in item for item in items):
            answers = clash_metrics.answers_of(items)
            if name == "judge_conflict":
                _log_judges(answers)
            return clash_metrics.METRICS[name](answers)
        shares = [x["correct"] if isinstance(x, Mapping) else x[0] for x in items if x]
        return sum(shares) / len(shares) if shares else None

    aggregate.__name__ = aggregate.__qualname__ = name
    return aggregate


def _log_judges(answers: Sequence[clash_metrics.ClashAnswer]) -> None:
    """The harness's table has one row a metric, so each judge's own figures are logged."""
    for name, found in clash_metrics.judged(answers).items():
        rates = ", ".join(f"{outcome} {rate.held}" for outcome, rate in found.rates.items())
        kappa = "n/a" if found.kappa is None else f"{found.kappa:.3f}"
        logger.info(
            f"judge {name}: {rates} of {found.n} judged; {found.unreadable} without a label, "
            f"{found.unjudged} unjudged; kappa with the matching rule {kappa}"
        )


_AGGREGATIONS = {name: _aggregation(name) for name in clash_metrics.METRICS}


def __getattr__(name: str) -> Callable[[Sequence[Any]], float | None]:
    """The aggregation of a metric, so that YAML files can name it as this module's function."""
    try:
        return _AGGREGATIONS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
