"""The dataset folder: rows, pictures, manifest; read, checked and written in one place.

A folder holds one benchmark: a rows file (`captions.jsonl` for PragMatch, `samples.jsonl` for
CLASH), the pictures once each under `images/`, and `manifest.json`. A fault in a row is an error
that names file and row, because a wrong row would become a wrong number. A picture that is missing
or does not decode is an omission: its rows are left out, named and counted. Nothing here reads
outside the folder.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import math
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, NoReturn

from lmms_eval_tasks.files import UnreadableError, read_bytes

FORMAT_NAME = "pragclash-dataset"
FORMAT_VERSION = 1
KINDS = ("sample", "custom", "full")
BENCHMARKS = ("pragmatch", "clash")
MANIFEST = "manifest.json"

MAX_FILE_BYTES = 1_000_000_000
"""Of a rows file or a manifest."""
MAX_LINE_BYTES = 1_000_000
MAX_TEXT_CHARS = 20_000
MAX_DEPTH = 16
"""Lists and objects inside one another, in a column that may hold them."""
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


class FolderError(ValueError):
    """A dataset folder that cannot be used; `faults` names each reason with file and row."""

    def __init__(self, path: Path, faults: Sequence[Fault]) -> None:
        """Keep the faults and put the first ones into the message."""
        self.path, self.faults = path, list(faults)
        shown = "; ".join(str(fault) for fault in self.faults[:3])
        more = len(self.faults) - 3
        tail = f"; and {more} more (pragclash validate {path} lists all)" if more > 0 else ""
        super().__init__(f"{path}: {shown}{tail}")


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


class Folder(NamedTuple):
    """A dataset folder, read and checked."""

    path: Path
    benchmark: str
    manifest: dict[str, Any]
    kind: str
    fingerprint: str
    """SHA-256 over all rows and the pictures that could be read; order does not matter."""
    rows: list[dict[str, Any]]
    """Rows whose picture can be used, in the file's order."""
    omitted: dict[str, str]
    """Picture path to the reason why its rows are left out."""
    omitted_rows: list[dict[str, Any]]
    """The rows of those pictures, so that each task can count what it loses."""


def format_of(benchmark: str) -> Format:
    """The row format of a benchmark.

    Raises:
        ValueError: The benchmark is none of ours.
    """
    if benchmark not in BENCHMARKS:
        raise ValueError(f"unknown benchmark {benchmark!r}; known: {', '.join(BENCHMARKS)}")
    module = importlib.import_module(f"lmms_eval_tasks.{benchmark}.data")
    fmt: Format = module.FORMAT
    return fmt


def load_folder(path: Path | str, benchmark: str) -> Folder:
    """Read a dataset folder and leave out the rows whose picture cannot be used.

    The result is kept for the life of the process as long as the files do not change.

    Raises:
        FolderError: Any fault but a missing or corrupt picture, or no usable row at all.
    """
    path = Path(path)
    files = [path / format_of(benchmark).rows_file, path / MANIFEST]
    files += sorted((path / "images").rglob("*"))
    return _load(path, benchmark, tuple(_stamp(file) for file in files))


def check_folder(path: Path | str, benchmark: str | None = None) -> list[Fault]:
    """All faults of a folder, unusable pictures included; empty when it is sound."""
    path = Path(path)
    if not path.is_dir():
        return [Fault(str(path), None, "is not a folder")]
    manifest, faults = _read_manifest(path)
    benchmark = benchmark or manifest.get("benchmark")
    if benchmark not in BENCHMARKS:
        found = [b for b in BENCHMARKS if (path / format_of(b).rows_file).is_file()]
        if len(found) != 1:
            return faults or [Fault(MANIFEST, None, "names no known benchmark")]
        benchmark = found[0]
    fmt = format_of(benchmark)
    rows, row_faults, identified = _read_rows(path, fmt)
    faults += row_faults + _kind_faults(manifest, fmt, rows, row_faults)
    for picture, (line, reason) in _picture_faults(path, identified).items():
        faults.append(Fault(fmt.rows_file, line, f"picture {picture}: {reason}"))
    if not rows and not row_faults:
        faults.append(Fault(fmt.rows_file, None, "holds no rows"))
    return faults


def write_folder(
    out: Path | str,
    benchmark: str,
    rows: Iterable[Mapping[str, Any]],
    images: Mapping[str, bytes | Path],
    manifest: Mapping[str, Any],
) -> Folder:
    """Write a dataset folder in one step: it is there whole, or not at all.

    Args:
        out: The folder to make; it must not exist, or be empty.
        benchmark: `pragmatch` or `clash`.
        rows: Rows of the benchmark's format; `image` names a key of `images`.
        images: File path inside the folder (`images/...`) to its bytes or to a file to copy.
        manifest: `kind` and whatever describes sources; format, version and counts are added.

    Raises:
        FileExistsError: `out` holds something already.
        FolderError: The rows would not pass `check_folder`.
    """
    out, fmt, rows = Path(out), format_of(benchmark), [dict(row) for row in rows]
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileExistsError(f"{out} exists already; choose another folder or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        for name, content in sorted(images.items()):
            reason = unsafe_path(name)
            if reason:
                raise FolderError(out, [Fault(name, None, reason)])
            target = partial / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            else:
                shutil.copyfile(content, target)
        lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows]
        content = "".join(f"{x}\n" for x in lines)
        # A lone surrogate is for the check below to report, with its row.
        (partial / fmt.rows_file).write_bytes(content.encode("utf-8", "surrogatepass"))
        whole = {
            "format": FORMAT_NAME,
            "version": FORMAT_VERSION,
            "benchmark": benchmark,
            **manifest,
            "n_rows": len(rows),
            "n_pictures": len({row.get("image_id") for row in rows}),
        }
        text = json.dumps(whole, indent=2, ensure_ascii=False, sort_keys=True, allow_nan=False)
        (partial / MANIFEST).write_text(text + "\n", encoding="utf-8")
        faults = check_folder(partial, benchmark)
        if faults:
            raise FolderError(out, faults)
        partial.chmod(0o755)
        if out.is_dir():
            out.rmdir()
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return load_folder(out, benchmark)


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
    if not value.strip():
        return [f"{name} is empty"]
    if len(value) > MAX_TEXT_CHARS:
        return [f"{name} has {len(value)} characters; at most {MAX_TEXT_CHARS} are allowed"]
    if _has_surrogate(value):
        return [f"{name} holds a lone surrogate"]
    return []


def picture_fault(path: Path) -> str | None:
    """Why a picture cannot be used, or None when all its pixels decode."""
    from postprocess.pictures import checked

    return checked(path).fault


def _stamp(path: Path) -> tuple[str, int, int]:
    try:
        status = path.lstat()
    except OSError:
        return str(path), 0, -1
    return str(path), status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=8)
def _load(path: Path, benchmark: str, _stamps: object) -> Folder:
    fmt = format_of(benchmark)
    if not path.is_dir():
        raise FolderError(path, [Fault(str(path), None, "is not a folder")])
    manifest, faults = _read_manifest(path)
    if not faults and manifest["benchmark"] != benchmark:
        faults.append(Fault(MANIFEST, None, f"is for {manifest['benchmark']}, not {benchmark}"))
    rows, row_faults, _ = _read_rows(path, fmt)
    faults += row_faults + _kind_faults(manifest, fmt, rows, row_faults)
    if not rows and not row_faults:
        faults.append(Fault(fmt.rows_file, None, "holds no rows"))
    if faults:
        raise FolderError(path, faults)
    unusable = _picture_faults(path, rows)
    kept = [row for _, row in rows if row["image"] not in unusable]
    if not kept:
        first = next(iter(unusable))
        reason = f"no picture can be used; the first, {first}, {unusable[first][1]}"
        raise FolderError(path, [Fault(fmt.rows_file, None, reason)])
    fingerprint = _fingerprint(path, [row for _, row in rows], unusable)
    omitted = {picture: reason for picture, (_, reason) in unusable.items()}
    lost = [row for _, row in rows if row["image"] in unusable]
    return Folder(path, benchmark, manifest, manifest["kind"], fingerprint, kept, omitted, lost)


def _fingerprint(path: Path, rows: Sequence[dict[str, Any]], unusable: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for row in sorted(rows, key=lambda row: row["sample_id"]):
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=True).encode() + b"\n")
    for picture in sorted({row["image"] for row in rows}):
        content = b"-" if picture in unusable else (path / picture).read_bytes()
        digest.update(picture.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()


def _read_manifest(path: Path) -> tuple[dict[str, Any], list[Fault]]:
    try:
        content = read_bytes(path / MANIFEST, MAX_FILE_BYTES).decode("utf-8")
        manifest = json.loads(content, parse_constant=_no_number)
    except UnreadableError as error:
        return {}, [Fault(MANIFEST, None, error.reason)]
    except UnicodeDecodeError as error:
        return {}, [Fault(MANIFEST, None, f"is not UTF-8 ({error.reason})")]
    except (ValueError, RecursionError) as error:
        return {}, [Fault(MANIFEST, None, f"is not JSON ({str(error)[:120]})")]
    if not isinstance(manifest, dict):
        return {}, [Fault(MANIFEST, None, "is not a JSON object")]
    faults = []
    if manifest.get("format") != FORMAT_NAME or manifest.get("version") != FORMAT_VERSION:
        found = f"{brief(manifest.get('format'))} {brief(manifest.get('version'))}"
        message = f'"format" and "version" are {found}; this reads {FORMAT_NAME!r} {FORMAT_VERSION}'
        faults.append(Fault(MANIFEST, None, message))
    if manifest.get("benchmark") not in BENCHMARKS:
        faults.append(Fault(MANIFEST, None, f'"benchmark" must be one of {", ".join(BENCHMARKS)}'))
    if manifest.get("kind") not in KINDS:
        faults.append(Fault(MANIFEST, None, f'"kind" must be one of {", ".join(KINDS)}'))
    return manifest, faults


def _kind_faults(
    manifest: Mapping[str, Any],
    fmt: Format,
    rows: Sequence[tuple[int, Mapping[str, Any]]],
    row_faults: Sequence[Fault],
) -> list[Fault]:
    """A folder that calls itself the whole benchmark and is not."""
    if manifest.get("kind") != "full" or row_faults:
        return []
    reason = fmt.not_full([row for _, row in rows])
    return [Fault(MANIFEST, None, f'"kind" is full, but {reason}: write custom')] if reason else []


def _read_rows(
    path: Path, fmt: Format
) -> tuple[list[tuple[int, dict[str, Any]]], list[Fault], list[tuple[int, dict[str, Any]]]]:
    """Rows with their line numbers, every fault of the file, and the rows whose ids can be read.

    A row with a fault is in the last list alone, so that its other faults are found as well.
    """
    file, faults = fmt.rows_file, []
    try:
        raw = read_bytes(path / file, MAX_FILE_BYTES)
    except UnreadableError as error:
        return [], [Fault(file, None, error.reason)], []
    rows: list[tuple[int, dict[str, Any]]] = []
    identified: list[tuple[int, dict[str, Any]]] = []
    for line, content in enumerate(raw.split(b"\n"), start=1):
        if not content.strip():
            continue
        row, messages = _parse_row(content, fmt)
        faults += [Fault(file, line, message) for message in messages]
        if row is not None and not messages:
            rows.append((line, row))
        if row is not None and _is_identified(row):
            identified.append((line, row))
    faults += [Fault(file, line, message) for line, message in _common_faults(identified)]
    faults += [Fault(file, line, message) for line, message in fmt.check_rows(rows)]
    return rows, sorted(faults, key=lambda fault: fault.row or 0), identified


def _is_identified(row: Mapping[str, Any]) -> bool:
    """Whether a row's ids and picture can be compared with those of others."""
    names = ("sample_id", "image_id", "image")
    return (
        all(isinstance(row.get(name), str) for name in names)
        and not check_id("sample_id", row["sample_id"])
        and not check_id("image_id", row["image_id"])
        and unsafe_path(row["image"]) is None
    )


def _parse_row(content: bytes, fmt: Format) -> tuple[dict[str, Any] | None, list[str]]:
    if len(content) > MAX_LINE_BYTES:
        return None, [f"has {len(content)} bytes; at most {MAX_LINE_BYTES} are allowed"]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return None, [f"is not UTF-8 (byte {error.start}: {error.reason})"]
    try:
        row = json.loads(
            text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_number
        )
    except (ValueError, RecursionError) as error:
        return None, [f"is not JSON ({str(error)[:120]})"]
    if not isinstance(row, dict):
        return None, ["is not a JSON object"]
    messages = [f"has no {name!r}" for name in fmt.required if name not in row]
    known = (*fmt.required, *fmt.optional)
    for name in row:
        if name not in known:
            allowed = ", ".join(known)
            messages.append(f"has the unknown column {str(name)[:40]!r}; known: {allowed}")
    if messages:
        return row, messages
    messages = check_id("sample_id", row["sample_id"]) + check_id("image_id", row["image_id"])
    messages += check_text("image", row["image"])
    messages += [fault for name, value in row.items() for fault in _check_nested(name, value)]
    if not messages:
        reason = unsafe_path(row["image"])
        messages += [f"image {row['image'][:80]!r}: {reason}"] if reason else []
        messages += _damaged(row["image_id"], PurePosixPath(row["image"]).stem)
    return row, messages + fmt.check_row(row)


def _check_nested(name: str, value: object) -> list[str]:
    """Faults inside a list or an object: depth, and text that no file can hold."""
    if name == "extra" and value is not None and not isinstance(value, dict):
        return [f"extra must be an object, not {brief(value)}"]
    if not isinstance(value, dict | list):
        return []
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner = [item for one in level for item in (one.values() if isinstance(one, dict) else one)]
        names = [key for one in level if isinstance(one, dict) for key in one]
        if any(_has_surrogate(x) for x in (*inner, *names) if isinstance(x, str)):
            return [f"{name} holds a lone surrogate"]
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return []
    return [f"{name} is nested deeper than {MAX_DEPTH} levels"]


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _damaged(image_id: str, stem: str) -> list[str]:
    """An id that differs from its file's number only by what a float loses."""
    digits = image_id.isdecimal() and stem.isdecimal() and len(stem) <= _MAX_ID_CHARS
    if image_id == stem or not digits:
        return []
    a, b = int(image_id), int(stem)
    if min(a, b) > _FLOAT_EXACT and float(a) == float(b):
        return [f"image_id {image_id} differs from its picture {stem} as after a float"]
    return []


def _common_faults(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> list[tuple[int, str]]:
    faults, samples, pictures = [], {}, {}
    for line, row in rows:
        first = samples.setdefault(row["sample_id"], line)
        if first != line:
            faults.append((line, f"sample_id {row['sample_id']!r} stands in row {first} already"))
        picture, where = pictures.setdefault(row["image_id"], (row["image"], line))
        if picture != row["image"]:
            message = f"image_id {row['image_id']!r} has picture {picture!r} in row {where}"
            faults.append((line, f"{message} and {row['image']!r} here"))
    large = {
        row["image_id"]: line
        for line, row in rows
        if row["image_id"].isdecimal() and int(row["image_id"]) > _FLOAT_EXACT
    }
    # One such id may be exact by chance; many that are all exact went through a float.
    if len(large) >= 3 and all(int(float(int(x))) == int(x) for x in large):
        faults += [(line, f"image_id {x} looks rounded by a float") for x, line in large.items()]
    return faults


def _picture_faults(
    path: Path, rows: Sequence[tuple[int, Mapping[str, Any]]]
) -> dict[str, tuple[int, str]]:
    faults: dict[str, tuple[int, str]] = {}
    root, seen = path.resolve(), set()
    for line, row in rows:
        name = row["image"]
        if name in seen:
            continue
        seen.add(name)
        picture = path / name
        try:
            inside = picture.resolve().is_relative_to(root)
        except (OSError, RuntimeError):  # links in a circle
            faults[name] = (line, "is a link that leads nowhere")
            continue
        if not inside:
            faults[name] = (line, "is a link that leaves the folder")
            continue
        reason = picture_fault(picture)
        if reason:
            faults[name] = (line, reason)
    return faults


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise ValueError("a key stands twice")
    return row


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")
