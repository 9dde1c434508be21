"""Compares what a file of predictions stores of its scoring with what the rule says of it.

A flag that a row lacks is not stored, which is no difference; a difference names file, row and
sample, and what it prints of a file is printable whatever the file holds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from postprocess.read.matching import JUDGE_LABELS
from postprocess.runs.prediction_rows import Row

FLAGS = {
    "open": ("conflict", "image", "text", "none"),
    "mc": ("conflict", "image", "text", "distractor", "unusable"),
}
"""The flags of each form."""


class Difference(NamedTuple):
    """A stored value that is not the recomputed one."""

    file: str
    row: int
    sample_id: str
    field: str
    stored: Any
    computed: Any
    prediction: str

    def __str__(self) -> str:
        """One line, printable whatever the file holds."""
        return (
            f"{self.file}: row {self.row} (sample {plain(self.sample_id)}): {self.field} is "
            f"{plain(self.stored)} in the file and {plain(self.computed)} by the rule; the "
            f"prediction is {plain(self.prediction)}"
        )


class Check(NamedTuple):
    """How the stored values of a file compare with the recomputed ones."""

    compared: int
    differences: list[Difference]
    not_stored: int
    """Values that the rows could store and do not: no differences."""
    unverifiable: int
    """Stored judge flags without the judge's words: nothing to recompute them from."""
    unknown: dict[str, int]
    """Stored flags whose names nobody knows, with their counts; they are not compared."""


def check_source(path: str, records: Iterable[tuple[Row, Mapping[str, Any]]]) -> Check:
    """Compare what the rows store with what was recomputed, judges included."""
    compared = not_stored = unverifiable = 0
    differences: list[Difference] = []
    unknown: Counter[str] = Counter()
    for row, record in records:
        unknown.update(row.unknown_flags)
        pairs = []
        for name in dict.fromkeys((*row.expected, *row.stored)):
            if name not in row.stored:
                not_stored += 1
            else:
                pairs.append((name, row.stored[name], record.get(name)))
        for judge, judgement in row.judges.items():
            if not judgement.checkable:
                unverifiable += len(judgement.stored)
                continue
            said = JUDGE_LABELS.get(judgement.label or "")
            for flag in FLAGS["open"]:
                if flag in judgement.stored:
                    pairs.append((f"{flag} of {judge}", judgement.stored[flag], flag == said))
                else:
                    not_stored += 1
        for name, stored, computed in pairs:
            compared += 1
            # Flags are 1 or 0 here and truth values there; null is neither.
            equal = stored is computed if None in (stored, computed) else stored == computed
            if not equal:
                named = name.removeprefix("flag_")
                where = (path, row.row, str(record["sample_id"]), named)
                differences.append(Difference(*where, stored, computed, record["response"]))
    return Check(compared, differences, not_stored, unverifiable, dict(sorted(unknown.items())))


def plain(value: object, limit: int = 120) -> str:
    """A value as ASCII without control characters, cut short."""
    if isinstance(value, str) and len(value) > limit:
        value = value[:limit] + "..."
    return json.dumps(value)
