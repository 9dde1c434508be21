"""What people decided about answers that the reader left, applied to records.

A decision belongs to an answer's words and the prompt that they answer, so it holds wherever that
answer comes again. Only what is open may be decided: answers without a stated verdict, and those
whose verdict points the other way than the score. It must never overrule any other reading, and
where people disagree nothing is decided.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SAYS = {"yes": 1, "no": 0, "neither": None}
"""What a person may say that an answer says, and the verdict that it becomes."""

UNREAD = ("unusable", "truncated", "refused")
"""Statuses of answers that hold words but no verdict."""


class DecisionError(ValueError):
    """A file of decisions that cannot be used."""


class Decision(NamedTuple):
    """What one person read in one answer."""

    key: str
    """The answer and its prompt; see `key_of`."""
    says: str
    """One of `SAYS`."""
    by: str
    """Who decided."""


class Decided(NamedTuple):
    """Records after decisions."""

    records: tuple[dict[str, Any], ...]
    """In the order they came in; those decided say `verdict_by` "person"."""
    n_person: int
    """How many records carry a person's decision."""
    n_open: int
    """How many are still open."""
    n_disputed: int
    """Of these, how many because people read the answer differently."""


def key_of(response: str, prompt: str) -> str:
    """The name of an answer to a prompt.

    >>> key_of("Hm.", "cot") == key_of("Hm.", "zero_shot")
    False
    """
    return hashlib.sha256(json.dumps([prompt, response]).encode()).hexdigest()[:32]


def is_open(record: Mapping[str, Any]) -> bool:
    """Whether a record's answer is one for people: unread, or against its own score."""
    if "verdict" not in record or "prompt" not in record or record.get("verdict_by") == "person":
        return False
    unread = record["verdict"] is None and record["status"] in UNREAD
    return unread or bool(record.get("sign_disagrees"))


def apply(records: Iterable[Mapping[str, Any]], decisions: Sequence[Decision]) -> Decided:
    """The records with what people decided.

    Args:
        records: Records of any task; those without a verdict to settle pass through unchanged.
        decisions: One a person and answer; a person's later one replaces the earlier.
    """
    latest: dict[str, dict[str, str]] = {}
    for decision in decisions:
        latest.setdefault(decision.key, {})[decision.by] = decision.says
    out: list[dict[str, Any]] = []
    person = still_open = disputed = 0
    for record in records:
        if not is_open(record):
            out.append(dict(record))
            continue
        said = set(latest.get(key_of(record["response"], record["prompt"]), {}).values())
        if len(said) == 1:
            person += 1
            out.append(_settled(record, SAYS[said.pop()]))
        else:
            still_open, disputed = still_open + 1, disputed + (len(said) > 1)
            out.append(dict(record))
    return Decided(tuple(out), person, still_open, disputed)


def _settled(record: Mapping[str, Any], verdict: int | None) -> dict[str, Any]:
    s = record.get("s")
    disagrees = None if s is None or verdict is None else (s < 0 if verdict else s > 0)
    unread = "unusable" if record["status"] == "ok" else record["status"]
    return {
        **record,
        "status": unread if verdict is None else "ok",
        "verdict": verdict,
        "verdict_by": "person",
        "correct": int(verdict == record["label"]),
        "sign_disagrees": disagrees,
    }


def read_decisions(path: str | Path) -> list[Decision]:
    """The decisions in a file, one JSON object a line with `key`, `says` and `by`.

    Raises:
        DecisionError: A row is none; the message names file and row.
        OSError: The file cannot be read.
    """
    found = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            decision = Decision(row["key"], row["says"], row["by"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DecisionError(f"{path} row {number}: no decision ({error})") from error
        if not all(isinstance(part, str) for part in decision) or decision.says not in SAYS:
            raise DecisionError(f"{path} row {number}: says must be one of {', '.join(SAYS)}")
        found.append(decision)
    return found
