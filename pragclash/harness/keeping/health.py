"""A response cache that can never cost a result; seen in lmms-eval 0.7.3.

The harness opens its SQLite files after the model is loaded, and a damaged one, a full disk or a
store that fails ends the evaluation with everything that was asked. Here the files are looked at
before, damaged ones are set aside under another name, and whatever fails later is said once and
leaves the run without a cache.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loguru import logger

_COLUMNS = "cache_key, request_type, task_name, doc_id, idx, gen_kwargs, response, created_at"
_FAULTS = (sqlite3.Error, OSError, ValueError)
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""Not: locked, read-only, no memory. Those say nothing about the file."""

_told: set[str] = set()


def set_aside_damaged(use_cache: str, rank: int = 0) -> list[Path]:
    """Look at the databases below `--use_cache` and rename those that cannot be used.

    The harness then begins new ones; answers that stand in the log beside a run's database are
    read back from there.

    Args:
        use_cache: The harness's argument: a folder, or a `.db` file in it.
        rank: Each rank looks at its own files, the first one at all that are shared.

    Returns:
        The new names of what was set aside.
    """
    root = Path(use_cache).absolute()
    root = root.parent if root.suffix == ".db" else root
    paths = sorted(root.glob(f"runs/*/rank_{rank}.db"))
    paths += [root / "cache.db"] if rank == 0 else []
    moved = []
    for path in paths:
        fault = _fault_of(path)
        if fault is not None:
            with contextlib.suppress(OSError):
                moved.append(_set_aside(path))
                logger.warning(
                    f"pragclash: the cache {path} is damaged ({fault}): set aside as "
                    f"{moved[-1].name}, a new one is begun"
                )
    return moved


def _fault_of(path: Path) -> str | None:
    """Why a database is damaged, or None where it is whole, not there or busy."""
    if path.is_dir():
        return "it is a folder"
    if not path.is_file():
        return None
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=10)) as database:
            (said,) = database.execute("PRAGMA quick_check(1)").fetchone()
            tables = database.execute("SELECT name FROM sqlite_master WHERE name = 'responses'")
            if said == "ok" and tables.fetchall():
                database.execute(f"SELECT {_COLUMNS} FROM responses LIMIT 1").fetchall()
        return None if said == "ok" else str(said).splitlines()[-1]
    except sqlite3.Error as error:
        # The low byte is the kind of error, what stands above it the detail.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return str(error) if code in _DAMAGED else None


def _set_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    for part in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + part).rename(f"{aside}{part}")
    return aside


class NoCache:
    """Stands where a cache could not be opened, and waits for the other ranks where it would."""

    def __init__(self, cache: Any) -> None:
        """Take the harness's class of caches, which knows how to wait."""
        self._cache = cache

    def execute(self, lm: Any, reqtype: str, requests: list[Any]) -> Any:
        """Ask the model everything."""
        return getattr(lm, reqtype)(requests)

    def finalize(
        self, *, success: bool, dist_backend: str = "accelerate", accelerator: Any = None
    ) -> None:
        """Wait as the caches of the other ranks wait before they are merged."""
        if success:
            self._cache._distributed_barrier(dist_backend, accelerator)


def tell_once(what: str, error: Exception) -> None:
    """Say that the cache failed in one way, the first time it does."""
    if what not in _told:
        _told.add(what)
        logger.warning(
            f"pragclash: the response cache {what} ({error}): the evaluation goes on without"
        )


def harmless(what: str, function: Callable[..., Any], otherwise: Any = None) -> Callable[..., Any]:
    """The same function, giving something else back where the cache's files fail it."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _FAULTS as error:
            tell_once(what, error)
            return otherwise

    return wrapper


def storing(store: Callable[..., None]) -> Callable[..., None]:
    """Store answers until a store fails; an unfinished transaction is not left behind."""

    @functools.wraps(store)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        if getattr(self, "_pragclash_full", False):
            return
        try:
            store(self, *args, **kwargs)
        except _FAULTS as error:
            self._pragclash_full = True
            tell_once("cannot be written", error)
            with contextlib.suppress(sqlite3.Error):
                self.db.rollback()

    return wrapper
