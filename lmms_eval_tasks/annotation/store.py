"""Votes in an SQLite file: every vote is on disk before the page hears that it was saved.

The file is a log. A vote or an undo is added and nothing is ever changed, so a killed process, two
annotators at once or a request sent twice can lose or double nothing. A request carries its own
id: the same id again is the same request.
"""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

APPLICATION_ID = 0x70634C56
"""Marks the file as ours in its header."""
SCHEMA_VERSION = 1
BUSY_SECONDS = 15.0

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL);
CREATE TABLE asked (
  annotator TEXT NOT NULL, sample_id TEXT NOT NULL, content TEXT NOT NULL,
  PRIMARY KEY (annotator, sample_id, content)
) WITHOUT ROWID;
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  request TEXT NOT NULL UNIQUE,
  annotator TEXT NOT NULL,
  sample_id TEXT NOT NULL,
  content TEXT NOT NULL,
  label TEXT,
  reason TEXT NOT NULL DEFAULT '',
  undoes INTEGER UNIQUE REFERENCES events (id),
  at TEXT NOT NULL,
  CHECK ((label IS NULL) = (undoes IS NOT NULL))
);
CREATE INDEX events_annotator ON events (annotator, id);
"""
_STANDING = """
SELECT id, annotator, sample_id, content, label, reason, at FROM events AS vote
WHERE label IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM events AS undo WHERE undo.undoes = vote.id)
"""
_NAME = re.compile(r"[^\W\d_][\w.-]{0,63}")
_READ_AS_VALUES = ("true", "false", "nan", "inf", "infinity")


class StoreError(ValueError):
    """A votes file that cannot be used, or a name that cannot be an annotator's."""


class Vote(NamedTuple):
    """A vote that stands: neither undone nor followed by another on the same content."""

    annotator: str
    sample_id: str
    content: str
    label: str
    reason: str
    at: str
    """When, as UTC in ISO 8601."""


class Reverted(NamedTuple):
    """What an undo did."""

    sample_id: str
    content: str


def annotator_name(name: str) -> str:
    """The name in the form that is stored.

    It must also come through the harness's `--model_args annotator=NAME` as it is, which splits at
    commas and reads numbers and truth values.

    Raises:
        StoreError: The name would not.

    >>> annotator_name("ada.l")
    'ada.l'
    """
    name = unicodedata.normalize("NFC", name.strip())
    if not _NAME.fullmatch(name) or name.casefold() in _READ_AS_VALUES:
        raise StoreError(
            f"annotator {name[:80]!r}: a name begins with a letter and goes on with letters, "
            "digits, '.', '_' or '-'; at most 64, and it is no number or truth value"
        )
    return name


class Store:
    """A votes file; may be used from several threads and by several processes."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Take over an open connection; `Store.open` is the way in."""
        self.path = path
        self._connection = connection
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path, task: str | None = None, create: bool = False) -> Store:
        """Open a votes file.

        Args:
            path: The file.
            task: The task that its votes must be for; any where not given.
            create: Make the file where there is none, readable by its owner only.

        Raises:
            StoreError: No such file, another kind of file, or votes for another task.
        """
        if create and task is not None:
            _make(path)
        if not path.is_file():
            raise StoreError(f"{path}: no votes yet; collect them with `pragclash annotate`")
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        store = cls(path, connection)
        try:
            store._prepare(task if create else None)
            found = store.meta("task")
            if task is not None and found != task:
                raise StoreError(f"{path} holds votes for the task {found}, not {task}; use --db")
        except sqlite3.DatabaseError as error:
            connection.close()
            raise StoreError(f"{path}: {error}") from error
        except StoreError:
            connection.close()
            raise
        return store

    def close(self) -> None:
        """Close the file; every vote is in it already."""
        with self._lock:
            self._connection.close()

    def meta(self, name: str) -> str | None:
        """A setting of the file."""
        with self._lock:
            query = "SELECT value FROM meta WHERE name = ?"
            row = self._connection.execute(query, (name,)).fetchone()
        return None if row is None else str(row[0])

    def set_meta(self, name: str, value: str, keep: bool = False) -> str:
        """Set a setting, or with `keep` only where there is none.

        Returns:
            What stands now.
        """
        clause = "NOTHING" if keep else "UPDATE SET value = excluded.value"
        with self._writing() as connection:
            connection.execute(
                f"INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO {clause}", (name, value)
            )
        return self.meta(name) or value

    @property
    def secret(self) -> bytes:
        """Random bytes that are this file's alone."""
        return bytes.fromhex(self.set_meta("secret", secrets.token_hex(32), keep=True))

    def ask(self, annotator: str, samples: Iterable[tuple[str, str]]) -> None:
        """Note what an annotator is asked: pairs of sample id and content."""
        with self._writing() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO asked VALUES (?, ?, ?)",
                [(annotator, sample_id, content) for sample_id, content in samples],
            )

    def asked(self) -> dict[str, set[tuple[str, str]]]:
        """What every annotator was asked so far, by name."""
        with self._lock:
            rows = self._connection.execute("SELECT annotator, sample_id, content FROM asked")
            out: dict[str, set[tuple[str, str]]] = {}
            for annotator, sample_id, content in rows:
                out.setdefault(annotator, set()).add((sample_id, content))
        return dict(sorted(out.items()))

    def vote(
        self,
        request: str,
        annotator: str,
        sample: tuple[str, str],
        label: str,
        reason: str = "",
    ) -> None:
        """Add a vote; on return it is on disk. The same request again adds nothing."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO events (request, annotator, sample_id, content, label, reason, at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (request) DO NOTHING",
                (request, annotator, *sample, label, reason, _now()),
            )

    def undo(
        self, request: str, annotator: str, among: Mapping[tuple[str, str], Any]
    ) -> Reverted | None:
        """Take back the annotator's last vote that stands; what it replaced stands again.

        Args:
            request: The request's id; the same again undoes nothing more.
            annotator: Whose vote.
            among: Sample id and content that may be undone; votes on others are passed over.

        Returns:
            What was taken back, or None where nothing was left.
        """
        with self._writing() as connection:
            query = "SELECT sample_id, content FROM events WHERE request = ?"
            done = connection.execute(query, (request,)).fetchone()
            if done is not None:
                return Reverted(*done)
            votes = connection.execute(
                f"{_STANDING} AND annotator = ? ORDER BY id DESC", (annotator,)
            )
            last = next((row for row in votes if (row[2], row[3]) in among), None)
            if last is None:
                return None
            event, _, sample_id, content, *_ = last
            connection.execute(
                "INSERT INTO events (request, annotator, sample_id, content, undoes, at) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (request, annotator, sample_id, content, event, _now()),
            )
        return Reverted(sample_id, content)

    def votes(self, annotator: str | None = None) -> list[Vote]:
        """The votes that stand, of one annotator or of all, in the order they were given."""
        mine = "" if annotator is None else "AND annotator = ?"
        values = () if annotator is None else (annotator,)
        with self._lock:
            rows = self._connection.execute(f"{_STANDING} {mine} ORDER BY id", values).fetchall()
        last = {tuple(row[1:4]): Vote(*row[1:]) for row in rows}
        return sorted(last.values(), key=lambda vote: vote.at)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that has the file to itself from its first statement."""
        with self._lock:
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                # Also where the commit itself fails, as on a full disk.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _prepare(self, task: str | None) -> None:
        """Check that the file is ours before anything in it changes, and make its tables."""
        connection = self._connection
        if not self._is_blank() or task is None:
            self._check()
        # Some network file systems cannot do WAL; the journal that they keep is as durable.
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        with self._writing():
            # Another process may have been first.
            if task is not None and self._is_blank():
                for statement in _SCHEMA.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                connection.execute("INSERT INTO meta VALUES ('task', ?)", (task,))
            self._check()

    def _number(self, query: str) -> int:
        return int(self._connection.execute(query).fetchone()[0])

    def _is_blank(self) -> bool:
        tables = self._number("SELECT count(*) FROM sqlite_master")
        return not tables and not self._number("PRAGMA application_id")

    def _check(self) -> None:
        if self._number("PRAGMA application_id") != APPLICATION_ID:
            raise StoreError(f"{self.path} is a database, but holds no votes of pragclash")
        version = self._number("PRAGMA user_version")
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} has votes in format {version}; this reads {SCHEMA_VERSION}"
            )


def _make(path: Path) -> None:
    """A file without votes that only its owner can read, unless there is a file.

    It is never empty, so that a file which lost its content is not taken for a new one.
    """
    if not path.parent.is_dir():
        raise StoreError(f"{path}: its folder does not exist")
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError as error:
        for _ in range(20):
            if path.stat().st_size:
                return
            time.sleep(0.05)  # another process may have made it this moment
        raise StoreError(
            f"{path} is empty: whatever votes it held are gone. Put a copy of it back, or delete "
            "it to begin anew"
        ) from error
    with closing(sqlite3.connect(":memory:")) as blank, closing(os.fdopen(handle, "wb")) as file:
        blank.executescript("CREATE TABLE t (x); DROP TABLE t;")
        file.write(blank.serialize())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
