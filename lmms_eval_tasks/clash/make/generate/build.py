"""Makes CLASH samples out of pictures with captions: change one element, ask, answer, check.

The embedded generator (`rules`) needs nothing; `openai` and `harness:PROVIDER` ask a language
model. Every finished sample is on disk at once: an interrupted run goes on where it stopped when
the same command is given again, and ends in the same dataset folder whatever went wrong between.
"""

from __future__ import annotations

import errno
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.make.check.llm import examine
from lmms_eval_tasks.clash.make.endpoint import Asker, EndpointError, Limits
from lmms_eval_tasks.clash.make.generate.captions import find_picture, read_captions, sources
from lmms_eval_tasks.clash.make.generate.llm import LlmGenerator
from lmms_eval_tasks.clash.make.generate.rules import RuleGenerator
from lmms_eval_tasks.clash.make.generate.stages import Dropped, Generator, Source, make_row
from lmms_eval_tasks.clash.make.work import Stopped, Unit, Work
from lmms_eval_tasks.dataset.files import sha256
from lmms_eval_tasks.dataset.folder import write_folder
from lmms_eval_tasks.dataset.journal import Journal
from lmms_eval_tasks.dataset.pictures import picture_fault

PER_PICTURE = 3

_DEFAULTS = Limits()
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class Settings(NamedTuple):
    """What decides the outcome of a job, beside the captions."""

    generator: str
    model: str | None
    seed: int
    n: int | None
    per_picture: int
    llm_checks: bool


def build(
    captions: Path,
    images: Path,
    out: Path,
    work: Path,
    settings: Settings,
    limits: Limits = _DEFAULTS,
) -> dict[str, Any]:
    """Make a dataset folder out of captions.

    Args:
        captions: A file that `read_captions` understands.
        images: Folder of the pictures.
        out: The folder to make.
        work: Folder of the journal.
        settings: What decides the outcome.
        limits: What an endpoint may be asked for.

    Returns:
        `out`, `n_rows`, `n_pictures`, `fingerprint`, `generator`, `dropped` (reason to count),
        `missing_pictures`, `faulty_captions`, and for endpoints `tokens`, `requests` and
        `asked_again` of this run.

    Raises:
        Stopped: The endpoint gave up, or the journal belongs to another job.
        ValueError: Captions or generator cannot be used, or no sample came out.
        OSError: A file cannot be read or written.
    """
    if settings.generator == "rules" and settings.llm_checks:
        raise ValueError("--llm-checks needs a --generator that asks a model")
    pictures = read_captions(captions)
    units = sources(pictures, settings.seed)

    @functools.cache
    def path_of(image_id: str) -> Path:
        return find_picture(images, pictures.files[image_id])

    try:
        with Journal(work / "samples.jsonl") as journal:
            _claim(journal, work, captions, settings)
            rows, report = _collect(units, path_of, journal, settings, limits)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise Stopped(
            f"{work}: {error.strerror}; what is finished is kept, the same command goes on"
        ) from error
    report = {"out": str(out), **report, "faulty_captions": pictures.faults}
    if not rows:
        dropped = Counter(report["dropped"]).most_common(3)
        reasons = "; ".join(f"{reason} ({n})" for reason, n in dropped)
        first = next(iter(report["missing_pictures"].items()), None)
        reasons = reasons or (f"picture {first[0]} {first[1]}" if first else "no captions")
        raise ValueError(f"no sample came out: {reasons}")
    ids = {row["image_id"] for row in rows}
    names = {x: f"images/{x}{_suffix(path_of(x))}" for x in sorted(ids)}
    rows = [{**row, "image": names[row["image_id"]]} for row in rows]
    manifest = {
        "kind": "custom",
        "encoders": [],
        "generator": {
            "name": report["generator"],
            "model": settings.model,
            "seed": settings.seed,
            "llm_checks": settings.llm_checks,
        },
        "sources": [{"name": "captions", "file": captions.name, "sha256": sha256(captions)}],
    }
    files = {name: path_of(image_id) for image_id, name in names.items()}
    folder = write_folder(out, "clash", rows, files, manifest)
    return report | {
        "n_rows": len(rows),
        "n_pictures": len(names),
        "fingerprint": folder.fingerprint,
    }


def _collect(
    units: list[Source],
    path_of: Callable[[str], Path],
    journal: Journal,
    settings: Settings,
    limits: Limits,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The first `n` accepted samples in the sources' order, and what the report says of the job."""
    from tqdm import tqdm

    wanted = len(units) if settings.n is None else settings.n
    rows: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    dropped: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    asked = None if settings.generator == "rules" else settings.generator

    def usable() -> Iterator[Unit[Source]]:
        for source in units:
            if taken[source.image_id] >= settings.per_picture:
                continue
            reason = picture_fault(path_of(source.image_id))
            if reason:
                missing[source.image_id] = reason
            else:
                yield Unit(source.key, source)

    with (
        Work(journal, limits, settings.seed, asked, settings.model) as work,
        tqdm(
            total=min(wanted, len(units)),
            unit=" samples",
            disable=not sys.stderr.isatty(),
            leave=False,
        ) as progress,
    ):
        generator: Generator = RuleGenerator(settings.seed)
        if work.asker is not None:
            generator = LlmGenerator(work.asker, f"{settings.generator}:{settings.model}")
        examiner = work.asker if settings.llm_checks else None
        outcomes = work.outcomes(
            usable(), lambda source: _make(source, generator, examiner), lambda: wanted - len(rows)
        )
        try:
            with closing(outcomes):
                for source, outcome in outcomes:
                    row = outcome.get("row")
                    if row is None:
                        dropped[outcome["dropped"]] += 1
                    elif taken[source.image_id] >= settings.per_picture:
                        continue
                    elif row["sample_id"] in rows:
                        dropped["same sample as another"] += 1
                    else:
                        rows[row["sample_id"]] = row
                        taken[source.image_id] += 1
                        progress.set_postfix_str(f"{dropped.total()} dropped", refresh=False)
                        progress.update()
        except EndpointError as error:
            kept = sum(source.key in journal for source in units)
            raise Stopped(
                f"{error}; {kept} finished captions are kept, the same command goes on"
            ) from error
        report: dict[str, Any] = {
            "generator": generator.name,
            "dropped": dict(sorted(dropped.items())),
            "missing_pictures": missing,
        }
        if work.asker is not None:
            report["tokens"] = work.asker.budget.spent
            report["requests"] = work.asker.requests
            report["asked_again"] = work.asker.asked_again
    return list(rows.values()), report


def _make(source: Source, generator: Generator, examiner: Asker | None) -> dict[str, Any]:
    """What becomes of a source: `row`, or `dropped` with the reason."""
    verdicts: list[list[Any]] = []
    try:
        row = make_row(source, generator)
        if examiner is not None:
            given = examine(row, examiner)
            verdicts = [list(verdict) for verdict in given]
            if given and not given[-1].passed:
                raise Dropped("check", given[-1].check, given[-1].reason)
    except Dropped as drop:
        reason = f"{drop.stage}: {drop.reason}"
        return {"dropped": reason, "detail": drop.detail, "verdicts": verdicts}
    return {"row": row, "verdicts": verdicts}


def _claim(journal: Journal, work: Path, captions: Path, settings: Settings) -> None:
    """Let a journal serve one job only: outcomes of other settings must not be mixed in."""
    # How many samples are wanted changes no single outcome.
    fields = {k: v for k, v in settings._asdict().items() if k not in ("n", "per_picture")}
    job = {**fields, "captions": sha256(captions)}
    if "job" not in journal:
        journal.put("job", job)
    elif journal["job"] != job:
        old = journal["job"]
        changed = ", ".join(name for name in job if old.get(name) != job[name])
        raise Stopped(
            f"{work} holds a job with other settings ({changed}): "
            "remove it to start anew, or name another --work"
        )


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    return suffix if suffix[1:].isalnum() else ".jpg"
