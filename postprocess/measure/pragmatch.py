"""PragMatch's metrics: pure functions from answers to one number, or None for "not applicable".

Every function takes answers in any order and the slots a picture must have to be complete
(`slots_for(family)`), and returns a fraction from 0 to 1, a difference, or a count. None of them
may read a position, invent a score where none was measured, or divide by nothing. Two rules hold
throughout: an answer without a verdict is wrong, and ties count half.

Definitions: the PragMatch paper (arXiv 2608.09772), whose names and chance levels are kept.
`pair_ranking`, `flip_difference`, the rates and the counts are ours.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from postprocess.measure.groups import Answer, Slots, complete, group_by_picture

Metric: TypeAlias = Callable[[Sequence[Answer], Slots], float | None]

PM: Slots = ("P", "M")
PML: Slots = ("P", "M", "L")
P_P_MINUS: Slots = ("P", "P-")
M_M_PLUS: Slots = ("M", "M+")
P_MINUS_M_PLUS: Slots = ("P-", "M+")

_POSITIVE = ("P", "P-")
_NEGATIVE = ("M", "M+")
_CLEAN_OF = {"P-": "P", "M+": "M"}
_EDITED_OF = {clean: edited for edited, clean in _CLEAN_OF.items()}


def accuracy(answers: Sequence[Answer], slots: Slots = PM) -> float | None:
    """Share of right answers over the complete pictures.

    With P, M and L the answers to P and M alone count (the paper's balanced set), in pictures that
    have all three. With one slot it is the accuracy of that condition; with an edited slot it is
    the share over both slots. None where no picture is complete.

    >>> p = Answer("7", "7-P", "P", None, None, 1, 1, 1, None, "ok", 0)
    >>> m = Answer("7", "7-M", "M", None, None, 0, 1, 0, None, "ok", 0)
    >>> accuracy([p, m])
    0.5
    """
    groups = complete(answers, slots).groups.values()
    return _mean(group[slot].correct for group in groups for slot in _scored(slots))


def f1(answers: Sequence[Answer], slots: Slots = PM) -> float | None:
    """F1 of the sarcastic class over the complete pairs, 2TP / (2TP + FP + FN).

    An answer without a verdict is wrong here as everywhere: a miss on P, a false alarm on M. So F1
    follows from acc_p and acc_m on the same pairs, and unreadable answers cannot raise it. Without
    a Yes to any P it is 0. None where no pair is complete or the slots hold one class only.
    """
    pairs = _class_pairs(answers, slots)
    if not pairs:
        return None
    hits = sum(positive.correct for positive, _ in pairs)
    misses = len(pairs) - hits
    false_alarms = sum(1 - negative.correct for _, negative in pairs)
    return 2 * hits / (2 * hits + false_alarms + misses)


def auroc(answers: Sequence[Answer], slots: Slots = PM) -> float | None:
    """Probability that a random P scores above a random M; ties count half.

    Over the complete pairs in which both answers carry s: where one of the two lacks it the whole
    pair stands aside, so the classes stay balanced and hold the same pictures. None where no such
    pair is left or the slots hold one class only.
    """
    pairs = _scored_pairs(answers, slots)
    if not pairs:
        return None
    negatives = sorted(s for _, s in pairs)
    # Below and below-or-equal, summed: each win counts two, each tie one. Integers stay exact.
    halves = sum(bisect_left(negatives, s) + bisect_right(negatives, s) for s, _ in pairs)
    return halves / (2 * len(pairs) ** 2)


def pair_ranking(answers: Sequence[Answer], slots: Slots = PM) -> float | None:
    """Share of pictures whose P scores above their own M; ties count half.

    Free of any threshold: it separates a model that cannot tell the two from one that is badly
    calibrated. Over the complete pairs in which both answers carry s; None where there is none.
    """
    pairs = _scored_pairs(answers, slots)
    if not pairs:
        return None
    return sum((p > m) + (p >= m) for p, m in pairs) / (2 * len(pairs))


def acc_p(answers: Sequence[Answer], slots: Slots = PM) -> float | None:
    """Accuracy on P, over all its answers; on complete pairs where its masked twin is asked too.

    The second case makes it the clean accuracy on the same pictures. None without an answer.
    """
    return _condition_accuracy(answers, "P", slots)


def acc_m(answers: Sequence[Answer], slots: Slots = PM) -> float | None:
    """Accuracy on M, over all its answers; on complete pairs where its injected twin is asked too.

    The second case makes it the clean accuracy on the same pictures. None without an answer.
    """
    return _condition_accuracy(answers, "M", slots)


def acc_l(answers: Sequence[Answer], slots: Slots = PML) -> float | None:
    """Accuracy on L, over all its answers. None without an answer."""
    return _condition_accuracy(answers, "L", slots)


def acc_p_minus(answers: Sequence[Answer], slots: Slots = P_P_MINUS) -> float | None:
    """Accuracy on masked P; on complete pairs where the original P is asked too."""
    return _condition_accuracy(answers, "P-", slots)


def acc_m_plus(answers: Sequence[Answer], slots: Slots = M_M_PLUS) -> float | None:
    """Accuracy on injected M; on complete pairs where the original M is asked too."""
    return _condition_accuracy(answers, "M+", slots)


def pair_acc(answers: Sequence[Answer], slots: Slots = PM) -> float | None:
    """Share of complete pictures with both P and M right.

    With P, M and L it is over the pictures that have all three, so that it stands beside
    `group_acc` with the same n. None where no picture is complete or P or M is not asked.
    """
    return _all_right(answers, slots, PM)


def group_acc(answers: Sequence[Answer], slots: Slots = PML) -> float | None:
    """Share of complete pictures with P, M and L all right; None where there is none."""
    return _all_right(answers, slots, PML)


def p_p_minus(answers: Sequence[Answer], slots: Slots = P_P_MINUS) -> float | None:
    """Share of complete pictures whose original and masked P are both judged sarcastic."""
    return _all_right(answers, slots, P_P_MINUS)


def m_m_plus(answers: Sequence[Answer], slots: Slots = M_M_PLUS) -> float | None:
    """Share of complete pictures whose original and injected M are both judged not sarcastic."""
    return _all_right(answers, slots, M_M_PLUS)


def p_minus_m_plus(answers: Sequence[Answer], slots: Slots = P_MINUS_M_PLUS) -> float | None:
    """Share of complete pictures with masked P judged sarcastic and injected M not."""
    return _all_right(answers, slots, P_MINUS_M_PLUS)


def flip_difference(answers: Sequence[Answer], slots: Slots = P_P_MINUS) -> float | None:
    """Accuracy on the edited caption less that on the original, over the same pictures.

    From -1 to 1; below 0 the edit cost accuracy. None where no picture is complete, or the slots
    are not one condition and its edit.
    """
    edited = next((slot for slot in slots if slot in _CLEAN_OF), None)
    if edited is None or _CLEAN_OF[edited] not in slots:
        return None
    groups = list(complete(answers, slots).groups.values())
    return _mean(group[edited].correct - group[_CLEAN_OF[edited]].correct for group in groups)


def yes_rate(answers: Sequence[Answer], slots: Slots | None = None) -> float | None:
    """Share of answers read as Yes, of all answers in the slots (all slots if None).

    Answers without a verdict stay in the denominator: the rates of Yes, of No, of unusable and of
    failed answers add up to one. None without an answer.
    """
    return _mean(int(answer.verdict == 1) for answer in _items(answers, slots))


def unusable_rate(answers: Sequence[Answer], slots: Slots | None = None) -> float | None:
    """Share of answers that came back and hold no verdict: unusable, empty or truncated."""
    unread = ("unusable", "empty", "truncated", "refused")
    return _mean(int(answer.status in unread) for answer in _items(answers, slots))


def failed_rate(answers: Sequence[Answer], slots: Slots | None = None) -> float | None:
    """Share of requests that failed, so that no answer came back."""
    return _mean(int(answer.status == "failed") for answer in _items(answers, slots))


def n_pairs(answers: Sequence[Answer], slots: Slots = PM) -> int:
    """Number of complete pictures: pairs, or groups where three slots are asked."""
    return len(complete(answers, slots).groups)


def n_left_out(answers: Sequence[Answer], slots: Slots = PM) -> int:
    """Number of pictures left out: incomplete ones, and those that loading omitted."""
    return complete(answers, slots).left_out


def n_scored(answers: Sequence[Answer], slots: Slots = PM) -> int:
    """Number of complete pairs with a score on both sides: what AUROC and pair_ranking rest on.

    A chain of thought without a verdict has no score, so this can be far below `n_pairs`.
    """
    return len(_scored_pairs(answers, slots))


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "f1": f1,
    "auroc": auroc,
    "acc_p": acc_p,
    "acc_m": acc_m,
    "acc_l": acc_l,
    "acc_p_minus": acc_p_minus,
    "acc_m_plus": acc_m_plus,
    "pair_acc": pair_acc,
    "group_acc": group_acc,
    "pair_ranking": pair_ranking,
    "p_p_minus": p_p_minus,
    "m_m_plus": m_m_plus,
    "p_minus_m_plus": p_minus_m_plus,
    "flip_difference": flip_difference,
    "yes_rate": yes_rate,
    "unusable_rate": unusable_rate,
    "failed_rate": failed_rate,
    "n_scored": n_scored,
    "n_pairs": n_pairs,
    "n_left_out": n_left_out,
}
"""Every metric by its name; call as `METRICS[name](answers, slots_for(family))`."""

CHANCE: dict[str, float] = {
    "accuracy": 0.5,
    "auroc": 0.5,
    "acc_p": 0.5,
    "acc_m": 0.5,
    "acc_l": 0.5,
    "acc_p_minus": 0.5,
    "acc_m_plus": 0.5,
    "pair_acc": 0.25,
    "group_acc": 0.125,
    "pair_ranking": 0.5,
    "p_p_minus": 0.25,
    "m_m_plus": 0.25,
    "p_minus_m_plus": 0.25,
}
"""What a fair coin for each caption reaches; metrics without such a level are not here."""

_SLOTS: dict[str, Slots] = {
    "p": ("P",),
    "m": ("M",),
    "l": ("L",),
    "pm": PM,
    "pml": PML,
    "p_minus": P_P_MINUS,
    "m_plus": M_M_PLUS,
    "p_minus_m_plus": P_MINUS_M_PLUS,
}

_RATES = ("yes_rate", "unusable_rate", "failed_rate")
_COUNTS = ("n_pairs", "n_left_out")
_RANKED = ("f1", "auroc", "pair_ranking", "n_scored")

_METRICS: dict[str, tuple[str, ...]] = {
    "p": ("acc_p", *_RATES, "n_left_out"),
    "m": ("acc_m", *_RATES, "n_left_out"),
    "l": ("acc_l", *_RATES, "n_left_out"),
    "pm": (*_RANKED, "acc_p", "acc_m", "pair_acc", *_RATES, *_COUNTS),
    "pml": (*_RANKED, "acc_p", "acc_m", "acc_l", "pair_acc", "group_acc", *_RATES, *_COUNTS),
    "p_minus": ("acc_p", "acc_p_minus", "flip_difference", "p_p_minus", *_RATES, *_COUNTS),
    "m_plus": ("acc_m", "acc_m_plus", "flip_difference", "m_m_plus", *_RATES, *_COUNTS),
    "p_minus_m_plus": (
        *_RANKED,
        "acc_p_minus",
        "acc_m_plus",
        "p_minus_m_plus",
        *_RATES,
        *_COUNTS,
    ),
}

FAMILIES = tuple(_SLOTS)
"""The task families: a task is `pragmatch_{family}` with its forms and cues."""


def slots_for(family: str) -> Slots:
    """The slots that a picture of this task family must have to be complete.

    Raises:
        ValueError: No such family.

    >>> slots_for("pml")
    ('P', 'M', 'L')
    """
    return _SLOTS[_known(family)]


def metrics_for(family: str) -> tuple[str, ...]:
    """The metrics of this task family, `accuracy` first.

    Raises:
        ValueError: No such family.

    >>> metrics_for("l")
    ('accuracy', 'acc_l', 'yes_rate', 'unusable_rate', 'failed_rate', 'n_left_out')
    """
    return ("accuracy", *_METRICS[_known(family)])


def chance(family: str) -> float:
    """What a fair coin for each caption reaches in getting a whole picture right.

    Raises:
        ValueError: No such family.

    >>> chance("p"), chance("pm"), chance("pml")
    (0.5, 0.25, 0.125)
    """
    return 0.5 ** len(slots_for(family))


def independence(acc_p: float | None, acc_m: float | None) -> float | None:
    """The pair accuracy of a model whose rights on P and M have nothing to do with each other.

    It stands beside `pair_acc`: a model that always says No has 0 here too, and so is not "below
    chance". None where an accuracy is.

    >>> independence(0.5, 0.9)
    0.45
    """
    return None if acc_p is None or acc_m is None else acc_p * acc_m


def without_unreadable(answers: Iterable[Answer]) -> list[Answer]:
    """The second view, `exclude`: answers with a verdict only, failed requests gone too.

    Never the default. Pictures that lose an answer become incomplete, and are counted as such.
    """
    return [answer for answer in answers if answer.verdict is not None]


def _known(family: str) -> str:
    """The family, or an error that lists the known ones."""
    if family not in _SLOTS:
        raise ValueError(f"task family {family!r}: know {', '.join(FAMILIES)}")
    return family


def _scored(slots: Slots) -> Slots:
    """The slots whose answers count in accuracy: L stands outside the balanced set."""
    return slots if len(slots) == 1 else tuple(slot for slot in slots if slot != "L")


def _items(answers: Sequence[Answer], slots: Slots | None) -> list[Answer]:
    """All answers in the slots, by picture; the grouping refuses doubles here as well."""
    return [
        answer
        for group in group_by_picture(answers).values()
        for slot, answer in group.items()
        if slots is None or slot in slots
    ]


def _class_pairs(answers: Sequence[Answer], slots: Slots) -> list[tuple[Answer, Answer]]:
    """The positive and the negative answer of each complete picture."""
    positive = next((slot for slot in slots if slot in _POSITIVE), None)
    negative = next((slot for slot in slots if slot in _NEGATIVE), None)
    if positive is None or negative is None:
        return []
    groups = complete(answers, slots).groups.values()
    return [(group[positive], group[negative]) for group in groups]


def _scored_pairs(answers: Sequence[Answer], slots: Slots) -> list[tuple[float, float]]:
    """The scores of the positive and of the negative answer, where both carry one."""
    return [
        (positive.s, negative.s)
        for positive, negative in _class_pairs(answers, slots)
        if positive.s is not None and negative.s is not None
    ]


def _condition_accuracy(answers: Sequence[Answer], slot: str, slots: Slots) -> float | None:
    """Accuracy in one slot; on complete pictures where a caption and its edit are both asked."""
    if slot not in slots:
        return None
    twin = _CLEAN_OF.get(slot) or _EDITED_OF.get(slot)
    if twin in slots:
        return _mean(group[slot].correct for group in complete(answers, slots).groups.values())
    return _mean(answer.correct for answer in _items(answers, (slot,)))


def _all_right(answers: Sequence[Answer], slots: Slots, needed: Slots) -> float | None:
    """Share of complete pictures with every needed slot right; a right answer is its label."""
    if not set(needed) <= set(slots):
        return None
    groups = complete(answers, slots).groups.values()
    return _mean(int(all(group[slot].correct for slot in needed)) for group in groups)


def _mean(values: Iterable[int]) -> float | None:
    """The mean of integers, or None of none: sums of integers do not depend on their order."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else None
