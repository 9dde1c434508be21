"""How many verdicts were stated, inferred, settled by a person, and left unread.

It counts and words; it never reads an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class ReadBy(NamedTuple):
    """Records by how their verdict came about; failed and left-out requests are in none."""

    stated: int
    inferred: int
    """Without a stated verdict, but with a sentence that decides: a second view only."""
    person: int
    """Settled by a person, also as saying neither."""
    unread: int
    """Neither stated nor inferred nor settled, empty answers among them."""


def read_by(records: Iterable[Mapping[str, Any]]) -> ReadBy:
    """The counts over records of tasks that ask for a verdict; others are passed over.

    >>> read_by([{"verdict": 1, "status": "ok"}, {"verdict": None, "status": "unusable"}])
    ReadBy(stated=1, inferred=0, person=0, unread=1)
    """
    counts = {"stated": 0, "inferred": 0, "person": 0, "unread": 0}
    for record in records:
        if "verdict" not in record or record["status"] in ("failed", "left_out"):
            continue
        if record.get("verdict_by") == "person":
            counts["person"] += 1
        elif record["verdict"] is not None:
            counts["stated"] += 1
        else:
            counts["unread" if record.get("inferred_verdict") is None else "inferred"] += 1
    return ReadBy(**counts)


def note(counts: ReadBy) -> str:
    """The counts in a line for a table's notes.

    >>> note(ReadBy(90, 4, 0, 6))
    '90 verdicts stated, 6 answers unread, 4 more only inferred from a sentence'
    """
    parts = [f"{counts.stated} verdicts stated"]
    if counts.person:
        parts.append(f"{counts.person} read by a person")
    parts.append(f"{counts.unread} answers unread")
    if counts.inferred:
        parts.append(f"{counts.inferred} more only inferred from a sentence")
    return ", ".join(parts)
