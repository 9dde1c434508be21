"""In which order a multiple-choice question shows its four options.

The order of a sample follows from its id and a seed, so that every run, shard and machine asks the
same question; the release's own shuffle is unseeded. It is stored in every record.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from typing import Any

from postprocess.read.matching import LETTERS

CONFLICT_OPTION = "Conflicting information – cannot answer."
"""The fourth option, word for word as the benchmark defines it."""

CODES = {"i": "image_answer", "t": "text_answer", "d": "distractor", "c": None}
"""What the characters of an option order stand for: a column of the row, or the conflict."""

SEED = 0
ROTATIONS = len(CODES)

_ORDERS = tuple("".join(order) for order in itertools.permutations(CODES))


def option_order(sample_id: str, seed: int = SEED) -> str:
    """What the options A, B, C, D of a sample stand for, each of the 24 orders equally likely.

    Returns:
        Four characters: `i` the picture's answer, `t` the caption's, `d` the distractor, `c` the
        conflict. `tcid` means that A is the caption's answer and B the conflict.

    >>> option_order("449950-03da9b6c") == option_order("449950-03da9b6c")
    True
    """
    digest = hashlib.sha256(f"{seed}:{sample_id}".encode()).digest()
    return _ORDERS[int.from_bytes(digest, "big") % len(_ORDERS)]


def rotate(order: str, rotation: int) -> str:
    """The order moved round by `rotation` places: over all four, each option has each letter once.

    >>> [rotate("tcid", rotation) for rotation in range(4)]
    ['tcid', 'cidt', 'idtc', 'dtci']
    """
    return order[rotation:] + order[:rotation]


def option_lines(row: Mapping[str, Any], order: str) -> list[str]:
    """The options as they are shown, one line each.

    >>> row = {"image_answer": "a kite", "text_answer": "a ball", "distractor": "a drone"}
    >>> option_lines(row, "tcid")[0]
    '(A) a ball'
    """
    lines = []
    for letter, code in zip(LETTERS, order, strict=True):
        column = CODES[code]
        lines.append(f"({letter}) {CONFLICT_OPTION if column is None else row[column]}")
    return lines


def conflict_letter(order: str) -> str:
    """The letter of the right option where the caption conflicts with the picture.

    >>> conflict_letter("tcid")
    'B'
    """
    return LETTERS[order.index("c")]
