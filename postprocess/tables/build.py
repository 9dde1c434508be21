"""`pragclash tables`: the papers' tables with our numbers, computed from records alone.

Rows are models, cells are figures with intervals; beside them stand the paper's numbers, chance, an
always-No row, and, where a task was not run, the command that fills the cell. Figures over
different data or prompts never stand in one table unless that was asked for, and then the rows are
marked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from postprocess.measure import stats
from postprocess.runs.folder import Problem, Run, Runs, TaskRun, read_runs
from postprocess.tables import clash as clash_tables
from postprocess.tables import pragmatch as pragmatch_tables
from postprocess.tables.model import (
    CUES,
    DEFAULT,
    HUMANS,
    PROMPT_TITLES,
    PROMPTS,
    Builder,
    Draft,
    Options,
    Table,
)


class MixedError(ValueError):
    """Figures of different data or prompts were asked for in one table."""


def build(name: str, runs: Runs, options: Options = DEFAULT) -> Table:
    """Build one table.

    Args:
        name: One of `TABLES`.
        runs: What was read.
        options: How to compute.

    Raises:
        ValueError: No such table.
        MixedError: The runs differ in data or prompts, and `options.mix` is off.
    """
    if name not in TABLES:
        raise ValueError(f"no table {name!r}; known: {', '.join(TABLES)}")
    maker, tasks = TABLES[name]
    used = [
        (run, run.tasks[task])
        for run in runs.runs
        for task in run.tasks
        if task in tasks and (name != "human" or run.model in HUMANS)
    ]
    identities = identities_of(used, options.mix)
    selected = _mark_selection(used, identities.marks)
    builder = Builder(runs.runs, options, identities.marks, tasks)
    table = maker(builder)
    notes = [*identities.notes, *selected, *table.notes, *_limits(used)]
    if options.exclude and not name.startswith("clash"):
        notes.append(
            "second view: answers without a verdict are left out here; the first view counts them "
            "as wrong"
        )
    level = f"{100 * options.level:g}"
    notes.append(
        f"{level}% intervals: Wilson for rates with one unit a picture, else a bootstrap over "
        f"pictures ({options.draws} resamples, seed {options.seed})"
    )
    return Table(
        name,
        table.title,
        table.heads,
        table.columns,
        builder.filled(table.rows),
        tuple(notes),
        table.digits,
        runs.problems,
        {"level": options.level, "draws": options.draws, "seed": options.seed},
    )


SELECTED = "†"
"""Mark of rows whose model rests on an encoder that chose the data."""


class Identities(NamedTuple):
    """What the figures of several runs rest on, and how rows are marked where that differs."""

    marks: dict[tuple[str, str], str]
    """Mark by run label and task."""
    notes: list[str]


def identities_of(used: Sequence[tuple[Run, TaskRun]], mix: bool) -> Identities:
    """What data and prompts the figures rest on; an error where they differ unasked."""
    data: dict[tuple[str, str], list[tuple[str, str]]] = {}
    prompts: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for run, task in used:
        place = (run.label, task.task)
        for record in task.records:
            kind = str(record.get("dataset_kind"))
            source = (kind, str(record.get("dataset_fingerprint")))
            if place not in data.setdefault(source, []):
                data[source].append(place)
            # CLASH has one wording a form, PragMatch one a prompt name.
            what = str(record.get("form") or record.get("prompt"))
            places = prompts.setdefault(what, {}).setdefault(wording(record), [])
            if place not in places:
                places.append(place)
    # The two benchmarks have a dataset each; within one, two are one too many.
    benchmarks = [place[1].partition("_")[0] for places in data.values() for place in places[:1]]
    mixed_data = len(benchmarks) > len(set(benchmarks))
    mixed_prompts = [what for what, wordings in prompts.items() if len(wordings) > 1]
    if (mixed_data or mixed_prompts) and not mix:
        raise MixedError(_mixed_message(data, prompts, mixed_data, mixed_prompts))

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
    if mixed_data or mixed_prompts:
        notes.insert(0, "MIXED: rows with different marks are not comparable")
    return Identities(marks, notes)


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
        benchmark = task.task.partition("_")[0]
        chosen = ours.get("data", {}).get(benchmark, {}).get("encoders", [])
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
    if record.get("form"):
        digest = str(record.get("prompt_hash") or "unknown")[:12]
        return f"{record.get('form')}: {record.get('prompt')} ({digest})"
    name = PROMPT_TITLES.get(str(record.get("prompt")), str(record.get("prompt")))
    return f"{name}, version {record.get('prompt_version')}"


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
    return (
        f"figures of different data or prompts do not belong in one table: {'; '.join(parts)}. "
        "Choose among the --runs, or pass --mix to have the rows marked"
    )


def _limits(used: Sequence[tuple[Run, TaskRun]]) -> list[str]:
    notes = []
    for run, task in used:
        if task.limit is not None:
            notes.append(f"{run.label}, {task.task}: only --limit {task.limit:g} documents")
        elif not task.complete:
            notes.append(f"{run.label}, {task.task}: the run is incomplete")
    return notes


def _cued(*families: str) -> list[str]:
    return [f"pragmatch_{family}_{cue}" for family in families for cue in CUES]


def _with(names: Iterable[str], suffixes: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{name}{suffix}" for name in names for suffix in suffixes)


_MAIN = ("pragmatch_pml", "pragmatch_pm")
_EDITS = _cued("p_minus", "m_plus", "p_minus_m_plus")
TABLES: dict[str, tuple[Callable[[Builder], Draft], tuple[str, ...]]] = {
    "table1": (pragmatch_tables.table1, _with(_MAIN, PROMPTS.values())),
    "table3": (
        pragmatch_tables.table3,
        _with(_EDITS, ("", "_cot")),
    ),
    "table4": (
        pragmatch_tables.table4,
        _with([*_MAIN, *_cued("p_minus_m_plus")], ("", "_cot", "_text_only", "_text_only_cot")),
    ),
    "clash-mc": (clash_tables.clash_mc, ("clash_mc", "clash_mc_original")),
    "clash-open": (clash_tables.clash_open, ("clash_open", "clash_open_original")),
    "clash-judge": (clash_tables.clash_judge, ("clash_open_judge", "clash_open")),
    "clash-categories": (clash_tables.clash_categories, ("clash_mc", "clash_open")),
    "clash-finetune": (clash_tables.clash_finetune, ("clash_open", "clash_open_original")),
    "human": (pragmatch_tables.human, _MAIN),
}
"""Every table: who makes it, and the tasks it is made of."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash tables`."""
    parser.add_argument("table", choices=list(TABLES), help="which table")
    parser.add_argument(
        "--runs", nargs="+", type=Path, required=True, metavar="DIR", help="run folders"
    )
    parser.add_argument(
        "--format", choices=("md", "latex", "csv", "json"), default="md", help="default: md"
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write there, not to the screen")
    parser.add_argument("--force", action="store_true", help="overwrite --out")
    add_computing_arguments(parser)
    parser.add_argument(
        "--paper-compat",
        action="store_true",
        help="clash-categories: drop samples that are in two categories, as the paper does",
    )


def add_computing_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments on how figures are computed, shared by several commands."""
    parser.add_argument(
        "--mix", action="store_true", help="allow different data and prompts, and mark the rows"
    )
    parser.add_argument(
        "--exclude",
        action="store_true",
        help="second view of PragMatch: leave answers without a verdict out",
    )
    parser.add_argument("--draws", type=_positive, default=stats.DRAWS, help="bootstrap resamples")
    parser.add_argument("--seed", type=int, default=stats.SEED, help="seed of the bootstrap")


def _positive(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 100_000:
        raise argparse.ArgumentTypeError("between 1 and 100000")
    return value


def options_of(args: argparse.Namespace) -> Options:
    """The options that parsed arguments ask for."""
    return Options(
        mix=args.mix,
        exclude=args.exclude,
        paper_compat=getattr(args, "paper_compat", False),
        draws=args.draws,
        seed=args.seed,
    )


def run(args: argparse.Namespace) -> int:
    """Print or write a table.

    Returns:
        0; 1 where the runs must not stand in one table or the file exists; 2 without any run.
    """
    from postprocess.tables.formats import render

    if args.out and args.out.exists() and not args.force:
        print(f"pragclash tables: {args.out} exists; --force overwrites it", file=sys.stderr)
        return 1
    runs = read_runs(args.runs)
    tell(runs.problems, "tables")
    if not runs.runs:
        print("pragclash tables: no records in these folders", file=sys.stderr)
        return 2
    try:
        table = build(args.table, runs, options_of(args))
    except MixedError as error:
        print(f"pragclash tables: {error}", file=sys.stderr)
        return 1
    text = render(table, "json" if args.json else args.format)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text, encoding="utf-8", errors="replace")
    else:
        sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8"))
    return 0


def tell(problems: Iterable[Problem], command: str) -> None:
    """Print problems to standard error, a line each."""
    for problem in problems:
        print(f"pragclash {command}: {problem}", file=sys.stderr)
