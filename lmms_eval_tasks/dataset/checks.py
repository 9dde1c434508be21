"""What every row of every dataset must keep to, and the words in which a fault is told.

Pure functions over single values: an identifier, a text, a path. They return what is wrong and
never read a file.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

MAX_TEXT_CHARS = 20_000
_MAX_ID_CHARS = 200
_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_MAX_ID_CHARS - 1}}}")
_FLOAT_FORM = re.compile(r"\d+(?:\.\d+)?[eE]\+?\d+|\d{16,}\.0*")
_FLOAT_EXACT = 2**53
"""Integers above this do not all survive a float."""


class Fault(NamedTuple):
    """One thing that is wrong with a folder."""

    file: str
    row: int | None
    """Line of the file, counted from 1; None where the fault is the file's as a whole."""
    message: str

    def __str__(self) -> str:
        """`file:row: message`, the form editors can jump to."""
        return f"{self.file}{'' if self.row is None else f':{self.row}'}: {self.message}"


class Format(NamedTuple):
    """What a benchmark's rows look like."""

    benchmark: str
    rows_file: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    check_row: Callable[[Mapping[str, Any]], list[str]]
    """Faults of one row on its own, beyond missing and unknown columns."""
    check_rows: Callable[[Sequence[tuple[int, Mapping[str, Any]]]], list[tuple[int, str]]]
    """Faults between rows, each with the line it belongs to; takes (line, row) pairs."""
    not_full: Callable[[Sequence[Mapping[str, Any]]], str | None]
    """Why these rows cannot be the whole benchmark, or None where they can."""


def unsafe_path(name: str) -> str | None:
    """Why a picture path may not be used, or None when it stays inside the folder.

    >>> unsafe_path("images/../../secret.png")
    'the path leaves the folder'
    >>> unsafe_path("images/1.png") is None
    True
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
        return "the path leaves the folder"
    if not path.parts or path.parts[0] != "images" or len(path.parts) < 2:
        return "pictures lie under images/"
    if any(part.startswith(".") for part in path.parts) or not name.isprintable():
        return "the path has a hidden or unprintable part"
    return None


def brief(value: object) -> str:
    """A value of a file as messages name it: short and printable, whatever its type.

    >>> brief("P"), brief(None), brief(["P"]), brief({"P": 1})
    ("'P'", 'null', 'a list', 'an object')
    """
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return json.dumps(value, default=str)[:40]


def check_id(name: str, value: object) -> list[str]:
    """Faults of an identifier: its type, a trip through a float, characters that leave a folder.

    >>> check_id("image_id", "892551658487631873")
    []
    >>> check_id("image_id", 8.925516584876319e17)
    ['image_id went through a float (8.925516584876319e+17): read it as text']
    """
    if isinstance(value, float) or (isinstance(value, str) and _FLOAT_FORM.fullmatch(value)):
        return [f"{name} went through a float ({str(value)[:40]}): read it as text"]
    if not isinstance(value, str):
        return [f"{name} must be text, not {type(value).__name__} ({brief(value)})"]
    if not _ID.fullmatch(value) or ".." in value:
        return [f"{name} {value[:80]!r} may hold only letters, digits, '.', '_' and '-'"]
    return []


def check_text(name: str, value: object) -> list[str]:
    """Faults of a text column: type, emptiness, length, characters that no file can hold."""
    if not isinstance(value, str):
        return [f"{name} must be text, not {type(value).__name__}"]
    if not text_key(value):
        return [f"{name} is empty"]
    if len(value) > MAX_TEXT_CHARS:
        return [f"{name} has {len(value)} characters; at most {MAX_TEXT_CHARS} are allowed"]
    if has_surrogate(value):
        return [f"{name} holds a lone surrogate"]
    return []


def text_key(text: str) -> str:
    """What two texts share that a reader cannot tell apart; empty where there is nothing to read.

    Case, spacing, letter forms and characters without a width do not count.

    >>> text_key(" A\u200b dog "), text_key("\u200b\ufeff ")
    ('a dog', '')
    """
    if not text.isascii():
        text = "".join(char for char in text if unicodedata.category(char) != "Cf")
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def has_surrogate(text: str) -> bool:
    """Whether a text holds half a character, which no UTF-8 file can."""
    return any("\ud800" <= char <= "\udfff" for char in text)


def rounded_ids(ids: Iterable[str]) -> list[str]:
    """The large ids of a file, if all of them are what a float makes of numbers.

    One such id may be exact by chance; many that are all exact went through a float.
    """
    large = [x for x in ids if x.isdecimal() and int(x) > _FLOAT_EXACT]
    return large if len(large) >= 3 and all(int(float(int(x))) == int(x) for x in large) else []


def damaged_id(image_id: str, stem: str) -> list[str]:
    """An id that differs from its file's number only by what a float loses."""
    digits = image_id.isdecimal() and stem.isdecimal() and len(stem) <= _MAX_ID_CHARS
    if image_id == stem or not digits:
        return []
    a, b = int(image_id), int(stem)
    if min(a, b) > _FLOAT_EXACT and float(a) == float(b):
        return [f"image_id {image_id} differs from its picture {stem} as after a float"]
    return []
