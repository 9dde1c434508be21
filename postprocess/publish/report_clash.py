"""CLASH in a report: headlines, outcomes by category, and every question."""

from __future__ import annotations

from typing import Any

from postprocess.benchmarks.base import Sections
from postprocess.measure import clash as clash_metrics
from postprocess.publish import report_words
from postprocess.publish.report_pairs import Asked, kind_of, shown_words
from postprocess.read import matching
from postprocess.read.suspicious import SIGNS, signs_of
from postprocess.runs.folder import Run, Runs
from postprocess.tables.model import Builder


def sections(asked: Asked) -> Sections:
    """CLASH's part of a report."""
    questions = _questions(asked.runs, asked.with_media)
    return Sections(
        [line for run in asked.runs.runs for line in _headlines(run, asked.builder)],
        {"clash": _outcomes(asked.runs), "questions": questions},
        [result for item in questions["items"] for _, result in item["results"]],
        [item["id"] for item in questions["items"]],
    )


def _headlines(run: Run, builder: Builder) -> list[str]:
    out = []
    for task, title in (("clash_mc", "multiple choice"), ("clash_open", "open questions")):
        if task in run.tasks:
            found, alarms = builder.figures(run, task), None
            if f"{task}_original" in run.tasks:
                alarms = builder.figures(run, f"{task}_original")["conflict"]
            name = f"{run.label}, CLASH {title}"
            kind = kind_of(run.tasks[task])
            out.append(report_words.clash(name, found["conflict"], alarms, found["image"], kind))
    return out


def _groups_of(answer: clash_metrics.ClashAnswer) -> set[str | None]:
    names = {clash_metrics.category_name(c, answer.change_type) for c in answer.categories}
    return {answer.change_type, *names}


def _outcomes(runs: Runs) -> list[dict[str, Any]]:
    """Exclusive outcomes of every CLASH task, over all and by category, as counts."""
    out = []
    for run in runs.runs:
        for task, found in run.tasks.items():
            if task not in clash_metrics.TASKS:
                continue
            answers = clash_metrics.answers_of(found.records)
            form = answers[0].form
            order = matching.CHOICE_OUTCOMES if form == "mc" else matching.OPEN_OUTCOMES
            groups: dict[str, list[clash_metrics.ClashAnswer]] = {"all": answers}
            for kind in (*clash_metrics.CATEGORIES, *clash_metrics.CATEGORY_NAMES):
                groups[kind] = [a for a in answers if kind in _groups_of(a)]
            out.append(
                {
                    "name": run.label,
                    "task": task,
                    "outcomes": list(order),
                    "rows": [
                        {
                            "name": name.replace("_", ", "),
                            "n": len(members),
                            "counts": [sum(a.outcome == o for a in members) for o in order],
                        }
                        for name, members in groups.items()
                        if members
                    ],
                    "overlap": sum(answer.overlap for answer in answers),
                }
            )
    return out


def _questions(runs: Runs, with_media: bool) -> dict[str, Any]:
    """CLASH answers by document, for the pair browser."""
    configurations: dict[tuple[int, str], int] = {}
    items: dict[tuple[str, str, str], dict[str, Any]] = {}
    for index, run in enumerate(runs.runs):
        for task, found in run.tasks.items():
            if task not in clash_metrics.TASKS:
                continue
            form = task.removesuffix("_original")
            number = configurations.setdefault((index, form), len(configurations))
            for record in found.records:
                key = (
                    str(record.get("dataset_fingerprint")),
                    record["sample_id"],
                    str(record.get("caption_kind")),
                )
                item = items.setdefault(
                    key,
                    {
                        "id": record["image_id"],
                        "sample": record["sample_id"],
                        "kind": record.get("caption_kind"),
                        "caption": (record.get("caption") or "") if with_media else "",
                        "question": (record.get("question") or "") if with_media else "",
                        "answers": [
                            record.get(name) or ""
                            for name in ("image_answer", "text_answer", "distractor")
                        ]
                        if with_media
                        else [],
                        "categories": [
                            clash_metrics.category_name(c, record.get("change_type")).replace(
                                "_", ", "
                            )
                            for c in record.get("categories") or ()
                        ],
                        "results": [],
                    },
                )
                result: dict[str, Any] = {
                    "o": record["outcome"],
                    "ok": record["correct"],
                    "w": shown_words(record, with_media),
                }
                if record.get("rotation") is not None:
                    result["rotation"] = record["rotation"]
                if signs := signs_of(record):
                    result["signs"] = [SIGNS[sign] for sign in signs]
                if record.get("judges"):
                    result["judges"] = {str(k): v for k, v in record["judges"].items()}
                item["results"].append([number, result])
    titles = {"clash_mc": "multiple choice", "clash_open": "open"}
    return {
        "configurations": [
            {
                "name": f"{runs.runs[index].label}, "
                f"{titles.get(form, form.removeprefix('clash_').replace('_', ', '))}",
                "model": index,
                "form": form,
            }
            for index, form in configurations
        ],
        "items": [item for _, item in sorted(items.items())],
    }
