"""What a table is made of, and how the makers of tables look answers up.

Figures are computed here and nowhere else in the tables: a maker only says which task and metric
belong into which cell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from postprocess.benchmarks.base import owner
from postprocess.measure import stats
from postprocess.measure.estimate import Difference, Sampling, differences, estimates
from postprocess.measure.intervals import too_few
from postprocess.measure.metric import Frame, Metric
from postprocess.measure.significance import Significance, holm
from postprocess.measure.stats import Estimate
from postprocess.read.fates import TITLES, fates
from postprocess.runs.folder import Problem, Run
from postprocess.tables import papers
from postprocess.tables.papers import Reference
from postprocess.tables.setting import Setting

CUES = ("lexical", "style", "ocr")
PROMPTS = {"zero_shot": "", "cot": "_cot", "zero_shot_b": "_prompt_b"}
"""A record's prompt, and what it adds to a task's name."""

PROMPT_TITLES = {"zero_shot": "zero-shot", "cot": "chain of thought", "zero_shot_b": "paraphrase"}
MODALITY_TITLES = {"image_text": "picture + text", "text_only": "text only"}
HUMANS = ("human_votes", "caption_bert", "caption_format")
"""Models of the table `human`: people, and baselines that never see the picture."""

RESCORED = "pragclash_score"
"""The model id of runs that `pragclash score` wrote from files of predictions."""

PROMPTLESS = (*HUMANS, "mismatch_detector")
"""Models that read the document and not the prompt: a chain of thought is not asked of them."""

ALWAYS_NO, CHANCE = "always No", "chance"


class Column(NamedTuple):
    """A column of figures."""

    key: str
    title: str
    unit: str = "percent"
    """`percent`, `points` (a difference of two percentages), `number` or `count`."""
    metric: str = ""
    """The metric it shows; empty where its maker fills it."""
    chance: float | None = None
    always_no: float | None = None


class Cell(NamedTuple):
    """A figure, or why there is none."""

    estimate: Estimate | None = None
    """As a proportion, or a count for columns of counts."""
    reference: Reference | None = None
    command: str | None = None
    """What to run where a task is missing: the same for all empty cells of a run."""
    test: Significance | None = None
    """Of a difference: the test that belongs to its interval."""
    why: str | None = None
    """Where the two are on different sides of zero: why."""
    adjusted: float | None = None
    """Holm's p within the family that a note of the table names."""
    printed: str = ""
    """How the paper would print it, where that was asked for: mean ± deviation in percent."""
    withheld: bool = False
    """Whether the paper has a number that must not stand here: the row is not in its setting."""

    @property
    def p_value(self) -> float | None:
        """The p beside the interval."""
        return None if self.test is None else self.test.p_value

    @property
    def told(self) -> bool:
        """Whether it claims to know something of other pictures: it has an interval."""
        return self.estimate is not None and self.estimate.low is not None


class Row(NamedTuple):
    """One line of a table."""

    head: tuple[str, ...]
    """Model, prompt and so on, one for each of the table's heads."""
    kind: str
    """`model`, `baseline` (fixed by definition) or `paper` (known from the paper alone)."""
    cells: dict[str, Cell]
    marks: str = ""
    """Letters of the notes that tell what this row was computed on."""


def row_n(row: Row, columns: Sequence[Column], at: int) -> int | None:
    """The n that a row states for its column `at`: that of the next n to the right."""
    for column in columns[at:]:
        if column.key == "n" or column.metric == "n_pairs":
            cell = row.cells.get(column.key)
            return cell.estimate.n if cell is not None and cell.estimate is not None else None
    return None


def tells_too_little(row: Row) -> bool:
    """Whether no figure of the row rests on enough pictures to tell anything."""
    known = [cell.estimate.n for cell in row.cells.values() if cell.estimate and cell.told]
    return bool(known) and too_few(max(known))


def cell_of_difference(one: Difference) -> Cell:
    """The cell of a paired difference."""
    return Cell(one.estimate, test=one.test, why=one.why)


def as_family(cells: Mapping[Any, Cell]) -> dict[Any, Cell]:
    """The cells with Holm's p, where several of them carry a test."""
    adjusted = holm([cell.p_value for cell in cells.values()])
    if sum(p is not None for p in adjusted) < 2:
        return dict(cells)
    return {
        key: cell._replace(adjusted=p)
        for (key, cell), p in zip(cells.items(), adjusted, strict=True)
    }


@dataclass(frozen=True)
class Table:
    """A whole table, before it takes a format."""

    name: str
    title: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    digits: int = 1
    problems: tuple[Problem, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


class Options(NamedTuple):
    """How figures are computed."""

    mix: bool = False
    exclude: bool = False
    """The second view: answers without a verdict are left out instead of wrong."""
    inferred: bool = False
    """A second view: where nothing is stated, what a sentence of the answer decides."""
    judges: tuple[str, ...] | None = None
    """The judges to combine; None for those of `postprocess.measure.judges.combined`."""
    paper_style: bool = False
    """CLASH's rates as mean ± deviation over bootstrap draws, as the paper prints them."""
    paper_compat: bool = False
    """In CLASH categories, drop samples that are in two."""
    seed: int = stats.SEED
    level: float = stats.LEVEL

    @property
    def sampling(self) -> Sampling:
        """How intervals are computed."""
        return Sampling(self.seed, self.level)


DEFAULT = Options()


class Draft(NamedTuple):
    """A table as its maker leaves it, without what stands under every table."""

    title: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    digits: int = 1


class Builder:
    """Looks up answers and figures of a run once, and makes cells of them."""

    def __init__(
        self,
        name: str,
        runs: Sequence[Run],
        options: Options,
        marks: Mapping[tuple[str, str], str],
        tasks: Sequence[str],
    ) -> None:
        """Keep the runs that hold any of the tasks."""
        self.name = name
        self.runs = [run for run in runs if any(task in run.tasks for task in tasks)]
        self.options = options
        self._marks = marks
        self._frames: dict[tuple[str, str], Frame] = {}
        self._figures: dict[tuple[str, str], dict[str, Estimate]] = {}
        self._missing: dict[str, tuple[Run, dict[str, None]]] = {}
        self._shown: set[tuple[str, ...]] = set()
        self.remarks: dict[str, None] = {}
        """Notes that rows have, in their order."""

    def has(self, run: Run, tasks: Iterable[str]) -> bool:
        """Whether the run holds any of the tasks."""
        return any(task in run.tasks for task in tasks)

    def answers(self, run: Run, task: str) -> list[Any]:
        """A task's answers, in the view that the options ask for; none where it was not run."""
        benchmark = owner(task)
        records = run.records(task)
        if self.options.inferred and benchmark.inferred_view is not None:
            records = tuple(dict(benchmark.inferred_view(one)) for one in records)
        found = benchmark.answers(records)
        if self.options.exclude and benchmark.second_view is not None:
            return benchmark.second_view(found)
        return found

    def frame(self, run: Run, task: str) -> Frame:
        """A task's answers, laid out by picture."""
        key = (run.label, task)
        if key not in self._frames:
            answers = self.answers(run, task)
            self._frames[key] = owner(task).laid(task, answers, self.options.judges)
        return self._frames[key]

    def figures(self, run: Run, task: str) -> dict[str, Estimate]:
        """All figures of a task."""
        key = (run.label, task)
        if key not in self._figures:
            metrics = owner(task).metrics.values()
            self._figures[key] = self.of(metrics, self.frame(run, task))
        return self._figures[key]

    def of(self, metrics: Iterable[Metric], frame: Frame) -> dict[str, Estimate]:
        """Figures of any frame, computed as the options ask for."""
        return estimates(metrics, frame, self.options.sampling)

    def differences(self, run: Run, task: str, other: str) -> dict[str, Difference]:
        """`task` less `other`, metric by metric, over the pictures of both."""
        benchmark = owner(task)
        sides = self.answers(run, task), self.answers(run, other)
        a, b = benchmark.paired(task, *sides, self.options.judges)
        found = differences(benchmark.metrics.values(), a, b, self.options.sampling)
        return {one.metric: one for one in found}

    def cells(self, run: Run, task: str, columns: Iterable[Column]) -> dict[str, Cell]:
        """The columns that show a metric of a task; where it was not run, empty cells."""
        shown = [column for column in columns if column.metric]
        if task not in run.tasks:
            return {column.key: self.missing(run, task) for column in shown}
        found = self.figures(run, task)
        return {column.key: cell_of(found.get(column.metric)) for column in shown}

    def row(
        self, run: Run, setting: tuple[str, ...], cells: Mapping[str, Cell], tasks: Iterable[str]
    ) -> Row:
        """The row of a run, with the paper's cells beside it that may stand there."""
        held = [task for task in tasks if task in run.tasks]
        beside = owner(held[0]).setting(run, held) if held else Setting(None)
        paper = (beside.row or "", *setting)
        return self.row_of(run, (run.label, *setting), paper, cells, tasks)

    def row_of(
        self,
        run: Run,
        head: tuple[str, ...],
        paper: tuple[str, ...],
        cells: Mapping[str, Cell],
        tasks: Iterable[str],
    ) -> Row:
        """As `row`, for a row that the paper has under another head."""
        held = [task for task in tasks if task in run.tasks]
        why = owner(held[0]).setting(run, held).why if held else None
        known = papers.beside(self.name, *paper)
        if why is None:
            self._shown.add(paper)
        elif self._model_of_paper(paper[0]):
            self.remarks[f"{run.label}: {why}; no number of the paper stands beside it"] = None
        beside = {
            key: cell._replace(withheld=key in known)
            if why
            else cell._replace(reference=known.get(key))
            for key, cell in cells.items()
        }
        beside |= fate_cells(run, held)
        return Row(head, "model", beside, self.marks(run, tasks))

    def _model_of_paper(self, name: str) -> bool:
        """Whether the table's paper has a row of the model, whatever was tuned on it."""
        model = name.partition(", tuned on ")[0]
        heads = papers.TABLES.get(self.name, {})
        return any(head[0].partition(", tuned on ")[0] == model for head in heads)

    def paper_rows(self) -> list[Row]:
        """Rows of models that only the paper has."""
        return [
            Row(head, "paper", {key: Cell(reference=value) for key, value in cells.items()})
            for head, cells in papers.TABLES.get(self.name, {}).items()
            if head not in self._shown
        ]

    def marks(self, run: Run, tasks: Iterable[str]) -> str:
        """The letters of a row that rests on these tasks."""
        letters = "".join(self._marks.get((run.label, task), "") for task in tasks)
        return "".join(sorted(set(letters)))

    def missing(self, run: Run, task: str) -> Cell:
        """The empty cell of a task that was not run; `filled` makes its command."""
        self._missing.setdefault(run.label, (run, {}))[1][task] = None
        return Cell(command=run.label)

    def filled(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """The rows with one command a run, which fills all its empty cells."""
        commands = {
            label: command_for(run, list(tasks)) for label, (run, tasks) in self._missing.items()
        }
        return tuple(
            row._replace(
                cells={
                    key: cell._replace(command=commands[cell.command]) if cell.command else cell
                    for key, cell in row.cells.items()
                }
            )
            for row in rows
        )


def command_for(run: Run, tasks: Sequence[str], arguments: Mapping[str, Any] | None = None) -> str:
    """The command line of a run for some tasks.

    Args:
        run: The run.
        tasks: The tasks to ask for.
        arguments: The invocation's resolved command line; that of the run's first task where None.
    """
    if run.model == RESCORED:
        what = f"{run.label}: {', '.join(tasks)}"
        return f"pragclash score FILE --out {shlex.quote(run.folder)}  # {what}"
    parts = ["lmms_eval", "--model", run.model]
    if run.model_args:
        parts += ["--model_args", run.model_args]
    if arguments is None:
        known = next(iter(run.tasks.values())).results.get("config") if run.tasks else None
        used = known.get("resolved_cli_args") if isinstance(known, dict) else None
        arguments = used if isinstance(used, dict) else {}
    for key in ("batch_size", "device", "limit"):
        value = arguments.get(key)
        if value is not None and str(value) not in ("1", ""):
            parts += [f"--{key}", str(value)]
    output = arguments.get("output_path")
    parts += ["--tasks", ",".join(tasks)]
    parts += ["--output_path", str(output) if output else run.folder, "--log_samples"]
    return shlex.join(parts)


FATES = tuple(Column(name, title, "count") for name, title in TITLES.items())
"""Columns that stand in every table: answers that hold none, by what became of them."""


def fate_cells(run: Run, tasks: Iterable[str]) -> dict[str, Cell]:
    """What became of the answers that a row rests on."""
    found = fates(record for task in tasks for record in run.records(task))
    return {name: count(n) for name, n in found.items()}


def cell_of(estimate: Estimate | None) -> Cell:
    """The cell of a figure; without a value it is n/a."""
    return Cell(estimate if estimate is not None and estimate.value is not None else None)


def count(value: int) -> Cell:
    """A cell that counts."""
    return Cell(Estimate(float(value), None, None, value, "none"))


def fixed(value: float | None) -> Cell:
    """A cell that holds by definition, without an interval."""
    return Cell(None if value is None else Estimate(value, None, None, 0, "none"))


def fixed_row(head: tuple[str, ...], values: Mapping[str, float | None]) -> Row:
    """A row that holds by definition: chance, always No."""
    return Row(head, "baseline", {k: fixed(v) for k, v in values.items() if v is not None})


def columns_of(metrics: Mapping[str, Metric], *names: str) -> tuple[Column, ...]:
    """Columns of metrics, with their own titles, chance and always-No values.

    Args:
        metrics: The registry.
        names: Metric names; `key=name` gives the column another key.
    """
    out = []
    for name in names:
        key, _, other = name.partition("=")
        one = metrics[other or key]
        out.append(Column(key, one.title, one.unit, one.name, one.chance, one.always_no))
    return tuple(out)


def baselines(columns: Iterable[Column], more: int = 0) -> list[Row]:
    """The rows of chance and of always No; `more` is the number of empty heads beside them."""
    columns, empty = list(columns), ("",) * more
    chance = {c.key: c.chance for c in columns}
    always_no = {c.key: c.always_no for c in columns}
    return [fixed_row((CHANCE, *empty), chance), fixed_row((ALWAYS_NO, *empty), always_no)]
