"""What both benchmarks need to live inside the harness: documents, and faults that end a run.

The harness retries `process_docs` and `process_results` when they raise an `Exception`, for ten
seconds and more, so that a fault looks like a hang; its command line then prints the exception and
exits 0. Faults here therefore leave as `SystemExit`, which it neither retries nor swallows.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from lmms_eval_tasks.dataset.current import current_folder
from lmms_eval_tasks.dataset.folder import Folder, FolderError
from postprocess import pictures

if TYPE_CHECKING:
    import datasets
    from PIL import Image

EXIT_USAGE = 2
"""Exit status for data or arguments that cannot be used."""

_told: set[str] = set()


def stop(message: str) -> SystemExit:
    """Print one line of fault and give the exception that ends the run with status 2."""
    print(f"pragclash: {message}", file=sys.stderr)
    return SystemExit(EXIT_USAGE)


def tell_once(message: str, level: str = "WARNING") -> None:
    """Log a line the first time it comes up, on the first of several ranks."""
    if message not in _told and os.environ.get("RANK", "0") == "0":
        _told.add(message)
        logger.log(level, message)


def task_folder(benchmark: str) -> Folder:
    """The dataset that this run's tasks use; what is left out of it is said once.

    Raises:
        SystemExit: The folder cannot be used; the reason has been printed.
    """
    try:
        folder = current_folder(benchmark)
    except FolderError as error:
        raise stop(str(error)) from error
    if folder.kind == "sample":
        tell_once(
            f"{benchmark}: running on the SAMPLE that ships with pragclash "
            f"({len({row['image_id'] for row in folder.rows})} pictures), not on the benchmark; "
            "set PRAGCLASH_DATA to a dataset folder for real results"
        )
    for picture, reason in folder.omitted.items():
        tell_once(f"{benchmark}: left out picture {picture} of {folder.path}: {reason}")
    return folder


def build_docs(
    rows: Iterable[Mapping[str, Any]], columns: Mapping[str, Any], folder: Path
) -> datasets.Dataset:
    """The documents of a task, pictures read from their files only when asked for.

    Args:
        rows: One mapping a document, with every name of `columns` and with `image`, the picture's
            path inside the folder.
        columns: Column name to its `datasets` feature, without `image`.
        folder: The dataset folder.
    """
    import datasets

    # Not decoded by the library: it would try every format and let transparency turn black.
    features = datasets.Features({**columns, "image": datasets.Image(decode=False)})
    data: dict[str, list[Any]] = {name: [] for name in features}
    for row in rows:
        for name in columns:
            data[name].append(row[name])
        data["image"].append({"path": str(folder / row["image"]), "bytes": None})
    return datasets.Dataset.from_dict(data, features=features)


def picture_of(doc: Mapping[str, Any]) -> Image.Image:
    """The document's picture in RGB, as every backend takes it.

    Raises:
        PictureError: It broke after the data was checked; names the sample.
    """
    try:
        return pictures.picture_of(doc["image"])
    except pictures.PictureError as error:
        raise pictures.PictureError(f"picture of sample {doc.get('sample_id')}: {error}") from error


def user_turn(pictures: Sequence[Any], text: str) -> list[dict[str, Any]]:
    """One chat turn with the pictures before the text, so that captions share a prefix."""
    content: list[dict[str, Any]] = [{"type": "image", "url": picture} for picture in pictures]
    return [{"role": "user", "content": [*content, {"type": "text", "text": text}]}]


def loud(
    process_results: Callable[[Mapping[str, Any], list[str]], dict[str, Any]],
) -> Callable[[Mapping[str, Any], list[str]], dict[str, Any]]:
    """Let a fault of scoring end the run at once, with the sample it happened on."""

    @functools.wraps(process_results)
    def wrapper(doc: Mapping[str, Any], results: list[str]) -> dict[str, Any]:
        try:
            return process_results(doc, results)
        except Exception as error:
            sample = f"{doc.get('task')}, sample {doc.get('sample_id')}"
            logger.opt(exception=error).debug(f"scoring failed on {sample}")
            raise stop(f"scoring failed on {sample}: {type(error).__name__}: {error}") from error

    return wrapper
