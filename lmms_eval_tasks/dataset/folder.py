"""The dataset folder: rows, pictures, manifest; read, checked and written in one place.

A folder holds one benchmark: a rows file (the benchmark's `data` module says which), the pictures
once each under `images/`, and `manifest.json`. A fault in a row is an error
that names file and row, because a wrong row would become a wrong number. A picture that is missing
or does not decode is an omission: its rows are left out, named and counted. Nothing here reads
outside the folder.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.dataset.checks import Fault, Format, brief, unsafe_path
from lmms_eval_tasks.dataset.files import MAX_BYTES, UnreadableError, read_bytes
from lmms_eval_tasks.dataset.pictures import picture_faults
from lmms_eval_tasks.dataset.rows import no_number, read_rows
from postprocess.benchmarks import benchmarks, named

FORMAT_NAME = "pragclash-dataset"
FORMAT_VERSION = 1
KINDS = ("sample", "custom", "full")
MANIFEST = "manifest.json"


class FolderError(ValueError):
    """A dataset folder that cannot be used; `faults` names each reason with file and row."""

    def __init__(self, path: Path, faults: Sequence[Fault]) -> None:
        """Keep the faults and put the first ones into the message."""
        self.path, self.faults = path, list(faults)
        shown = "; ".join(str(fault) for fault in self.faults[:3])
        more = len(self.faults) - 3
        tail = f"; and {more} more (pragclash validate {path} lists all)" if more > 0 else ""
        super().__init__(f"{path}: {shown}{tail}")


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
        ValueError: There is no such benchmark.
    """
    module = importlib.import_module(f"{named(benchmark).package}.data")
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
    known = list(benchmarks())
    if benchmark not in known:
        found = [b for b in known if (path / format_of(b).rows_file).is_file()]
        if len(found) != 1:
            return faults or [Fault(MANIFEST, None, "names no known benchmark")]
        benchmark = found[0]
    fmt = format_of(benchmark)
    rows, row_faults, identified = read_rows(path, fmt)
    faults += row_faults + _kind_faults(manifest, fmt, rows, row_faults)
    for picture, (line, reason) in picture_faults(path, identified).items():
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
        benchmark: Its name.
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
        lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows]
        # A lone surrogate is for the check below to report, with its row.
        (partial / fmt.rows_file).write_bytes("".join(lines).encode("utf-8", "surrogatepass"))
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
    rows, row_faults, _ = read_rows(path, fmt)
    faults += row_faults + _kind_faults(manifest, fmt, rows, row_faults)
    if not rows and not row_faults:
        faults.append(Fault(fmt.rows_file, None, "holds no rows"))
    if faults:
        raise FolderError(path, faults)
    unusable = picture_faults(path, rows)
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
        content = read_bytes(path / MANIFEST, MAX_BYTES).decode("utf-8")
        manifest = json.loads(content, parse_constant=no_number)
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
    known = list(benchmarks())
    if manifest.get("benchmark") not in known:
        faults.append(Fault(MANIFEST, None, f'"benchmark" must be one of {", ".join(known)}'))
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
