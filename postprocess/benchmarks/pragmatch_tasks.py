"""The list of PragMatch tasks, by family and form; YAML files are compared with it in a test."""

from __future__ import annotations

import re
from typing import NamedTuple

CUES = ("lexical", "style", "ocr")

_PLAIN: dict[str, tuple[str, ...]] = {
    "p": ("P",),
    "m": ("M",),
    "l": ("L",),
    "pm": ("P", "M"),
    "pml": ("P", "M", "L"),
}
_CUED: dict[str, tuple[str, ...]] = {
    "p_minus": ("P", "P-"),
    "m_plus": ("M", "M+"),
    "p_minus_m_plus": ("P-", "M+"),
}
_FORMS: dict[str, tuple[str, ...]] = {
    "p": ("", "_cot"),
    "m": ("", "_cot"),
    "l": ("", "_cot"),
    "pm": ("", "_cot", "_text_only", "_text_only_cot", "_prompt_b"),
    "pml": ("", "_cot", "_text_only", "_text_only_cot", "_prompt_b"),
    "p_minus": ("", "_cot"),
    "m_plus": ("", "_cot"),
    "p_minus_m_plus": ("", "_cot", "_text_only", "_text_only_cot"),
}
_NAME = re.compile(
    r"pragmatch_(?P<family>p_minus_m_plus|p_minus|m_plus|pml|pm|p|m|l)"
    r"(?:_(?P<cue>lexical|style|ocr))?"
    r"(?P<form>(?:_text_only)?(?:_cot|_prompt_b)?)"
)


class TaskSpec(NamedTuple):
    """What a task's name says."""

    name: str
    family: str
    cue: str | None
    modality: str
    """`image_text`, or `text_only`: the same captions without the picture."""
    prompt: str
    """`zero_shot`, `zero_shot_b` (the paraphrase) or `cot`."""
    slots: tuple[tuple[str, str | None, str | None], ...]
    """(condition, cue, edit) of the captions asked about one picture, in their order."""
    needed: tuple[tuple[str, str | None, str | None], ...]
    """Those without which a picture is not in the task: the edited captions of cue tasks."""


def spec_of(name: str) -> TaskSpec:
    """Read a task's name.

    Raises:
        ValueError: The name is not in the list of tasks.

    >>> spec_of("pragmatch_pm_text_only_cot").modality
    'text_only'
    >>> spec_of("pragmatch_m_plus_ocr").slots
    (('M', None, None), ('M', 'ocr', 'inject'))
    """
    match = _NAME.fullmatch(name)
    if not match:
        raise ValueError(f"{name!r} is no PragMatch task")
    family, cue, form = match["family"], match["cue"], match["form"]
    labels = _CUED.get(family) if cue else _PLAIN.get(family)
    if labels is None or form not in _FORMS[family]:
        raise ValueError(f"{name!r} is no PragMatch task")
    places = {
        "P": ("P", None, None),
        "M": ("M", None, None),
        "L": ("L", None, None),
        "P-": ("P", cue, "mask"),
        "M+": ("M", cue, "inject"),
    }
    slots = tuple(places[label] for label in labels)
    prompt = "cot" if form.endswith("_cot") else "zero_shot"
    return TaskSpec(
        name=name,
        family=family,
        cue=cue,
        modality="text_only" if "_text_only" in form else "image_text",
        prompt="zero_shot_b" if form == "_prompt_b" else prompt,
        slots=slots,
        needed=tuple(slot for slot in slots if slot[2] is not None),
    )


def task_names() -> list[str]:
    """Every PragMatch task, plain families first."""
    names = [f"pragmatch_{family}{form}" for family in _PLAIN for form in _FORMS[family]]
    names += [
        f"pragmatch_{family}_{cue}{form}"
        for family in _CUED
        for cue in CUES
        for form in _FORMS[family]
    ]
    return names


def tags_of(name: str) -> list[str]:
    """The bundles a task belongs to.

    `pragmatch` holds everything without a chain of thought or a paraphrase; the table bundles hold
    what that table of the paper needs, in both prompts.
    """
    spec = spec_of(name)
    if spec.prompt == "zero_shot_b":
        return []
    tags = ["pragmatch_cot" if spec.prompt == "cot" else "pragmatch"]
    if spec.prompt == "zero_shot":
        if spec.family in ("p_minus", "m_plus"):
            tags.append(f"pragmatch_{spec.family}")
        if spec.modality == "text_only":
            tags.append("pragmatch_text_only")
    if spec.family == "pml" and spec.modality == "image_text":
        tags.append("pragmatch_table1")
    if spec.cue and spec.modality == "image_text":
        tags.append("pragmatch_table3")
    if spec.family in ("pml", "p_minus_m_plus"):
        tags.append("pragmatch_table4")
    return tags
