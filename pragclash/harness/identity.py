"""Every record says which run made it, with which settings, prompt and picture.

Mends, in lmms-eval 0.7.3: a record is tied to its results by a second and a folder only, and what
`--gen_kwargs`, `--system_instruction` or a chat template changed stands, if anywhere, in the
results file alone. The place is `get_task_dict` of `lmms_eval.evaluator`, which is asked for the
tasks' own settings before the command line changes them.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from postprocess.pictures import checked
from pragclash.harness.answers import record_of
from pragclash.harness.tasks import leaves

_OWN = "pragclash_own_generation"
"""Attribute of a task that keeps its own `generation_kwargs`."""

_FLAGS = ("system_instruction", "apply_chat_template", "fewshot_as_multiturn")
"""Arguments of the harness's `evaluate` that change what is asked; none is set by itself."""

DEFAULT_TAGS = '[["<think>", "</think>"], ["<analysis>", "</analysis>"]]'
"""The harness's `--reasoning_tags` where none are given."""


class Asked(NamedTuple):
    """How the documents of a task are asked."""

    task: Any
    settings: str
    """As canonical JSON, only what is set."""
    own: bool
    """Whether that is what the task's YAML says."""


def new_run_id() -> str:
    """A name that no other launch has."""
    return secrets.token_hex(8)


def remembering_own(get_task_dict: Callable[..., Any]) -> Callable[..., Any]:
    """Keep each task's own generation settings where the harness will overwrite them."""

    @functools.wraps(get_task_dict)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found = get_task_dict(*args, **kwargs)
        for task in leaves(found):
            setattr(task, _OWN, copy.deepcopy(getattr(task.config, "generation_kwargs", None)))
        return found

    return wrapper


def settings_of(
    generation: object, own_generation: object, arguments: Mapping[str, Any]
) -> tuple[str, bool]:
    """How a task is asked, as canonical JSON, and whether that is the task's own way.

    Args:
        generation: The generation settings that hold.
        own_generation: Those of the task's YAML.
        arguments: What the harness's `evaluate` was called with.

    >>> settings_of({"temperature": 0}, {"temperature": 0}, {"verbosity": "DEBUG"})
    ('{"generation": {"temperature": 0}}', True)
    >>> settings_of({"temperature": 0}, {"temperature": 0}, {"system_instruction": "Be brief"})[1]
    False
    """
    settings: dict[str, Any] = {"generation": _plain(generation)}
    settings |= {name: arguments[name] for name in _FLAGS if arguments.get(name)}
    tags = getattr(arguments.get("cli_args"), "reasoning_tags", DEFAULT_TAGS)
    if tags != DEFAULT_TAGS:
        settings["reasoning_tags"] = tags
    own = len(settings) == 1 and settings["generation"] == _plain(own_generation)
    return json.dumps(settings, sort_keys=True, ensure_ascii=False, default=str), own


def _plain(value: Any) -> Any:
    """A setting as it is compared: 0.0 from a command line is the 0 of a YAML file."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def asked_of(task_dict: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Asked]:
    """How each task will be asked, by its name; looked at before a model can change it."""
    found = {}
    for task in leaves(task_dict):
        generation = getattr(task.config, "generation_kwargs", None)
        own = getattr(task, _OWN, generation)
        found[task.config.task] = Asked(task, *settings_of(generation, own, arguments))
    return found


def tie(
    samples: Mapping[str, Any], asked: Mapping[str, Asked], run_id: str, model: str, simple: bool
) -> None:
    """Write into every record of ours what made it.

    Args:
        samples: The rows of the sample log, by task.
        asked: From `asked_of`.
        run_id: This launch's.
        model: The harness's id of the model.
        simple: Whether the model takes the harness's rendered prompt (else the document's own).
    """
    for name, rows in samples.items():
        for row in rows:
            record = record_of(row)
            if isinstance(record, dict) and name in asked:
                record.update(_made(row, record, asked[name], run_id, model, simple))


def _made(
    row: Mapping[str, Any],
    record: Mapping[str, Any],
    asked: Asked,
    run_id: str,
    model: str,
    simple: bool,
) -> dict[str, Any]:
    doc = asked.task.eval_docs[row["doc_id"]]
    own_prompt = asked.task.doc_to_text(doc)
    sent = next(iter(row.get("arguments") or ()), own_prompt) if simple else own_prompt
    picture = None
    if record.get("modality") != "text_only" and isinstance(doc.get("image"), Mapping):
        picture = checked(Path(doc["image"]["path"])).sha256
    return {
        "run_id": run_id,
        "model": model,
        "settings": asked.settings,
        "settings_sha": _sha(asked.settings),
        "settings_own": int(asked.own and sent == own_prompt),
        "prompt_sha": _sha(str(sent)),
        "picture_sha": picture,
    }


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
