"""Recomputes what files of predictions store: every flag, the rates, the judges' figures.

A port of a benchmark is worth as much as its agreement with the original, flag by flag: this is
where the agreement is measured. Pure: it reads what was parsed and writes nothing. It must never
count a row that could not be read, nor a document of a model twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from postprocess.measure import clash_counts as clash_metrics
from postprocess.measure import judges as judging
from postprocess.measure.clash import ClashAnswer
from postprocess.measure.clash_counts import Judged, Rate
from postprocess.measure.intervals import ratio
from postprocess.measure.paper_bootstrap import PaperBootstrap, paper_bootstrap
from postprocess.measure.stats import DRAWS, SEED, Estimate, wilson
from postprocess.read.matching import prediction_text
from postprocess.record.clash import clash_record
from postprocess.record.pragmatch import pragmatch_record
from postprocess.runs.checking import FLAGS, Check, check_source, plain
from postprocess.runs.prediction_files import Sample, Source
from postprocess.runs.prediction_rows import Fault, Row

Record = dict[str, Any]


class TwinError(ValueError):
    """Two files hold the same documents of one model with different predictions."""


class Figure(NamedTuple):
    """A rate with its own interval (Wilson, or over pictures), and as the paper prints it."""

    rate: Rate
    interval: Estimate
    paper: PaperBootstrap


class TaskScore(NamedTuple):
    """The figures of one task of a model."""

    task: str
    n: int
    figures: dict[str, Figure]
    outcomes: dict[str, Rate]
    overlaps: int = 0
    change_types: Mapping[str, Rate] = {}
    """Conflict rate by what was changed; empty where the rows do not say."""
    categories: Mapping[str, Rate] = {}
    relaxed: Mapping[str, Rate] = {}
    """Outcomes of the relaxed reading, multiple choice only."""
    circular: clash_metrics.Circular | None = None
    letters: clash_metrics.LetterBias | None = None
    letter_prob: Rate = Rate(0, 0)
    judges: Mapping[str, Judged] = {}
    together: Mapping[str, Judged] = {}
    """`at least one` and `all`, of the judges that are combined."""
    combined: tuple[str, ...] = ()
    """Those judges."""


class FileScore(NamedTuple):
    """A file, each row scored."""

    source: Source
    records: list[tuple[Row, Record]]
    faults: list[Fault]
    check: Check
    unjoined: int
    """Rows that the samples file does not have; 0 without such a file."""


class Scored(NamedTuple):
    """A model, scored: all its files, each document once."""

    name: str
    files: list[FileScore]
    records: list[tuple[Row, Record]]
    tasks: dict[str, TaskScore]
    overall: dict[str, Figure]
    """By task, the conflict flags on conflicting captions and the image flags on original ones,
    one after the other, as the fine-tuning table has it; where both captions were answered."""
    twins: int
    """Rows that several files hold, less one each."""


def score(
    sources: Sequence[Source],
    *,
    samples: Sequence[Sample] = (),
    paper_compat: bool = False,
    judges: Sequence[str] | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[Scored]:
    """Recompute everything that files of predictions store, and the rates of each model.

    Args:
        sources: The files as read.
        samples: Change types and categories, joined by picture and question, for rows without.
        paper_compat: Categories as in the paper's tables: samples of two categories dropped, and
            predictions looked up by the picture alone, so that a picture that is asked about twice
            lends its one prediction to both of its samples.
        judges: The judges to combine; where None the paper's two, or else those that answered
            enough rows.
        draws: Resamples of the paper's bootstrap.
        seed: Seed of the resamples.

    Raises:
        TwinError: Files that the user named hold a document twice with different predictions. In
            files that were found in a folder, such models are told apart by their folders.
    """
    known = {(sample.image_id, _key(sample.question)): sample for sample in samples}
    out = []
    for name, files in _by_model([_score_file(source, known) for source in sources]).items():
        records, twins = _united(files)
        by_task: dict[str, list[Record]] = {}
        for _, record in records:
            by_task.setdefault(record["task"], []).append(record)
        tasks = {
            task: _score_task(task, group, samples, paper_compat, judges, draws, seed)
            for task, group in sorted(by_task.items())
        }
        both = {task: group for task, group in by_task.items() if f"{task}_original" in by_task}
        overall = {
            task: _overall(group, by_task[f"{task}_original"], draws, seed)
            for task, group in both.items()
        }
        out.append(Scored(name, files, records, tasks, overall, twins))
    return out


def _by_model(files: Sequence[FileScore]) -> dict[str, list[FileScore]]:
    """Files by model; where found files of one name differ, the name tells their folders."""
    named: dict[str, list[FileScore]] = {}
    for file in files:
        named.setdefault(file.source.name, []).append(file)
    out: dict[str, list[FileScore]] = {}
    for name, group in named.items():
        try:
            _united(group)
        except TwinError:
            if not all(file.source.found for file in group):
                raise
            for file in group:
                folder = Path(file.source.path).parent.name
                out.setdefault(f"{name} ({folder})", []).append(file)
        else:
            out.setdefault(name, []).extend(group)
    return out


def _united(files: Sequence[FileScore]) -> tuple[list[tuple[Row, Record]], int]:
    """Each document of a model once, with all its judges, and how many rows were twins.

    Raises:
        TwinError: A document has two predictions.
    """
    seen: dict[tuple[str, ...], tuple[str, int]] = {}
    records: list[tuple[Row, Record]] = []
    twins = 0
    for file in files:
        for row, record in file.records:
            key = tuple(str(record.get(x)) for x in ("task", "sample_id", "rotation"))
            path, place = seen.setdefault(key, (file.source.path, len(records)))
            if place == len(records):
                records.append((row, record))
                continue
            first, before = records[place]
            if prediction_text(first.answer) != prediction_text(row.answer):
                raise TwinError(
                    f"{path} and {file.source.path} both hold {record['task']} of "
                    f"{file.source.name} with different predictions, first at sample "
                    f"{plain(record['sample_id'])}: score them one by one"
                )
            twins += 1
            if record.get("judges"):
                judges = {**record["judges"], **(before.get("judges") or {})}
                records[place] = (first, {**before, "judges": judges})
    return records, twins


def _score_file(source: Source, known: Mapping[tuple[str, str], Sample]) -> FileScore:
    records: list[tuple[Row, Record]] = []
    faults = list(source.faults)
    unjoined = 0
    for row in source.rows:
        shown = row.shown
        if known and not shown.get("categories"):
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
    check = check_source(source.path, records)
    return FileScore(source, records, sorted(faults), check, unjoined)


def _record(row: Row, shown: Mapping[str, Any]) -> Record | Fault:
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
    records: Sequence[Record],
    samples: Sequence[Sample],
    paper_compat: bool,
    judges: Sequence[str] | None,
    draws: int,
    seed: int,
) -> TaskScore:
    pictures = [record["image_id"] for record in records]
    if task.startswith("pragmatch_"):
        # Item rates only: pairs, groups and their intervals are the tables' work.
        flags = {
            "correct": [record["correct"] for record in records],
            "yes": [int(record["verdict"] == 1) for record in records],
            "unusable": [int(record["verdict"] is None) for record in records],
        }
        counts = Counter(record["status"] for record in records)
        outcomes = {name: Rate(count, len(records)) for name, count in sorted(counts.items())}
        return TaskScore(task, len(records), _figures(flags, pictures, draws, seed), outcomes)
    answers = clash_metrics.answers_of(records)
    form = answers[0].form
    names = [*FLAGS[form], *["correct"] * (answers[0].caption_kind == "original")]
    flags = {name: [getattr(answer, name) or 0 for answer in answers] for name in names}
    relaxed = [answer._replace(outcome=answer.relaxed) for answer in answers if answer.relaxed]
    combined = judging.combined([answer.judges or {} for answer in answers], judges).names
    some, every = clash_metrics.judged_together(answers, combined)
    grouped = by_sample(answers, samples) if samples and paper_compat else answers
    by_category = clash_metrics.by_category(grouped, paper_compat=paper_compat)
    turned = any(answer.rotation is not None for answer in answers)
    typed = any(answer.change_type for answer in grouped)
    return TaskScore(
        task=task,
        n=len(answers),
        figures=_figures(flags, pictures, draws, seed),
        outcomes=clash_metrics.outcome_rates(answers),
        overlaps=sum(answer.overlap for answer in answers),
        change_types=clash_metrics.by_change_type(grouped) if typed else {},
        categories={name: rate for name, rate in by_category.items() if rate.n},
        relaxed=clash_metrics.outcome_rates(relaxed),
        circular=clash_metrics.circular(answers) if turned else None,
        letters=clash_metrics.letter_bias(answers) if form == "mc" else None,
        letter_prob=clash_metrics.letter_prob(answers),
        judges=clash_metrics.judged(answers),
        together={"at least one": some, "all": every} if len(combined) > 1 else {},
        combined=tuple(combined),
    )


def by_sample(answers: Sequence[ClashAnswer], samples: Sequence[Sample]) -> list[ClashAnswer]:
    """For each sample the answer of its picture, as the release joins them."""
    by_picture = {answer.image_id: answer for answer in answers}
    return [
        by_picture[sample.image_id]._replace(
            change_type=sample.change_type, categories=sample.categories
        )
        for sample in samples
        if sample.image_id in by_picture
    ]


def _overall(
    conflicting: Sequence[Record], original: Sequence[Record], draws: int, seed: int
) -> Figure:
    flags = [record["flag_conflict"] for record in conflicting]
    flags += [record["flag_image"] for record in original]
    pictures = [record["image_id"] for record in (*conflicting, *original)]
    return _figures({"overall": flags}, pictures, draws, seed)["overall"]


def _figures(
    flags: Mapping[str, Sequence[int]], pictures: Sequence[str], draws: int, seed: int
) -> dict[str, Figure]:
    """Figures of several flags over the same rows.

    Rows that share a picture are not independent: there the interval is that of a ratio over
    pictures instead of Wilson's.
    """
    # Sorted, so that the order of the rows does not choose the resamples of the paper's bootstrap.
    papers = paper_bootstrap(sorted(zip(*flags.values(), strict=True)), draws, seed)
    size = Counter(pictures)
    figures = {}
    for (name, held), paper in zip(flags.items(), papers, strict=True):
        rate = Rate(sum(held), len(held))
        interval = wilson(rate.held, rate.n)
        if len(size) < rate.n:
            top = dict.fromkeys(size, 0)
            for picture, value in zip(pictures, held, strict=True):
                top[picture] += value
            interval = ratio(list(top.values()), list(size.values()))
        figures[name] = Figure(rate, interval, paper)
    return figures


def _key(question: object) -> str:
    return str(question).strip()
