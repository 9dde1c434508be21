"""Which dataset the tasks of this process run on: the user's, or else the sample."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_dir

from lmms_eval_tasks.dataset.checks import Fault
from lmms_eval_tasks.dataset.folder import Folder, FolderError, format_of, load_folder
from lmms_eval_tasks.sample.build import sample_folder

ENVIRONMENT = "PRAGCLASH_DATA"


def data_home() -> Path:
    """The folder with one dataset folder a benchmark: of `PRAGCLASH_DATA`, or the user's own.

    Raises:
        FolderError: `PRAGCLASH_DATA` is set, but to nothing.
    """
    named = os.environ.get(ENVIRONMENT)
    if named is None:
        return Path(user_data_dir("pragclash"))
    if not named.strip():
        message = "the variable is set but empty; name one, or unset it to use the sample"
        raise FolderError(Path(ENVIRONMENT), [Fault("folder", None, message)])
    return Path(named).expanduser()


def current_path(benchmark: str) -> Path | None:
    """Where the benchmark's dataset folder is, or None where the sample is to be used.

    Raises:
        FolderError: `PRAGCLASH_DATA` is set and holds no folder for the benchmark.
    """
    home = data_home()
    path = home / benchmark
    if os.environ.get(ENVIRONMENT) is None:
        return path if path.is_dir() and any(path.iterdir()) else None
    rows_file = format_of(benchmark).rows_file
    if (path / rows_file).is_file():
        return path
    if (home / rows_file).is_file():
        hint = f"{ENVIRONMENT} must name the folder above it, with {rows_file} in {benchmark}/"
        raise FolderError(home, [Fault(rows_file, None, f"found here, but {hint}")])
    state = "is empty" if path.is_dir() else "does not exist"
    message = (
        f"{ENVIRONMENT} is set, but {path} {state}; build one with `pragclash data {benchmark}`, "
        f"or unset {ENVIRONMENT} to use the sample"
    )
    raise FolderError(path, [Fault(rows_file, None, message)])


def current_folder(benchmark: str) -> Folder:
    """The dataset that tasks run on: of `PRAGCLASH_DATA`, the default folder, or the sample.

    Raises:
        FolderError: The folder is missing, empty or faulty.
    """
    path = current_path(benchmark) or sample_folder(benchmark)
    return load_folder(path, benchmark)
