"""A run as a submission, for Every Eval Ever and for Hugging Face model pages.

A submission claims to be a benchmark result, so a run that is not one is refused with the reason:
the sample, custom data, a limit, failed requests, a cut run. Ids are made from content and the
run's own date: the same run always gives the same files. Pictures never leave, captions only when
asked.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import uuid
import zoneinfo
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from postprocess.benchmarks.base import Benchmark, benchmarks, named, owner
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

RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
AVAILABILITIES = ("open_weights", "closed_weights", "unknown")
DEPLOYMENTS = ("self_deployed", "externally_managed", "unknown")

_HARNESS_ZONE = "Asia/Singapore"
"""The zone in which the harness stamps its files unless told otherwise; it has no summer time."""

_STAMP = re.compile(r"(\d{8})[_T](\d{2})-?(\d{2})-?(\d{2})")
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SAFE = re.compile(r"[^A-Za-z0-9._-]+")


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
    draws: int = stats.DRAWS
    seed: int = stats.SEED


def refusals(run: Run, tasks: Sequence[str]) -> list[str]:
    """Why these tasks of a run are no benchmark result, each reason with its tasks; or nothing."""
    found: dict[str, list[str]] = {}
    for name in tasks:
        why = _why_not(run.tasks[name]) if name in run.tasks else ["the run does not hold it"]
        for reason in why:
            found.setdefault(reason, []).append(name)
    return [f"{_some(names)}: {reason}" for reason, names in found.items()]


def _why_not(task: TaskRun) -> list[str]:
    out = []
    kinds = [str(kind) for kind in task.values("dataset_kind")]
    if kinds != ["full"]:
        out.append(f"made on {' and '.join(kinds)} data, not on the benchmark's")
    elif None in task.values("dataset_fingerprint"):
        out.append("the data have no fingerprint (re-scored predictions)")
    if len(task.values("dataset_fingerprint")) > 1:
        out.append("answers on different data")
    config = _mapping(task.results.get("config"))
    if task.limit is not None:
        out.append(f"made with --limit {task.limit:g}")
    if config.get("offset"):
        out.append(f"made with --offset {config['offset']}")
    if not task.complete:
        out.append("incomplete, the run was cut")
    failed = sum(record.get("status") == "failed" for record in task.records)
    if failed:
        out.append(f"{failed} requests failed")
    if not task.results:
        out.append("the *_results.json is lost, so how it was made is unknown")
    return out


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def every_eval_ever(run: Run, tasks: Sequence[str], submission: Submission) -> dict[str, str]:
    """The files of an Every Eval Ever submission.

    Args:
        run: The run.
        tasks: The tasks to submit.
        submission: Who submits.

    Returns:
        Text by path below the output folder: for each benchmark one aggregate JSON and one JSONL of
        samples.

    Raises:
        ExportError: The run is no benchmark result.
    """
    _check(run, tasks, submission)
    files: dict[str, str] = {}
    for benchmark, one in benchmarks().items():
        names = [name for name in tasks if one.has(name)]
        if not names:
            continue
        aggregate = _aggregate(run, benchmark, names, submission)
        lines = [
            json.dumps(sample, sort_keys=True)
            for name in names
            for sample in _samples(run, run.tasks[name], aggregate, submission)
        ]
        samples = "".join(f"{line}\n" for line in lines)
        developer, model = (_SAFE.sub("-", part) for part in submission.model_id.split("/"))
        identity = _uuid(json.dumps(aggregate, sort_keys=True) + samples)
        folder = f"data/{benchmark}/{developer}/{model}"
        aggregate["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{folder}/{identity}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(samples.encode("ascii")).hexdigest(),
            "total_rows": len(lines),
        }
        files[f"{folder}/{identity}.json"] = json.dumps(aggregate, indent=2) + "\n"
        files[f"{folder}/{identity}_samples.jsonl"] = samples
    return files


def hugging_face(
    run: Run, tasks: Sequence[str], submission: Submission, datasets: Mapping[str, str]
) -> dict[str, str]:
    """The `.eval_results` file of a model page, derived from the Every Eval Ever aggregate.

    Args:
        run: The run.
        tasks: The tasks to submit.
        submission: Who submits.
        datasets: Hub id of the benchmark's dataset, by benchmark.

    Returns:
        Text by path below the output folder, one file a benchmark.

    Raises:
        ExportError: The run is no benchmark result, or a dataset id is missing.
    """
    files = {}
    for path, text in every_eval_ever(run, tasks, submission).items():
        if not path.endswith(".json"):
            continue
        aggregate = json.loads(text)
        benchmark = path.split("/")[1]
        if benchmark not in datasets:
            raise ExportError(
                f"the hub id of the {named(benchmark).title} dataset is missing: --dataset-id "
                f"{benchmark}=ORGANISATION/NAME"
            )
        day = aggregate["evaluation_timestamp"][:10]
        entries = []
        for name in tasks:
            found = {
                r["metric_config"]["metric_name"]: r
                for r in aggregate["evaluation_results"]
                if r["evaluation_name"] == name
            }
            headline = next(iter(owner(name).exports(name)), None)
            if headline is None or headline not in found:
                continue
            entries.append(
                {
                    "dataset": {"id": datasets[benchmark], "task_id": name},
                    "value": round(100 * found[headline]["score_details"]["score"], 2),
                    "date": day,
                    "notes": _notes(found[headline], headline),
                }
            )
        files[f".eval_results/{benchmark}.yaml"] = yaml.safe_dump(
            entries, sort_keys=False, allow_unicode=False
        )
    return files


def _notes(result: Mapping[str, Any], metric: str) -> str:
    details = result["score_details"]
    interval = details.get("uncertainty", {}).get("confidence_interval")
    text = f"{metric}, percent"
    if interval:
        low, high = 100 * interval["lower"], 100 * interval["upper"]
        text += f", 95% interval {low:.2f} to {high:.2f}"
    return f"{text}, n {details['details']['n']}; {details['details']['prompt']}"


def _check(run: Run, tasks: Sequence[str], submission: Submission) -> None:
    missing = []
    if not submission.model_id:
        missing.append("the model id (--model-id ORGANISATION/NAME)")
    elif not _ID.fullmatch(submission.model_id) or ".." in submission.model_id:
        given = repr(submission.model_id[:80])
        missing.append(f"a model id of the form ORGANISATION/NAME (--model-id), not {given}")
    if not submission.organization.strip():
        missing.append("the organisation that submits (--organization NAME)")
    if missing:
        raise ExportError(f"missing: {' and '.join(missing)}")
    reasons = refusals(run, tasks)
    if reasons:
        raise ExportError(
            f"{run.label} is no benchmark result: {'; '.join(reasons)}. Run these tasks whole on "
            "the full data, or choose others with --tasks"
        )


def _aggregate(
    run: Run, benchmark: str, tasks: Sequence[str], submission: Submission
) -> dict[str, Any]:
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


def _uncertainty(estimate: Estimate, submission: Submission) -> dict[str, Any]:
    out: dict[str, Any] = {"num_samples": estimate.n}
    if estimate.se is not None:
        method = "bootstrap over pictures" if estimate.method == "bootstrap" else "analytic"
        out["standard_error"] = {"value": estimate.se, "method": method}
    if estimate.low is not None and estimate.high is not None:
        out["confidence_interval"] = {
            "lower": estimate.low,
            "upper": estimate.high,
            "confidence_level": stats.LEVEL,
            "method": {"wilson": "Wilson score"}.get(estimate.method, "percentile bootstrap"),
        }
    if estimate.method == "bootstrap":
        out["num_bootstrap_samples"] = submission.draws
    return out


def _estimates(
    benchmark: Benchmark, task: TaskRun, submission: Submission
) -> tuple[dict[str, tuple[Metric, Estimate]], int]:
    """The figures of a task under their names in a submission, and the pictures left out."""
    frame = benchmark.frame(task.task, benchmark.answers(task.records))
    exported = {name: benchmark.metrics[own] for name, own in benchmark.exports(task.task).items()}
    found = estimates(exported.values(), frame, Sampling(submission.draws, submission.seed))
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


def _samples(
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


def _uuid(text: str) -> str:
    """A UUID of version 4's form made from content, so that it is the same next time."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _own_version() -> str:
    try:
        return metadata.version("pragclash")
    except metadata.PackageNotFoundError:
        return "unknown"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def model_id_of(run: Run) -> str:
    """The hub id among a run's model arguments, or nothing where there is none."""
    for key in ("pretrained", "model", "model_version", "model_id"):
        value = run.arguments.get(key, "")
        if _ID.fullmatch(value) and not Path(value).exists():
            return value
    return ""


def write(out: Path, files: Mapping[str, str], *, force: bool) -> list[Path]:
    """Write a submission's files.

    Raises:
        ExportError: One of them exists and differs, and `force` is off. Nothing is written then.
    """
    paths = {out / name: text for name, text in files.items()}
    for path, text in paths.items():
        if path.exists() and not force and path.read_text(encoding="utf-8") != text:
            raise ExportError(f"{path} exists and differs; --force overwrites it")
    for path, text in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(paths)


def dataset_ids(pairs: Sequence[str]) -> dict[str, str]:
    """Hub ids of datasets by benchmark, from texts of the form BENCHMARK=ORGANISATION/NAME.

    Raises:
        ExportError: A text has another form.
    """
    out = {}
    for pair in pairs:
        benchmark, _, value = pair.partition("=")
        if benchmark not in benchmarks() or not _ID.fullmatch(value):
            raise ExportError(
                f"--dataset-id {pair!r} is not of the form BENCHMARK=ORGANISATION/NAME with "
                f"{' or '.join(benchmarks())}"
            )
        out[benchmark] = value
    return out
