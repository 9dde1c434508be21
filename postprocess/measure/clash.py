"""The figures of CLASH, computed from records and from nothing else.

Every figure is a function of a set of answers: their order, and how they were spread over
processes, must change nothing, so whatever spans several documents is grouped by sample id. Rates
are proportions (0 to 1) over all documents given, failed requests included; None stands where
there is nothing to count, never 0 or 0.5.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from postprocess.measure.groups import DuplicateSampleError, MixedDataError
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


class Rate(NamedTuple):
    """How many of how many."""

    held: int
    n: int

    @property
    def value(self) -> float | None:
        """The proportion, 0 to 1; None out of nothing."""
        return self.held / self.n if self.n else None


class Circular(NamedTuple):
    """Samples that were shown in all four rotations."""

    right: int
    """Samples right in every rotation."""
    n: int
    """Samples shown in every rotation."""
    left_out: int
    """Samples of which a rotation is missing."""

    @property
    def value(self) -> float | None:
        """The share of samples right in every rotation, 0 to 1; None without a complete one."""
        return self.right / self.n if self.n else None


class LetterBias(NamedTuple):
    """Which letters a model picks, whatever stands behind them."""

    shares: dict[str, float | None]
    """Share of each letter among the answers with a letter, 0 to 1."""
    distance: float | None
    """Total-variation distance from equal shares: half the summed differences, 0 to 0.75."""
    n: int
    """Answers with a letter."""


class Judged(NamedTuple):
    """What one judge, or several together, made of the answers."""

    rates: dict[str, Rate]
    """By outcome (`image`, `text`, `conflict`, `none`), out of the answers judged."""
    n: int
    """Answers judged, those without a readable label included."""
    unreadable: int
    unjudged: int
    kappa: float | None
    """Cohen's kappa with the matching rule over readable labels; None for several judges."""


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


def flag_rate(answers: Sequence[ClashAnswer], flag: str) -> Rate:
    """How often an official flag holds; answers of a form without that flag do not count."""
    held = [value for answer in answers if (value := getattr(answer, flag)) is not None]
    return Rate(sum(held), len(held))


def outcome_rates(answers: Sequence[ClashAnswer]) -> dict[str, Rate]:
    """The exclusive outcomes, those that never occurred included; their counts add up to n.

    Outcomes of both forms are listed where both forms occur.
    """
    forms = {answer.form for answer in answers}
    names = (
        *matching.OPEN_OUTCOMES * ("open" in forms),
        *matching.CHOICE_OUTCOMES * ("mc" in forms),
    )
    counts = Counter(answer.outcome for answer in answers)
    return {name: Rate(counts[name], len(answers)) for name in dict.fromkeys(names)}


def by_change_type(answers: Sequence[ClashAnswer], flag: str = "conflict") -> dict[str, Rate]:
    """A flag's rate over the samples whose object, or whose attribute, was changed."""
    return {
        kind: flag_rate([a for a in answers if a.change_type == kind], flag) for kind in CATEGORIES
    }


def by_category(
    answers: Sequence[ClashAnswer], flag: str = "conflict", *, paper_compat: bool = False
) -> dict[str, Rate]:
    """A flag's rate in each category, named `animals`, ..., `other_object`, `other_attribute`.

    Args:
        answers: Answers with change type and categories.
        flag: The flag to count.
        paper_compat: Drop samples that are in two categories, as the paper's tables do; else they
            count in both.
    """
    members: dict[str, list[ClashAnswer]] = {name: [] for name in CATEGORY_NAMES}
    for answer in answers:
        if paper_compat and len(answer.categories) > 1:
            continue
        for category in dict.fromkeys(answer.categories):
            name = category_name(category, answer.change_type)
            members.setdefault(name, []).append(answer)
    return {name: flag_rate(group, flag) for name, group in members.items()}


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


def circular(answers: Sequence[ClashAnswer]) -> Circular:
    """Samples right in all four rotations, by sample id (and caption kind), never by position."""
    complete, left_out = _rotation_sets(answers)
    right = sum(all(answer.correct for answer in group) for group in complete)
    return Circular(right, len(complete), left_out)


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


def letter_bias(answers: Sequence[ClashAnswer]) -> LetterBias:
    """Shares of the letters among the letters answered, and their distance from equal shares.

    Where rotations are given only complete sets count: there every role stands behind every letter
    once, so a model that follows the options' content picks the four letters equally often. Without
    rotations the orders are equally likely only on average, and a small distance is chance.
    """
    if any(answer.rotation is not None for answer in answers):
        answers = [answer for group in _rotation_sets(answers)[0] for answer in group]
    counts = Counter(answer.letter for answer in answers if answer.letter)
    n = sum(counts.values())
    if not n:
        return LetterBias(dict.fromkeys(matching.LETTERS), None, 0)
    shares = {letter: counts[letter] / n for letter in matching.LETTERS}
    distance = sum(abs(share - 1 / len(shares)) for share in shares.values()) / 2
    return LetterBias(dict(shares), distance, n)


def letter_prob(answers: Sequence[ClashAnswer]) -> Rate:
    """Answers whose likeliest letter is right, out of those with letter log-probabilities."""
    known = [a.letter_correct for a in answers if a.letter_correct is not None]
    return Rate(sum(known), len(known))


def judged(answers: Sequence[ClashAnswer]) -> dict[str, Judged]:
    """What each judge made of the answers, by the judge's name.

    Rates are out of the answers that the judge answered at all: one without a label is counted as
    unreadable and has no outcome. A row that the judge never answered is unjudged, never `none`.
    """
    names = sorted({name for answer in answers for name in answer.judges or {}})
    out = {}
    for name in names:
        labels = [(answer.judges or {}).get(name) for answer in answers]
        given = [label for label in labels if label is not None]
        rates = {
            outcome: Rate(given.count(label), len(given))
            for label, outcome in matching.JUDGE_LABELS.items()
        }
        pairs = [
            (matching.JUDGE_LABELS[label], _judgeable(answer.outcome))
            for answer, label in zip(answers, labels, strict=True)
            if label in matching.JUDGE_LABELS and answer.outcome != "failed"
        ]
        unreadable = sum(label not in matching.JUDGE_LABELS for label in given)
        unjudged = len(labels) - len(given)
        out[name] = Judged(rates, len(given), unreadable, unjudged, cohen_kappa(pairs))
    return out


def judged_together(
    answers: Sequence[ClashAnswer], judges: Sequence[str] | None = None
) -> tuple[Judged, Judged]:
    """The labels that at least one judge gave, and those that all of them gave.

    Args:
        answers: Answers with labels.
        judges: The judges to combine; all that occur where None.

    Returns:
        Two figures over the answers that every one of the judges answered; the others are unjudged.
    """
    if judges is None:
        judges = sorted({name for answer in answers for name in answer.judges or {}})
    sets = [[(answer.judges or {}).get(name) for name in judges] for answer in answers]
    given = [labels for labels in sets if labels and None not in labels]
    out = []
    for combine in (any, all):
        rates = {
            outcome: Rate(
                sum(combine(label == wanted for label in labels) for labels in given), len(given)
            )
            for wanted, outcome in matching.JUDGE_LABELS.items()
        }
        unreadable = sum(
            combine(x not in matching.JUDGE_LABELS for x in labels) for labels in given
        )
        out.append(Judged(rates, len(given), unreadable, len(sets) - len(given), None))
    return out[0], out[1]


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Agreement of two raters beyond chance, 1 at most; None without items or when chance is 1.

    Source: Cohen, "A coefficient of agreement for nominal scales", 1960.

    >>> cohen_kappa([("a", "a"), ("b", "b"), ("a", "b"), ("b", "b")])
    0.5
    """
    n = len(pairs)
    if not n:
        return None
    one, other = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    agreed, chance = sum(a == b for a, b in pairs), sum(one[name] * other[name] for name in one)
    return (agreed * n - chance) / (n * n - chance) if chance < n * n else None


Metric = Callable[[Sequence[ClashAnswer]], "float | None"]


def _flag(name: str) -> Metric:
    return lambda answers: flag_rate(answers, name).value


def _outcome(name: str) -> Metric:
    return lambda answers: Rate(sum(a.outcome == name for a in answers), len(answers)).value


def _relaxed(name: str) -> Metric:
    def metric(answers: Sequence[ClashAnswer]) -> float | None:
        read = [answer.relaxed for answer in answers if answer.relaxed is not None]
        return Rate(sum(outcome == name for outcome in read), len(read)).value

    return metric


def _change_type(name: str) -> Metric:
    return lambda answers: by_change_type(answers)[name].value


def _category(name: str) -> Metric:
    return lambda answers: by_category(answers)[name].value


def _share(letter: str) -> Metric:
    return lambda answers: letter_bias(answers).shares[letter]


def _any_judge(outcome: str) -> Metric:
    return lambda answers: judged_together(answers)[0].rates[outcome].value


def _kappa(answers: Sequence[ClashAnswer]) -> float | None:
    """Mean kappa of the judges that have one."""
    known = [one.kappa for one in judged(answers).values() if one.kappa is not None]
    return sum(known) / len(known) if known else None


METRICS: dict[str, Metric] = {
    **{name: _flag(name) for name in ("conflict", "image", "text", "none", "distractor")},
    "accuracy": _flag("correct"),
    "unusable_rate": _flag("unusable"),
    "both_rate": _outcome("both"),
    "overlap_rate": _flag("overlap"),
    "empty_rate": _outcome("empty"),
    "failed_rate": _outcome("failed"),
    "conflict_relaxed": _relaxed("conflict"),
    "unusable_relaxed": _relaxed("unusable"),
    "letter_prob_acc": lambda answers: letter_prob(answers).value,
    "n_letter_prob": lambda answers: letter_prob(answers).n,
    "circular_acc": lambda answers: circular(answers).value,
    "n_sets": lambda answers: circular(answers).n,
    "n_sets_left_out": lambda answers: circular(answers).left_out,
    "n_left_out": n_left_out,
    "letter_bias": lambda answers: letter_bias(answers).distance,
    **{f"share_{letter.lower()}": _share(letter) for letter in matching.LETTERS},
    **{f"judge_{outcome}": _any_judge(outcome) for outcome in matching.JUDGE_LABELS.values()},
    "judge_conflict_all": lambda answers: judged_together(answers)[1].rates["conflict"].value,
    "judge_kappa": _kappa,
    "n_judged": lambda answers: judged_together(answers)[0].n,
    "n_unjudged": lambda answers: judged_together(answers)[0].unjudged,
    **{f"conflict_{kind}": _change_type(kind) for kind in CATEGORIES},
    **{f"conflict_{name}": _category(name) for name in CATEGORY_NAMES},
}
"""Every metric of the CLASH tasks; on original captions `conflict` is the rate of false alarms."""

_SHARED = ("empty_rate", "failed_rate", "n_left_out")
_OPEN = ("conflict", "image", "text", "none", "both_rate", "overlap_rate", *_SHARED)
_MC = (
    *("conflict", "image", "text", "distractor", "unusable_rate", *_SHARED),
    *("conflict_relaxed", "unusable_relaxed", "letter_prob_acc", "n_letter_prob"),
)
_LETTERS = ("letter_bias", *(f"share_{letter.lower()}" for letter in matching.LETTERS))
_GROUPS = tuple(f"conflict_{name}" for name in (*CATEGORIES, *CATEGORY_NAMES))
_TRUE_CAPTION = tuple(f"conflict_{kind}" for kind in CATEGORIES)
TASKS = {
    "clash_mc": (*_MC, *_LETTERS, *_GROUPS),
    "clash_open": (*_OPEN, *_GROUPS),
    "clash_mc_original": ("conflict", "accuracy", *_MC[1:], *_LETTERS, *_TRUE_CAPTION),
    "clash_open_original": ("conflict", "accuracy", *_OPEN[1:], *_TRUE_CAPTION),
    "clash_open_judge": (
        *_OPEN,
        *(f"judge_{outcome}" for outcome in matching.JUDGE_LABELS.values()),
        *("judge_conflict_all", "judge_kappa", "n_judged", "n_unjudged"),
        *_GROUPS,
    ),
    "clash_mc_circular": (
        *("conflict", "circular_acc", "n_sets", "n_sets_left_out"),
        *(*_MC[1:], *_LETTERS),
    ),
}
"""Metrics by task."""


def metrics_for(task: str) -> tuple[str, ...]:
    """The metrics of a task, in the order of its table; the first, `conflict`, carries the record.

    Raises:
        KeyError: The task is none of CLASH.

    >>> metrics_for("clash_open")[:4]
    ('conflict', 'image', 'text', 'none')
    """
    return TASKS[task]


def _judgeable(outcome: str) -> str:
    """The matching rule's outcome in a judge's terms; `both` has no counterpart and stays."""
    return "none" if outcome in ("empty", "unusable", "distractor") else outcome


def _rotation_sets(answers: Sequence[ClashAnswer]) -> tuple[list[list[ClashAnswer]], int]:
    """Complete sets of rotations, and how many are incomplete."""
    groups: dict[tuple[str, str], list[ClashAnswer]] = defaultdict(list)
    for answer in answers:
        if answer.rotation is not None:
            groups[answer.sample_id, answer.caption_kind].append(answer)
    wanted = set(range(ROTATIONS))
    complete = [g for g in groups.values() if {answer.rotation for answer in g} >= wanted]
    return complete, len(groups) - len(complete)
