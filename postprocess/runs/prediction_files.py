"""Reads files of predictions, whoever wrote them, and finds them in a folder.

Three kinds are known, gzipped or not: the CLASH release's lists (`*_predictions.json`), the
harness's sample logs (`*_samples_*.jsonl`) and plain JSONL. A row that cannot be read becomes a
named fault with its number, and must never be dropped in silence or end the reading of the others.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from postprocess.runs import names
from postprocess.runs.prediction_rows import Fault, Row, parse_row

MAX_BYTES = 2**30
"""Size, once unpacked, at which a file is refused."""

HANDLED = (
    "the CLASH release's lists of predictions, the harness's sample logs of clash_* and "
    "pragmatch_* tasks, and JSONL rows with prediction, image_answer and text_answer"
)
"""What this module reads, for messages."""

SAMPLES_FILES = ("data/synthetic_captions_test_filtered.json", "test.json", "samples.jsonl")
"""Where a folder may hold the samples, gzipped or not: a release's, a bare copy's, a dataset's."""

_NAME_END = re.compile(r"(_predictions)?(\.jsonl?)?(\.gz)?\Z", re.IGNORECASE)
_PREDICTIONS = re.compile(r"(?:.+_predictions\.json|.+_samples_.+\.jsonl)(?:\.gz)?\Z")


class UnreadableFile(Exception):
    """A file that cannot be read at all; the message names it and says why."""


class Source(NamedTuple):
    """A file of predictions."""

    path: str
    sha256: str
    """Of the file as it lies there, packed or not."""
    rows: list[Row]
    faults: list[Fault]
    n_rows: int
    name: str
    """What its model is called."""
    found: bool = False
    """Whether it was found in a folder, not named by the user."""


def read_source(path: str | Path, captions: str = "auto") -> Source:
    """Read a file of predictions.

    Args:
        path: The file; gzipped or not, whatever its name.
        captions: Which caption was shown, where the rows do not say: `conflicting`, `original`, or
            `auto`: the release's runs on original captions have `wo_contr` in their file names.

    Returns:
        Rows that can be scored, and a fault for each of the others.

    Raises:
        UnreadableFile: The file is missing, too large, cut, or holds no rows.
    """
    path = Path(path)
    raw = _read(path)
    digest = hashlib.sha256(raw).hexdigest()
    values = parse_rows(unpack(raw, path), path)
    if captions == "auto":
        captions = "original" if "wo_contr" in path.name else "conflicting"
    rows: list[Row] = []
    faults: list[Fault] = []
    seen: dict[tuple[Any, ...], int] = {}
    for number, value in values:
        row = value if isinstance(value, Fault) else parse_row(value, number, captions)
        if isinstance(row, Row):
            shown = row.shown
            key = tuple(str(shown.get(x)) for x in ("task", "sample_id", "rotation", "form"))
            first = seen.setdefault((*key, shown.get("caption_kind")), number)
            if first != number:
                name = str(shown["sample_id"])[:80]
                row = Fault(number, f"sample {name!r} stands in row {first} already")
        if isinstance(row, Fault):
            faults.append(row)
        else:
            rows.append(row)
    return Source(str(path), digest, rows, faults, len(values), model_name(path))


def find_files(folder: Path) -> list[Path]:
    """The files of predictions and the sample logs below a folder, in order.

    Raises:
        UnreadableFile: There are none.
    """
    files = sorted(p for p in folder.rglob("*.json*") if _PREDICTIONS.match(p.name) and p.is_file())
    if not files:
        raise UnreadableFile(
            f"{folder}: holds neither *_predictions.json nor *_samples_*.jsonl, gzipped or not"
        )
    return files


def find_samples(folder: Path) -> Path | None:
    """The file of samples that a folder of predictions brings along."""
    names = [f"{name}{packed}" for name in SAMPLES_FILES for packed in ("", ".gz")]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_samples(path: str | Path) -> list[Sample]:
    """Samples of the release's test file, or of a dataset folder's `samples.jsonl`, gzipped or not.

    Raises:
        UnreadableFile: The file is neither.
    """
    path = Path(path)
    data = unpack(_read(path), path)
    try:
        whole = json.loads(data)
        rows = whole["samples"] if isinstance(whole, dict) and "samples" in whole else [whole]
    except (ValueError, RecursionError):
        rows = [value for _, value in parse_rows(data, path)]
    out = []
    for number, row in enumerate(rows if isinstance(rows, list) else [], start=1):
        categories = row.get("categories", row.get("category")) if isinstance(row, dict) else None
        categories = [categories] if isinstance(categories, str) else categories
        if not isinstance(categories, list) or not all(isinstance(x, str) for x in categories):
            raise UnreadableFile(f"{path}: row {number} is no CLASH sample with categories")
        image, question, kind = (str(row.get(x)) for x in ("image_id", "question", "change_type"))
        out.append(Sample(image, question, kind, tuple(categories)))
    if not out:
        raise UnreadableFile(f"{path}: holds no samples")
    return out


def unpack(raw: bytes, path: str | Path) -> bytes:
    """The bytes of a file, gunzipped where they are gzipped; never more than `MAX_BYTES`.

    Raises:
        UnreadableFile: Too large, damaged, or cut.
    """
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
                raw = packed.read(MAX_BYTES + 1)
        except EOFError as error:
            raise UnreadableFile(f"{path}: the gzip file is cut off") from error
        except (OSError, zlib.error) as error:
            raise UnreadableFile(f"{path}: not readable as gzip ({error})") from error
    if len(raw) > MAX_BYTES:
        raise UnreadableFile(f"{path}: more than {MAX_BYTES} bytes")
    return raw


def parse_rows(data: bytes, path: str | Path) -> list[tuple[int, Any]]:
    """The JSON values of a list or of JSON lines, with their numbers from 1.

    A line that is no JSON becomes a `Fault`; blank lines are passed over but numbered.

    Raises:
        UnreadableFile: Neither a JSON list nor JSON lines, or no rows.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    problem = ""
    if data.lstrip()[:1] == b"[":
        try:
            whole = json.loads(data.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            problem = f"not readable as JSON ({str(error)[:120]})"
        else:
            if not whole:
                raise UnreadableFile(f"{path}: holds no rows")
            return list(enumerate(whole, start=1))
    rows = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            rows.append((number, _parse_line(line, number)))
    if not rows:
        raise UnreadableFile(f"{path}: holds no rows")
    if not any(isinstance(value, dict) for _, value in rows):
        problem = problem or "no line is a JSON object"
        raise UnreadableFile(f"{path}: {problem}; this reads {HANDLED}")
    return rows


class Sample(NamedTuple):
    """What the release's test file, or a dataset folder, says of a sample."""

    image_id: str
    question: str
    change_type: str
    categories: tuple[str, ...]


def model_name(path: str | Path) -> str:
    """What to call the model of a file, as a name for a folder.

    A file of predictions is called by its name, without endings and the mark of the caption kind;
    a sample log by the model that the results file beside it names, else by its folder.

    >>> model_name("out/gpt-5_predictions.json.gz"), model_name("llava_wo_contr_predictions.json")
    ('gpt-5', 'llava')
    """
    path = Path(path)
    stamp, log, _ = path.name.partition("_samples_")
    if log:
        name = _model_of_run(path.with_name(f"{stamp}_results.json")) or path.parent.name
    else:
        name = _NAME_END.sub("", path.name, count=1).replace("_wo_contr", "")
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", name).strip("._")[:100] or "unknown"


def _model_of_run(path: Path) -> str | None:
    try:
        config = json.loads(path.read_bytes())["config"]
        model, arguments = config["model"], config["model_args"]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return None
    if not isinstance(model, str):
        return None
    return names.model_name(model, names.flat_args(arguments))


def _parse_line(line: bytes, number: int) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Fault(number, f"is not UTF-8 (byte {error.start})")
    except (ValueError, RecursionError) as error:
        return Fault(number, f"is not JSON ({str(error)[:120]})")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror or error}") from error
