"""The PragMatch paper's tables: main results, cue edits, modality, and people and baselines."""

from __future__ import annotations

from collections.abc import Sequence

from postprocess.measure import pragmatch as metrics
from postprocess.measure import pragmatch_estimates as estimates
from postprocess.measure import stats
from postprocess.measure.stats import Estimate
from postprocess.runs.folder import Run
from postprocess.tables import papers as reference
from postprocess.tables.model import (
    ALWAYS_NO,
    CHANCE,
    CUES,
    HUMANS,
    MODALITY_TITLES,
    PROMPT_TITLES,
    PROMPTLESS,
    PROMPTS,
    Builder,
    Cell,
    Column,
    Draft,
    Row,
    count,
    fixed_row,
    paper_rows,
)

ALWAYS_NO_VALUES = {
    "accuracy": 0.5,
    "f1": 0.0,
    "auroc": 0.5,
    "pair_ranking": 0.5,
    "acc_p": 0.0,
    "acc_m": 1.0,
    "acc_l": 1.0,
    "acc_p_minus": 0.0,
    "acc_m_plus": 1.0,
    "pair_acc": 0.0,
    "group_acc": 0.0,
    "independence": 0.0,
    "p_p_minus": 0.0,
    "m_m_plus": 1.0,
    "p_minus_m_plus": 0.0,
    "p.flip_difference": 0.0,
    "m.flip_difference": 0.0,
    "unusable_rate": 0.0,
}
"""What a model that always says No reaches."""

_TABLE1_COLUMNS = (
    Column("accuracy", "Acc"),
    Column("f1", "F1"),
    Column("auroc", "AUROC"),
    Column("acc_p", "P"),
    Column("acc_m", "M"),
    Column("acc_l", "L"),
    Column("pair_acc", "paired P-M"),
    Column("independence", "independence"),
    Column("group_acc", "grouped P-M-L"),
    Column("pair_ranking", "P ranked above M"),
    Column("unusable_rate", "unusable"),
    Column("n", "n", "count"),
    Column("n_scored", "n with scores", "count"),
    Column("left_out", "left out", "count"),
)


def table1(build: Builder) -> Draft:
    """Main results: conditions, pairs and groups for each model and prompt."""
    rows = [
        fixed_row((CHANCE, ""), _chance(_TABLE1_COLUMNS)),
        fixed_row((ALWAYS_NO, ""), _always_no(_TABLE1_COLUMNS)),
    ]
    shown: set[tuple[str, str]] = set()
    for run in build.runs:
        paper = reference.paper_model(run.label) or ""
        for prompt, suffix in PROMPTS.items():
            pml, pm = f"pragmatch_pml{suffix}", f"pragmatch_pm{suffix}"
            optional = prompt == "zero_shot_b" or (prompt == "cot" and run.model in PROMPTLESS)
            if optional and not build.has(run, (pml, pm)):
                continue
            known = reference.TABLE1.get((paper, prompt), {})
            shown.add((paper, prompt))
            cells = _main_cells(build, run, pml, pm)
            cells = {k: c._replace(reference=known.get(k)) for k, c in cells.items()}
            head = (run.label, PROMPT_TITLES[prompt])
            rows.append(Row(head, "model", cells, build.marks(run, (pml, pm))))
    rows += paper_rows(
        {
            (model, PROMPT_TITLES[prompt]): cells
            for (model, prompt), cells in reference.TABLE1.items()
            if (model, prompt) not in shown
        }
    )
    notes = (
        f"{reference.PRAGMATCH}; ~: {reference.BY_ORDER}",
        reference.TABLE1_NOTE,
        "independence: P times M over the same pictures; pair accuracy is to be compared with it, "
        "not with 25",
        "n: pictures with all captions asked; left out: pictures with some of them missing; AUROC "
        "and ranking rest on the pictures whose P and M both carry a score",
    )
    return Draft(
        "PragMatch, main results", ("model", "prompt"), _TABLE1_COLUMNS, tuple(rows), notes
    )


def _main_cells(build: Builder, run: Run, pml: str, pm: str) -> dict[str, Cell]:
    """Figures of P, M and L; where only pairs were run, those of pairs."""
    task, family = (pml, "pml") if pml in run.tasks else (pm, "pm")
    out: dict[str, Cell] = {}
    if task not in run.tasks:
        return {column.key: build.missing(run, pml) for column in _TABLE1_COLUMNS}
    table = build.table(run, task, family)
    for column in _TABLE1_COLUMNS:
        if column.key == "n":
            out["n"] = count(table.n_pairs)
        elif column.key == "n_scored":
            out["n_scored"] = count(table.n_scored)
        elif column.key == "left_out":
            out["left_out"] = count(table.n_left_out)
        elif column.key in table.estimates:
            out[column.key] = Cell(table.estimates[column.key])
        elif family == "pm" and column.key in ("acc_l", "group_acc"):
            out[column.key] = build.missing(run, pml)
        else:
            out[column.key] = Cell()
    return out


def _chance(columns: Sequence[Column]) -> dict[str, float]:
    values = dict(metrics.CHANCE)
    values["independence"] = 0.25
    return {column.key: values[column.key] for column in columns if column.key in values}


def _always_no(columns: Sequence[Column]) -> dict[str, float]:
    return {c.key: ALWAYS_NO_VALUES[c.key] for c in columns if c.key in ALWAYS_NO_VALUES}


_TABLE3_COLUMNS = (
    Column("acc_p", "P"),
    Column("acc_p_minus", "P-"),
    Column("p.flip_difference", "P- less P", "points"),
    Column("p_p_minus", "P and P-"),
    Column("n_masked", "n masked", "count"),
    Column("acc_m", "M"),
    Column("acc_m_plus", "M+"),
    Column("m.flip_difference", "M+ less M", "points"),
    Column("m_m_plus", "M and M+"),
    Column("n_injected", "n injected", "count"),
    Column("p_minus_m_plus", "P- and M+"),
    Column("independence", "independence"),
    Column("n_both", "n both", "count"),
    Column("left_out", "left out", "count"),
)
_TABLE3_PARTS = (
    ("p_minus", "p", ("acc_p", "acc_p_minus", "p_p_minus"), "n_masked"),
    ("m_plus", "m", ("acc_m", "acc_m_plus", "m_m_plus"), "n_injected"),
    ("p_minus_m_plus", "", ("p_minus_m_plus", "independence"), "n_both"),
)


def table3(build: Builder) -> Draft:
    """Cue edits: clean and edited accuracy on the same pictures, and their difference."""
    rows = [
        fixed_row((CHANCE, "", ""), _chance(_TABLE3_COLUMNS)),
        fixed_row((ALWAYS_NO, "", ""), _always_no(_TABLE3_COLUMNS)),
    ]
    shown: set[tuple[str, str]] = set()
    for run in build.runs:
        paper = reference.paper_model(run.label) or ""
        for prompt, suffix in list(PROMPTS.items())[:2]:
            for cue in CUES:
                known = reference.TABLE3.get((paper, cue), {}) if prompt == "zero_shot" else {}
                shown.add((paper, cue))
                cells, tasks = _cue_cells(build, run, cue, suffix)
                cells = {k: c._replace(reference=known.get(k)) for k, c in cells.items()}
                head = (run.label, PROMPT_TITLES[prompt], cue)
                rows.append(Row(head, "model", cells, build.marks(run, tasks)))
    rows += paper_rows(
        {
            (model, PROMPT_TITLES["zero_shot"], cue): cells
            for (model, cue), cells in reference.TABLE3.items()
            if (model, cue) not in shown
        }
    )
    notes = (
        f"{reference.PRAGMATCH}; a range is the paper's range over the three cues",
        "P and M here are the unedited captions of the same pictures",
        "differences are paired over pictures; the JSON holds their exact McNemar p values",
    )
    heads = ("model", "prompt", "cue")
    return Draft("PragMatch, cue edits", heads, _TABLE3_COLUMNS, tuple(rows), notes)


def _cue_cells(
    build: Builder, run: Run, cue: str, suffix: str
) -> tuple[dict[str, Cell], list[str]]:
    out: dict[str, Cell] = {}
    tasks, left_out = [], 0
    for family, side, keys, n in _TABLE3_PARTS:
        task = f"pragmatch_{family}_{cue}{suffix}"
        tasks.append(task)
        flip = f"{side}.flip_difference"
        if task not in run.tasks:
            names = (*keys, flip, n) if side else (*keys, n)
            out.update(dict.fromkeys(names, build.missing(run, task)))
            continue
        table = build.table(run, task, family)
        left_out += table.n_left_out
        for key in keys:
            out[key] = Cell(table.estimates.get(key))
        if side:
            clean = side.upper()
            edited = "P-" if side == "p" else "M+"
            laid = estimates.frame(build.answers(run, task), metrics.slots_for(family))
            whole = laid.whole > 0
            test = stats.mcnemar(laid.correct[edited][whole], laid.correct[clean][whole])
            out[flip] = Cell(table.estimates.get("flip_difference"), p_value=test.p_value)
        out[n] = count(table.n_pairs)
    out["left_out"] = count(left_out) if any(t in run.tasks for t in tasks) else Cell()
    return out, tasks


_TABLE4_COLUMNS = (
    *_TABLE1_COLUMNS[:7],
    Column("group_acc", "grouped P-M-L"),
    *(Column(f"p_minus_m_plus.{cue}", f"P- and M+, {cue}") for cue in CUES),
    Column("n", "n", "count"),
    Column("left_out", "left out", "count"),
)


def table4(build: Builder) -> Draft:
    """The same captions with the picture, without it, and the paired difference."""
    chance = _chance(_TABLE4_COLUMNS)
    always = _always_no(_TABLE4_COLUMNS)
    for cue in CUES:
        chance[f"p_minus_m_plus.{cue}"] = 0.25
        always[f"p_minus_m_plus.{cue}"] = 0.0
    rows = [fixed_row((CHANCE, "", ""), chance), fixed_row((ALWAYS_NO, "", ""), always)]
    for run in build.runs:
        for prompt, suffix in list(PROMPTS.items())[:2]:
            by_modality = {}
            for modality, form in (("image_text", ""), ("text_only", "_text_only")):
                cells, tasks = _modality_cells(build, run, form + suffix)
                by_modality[modality] = tasks
                head = (run.label, PROMPT_TITLES[prompt], MODALITY_TITLES[modality])
                rows.append(Row(head, "model", cells, build.marks(run, tasks)))
            cells = _modality_differences(build, run, suffix)
            if cells:
                head = (run.label, PROMPT_TITLES[prompt], "picture less text only")
                marks = build.marks(run, [t for tasks in by_modality.values() for t in tasks])
                rows.append(Row(head, "difference", cells, marks))
    notes = (
        f"{reference.PRAGMATCH}: {reference.TABLE4_NOTE}",
        "differences are in points, paired over the pictures that both forms have",
    )
    heads = ("model", "prompt", "shown")
    return Draft(
        "PragMatch, with and without the picture", heads, _TABLE4_COLUMNS, tuple(rows), notes
    )


def _modality_cells(build: Builder, run: Run, suffix: str) -> tuple[dict[str, Cell], list[str]]:
    pml, pm = f"pragmatch_pml{suffix}", f"pragmatch_pm{suffix}"
    main = _main_cells(build, run, pml, pm)
    cells = {c.key: main[c.key] for c in _TABLE4_COLUMNS if c.key in main}
    tasks = [pml, pm]
    for cue in CUES:
        task = f"pragmatch_p_minus_m_plus_{cue}{suffix}"
        tasks.append(task)
        key = f"p_minus_m_plus.{cue}"
        if task in run.tasks:
            table = build.table(run, task, "p_minus_m_plus")
            cells[key] = Cell(table.estimates.get("p_minus_m_plus"))
        else:
            cells[key] = build.missing(run, task)
    return cells, tasks


def _modality_differences(build: Builder, run: Run, suffix: str) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for family in ("pml", "pm"):
        task, other = f"pragmatch_{family}{suffix}", f"pragmatch_{family}_text_only{suffix}"
        if task in run.tasks and other in run.tasks:
            for key, one in build.differences(run, task, other, family).items():
                cells[key] = Cell(one.estimate, p_value=one.p_value)
                cells["n"] = count(one.estimate.n) if key == "pair_acc" else cells.get("n", Cell())
            break
    for cue in CUES:
        task = f"pragmatch_p_minus_m_plus_{cue}{suffix}"
        other = f"pragmatch_p_minus_m_plus_{cue}_text_only{suffix}"
        if task in run.tasks and other in run.tasks:
            found = build.differences(run, task, other, "p_minus_m_plus").get("p_minus_m_plus")
            if found is not None:
                cells[f"p_minus_m_plus.{cue}"] = Cell(found.estimate, p_value=found.p_value)
    return {key: cell for key, cell in cells.items() if cell != Cell()}


_HUMAN_COLUMNS = (
    Column("accuracy", "item"),
    Column("acc_p", "P"),
    Column("acc_m", "M"),
    Column("acc_l", "L"),
    Column("pair_acc", "paired P-M"),
    Column("independence", "independence"),
    Column("group_acc", "grouped P-M-L"),
    Column("n", "n", "count"),
    Column("left_out", "left out", "count"),
)


def human(build: Builder) -> Draft:
    """People, and baselines that see captions only."""
    rows = [
        fixed_row((CHANCE,), _chance(_HUMAN_COLUMNS)),
        fixed_row((ALWAYS_NO,), _always_no(_HUMAN_COLUMNS)),
    ]
    people: list[Row] = []
    shown = set()
    for run in build.runs:
        if run.model not in HUMANS:
            continue
        pml, pm = "pragmatch_pml", "pragmatch_pm"
        main = _main_cells(build, run, pml, pm)
        name = "people" if run.model == "human_votes" else run.model
        known = reference.HUMAN[name]
        cells = {
            c.key: main[c.key]._replace(reference=known.get(c.key))
            for c in _HUMAN_COLUMNS
            if c.key in main
        }
        shown.add(name)
        row = Row((run.label,), "model", cells, build.marks(run, (pml, pm)))
        rows.append(row)
        if run.model == "human_votes":
            people.append(row)
    if len(people) > 1:
        rows.append(_mean_row(people))
    rows += paper_rows(
        {(name,): cells for name, cells in reference.HUMAN.items() if name not in shown}
    )
    notes = (
        f"{reference.PRAGMATCH}: {reference.HUMAN_NOTE}",
        f"people: {reference.ANNOTATION}",
        f"caption_format: {reference.FORMAT_UNIT}",
    )
    title = "PragMatch, people and captions alone"
    return Draft(title, ("who",), _HUMAN_COLUMNS, tuple(rows), notes)


def _mean_row(people: Sequence[Row]) -> Row:
    cells: dict[str, Cell] = {}
    for column in _HUMAN_COLUMNS[:-2]:
        found = [row.cells[column.key] for row in people if column.key in row.cells]
        values = [c.estimate.value for c in found if c.estimate and c.estimate.value is not None]
        if values:
            mean = Estimate(sum(values) / len(values), None, None, len(values), "none")
            cells[column.key] = Cell(mean, found[0].reference)
    return Row((f"mean of {len(people)} annotators",), "model", cells)
