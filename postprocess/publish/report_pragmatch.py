"""PragMatch in a report: headlines, the plane of P and M, cue edits, scores, and every pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from postprocess.benchmarks.base import Sections
from postprocess.benchmarks.pragmatch_tasks import spec_of, task_names
from postprocess.measure import scores
from postprocess.measure.groups import Answer
from postprocess.measure.pragmatch import scored_items
from postprocess.publish import report_words
from postprocess.publish.report_pairs import (
    Asked,
    captions_from_prompts,
    kind_of,
    shown_words,
    triple,
)
from postprocess.read.counts import read_by
from postprocess.response.line import LEFT_OUT
from postprocess.runs.folder import Run, Runs, TaskRun
from postprocess.tables.model import MODALITY_TITLES, PROMPT_TITLES, Builder, Table

BINS = 24
"""Bins of a score histogram."""


class Configuration(NamedTuple):
    """A model with the way it was asked."""

    run: int
    prompt: str
    modality: str


def sections(asked: Asked) -> Sections:
    """PragMatch's part of a report."""
    pairs = _pairs(asked)
    captions = [c for picture in pairs["pictures"] for c in picture["captions"]]
    return Sections(
        [line for run in asked.runs.runs for line in _headlines(run, asked.builder)],
        {
            "plane": _plane(asked.tables),
            "cues": _cues(asked.tables),
            "scores": _scores(asked.runs, asked.builder),
            "pairs": pairs,
        },
        [answer for caption in captions for _, answer in caption["answers"]],
        [picture["id"] for picture in pairs["pictures"]],
    )


def _headlines(run: Run, builder: Builder) -> list[str]:
    out = []
    for prompt, suffix in (("zero_shot", ""), ("cot", "_cot")):
        tasks = [f"pragmatch_{family}{suffix}" for family in ("pml", "pm")]
        task = next((task for task in tasks if task in run.tasks), None)
        if task:
            name = f"{run.label}, {PROMPT_TITLES[prompt]}"
            found = builder.figures(run, task)
            kind, counts = kind_of(run.tasks[task]), read_by(run.records(task))
            out.append(report_words.pragmatch(name, found, kind, counts))
    return out


def _plane(built: Mapping[str, Table]) -> list[dict[str, Any]]:
    """Points of the acc_p against acc_m plane, in percent."""
    out: list[dict[str, Any]] = []
    for table in (built[name] for name in ("table1", "human") if name in built):
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
                        "p": triple(p),
                        "m": triple(m),
                        "pair": None if pair is None else triple(pair),
                    }
                )
    return out


def _cues(built: Mapping[str, Table]) -> list[dict[str, Any]]:
    """What a cue edit does to accuracy on the same pictures, in points."""
    out = []
    for table in [built["table3"]] if "table3" in built else []:
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
                        "difference": triple(cell.estimate),
                        "p_value": cell.p_value,
                        "n": None if count is None else count.value,
                    }
                )
    return out


def _scores(runs: Runs, builder: Builder) -> list[dict[str, Any]]:
    """Score histograms, ROC and reliability of every task of pairs that carries scores."""
    out = []
    known = set(task_names())
    for run in runs.runs:
        shown = set()
        # Groups of three hold the pairs as well: a task of pairs adds nothing beside them.
        for task in sorted(run.tasks, key=lambda name: ("pml" not in name, name)):
            if task not in known:
                continue
            spec = spec_of(task)
            family, form = spec.family, (spec.modality, spec.prompt)
            if family not in ("pml", "pm", "p_minus_m_plus") or (
                family == "pm" and ("pml", form) in shown
            ):
                continue
            s, labels, _ = scored_items(builder.frame(run, task))
            if not len(s):
                continue
            shown.add((family, form))
            estimate = builder.figures(run, task)
            low, high = (float(x) for x in np.quantile(s, [0.005, 0.995]))
            span = max(abs(low), abs(high), 0.5)
            edges = np.linspace(-span, span, BINS + 1)
            inside = np.clip(s, -span, span)
            calibration = scores.calibration(s, labels)
            record = run.tasks[task].records[0]
            title = ", ".join(
                (
                    run.label,
                    PROMPT_TITLES.get(str(record["prompt"]), str(record["prompt"])),
                    *([MODALITY_TITLES["text_only"]] if record["modality"] == "text_only" else []),
                    *([f"edited, {record['cue']}"] if family == "p_minus_m_plus" else []),
                )
            )
            out.append(
                {
                    "name": title,
                    "task": task,
                    "edges": [round(float(edge), 4) for edge in edges],
                    "positive": np.histogram(inside[labels == 1], edges)[0].tolist(),
                    "negative": np.histogram(inside[labels == 0], edges)[0].tolist(),
                    "sides": ["P-", "M+"] if family == "p_minus_m_plus" else ["P", "M"],
                    "roc": [[round(x, 4), round(y, 4)] for x, y in scores.roc(s, labels)],
                    "bins": [
                        [round(b.predicted, 4), round(b.observed, 4), b.n]
                        for b in calibration.bins
                        if b.predicted is not None and b.observed is not None
                    ],
                    "auroc": triple(estimate["auroc"]),
                    "ranking": triple(estimate["pair_ranking"]),
                    "threshold_accuracy": triple(estimate["threshold_accuracy"]),
                    "accuracy": triple(estimate["accuracy"]),
                    "ece": calibration.ece,
                    "n": int(estimate["n_scored"].value or 0),
                    "low_mass": _low_mass(run.tasks[task]),
                    "sources": [str(v) for v in run.tasks[task].values("s_source") if v],
                    "disagree": _share(
                        record.get("sign_disagrees") for record in run.tasks[task].records
                    ),
                }
            )
    return out


def _low_mass(task: TaskRun) -> float | None:
    """Share of scored answers with less than half of the probability on the answer sets."""
    return _share(
        None if record.get("mass") is None else record["mass"] < 0.5 for record in task.records
    )


def _share(values: Iterable[Any]) -> float | None:
    known = [bool(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _pairs(asked: Asked) -> dict[str, Any]:
    """PragMatch answers by picture and caption, for the pair browser."""
    runs, with_media = asked.runs, asked.with_media
    known_tasks = set(task_names())
    configurations: dict[Configuration, int] = {}
    pictures: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
    for index, run in enumerate(runs.runs):
        # Tasks that ask more of a picture come first; the same question twice is shown once.
        ordered = sorted(run.tasks, key=lambda task: ("pml" not in task, task))
        for task in ordered:
            if task not in known_tasks:
                continue
            found = run.tasks[task]
            derived: dict[str, str] = {}
            if with_media:
                texts = zip(found.records, found.prompts, strict=True)
                derived = captions_from_prompts({r["sample_id"]: text for r, text in texts})
            for record in found.records:
                prompt, modality = str(record.get("prompt")), str(record.get("modality"))
                key = Configuration(index, prompt, modality)
                number = configurations.setdefault(key, len(configurations))
                source = str(record.get("dataset_fingerprint"))
                captions = pictures[source, record["image_id"]]
                sample = record["sample_id"]
                if sample not in captions:
                    known = asked.media.get(source)
                    text = known.captions.get(sample) if known else None
                    captions[sample] = {
                        "id": sample,
                        "slot": Answer.of(record).slot,
                        "cue": record.get("cue"),
                        "text": text if text is not None else derived.get(sample, ""),
                        "answers": {},
                    }
                if record["status"] == LEFT_OUT:
                    continue
                captions[sample]["answers"].setdefault(
                    number,
                    {
                        "v": record["verdict"],
                        "ok": record["correct"],
                        "s": None if record.get("s") is None else round(record["s"], 3),
                        "st": record["status"],
                        "w": shown_words(record, with_media),
                    },
                )
    order = {slot: i for i, slot in enumerate(("P", "P-", "M", "M+", "L"))}
    return {
        "configurations": [
            {
                "name": _configuration_name(runs.runs[c.run].label, c),
                "model": c.run,
                "prompt": c.prompt,
                "modality": c.modality,
            }
            for c in configurations
        ],
        "pictures": [
            {
                "id": image_id,
                "data": source[:12],
                "captions": [
                    {**caption, "answers": [[k, v] for k, v in caption["answers"].items()]}
                    for caption in sorted(
                        captions.values(), key=lambda c: (order[c["slot"]], str(c["cue"]))
                    )
                ],
            }
            for (source, image_id), captions in sorted(pictures.items())
        ],
    }


def _configuration_name(label: str, configuration: Configuration) -> str:
    parts = [label, PROMPT_TITLES.get(configuration.prompt, configuration.prompt)]
    if configuration.modality == "text_only":
        parts.append(MODALITY_TITLES["text_only"])
    return ", ".join(parts)
