"""Reads one prediction, whoever wrote it, into a row that can be scored anew.

Nothing in a row is trusted: what cannot be read becomes a named fault with the row's number. It
must never raise because of what a file holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from postprocess.measure.clash import ROTATIONS, UNREADABLE
from postprocess.read import matching
from postprocess.record.clash import CAPTION_KINDS, FLAGS, FORMS, sample_id_of
from postprocess.response.line import RECORD_VERSION, attach_response, is_failed

_RELEASE_ROLES = {
    "image_only": "image",
    "text_only": "text",
    "irrelevant_but_plausible": "distractor",
    "contradiction": "conflict",
}
_RELEASE_FLAGS = {
    "matches_contradiction": "conflict",
    "matches_image_only": "image",
    "matches_text_only": "text",
    "matches_irrelevant": "distractor",
    "matches_irrelevant_but_plausible": "distractor",
    "matches_none": "none",
    "matches_unusable": "unusable",
}
_FORM_FLAGS = {
    "open": ("conflict", "image", "text", "none"),
    "mc": ("conflict", "image", "text", "distractor"),
}
_COLUMNS = (
    *("task", "prompt", "prompt_hash", "option_order", "rotation", "change_type", "categories"),
    *("caption", "question", "distractor", "conflict_option", "dataset_kind"),
    *("dataset_fingerprint", "n_omitted", "modality"),
)
_CLASH_TASK = re.compile(r"clash_[a-z0-9_]{1,60}\Z")
_PRAGMATCH_TASK = re.compile(r"pragmatch_[a-z0-9_]{1,60}\Z")


class Fault(NamedTuple):
    """A row that cannot be scored."""

    row: int
    reason: str


class Judgement(NamedTuple):
    """What one judge left in a row."""

    label: str | None
    """The label recomputed from the judge's words; `UNREADABLE`, or None where unjudged."""
    stored: dict[str, bool]
    """The judge's stored flags, by outcome."""
    checkable: bool
    """Whether the judge's words are there, so that the flags can be recomputed."""


class Row(NamedTuple):
    """One prediction, with what is needed to score it and what the file says of it."""

    row: int
    """Line of a JSONL file or position in a list, from 1."""
    kind: str
    shown: dict[str, Any]
    """The columns of a CLASH or PragMatch document."""
    answer: Any
    stored: dict[str, Any]
    """What the file stores of the scoring, by the field of the record."""
    expected: tuple[str, ...]
    """Fields that such a row may store; one that it lacks is not stored, which is no difference."""
    judges: dict[str, Judgement]
    unknown_flags: tuple[str, ...]
    """Names of stored flags that nobody knows; they are not compared."""


def parse_row(value: Any, number: int, captions: str = "conflicting") -> Row | Fault:
    """One JSON value as a row to score, or what is wrong with it."""
    if not isinstance(value, dict):
        return Fault(number, f"is a {_type(value)}, not an object")
    record = next(
        (
            value[key]
            for key in ("conflict", "accuracy")
            if isinstance(value.get(key), dict) and "record" in value[key]
        ),
        None,
    )
    if record is not None:
        return _harness_row(value, record, number)
    if "doc_id" in value and "prediction" not in value:
        return Fault(number, "a sample log without a record of this suite")
    answer = value["prediction"] if "prediction" in value else value.get("response", _MISSING)
    if answer is _MISSING:
        return Fault(number, "has no prediction")
    if not _is_text(answer):
        return Fault(number, f"its prediction is a {_type(answer)}")
    shown = _release_shown(value) if "modality_answers" in value else _plain_shown(value)
    if isinstance(shown, str):
        return Fault(number, shown)
    shown = {**{name: value[name] for name in _COLUMNS if name in value}, **shown}
    fault = _complete(shown, value, number, captions)
    if fault:
        return Fault(number, fault)
    stored = _flags(value.get("evaluation", value.get("flags")), shown["form"])
    judges = _judgements(value)
    faulty = [name for name, one in judges.items() if isinstance(one, str)]
    if isinstance(stored, str):
        return Fault(number, stored)
    if faulty:
        return Fault(number, f"judge {faulty[0][:60]!r}: {judges[faulty[0]]}")
    return Row(
        number,
        "release" if "modality_answers" in value else "plain",
        shown,
        answer,
        {f"flag_{name}": held for name, held in stored[0].items()},
        tuple(f"flag_{name}" for name in _FORM_FLAGS[shown["form"]]),
        {name: one for name, one in judges.items() if isinstance(one, Judgement)},
        stored[1],
    )


_MISSING = object()


def _harness_row(value: dict[str, Any], record: dict[str, Any], number: int) -> Row | Fault:
    version, task = record["record"], record.get("task")
    if version != RECORD_VERSION or isinstance(version, bool):
        return Fault(number, f"its record has version {version!r:.20}, not {RECORD_VERSION}")
    if not isinstance(task, str) or not isinstance(record.get("sample_id"), str):
        return Fault(number, "its record names no task or no sample")
    answer = value.get("filtered_resps", value.get("resps", _MISSING))
    if answer is _MISSING:
        answer = record.get("response")
        if isinstance(answer, str) and isinstance(record.get("letter_logps"), dict):
            answer = attach_response(answer, record["letter_logps"])
    if not _is_text(answer):
        return Fault(number, f"its answer is a {_type(answer)}")
    if _CLASH_TASK.match(task):
        fault = _record_fault(record) or _column_fault(record)
        if fault:
            return Fault(number, fault)
        computed = ["outcome", "overlap", "correct", *(f"flag_{name}" for name in FLAGS)]
        if record["form"] == "mc":
            computed += ["letter", "relaxed_letter", "relaxed_outcome"]
            computed += ["letter_logprob_choice", "letter_correct"]
    elif _PRAGMATCH_TASK.match(task):
        computed = ["verdict", "correct"]
        if "filtered_resps" in value or "resps" in value:
            computed.append("s")
    else:
        return Fault(number, f"task {task[:60]!r} is none of this suite")
    computed.insert(0, "status")
    judges: dict[str, Judgement] = {}
    if isinstance(record.get("judges"), dict):
        for name, label in record["judges"].items():
            if label is not None and label not in (*matching.JUDGE_LABELS, UNREADABLE):
                return Fault(number, f"judge {name[:60]!r} has the label {label!r:.40}")
            judges[name] = Judgement(label, {}, False)
    stored = {name: record[name] for name in computed if name in record}
    return Row(number, "harness", dict(record), answer, stored, tuple(computed), judges, ())


def _record_fault(record: Mapping[str, Any]) -> str | None:
    if record.get("form") not in FORMS or record.get("caption_kind") not in CAPTION_KINDS:
        return "its record has an unknown form or caption kind"
    if record["form"] == "mc" and not isinstance(record.get("letters"), dict):
        try:
            matching.letters_of(record.get("option_order") or "")
        except ValueError as error:
            return str(error)
    for name in ("image_answer", "text_answer"):
        if not isinstance(record.get(name), str):
            return f"its record has no {name}"
    return None


def _release_shown(value: Mapping[str, Any]) -> dict[str, Any] | str:
    answers = value["modality_answers"]
    if not isinstance(answers, dict):
        return f"its modality_answers are a {_type(answers)}"
    shown: dict[str, Any] = {"prompt": value.get("prompt", "official")}
    if any(isinstance(one, dict) and "choice" in one for one in answers.values()):
        shown["form"] = "mc"
        letters, texts = {}, {}
        for name, role in _RELEASE_ROLES.items():
            one = answers.get(name)
            if not isinstance(one, dict) or not isinstance(one.get("choice"), str):
                return f"its modality_answers have no choice for {name}"
            letters[role], texts[role] = one["choice"].strip().strip("()"), one.get("answer")
        shown["letters"] = letters
        shown["conflict_option"] = texts["conflict"]
    else:
        shown["form"] = "open"
        texts = {
            role: one.get("answer") if isinstance(one := answers.get(name), dict) else one
            for name, role in _RELEASE_ROLES.items()
        }
    shown["image_answer"], shown["text_answer"] = texts["image"], texts["text"]
    shown["distractor"] = texts["distractor"]
    return shown


def _plain_shown(value: Mapping[str, Any]) -> dict[str, Any] | str:
    shown = {name: value.get(name) for name in ("image_answer", "text_answer")}
    letters = value.get("letters")
    order = value.get("option_order")
    default = "mc" if letters is not None or order is not None else "open"
    shown["form"] = value.get("form", default)
    if shown["form"] == "mc":
        if letters is not None:
            if not isinstance(letters, dict):
                return f"its letters are a {_type(letters)}"
            shown["letters"] = letters
        else:
            try:
                shown["letters"] = matching.letters_of(order or "")
            except ValueError as error:
                return str(error)
    return shown


def _complete(
    shown: dict[str, Any], value: Mapping[str, Any], number: int, captions: str
) -> str | None:
    """Fill in what every row needs; returns what is wrong."""
    if shown["form"] not in FORMS:
        return f"its form is {shown['form']!r:.40}"
    if shown["form"] == "mc":
        letters = shown["letters"]
        if not all(isinstance(letter, str) for letter in letters.values()):
            return "its letters are no text"
        try:
            shown["option_order"] = matching.order_of(letters)
        except (ValueError, KeyError) as error:
            return str(error)
        if set(letters) != set(matching.ROLES):
            return f"its letters name only {', '.join(sorted(letters))}"
    for name in ("image_answer", "text_answer"):
        answer = shown[name]
        if isinstance(answer, bool) or not isinstance(answer, str | int | float):
            return f"has no {name}"
        shown[name] = matching.prediction_text(answer)
    kind = value.get("caption_kind", captions)
    if kind not in CAPTION_KINDS:
        return f"its caption_kind is {kind!r:.40}"
    shown["caption_kind"] = kind
    name = "original_caption" if kind == "original" else "conflicting_caption"
    shown.setdefault("caption", value.get(name))
    shown.setdefault("question", value.get("question"))
    shown.setdefault("task", f"clash_{shown['form']}" + "_original" * (kind == "original"))
    shown["image_id"] = str(value.get("image_id", value.get("sample_id", f"row-{number}")))[:200]
    shown["sample_id"] = str(value.get("sample_id", _sample_id(shown["image_id"], value)))[:200]
    if not isinstance(shown["task"], str) or not _CLASH_TASK.match(shown["task"]):
        return f"task {shown['task']!r:.60} is none of CLASH"
    return _column_fault(shown)


def _column_fault(shown: Mapping[str, Any]) -> str | None:
    """What is wrong with the columns that figures are grouped by."""
    rotation, categories = shown.get("rotation"), shown.get("categories")
    if rotation is not None and (isinstance(rotation, bool) or rotation not in range(ROTATIONS)):
        return f"its rotation is {rotation!r:.40}"
    if not isinstance(shown.get("change_type"), str | None):
        return f"its change_type is a {_type(shown['change_type'])}"
    if categories is None:
        return None
    if not isinstance(categories, list) or not all(isinstance(x, str) for x in categories):
        return "its categories are no list of names"
    return None


def _sample_id(image_id: str, value: Mapping[str, Any]) -> str:
    """The id of a sample of this content, as in a dataset folder; the picture's id without it."""
    names = ("original_caption", "conflicting_caption", "question")
    if not all(isinstance(value.get(name), str) for name in names):
        return image_id
    return sample_id_of(image_id, *(value[name] for name in names))


def _flags(stored: Any, form: str) -> tuple[dict[str, bool], tuple[str, ...]] | str:
    """Stored flags by the record's names, and the names that are unknown."""
    if stored is None:
        return {}, ()
    if not isinstance(stored, dict):
        return f"its evaluation is a {_type(stored)}"
    flags, unknown = {}, []
    for name, held in stored.items():
        known = _RELEASE_FLAGS.get(name, name if name in FLAGS else None)
        if form == "mc" and known == "none":
            known = "unusable"
        if known is None:
            unknown.append(str(name)[:60])
        elif not isinstance(held, bool) and held not in (0, 1):
            return f"its flag {name} is {json.dumps(held)[:40]}"
        else:
            flags[known] = bool(held)
    return flags, tuple(unknown)


def _judgements(value: Mapping[str, Any]) -> dict[str, Judgement | str]:
    """By judge; a text is a fault."""
    prefix, suffix = "evaluation_", "_prediction"
    names = {key[len(prefix) :].removesuffix(suffix) for key in value if key.startswith(prefix)}
    out: dict[str, Judgement | str] = {}
    for name in sorted(names):
        words = value.get(f"{prefix}{name}{suffix}")
        stored = value.get(f"{prefix}{name}")
        flags: dict[str, bool] = {}
        if isinstance(stored, dict) and "error" not in stored:
            read = _flags(stored, "open")
            if isinstance(read, str):
                out[name] = read
                continue
            flags = read[0]
        elif stored is not None and not isinstance(stored, dict):
            out[name] = f"its flags are a {_type(stored)}"
            continue
        if isinstance(words, str) and not is_failed(words):
            label = matching.judge_label(words) or UNREADABLE
            out[name] = Judgement(label, flags, True)
        elif flags:
            held = [label for label, one in matching.JUDGE_LABELS.items() if flags.get(one)]
            out[name] = Judgement(held[0] if len(held) == 1 else UNREADABLE, flags, False)
        else:
            out[name] = Judgement(None, {}, False)
    return out


def _is_text(answer: Any) -> bool:
    """Whether an answer can be read at all: text, number, null, or a list that begins with one."""
    while isinstance(answer, list):
        if not answer:
            return True
        answer = answer[0]
    return answer is None or (
        isinstance(answer, str | int | float) and not isinstance(answer, bool)
    )


def _type(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")
