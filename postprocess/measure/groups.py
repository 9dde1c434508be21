"""The one grouping of answers that pairs, groups, intervals and left-out counts all share.

Answers are grouped by the picture's id, never by their position: order, `--limit` and the number
of processes must change nothing. It must never choose between two answers for one place: whoever
scores a run twice over must hear of it, with the ids.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from postprocess.response.line import LEFT_OUT, STATUSES

SLOTS = ("P", "M", "L", "P-", "M+")
"""The places of one picture: its three captions, its masked P and its injected M."""

Slots: TypeAlias = tuple[str, ...]

_SLOT_OF = {
    ("P", None): "P",
    ("M", None): "M",
    ("L", None): "L",
    ("P", "mask"): "P-",
    ("M", "inject"): "M+",
}


class AnswerError(ValueError):
    """A record or list that is no answer: which sample, which field, what stands there."""


class DuplicateSampleError(ValueError):
    """One sample was answered more than once, as in shards merged twice."""


class SlotConflictError(ValueError):
    """Two different samples claim one slot of one picture, as in two cues scored as one task."""


class MixedDataError(ValueError):
    """Answers disagree about how many pictures were omitted: they come from different data."""


class Answer(NamedTuple):
    """One (picture, caption) and what the model made of it: all that a metric reads.

    Build it with `of` or `from_list`, which check every field.
    """

    image_id: str
    sample_id: str
    condition: str
    """`P` sarcastic, `M` mismatched or `L` literal."""
    cue: str | None
    """`lexical`, `style`, `ocr` or None."""
    edit: str | None
    """`mask` (of P), `inject` (into M) or None."""
    label: int
    """1 for P, masked or not; else 0."""
    verdict: int | None
    """1 for Yes, 0 for No, None where none could be read."""
    correct: int
    """1 where the verdict is the label; an unreadable answer is wrong."""
    s: float | None
    """The score log P(Yes) - log P(No), in nats, where a wrapper measured it."""
    status: str
    """One of `postprocess.response.line.STATUSES`."""
    n_omitted: int
    """Pictures that loading the data left out; the same for all answers of a task."""

    @property
    def slot(self) -> str:
        """The place of this answer in its picture: `P`, `M`, `L`, `P-` or `M+`.

        Raises:
            AnswerError: The condition does not take that edit.
        """
        slot = _SLOT_OF.get((self.condition, self.edit))
        if slot is None:
            raise AnswerError(
                f"sample {self.sample_id!r}: condition {self.condition!r} with edit {self.edit!r} "
                "is none of P, M, L, masked P and injected M"
            )
        return slot

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Answer:
        """The answer in a record (see design.md; other keys are ignored).

        Raises:
            AnswerError: A field is missing, of the wrong type, or contradicts another.

        >>> record = dict(image_id="7", sample_id="7-P", condition="P", cue=None, edit=None,
        ...     label=1, verdict=1, correct=1, s=0.5, status="ok", n_omitted=0, response="Yes")
        >>> Answer.of(record).slot
        'P'
        """
        missing = [name for name in cls._fields if name not in record]
        if missing:
            raise AnswerError(
                f"sample {record.get('sample_id')!r}: the record lacks {', '.join(missing)}"
            )
        return _checked(cls(*(record[name] for name in cls._fields)))

    def to_list(self) -> list[Any]:
        """The fields in order, as JSON values: what a metric hands over to the harness."""
        return list(self)

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Answer:
        """The answer that `to_list` wrote, also after a way through JSON.

        Raises:
            AnswerError: The list is of another length, or a field is wrong.

        >>> a = Answer("7", "7-M", "M", None, None, 0, None, 0, None, "empty", 0)
        >>> Answer.from_list(a.to_list()) == a
        True
        """
        if isinstance(values, str) or len(values) != len(cls._fields):
            sample = values[1] if len(values) > 1 and not isinstance(values, str) else values
            raise AnswerError(
                f"sample {sample!r}: an answer is a list of {len(cls._fields)} values "
                f"({', '.join(cls._fields)}), not of {len(values)}"
            )
        return _checked(cls(*values))


class Complete(NamedTuple):
    """The pictures that have an answer in every slot asked for, and the count of the others."""

    groups: dict[str, dict[str, Answer]]
    """By image id, sorted; within a picture by slot, in the order asked for."""
    left_out: int
    """Pictures with some but not all of the slots, plus those that loading omitted."""


def group_by_picture(answers: Iterable[Answer]) -> dict[str, dict[str, Answer]]:
    """Answers by image id and slot, both sorted, whatever order they came in.

    Votes that were never cast (status `left_out`) are in no group. A sample answered twice is
    refused even where both answers agree: its picture would be right either way, but every count
    of answers would be wrong, and such input is a merging mistake.

    Raises:
        DuplicateSampleError: One sample id stands twice.
        SlotConflictError: Two samples claim one slot of one picture.
        AnswerError: An answer has no slot.
    """
    groups = {
        image_id: {slot: answer for slot, answer in found.items() if answer.status != LEFT_OUT}
        for image_id, found in _by_picture(answers).items()
    }
    return {image_id: found for image_id, found in groups.items() if found}


def complete(answers: Iterable[Answer], slots: Slots) -> Complete:
    """The pictures that have every slot of `slots`, and how many were left out.

    A vote that was never cast (status `left_out`) leaves its picture out. Answers in other slots
    are ignored; a picture with none of the slots is no part of the question
    and is not counted. Pictures that loading omitted (`n_omitted`) count as left out once.

    Raises:
        ValueError: `slots` is empty, repeats or names an unknown slot.
        DuplicateSampleError, SlotConflictError, MixedDataError, AnswerError: see their classes.

    >>> p = Answer("7", "7-P", "P", None, None, 1, 1, 1, None, "ok", 2)
    >>> m = Answer("7", "7-M", "M", None, None, 0, 1, 0, None, "ok", 2)
    >>> half = Answer("8", "8-P", "P", None, None, 1, 0, 0, None, "ok", 2)
    >>> found = complete([half, m, p], ("P", "M"))
    >>> list(found.groups), found.left_out
    (['7'], 3)
    """
    if not slots or len(set(slots)) != len(slots) or not set(slots) <= set(SLOTS):
        raise ValueError(f"slots {slots!r}: give one or more of {', '.join(SLOTS)}, each once")
    answers = list(answers)
    omitted: dict[int, str] = {}
    for answer in answers:
        omitted.setdefault(answer.n_omitted, answer.sample_id)
    if len(omitted) > 1:
        told = ", ".join(f"{n} by sample {sample!r}" for n, sample in sorted(omitted.items()))
        raise MixedDataError(
            f"the number of pictures omitted at load is told differently ({told}): these answers "
            "come from different data"
        )
    groups: dict[str, dict[str, Answer]] = {}
    left_out = next(iter(omitted), 0)
    for image_id, found in _by_picture(answers).items():
        if all(slot in found and found[slot].status != LEFT_OUT for slot in slots):
            groups[image_id] = {slot: found[slot] for slot in slots}
        elif any(slot in found for slot in slots):
            left_out += 1
    return Complete(groups, left_out)


def _by_picture(answers: Iterable[Answer]) -> dict[str, dict[str, Answer]]:
    """As `group_by_picture`, with the votes that were never cast."""
    pictures: dict[str, dict[str, Answer]] = {}
    seen: set[str] = set()
    for answer in answers:
        if answer.sample_id in seen:
            raise DuplicateSampleError(
                f"sample {answer.sample_id!r} of picture {answer.image_id!r} was answered more "
                "than once: score each run or shard once"
            )
        seen.add(answer.sample_id)
        slots = pictures.setdefault(answer.image_id, {})
        other = slots.setdefault(answer.slot, answer)
        if other is not answer:
            raise SlotConflictError(
                f"picture {answer.image_id!r} has two captions for {answer.slot}: samples "
                f"{other.sample_id!r} and {answer.sample_id!r}; score one task and cue at a time"
            )
    return {
        image_id: {slot: pictures[image_id][slot] for slot in SLOTS if slot in pictures[image_id]}
        for image_id in sorted(pictures)
    }


def _checked(answer: Answer) -> Answer:
    """The answer, with `s` as a float, or an error that names the sample and the field."""

    def refuse(field: str, wanted: str) -> AnswerError:
        return AnswerError(
            f"sample {answer.sample_id!r}: {field} is {getattr(answer, field)!r}, not {wanted}"
        )

    for field in ("sample_id", "image_id"):
        if not isinstance(getattr(answer, field), str) or not getattr(answer, field):
            raise refuse(field, "a non-empty string")
    for field in ("cue", "edit"):
        if not isinstance(getattr(answer, field), str | None):
            raise refuse(field, "a string or null")
    if not isinstance(answer.condition, str):
        raise refuse("condition", "a string")
    _ = answer.slot
    if not _is_int(answer.label) or answer.label != (answer.condition == "P"):
        raise refuse("label", "1 for P and 0 for M and L")
    if answer.verdict is not None and not (_is_int(answer.verdict) and answer.verdict in (0, 1)):
        raise refuse("verdict", "1, 0 or null")
    if not _is_int(answer.correct) or answer.correct != (answer.verdict == answer.label):
        raise refuse("correct", "1 where the verdict is the label and 0 elsewhere")
    if answer.status not in STATUSES:
        raise refuse("status", f"one of {', '.join(STATUSES)}")
    if (answer.status == "ok") != (answer.verdict is not None):
        raise refuse("status", "ok exactly where there is a verdict")
    if not _is_int(answer.n_omitted) or answer.n_omitted < 0:
        raise refuse("n_omitted", "a count")
    if answer.s is None:
        return answer
    if isinstance(answer.s, bool) or not isinstance(answer.s, int | float):
        raise refuse("s", "a number or null")
    if not math.isfinite(answer.s):
        raise refuse("s", "a finite number")
    return answer._replace(s=float(answer.s))


def _is_int(value: object) -> bool:
    """Whether a value is an integer and no boolean, as JSON tells them apart."""
    return isinstance(value, int) and not isinstance(value, bool)
