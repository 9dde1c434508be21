"""The PragMatch paper's tables: main results, cue edits, modality, and people and baselines."""

from __future__ import annotations

from collections.abc import Sequence

from postprocess.benchmarks.base import TableMaker
from postprocess.benchmarks.pragmatch_tasks import CUES
from postprocess.measure.estimate import against_none
from postprocess.measure.pragmatch import METRICS
from postprocess.measure.significance import disagreement
from postprocess.measure.stats import EMPTY, Estimate
from postprocess.runs.folder import Run
from postprocess.tables import papers
from postprocess.tables.model import (
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
    as_family,
    baselines,
    cell_of_difference,
    columns_of,
    count,
)

_COUNTS = columns_of(METRICS, "n=n_pairs", "left_out=n_left_out")
_TABLE1 = (
    *columns_of(METRICS, "accuracy", "f1", "auroc", "acc_p", "acc_m", "acc_l", "pair_acc"),
    *columns_of(METRICS, "independence", "group_acc", "pair_ranking", "unusable_rate"),
    *columns_of(METRICS, "n=n_pairs", "n_scored", "left_out=n_left_out"),
)


def table1(build: Builder) -> Draft:
    """Main results: conditions, pairs and groups for each model and prompt."""
    rows = baselines(_TABLE1, 1)
    for run in build.runs:
        for prompt, suffix in PROMPTS.items():
            tasks = (f"pragmatch_pml{suffix}", f"pragmatch_pm{suffix}")
            optional = prompt == "zero_shot_b" or (prompt == "cot" and run.model in PROMPTLESS)
            if not optional or build.has(run, tasks):
                cells = _main_cells(build, run, suffix, _TABLE1)
                rows.append(build.row(run, (PROMPT_TITLES[prompt],), cells, tasks))
    notes = (
        f"{papers.PRAGMATCH}; ~: {papers.BY_ORDER}",
        papers.TABLE1_NOTE,
        "independence: P times M over the same pictures; pair accuracy is to be compared with it, "
        "not with 25",
        "n: pictures with all captions asked; left out: pictures with some of them missing; AUROC "
        "and ranking rest on the pictures whose P and M both carry a score",
    )
    return Draft(
        "PragMatch, main results",
        ("model", "prompt"),
        _TABLE1,
        (*rows, *build.paper_rows()),
        notes,
    )


def _main_cells(
    build: Builder, run: Run, suffix: str, columns: Sequence[Column]
) -> dict[str, Cell]:
    """Figures of P, M and L; where only pairs were run, those of pairs."""
    pml, pm = f"pragmatch_pml{suffix}", f"pragmatch_pm{suffix}"
    task = pml if pml in run.tasks or pm not in run.tasks else pm
    cells = build.cells(run, task, columns)
    if task == pm:
        cells |= {key: build.missing(run, pml) for key in ("acc_l", "group_acc") if key in cells}
    return cells


_TABLE3 = (
    *columns_of(METRICS, "acc_p", "acc_p_minus", "p.flip_difference=flip_difference"),
    *columns_of(METRICS, "p_p_minus", "n_masked=n_pairs"),
    *columns_of(METRICS, "acc_m", "acc_m_plus", "m.flip_difference=flip_difference"),
    *columns_of(METRICS, "m_m_plus", "n_injected=n_pairs"),
    *columns_of(METRICS, "p_minus_m_plus", "independence", "n_both=n_pairs"),
    Column("left_out", "left out", "count"),
)
_TABLE3_TITLES = {
    "p.flip_difference": "P- less P",
    "m.flip_difference": "M+ less M",
    "n_masked": "n masked",
    "n_injected": "n injected",
    "n_both": "n both",
}
_TABLE3 = tuple(c._replace(title=_TABLE3_TITLES.get(c.key, c.title)) for c in _TABLE3)
_TABLE3_PARTS = {"p_minus": _TABLE3[:5], "m_plus": _TABLE3[5:10], "p_minus_m_plus": _TABLE3[10:13]}
"""Family of a cue's task to the columns it fills."""


def table3(build: Builder) -> Draft:
    """Cue edits: clean and edited accuracy on the same pictures, and their difference."""
    rows = baselines([c._replace(chance=None) if "flip" in c.key else c for c in _TABLE3], 2)
    for run in build.runs:
        for prompt, suffix in list(PROMPTS.items())[:2]:
            found = {cue: _cue_cells(build, run, cue, suffix) for cue in CUES}
            for key in ("p.flip_difference", "m.flip_difference"):
                tested = {cue: cells[key] for cue, (cells, _) in found.items() if key in cells}
                for cue, cell in as_family(tested).items():
                    found[cue][0][key] = cell
            for cue, (cells, tasks) in found.items():
                rows.append(build.row(run, (PROMPT_TITLES[prompt], cue), cells, tasks))
    notes = (
        f"{papers.PRAGMATCH}; a range is the paper's range over the three cues",
        "P and M here are the unedited captions of the same pictures",
        "differences are paired over pictures; Holm: over the three cues of one model, prompt and "
        "edit",
    )
    heads = ("model", "prompt", "cue")
    return Draft("PragMatch, cue edits", heads, _TABLE3, (*rows, *build.paper_rows()), notes)


def _cue_cells(
    build: Builder, run: Run, cue: str, suffix: str
) -> tuple[dict[str, Cell], list[str]]:
    out: dict[str, Cell] = {}
    tasks, left_out = [], 0
    for family, columns in _TABLE3_PARTS.items():
        task = f"pragmatch_{family}_{cue}{suffix}"
        tasks.append(task)
        out |= build.cells(run, task, columns)
        if task not in run.tasks:
            continue
        frame = build.frame(run, task)
        left_out += frame.left_out
        for column in columns:
            if column.metric == "flip_difference":
                test = against_none(METRICS[column.metric], frame, build.options.sampling)
                why = disagreement(out[column.key].estimate or EMPTY, test, build.options.level)
                out[column.key] = out[column.key]._replace(test=test, why=why)
    out["left_out"] = count(left_out) if build.has(run, tasks) else Cell()
    return out, tasks


_BOTH = columns_of(METRICS, *(f"p_minus_m_plus.{cue}=p_minus_m_plus" for cue in CUES))
_BOTH = tuple(c._replace(title=f"P- and M+, {cue}") for c, cue in zip(_BOTH, CUES, strict=True))
_TABLE4 = (*_TABLE1[:7], *columns_of(METRICS, "group_acc"), *_BOTH, *_COUNTS)
_MODALITIES = {"image_text": "", "text_only": "_text_only"}


def table4(build: Builder) -> Draft:
    """The same captions with the picture, without it, and the paired difference."""
    rows = baselines(_TABLE4, 2)
    main = [column for column in _TABLE4 if column not in _BOTH]
    for run in build.runs:
        for prompt, suffix in list(PROMPTS.items())[:2]:
            used: list[str] = []
            for modality, form in _MODALITIES.items():
                tasks = [f"pragmatch_{family}{form}{suffix}" for family in ("pml", "pm")]
                cells = _main_cells(build, run, form + suffix, main)
                for column, cue in zip(_BOTH, CUES, strict=True):
                    tasks.append(f"pragmatch_p_minus_m_plus_{cue}{form}{suffix}")
                    cells |= build.cells(run, tasks[-1], (column,))
                used += tasks
                head = (PROMPT_TITLES[prompt], MODALITY_TITLES[modality])
                rows.append(build.row(run, head, cells, tasks))
            cells = _modality_differences(build, run, suffix)
            if cells:
                named = (run.label, PROMPT_TITLES[prompt], "picture less text only")
                rows.append(Row(named, "difference", cells, build.marks(run, used)))
    notes = (
        f"{papers.PRAGMATCH}: {papers.TABLE4_NOTE}",
        "differences are in points, paired over the pictures that both forms have; Holm: over all "
        "differences of the row",
    )
    heads = ("model", "prompt", "shown")
    return Draft("PragMatch, with and without the picture", heads, _TABLE4, tuple(rows), notes)


def _modality_differences(build: Builder, run: Run, suffix: str) -> dict[str, Cell]:
    forms = (f"pragmatch_{{}}{suffix}", f"pragmatch_{{}}_text_only{suffix}")
    main = _both(run, *forms, "pml", "pm")
    cells = _differences(build, run, *main) if main else {}
    for column, cue in zip(_BOTH, CUES, strict=True):
        edited = _both(run, *forms, f"p_minus_m_plus_{cue}")
        found = build.differences(run, *edited).get(column.metric) if edited else None
        if found is not None:
            cells[column.key] = cell_of_difference(found)
    return as_family(cells)


_PROMPTS = (*_TABLE1[:7], *columns_of(METRICS, "group_acc"), *_COUNTS)


def prompts(build: Builder) -> Draft:
    """The main and the paraphrased prompt on the same captions, and the paired difference."""
    rows = baselines(_PROMPTS, 1)
    for run in build.runs:
        used: list[str] = []
        for prompt in ("zero_shot", "zero_shot_b"):
            tasks = [f"{task}{PROMPTS[prompt]}" for task in _MAIN]
            used += tasks
            cells = _main_cells(build, run, PROMPTS[prompt], _PROMPTS)
            rows.append(build.row(run, (PROMPT_TITLES[prompt],), cells, tasks))
        main = _both(run, "pragmatch_{}", "pragmatch_{}_prompt_b", "pml", "pm")
        if main:
            head = (run.label, f"{PROMPT_TITLES['zero_shot']} less {PROMPT_TITLES['zero_shot_b']}")
            cells = as_family(_differences(build, run, *main))
            rows.append(Row(head, "difference", cells, build.marks(run, used)))
    notes = (
        "one prompt is one draw: what the paraphrase moves, a model's rank may owe to the wording",
        "differences are in points, paired over the pictures that both prompts have; Holm: over "
        "all differences of the row",
    )
    return Draft("PragMatch, two wordings", ("model", "prompt"), _PROMPTS, tuple(rows), notes)


def _both(run: Run, form: str, other: str, *families: str) -> tuple[str, str] | None:
    """The first family of which the run holds both forms."""
    for family in families:
        if {form.format(family), other.format(family)} <= run.tasks.keys():
            return form.format(family), other.format(family)
    return None


def _differences(build: Builder, run: Run, task: str, other: str) -> dict[str, Cell]:
    """The differences that the tables of two forms show; Holm's family is no larger than that."""
    found = build.differences(run, task, other)
    shown = [column.key for column in _PROMPTS if column.key in found]
    cells = {key: cell_of_difference(found[key]) for key in shown}
    if "pair_acc" in found:
        cells["n"] = count(found["pair_acc"].estimate.n)
    return cells


_HUMAN = (
    *columns_of(METRICS, "accuracy", "acc_p", "acc_m", "acc_l", "pair_acc", "independence"),
    *columns_of(METRICS, "group_acc"),
    *_COUNTS,
)
_HUMAN = (_HUMAN[0]._replace(title="item"), *_HUMAN[1:])


def human(build: Builder) -> Draft:
    """People, and baselines that see captions only."""
    rows = baselines(_HUMAN)
    people: list[Row] = []
    for run in build.runs:
        if run.model not in HUMANS:
            continue
        cells = _main_cells(build, run, "", _HUMAN)
        name = "people" if run.model == "human_votes" else run.model
        tasks = ("pragmatch_pml", "pragmatch_pm")
        row = build.row_of(run, (run.label,), (name,), cells, tasks)
        rows.append(row)
        if run.model == "human_votes":
            people.append(row)
    if len(people) > 1:
        rows.append(_mean_row(people))
    notes = (
        f"{papers.PRAGMATCH}: {papers.HUMAN_NOTE}",
        f"people: {papers.ANNOTATION}",
        f"caption_format: {papers.FORMAT_UNIT}",
    )
    title = "PragMatch, people and captions alone"
    return Draft(title, ("who",), _HUMAN, (*rows, *build.paper_rows()), notes)


def _mean_row(people: Sequence[Row]) -> Row:
    cells: dict[str, Cell] = {}
    for column in _HUMAN[:-2]:
        found = [row.cells[column.key] for row in people if column.key in row.cells]
        values = [c.estimate.value for c in found if c.estimate and c.estimate.value is not None]
        if values:
            mean = Estimate(sum(values) / len(values), None, None, len(values), "none")
            cells[column.key] = Cell(mean, found[0].reference)
    return Row((f"mean of {len(people)} annotators",), "model", cells)


def _with(names: Sequence[str], suffixes: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{name}{suffix}" for name in names for suffix in suffixes)


def _cued(*families: str) -> list[str]:
    return [f"pragmatch_{family}_{cue}" for family in families for cue in CUES]


def _any_text_only(runs: Sequence[Run]) -> bool:
    return any("text_only" in task for run in runs for task in run.tasks)


def _any_paraphrase(runs: Sequence[Run]) -> bool:
    return any(task.endswith(PROMPTS["zero_shot_b"]) for run in runs for task in run.tasks)


_MAIN = ("pragmatch_pml", "pragmatch_pm")
_MODAL = ("", "_cot", "_text_only", "_text_only_cot")
TABLES = {
    "table1": TableMaker(table1, _with(_MAIN, tuple(PROMPTS.values()))),
    "table3": TableMaker(table3, _with(_cued("p_minus", "m_plus", "p_minus_m_plus"), _MODAL[:2])),
    "table4": TableMaker(
        table4, _with([*_MAIN, *_cued("p_minus_m_plus")], _MODAL), shown=_any_text_only
    ),
    "table_prompts": TableMaker(
        prompts, _with(_MAIN, ("", PROMPTS["zero_shot_b"])), shown=_any_paraphrase
    ),
    "human": TableMaker(human, _MAIN, takes=lambda run: run.model in HUMANS),
}
