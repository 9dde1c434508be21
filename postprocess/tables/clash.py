"""The CLASH paper's tables: both forms, judges, categories, and fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from postprocess.measure import clash as clash_metrics
from postprocess.measure import clash_estimates
from postprocess.measure.clash import ClashAnswer
from postprocess.measure.stats import Estimate
from postprocess.runs.folder import Run
from postprocess.tables import papers as reference
from postprocess.tables.model import (
    ALWAYS_NO,
    CHANCE,
    Builder,
    Cell,
    Column,
    Draft,
    Row,
    count,
    fixed_row,
    paper_rows,
)

NEVER_A_CONFLICT = f"{ALWAYS_NO} conflict (the picture's answer)"
"""The row of a model that answers what the picture shows, whatever the caption says."""

_CLASH_MC_COLUMNS = (
    Column("conflict", "conflict"),
    Column("image", "image"),
    Column("text", "text"),
    Column("distractor", "distractor"),
    Column("unusable", "unusable"),
    Column("false_alarms", "false alarms"),
    Column("conflict_relaxed", "conflict, relaxed reading"),
    Column("letter_prob", "right by letter probability"),
    Column("n", "n", "count"),
    Column("left_out", "left out", "count"),
)
_CLASH_OPEN_COLUMNS = (
    Column("conflict", "conflict"),
    Column("image", "image"),
    Column("text", "text"),
    Column("none", "none"),
    Column("overlap", "several at once"),
    Column("false_alarms", "false alarms"),
    Column("n", "n", "count"),
    Column("left_out", "left out", "count"),
)
_FALSE_ALARMS = (
    "false alarms: conflict flagged although the caption is true (the task's _original form); a "
    "conflict rate without it misleads"
)


def _clash_cells(build: Builder, run: Run, task: str, columns: Sequence[Column]) -> dict[str, Cell]:
    if task not in run.tasks:
        cells = {column.key: build.missing(run, task) for column in columns}
    else:
        answers = build.clash(run, task)
        found = clash_estimates.table(answers, draws=build.options.draws)
        cells = {column.key: Cell(found.get(column.key)) for column in columns}
        cells["n"] = count(len(answers))
        cells["left_out"] = count(_omitted(run.records(task)))
    original = f"{task}_original"
    if original in run.tasks:
        alarms = clash_estimates.table(build.clash(run, original), draws=build.options.draws)
        cells["false_alarms"] = Cell(alarms.get("conflict"))
    else:
        cells["false_alarms"] = build.missing(run, original)
    return cells


def _omitted(records: Sequence[Mapping[str, Any]]) -> int:
    return max((int(record.get("n_omitted") or 0) for record in records), default=0)


def _clash_form(
    build: Builder,
    form: str,
    columns: tuple[Column, ...],
    known: reference.Table,
    chance: Mapping[str, float],
) -> Draft:
    task = f"clash_{form}"
    rows = [fixed_row((CHANCE,), chance)] if chance else []
    rows += _clash_baselines(columns)
    shown = set()
    for run in build.runs:
        cells = _clash_cells(build, run, task, columns)
        paper = tuned_name(run)
        shown.add(paper)
        cells = {k: c._replace(reference=known.get(paper, {}).get(k)) for k, c in cells.items()}
        rows.append(Row((run.label,), "model", cells, build.marks(run, (task, f"{task}_original"))))
    rows += paper_rows({(m,): cells for m, cells in known.items() if m not in shown})
    title = "CLASH, multiple choice" if form == "mc" else "CLASH, open questions"
    notes = (f"{reference.CLASH}, whose n is 1,281", _FALSE_ALARMS)
    return Draft(title, ("model",), columns, tuple(rows), notes, 2)


def _clash_baselines(columns: Sequence[Column]) -> list[Row]:
    keys = {column.key for column in columns}
    no = {"conflict": 0.0, "image": 1.0, "text": 0.0, "distractor": 0.0, "none": 0.0}
    no |= {"unusable": 0.0, "false_alarms": 0.0, "conflict_relaxed": 0.0, "overlap": 0.0}
    yes = dict.fromkeys(no, 0.0) | {"conflict": 1.0, "false_alarms": 1.0, "conflict_relaxed": 1.0}
    return [
        fixed_row(
            (NEVER_A_CONFLICT,),
            {k: v for k, v in no.items() if k in keys},
        ),
        fixed_row(("always a conflict",), {k: v for k, v in yes.items() if k in keys}),
    ]


def clash_mc(build: Builder) -> Draft:
    """Multiple choice: the five outcomes, false alarms, and two second views."""
    quarter = ("conflict", "image", "text", "distractor", "false_alarms", "letter_prob")
    chance = dict.fromkeys(quarter, 0.25)
    return _clash_form(build, "mc", _CLASH_MC_COLUMNS, reference.CLASH_MC, chance)


def clash_open(build: Builder) -> Draft:
    """Open questions: the four official flags, their overlaps, and false alarms."""
    return _clash_form(build, "open", _CLASH_OPEN_COLUMNS, reference.CLASH_OPEN, {})


_JUDGE_COLUMNS = (
    Column("conflict", "conflict"),
    Column("image", "image"),
    Column("text", "text"),
    Column("none", "none"),
    Column("kappa", "kappa with matching", "number"),
    Column("n", "n judged", "count"),
    Column("left_out", "unjudged", "count"),
)


def clash_judge(build: Builder) -> Draft:
    """What each judge, at least one and both make of the open answers."""
    rows = [Row((*row.head, ""), row.kind, row.cells) for row in _clash_baselines(_JUDGE_COLUMNS)]
    for run in build.runs:
        task = "clash_open_judge" if "clash_open_judge" in run.tasks else "clash_open"
        marks = build.marks(run, (task,))
        answers = build.clash(run, task)
        if not any(answer.judges for answer in answers):
            cells = {c.key: build.missing(run, "clash_open_judge") for c in _JUDGE_COLUMNS}
            rows.append(Row((run.label, ""), "model", cells, marks))
            continue
        found = clash_estimates.table(answers, draws=build.options.draws)
        cells = {c.key: Cell(found.get(c.key)) for c in _JUDGE_COLUMNS[:4]}
        cells |= {"n": count(len(answers)), "left_out": count(0)}
        rows.append(Row((run.label, "matching rule"), "model", cells, marks))
        counted = clash_metrics.judged(answers)
        together = clash_metrics.judged_together(answers, clash_estimates.full_judges(answers))
        for judge, rates in clash_estimates.judged(answers, draws=build.options.draws).items():
            one = counted.get(judge, together[0])
            cells = {key: Cell(estimate) for key, estimate in rates.items()}
            if one.kappa is not None:
                cells["kappa"] = Cell(Estimate(one.kappa, None, None, one.n, "none"))
            cells |= {"n": count(one.n), "left_out": count(one.unjudged)}
            rows.append(Row((run.label, judge), "model", cells, marks))
    notes = (
        f"{reference.CLASH}; judges see the two answers and the prediction, not the question",
        "rates are out of the answers judged; an unjudged answer is never counted as none",
    )
    return Draft("CLASH, judged", ("model", "judge"), _JUDGE_COLUMNS, tuple(rows), notes, 2)


def clash_categories(build: Builder) -> Draft:
    """Conflict rate by category, for both forms."""
    forms = {"multiple choice": "clash_mc", "open": "clash_open"}
    names: dict[str, None] = {}
    made: list[tuple[Run, str, str, dict[str, Estimate], int]] = []
    for run in build.runs:
        for form, task in forms.items():
            answers = build.clash(run, task) if task in run.tasks else []
            found = clash_estimates.by_category(
                answers, paper_compat=build.options.paper_compat, draws=build.options.draws
            )
            names |= dict.fromkeys(found)
            made.append((run, form, task, found, len(answers)))
    order = ("object", "attribute", *clash_metrics.CATEGORY_NAMES)
    known_names = [n for cells in reference.CLASH_CATEGORIES.values() for n in cells]
    listed = [n for n in order if n in names or n in known_names]
    columns = (
        *(Column(name, name.replace("_", ", ")) for name in listed),
        Column("n", "n", "count"),
        Column("left_out", "left out", "count"),
    )
    no = dict.fromkeys(listed, 0.0)
    rows = [fixed_row((NEVER_A_CONFLICT, ""), no)]
    shown = set()
    for run, form, task, found, n in made:
        paper = reference.paper_model(run.label) or ""
        known = reference.CLASH_CATEGORIES.get(paper, {}) if task == "clash_mc" else {}
        if task == "clash_mc":
            shown.add(paper)
        if task in run.tasks:
            cells = {name: Cell(found.get(name), known.get(name)) for name in listed}
            cells |= {"n": count(n), "left_out": count(_omitted(run.records(task)))}
        else:
            cells = {c.key: build.missing(run, task) for c in columns}
            cells |= {k: cells[k]._replace(reference=v) for k, v in known.items()}
        rows.append(Row((run.label, form), "model", cells, build.marks(run, (task,))))
    rows += paper_rows(
        {
            (m, "multiple choice"): cells
            for m, cells in reference.CLASH_CATEGORIES.items()
            if m not in shown
        }
    )
    view = (
        "samples in two categories are dropped, as in the paper"
        if build.options.paper_compat
        else "a sample in two categories counts in both; the paper drops it (--paper-compat)"
    )
    notes = (f"{reference.CLASH}; conflict rate by category", view)
    title = "CLASH, conflict by category"
    return Draft(title, ("model", "form"), columns, tuple(rows), notes, 2)


_FINETUNE_COLUMNS = (
    Column("conflict", "conflict"),
    Column("image_on_originals", "image on true captions"),
    Column("overall", "overall"),
    Column("incorrect", "incorrect"),
    Column("false_alarms", "false alarms"),
    Column("n", "n", "count"),
    Column("left_out", "left out", "count"),
)


def clash_finetune(build: Builder) -> Draft:
    """Base and tuned models on conflicting and on true captions."""
    task, original = "clash_open", "clash_open_original"
    no = {"conflict": 0.0, "image_on_originals": 1.0, "overall": 0.5, "false_alarms": 0.0}
    yes = {"conflict": 1.0, "image_on_originals": 0.0, "overall": 0.5, "false_alarms": 1.0}
    rows = [
        fixed_row((NEVER_A_CONFLICT,), no),
        fixed_row(("always a conflict",), yes),
    ]
    shown = set()
    for run in build.runs:
        conflicting = build.clash(run, task)
        true = build.clash(run, original)
        draws = build.options.draws
        cells: dict[str, Cell] = {}
        if task in run.tasks:
            found = clash_estimates.table(conflicting, draws=draws)
            cells["conflict"] = Cell(found.get("conflict"))
            cells["incorrect"] = Cell(found.get("none"))
            cells["n"] = count(len(conflicting))
            cells["left_out"] = count(_omitted(run.records(task)))
        if original in run.tasks:
            found = clash_estimates.table(true, draws=draws)
            cells["image_on_originals"] = Cell(found.get("image"))
            cells["false_alarms"] = Cell(found.get("conflict"))
        if task in run.tasks and original in run.tasks:
            overall = clash_estimates.rate([*conflicting, *true], _overall, draws=draws)
            cells["overall"] = Cell(overall)
        lacking = [t for t in (task, original) if t not in run.tasks]
        for column in _FINETUNE_COLUMNS:
            if column.key not in cells:
                for lacked in lacking:
                    cells[column.key] = build.missing(run, lacked)
        name = tuned_name(run)
        shown.add(name)
        known = reference.CLASH_FINETUNE.get(name, {})
        cells = {k: c._replace(reference=known.get(k)) for k, c in cells.items()}
        rows.append(Row((run.label,), "model", cells, build.marks(run, (task, original))))
    rows += paper_rows(
        {(m,): cells for m, cells in reference.CLASH_FINETUNE.items() if m not in shown}
    )
    notes = (
        f"{reference.CLASH}; overall: conflict on conflicting and image on true captions together; "
        "incorrect: nothing recognised on conflicting captions",
        f"{_FALSE_ALARMS}; the paper does not print it",
    )
    return Draft("CLASH, fine-tuning", ("model",), _FINETUNE_COLUMNS, tuple(rows), notes, 2)


def _overall(answer: ClashAnswer) -> int:
    return answer.conflict if answer.caption_kind == "conflicting" else answer.image


def tuned_name(run: Run) -> str:
    """The fine-tuning paper's name of a run: its model, and whether an adapter was on it."""
    paper = reference.paper_model(run.label) or ""
    text = f"{run.label} {run.model_args}".lower()
    if "lora" not in text and "peft=" not in text:
        return paper
    return f"{paper}, tuned on {'~30k' if 'merged' in text else '~15k'}"
