"""Writes scored files of predictions as a run folder, so that tables and reports can read it.

Laid out as the harness lays out its own and marked with the files it came from. It must never write
over anything unasked, and the same file always gives the same names and bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from postprocess.benchmarks.base import owner
from postprocess.measure import clash as clash_metrics
from postprocess.measure.metric import value
from postprocess.read.matching import prediction_text
from postprocess.response.line import RECORD_VERSION
from postprocess.runs.prediction_rows import Row
from postprocess.runs.rescoring import Scored


class OutputExistsError(Exception):
    """A run folder that would be written over."""


def write_runs(scored: Sequence[Scored], out: str | Path, *, force: bool = False) -> list[Path]:
    """Write a run folder of scored models, laid out as the harness lays out its own.

    `<out>/<model>/<stamp>_results.json` and `<stamp>_samples_<task>.jsonl`, the stamp made from the
    files' SHA-256: the same files always give the same names and the same bytes.

    Args:
        scored: The scored models.
        out: The run folder; made where it is missing.
        force: Write over files of an earlier run on the same files.

    Returns:
        The files written.

    Raises:
        OutputExistsError: A file stands there already and `force` is not given. Nothing is written
            then.
    """
    texts: dict[Path, str] = {}
    for one in scored:
        folder = Path(out) / re.sub(r"[^A-Za-z0-9._+-]+", "_", one.name).strip("_")
        digest = _digest(one)
        stamp = f"rescored-{digest[:12]}"
        texts[folder / f"{stamp}_results.json"] = _results_text(one, stamp, digest)
        for task in one.tasks:
            texts[folder / f"{stamp}_samples_{task}.jsonl"] = _samples_text(one, task)
    for path in texts:
        if path.exists() and not force:
            raise OutputExistsError(f"{path} exists already: choose another folder, or --force")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(text, encoding="ascii")
        partial.replace(path)
    return list(texts)


def _digest(scored: Scored) -> str:
    """The file's hash, or one of the hashes of several."""
    digests = sorted(file.source.sha256 for file in scored.files)
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _samples_text(scored: Scored, task: str) -> str:
    rows = [(row, record) for row, record in scored.records if record["task"] == task]
    return "".join(
        json.dumps(_sample_row(row, record, number)) + "\n"
        for number, (row, record) in enumerate(rows)
    )


def _sample_row(row: Row, record: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A row of a sample log; the record stands where the harness puts it."""
    task = str(record["task"])
    first = owner(task).first(task)
    answer = prediction_text(row.answer)
    content = json.dumps([record["sample_id"], record.get("rotation"), answer])
    return {
        "doc_id": number,
        "target": "",
        "filtered_resps": [answer],
        "doc_hash": hashlib.sha256(content.encode()).hexdigest(),
        first: dict(record),
        "source_row": row.row,
    }


def _results_text(scored: Scored, stamp: str, digest: str) -> str:
    tasks = scored.tasks
    results = {
        task: {"alias": task, **{f"{name},none": value for name, value in _metrics(scored, task)}}
        for task in tasks
    }
    counts = {task: {"original": one.n, "effective": one.n} for task, one in tasks.items()}
    whole = {
        "results": results,
        "configs": {
            task: {"task": task, "metadata": {"version": RECORD_VERSION}} for task in tasks
        },
        "versions": dict.fromkeys(tasks, RECORD_VERSION),
        "n-samples": counts,
        "config": {"model": "pragclash_score", "model_args": f"model_name={scored.name}"},
        "model_source": "pragclash_score",
        "model_name": scored.name,
        "date": stamp,
        "rescored": {
            "source": " + ".join(Path(file.source.path).name for file in scored.files),
            "sha256": digest,
            "rows": sum(file.source.n_rows for file in scored.files),
            "malformed": [fault._asdict() for file in scored.files for fault in file.faults],
        },
    }
    return json.dumps(whole, indent=2) + "\n"


def _metrics(scored: Scored, task: str) -> list[tuple[str, float | None]]:
    if task not in clash_metrics.TASKS:
        figures = scored.tasks[task].figures
        return [("accuracy" if n == "correct" else n, f.rate.value) for n, f in figures.items()]
    answers = clash_metrics.answers_of(
        record for _, record in scored.records if record["task"] == task
    )
    laid = clash_metrics.frame(answers)
    return [
        (name, value(clash_metrics.METRICS[name], laid)) for name in clash_metrics.metrics_for(task)
    ]
