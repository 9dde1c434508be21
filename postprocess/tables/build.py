"""The papers' tables with our numbers, computed from records alone.

Rows are models, cells are figures with intervals; beside them stand the paper's numbers, chance, an
always-No row, and, where a task was not run, the command that fills the cell. Figures over
different data or prompts never stand in one table unless that was asked for, and then the rows are
marked. Which tables there are, and who makes them, is asked of the benchmarks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from postprocess.benchmarks.base import TableMaker, benchmarks, owner
from postprocess.measure.stats import DRAWS
from postprocess.read.counts import note, read_by
from postprocess.runs.folder import Run, Runs, TaskRun
from postprocess.runs.identity import UNKNOWN, Identity, described, identity, why_not_together
from postprocess.runs.refused import results_only
from postprocess.tables.model import DEFAULT, FATES, RESCORED, Builder, Options, Table


class MixedError(ValueError):
    """Figures of different data or prompts were asked for in one table."""


def tables() -> dict[str, TableMaker]:
    """Every table of every benchmark, by name."""
    return {name: made for one in benchmarks().values() for name, made in one.tables.items()}


def build(name: str, runs: Runs, options: Options = DEFAULT) -> Table:
    """Build one table.

    Args:
        name: One of `tables()`.
        runs: What was read.
        options: How to compute.

    Raises:
        ValueError: No such table.
        MixedError: The runs differ in data or prompts, and `options.mix` is off.
    """
    known = tables()
    if name not in known:
        raise ValueError(f"no table {name!r}; known: {', '.join(known)}")
    maker, runs = known[name], results_only(runs)
    used = [
        (run, run.tasks[task])
        for run in runs.runs
        for task in run.tasks
        if task in maker.tasks and maker.takes(run)
    ]
    identities = identities_of(used, options.mix)
    selected = [*_mark_selection(used, identities.marks), *_mark_settings(used, identities.marks)]
    builder = Builder(name, runs.runs, options, identities.marks, maker.tasks)
    table = maker.make(builder)
    notes = [*identities.notes, *selected, *table.notes, *builder.remarks, *_limits(used)]
    notes += _same_pictures(used)
    notes += _read_by(used)
    if options.exclude and any(owner(task).second_view for task in maker.tasks):
        notes.append(
            "second view: answers without a verdict are left out here; the first view counts them "
            "as wrong"
        )
    if options.paper_style and any(
        cell.printed for row in table.rows for cell in row.cells.values()
    ):
        notes.append(
            "rates as the paper prints them: mean ± deviation over "
            f"{DRAWS} bootstrap draws of documents"
        )
    if options.inferred and any(owner(task).inferred_view for task in maker.tasks):
        notes.append(
            "second view: where an answer states no verdict, what a sentence of it decides counts "
            "here; the first view counts it as wrong"
        )
    notes.append(
        f"{100 * options.level:g}% intervals and tests are over pictures (docs/intervals.md); n "
        "beside a figure: the pictures it rests on, where the row's n is another"
    )
    return Table(
        name,
        table.title,
        table.heads,
        (*table.columns, *FATES),
        builder.filled(table.rows),
        tuple(notes),
        table.digits,
        runs.problems,
        {"level": options.level, "seed": options.seed},
    )


CHANGED = "‡"
"""Mark of rows that were not made with their task's own settings and prompt."""

SELECTED = "†"
"""Mark of rows whose model rests on an encoder that chose the data."""


class Identities(NamedTuple):
    """What the figures of several runs rest on, and how rows are marked where that differs."""

    marks: dict[tuple[str, str], str]
    """Mark by run label and task."""
    notes: list[str]


def identities_of(used: Sequence[tuple[Run, TaskRun]], mix: bool) -> Identities:
    """What data, prompts and settings the figures rest on; an error where they differ unasked."""
    settings = _settings_apart(used)
    data: dict[tuple[str, str], list[tuple[str, str]]] = {}
    prompts: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for run, task in used:
        place = (run.label, task.task)
        for record in task.records:
            kind = str(record.get("dataset_kind"))
            source = (kind, str(record.get("dataset_fingerprint")))
            if place not in data.setdefault(source, []):
                data[source].append(place)
            what, worded = owner(task.task).wording(record)
            places = prompts.setdefault(what, {}).setdefault(worded, [])
            if place not in places:
                places.append(place)
    # Every benchmark has a dataset of its own; within one, two are one too many.
    owners = [owner(place[1]).name for places in data.values() for place in places[:1]]
    mixed_data = len(owners) > len(set(owners))
    mixed_prompts = [what for what, wordings in prompts.items() if len(wordings) > 1]
    if (mixed_data or mixed_prompts or settings.why) and not mix:
        raise MixedError(_mixed_message(data, prompts, mixed_data, mixed_prompts, settings.why))

    notes: list[str] = []
    marks: dict[tuple[str, str], str] = {}
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    for (kind, fingerprint), places in sorted(data.items()):
        text = _data_text(kind, fingerprint)
        if mixed_data:
            letter = next(letters, "z")
            text = f"[{letter}] {text}"
            for place in places:
                marks[place] = marks.get(place, "") + letter
        notes.append(text)
    for what, wordings in sorted(prompts.items()):
        for worded, places in sorted(wordings.items()):
            if what in mixed_prompts:
                letter = next(letters, "z")
                notes.append(f"[{letter}] prompt: {worded}")
                for place in places:
                    marks[place] = marks.get(place, "") + letter
            elif not mixed_prompts:
                notes.append(f"prompt: {worded}")
    if settings.why:
        for made, places in settings.groups.items():
            letter = next(letters, "z")
            notes.append(f"[{letter}] {made}")
            for place in places:
                marks[place] = marks.get(place, "") + letter
        notes += settings.why
    if mixed_data or mixed_prompts or settings.why:
        notes.insert(0, "MIXED: rows with different marks are not comparable")
    return Identities(marks, notes)


class _Apart(NamedTuple):
    """What was made with settings, prompts or pictures that do not belong together."""

    groups: dict[str, list[tuple[str, str]]]
    """Places by the settings of their records, in words."""
    why: list[str]
    """Each difference, with a place of either side; empty where all belong together."""


def _settings_apart(used: Sequence[tuple[Run, TaskRun]]) -> _Apart:
    """Records whose settings differ, or whose sample was asked or shown otherwise.

    Data and the tasks' own wordings are compared apart; here is what `why_not_together` finds
    beyond them.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    kinds: dict[tuple[Any, ...], tuple[str, Identity]] = {}
    samples: dict[tuple[Any, ...], tuple[str, Identity]] = {}
    why: dict[str, None] = {}
    for run, task in used:
        place = (run.label, task.task)
        for record in task.records:
            one = identity(record)
            where = f"{run.label}/{task.task}"
            settled = (one.benchmark, one.data, one.form, one.wording)
            kinds.setdefault((*settled, one.settings, one.own), (where, one))
            made = f"settings of {one.form}: {described(one.settings)}"
            made += "" if one.own else " (not the task's own)"
            if place not in groups.setdefault(made, []):
                groups[made].append(place)
            known = samples.setdefault((*settled, one.task, one.sample), (where, one))
            reason = why_not_together(known[1], one) or ""
            if " for sample " in reason:
                why[f"{reason.partition(' for sample')[0]} differs ({known[0]}, {where})"] = None
    found = list(kinds.values())
    for i, (here, a) in enumerate(found):
        for there, b in found[:i]:
            reason = why_not_together(a, b) or ""
            if reason.startswith("settings"):
                why.setdefault(f"{reason} ({here}, {there})", None)
    return _Apart(groups, list(why))


def _mark_settings(
    used: Sequence[tuple[Run, TaskRun]], marks: dict[tuple[str, str], str]
) -> list[str]:
    """Mark the rows that were not made as their task says; gives the remarks."""
    notes: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for run, task in used:
        found = {(one.settings, one.own, one.run) for one in map(identity, task.records)}
        for settings, own, _ in sorted(found, key=str):
            if not own:
                marks[run.label, task.task] = marks.get((run.label, task.task), "") + CHANGED
                notes[
                    f"[{CHANGED}] {run.label}, {task.task}: settings or prompt are not the task's "
                    f"own: {described(settings)}"
                ] = None
        if any(made is None for _, _, made in found) and run.model != RESCORED:
            unknown[run.label] = None
    if unknown:
        notes[f"{UNKNOWN}: {', '.join(unknown)}"] = None
    return list(notes)


def _read_by(used: Sequence[tuple[Run, TaskRun]]) -> list[str]:
    """How the verdicts of each run came about."""
    records: dict[str, list[Mapping[str, Any]]] = {}
    for run, task in used:
        records.setdefault(run.label, []).extend(task.records)
    counts = {label: read_by(own) for label, own in records.items()}
    return [f"{label}: {note(own)}" for label, own in counts.items() if any(own)]


def _mark_selection(
    used: Sequence[tuple[Run, TaskRun]], marks: dict[tuple[str, str], str]
) -> list[str]:
    """Mark the rows of models that rest on an encoder which chose the data; gives the remark.

    M is chosen to be unlike its picture by an encoder; whoever judges with the same encoder looks
    good or bad by that choice alone.
    """
    shared: set[str] = set()
    for run, task in used:
        ours = task.results.get("config", {}).get("pragclash", {})
        chosen = ours.get("data", {}).get(owner(task.task).name, {}).get("encoders", [])
        common = set(chosen) & set(ours.get("encoders", []))
        if common:
            place = (run.label, task.task)
            marks[place] = marks.get(place, "") + SELECTED
            shared |= common
    if not shared:
        return []
    return [
        f"[{SELECTED}] the data was chosen with an encoder that this model uses "
        f"({', '.join(sorted(shared))}): its row is better or worse by that choice"
    ]


def wording(record: Mapping[str, Any]) -> str:
    """Which prompt a record was asked with; equal exactly where the prompts are comparable."""
    return owner(str(record.get("task"))).wording(record)[1]


def _data_text(kind: str, fingerprint: str) -> str:
    if fingerprint == "None":
        return "data: re-scored predictions; their dataset has no fingerprint"
    if kind == "sample":
        return f"data: the SAMPLE of pragclash ({fingerprint[:12]}), not a benchmark result"
    if kind == "custom":
        return f"data: custom ({fingerprint[:12]}): not comparable with the paper"
    return f"data: {kind} ({fingerprint[:12]})"


def _mixed_message(
    data: Mapping[tuple[str, str], Sequence[tuple[str, str]]],
    prompts: Mapping[str, Mapping[str, Sequence[tuple[str, str]]]],
    mixed_data: bool,
    mixed_prompts: Sequence[str],
    apart: Sequence[str],
) -> str:
    def where(places: Sequence[tuple[str, str]]) -> str:
        shown = ", ".join(f"{label}/{task}" for label, task in places[:3])
        return shown + (f" and {len(places) - 3} more" if len(places) > 3 else "")

    parts = []
    if mixed_data:
        parts += [
            f"{kind} data {fingerprint[:12]} ({where(places)})"
            for (kind, fingerprint), places in sorted(data.items())
        ]
    for what in mixed_prompts:
        parts += [f"prompt {w} ({where(places)})" for w, places in sorted(prompts[what].items())]
    parts += apart[:3]
    return (
        "figures of different data, prompts or settings do not belong in one table: "
        f"{'; '.join(parts)}. Choose among the --runs, or pass --mix to have the rows marked"
    )


def _same_pictures(used: Sequence[tuple[Run, TaskRun]]) -> list[str]:
    """What is said where one picture was shown under several ids, as if it were several."""
    notes = []
    for run, task in used:
        shown: dict[str, set[str]] = {}
        for record in task.records:
            if record.get("picture_sha"):
                shown.setdefault(str(record["picture_sha"]), set()).add(str(record["image_id"]))
        ids = sum(len(names) for names in shown.values())
        if len(shown) < ids:
            notes.append(
                f"{run.label}, {task.task}: {ids} image ids show {len(shown)} distinct pictures: "
                "its intervals are too narrow; pragclash validate names them"
            )
    return notes


def _limits(used: Sequence[tuple[Run, TaskRun]]) -> list[str]:
    notes = []
    for run, task in used:
        if task.limit is not None:
            notes.append(f"{run.label}, {task.task}: only --limit {task.limit:g} documents")
        elif not task.complete:
            notes.append(f"{run.label}, {task.task}: the run is incomplete")
    return notes
