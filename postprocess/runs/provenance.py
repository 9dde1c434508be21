"""How a run was made: command, versions, settings, prompts, data; for the report and exports.

Only what the run folder holds is said; what it does not hold is said to be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postprocess.publish.report_pairs import captions_from_prompts
from postprocess.runs.folder import Run, TaskRun
from postprocess.tables.build import wording
from postprocess.tables.model import command_for


def provenance(run: Run) -> dict[str, Any]:
    """How a run was made, invocation by invocation."""
    invocations: dict[str, dict[str, Any]] = {}
    for task in run.tasks.values():
        results = task.results
        config = results.get("config") if isinstance(results.get("config"), dict) else {}
        entry = invocations.setdefault(
            f"{task.date}",
            {
                "date": task.date,
                "command": command_line(run, task),
                "facts": _facts(results, config or {}),
                "tasks": [],
            },
        )
        entry["tasks"].append(
            {
                "task": task.task,
                "rows": len(task.records),
                "complete": task.complete,
                "limit": task.limit,
                "data": sorted(
                    {
                        f"{r.get('dataset_kind')} {r.get('dataset_fingerprint')}"
                        for r in task.records
                    }
                ),
                "left_out": max((int(r.get("n_omitted") or 0) for r in task.records), default=0),
                "wording": sorted({wording(r) for r in task.records}),
                "prompt": prompt_form(task)[:4000],
                "generation": {
                    str(k): str(v)
                    for k, v in _mapping(task.config.get("generation_kwargs")).items()
                },
            }
        )
    return {
        "label": run.label,
        "model": run.model,
        "arguments": run.model_args,
        "folder": run.folder,
        "invocations": list(invocations.values()),
    }


_FACTS = (
    ("lmms_eval_version", "lmms-eval says of itself"),
    ("git_hash", "git commit of the working folder"),
    ("transformers_version", "transformers"),
    ("total_evaluation_time_seconds", "seconds in all"),
)
_SETTINGS = ("model_backend", "device", "batch_size", "limit", "offset", "use_cache", "gen_kwargs")


def prompt_form(task: TaskRun) -> str:
    """The wording of a task's requests, with an ellipsis where the sample's own text stands.

    Empty where a single prompt gives nothing to compare with.
    """
    texts = {r["sample_id"]: text for r, text in zip(task.records, task.prompts, strict=True)}
    if len(set(texts.values())) < 2:
        return ""
    sample, own = next(iter(captions_from_prompts(texts).items()))
    return texts[sample].replace(own, "…", 1) if own else ""


def _facts(results: Mapping[str, Any], config: Mapping[str, Any]) -> list[list[str]]:
    out = [[title, str(results[key])] for key, title in _FACTS if results.get(key)]
    out += [
        [key.replace("_", " "), str(config[key])]
        for key in _SETTINGS
        if config.get(key) not in (None, "", [])
    ]
    out += [
        [key.replace("_", " "), str(config[key])]
        for key in ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
        if config.get(key) is not None
    ]
    for source in ("pragclash", "rescored"):
        for holder in (results, config):
            out += _flat(source, holder.get(source))
    if not any("hardware" in name for name, _ in out):
        out.append(["hardware", "not recorded in the run folder"])
    return out


def _flat(name: str, value: object, depth: int = 0) -> list[list[str]]:
    """Nested facts as lines; what is empty is left out."""
    if isinstance(value, dict) and depth < 4:
        return [line for k, v in value.items() for line in _flat(f"{name} {k}", v, depth + 1)]
    return [] if value in (None, "", [], {}) else [[name, str(value)[:500]]]


def command_line(run: Run, task: TaskRun) -> str | None:
    """The command line of the invocation that answered a task; None where it is not recorded."""
    config = _mapping(task.results.get("config"))
    used = _mapping(config.get("resolved_cli_args"))
    tasks = used.get("tasks")
    if not isinstance(tasks, str):
        return None
    return command_for(run, tasks.split(","), used)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
