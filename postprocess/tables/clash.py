"""The CLASH paper's tables: both forms, judges, categories, and fine-tuning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from postprocess.benchmarks.base import TableMaker
from postprocess.measure import clash as clash_metrics
from postprocess.measure import judges as judging
from postprocess.measure.clash import METRICS, ClashAnswer
from postprocess.measure.metric import Frame as Laid
from postprocess.measure.metric import Metric, Rate, by_picture
from postprocess.measure.paper_bootstrap import paper_bootstrap
from postprocess.measure.stats import DRAWS
from postprocess.read.matching import JUDGE_LABELS
from postprocess.read.suspicious import signs_of
from postprocess.runs.folder import Run
from postprocess.tables import papers
from postprocess.tables.model import (
    ALWAYS_NO,
    CHANCE,
    Builder,
    Cell,
    Column,
    Draft,
    Row,
    columns_of,
    count,
    fate_cells,
    fixed_row,
)

NEVER_A_CONFLICT = f"{ALWAYS_NO} conflict (the picture's answer)"
"""The row of a model that answers what the picture shows, whatever the caption says."""

_FALSE_ALARMS = (
    "false alarms: conflict flagged although the caption is true (the task's _original form); a "
    "conflict rate without it misleads"
)
_ALARMS = Column("false_alarms", "false alarms", always_no=0.0)
_SUSPICIOUS = (
    "suspicious: answers that the paper's matching may read otherwise than a person would (a "
    "conflict only under a negation, other words for one, ...); they change no figure"
)
_COUNTS = (
    Column("n", "n", "count"),
    Column("left_out", "left out", "count"),
    Column("suspicious", "suspicious", "count"),
)
_MC = (
    *columns_of(METRICS, "conflict", "image", "text", "distractor", "unusable=unusable_rate"),
    _ALARMS,
    *columns_of(METRICS, "conflict_relaxed", "letter_prob=letter_prob_acc"),
    *_COUNTS,
)
_OPEN = (
    *columns_of(METRICS, "conflict", "image", "text", "none", "overlap=overlap_rate"),
    _ALARMS,
    *_COUNTS,
)
_QUARTERS = ("conflict", "image", "text", "distractor", "false_alarms", "letter_prob")


def _counts(build: Builder, run: Run, task: str) -> dict[str, Cell]:
    if task not in run.tasks:
        return {column.key: build.missing(run, task) for column in _COUNTS}
    frame = build.frame(run, task)
    suspicious = sum(bool(signs_of(record)) for record in run.records(task))
    counts = {"n": len(run.records(task)), "left_out": frame.left_out, "suspicious": suspicious}
    return {name: count(n) for name, n in counts.items()}


def _on_original(build: Builder, run: Run, task: str, metric: str) -> Cell:
    """A figure of the true captions."""
    original = f"{task}_original"
    if original not in run.tasks:
        return build.missing(run, original)
    cell = Cell(build.figures(run, original).get(metric))
    return _printed(build, METRICS[metric], build.frame(run, original), cell)


def _cells(build: Builder, run: Run, task: str, columns: Iterable[Column]) -> dict[str, Cell]:
    """The columns that show a metric of a task, printed as the paper does where that is asked."""
    cells = build.cells(run, task, columns)
    if task not in run.tasks:
        return cells
    frame, shown = build.frame(run, task), {c.key: c.metric for c in columns if c.metric}
    return {key: _printed(build, METRICS[shown[key]], frame, cell) for key, cell in cells.items()}


def _printed(build: Builder, metric: Metric, laid: Laid, cell: Cell) -> Cell:
    """The cell with the paper's mean and deviation; other figures than rates stay as they are."""
    if not build.options.paper_style or not isinstance(metric.formula, Rate):
        return cell
    if cell.estimate is None or cell.estimate.value is None:
        return cell
    held, n = (round(float(values.sum())) for values in metric.formula.counts(laid))
    flags = [0] * (n - held) + [1] * held
    (one,) = paper_bootstrap(flags, DRAWS, build.options.seed)
    if one.mean is None or one.sd is None:
        return cell
    return cell._replace(printed=f"{100 * one.mean:.2f} ± {100 * one.sd:.2f}")


def _form(
    build: Builder, task: str, title: str, columns: tuple[Column, ...], chance: Mapping[str, float]
) -> Draft:
    rows = [fixed_row((CHANCE,), chance)] if chance else []
    rows += _baselines(columns)
    for run in build.runs:
        cells = _cells(build, run, task, columns) | _counts(build, run, task)
        cells["false_alarms"] = _on_original(build, run, task, "conflict")
        rows.append(build.row(run, (), cells, (task, f"{task}_original")))
    notes = (f"{papers.CLASH}, whose n is 1,281", _FALSE_ALARMS, _SUSPICIOUS)
    return Draft(title, ("model",), columns, (*rows, *build.paper_rows()), notes, 2)


def _baselines(columns: Iterable[Column], more: int = 0) -> list[Row]:
    """A model that never sees a conflict, and one that always does."""
    known = {c.key: c.always_no for c in columns if c.always_no is not None}
    always = {key: float(key.startswith(("conflict", "false_alarms"))) for key in known}
    empty = ("",) * more
    return [
        fixed_row((NEVER_A_CONFLICT, *empty), known),
        fixed_row(("always a conflict", *empty), always),
    ]


def clash_mc(build: Builder) -> Draft:
    """Multiple choice: the five outcomes, false alarms, and two second views."""
    chance = dict.fromkeys(_QUARTERS, 0.25)
    return _form(build, "clash_mc", "CLASH, multiple choice", _MC, chance)


def clash_open(build: Builder) -> Draft:
    """Open questions: the four official flags, their overlaps, and false alarms."""
    return _form(build, "clash_open", "CLASH, open questions", _OPEN, {})


_JUDGED = (
    *columns_of(METRICS, "conflict", "image", "text", "none"),
    Column("exact", "exact agreement"),
    Column("kappa", "kappa with matching", "number"),
    Column("n", "n judged", "count"),
    Column("left_out", "unjudged", "count"),
)


def clash_judge(build: Builder) -> Draft:
    """What each judge, at least one and both make of the open answers."""
    rows = _baselines(_JUDGED, 1)
    reasons: dict[str, None] = {}
    for run in build.runs:
        task = "clash_open_judge" if "clash_open_judge" in run.tasks else "clash_open"
        answers = build.answers(run, task)
        labels = [answer.judges or {} for answer in answers]
        if not any(labels):
            cells = {c.key: build.missing(run, "clash_open_judge") for c in _JUDGED}
            cells |= fate_cells(run, (task,))
            rows.append(Row((run.label, ""), "model", cells, build.marks(run, (task,))))
            continue
        frame, marks = build.frame(run, task), build.marks(run, (task,))
        cells = build.cells(run, task, _JUDGED[:4])
        cells |= {"n": count(len(answers)), "left_out": count(0), **fate_cells(run, (task,))}
        rows.append(Row((run.label, "matching rule"), "model", cells, marks))
        views: dict[str, tuple[str, Metric | None]] = {
            name: (f"by.{name}", _kappa_of(name)) for name in judging.named(labels)
        }
        together = judging.combined(labels, build.options.judges)
        told = judging.described(labels, build.options.judges)
        reasons[f"{run.label}: at least one, and all, of {told}"] = None
        if len(together.names) > 1:
            every = "both" if len(together.names) == 2 else f"all {len(together.names)}"
            views |= {"at least one": ("judge", None), every: ("every", None)}
        for judge, (prefix, kappa) in views.items():
            outcomes = [_judged(prefix, outcome) for outcome in JUDGE_LABELS.values()]
            found = build.of([*outcomes, *([kappa] if kappa else [])], frame)
            cells = {key: Cell(estimate) for key, estimate in found.items()}
            if kappa is not None:
                exact = build.of([_EXACT], _agreed(answers, judge))
                cells["exact"] = Cell(exact["exact"])
            n = int(frame[f"n.{prefix}.conflict"].sum())
            cells |= {"n": count(n), "left_out": count(len(answers) - n)}
            rows.append(Row((run.label, judge), "model", cells, marks))
    notes = (
        f"{papers.CLASH}; judges see the two answers and the prediction, not the question",
        "exact agreement: all four flags of the matching rule are those of the judge's one label",
        "rates are out of the answers judged; an unjudged answer is never counted as none",
        *reasons,
    )
    return Draft("CLASH, judged", ("model", "judge"), _JUDGED, tuple(rows), notes, 2)


_EXACT = Metric(
    "exact",
    "exact agreement",
    "Share of judged answers for which the rule's four flags are the judge's label",
    "documents",
    Rate("exact", "n.exact"),
    kind="rate",
)


def _agreed(answers: Sequence[ClashAnswer], judge: str) -> Laid:
    """Whether all four flags of the rule are those of a judge's label, by picture."""
    agreed: list[float | None] = []
    for answer in answers:
        label = (answer.judges or {}).get(judge)
        said = JUDGE_LABELS.get(label or "")
        flags = {name: getattr(answer, name) for name in JUDGE_LABELS.values()}
        same = all(bool(flag) == (name == said) for name, flag in flags.items())
        agreed.append(None if label is None else float(same))
    return Laid(*by_picture([answer.image_id for answer in answers], {"exact": agreed}))


def _judged(prefix: str, outcome: str) -> Metric:
    column = f"{prefix}.{outcome}"
    formula = Rate(column, f"n.{column}")
    return Metric(outcome, outcome, "", "documents", formula, kind="rate")


def _kappa_of(judge: str) -> Metric:
    return Metric(
        "kappa",
        "kappa with matching",
        "",
        "documents",
        clash_metrics.kappa_of(judge),
        kind="number",
    )


def clash_categories(build: Builder) -> Draft:
    """Conflict rate by category, for both forms."""
    forms = {"multiple choice": "clash_mc", "open": "clash_open"}
    names = ("object", "attribute", *clash_metrics.CATEGORY_NAMES)
    found: dict[tuple[str, str], dict[str, Cell]] = {}
    for run in build.runs:
        for task in forms.values():
            if task in run.tasks:
                frame = clash_metrics.frame(
                    build.answers(run, task), dedouble=build.options.paper_compat
                )
                made = build.of([METRICS[f"conflict_{name}"] for name in names], frame)
                cells = {
                    name: _printed(
                        build,
                        METRICS[f"conflict_{name}"],
                        frame,
                        Cell(made[f"conflict_{name}"]),
                    )
                    for name in names
                }
                found[run.label, task] = {
                    name: cell for name, cell in cells.items() if cell.estimate and cell.estimate.n
                }
    known = {name for cells in papers.CLASH_CATEGORIES.values() for name in cells}
    known |= {name for cells in found.values() for name in cells}
    shown = columns_of(METRICS, *(f"{name}=conflict_{name}" for name in names if name in known))
    columns = (*shown, *_COUNTS)
    rows = [fixed_row((NEVER_A_CONFLICT, ""), {column.key: 0.0 for column in shown})]
    for run in build.runs:
        for form, task in forms.items():
            if task in run.tasks:
                cells = {c.key: found[run.label, task].get(c.key, Cell()) for c in shown}
            else:
                cells = {c.key: build.missing(run, task) for c in shown}
            cells |= _counts(build, run, task)
            rows.append(build.row(run, (form,), cells, (task,)))
    view = (
        "samples in two categories are dropped, as in the paper"
        if build.options.paper_compat
        else "a sample in two categories counts in both; the paper drops it (--paper-compat)"
    )
    notes = (f"{papers.CLASH}; conflict rate by category", view, _SUSPICIOUS)
    title = "CLASH, conflict by category"
    return Draft(title, ("model", "form"), columns, (*rows, *build.paper_rows()), notes, 2)


_FINETUNE = (
    *columns_of(METRICS, "conflict"),
    Column("image_on_originals", "image on true captions"),
    Column("overall", "overall"),
    *columns_of(METRICS, "incorrect=none"),
    _ALARMS,
    *_COUNTS,
)
_FINETUNE = tuple(
    column._replace(title="incorrect") if column.key == "incorrect" else column
    for column in _FINETUNE
)
_OVERALL = Metric(
    "overall",
    "overall",
    "Conflict on conflicting and the picture's answer on true captions together",
    "documents",
    Rate("overall", "n.overall"),
    kind="rate",
)


def clash_finetune(build: Builder) -> Draft:
    """Base and tuned models on conflicting and on true captions."""
    task, original = "clash_open", "clash_open_original"
    no = {"conflict": 0.0, "image_on_originals": 1.0, "overall": 0.5, "false_alarms": 0.0}
    yes = {"conflict": 1.0, "image_on_originals": 0.0, "overall": 0.5, "false_alarms": 1.0}
    rows = [fixed_row((NEVER_A_CONFLICT,), no), fixed_row(("always a conflict",), yes)]
    for run in build.runs:
        cells = _cells(build, run, task, _FINETUNE) | _counts(build, run, task)
        cells["image_on_originals"] = _on_original(build, run, task, "image")
        cells["false_alarms"] = _on_original(build, run, task, "conflict")
        lacking = [t for t in (task, original) if t not in run.tasks]
        for lacked in lacking:
            cells["overall"] = build.missing(run, lacked)
        if not lacking:
            both = _both_captions(build, run)
            overall = Cell(build.of([_OVERALL], both)["overall"])
            cells["overall"] = _printed(build, _OVERALL, both, overall)
        rows.append(build.row(run, (), cells, (task, original)))
    notes = (
        f"{papers.CLASH}; overall: conflict on conflicting and image on true captions together; "
        "incorrect: nothing recognised on conflicting captions",
        f"{_FALSE_ALARMS}; the paper does not print it",
        _SUSPICIOUS,
    )
    return Draft(
        "CLASH, fine-tuning", ("model",), _FINETUNE, (*rows, *build.paper_rows()), notes, 2
    )


def _both_captions(build: Builder, run: Run) -> Laid:
    """Both captions of each picture: right is the conflict of one, the picture's answer of one."""
    answers = [*build.answers(run, "clash_open"), *build.answers(run, "clash_open_original")]
    right = [a.conflict if a.caption_kind == "conflicting" else a.image for a in answers]
    return Laid(*by_picture([a.image_id for a in answers], {"overall": right}))


def _any_judged(runs: Sequence[Run]) -> bool:
    tasks = ("clash_open_judge", "clash_open")
    return any(r.get("judges") for run in runs for task in tasks for r in run.records(task)[:50])


def _any_tuned(runs: Sequence[Run]) -> bool:
    return any({"clash_open", "clash_open_original"} <= run.tasks.keys() for run in runs)


TABLES = {
    "clash-mc": TableMaker(clash_mc, ("clash_mc", "clash_mc_original")),
    "clash-open": TableMaker(clash_open, ("clash_open", "clash_open_original")),
    "clash-judge": TableMaker(clash_judge, ("clash_open_judge", "clash_open"), shown=_any_judged),
    "clash-categories": TableMaker(clash_categories, ("clash_mc", "clash_open")),
    "clash-finetune": TableMaker(
        clash_finetune, ("clash_open", "clash_open_original"), shown=_any_tuned
    ),
}
