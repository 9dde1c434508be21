"""Regenerates the CLASH paper's tables from the predictions that its authors released.

Each cell is computed by our rules and compared twice: with the number that the paper prints, where
it is known here, and with the same cell computed from the flags that the release itself stores. A
cell that is off fails, unless `reproduce_reasons.json` explains it. Only what the files cover is
regenerated; what they do not cover is never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from postprocess.measure import judges
from postprocess.measure.clash import CATEGORY_NAMES, category_name
from postprocess.measure.paper_bootstrap import paper_bootstrap
from postprocess.read.matching import JUDGE_LABELS
from postprocess.runs.checking import FLAGS
from postprocess.runs.prediction_files import Sample, Source
from postprocess.runs.prediction_rows import Row
from postprocess.runs.rescoring import Record, Scored, score
from postprocess.tables import papers
from postprocess.tables.setting import paper_row, papers_setting, released_adapter

TOLERANCE = 0.2
"""Percentage points: the paper prints means of an unseeded bootstrap."""

MC, OPEN = "main, multiple choice", "main, open questions"
CATEGORIES = {"mc": "categories, multiple choice", "open": "categories, open questions"}
ORIGINAL, JUDGES = "original captions", "judges"
AGREEMENT, TUNED = "agreement of rule and judge", "fine-tuned"
TABLES = (MC, OPEN, *CATEGORIES.values(), ORIGINAL, JUDGES, AGREEMENT, TUNED)

Flags = Mapping[str, bool]
Line = Mapping[str, "bool | None"]
"""One document's part in a row's cells, by column; None where it is not known."""


class Document(NamedTuple):
    """One prediction as we read it, and as the release stored it."""

    image_id: str
    ours: Flags
    stored: Flags
    judges: Mapping[str, tuple[Flags, Flags]]
    """By judge, the flags of its label as we read it, and as they are stored."""


class Cell(NamedTuple):
    """One cell of a published table; rates in percent."""

    table: str
    model: str
    column: str
    n: int
    ours: float
    """The plain rate."""
    mean: float
    """Mean over the bootstrap's draws, as the paper prints it."""
    sd: float
    """Standard deviation over them."""
    released: float | None
    """From the flags that the release stores; None where some row lacks them."""
    paper: float | None
    """As printed; None where this project does not know the cell."""
    reason: str
    """Why the cell may be off; empty where it may not."""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, in percentage points; less the release's where that is unknown."""
        other = self.released if self.paper is None else self.paper
        return None if other is None else self.ours - other

    @property
    def off(self) -> bool:
        """Whether the cell differs from what was published, and nothing explains it."""
        wrong = self.paper is not None and abs(self.ours - self.paper) > TOLERANCE
        wrong |= self.released is not None and abs(self.ours - self.released) > 1e-9
        return wrong and not self.reason


class Reproduced(NamedTuple):
    """The tables, cell by cell, and what else the reader should know."""

    cells: list[Cell]
    remarks: list[str]


def reproduce(
    sources: Sequence[Source], samples: Sequence[Sample], *, draws: int, seed: int
) -> Reproduced:
    """Every cell of every published table that the files cover.

    Args:
        sources: The released files of predictions.
        samples: The samples of the test file, for the categories; none leaves that table out.
        draws: Resamples of the paper's bootstrap.
        seed: Seed of the resamples.
    """
    models = score(sources, draws=1, seed=seed)
    main = {papers.paper_model(one.name) for one in models if not _tuning(one)}
    cells: list[Cell] = []
    remarks = []
    for one in models:
        lost = sum(len(file.faults) for file in one.files)
        if lost:
            remarks.append(f"{one.name}: {lost} rows cannot be read and are left out")
        paper, adapter = papers.paper_model(one.name), released_adapter(one.name)
        documents = _documents(one)
        n = max(map(len, documents.values()), default=0)
        why = papers_setting(
            paper, n=n, dataset_kind=None, prompt=None, adapter=adapter, released=True
        )
        if why:
            remarks.append(f"{one.name}: {why}; no cell of the paper stands beside it")
        name = paper_row(paper or one.name, adapter)
        again = _tuning(one) and paper in main
        for table, model, lines in _rows(name, documents, samples, adapter is None and not again):
            known = {} if why else _known(table, name)
            cells += _cells(table, model, lines, known, draws, seed)
    return Reproduced(sorted(cells, key=lambda cell: TABLES.index(cell.table)), remarks)


def _tuning(one: Scored) -> bool:
    """Whether all files of a model lie among the fine-tuning experiment's."""
    return all("finetune" in Path(file.source.path).parts for file in one.files)


def _known(table: str, name: str) -> Mapping[str, papers.Reference]:
    """The paper's cells of a row."""
    if table == CATEGORIES["mc"]:
        return papers.CLASH_CATEGORIES.get((name, "multiple choice"), {})
    known = {MC: papers.CLASH_MC, OPEN: papers.CLASH_OPEN, TUNED: papers.CLASH_FINETUNE}
    return known[table].get((name,), {}) if table in known else {}


def _documents(one: Scored) -> dict[str, list[Document]]:
    out: dict[str, list[Document]] = {}
    for row, record in one.records:
        out.setdefault(record["task"], []).append(_document(row, record))
    return out


def _document(row: Row, record: Record) -> Document:
    form = FLAGS[record["form"]]
    stored = {
        name: bool(row.stored[f"flag_{name}"]) for name in form if f"flag_{name}" in row.stored
    }
    if record["form"] == "mc" and len(stored) == len(form) - 1:
        stored["unusable"] = not any(stored.values())
    judges = {}
    for name, judgement in row.judges.items():
        said = JUDGE_LABELS.get(judgement.label or "")
        if judgement.label is not None:
            judges[name] = {x: x == said for x in FLAGS["open"]}, judgement.stored
    return Document(
        str(record["image_id"]),
        {name: bool(record[f"flag_{name}"]) for name in form},
        stored,
        judges,
    )


Lines = Sequence[tuple[Line, Line]]
"""A row's documents, by our rules and as stored."""


def _rows(
    name: str, documents: Mapping[str, Sequence[Document]], samples: Sequence[Sample], main: bool
) -> Iterable[tuple[str, str, Lines]]:
    """The rows of all tables that a model's documents fill."""
    for form, table in (("mc", MC), ("open", OPEN)):
        shown, true = (
            documents.get(f"clash_{form}", ()),
            documents.get(f"clash_{form}_original", ()),
        )
        if main:
            yield table, name, [(x.ours, _whole(x.stored, x.ours)) for x in shown]
            yield CATEGORIES[form], name, list(_by_category(shown, samples))
        yield ORIGINAL, f"{name}, {form}", [(x.ours, _whole(x.stored, x.ours)) for x in true]
    shown, true = documents.get("clash_open", ()), documents.get("clash_open_original", ())
    if (name,) in papers.CLASH_FINETUNE or true:
        conflicting: Lines = [
            (
                {"conflict": x.ours["conflict"], "incorrect": x.ours["none"]},
                {"conflict": x.stored.get("conflict"), "incorrect": x.stored.get("none")},
            )
            for x in shown
        ]
        image: Lines = [
            (
                {"image on true captions": x.ours["image"]},
                {"image on true captions": x.stored.get("image")},
            )
            for x in true
        ]
        overall = [
            ({"overall": x.ours["conflict"]}, {"overall": x.stored.get("conflict")}) for x in shown
        ]
        overall += [
            ({"overall": x.ours["image"]}, {"overall": x.stored.get("image")}) for x in true
        ]
        yield TUNED, name, conflicting
        yield TUNED, name, image
        yield TUNED, name, overall if shown and true else []
    for judge in sorted({judge for x in shown for judge in x.judges}):
        pairs = [(x, *x.judges[judge]) for x in shown if judge in x.judges]
        yield (
            JUDGES,
            f"{name}, {judge}",
            [(ours, _whole(stored, ours)) for _, ours, stored in pairs],
        )
        yield (
            AGREEMENT,
            f"{name}, {judge}",
            [
                (
                    {"all four flags equal": x.ours == ours},
                    {
                        "all four flags equal": x.stored == stored
                        if _all(x.stored, stored)
                        else None
                    },
                )
                for x, ours, stored in pairs
            ],
        )
    both = [x for x in shown if set(judges.PAPER) <= x.judges.keys()]
    for title, combine in (("at least one", any), ("both", all)):
        lines = []
        for x in both:
            sides = []
            for side in (0, 1):
                labels = [x.judges[judge][side] for judge in judges.PAPER]
                sides.append(
                    {flag: combine(one.get(flag) for one in labels) for flag in FLAGS["open"]}
                )
            lines.append((sides[0], sides[1]))
        yield JUDGES, f"{name}, {title} of {' and '.join(judges.PAPER)}", lines


def _all(*stored: Flags) -> bool:
    """Whether all four flags of an open answer are stored, of each."""
    return all(set(FLAGS["open"]) <= one.keys() for one in stored)


def _whole(stored: Flags, ours: Flags) -> Line:
    """Stored flags under all of our names, None for each that is not stored."""
    return {name: stored.get(name) for name in ours}


def _by_category(
    shown: Sequence[Document], samples: Sequence[Sample]
) -> Iterable[tuple[Line, Line]]:
    """Conflict by category as the paper counts.

    No sample of two categories counts; each sample of a picture has the picture's one prediction.
    """
    by_picture = {x.image_id: x for x in shown}
    for sample in samples:
        if sample.image_id in by_picture and len(sample.categories) == 1:
            x = by_picture[sample.image_id]
            column = category_name(sample.categories[0], sample.change_type)
            yield {column: x.ours["conflict"]}, {column: x.stored.get("conflict")}


def _cells(
    table: str,
    model: str,
    lines: Lines,
    known: Mapping[str, papers.Reference],
    draws: int,
    seed: int,
) -> list[Cell]:
    """The cells of a row: for each column the rate over the documents that have it."""
    reasons = _reasons()
    found = {column for ours, _ in lines for column in ours}
    order = (*FLAGS["mc"], "none", "incorrect", "overall", *CATEGORY_NAMES)
    cells = []
    for column in sorted(found, key=lambda x: order.index(x) if x in order else len(order)):
        pairs = [(ours[column], stored.get(column)) for ours, stored in lines if column in ours]
        held = sorted(int(bool(ours)) for ours, _ in pairs)
        stored = [one for _, one in pairs if one is not None]
        (printed,) = paper_bootstrap(held, draws, seed)
        reference = known.get(column)
        reason = reasons.get(f"{table} / {model} / {column}", "")
        if reference is not None and reference.approximate and not reason:
            reason = f"the paper gives no exact cell: {reference.remark}"
        cells.append(
            Cell(
                table,
                model,
                column,
                len(held),
                100 * sum(held) / len(held),
                100 * (printed.mean or 0.0),
                100 * (printed.sd or 0.0),
                100 * sum(stored) / len(stored) if len(stored) == len(held) else None,
                None if reference is None else reference.low,
                reason,
            )
        )
    return cells


def _reasons() -> dict[str, str]:
    """Why cells are off, by `table / model / column`."""
    path = resources.files(__package__).joinpath("reproduce_reasons.json")
    found: dict[str, str] = json.loads(path.read_text("utf-8"))
    return found
