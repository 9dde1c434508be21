"""What became of answers that hold none: failed, empty, truncated, refused, or of another form.

For people who must tell a model that will not answer from a server that was down. It counts and
never changes what an answer is read as.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from postprocess.read.refusal import is_refusal

TITLES = {
    "failed": "failed",
    "empty": "empty",
    "truncated": "truncated",
    "refused": "refused",
    "other_form": "other form",
}
"""Title of each fate, by its name."""


def fate(record: Mapping[str, Any]) -> str | None:
    """What became of an answer; None where it says something that the task can read.

    In open questions to CLASH a plain refusal matches nothing and is no unusable answer; it counts
    as refused here too.

    >>> fate({"status": "unusable", "response": "Perhaps."})
    'other_form'
    >>> fate({"status": "ok", "outcome": "none", "response": "I'm sorry, I can't help with that."})
    'refused'
    """
    status = str(record.get("status"))
    if status in ("failed", "empty", "truncated", "refused"):
        return status
    if status == "unusable" or record.get("outcome") == "none":
        if is_refusal(str(record.get("response") or "")):
            return "refused"
        return "other_form" if status == "unusable" else None
    return None


def fates(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many documents met each fate; a document that two tasks ask about counts once."""
    keys = ("sample_id", "form", "caption_kind", "prompt", "modality", "rotation")
    found: dict[tuple[str, ...], str | None] = {}
    for record in records:
        found.setdefault(tuple(str(record.get(key)) for key in keys), fate(record))
    met = list(found.values())
    return {name: met.count(name) for name in TITLES}
