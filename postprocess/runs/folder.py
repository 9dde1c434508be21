"""Reads run folders: what the harness left behind, and nothing else.

A run folder holds `*_results.json` (how the run was made) and `*_samples_*.jsonl` (one row a
document). A record is taken only from the row's first metric, which alone carries it whole.
Whatever is wrong with a folder (a killed run, a task run twice, records of another version)
becomes a named problem, and the rest is read: this module must never drop a row without a word,
and never give up a folder for one bad file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from postprocess.benchmarks.base import of_task, owner
from postprocess.response.line import RECORD_VERSION, STATUSES
from postprocess.runs.identity import not_of_run
from postprocess.runs.names import flat_args, labels_of, parse_model_args, printable
from postprocess.runs.names import model_name as model_name
from postprocess.runs.shapes import record_fault, results_fault
from postprocess.secrets import redact_answer, without_secrets

Record: TypeAlias = dict[str, Any]

MAX_ROW_CHARS = 20_000_000
"""A longer line is refused: no document has so much text."""

_SAMPLES = re.compile(r"(?P<date>.+?)_samples_(?P<task>.+)\.jsonl\Z")
_RESULTS = re.compile(r"(?P<date>.+)_results\.json\Z")


class Problem(NamedTuple):
    """Something in a folder that the reader should know of."""

    where: str
    what: str

    def __str__(self) -> str:
        """One line.

        >>> str(Problem("out", "no samples"))
        'out: no samples'
        """
        return printable(f"{self.where}: {self.what}")


@dataclass(frozen=True)
class TaskRun:
    """One task as one model answered it."""

    task: str
    path: str
    """The sample file."""
    date: str
    """The harness's stamp of the invocation."""
    records: tuple[Record, ...]
    """In document order."""
    prompts: tuple[str, ...]
    """The text that was sent, one for each record."""
    complete: bool
    """Whether every document that the run chose has its row."""
    limit: float | None
    """The `--limit` of the invocation."""
    results: Mapping[str, Any] = field(repr=False)
    """What stands in the invocation's `*_results.json`; empty where that is lost."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The task's configuration as the harness resolved it; empty where that is lost."""
        return _mapping(_mapping(self.results.get("configs")).get(self.task))

    def values(self, key: str) -> tuple[Any, ...]:
        """The different values of one field over all records, sorted by their text."""
        return tuple(sorted({record.get(key) for record in self.records}, key=str))


@dataclass(frozen=True)
class Run:
    """One model and all the tasks that it answered."""

    label: str
    """A short name, unique among the runs that were read together."""
    model: str
    """The harness's model id, `unknown` where the results file is lost."""
    model_args: str
    folder: str
    tasks: Mapping[str, TaskRun]

    def records(self, task: str) -> tuple[Record, ...]:
        """The records of a task, none where it was not run."""
        return self.tasks[task].records if task in self.tasks else ()

    @property
    def arguments(self) -> dict[str, str]:
        """The model arguments by name."""
        return parse_model_args(self.model_args)


class Runs(NamedTuple):
    """All runs below some folders, and what was wrong there."""

    runs: tuple[Run, ...]
    problems: tuple[Problem, ...]


class _Invocation(NamedTuple):
    model: str
    model_args: str
    results: Mapping[str, Any]


def read_runs(folders: Iterable[str | Path]) -> Runs:
    """Read all runs below the folders.

    One model with one set of arguments is one run, however many invocations and folders it took;
    when two folders hold the same task of it, they stay two runs.

    Args:
        folders: `--output_path` folders of the harness, or folders above or below.

    Returns:
        The runs in order of folder and model, and every problem by file.
    """
    problems: list[Problem] = []
    found: list[tuple[_Invocation, Path, dict[str, TaskRun]]] = []
    for folder in dict.fromkeys(Path(f) for f in folders):
        for invocation, tasks in _read_folder(folder, problems):
            same = [
                known
                for known in found
                if known[0][:2] == invocation[:2]
                and invocation.model != "unknown"
                and not known[2].keys() & tasks.keys()
            ]
            if same:
                same[0][2].update(tasks)
            else:
                found.append((invocation, folder, tasks))
    labels = labels_of([(i.model, i.model_args, folder) for i, folder, _ in found])
    runs = tuple(
        Run(label, i.model, i.model_args, str(folder), dict(sorted(tasks.items())))
        for label, (i, folder, tasks) in zip(labels, found, strict=True)
    )
    return Runs(runs, tuple(problems))


def _read_folder(
    folder: Path, problems: list[Problem]
) -> Iterator[tuple[_Invocation, dict[str, TaskRun]]]:
    if not folder.is_dir():
        problems.append(Problem(str(folder), "no such folder"))
        return
    invocations: dict[tuple[Path, str], _Invocation] = {}
    samples: list[tuple[Path, str, str]] = []
    for path in sorted(p for p in folder.rglob("*.json*") if p.is_file()):
        if match := _RESULTS.match(path.name):
            read = _read_results(path, problems)
            if read is not None:
                invocations[path.parent, match["date"]] = read
        elif match := _SAMPLES.match(path.name):
            samples.append((path, match["date"], match["task"]))
    if not samples:
        problems.append(
            Problem(
                str(folder),
                "no sample logs (*_samples_*.jsonl): run lmms_eval with --output_path DIR and "
                "--log_samples",
            )
        )
    else:
        _name_unlogged(invocations, samples, problems)

    models: dict[tuple[str, str], tuple[_Invocation, dict[str, list[TaskRun]]]] = {}
    for path, date, task in samples:
        where = str(path)
        if of_task(task) is None:
            problems.append(Problem(where, "not a task of this suite; left out"))
            continue
        invocation = invocations.get((path.parent, date))
        if invocation is None:
            problems.append(
                Problem(where, "its *_results.json is missing: model and settings are unknown")
            )
            unnamed = path.parent.name if path.parent != folder else "unknown model"
            invocation = _Invocation("unknown", f"path={unnamed}", {})
        run = _read_samples(path, where, date, task, invocation.results, problems)
        if run is not None:
            known = models.setdefault(invocation[:2], (invocation, {}))
            known[1].setdefault(task, []).append(run)
    for invocation, tasks in models.values():
        yield invocation, {t: _one_of(candidates, problems) for t, candidates in tasks.items()}


def _name_unlogged(
    invocations: Mapping[tuple[Path, str], _Invocation],
    samples: Sequence[tuple[Path, str, str]],
    problems: list[Problem],
) -> None:
    logged = {(path.parent, date, task) for path, date, task in samples}
    for (parent, date), invocation in invocations.items():
        missing = [
            task
            for task in _mapping(invocation.results.get("configs"))
            if of_task(task) is not None and (parent, date, task) not in logged
        ]
        if missing:
            problems.append(
                Problem(
                    str(parent / f"{date}_results.json"),
                    f"no sample log of {', '.join(missing)}: the run was killed while writing, or "
                    "had no --log_samples",
                )
            )


def _one_of(candidates: list[TaskRun], problems: list[Problem]) -> TaskRun:
    """Of several runs of one task by one model: a complete one, then the newest."""
    best = max(candidates, key=lambda run: (run.complete, run.date, run.path))
    for other in candidates:
        if other is not best:
            problems.append(
                Problem(
                    other.path,
                    f"a second run of {other.task} by the same model; shown is {best.path}",
                )
            )
    return best


def _read_results(path: Path, problems: list[Problem]) -> _Invocation | None:
    try:
        results = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError) as error:
        problems.append(Problem(str(path), f"not readable as JSON ({error})"))
        return None
    if not isinstance(results, dict):
        problems.append(Problem(str(path), "not a JSON object"))
        return None
    fault = results_fault(results)
    if fault is not None:
        problems.append(Problem(str(path), f"{fault}; left out"))
        return None
    config = _mapping(results.get("config"))
    model = config.get("model")
    return _Invocation(
        printable(model) if isinstance(model, str) and model else "unknown",
        flat_args(config.get("model_args")),
        without_secrets(results),
    )


def _read_samples(
    path: Path,
    where: str,
    date: str,
    task: str,
    results: Mapping[str, Any],
    problems: list[Problem],
) -> TaskRun | None:
    rows: dict[tuple[Any, str], tuple[int, Record, str]] = {}
    faults: list[tuple[int, str]] = []
    lines = 0
    try:
        # Not splitlines: it would also cut at line breaks that JSON leaves inside a text.
        with path.open(encoding="utf-8", errors="replace") as stream:
            for lines, line in enumerate(stream, 1):
                row, fault = _read_row(line, task)
                # A circular task asks about one sample once a rotation.
                key = (row[1].get("sample_id"), str(row[1].get("rotation")))
                if fault is None and key in rows:
                    fault = f"sample {row[1]['sample_id']} a second time"
                if fault is None:
                    rows[key] = row
                elif fault:
                    faults.append((lines, fault))
    except OSError as error:
        problems.append(Problem(where, f"not readable ({error})"))
        return None

    foreign = not_of_run([record for _, record, _ in rows.values()], results)
    if foreign is not None:
        problems.append(Problem(where, foreign))
        return None
    chosen = _mapping(_mapping(results.get("n-samples")).get(task)).get("effective")
    expected = int(chosen) if isinstance(chosen, int | float) and chosen >= 1 else None
    for what in dict.fromkeys(what for _, what in faults):
        at = [str(line) for line, other in faults if other == what]
        listed = ", ".join(at[:5]) + (f" and {len(at) - 5} more" if len(at) > 5 else "")
        problems.append(Problem(f"{where}:{listed}", f"{what}; left out"))
    complete = not faults and (expected is None or len(rows) >= expected)
    if expected is not None and len(rows) < expected:
        problems.append(
            Problem(where, f"{len(rows)} of {expected} documents: the run was cut; run it again")
        )
    if not rows:
        if not lines:
            problems.append(Problem(where, "empty: the run was cut; run it again"))
        return None
    ordered = sorted(rows.values(), key=lambda row: row[0])
    limit = _mapping(results.get("config")).get("limit")
    return TaskRun(
        task,
        where,
        date,
        tuple(record for _, record, _ in ordered),
        tuple(prompt for _, _, prompt in ordered),
        complete,
        float(limit) if isinstance(limit, int | float) and limit else None,
        results,
    )


def _read_row(line: str, task: str) -> tuple[tuple[int, Record, str], str | None]:
    """A row's document number, record and prompt, or what is wrong ("" for a blank line)."""
    nothing: tuple[int, Record, str] = (0, {}, "")
    if not line.strip():
        return nothing, ""
    if len(line) > MAX_ROW_CHARS:
        return nothing, f"a row of more than {MAX_ROW_CHARS} characters"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        cut = not line.endswith("\n")
        return nothing, "the row is cut off (a killed run)" if cut else "not readable as JSON"
    if not isinstance(row, dict):
        return nothing, "not a JSON object"
    record = next((x for x in row.values() if isinstance(x, dict) and "record" in x), None)
    if record is None:
        return nothing, "no record of this suite in the row"
    if record["record"] != RECORD_VERSION or isinstance(record["record"], bool):
        return nothing, (
            f"a record of version {str(record['record'])[:20]!r}; this release reads version "
            f"{RECORD_VERSION}: use the release that wrote it, or run again"
        )
    fault = record_fault(record) or _record_fault(record, task)
    if fault is not None:
        return nothing, fault
    record["response"] = redact_answer(record.get("response") or "")
    number = row.get("doc_id")
    prompt = row.get("input")
    return (
        number if isinstance(number, int) else 0,
        record,
        prompt if isinstance(prompt, str) else "",
    ), None


def _record_fault(record: Record, task: str) -> str | None:
    for key in ("sample_id", "image_id"):
        if not isinstance(record.get(key), str) or not record[key]:
            return f"the record has no {key}"
    if record.get("task") != task:
        return f"a record of task {str(record.get('task'))[:60]!r} in a file of {task}"
    if record.get("status") not in STATUSES:
        return f"unknown status {str(record.get('status'))[:20]!r}"
    try:
        return owner(task).fault(record)
    except KeyError as error:
        return f"the record lacks {error}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
