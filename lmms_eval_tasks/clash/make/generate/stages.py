"""How a CLASH sample is made: three typed stages, whoever fills them in.

Change one element of a caption; ask about it; write three answers. A generator does the stages;
this module holds what goes in and comes out of each, checks every result by the rules of
`check.rules`, and puts the row together. A stage that fails drops the sample with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from lmms_eval_tasks.clash.data import CHANGE_TYPES, sample_id_of
from lmms_eval_tasks.clash.make.check import rules
from lmms_eval_tasks.clash.make.word_lists.categories import categories_of, own_lists
from lmms_eval_tasks.dataset.checks import check_text

MAX_FIELD_CHARS = 500
"""Longer texts in a reply are no caption, question or answer."""


class Source(NamedTuple):
    """One caption of one picture, with the picture's other captions as witnesses."""

    image_id: str
    image: str
    """File name of the picture."""
    captions: tuple[str, ...]
    place: int
    """Which of the captions is to be changed."""

    @property
    def caption(self) -> str:
        """The caption that is to be changed."""
        return self.captions[self.place]

    @property
    def key(self) -> str:
        """Names the source among all of a job."""
        return f"{self.image_id}#{self.place}"


class Change(NamedTuple):
    """Result of the first stage."""

    conflicting_caption: str
    original_word: str
    conflicting_word: str
    change_type: str


class Question(NamedTuple):
    """Result of the second stage."""

    question: str


class Answers(NamedTuple):
    """Result of the third stage."""

    image_answer: str
    text_answer: str
    distractor: str


STAGES: dict[str, type[Change] | type[Question] | type[Answers]] = {
    "change": Change,
    "question": Question,
    "answers": Answers,
}
"""The stages in their order, with the fields that each one gives: all of them texts."""


class Dropped(ValueError):
    """A sample that cannot be made; stage and reason are counted."""

    def __init__(self, stage: str, reason: str, detail: str = "") -> None:
        """Keep the stage, a reason that can be counted, and what exactly was found."""
        super().__init__(f"{stage}: {reason}{': ' if detail else ''}{detail}")
        self.stage, self.reason, self.detail = stage, reason, detail


class Generator(Protocol):
    """Fills in the stages; raises `Dropped` where it cannot."""

    name: str
    """For the manifest."""

    def change(self, source: Source) -> Change:
        """Change one element of the source's caption."""

    def question(self, source: Source, change: Change) -> Question:
        """Ask about what was changed."""

    def answers(self, source: Source, change: Change, question: Question) -> Answers:
        """Write the picture's answer, the caption's, and a plausible third one."""


def parse_fields(stage: str, data: object) -> dict[str, str]:
    """The fields of a stage out of a JSON value.

    Raises:
        ValueError: Something is missing, is no text, is too long, or is none of the known values.

    >>> parse_fields("question", {"question": " What? "})
    {'question': 'What?'}
    """
    if not isinstance(data, Mapping):
        raise ValueError("is not a JSON object")
    values = {}
    for name in STAGES[stage]._fields:
        value: Any = data.get(name)
        faults = check_text(name, value)
        if faults:
            raise ValueError(faults[0])
        if len(value) > MAX_FIELD_CHARS:
            raise ValueError(f"{name} has {len(value)} characters; at most {MAX_FIELD_CHARS}")
        values[name] = " ".join(value.split())
    if "change_type" in values and values["change_type"] not in CHANGE_TYPES:
        raise ValueError(f"change_type must be one of {', '.join(CHANGE_TYPES)}")
    return values


def make_row(source: Source, generator: Generator) -> dict[str, Any]:
    """A row of `samples.jsonl` without `image`, sound by all rules.

    Raises:
        Dropped: A stage gave nothing, or what it gave fails a rule.
    """
    row: dict[str, Any] = {"original_caption": source.caption.strip()}
    change = generator.change(source)
    row |= change._asdict()
    _hold(row, "change")
    question = generator.question(source, change)
    row |= question._asdict()
    _hold(row, "question")
    row |= generator.answers(source, change, question)._asdict()
    _hold(row, "answers")
    row["categories"] = categories_of(
        row["original_word"], row["conflicting_word"], row["change_type"], own_lists()
    )
    sample_id = sample_id_of(source.image_id, row)
    return {"sample_id": sample_id, "image_id": source.image_id, **row}


def _hold(row: Mapping[str, Any], stage: str) -> None:
    last = rules.apply_rules(row, [stage])[-1]
    if not last.passed:
        raise Dropped(stage, last.check, last.reason)
