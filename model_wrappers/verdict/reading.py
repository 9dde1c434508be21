"""What a task wants read from an answer, and at which place of the answer it stands.

Captures of a local model and replies of a server are read by the same rules, which live here. A
verdict must never be looked for where the harness takes text away before it scores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from postprocess.read import verdict as verdicts

REASONING = re.compile(r"<think>.*?</think>", re.DOTALL)
"""What the harness takes out of an answer before it is read (its `--reasoning_tags` default)."""


class ReadingRule(NamedTuple):
    """What a task wants read from an answer: its sets of words, and where they are read."""

    choices: tuple[tuple[str, tuple[str, ...]], ...]
    """Name and words of each answer set."""
    position: str
    """`first` (a direct answer) or `last_stated` (a chain of thought)."""

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> ReadingRule | None:
        """The reading that a request's metadata asks for, or None where it declares no choices.

        Raises:
            ValueError: The choices or the position are not of the form that tasks declare.
        """
        choices = metadata.get("choices")
        if not choices:
            return None
        if not isinstance(choices, Mapping):
            raise ValueError(f"metadata `choices` must map names to words, not {choices!r}")
        position = metadata.get("verdict_position", "first")
        if position not in ("first", "last_stated"):
            raise ValueError(
                f"metadata `verdict_position` is {position!r}: it must be first or last_stated"
            )
        sets = []
        for name, words in choices.items():
            # YAML 1.1 reads a bare Yes or No as a truth value: such sets would score nothing.
            if not all(isinstance(word, str) for word in (name, *words)):
                raise ValueError(f"metadata `choices` holds a value that is no word: {choices!r}")
            sets.append((name, (words,) if isinstance(words, str) else tuple(words)))
        return cls(tuple(sets), position)

    @property
    def sets(self) -> dict[str, tuple[str, ...]]:
        """The answer sets as a mapping."""
        return dict(self.choices)

    @property
    def letters(self) -> frozenset[str]:
        """The option letters; empty where the answers are words."""
        words = frozenset(word for _, words in self.choices for word in words)
        return words if all(len(word) == 1 for word in words) else frozenset()


class SetScore(NamedTuple):
    """Log-probabilities of the answer sets at the verdict position of one answer."""

    choices: dict[str, float]
    """Natural log of the probability summed over each set."""
    step: int
    """Index of the generated token they were read at."""
    censored: tuple[str, ...] = ()
    """Sets of which no token was seen, so that their value is an upper bound."""


def stated_at(answer: str) -> int | None:
    """Offset in a chain of thought at which its last verdict begins, or None without one.

    What stands in a block of reasoning alone is no verdict: the harness strips it. A verdict by
    sentence ("it is not sarcastic") has no token that says Yes or No, so nothing could be scored
    there but noise: it is a verdict, but not a place.
    """
    # Blanked, not cut: offsets stay those of the answer.
    visible = REASONING.sub(lambda block: " " * len(block.group()), answer)
    found = verdicts.find_verdict(visible, "cot")
    return found.start if found.by == "stated" and found.word else None
