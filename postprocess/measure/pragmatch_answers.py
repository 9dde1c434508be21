"""PragMatch's answers, laid out by picture; what is counted, never how it is shown.

Which caption belongs to which picture is asked of `postprocess.measure.groups` only. An answer
without a verdict is wrong; one that was never cast is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from postprocess.measure.groups import Answer, Slots, complete, group_by_picture
from postprocess.measure.metric import Frame
from postprocess.measure.stats import Floats, Ints

PM: Slots = ("P", "M")
PML: Slots = ("P", "M", "L")
P_P_MINUS: Slots = ("P", "P-")
M_M_PLUS: Slots = ("M", "M+")
P_MINUS_M_PLUS: Slots = ("P-", "M+")

_POSITIVE, _NEGATIVE = ("P", "P-"), ("M", "M+")
_CLEAN_OF = {"P-": "P", "M+": "M"}
_UNREAD = ("unusable", "empty", "truncated", "refused")


def frame(answers: Iterable[Answer], slots: Slots) -> Frame:
    """Lay answers out by picture; pictures with none of the slots are no part of it.

    Columns: `whole`, 1 where the picture has every slot; for each slot `here.SLOT`, `right.SLOT`
    and `among.SLOT`, where its accuracy counts (the clean twin of an edit is judged on the same
    pictures as the edit); `right` and `items`, over the slots that accuracy counts (L stands
    outside the balanced set); `asked`, `yes`, `unread` and `failed`, over all answers. Where the
    slots hold both classes also `positive` and `negative`, 1 where that side is right, `scored`, 1
    where the picture is whole and both sides carry s, and the two scores. Where they hold an edit
    and its clean twin `flip`, right edited less right clean.

    Raises:
        ValueError: See `postprocess.measure.groups.complete`.
    """
    answers = list(answers)
    left_out = complete(answers, slots).left_out
    pictures = {
        image_id: found
        for image_id, found in group_by_picture(answers).items()
        if any(slot in found for slot in slots)
    }

    def column(slot: str, told: Callable[[Answer], float], empty: float = 0.0) -> Floats:
        found = [told(own[slot]) if slot in own else empty for own in pictures.values()]
        return np.array(found, dtype=np.float64)

    def over_slots(told: Callable[[Answer], float]) -> Floats:
        summed: Floats = np.sum([column(slot, told) for slot in slots], axis=0)
        return summed

    here = {slot: column(slot, lambda answer: 1.0) for slot in slots}
    right = {slot: column(slot, lambda answer: answer.correct) for slot in slots}
    whole: Floats = np.prod(list(here.values()), axis=0)
    edits = [slot for slot in slots if _CLEAN_OF.get(slot) in slots]
    counted = slots if len(slots) == 1 else tuple(slot for slot in slots if slot != "L")
    columns: dict[str, Floats] = {"whole": whole, "scored": np.zeros(len(pictures))}
    for slot in slots:
        columns |= {f"here.{slot}": here[slot], f"right.{slot}": right[slot]}
        columns[f"among.{slot}"] = whole if edits else here[slot]
    columns["right"] = whole * np.sum([right[slot] for slot in counted], axis=0)
    columns["items"] = whole * len(counted)
    columns["asked"] = over_slots(lambda answer: 1.0)
    columns["yes"] = over_slots(lambda answer: answer.verdict == 1)
    columns["unread"] = over_slots(lambda answer: answer.status in _UNREAD)
    columns["failed"] = over_slots(lambda answer: answer.status == "failed")
    if edits:
        columns["flip"] = whole * (right[edits[0]] - right[_CLEAN_OF[edits[0]]])
    sides = [next((x for x in slots if x in side), None) for side in (_POSITIVE, _NEGATIVE)]
    if sides[0] and sides[1]:
        for name, side in zip(("positive", "negative"), map(str, sides), strict=True):
            columns[name] = right[side]
            columns[f"s.{name}"] = column(
                side, lambda answer: np.nan if answer.s is None else answer.s, np.nan
            )
        known = np.isfinite(columns["s.positive"]) & np.isfinite(columns["s.negative"])
        columns["scored"] = whole * known
    return Frame(tuple(pictures), columns, left_out)


def scored_items(laid: Frame) -> tuple[Floats, Floats, Ints]:
    """Scores, labels and picture indices of the pictures whose two sides both carry s."""
    keep = laid["scored"] > 0
    n = int(keep.sum())
    if not n:
        return np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)
    s = np.concatenate([laid["s.positive"][keep], laid["s.negative"][keep]])
    return s, np.repeat([1.0, 0.0], n), np.tile(np.arange(n), 2)


def without_unreadable(answers: Iterable[Answer]) -> list[Answer]:
    """The second view, `exclude`: answers with a verdict only, failed requests gone too.

    Never the default. Pictures that lose an answer become incomplete, and are counted as such.
    """
    return [answer for answer in answers if answer.verdict is not None]


def answers_of(items: Iterable[object]) -> list[Answer]:
    """Answers from records, from the lists of `Answer.to_list`, or from answers already."""
    return [
        item
        if isinstance(item, Answer)
        else Answer.of(item)
        if isinstance(item, dict)
        else Answer.from_list(_listed(item))
        for item in items
    ]


def _listed(item: object) -> Sequence[object]:
    if not isinstance(item, Sequence):
        raise TypeError(f"{item!r:.80} is no answer")
    return item
