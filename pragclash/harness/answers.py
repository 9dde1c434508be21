"""What must be looked at after a run: whether its answers are a result, and what it rests on."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

from lmms_eval_tasks.documents import task_folder
from postprocess.benchmarks.pragmatch_tasks import spec_of
from postprocess.measure.groups import Answer
from postprocess.measure.pragmatch import slots_for
from postprocess.measure.standard_error import accuracy_stderr
from postprocess.response.line import encodable, is_failed
from postprocess.runs.refused import TaskAnswers, counted
from pragclash.harness.cache import benchmarks_of

FIRST_METRICS = ("accuracy", "conflict")
"""The metrics that carry the record."""


def answers_of(rows: Iterable[Mapping[str, Any]]) -> TaskAnswers:
    """Count the empty and the failed among a task's logged answers.

    In our tasks the record's own status counts, so that this agrees with the metrics; a vote that
    was never cast is no answer.
    """
    found: list[Mapping[str, Any]] = []
    for row in rows:
        record = record_of(row)
        if record is not None:
            found.append(record)
            continue
        for answer in row["filtered_resps"]:
            if isinstance(answer, str):
                status = "failed" if is_failed(answer) else "ok" if answer.strip() else "empty"
                found.append({"status": status})
    return counted(found)


def record_of(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The record in a row of the sample log, or None in tasks that are not ours."""
    for name in FIRST_METRICS:
        record = row.get(name)
        if isinstance(record, Mapping) and "record" in record:
            return record
    return None


def notes_of(samples: Mapping[str, Any]) -> dict[str, Any]:
    """What a run rests on: our version, its data, forged response lines, machine and packages."""
    data = {}
    for benchmark in sorted({b for task in samples for b in benchmarks_of(task)}):
        folder = task_folder(benchmark)
        data[benchmark] = {
            "kind": folder.kind,
            "fingerprint": folder.fingerprint,
            "encoders": folder.manifest.get("encoders", []),
            "omitted": dict(sorted(folder.omitted.items())),
        }
    forged = sum(
        bool((record_of(row) or {}).get("forged")) for rows in samples.values() for row in rows
    )
    return {
        "version": metadata.version("pragclash"),
        "data": data,
        "forged_lines": forged,
        **_machine(),
    }


def _machine() -> dict[str, Any]:
    import torch

    if torch.cuda.is_available():
        hardware = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    else:
        hardware = [f"{platform.machine()} CPU, {os.cpu_count()} cores"]
    packages = ("lmms-eval", "torch", "transformers", "datasets")
    versions = {name: metadata.version(name) for name in packages}
    return {"hardware": hardware, "versions": {"python": platform.python_version(), **versions}}


def mend_errors(results: Mapping[str, Any], samples: Mapping[str, Any]) -> None:
    """Let the harness print a standard error only beside the value that it is the error of.

    The harness takes the spread over every document that carries a record: literal captions and
    half pairs too, which accuracy leaves out, and in cue tasks pictures without their other
    caption. It also prints an error that takes all captions of a picture for independent; where a
    picture is asked about more than once that is N/A here, and the clustered one stays.
    """
    for task, values in results.get("results", {}).items():
        rows = samples.get(task, [])
        found = [record for record in map(record_of, rows) if record is not None]
        if not benchmarks_of(task) or not found:
            continue
        if len({record["image_id"] for record in found}) < len(found):
            for name in FIRST_METRICS:
                if f"{name},none" in values:
                    values[f"{name}_stderr_clt,none"] = "N/A"
        if "pragmatch" in benchmarks_of(task):
            _mend_pragmatch(values, [Answer.of(record) for record in found], task)


def _mend_pragmatch(values: dict[str, Any], answers: list[Answer], task: str) -> None:
    slots = slots_for(spec_of(task).family)
    _set_error(values, "accuracy", accuracy_stderr(answers, slots))
    edited = {"P-": "acc_p_minus", "M+": "acc_m_plus", "P": "acc_p", "M": "acc_m"}
    if set(slots) in ({"P", "P-"}, {"M", "M+"}):
        for slot in slots:
            _set_error(values, edited[slot], accuracy_stderr(answers, slots, (slot,)))


def _set_error(values: dict[str, Any], metric: str, error: float | None) -> None:
    values[f"{metric}_stderr_clt,none"] = "N/A"
    values[f"{metric}_stderr_clustered,none"] = "N/A" if error is None else error


def make_encodable(value: Any) -> Any:
    """Replace lone surrogates in place: the harness loses a whole sample log over one of them."""
    if isinstance(value, str):
        return value if value.isascii() else encodable(value)
    if isinstance(value, dict):
        for key, item in value.items():
            value[key] = make_encodable(item)
    elif isinstance(value, list):
        value[:] = [make_encodable(item) for item in value]
    return value
