"""Reads a user's own copy of the CLASH release: samples, fine-tuning files, official prompts.

Nothing of the release is shipped with this project and nothing of it is ever run: the prompts are
taken as values out of parsed source text. A sample that cannot be used is named and counted.
"""

from __future__ import annotations

import ast
import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.data import (
    TEXTS,
    OfficialPrompt,
    check_row,
    prompt_hash,
    sample_id_of,
)
from lmms_eval_tasks.dataset.checks import check_text

SPLITS = {
    "test": "data/synthetic_captions_test_filtered.json",
    "finetune": "data/filtered_data_finetune.json",
    "finetune-merged": "data/merged_data_finetune.json",
}
"""Split to its file in the release: the test set, and the fine-tuning sets of 18,097 and 31,676."""

PROMPTS_FILE = "src/models/prompts.py"
CONSTANTS = {
    "multiple_choice": "MULTIPLE_CHOICE_INSTRUCTION",
    "open_ended": "OPEN_ENDED_INSTRUCTION",
    "judge": "JUDGE_PROMPT",
}
"""Prompt name to the constant in `PROMPTS_FILE` that holds it."""

TEST_DIGEST = "e244bdc59c3282030bf2b19793f80e48467c22e1e5d2b3298dc697dd41b37a88"
"""`content_digest` of the released test set."""

MAX_SOURCE_BYTES = 1_000_000
MAX_DATA_BYTES = 1_000_000_000


class ReleaseError(ValueError):
    """The copy of the release cannot be used; the message names the file and what is wrong."""


class Samples(NamedTuple):
    """The samples of one file of the release."""

    rows: list[dict[str, Any]]
    """Rows of our format without `image`, in the file's order."""
    faults: list[str]
    """One line for each sample that cannot be used, with its place in the file from 0."""
    sha256: str
    """Hash of the file."""


def read_samples(release: Path, split: str) -> Samples:
    """The samples of a split, in the release's order.

    Raises:
        ReleaseError: The file is missing, or is not what the release has there.
    """
    name = SPLITS[split]
    content = _read(release, name, MAX_DATA_BYTES)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ReleaseError(f"{name}: is not JSON ({str(error)[:120]})") from error
    samples = data.get("samples") if isinstance(data, Mapping) else data
    if not isinstance(samples, list):
        raise ReleaseError(f'{name}: holds no list of samples under "samples"')
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    places: dict[str, int] = {}
    for place, sample in enumerate(samples):
        try:
            row = parse_sample(sample)
        except ValueError as error:
            faults.append(f"{name}: sample {place}: {error}")
            continue
        first = places.setdefault(row["sample_id"], place)
        if first == place:
            rows.append(row)
        else:
            faults.append(f"{name}: sample {place}: says the same as sample {first}")
    return Samples(rows, faults, hashlib.sha256(content).hexdigest())


def parse_sample(sample: object) -> dict[str, Any]:
    """One sample of the release as a row of our format, `image` left out.

    Texts stay exactly as they are, because a prompt is made of them: many captions of the release
    end in a space. A category may be one name, a list of names, or absent (fine-tuning files).

    Raises:
        ValueError: The sample lacks something, or says something that no row may say.
    """
    if not isinstance(sample, Mapping):
        raise ValueError("is not a JSON object")
    image_id = sample.get("image_id")
    if isinstance(image_id, str) and image_id.isascii() and image_id.isdecimal():
        image_id = int(image_id[:20])
    if isinstance(image_id, bool) or not isinstance(image_id, int) or not 0 <= image_id < 10**12:
        raise ValueError(f"image_id {str(image_id)[:40]!r} is no COCO image id")
    category = sample.get("category")
    categories = [] if category is None else [category] if isinstance(category, str) else category
    if isinstance(categories, list) and all(isinstance(name, str) for name in categories):
        categories = list(dict.fromkeys(categories))
    row = {
        "image_id": str(image_id),
        "original_caption": sample.get("original_caption"),
        "conflicting_caption": sample.get("conflicting_caption"),
        "question": sample.get("question"),
        "change_type": sample.get("change_type"),
        "categories": categories,
        "original_word": _inner(sample, "changed_words", "original"),
        "conflicting_word": _inner(sample, "changed_words", "conflicting"),
        "image_answer": _inner(sample, "answers", "image_only"),
        "text_answer": _inner(sample, "answers", "text_only"),
        "distractor": _inner(sample, "answers", "irrelevant_but_plausible"),
    }
    faults = check_row(row)
    if faults:
        raise ValueError(f"image_id {image_id}: {'; '.join(faults)}")
    return {"sample_id": sample_id_of(row["image_id"], row), **row}


def paper_view(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that the paper's figures rest on: of a picture's rows the last one in the file.

    The release keys its results by picture, so that a later row overwrites an earlier one: its
    files have n = 1,281. (Checked on twelve of its prediction files: eleven hold the last question
    of all eight pictures; in gpt-5's multiple choice three of them have their first.)

    >>> rows = [{"image_id": "1", "n": 1}, {"image_id": "2", "n": 2}, {"image_id": "1", "n": 3}]
    >>> paper_view(rows)
    [{'image_id': '2', 'n': 2}, {'image_id': '1', 'n': 3}]
    """
    last = {row["image_id"]: place for place, row in enumerate(rows)}
    return [row for place, row in enumerate(rows) if last[row["image_id"]] == place]


def content_digest(rows: list[dict[str, Any]]) -> str:
    """SHA-256 over the rows' content, whatever their order and whichever picture file they name."""
    names = ("sample_id", "image_id", *TEXTS, "change_type", "categories")
    lines = sorted(json.dumps([row[name] for name in names]) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def has_prompts(release: Path) -> bool:
    """Whether the copy holds the source file with the official prompts."""
    return (release / PROMPTS_FILE).is_file()


def read_prompts(release: Path) -> dict[str, OfficialPrompt]:
    """The official prompts with their hashes, out of the release's source file.

    Raises:
        ReleaseError: The file is missing, a constant is not there, or it is no plain text.
    """
    source = _read(release, PROMPTS_FILE, MAX_SOURCE_BYTES)
    try:
        values = string_constants(source.decode("utf-8-sig"), tuple(CONSTANTS.values()))
    except ValueError as error:
        raise ReleaseError(f"{PROMPTS_FILE}: {error}") from error
    prompts = {}
    for name, constant in CONSTANTS.items():
        faults = check_text(constant, values[constant])
        if faults:
            raise ReleaseError(f"{PROMPTS_FILE}: {faults[0]}")
        prompts[name] = OfficialPrompt(values[constant], prompt_hash(values[constant]))
    return prompts


def string_constants(source: str, names: tuple[str, ...]) -> dict[str, str]:
    r"""The values of string constants that a module's source assigns, without running it.

    Understood are string literals (also adjacent ones, in brackets, triple-quoted), their sums,
    names of string constants assigned above, f-strings of those, and `+=`. The last assignment
    counts, as when the module is run.

    Args:
        source: Python source text.
        names: The constants to read.

    Raises:
        ValueError: The text is no Python, a constant is not assigned at the module's top level, or
            its value takes more than the above.

    >>> string_constants('A = "x\\n"\nB = (A + "y"\n     " – z")', ("B",))
    {'B': 'x\ny – z'}
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"is not readable as Python ({str(error)[:120]})") from error
    known: dict[str, str | ValueError] = {}
    for statement in tree.body:
        plain = list(_assignments(statement))
        for name, line in _bound([value for _, value in plain] or [statement]):
            known[name] = _not_plain(name, line)
        for name, value in plain:
            try:
                known[name] = _text(value, known)
            except ValueError as error:
                known[name] = error
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            known |= {name: _not_plain(name, node.lineno) for name in node.names}
    values = {}
    for name in names:
        value = known.get(name, ValueError(f"{name} is not assigned at the top level"))
        if isinstance(value, ValueError):
            raise value
        values[name] = value
    return values


def _assignments(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Names that a plain assignment sets, with the value; nothing for other statements."""
    if isinstance(statement, ast.Assign):
        if all(isinstance(target, ast.Name) for target in statement.targets):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value
    elif isinstance(statement, ast.AnnAssign):
        if isinstance(statement.target, ast.Name) and statement.value is not None:
            yield statement.target.id, statement.value
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        target = statement.target
        if isinstance(target, ast.Name):
            before = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            total = ast.BinOp(before, ast.Add(), statement.value)
            yield target.id, ast.copy_location(total, statement)


def _bound(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
    """Names that code sets in any other way, outside functions and classes."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, node.lineno
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((x.asname or x.name.partition(".")[0], node.lineno) for x in node.names)
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno
        pending += ast.iter_child_nodes(node)


def _not_plain(name: str, line: int) -> ValueError:
    return ValueError(f"line {line}: {name} is set by more than a plain assignment")


def _text(node: ast.expr, known: Mapping[str, str | ValueError]) -> str:
    """The string that an expression stands for."""
    parts: list[str] = []
    length = 0
    pending: list[ast.expr] = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts.append(node.value)
            length += len(node.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            pending += [node.right, node.left]
        elif isinstance(node, ast.JoinedStr):
            pending += reversed(node.values)
        elif (
            isinstance(node, ast.FormattedValue) and node.conversion == -1 and not node.format_spec
        ):
            pending.append(node.value)
        elif isinstance(node, ast.Name) and node.id in known:
            value = known[node.id]
            if isinstance(value, ValueError):
                raise value
            parts.append(value)
            length += len(value)
        else:
            kind = type(node).__name__
            what = f"the name {node.id}" if isinstance(node, ast.Name) else kind
            raise ValueError(f"line {node.lineno}: a prompt made with {what} is not a plain text")
        if length > MAX_SOURCE_BYTES:
            raise ValueError(f"line {node.lineno}: the value is too long")
    return "".join(parts)


def _inner(sample: Mapping[str, Any], outer: str, name: str) -> object:
    inner = sample.get(outer)
    return inner.get(name) if isinstance(inner, Mapping) else None


def _read(release: Path, name: str, limit: int) -> bytes:
    path = release / name
    try:
        if path.stat().st_size > limit:
            raise ReleaseError(f"{name}: is larger than {limit} bytes")
        return path.read_bytes()
    except OSError as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else str(error.strerror)
        raise ReleaseError(f"{name}: {reason} in {release}") from error
