"""Everything a report shows, as JSON values: figures, pairs, provenance.

What comes from a model, a caption or a file is passed on as it is: the page shows it as text and
nothing else. Words longer than the page has room for are cut, and the page says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from postprocess.measure import clash as clash_metrics
from postprocess.measure import clash_estimates, stats
from postprocess.measure import pragmatch as metrics
from postprocess.measure import pragmatch_estimates as estimates
from postprocess.publish import report_pairs, report_words, thumbnails
from postprocess.publish.compare import family_of
from postprocess.publish.report_pairs import Media
from postprocess.read import matching
from postprocess.runs.folder import Run, Runs, TaskRun
from postprocess.runs.provenance import provenance
from postprocess.tables import build as tables
from postprocess.tables import formats as table_formats
from postprocess.tables.model import (
    HUMANS,
    MODALITY_TITLES,
    PROMPT_TITLES,
    Builder,
    Options,
    Table,
)

PICTURE_BUDGET = 7_000_000
"""Characters that all thumbnails together may take."""

BINS = 24
"""Bins of a score histogram."""


def payload(
    runs: Runs, options: Options, media: Mapping[str, Media], *, with_media: bool = True
) -> dict[str, Any]:
    """All of a report.

    Args:
        runs: What was read.
        options: How figures are computed.
        media: Dataset folders by fingerprint, for pictures and captions.
        with_media: Whether pictures and captions may be shown; without, ids only.

    Raises:
        MixedError: The runs differ in data or prompts, and `options.mix` is off.
    """
    built = [tables.build(name, runs, options) for name in tables.TABLES if _has_rows(name, runs)]
    builder = Builder(runs.runs, options, {}, [task for run in runs.runs for task in run.tasks])
    words: list[str] = []
    pairs = report_pairs.pairs(runs, media if with_media else {}, with_media)
    questions = report_pairs.questions(runs, with_media)
    thumbs = thumbnails.Thumbnails({}, 0)
    if with_media:
        thumbs = _thumbnails(
            runs, media, [p["id"] for p in (*pairs["pictures"], *questions["items"])]
        )
    cap = report_pairs.cap_words(pairs, questions)
    found = [task for run in runs.runs for task in run.tasks.values()]
    kinds = sorted({str(kind) for task in found for kind in task.values("dataset_kind")})
    for run in runs.runs:
        words += _headlines(run, builder)
    return {
        "title": "pragclash report",
        "headline": words,
        "kinds": kinds,
        "models": [run.label for run in runs.runs],
        "problems": [str(problem) for problem in runs.problems],
        "tables": [table_formats.as_json(table) for table in built],
        "plane": _plane(built),
        "cues": _cues(built),
        "scores": _scores(runs, builder),
        "clash": _clash(runs),
        "pairs": pairs,
        "questions": questions,
        "thumbs": thumbs.uris,
        "media": {
            "shown": with_media,
            "left_out": thumbs.left_out if with_media else 0,
            "cap": cap,
        },
        "provenance": [provenance(run) for run in runs.runs],
        "settings": {"draws": options.draws, "seed": options.seed, "level": options.level},
    }


def _has_rows(name: str, runs: Runs) -> bool:
    _, tasks = tables.TABLES[name]
    if name == "human":
        return any(run.model in HUMANS for run in runs.runs)
    if name == "clash-judge":
        return any(
            record.get("judges")
            for run in runs.runs
            for task in tasks
            for record in run.records(task)[:50]
        )
    if name == "clash-finetune":
        return any({"clash_open", "clash_open_original"} <= run.tasks.keys() for run in runs.runs)
    if name == "table4":
        return any("text_only" in task for run in runs.runs for task in run.tasks)
    return any(task in run.tasks for run in runs.runs for task in tasks)


def _headlines(run: Run, builder: Builder) -> list[str]:
    out = []
    for prompt in ("zero_shot", "cot"):
        for family in ("pml", "pm"):
            task = f"pragmatch_{family}" + ("_cot" if prompt == "cot" else "")
            if task in run.tasks:
                name = f"{run.label}, {PROMPT_TITLES[prompt]}"
                table = builder.table(run, task, family)
                out.append(report_words.pragmatch(name, table, _kind(run.tasks[task])))
                break
    for form, title in (("mc", "multiple choice"), ("open", "open questions")):
        task = f"clash_{form}"
        if task in run.tasks:
            found = clash_estimates.table(builder.clash(run, task), draws=builder.options.draws)
            alarms = None
            if f"{task}_original" in run.tasks:
                original = builder.clash(run, f"{task}_original")
                alarms = clash_estimates.rate(original, clash_estimates.FLAGS["conflict"])
            name = f"{run.label}, CLASH {title}"
            out.append(
                report_words.clash(
                    name, found.get("conflict"), alarms, found.get("image"), _kind(run.tasks[task])
                )
            )
    return out


def _kind(task: TaskRun) -> str:
    kinds = task.values("dataset_kind")
    if any(fingerprint is None for fingerprint in task.values("dataset_fingerprint")):
        return "full"
    return str(kinds[0]) if kinds else "full"


def _plane(built: Sequence[Table]) -> list[dict[str, Any]]:
    """Points of the acc_p against acc_m plane, in percent."""
    out: list[dict[str, Any]] = []
    for table in built:
        if table.name not in ("table1", "human"):
            continue
        for row in table.rows:
            p, m = (row.cells[k].estimate if k in row.cells else None for k in ("acc_p", "acc_m"))
            if row.kind == "model" and p is not None and m is not None:
                name = ", ".join(part for part in row.head if part)
                # The table of people repeats baselines that stand in the main one.
                if (
                    any(point["name"].startswith(row.head[0]) for point in out)
                    and len(row.head) == 1
                ):
                    continue
                pair = row.cells["pair_acc"].estimate
                out.append(
                    {
                        "name": name,
                        "p": _triple(p),
                        "m": _triple(m),
                        "pair": None if pair is None else _triple(pair),
                    }
                )
    return out


def _triple(estimate: stats.Estimate) -> list[float | None]:
    return [None if x is None else round(100 * x, 3) for x in estimate[:3]]


def _cues(built: Sequence[Table]) -> list[dict[str, Any]]:
    """What a cue edit does to accuracy on the same pictures, in points."""
    out = []
    for table in built:
        if table.name != "table3":
            continue
        for row in table.rows:
            for key, what, n in (
                ("p.flip_difference", "masked P less P", "n_masked"),
                ("m.flip_difference", "injected M less M", "n_injected"),
            ):
                cell = row.cells.get(key)
                if row.kind != "model" or cell is None or cell.estimate is None:
                    continue
                count = row.cells[n].estimate
                out.append(
                    {
                        "name": f"{row.head[0]}, {row.head[1]}",
                        "cue": row.head[2],
                        "what": what,
                        "difference": _triple(cell.estimate),
                        "p_value": cell.p_value,
                        "n": None if count is None else count.value,
                    }
                )
    return out


def _scores(runs: Runs, builder: Builder) -> list[dict[str, Any]]:
    """Score histograms, ROC and reliability of every task of pairs that carries scores."""
    out = []
    for run in runs.runs:
        shown = set()
        # Groups of three hold the pairs as well: a task of pairs adds nothing beside them.
        for task in sorted(run.tasks, key=lambda name: ("pml" not in name, name)):
            if not task.startswith("pragmatch_"):
                continue
            family = family_of(task)
            form = task.removeprefix(f"pragmatch_{family}")
            if family not in ("pml", "pm", "p_minus_m_plus") or (
                family == "pm" and ("pml", form) in shown
            ):
                continue
            slots = metrics.slots_for(family)
            answers = builder.answers(run, task)
            s, labels, _ = estimates.scored_items(answers, slots)
            if not len(s):
                continue
            shown.add((family, form))
            table = builder.table(run, task, family)
            low, high = (float(x) for x in np.quantile(s, [0.005, 0.995]))
            span = max(abs(low), abs(high), 0.5)
            edges = np.linspace(-span, span, BINS + 1)
            inside = np.clip(s, -span, span)
            calibration = stats.calibration(s, labels)
            record = run.tasks[task].records[0]
            title = ", ".join(
                (
                    run.label,
                    PROMPT_TITLES.get(str(record["prompt"]), str(record["prompt"])),
                    *([MODALITY_TITLES["text_only"]] if record["modality"] == "text_only" else []),
                    *([f"edited, {record['cue']}"] if family == "p_minus_m_plus" else []),
                )
            )
            estimate = table.estimates
            out.append(
                {
                    "name": title,
                    "task": task,
                    "edges": [round(float(edge), 4) for edge in edges],
                    "positive": np.histogram(inside[labels == 1], edges)[0].tolist(),
                    "negative": np.histogram(inside[labels == 0], edges)[0].tolist(),
                    "sides": ["P-", "M+"] if family == "p_minus_m_plus" else ["P", "M"],
                    "roc": [[round(x, 4), round(y, 4)] for x, y in stats.roc(s, labels)],
                    "bins": [
                        [round(b.predicted, 4), round(b.observed, 4), b.n]
                        for b in calibration.bins
                        if b.predicted is not None and b.observed is not None
                    ],
                    "auroc": _triple(estimate["auroc"]),
                    "ranking": _triple(estimate["pair_ranking"]),
                    "threshold_accuracy": _triple(estimate["threshold_accuracy"]),
                    "accuracy": _triple(estimate["accuracy"]),
                    "ece": calibration.ece,
                    "n": table.n_scored,
                    "low_mass": _low_mass(run.tasks[task]),
                    "sources": [str(v) for v in run.tasks[task].values("s_source") if v],
                    "disagree": _share(
                        record.get("sign_disagrees") for record in run.tasks[task].records
                    ),
                }
            )
    return out


def _groups_of(answer: clash_metrics.ClashAnswer) -> set[str | None]:
    names = {clash_metrics.category_name(c, answer.change_type) for c in answer.categories}
    return {answer.change_type, *names}


def _low_mass(task: TaskRun) -> float | None:
    """Share of scored answers with less than half of the probability on the answer sets."""
    return _share(
        None if record.get("mass") is None else record["mass"] < 0.5 for record in task.records
    )


def _share(values: Iterable[Any]) -> float | None:
    known = [bool(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _clash(runs: Runs) -> list[dict[str, Any]]:
    """Exclusive outcomes of every CLASH task, over all and by category, as counts."""
    out = []
    for run in runs.runs:
        for task, found in run.tasks.items():
            if not task.startswith("clash_"):
                continue
            answers = clash_estimates.answers_of(found.records)
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


def _thumbnails(
    runs: Runs, media: Mapping[str, Media], ids: Sequence[str]
) -> thumbnails.Thumbnails:
    used = {
        str(value)
        for run in runs.runs
        for task in run.tasks.values()
        for value in task.values("dataset_fingerprint")
    }
    files: dict[str, Path] = {}
    for fingerprint in sorted(used & media.keys()):
        files.update(media[fingerprint].pictures)
    return thumbnails.make(files, ids, PICTURE_BUDGET)
