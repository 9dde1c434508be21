"""Everything a report shows, as JSON values: figures, pairs, provenance.

What comes from a model, a caption or a file is passed on as it is: the page shows it as text and
nothing else. Each benchmark adds its own sections; here is what they share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from postprocess.benchmarks.base import TableMaker, benchmarks
from postprocess.publish import thumbnails
from postprocess.publish.report_pairs import Asked, Media, cap_words
from postprocess.runs.folder import Runs
from postprocess.runs.provenance import provenance
from postprocess.runs.refused import results_only
from postprocess.tables import build as tables
from postprocess.tables.formats import as_json
from postprocess.tables.model import Builder, Options

PICTURE_BUDGET = 7_000_000
"""Characters that all thumbnails together may take."""


def payload(
    runs: Runs, options: Options, media: Mapping[str, Media], *, with_media: bool = True
) -> dict[str, Any]:
    """All of a report.

    Args:
        runs: What was read.
        options: How figures are computed.
        media: Dataset folders by fingerprint, for pictures and captions.
        with_media: Whether pictures and captions may be shown; without, ids only.

    Raises:
        MixedError: The runs differ in data or prompts, and `options.mix` is off.
    """
    runs = results_only(runs)
    built = {
        name: tables.build(name, runs, options)
        for name, maker in tables.tables().items()
        if _has_rows(maker, runs)
    }
    found = [task for run in runs.runs for task in run.tasks.values()]
    builder = Builder("", runs.runs, options, {}, [task.task for task in found])
    media = media if with_media else {}
    asked = Asked(runs, builder, built, media, with_media)
    parts = [one.report(asked) for one in benchmarks().values()]
    thumbs = _thumbnails(runs, media, [i for part in parts for i in part.pictures])
    cap = cap_words(answer for part in parts for answer in part.answers)
    sections: dict[str, Any] = {}
    for part in parts:
        sections |= part.data
    return {
        "title": "pragclash report",
        "headline": [line for part in parts for line in part.headlines],
        "kinds": sorted({str(kind) for task in found for kind in task.values("dataset_kind")}),
        "models": [run.label for run in runs.runs],
        "problems": [str(problem) for problem in runs.problems],
        "tables": [as_json(table) for table in built.values()],
        **sections,
        "thumbs": thumbs.uris,
        "media": {
            "shown": with_media,
            "left_out": thumbs.left_out if with_media else 0,
            "cap": cap,
        },
        "provenance": [provenance(run) for run in runs.runs],
        "settings": {"seed": options.seed, "level": options.level},
    }


def _has_rows(maker: TableMaker, runs: Runs) -> bool:
    taken = [run for run in runs.runs if maker.takes(run)]
    if maker.shown is not None:
        return maker.shown(taken)
    return any(task in run.tasks for run in taken for task in maker.tasks)


def _thumbnails(
    runs: Runs, media: Mapping[str, Media], ids: Sequence[str]
) -> thumbnails.Thumbnails:
    used = {
        str(value)
        for run in runs.runs
        for task in run.tasks.values()
        for value in task.values("dataset_fingerprint")
    }
    files: dict[str, Path] = {}
    for fingerprint in sorted(used & media.keys()):
        files.update(media[fingerprint].pictures)
    return thumbnails.make(files, ids, PICTURE_BUDGET)
