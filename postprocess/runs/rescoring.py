"""Recomputes what a file of predictions stores: every flag, the rates, the judges' figures.

A port of a benchmark is worth as much as its agreement with the original, flag by flag: this is
where the agreement is measured. Pure: it reads what was parsed and writes nothing, and must never
count a row that could not be read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from postprocess.measure import clash_counts as clash_metrics
from postprocess.measure import judges as judging
from postprocess.runs import prediction_files
from postprocess.measure.clash import ClashAnswer
from postprocess.measure.clash_counts import Judged, Rate
from postprocess.record.clash import clash_record
from postprocess.read.matching import JUDGE_LABELS, prediction_text
from postprocess.record.pragmatch import pragmatch_record
from postprocess.runs.prediction_files import Fault, Row, Source, UnreadableFile
from postprocess.measure.paper_bootstrap import PaperBootstrap, paper_bootstrap
from postprocess.measure.stats import DRAWS, SEED, Estimate, bootstrap_ratio, wilson

_OPEN_FLAGS = ("conflict", "image", "text", "none")

_MC_FLAGS = ("conflict", "image", "text", "distractor", "unusable")


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


class Figure(NamedTuple):
    """A rate with its own interval (Wilson, or over pictures), and as the paper prints it."""

    rate: Rate
    interval: Estimate
    paper: PaperBootstrap


class TaskScore(NamedTuple):
    """The figures of one task of a file."""

    task: str
    n: int
    figures: dict[str, Figure]
    outcomes: dict[str, Rate]
    overlaps: int
    change_types: dict[str, Rate]
    """Conflict rate by what was changed; empty where the rows do not say."""
    categories: dict[str, Rate]
    relaxed: dict[str, Rate]
    """Outcomes of the relaxed reading, multiple choice only."""
    circular: clash_metrics.Circular | None
    letters: clash_metrics.LetterBias | None
    letter_prob: Rate
    judges: dict[str, Judged]
    together: dict[str, Judged]
    """`at least one` and `all`, of the judges that answered enough rows."""
    combined: tuple[str, ...]
    """Those judges."""


class Scored(NamedTuple):
    """A file, scored."""

    source: Source
    name: str
    records: list[tuple[Row, dict[str, Any]]]
    faults: list[Fault]
    check: Check
    tasks: dict[str, TaskScore]
    unjoined: int
    """Rows that the samples file does not have; 0 without such a file."""


class Sample(NamedTuple):
    """What the release's test file, or a dataset folder, says of a sample."""

    image_id: str
    question: str
    change_type: str
    categories: tuple[str, ...]


def score_source(
    source: Source,
    *,
    samples: Sequence[Sample] = (),
    paper_compat: bool = False,
    judges: Sequence[str] | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Scored:
    """Recompute everything that a file of predictions stores, and its rates.

    Args:
        source: The file as read.
        samples: Change types and categories, joined by picture and question, for rows without.
        paper_compat: Categories as in the paper's tables: samples of two categories dropped, and
            predictions looked up by the picture alone, so that a picture that is asked about twice
            lends its one prediction to both of its samples.
        judges: The judges to combine; those that answered enough rows where None.
        draws: Resamples of the paper's bootstrap.
        seed: Seed of the resamples.
    """
    known = {(sample.image_id, _key(sample.question)): sample for sample in samples}
    records: list[tuple[Row, dict[str, Any]]] = []
    faults = list(source.faults)
    unjoined = 0
    for row in source.rows:
        shown = row.shown
        if samples and not shown.get("categories"):
            found = known.get((str(shown.get("image_id")), _key(shown.get("question"))))
            unjoined += found is None
            if found:
                shown = {**shown, "change_type": found.change_type}
                shown["categories"] = list(found.categories)
        record = _record(row, shown)
        if isinstance(record, Fault):
            faults.append(record)
        else:
            records.append((row, record))
    by_task: dict[str, list[dict[str, Any]]] = {}
    for _, record in records:
        by_task.setdefault(record["task"], []).append(record)
    tasks = {
        task: _score_task(task, group, samples, paper_compat, judges, draws, seed)
        for task, group in sorted(by_task.items())
    }
    return Scored(
        source,
        prediction_files.model_name(source.path),
        records,
        sorted(faults),
        check_source(source.path, records),
        tasks,
        unjoined,
    )


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
            for flag in _OPEN_FLAGS:
                if flag in judgement.stored:
                    pairs.append((f"{flag} of {judge}", judgement.stored[flag], flag == said))
                else:
                    not_stored += 1
        for name, stored, computed in pairs:
            compared += 1
            if not _equal(stored, computed):
                differences.append(
                    Difference(
                        path,
                        row.row,
                        str(record["sample_id"]),
                        name.removeprefix("flag_"),
                        stored,
                        computed,
                        record["response"],
                    )
                )
    return Check(compared, differences, not_stored, unverifiable, dict(sorted(unknown.items())))


def overall(
    conflicting: Sequence[Mapping[str, Any]],
    original: Sequence[Mapping[str, Any]],
    draws: int = DRAWS,
    seed: int = SEED,
) -> Figure:
    """The fine-tuning table's overall rate of a model.

    The conflict flags on conflicting captions and the image flags on original captions, one after
    the other.
    """
    flags = [record["flag_conflict"] for record in conflicting]
    flags += [record["flag_image"] for record in original]
    pictures = [record["image_id"] for record in (*conflicting, *original)]
    return _figures({"overall": flags}, pictures, draws, seed)["overall"]


def overalls(scored: Sequence[Scored], draws: int, seed: int) -> list[tuple[str, Figure]]:
    """Overall rates of the models of which both captions were scored."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in scored:
        for _, record in one.records:
            groups.setdefault((one.name, record["task"]), []).append(record)
    return [
        (f"{name} {task}", overall(group, groups[name, f"{task}_original"], draws, seed))
        for (name, task), group in groups.items()
        if (name, f"{task}_original") in groups
    ]


def read_samples(path: str | Path) -> list[Sample]:
    """Samples of the release's test file, or of a dataset folder's `samples.jsonl`, gzipped or not.

    Raises:
        UnreadableFile: The file is neither.
    """
    path = Path(path)
    try:
        data = prediction_files.unpack(path.read_bytes(), path)
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror or error}") from error
    try:
        whole = json.loads(data)
        rows = whole["samples"] if isinstance(whole, dict) and "samples" in whole else [whole]
    except (ValueError, RecursionError):
        rows = [value for _, value in prediction_files.parse_rows(data, path)]
    out = []
    for number, row in enumerate(rows if isinstance(rows, list) else [], start=1):
        categories = row.get("categories", row.get("category")) if isinstance(row, dict) else None
        categories = [categories] if isinstance(categories, str) else categories
        if not isinstance(categories, list) or not all(isinstance(x, str) for x in categories):
            raise UnreadableFile(f"{path}: row {number} is no CLASH sample with categories")
        out.append(
            Sample(
                str(row.get("image_id")),
                str(row.get("question")),
                str(row.get("change_type")),
                tuple(categories),
            )
        )
    if not out:
        raise UnreadableFile(f"{path}: holds no samples")
    return out


def _record(row: Row, shown: Mapping[str, Any]) -> dict[str, Any] | Fault:
    """The record of a row, recomputed; what a harness's record has beside is kept."""
    kept = dict(row.shown) if row.kind == "harness" else {}
    if str(shown["task"]).startswith("pragmatch_"):
        try:
            return {**kept, **pragmatch_record(shown, prediction_text(row.answer))}
        except (KeyError, TypeError, ValueError) as error:
            return Fault(row.row, f"its record cannot be scored ({str(error)[:80]})")
    record = {**kept, **clash_record(shown, row.answer)}
    if row.judges:
        record["judges"] = {name: one.label for name, one in row.judges.items()}
    if row.kind != "harness":
        record["dataset_kind"] = record["dataset_kind"] or "custom"
        record["n_omitted"] = record["n_omitted"] or 0
    return record


def _score_task(
    task: str,
    records: Sequence[dict[str, Any]],
    samples: Sequence[Sample],
    paper_compat: bool,
    judges: Sequence[str] | None,
    draws: int,
    seed: int,
) -> TaskScore:
    if task.startswith("pragmatch_"):
        return _score_pragmatch(task, records, draws, seed)
    answers = clash_metrics.answers_of(records)
    mc = answers[0].form == "mc"
    flags = [*(_MC_FLAGS if mc else _OPEN_FLAGS)]
    if answers[0].caption_kind == "original":
        flags.append("correct")
    table = {flag: [getattr(answer, flag) or 0 for answer in answers] for flag in flags}
    figures = _figures(table, [answer.image_id for answer in answers], draws, seed)
    relaxed = [answer._replace(outcome=answer.relaxed) for answer in answers if answer.relaxed]
    combined = judging.combined([answer.judges or {} for answer in answers], judges).names
    some, every = clash_metrics.judged_together(answers, combined)
    grouped = _by_sample(answers, samples) if samples and paper_compat else answers
    known = any(answer.change_type for answer in grouped)
    by_category = clash_metrics.by_category(grouped, paper_compat=paper_compat)
    return TaskScore(
        task=task,
        n=len(answers),
        figures=figures,
        outcomes=clash_metrics.outcome_rates(answers),
        overlaps=sum(answer.overlap for answer in answers),
        change_types=clash_metrics.by_change_type(grouped) if known else {},
        categories={name: rate for name, rate in by_category.items() if rate.n},
        relaxed=clash_metrics.outcome_rates(relaxed),
        circular=clash_metrics.circular(answers)
        if any(answer.rotation is not None for answer in answers)
        else None,
        letters=clash_metrics.letter_bias(answers) if mc else None,
        letter_prob=clash_metrics.letter_prob(answers),
        judges=clash_metrics.judged(answers),
        together={"at least one": some, "all": every} if len(combined) > 1 else {},
        combined=tuple(combined),
    )


def _score_pragmatch(
    task: str, records: Sequence[dict[str, Any]], draws: int, seed: int
) -> TaskScore:
    """Item rates only: pairs, groups and their intervals are the tables' work."""
    flags = {
        "correct": [record["correct"] for record in records],
        "yes": [int(record["verdict"] == 1) for record in records],
        "unusable": [int(record["verdict"] is None) for record in records],
    }
    counts = Counter(record["status"] for record in records)
    return TaskScore(
        task=task,
        n=len(records),
        figures=_figures(flags, [record["image_id"] for record in records], draws, seed),
        outcomes={name: Rate(count, len(records)) for name, count in sorted(counts.items())},
        overlaps=0,
        change_types={},
        categories={},
        relaxed={},
        circular=None,
        letters=None,
        letter_prob=Rate(0, 0),
        judges={},
        together={},
        combined=(),
    )


def _by_sample(answers: Sequence[ClashAnswer], samples: Sequence[Sample]) -> list[ClashAnswer]:
    """For each sample the answer of its picture, as the release joins them."""
    by_picture = {answer.image_id: answer for answer in answers}
    return [
        by_picture[sample.image_id]._replace(
            change_type=sample.change_type, categories=sample.categories
        )
        for sample in samples
        if sample.image_id in by_picture
    ]


def _figures(
    flags: Mapping[str, Sequence[int]], pictures: Sequence[str], draws: int, seed: int
) -> dict[str, Figure]:
    """Figures of several flags over the same rows.

    Rows that share a picture are not independent: there the interval is a bootstrap over pictures
    instead of Wilson's.
    """
    # Sorted, so that the order of the rows does not choose the resamples.
    table = sorted(zip(*flags.values(), strict=True))
    papers = paper_bootstrap(table, draws, seed)
    rows = sorted(zip(pictures, *flags.values(), strict=True))
    shared = len(set(pictures)) < len(rows)
    figures = {}
    for place, (name, held) in enumerate(flags.items(), start=1):
        rate = Rate(sum(held), len(held))
        interval = wilson(rate.held, rate.n)
        if shared:
            counts: dict[str, list[int]] = {}
            for row in rows:
                total = counts.setdefault(row[0], [0, 0])
                total[0] += row[place]
                total[1] += 1
            top, bottom = zip(*counts.values(), strict=True)
            interval = bootstrap_ratio(top, bottom, draws=draws, seed=seed)
        figures[name] = Figure(rate, interval, papers[place - 1])
    return figures


def _equal(stored: Any, computed: Any) -> bool:
    """Flags are 1 or 0 here and truth values there; null is neither."""
    if stored is None or computed is None:
        return stored is computed
    return bool(stored == computed)


def _key(question: object) -> str:
    return str(question).strip()


def plain(value: object, limit: int = 120) -> str:
    """A value as ASCII without control characters, cut short."""
    if isinstance(value, str) and len(value) > limit:
        value = value[:limit] + "..."
    return json.dumps(value)
