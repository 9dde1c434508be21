"""The two files of an Every Eval Ever submission: an aggregate, and one instance a document.

Ids are made from content and the run's own date, so the same run always gives the same files.
Pictures never leave; captions, questions and reasonings only when asked.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import zoneinfo
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, NamedTuple

from postprocess.benchmarks.base import Benchmark, owner
from postprocess.measure import stats
from postprocess.measure.estimate import Sampling, estimates
from postprocess.measure.metric import Metric
from postprocess.measure.stats import Estimate
from postprocess.publish.report_pairs import WITHHELD
from postprocess.response.line import LEFT_OUT
from postprocess.runs.folder import Run, TaskRun
from postprocess.runs.provenance import command_line, prompt_form
from postprocess.tables.build import wording

SCHEMA_VERSION = "0.3.0"
"""Of the Every Eval Ever schemas that the files follow."""

_HARNESS_ZONE = "Asia/Singapore"
"""The zone in which the harness stamps its files unless told otherwise; it has no summer time."""

_STAMP = re.compile(r"(\d{8})[_T](\d{2})-?(\d{2})-?(\d{2})")


class ExportError(ValueError):
    """A run that cannot be submitted; the message says why and what to do."""


class Submission(NamedTuple):
    """Who submits what."""

    model_id: str
    """`organisation/name`, as on the hub."""
    organization: str
    relationship: str = "third_party"
    availability: str = "unknown"
    deployment: str = "unknown"
    with_text: bool = False
    seed: int = stats.SEED


def aggregate_of(
    run: Run, benchmark: str, tasks: Sequence[str], submission: Submission
) -> dict[str, Any]:
    """The aggregate of some tasks of one benchmark: who, with what, and every result."""
    stamps = [when(run.tasks[name]) for name in tasks]
    newest = max(stamps)
    retrieved = str(int(newest.timestamp()))
    evaluation_id = f"{benchmark}/{submission.model_id.replace('/', '_')}/{retrieved}"
    first = run.tasks[tasks[0]]
    notes = (first.results.get("config") or {}).get("pragclash") or {}
    # The harness's own string names the commit of whatever folder the run was started in.
    versions = notes.get("versions") or {}
    harness = str(versions.get("lmms-eval") or first.results.get("lmms_eval_version") or "unknown")
    details = {"pragclash_version": _own_version()}
    if first.results.get("git_hash"):
        details["git_hash"] = str(first.results["git_hash"])
    out: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation_id,
        "evaluation_timestamp": newest.isoformat(),
        "retrieved_timestamp": retrieved,
        "source_metadata": {
            "source_name": "pragclash",
            "source_type": "evaluation_run",
            "source_organization_name": submission.organization,
            "evaluator_relationship": submission.relationship,
        },
        "eval_library": {
            "name": "lmms_eval",
            "version": "unknown" if harness.startswith("unknown") else harness,
            "additional_details": details,
        },
        "model_info": {
            "name": submission.model_id.partition("/")[2],
            "id": submission.model_id,
            "developer": submission.model_id.partition("/")[0],
            "additional_details": {
                "deployment_type": submission.deployment,
                "model_availability": submission.availability,
                "harness_model": run.model,
                "model_args": run.model_args,
            },
        },
        "evaluation_results": [],
    }
    for name in tasks:
        out["evaluation_results"] += _results(run, run.tasks[name], evaluation_id, submission)
    return out


def _results(
    run: Run, task: TaskRun, evaluation_id: str, submission: Submission
) -> list[dict[str, Any]]:
    benchmark = owner(task.task)
    found, n_left_out = _estimates(benchmark, task, submission)
    record = task.records[0]
    out = []
    for name, (metric, estimate) in found.items():
        if estimate.value is None:
            continue
        out.append(
            {
                "evaluation_result_id": f"{evaluation_id}/{task.task}/{name}",
                "evaluation_name": task.task,
                "source_data": {
                    "dataset_name": benchmark.title,
                    "source_type": "other",
                    "additional_details": {
                        "kind": str(record["dataset_kind"]),
                        "fingerprint": str(record["dataset_fingerprint"]),
                        "documents": str(len(task.records)),
                        "pictures": str(len({r["image_id"] for r in task.records})),
                        "pictures_left_out": str(n_left_out),
                    },
                },
                "evaluation_timestamp": when(task).isoformat(),
                "metric_config": {
                    "evaluation_description": metric.doc,
                    "metric_id": f"{benchmark.name}.{name}",
                    "metric_name": name,
                    "metric_kind": metric.kind,
                    "metric_unit": "proportion",
                    "lower_is_better": benchmark.better(task.task, metric) is False,
                    "score_type": "continuous",
                    "min_score": -1.0 if metric.kind == "difference" else 0.0,
                    "max_score": 1.0,
                },
                "score_details": {
                    "score": estimate.value,
                    "details": {"n": str(estimate.n), "prompt": wording(record)},
                    "uncertainty": _uncertainty(estimate, submission),
                },
                "generation_config": _generation(run, task),
            }
        )
    return out


_METHODS = {"wilson": "Wilson score", "score": "score", "tango": "Tango score"}


def _uncertainty(estimate: Estimate, submission: Submission) -> dict[str, Any]:
    out: dict[str, Any] = {"num_samples": estimate.n}
    if estimate.se is not None:
        method = "jackknife over pictures" if estimate.method == "jackknife" else "analytic"
        out["standard_error"] = {"value": estimate.se, "method": method}
    if estimate.low is not None and estimate.high is not None:
        out["confidence_interval"] = {
            "lower": estimate.low,
            "upper": estimate.high,
            "confidence_level": stats.LEVEL,
            "method": _METHODS.get(estimate.method, estimate.method),
        }
    return out


def _estimates(
    benchmark: Benchmark, task: TaskRun, submission: Submission
) -> tuple[dict[str, tuple[Metric, Estimate]], int]:
    """The figures of a task under their names in a submission, and the pictures left out."""
    frame = benchmark.frame(task.task, benchmark.answers(task.records))
    exported = {name: benchmark.metrics[own] for name, own in benchmark.exports(task.task).items()}
    found = estimates(exported.values(), frame, Sampling(submission.seed))
    shown = {
        name: (metric, found[metric.name])
        for name, metric in exported.items()
        if metric.name in found
    }
    return shown, frame.left_out


def _generation(run: Run, task: TaskRun) -> dict[str, Any]:
    arguments = _mapping(task.config.get("generation_kwargs"))
    out: dict[str, Any] = {"reasoning": task.records[0].get("prompt") == "cot"}
    temperature, tokens = arguments.get("temperature"), arguments.get("max_new_tokens")
    if isinstance(temperature, int | float) and not isinstance(temperature, bool):
        out["temperature"] = float(temperature)
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 1:
        out["max_tokens"] = tokens
    command = command_line(run, task)
    if command:
        out["execution_command"] = command
    template = prompt_form(task)
    if template:
        out["prompt_template"] = template
    return {
        "generation_args": out,
        "additional_details": {str(k): str(v) for k, v in sorted(arguments.items())},
    }


def samples_of(
    run: Run, task: TaskRun, aggregate: Mapping[str, Any], submission: Submission
) -> list[dict[str, Any]]:
    """One instance a document, joined to the metric to which it contributes as one unit."""
    benchmark = owner(task.task)
    present = {r["evaluation_result_id"] for r in aggregate["evaluation_results"]}
    out = []
    for record, prompt in zip(task.records, task.prompts, strict=True):
        if record.get("status") == LEFT_OUT:
            continue
        result_id = (
            f"{aggregate['evaluation_id']}/{task.task}/{benchmark.joined(task.task, record)}"
        )
        words = str(record.get("response") or "")
        reference = benchmark.reference(record)
        digest = hashlib.sha256(
            (prompt + "".join(reference)).encode("utf-8", "surrogatepass")
        ).hexdigest()
        shown = submission.with_text or len(words) <= WITHHELD
        sample: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": aggregate["evaluation_id"],
            "model_id": submission.model_id,
            "evaluation_name": task.task,
            "sample_id": _sample_id(record),
            "sample_hash": digest,
            "interaction_type": "single_turn",
            "input": {
                "raw": prompt if submission.with_text else f"[withheld, sha256 {digest}]",
                "reference": reference if submission.with_text or benchmark.choices else [],
            },
            "output": {"raw": [words if shown else f"[withheld, {len(words)} characters]"]},
            "answer_attribution": [
                {
                    "turn_idx": 0,
                    "source": "output.raw",
                    "extracted_value": benchmark.extracted(record),
                    "extraction_method": "custom",
                    "is_terminal": True,
                }
            ],
            "evaluation": {
                "score": float(record["correct"]),
                "is_correct": bool(record["correct"]),
            },
            "metadata": _metadata(record),
        }
        if result_id in present:
            sample["evaluation_result_id"] = result_id
        if benchmark.choices:
            sample["input"]["choices"] = list(benchmark.choices)
        out.append(sample)
    return out


_METADATA = (
    *("image_id", "condition", "cue", "edit", "modality", "prompt", "prompt_version", "status"),
    *("s", "mass", "s_source", "form", "caption_kind", "rotation", "change_type", "outcome"),
    *("option_order", "prompt_hash", "dataset_kind", "dataset_fingerprint"),
)


def _metadata(record: Mapping[str, Any]) -> dict[str, str]:
    out = {key: str(record[key]) for key in _METADATA if record.get(key) is not None}
    if record.get("categories"):
        out["categories"] = ", ".join(map(str, record["categories"]))
    return out


def _sample_id(record: Mapping[str, Any]) -> str:
    rotation = record.get("rotation")
    return str(record["sample_id"]) + ("" if rotation is None else f"#{rotation}")


def when(task: TaskRun) -> datetime.datetime:
    """The moment that stamps an invocation's files, with its zone.

    Raises:
        ExportError: The stamp is no date.
    """
    match = _STAMP.search(task.date)
    config = _mapping(_mapping(task.results.get("config")).get("resolved_cli_args"))
    name = config.get("timezone") or _HARNESS_ZONE
    try:
        if match is None:
            raise ValueError("no date in it")
        day, hour, minute, second = match.groups()
        moment = datetime.datetime.strptime(f"{day}{hour}{minute}{second}", "%Y%m%d%H%M%S")
        return moment.replace(tzinfo=_zone(str(name)))
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as error:
        raise ExportError(f"{task.path}: its stamp {task.date!r} is no date ({error})") from error


def _zone(name: str) -> datetime.tzinfo:
    if name == _HARNESS_ZONE:
        return datetime.timezone(datetime.timedelta(hours=8))
    return zoneinfo.ZoneInfo(name)


def _own_version() -> str:
    try:
        return metadata.version("pragclash")
    except metadata.PackageNotFoundError:
        return "unknown"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
