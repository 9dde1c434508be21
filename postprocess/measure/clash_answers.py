"""CLASH's answers, and how they are laid out by picture; what is counted, never how it is shown.

Whatever spans several documents (rotations, judges) is grouped by sample id, never by position.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from postprocess.measure import judges as judging
from postprocess.measure.groups import DuplicateSampleError, MixedDataError
from postprocess.measure.metric import Frame, by_picture
from postprocess.read import matching

ROTATIONS = 4
"""Orders in which `clash_mc_circular` shows each sample."""

CATEGORIES: dict[str, tuple[str, ...]] = {
    "object": ("animals", "transportation", "food", "sports", "household", "other"),
    "attribute": ("colors", "numbers", "materials", "physical", "environmental", "other"),
}
"""Change type to the categories that its samples can have; both types have an `other`."""

UNREADABLE = "UNREADABLE"
"""A judge answered, but with no label; an unjudged row has None instead."""


class ClashAnswer(NamedTuple):
    """What the figures need of a record; as a list of JSON values it passes through the harness."""

    sample_id: str
    image_id: str
    form: str
    caption_kind: str
    rotation: int | None
    change_type: str | None
    categories: tuple[str, ...]
    outcome: str
    conflict: int
    image: int
    text: int
    none: int | None
    distractor: int | None
    unusable: int | None
    overlap: int
    correct: int
    letter: str | None
    relaxed: str | None
    """Outcome of the relaxed reading; None for open answers."""
    letter_correct: int | None
    judges: dict[str, str | None] | None
    """Label by judge; `UNREADABLE` without a label, None where unjudged."""
    n_omitted: int
    """Pictures that loading the data left out; the same for all answers of a task."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> ClashAnswer:
        """The answer that a record of `clash_records.clash_record` describes."""
        judges = record.get("judges")
        return cls(
            sample_id=str(record["sample_id"]),
            image_id=str(record["image_id"]),
            form=record["form"],
            caption_kind=record["caption_kind"],
            rotation=record.get("rotation"),
            change_type=record.get("change_type"),
            categories=tuple(record.get("categories") or ()),
            outcome=record["outcome"],
            conflict=record["flag_conflict"],
            image=record["flag_image"],
            text=record["flag_text"],
            none=record["flag_none"],
            distractor=record["flag_distractor"],
            unusable=record["flag_unusable"],
            overlap=record["overlap"],
            correct=record["correct"],
            letter=record.get("letter"),
            relaxed=record.get("relaxed_outcome"),
            letter_correct=record.get("letter_correct"),
            judges=dict(judges) if judges is not None else None,
            n_omitted=int(record.get("n_omitted") or 0),
        )

    def to_list(self) -> list[Any]:
        """The answer as a list of JSON values, for metrics that do not carry the record."""
        return [list(x) if isinstance(x, tuple) else x for x in self]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> ClashAnswer:
        """The inverse of `to_list`."""
        answer = cls(*values)
        return answer._replace(categories=tuple(answer.categories))


def answers_of(items: Iterable[Any]) -> list[ClashAnswer]:
    """Answers from whatever the harness collected: records, lists, or answers already.

    Raises:
        DuplicateSampleError: A document was answered more than once, as in shards merged twice:
            every count would be wrong.

    >>> answers_of([])
    []
    """
    answers = [
        item
        if isinstance(item, ClashAnswer)
        else ClashAnswer.of(item)
        if isinstance(item, Mapping)
        else ClashAnswer.from_list(item)
        for item in items
    ]
    counts = Counter((a.sample_id, a.form, a.caption_kind, a.rotation) for a in answers)
    for (sample_id, _, _, rotation), count in counts.items():
        if count > 1:
            which = "" if rotation is None else f" in rotation {rotation}"
            raise DuplicateSampleError(
                f"sample {sample_id!r}{which} was answered {count} times: score each run once"
            )
    return answers


def category_name(category: str, change_type: str | None) -> str:
    """The name of a category's figure: itself, but `other` needs its change type.

    >>> category_name("animals", "object"), category_name("other", "attribute")
    ('animals', 'other_attribute')
    """
    return f"{category}_{change_type}" if category == "other" else category


CATEGORY_NAMES = tuple(
    category_name(name, kind) for kind, names in CATEGORIES.items() for name in names
)
"""Categories under the names of their figures."""


FLAGS = ("conflict", "image", "text", "none", "distractor", "unusable", "overlap", "correct")
"""What a record says of an answer, one by one."""


def frame(
    answers: Sequence[ClashAnswer], judges: Sequence[str] | None = None, *, dedouble: bool = False
) -> Frame:
    """Lay answers out by picture; a picture may carry several questions.

    A column is the sum over a picture's documents, and `n.COLUMN` out of how many. Columns: the
    flags, `both`, `empty` and `failed`, `relaxed.OUTCOME`, `letter_prob`; `letter.LETTER` (in
    complete rotations where there are any) and `circular`; `conflict.GROUP` for change types and
    categories; for judges `judge.OUTCOME` and `every.OUTCOME` (at least one, all of those that
    count together), `judged`, and for each judge `by.JUDGE.OUTCOME` and its table against the rule.

    Args:
        answers: Answers of one task.
        judges: The judges that count together; those of `judges.combined` where not given.
        dedouble: Drop samples that are in two categories from the categories, as the paper does.

    Raises:
        MixedDataError: Answers come from different data.
    """
    sets, n_cut = _rotation_sets(answers)
    lettered = [a for own in sets for a in own] if _rotated(answers) else list(answers)
    in_sets = set(map(id, lettered))
    last = {id(own[-1]): int(all(a.correct for a in own)) for own in sets}
    labels = [answer.judges or {} for answer in answers]
    together = judging.combined(labels).names if judges is None else tuple(judges)
    columns: dict[str, list[float | None]] = {
        **{name: [getattr(a, name) for a in answers] for name in FLAGS},
        **{o: [int(a.outcome == o) for a in answers] for o in ("both", "empty", "failed")},
        "letter_prob": [a.letter_correct for a in answers],
        "circular": [last.get(id(a)) for a in answers],
    }
    for name in ("conflict", "unusable"):
        columns[f"relaxed.{name}"] = [
            None if a.relaxed is None else int(a.relaxed == name) for a in answers
        ]
    for letter in matching.LETTERS:
        columns[f"letter.{letter}"] = [
            int(a.letter == letter) if a.letter and id(a) in in_sets else None for a in answers
        ]
    groups = [_groups_of(a, dedouble) for a in answers]
    for group in (*CATEGORIES, *CATEGORY_NAMES):
        columns[f"conflict.{group}"] = [
            a.conflict if group in own else None for a, own in zip(answers, groups, strict=True)
        ]
    columns |= _judge_columns(answers, labels, together)
    ids, sums = by_picture([a.image_id for a in answers], columns)
    sums["sets_cut"] = np.zeros(len(ids))
    if len(ids):
        sums["sets_cut"][0] = n_cut
    return Frame(ids, sums, n_left_out(answers))


def _groups_of(answer: ClashAnswer, dedouble: bool) -> set[str | None]:
    if dedouble and len(answer.categories) > 1:
        return {answer.change_type}
    names = {category_name(c, answer.change_type) for c in answer.categories}
    return {answer.change_type, *names}


def _judge_columns(
    answers: Sequence[ClashAnswer],
    labels: judging.Labels,
    together: Sequence[str],
) -> dict[str, list[float | None]]:
    out: dict[str, list[float | None]] = {}
    sets = [[one.get(name) for name in together] for one in labels]
    given = [bool(own) and None not in own for own in sets]
    out["judged"] = [float(x) for x in given]
    out["unjudged"] = [float(not x) for x in given]
    for label, outcome in matching.JUDGE_LABELS.items():
        for name, combine in (("judge", any), ("every", all)):
            out[f"{name}.{outcome}"] = [
                int(combine(x == label for x in own)) if known else None
                for own, known in zip(sets, given, strict=True)
            ]
        for judge in judging.named(labels):
            out[f"by.{judge}.{outcome}"] = [
                None if one.get(judge) is None else int(one[judge] == label) for one in labels
            ]
    for judge in judging.named(labels):
        for row, col in np.ndindex(len(KINDS), len(KINDS)):
            out[f"table.{judge}.{row}.{col}"] = [
                int(_agreement(a, one.get(judge)) == (KINDS[row], KINDS[col]))
                for a, one in zip(answers, labels, strict=True)
            ]
    return out


KINDS = (*matching.JUDGE_LABELS.values(), "both")
"""Outcomes of a judge or of the rule; `both` has no counterpart among a judge's labels."""


def _agreement(answer: ClashAnswer, label: str | None) -> tuple[str, str] | None:
    """A judge's outcome and the rule's in a judge's terms; None where one of them is missing."""
    if label not in matching.JUDGE_LABELS or answer.outcome == "failed":
        return None
    rule = "none" if answer.outcome in ("empty", "unusable", "distractor") else answer.outcome
    return matching.JUDGE_LABELS[str(label)], rule


def n_left_out(answers: Sequence[ClashAnswer]) -> int:
    """Pictures that loading the data left out, as missing or corrupt, with all their samples.

    A sample of which a rotation is missing is no such picture: see `Circular.left_out`.

    Raises:
        MixedDataError: Answers disagree about the number, so they come from different data.
    """
    told = {answer.n_omitted: answer.sample_id for answer in answers}
    if len(told) > 1:
        by = ", ".join(f"{n} by sample {sample!r}" for n, sample in sorted(told.items()))
        raise MixedDataError(
            f"the number of pictures omitted at load is told differently ({by}): these answers "
            "come from different data"
        )
    return next(iter(told), 0)


def _rotated(answers: Sequence[ClashAnswer]) -> bool:
    return any(answer.rotation is not None for answer in answers)


def _rotation_sets(answers: Sequence[ClashAnswer]) -> tuple[list[list[ClashAnswer]], int]:
    """Complete sets of rotations, and how many are incomplete."""
    groups: dict[tuple[str, str], list[ClashAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.rotation is not None:
            groups[answer.sample_id, answer.caption_kind].append(answer)
    wanted = set(range(ROTATIONS))
    complete = [g for g in groups.values() if {answer.rotation for answer in g} >= wanted]
    return complete, len(groups) - len(complete)
