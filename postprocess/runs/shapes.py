"""Whether what a run's files hold has the shapes that every reader counts on.

Files may come from anywhere. Whatever has another shape (a list where a word belongs, a number too
large for a float, settings that are no object) is named, so that the file or row can be left out
and the others be read. Nothing here changes a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

MAX_WORD_CHARS = 2_000

_TEXTS = ("response", "settings", "instruction", "question", "caption")
"""May be long; any other text is a word."""

_WORDS = (
    *("task", "sample_id", "image_id", "condition", "cue", "edit", "modality", "prompt", "status"),
    *("dataset_kind", "dataset_fingerprint", "form", "caption_kind", "prompt_hash", "change_type"),
    *("outcome", "letter", "relaxed_letter", "relaxed_outcome", "letter_logprob_choice"),
    *("letter_logprob_role", "letter_source", "s_source", "verdict_by", "option_order", "run_id"),
    *("model", "settings_sha", "prompt_sha", "picture_sha"),
)
_NUMBERS = ("s", "mass", "letter_mass")
_COUNTS = ("n_omitted", "prompt_version", "label", "verdict", "forged", "settings_own", "rotation")


def results_fault(results: Mapping[str, Any]) -> str | None:
    """What is wrong with the content of a `*_results.json`, or None.

    >>> results_fault({"config": {"model": "m"}}) is None
    True
    >>> results_fault({"config": ["m"]})
    'config is no object'
    """
    for name in ("config", "configs", "results", "n-samples"):
        if not isinstance(results.get(name, {}), dict):
            return f"{name} is no object"
    config = results.get("config", {})
    for name in ("model", "model_args"):
        if not isinstance(config.get(name), str | dict | None):
            return f"config.{name} is no text"
    if not isinstance(config.get("limit"), int | float | None) or not _finite(config.get("limit")):
        return "config.limit is no number"
    for name in ("configs", "n-samples"):
        for task, held in results.get(name, {}).items():
            if not isinstance(held, dict):
                return f"{name} of {str(task)[:60]} is no object"
    for task, held in results.get("n-samples", {}).items():
        if not _is_number(held.get("effective")):
            return f"n-samples of {str(task)[:60]} is no number"
    return _notes_fault(config.get("pragclash", {}))


def _notes_fault(notes: object) -> str | None:
    if not isinstance(notes, dict):
        return "config.pragclash is no object"
    data = notes.get("data", {})
    if not isinstance(data, dict) or not all(isinstance(held, dict) for held in data.values()):
        return "config.pragclash.data is no object of objects"
    for where, holder in (("", notes), *((f"data.{name}.", held) for name, held in data.items())):
        listed = holder.get("encoders", [])
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            return f"config.pragclash.{where}encoders is no list of names"
    if not isinstance(notes.get("run_id"), str | None):
        return "config.pragclash.run_id is no text"
    return None


def record_fault(record: Mapping[str, Any]) -> str | None:
    """What is wrong with the types of a record, or None; a field that is not there is no fault.

    >>> record_fault({"task": "pragmatch_pm", "s": 0.5, "cue": None}) is None
    True
    >>> record_fault({"s": 10**400})
    's is not a finite number'
    >>> record_fault({"condition": ["P"]})
    'condition is a list, not a word'
    """
    checks: tuple[tuple[tuple[str, ...], Callable[[str, object], str | None]], ...] = (
        (_WORDS, _word_fault),
        (_TEXTS, _text_fault),
        (_NUMBERS, _number_fault),
        (_COUNTS, _count_fault),
    )
    for names, fault_of in checks:
        for name in names:
            value = record.get(name)
            fault = None if value is None else fault_of(name, value)
            if fault is not None:
                return fault
    return _categories_fault(record.get("categories")) or _judges_fault(record.get("judges"))


def _word_fault(name: str, value: object) -> str | None:
    fault = _text_fault(name, value)
    if fault is None and len(str(value)) > MAX_WORD_CHARS:
        return f"{name} has more than {MAX_WORD_CHARS} characters"
    return fault


def _text_fault(name: str, value: object) -> str | None:
    return None if isinstance(value, str) else f"{name} is {_kind(value)}, not a word"


def _number_fault(name: str, value: object) -> str | None:
    if not _is_number(value, null=False):
        return f"{name} is {_kind(value)}, not a finite number"
    return None if _finite(value) else f"{name} is not a finite number"


def _count_fault(name: str, value: object) -> str | None:
    whole = isinstance(value, int) and _finite(value)
    return None if whole else f"{name} is {_kind(value)}, not a whole number"


def _categories_fault(value: object) -> str | None:
    if value is None or (isinstance(value, list) and all(isinstance(x, str) for x in value)):
        return None
    return "categories is no list of words"


def _judges_fault(value: object) -> str | None:
    if value is None or (
        isinstance(value, dict) and all(isinstance(x, str | None) for x in value.values())
    ):
        return None
    return "judges is no object of answers by name"


def _is_number(value: object, null: bool = True) -> bool:
    if value is None:
        return null
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(value: object) -> bool:
    try:
        return value is None or math.isfinite(value)  # type: ignore[arg-type]
    except OverflowError:
        return False


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "text"
    names = {list: "a list", dict: "an object", bool: "true or false"}
    return names.get(type(value), "a number")
