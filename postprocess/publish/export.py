"""A run as a submission, for Every Eval Ever and for Hugging Face model pages.

A submission claims to be a benchmark result, so a run that is not one is refused with the reason:
the sample, custom data, a limit, failed requests, a cut run, other settings than the task's own.
Ids are made from content and the run's own date: the same run always gives the same files. Pictures
never leave, captions only when asked.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from postprocess.benchmarks.base import benchmarks, named, owner
from postprocess.publish.every_eval_ever import (
    ExportError,
    Submission,
    aggregate_of,
    samples_of,
)
from postprocess.runs.folder import Run, TaskRun
from postprocess.runs.identity import described, identity

RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
AVAILABILITIES = ("open_weights", "closed_weights", "unknown")
DEPLOYMENTS = ("self_deployed", "externally_managed", "unknown")

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_SAFE = re.compile(r"[^A-Za-z0-9._-]+")


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
    made = {one.settings for one in map(identity, task.records) if not one.own}
    if made:
        words = "; ".join(sorted(map(described, made)))
        out.append(f"settings or prompt are not the task's own ({words})")
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
        aggregate = aggregate_of(run, benchmark, names, submission)
        lines = [
            json.dumps(sample, sort_keys=True)
            for name in names
            for sample in samples_of(run, run.tasks[name], aggregate, submission)
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


def _uuid(text: str) -> str:
    """A UUID of version 4's form made from content, so that it is the same next time."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


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
