"""CLASH's rates with intervals over pictures, and paired differences of two sets of answers.

Definitions are those of `postprocess.measure.clash`. A picture may carry several questions, so the
picture is what is resampled; where every picture has one question, Wilson's interval holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from postprocess.measure import clash as clash_metrics
from postprocess.measure import stats
from postprocess.measure.clash import ClashAnswer
from postprocess.measure.pragmatch_estimates import Difference
from postprocess.measure.stats import Estimate
from postprocess.read.matching import JUDGE_LABELS

Held = Callable[[ClashAnswer], "int | None"]
"""Whether something holds for an answer; None where the question does not arise."""

FLAGS: dict[str, Held] = {
    "conflict": lambda a: a.conflict,
    "image": lambda a: a.image,
    "text": lambda a: a.text,
    "none": lambda a: a.none,
    "distractor": lambda a: a.distractor,
    "unusable": lambda a: a.unusable,
    "overlap": lambda a: a.overlap,
    "accuracy": lambda a: a.correct,
    "empty": lambda a: int(a.outcome == "empty"),
    "failed": lambda a: int(a.outcome == "failed"),
    "conflict_relaxed": lambda a: None if a.relaxed is None else int(a.relaxed == "conflict"),
    "letter_prob": lambda a: a.letter_correct,
}
"""The rates of a task, by name."""


def answers_of(records: Iterable[Mapping[str, Any]]) -> list[ClashAnswer]:
    """The answers in records.

    Raises:
        DuplicateSampleError: A document was answered more than once.
    """
    return clash_metrics.answers_of(records)


def rate(answers: Sequence[ClashAnswer], held: Held, *, draws: int = stats.DRAWS) -> Estimate:
    """How often something holds, with an interval over pictures.

    Args:
        answers: Answers of one task.
        held: 1, 0, or None where an answer does not count.
        draws: Resamples, where the bootstrap is needed.
    """
    top: dict[str, int] = defaultdict(int)
    bottom: dict[str, int] = defaultdict(int)
    for answer in answers:
        value = held(answer)
        if value is not None:
            top[answer.image_id] += value
            bottom[answer.image_id] += 1
    ids = sorted(bottom)
    if not ids:
        return stats.EMPTY
    return stats.rate([top[i] for i in ids], [bottom[i] for i in ids], draws=draws)


def table(answers: Sequence[ClashAnswer], *, draws: int = stats.DRAWS) -> dict[str, Estimate]:
    """Every rate of `FLAGS` that arises in these answers."""
    found = {name: rate(answers, held, draws=draws) for name, held in FLAGS.items()}
    return {name: estimate for name, estimate in found.items() if estimate.n}


def by_category(
    answers: Sequence[ClashAnswer],
    flag: str = "conflict",
    *,
    paper_compat: bool = False,
    draws: int = stats.DRAWS,
) -> dict[str, Estimate]:
    """A flag's rate in each category that occurs, and over object and attribute changes.

    Args:
        answers: Answers with change type and categories.
        flag: A name of `FLAGS`.
        paper_compat: Drop samples that are in two categories, as the paper's tables do.
        draws: Resamples, where the bootstrap is needed.
    """
    held = FLAGS[flag]
    out = {}
    for kind in clash_metrics.CATEGORIES:
        out[kind] = rate([a for a in answers if a.change_type == kind], held, draws=draws)
    for name in clash_metrics.CATEGORY_NAMES:
        members = [
            answer
            for answer in answers
            if not (paper_compat and len(answer.categories) > 1)
            and name
            in {clash_metrics.category_name(c, answer.change_type) for c in answer.categories}
        ]
        out[name] = rate(members, held, draws=draws)
    return {name: estimate for name, estimate in out.items() if estimate.n}


def judged(
    answers: Sequence[ClashAnswer], *, draws: int = stats.DRAWS
) -> dict[str, dict[str, Estimate]]:
    """Rates of each judge's labels, and of `at least one` and `both` (all of them).

    Rates are out of the answers that a judge answered; for the last two out of those that all of
    the judges with full cover answered.
    """
    names = sorted({name for answer in answers for name in answer.judges or {}})
    full = full_judges(answers)

    def label(answer: ClashAnswer, judge: str) -> str | None:
        return (answer.judges or {}).get(judge)

    def single(judge: str, wanted: str) -> Held:
        return lambda a: None if label(a, judge) is None else int(label(a, judge) == wanted)

    def together(combine: Callable[[Iterable[bool]], bool], wanted: str) -> Held:
        def held(answer: ClashAnswer) -> int | None:
            labels = [label(answer, judge) for judge in full]
            return None if None in labels else int(combine(one == wanted for one in labels))

        return held

    out = {
        judge: {
            outcome: rate(answers, single(judge, wanted), draws=draws)
            for wanted, outcome in JUDGE_LABELS.items()
        }
        for judge in names
    }
    if len(full) > 1:
        every = "both" if len(full) == 2 else f"all {len(full)}"
        for title, combine in (("at least one", any), (every, all)):
            out[title] = {
                outcome: rate(answers, together(combine, wanted), draws=draws)
                for wanted, outcome in JUDGE_LABELS.items()
            }
    return out


def full_judges(answers: Sequence[ClashAnswer]) -> list[str]:
    """The judges that are put together: those that answered as many as any other did.

    One that stopped early would shrink the common answers to its own.
    """
    counts = {name: one.n for name, one in clash_metrics.judged(answers).items()}
    return [name for name, n in counts.items() if n and n >= max(counts.values())]


def differences(
    a: Sequence[ClashAnswer],
    b: Sequence[ClashAnswer],
    *,
    draws: int = stats.DRAWS,
    seed: int = stats.SEED,
    level: float = stats.LEVEL,
) -> list[Difference]:
    """A less B, rate by rate, over the documents that both answered.

    Args:
        a: Answers of one model.
        b: Answers of the other.
        draws: Resamples of pictures, shared by both.
        seed: Seed of the resamples.
        level: Coverage.
    """
    keyed = [{(x.sample_id, x.caption_kind, x.rotation): x for x in side} for side in (a, b)]
    common = sorted(keyed[0].keys() & keyed[1].keys(), key=str)
    pairs = [(keyed[0][key], keyed[1][key]) for key in common]
    ids = sorted({left.image_id for left, _ in pairs})
    index = {image_id: i for i, image_id in enumerate(ids)}
    out = []
    for name, held in FLAGS.items():
        known = [
            (index[left.image_id], int(x), int(y))
            for left, right in pairs
            if (x := held(left)) is not None and (y := held(right)) is not None
        ]
        if not known:
            continue
        where, x, y = np.array(known).T
        counts = [np.bincount(where, values, len(ids)) for values in (x, y, np.ones(len(x)))]
        sums = stats.resampled_sums(np.column_stack(counts), draws, seed)
        resampled = stats.ratio(sums[:, 0] - sums[:, 1], sums[:, 2])
        pictures = int(np.count_nonzero(counts[2]))
        estimate = stats.bootstrap(float(np.mean(x - y)), resampled, pictures, level)
        test = stats.mcnemar(x, y)
        unit = "caption" if len(x) > pictures else "picture"
        out.append(
            Difference(
                name,
                float(np.mean(x)),
                float(np.mean(y)),
                estimate,
                test.p_value,
                test.only_a,
                test.only_b,
                unit,
            )
        )
    return out
