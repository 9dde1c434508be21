"""What a table is made of, and how the makers of tables look answers up.

Figures are computed here and nowhere else in the tables: a maker only says which task and metric
belong into which cell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from postprocess.measure import clash_estimates, stats
from postprocess.measure import pragmatch as metrics
from postprocess.measure import pragmatch_estimates as estimates
from postprocess.measure.clash import ClashAnswer
from postprocess.measure.groups import Answer
from postprocess.measure.stats import Estimate
from postprocess.runs.folder import Problem, Run
from postprocess.tables.papers import Reference

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
    """`percent`, `points` (a difference of two percentages) or `count`."""


class Cell(NamedTuple):
    """A figure, or why there is none."""

    estimate: Estimate | None = None
    """As a proportion, or a count for columns of counts."""
    reference: Reference | None = None
    command: str | None = None
    """What to run where a task is missing: the same for all empty cells of a run."""
    p_value: float | None = None
    """Of a difference: exact McNemar over pictures."""


class Row(NamedTuple):
    """One line of a table."""

    head: tuple[str, ...]
    """Model, prompt and so on, one for each of the table's heads."""
    kind: str
    """`model`, `baseline` (fixed by definition) or `paper` (known from the paper alone)."""
    cells: dict[str, Cell]
    marks: str = ""
    """Letters of the notes that tell what this row was computed on."""


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
    paper_compat: bool = False
    """In CLASH categories, drop samples that are in two."""
    draws: int = stats.DRAWS
    seed: int = stats.SEED
    level: float = stats.LEVEL


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
    """Looks up answers and tables of a run once, and makes cells of them."""

    def __init__(
        self,
        runs: Sequence[Run],
        options: Options,
        marks: Mapping[tuple[str, str], str],
        tasks: Sequence[str],
    ) -> None:
        """Keep the runs that hold any of the tasks."""
        self.runs = [run for run in runs if any(task in run.tasks for task in tasks)]
        self.options = options
        self._marks = marks
        self._tables: dict[tuple[str, str], estimates.Table] = {}
        self._missing: dict[str, tuple[Run, dict[str, None]]] = {}

    def has(self, run: Run, tasks: Iterable[str]) -> bool:
        """Whether the run holds any of the tasks."""
        return any(task in run.tasks for task in tasks)

    def answers(self, run: Run, task: str) -> list[Answer]:
        """A PragMatch task's answers, in the view that the options ask for."""
        found = estimates.answers_of(run.records(task))
        return metrics.without_unreadable(found) if self.options.exclude else found

    def table(self, run: Run, task: str, family: str) -> estimates.Table:
        """All figures of a task over a family's slots."""
        key = (run.label, f"{task}/{family}")
        if key not in self._tables:
            self._tables[key] = estimates.table(
                self.answers(run, task),
                metrics.slots_for(family),
                draws=self.options.draws,
                seed=self.options.seed,
                level=self.options.level,
            )
        return self._tables[key]

    def differences(
        self, run: Run, task: str, other: str, family: str
    ) -> dict[str, estimates.Difference]:
        """`task` less `other`, metric by metric, over the pictures of both."""
        found = estimates.differences(
            self.answers(run, task),
            self.answers(run, other),
            metrics.slots_for(family),
            draws=self.options.draws,
            seed=self.options.seed,
            level=self.options.level,
        )
        return {one.metric: one for one in found}

    def marks(self, run: Run, tasks: Iterable[str]) -> str:
        """The letters of a row that rests on these tasks."""
        letters = "".join(self._marks.get((run.label, task), "") for task in tasks)
        return "".join(sorted(set(letters)))

    def clash(self, run: Run, task: str) -> list[ClashAnswer]:
        """A CLASH task's answers."""
        return clash_estimates.answers_of(run.records(task))

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


def count(value: int) -> Cell:
    """A cell that counts."""
    return Cell(Estimate(float(value), None, None, value, "none"))


def fixed(value: float | None) -> Cell:
    """A cell that holds by definition, without an interval."""
    return Cell(None if value is None else Estimate(value, None, None, 0, "none"))


def fixed_row(head: tuple[str, ...], values: Mapping[str, float]) -> Row:
    """A row that holds by definition: chance, always No."""
    return Row(head, "baseline", {key: fixed(value) for key, value in values.items()})


def paper_rows(known: Mapping[tuple[str, ...], Mapping[str, Reference]]) -> list[Row]:
    """Rows of models that only the paper has."""
    return [
        Row(head, "paper", {key: Cell(reference=value) for key, value in cells.items()})
        for head, cells in known.items()
    ]
