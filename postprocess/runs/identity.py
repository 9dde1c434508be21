"""What a record was made of, and which records may stand beside one another.

A figure rests on data, on what the model was shown and asked, and on how it was let answer. Records
mix only where these agree; `why_not_together` says which does not. Records of earlier releases do
not say how they were made: they stay readable, count as made with the task's own settings, and are
marked (`UNKNOWN`). Nothing here reads a file or decides what to do about a difference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

UNKNOWN = "made before run ids"
"""The mark of records that do not say which run made them, nor with which settings."""


class Identity(NamedTuple):
    """What one record rests on; a field is None where the record does not say."""

    benchmark: str
    task: str
    sample: tuple[str, str]
    """Sample id, and rotation where the task asks in several."""
    data: tuple[str, str]
    """Kind and fingerprint of the dataset."""
    form: str
    """Which of the benchmark's prompts: `zero_shot`, `cot`, `mc`, `open`, ..."""
    wording: str
    """That prompt's version or hash."""
    settings: str | None
    """How the answer was made, as canonical JSON: decoding, system instruction, templates."""
    own: bool
    """Whether these settings, and the prompt that was sent, are the task's own."""
    prompt: str | None
    """Hash of the prompt as it was sent."""
    picture: str | None
    """Hash of the pixels that were shown; None too where nothing was."""
    run: str | None
    """Id of the launch that made the record."""


def identity(record: Mapping[str, Any]) -> Identity:
    """What a record rests on.

    >>> made = {"task": "pragmatch_pm", "sample_id": "1-P", "prompt": "cot", "prompt_version": 1}
    >>> identity(made).form, identity(made).run, identity(made).own
    ('cot', None, True)
    """
    task = str(record.get("task"))
    form = record.get("form") or record.get("prompt")
    wording = record.get("prompt_hash") or f"version {record.get('prompt_version')}"
    return Identity(
        task.partition("_")[0],
        task,
        (str(record.get("sample_id")), str(record.get("rotation"))),
        (str(record.get("dataset_kind")), str(record.get("dataset_fingerprint"))),
        str(form),
        f"{record.get('prompt')}, {wording}",
        _text(record.get("settings")),
        own_settings(record),
        _text(record.get("prompt_sha")),
        _text(record.get("picture_sha")),
        _text(record.get("run_id")),
    )


def own_settings(record: Mapping[str, Any]) -> bool:
    """Whether a record was made as its task says; True where it does not tell."""
    return record.get("settings_own") in (1, None)


def why_not_together(a: Identity, b: Identity) -> str | None:
    """Why two records may not stand in one table, or None where they may.

    Two benchmarks have a dataset each, and two prompts of one benchmark have settings each: only
    what belongs to the same is compared. Of one sample, the prompt that was sent and the pixels
    that were shown must be the same as well.
    """
    if a.benchmark != b.benchmark:
        return None
    if a.data != b.data:
        return f"data {_data(a)} and {_data(b)}"
    if a.form != b.form:
        return None
    if a.wording != b.wording:
        return f"prompt {a.form}: {a.wording} and {b.wording}"
    difference = _settings_difference(a, b)
    if difference is not None:
        return difference
    if (a.task, a.sample) != (b.task, b.sample):
        return None
    for what, one, other in (
        ("the prompt that was sent", a.prompt, b.prompt),
        ("the picture that was shown", a.picture, b.picture),
    ):
        if one is not None and other is not None and one != other:
            return f"{what} for sample {a.sample[0]} of {a.task} differs"
    return None


def not_of_run(records: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> str | None:
    """Why records do not belong to the results beside them, naming both; None where they do.

    Files of earlier releases name no run, neither in the records nor in the results.

    Args:
        records: Of one sample file.
        results: What stands in the `*_results.json` of the same stamp; empty where it is lost.
    """
    if not records or not results:
        return None
    config = results.get("config") or {}
    run_id = (config.get("pragclash") or {}).get("run_id")
    made = sorted({(str(r.get("run_id")), str(r.get("model"))) for r in records})
    if {run for run, _ in made} == {str(run_id)}:
        return None
    found = ", ".join(f"run {run} of model {model}" for run, model in made[:3])
    return (
        f"its records are of {found}, the results beside it of run {run_id} of model "
        f"{config.get('model')}: left out; run them again into folders of their own"
    )


def described(settings: str | None) -> str:
    """Settings in words.

    >>> described('{"generation": {"max_new_tokens": 16, "temperature": 0}}')
    'max_new_tokens=16, temperature=0'
    >>> described(None)
    'made before run ids'
    """
    if settings is None:
        return UNKNOWN
    return ", ".join(f"{name}={value}" for name, value in _flat(settings).items())


def _settings_difference(a: Identity, b: Identity) -> str | None:
    if a.settings is not None and b.settings is not None:
        if a.settings != b.settings:
            one, other = _flat(a.settings), _flat(b.settings)
            names = [n for n in {**one, **other} if one.get(n) != other.get(n)]
            parts = (f"{n} {one.get(n, 'none')} and {other.get(n, 'none')}" for n in names)
            return f"settings: {'; '.join(parts)}"
        return None if a.own == b.own else "settings: a prompt as the task has it and a changed one"
    for known in (a, b):
        if known.settings is not None and not known.own:
            return f"settings: {described(known.settings)} and records {UNKNOWN}"
    return None


def _flat(settings: str) -> dict[str, str]:
    """Settings by name; what is no JSON object stands under one name."""
    try:
        held = json.loads(settings)
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict):
        return {"settings": settings[:200]}
    inner = held.pop("generation", {})
    named = {**(inner if isinstance(inner, dict) else {"generation": inner}), **held}
    return {name: str(value)[:200] for name, value in sorted(named.items())}


def _data(one: Identity) -> str:
    return f"{one.data[0]} {one.data[1][:12]}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
