"""Where literal captions come from: a file of human captions, or a harness backend.

A caption is taken as it is given, or not at all: what cannot be captioned is left out and counted,
and nothing here ever writes a caption of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.dataset.checks import Fault, check_id, check_text
from lmms_eval_tasks.dataset.files import sha256
from lmms_eval_tasks.dataset.journal import Journal
from lmms_eval_tasks.pragmatch.make.mmsd import SourceError, read_json
from postprocess.pictures import picture_of
from postprocess.response.line import is_failed, split_response

PROMPT = (
    "Describe what this picture shows in one plain sentence of at most twenty words. Name only "
    "what can be seen. No opinion, no joke, no introduction."
)
PROMPT_VERSION = 1
NEW_TOKENS = 64
MAX_CHARS = 300

_COLUMNS = ("caption", "captions")
_ALLOWED = {
    "image_id", *_COLUMNS, "file_name", "split", "license", "license_url", "source", "annotator",
}  # fmt: skip
_TASK, _SPLIT = "pragclash_literal_captions", "all"
_TOLD_ARGUMENTS = ("model", "model_version", "model_name", "pretrained", "revision", "dtype")
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_REFUSAL = re.compile(
    r"^(?:i['’ ]?m sorry|i am sorry|sorry|i can(?:not|['’ ]?t)|as an ai|i['’ ]?m unable)",
    re.IGNORECASE,
)


class CaptionerError(RuntimeError):
    """A captioner that captions nothing: the last reason it gave."""


class Literal(NamedTuple):
    """Human captions of a file."""

    captions: dict[str, str]
    """Image id to its caption."""
    licences: dict[str, str]
    """Image id to the licence named beside it."""
    provenance: dict[str, Any]


def read_captions(path: Path | str) -> Literal:
    """Read human captions: a JSON list, or JSON lines.

    A row has `image_id` and `caption`, or `captions` (a list, of which the first that is not all in
    capitals is taken). Columns about the picture (`file_name`, `license`, `license_url`, `source`,
    `split`, `annotator`) may stand beside them.

    Raises:
        SourceError: The file cannot be read, or rows are faulty; each fault with its row.
    """
    path = Path(path)
    faults: list[Fault] = []
    captions: dict[str, str] = {}
    licences: dict[str, str] = {}
    seen: dict[str, int] = {}
    for number, row in read_json(path):
        messages, image_id, caption = _read_row(row)
        if not messages:
            first = seen.setdefault(image_id, number)
            if first != number:
                messages = [f"image_id {image_id} stands in row {first} already"]
            captions[image_id] = caption
            if isinstance(row.get("license"), str):
                licences[image_id] = row["license"][:200]
        faults += [Fault(path.name, number, message) for message in messages]
    if not captions and not faults:
        faults.append(Fault(path.name, None, "holds no captions"))
    if faults:
        raise SourceError(path, faults)
    provenance = {"name": path.name, "sha256": sha256(path), "rows": len(captions)}
    return Literal(captions, licences, {"by": "people", **provenance})


def _read_row(row: object) -> tuple[list[str], str, str]:
    """Faults, image id and caption of a row."""
    if not isinstance(row, Mapping):
        return ["is not a JSON object"], "", ""
    messages = [
        f"has the unknown column {str(name)[:40]!r}" for name in sorted(set(row) - _ALLOWED)
    ]
    if "image_id" not in row or not any(name in row for name in _COLUMNS):
        return [*messages, "needs 'image_id', and 'caption' or 'captions'"], "", ""
    image_id = row["image_id"]
    if isinstance(image_id, int) and not isinstance(image_id, bool):
        image_id = str(image_id)
    messages += check_id("image_id", image_id)
    caption = row.get("caption")
    if caption is None:
        several = row["captions"]
        if not isinstance(several, list) or not several:
            return [*messages, "captions must be a list with at least one caption"], "", ""
        plain = [x for x in several if isinstance(x, str) and not x.isupper()]
        caption = (plain or several)[0]
    messages += check_text("caption", caption)
    return messages, str(image_id), " ".join(str(caption).split())


def tidy(text: str) -> str | None:
    r"""A captioner's answer as one line, or None where it is no caption.

    >>> tidy('"A dog on a couch."\n')
    'A dog on a couch.'
    >>> tidy("I'm sorry, I cannot see the picture.") is None
    True
    """
    text = " ".join(_THOUGHT.sub(" ", text).split()).strip("\"'“” ")
    if len(text) > MAX_CHARS:
        end = max(text.rfind(mark, 0, MAX_CHARS) for mark in (". ", "! ", "? "))
        text = text[: end + 1]
    text = text.encode("utf-8", "ignore").decode("utf-8")
    return text if any(char.isalpha() for char in text) and not _REFUSAL.match(text) else None


class Captioner:
    """A harness backend that captions pictures; loaded when the first picture needs it."""

    def __init__(
        self, model: str, arguments: str = "", batch_size: int = 1, device: str | None = None
    ) -> None:
        """Remember what to load.

        Args:
            model: The harness's id of a backend (`qwen2_5_vl`, `openai`, ...).
            arguments: Its arguments, `name=value,...`.
            batch_size: Pictures in one call.
            device: As for the harness.
        """
        self.model, self.arguments = model, arguments
        self.batch_size, self.device = batch_size, device
        self._lm: Any = None

    @property
    def provenance(self) -> dict[str, Any]:
        """What made the captions. Arguments that may hold a key or an address are left out."""
        given = dict(part.split("=", 1) for part in self.arguments.split(",") if "=" in part)
        told = {name: given[name] for name in _TOLD_ARGUMENTS if name in given}
        return {"by": "model", "model": self.model, **told, "prompt_version": PROMPT_VERSION}

    @property
    def key(self) -> str:
        """Tells the captions of one captioner from another's; from what is told alone."""
        told = json.dumps([self.provenance, PROMPT, NEW_TOKENS], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def answer(self, pictures: Sequence[bytes]) -> list[str]:
        """The backend's raw answers to pictures; whatever it raises comes through."""
        if self._lm is None:
            self._lm = self._load()
        from lmms_eval.api.instance import GenerationResult, Instance

        docs = [{"image": picture_of(x)} for x in pictures]
        lm = self._lm
        lm.task_dict[_TASK] = {_SPLIT: docs}
        settings = {"max_new_tokens": NEW_TOKENS, "temperature": 0, "do_sample": False, "until": []}
        requests = []
        for doc_id in range(len(docs)):
            place = (doc_id, _TASK, _SPLIT)
            arguments = (
                (PROMPT, dict(settings), _visual, *place)
                if lm.is_simple
                else (PROMPT, _messages, dict(settings), *place)
            )
            facts = {"task": _TASK, "doc_id": doc_id, "repeats": 1, "split": _SPLIT}
            requests.append(Instance("generate_until", arguments, 0, facts))
        answers = lm.generate_until(requests)
        texts = [a.text if isinstance(a, GenerationResult) else a for a in answers]
        if len(texts) != len(pictures):
            raise CaptionerError(f"{self.model}: {len(texts)} answers to {len(pictures)} pictures")
        return [text if isinstance(text, str) else str(text) for text in texts]

    def _load(self) -> Any:
        from lmms_eval.models import get_model

        extra = {"batch_size": self.batch_size, "device": self.device}
        return get_model(self.model).create_from_arg_string(self.arguments, extra)


def _visual(doc: Mapping[str, Any]) -> list[Any]:
    return [doc["image"]]


def _messages(doc: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = [{"type": "image", "url": doc["image"]}, {"type": "text", "text": PROMPT}]
    return [{"role": "user", "content": content}]


def caption_pictures(
    captioner: Captioner,
    pictures: Iterable[tuple[str, str, Path]],
    journal: Journal,
    retries: int = 2,
    ask_failed: bool = False,
) -> tuple[dict[str, str], dict[str, str]]:
    """Caption pictures, keeping each result at once.

    A call that fails is tried again picture by picture; a picture that fails `retries` more times
    is left out. Known results are not asked for again.

    Args:
        captioner: The backend.
        pictures: (image id, SHA-256 of the file, file) of each.
        journal: Results by the file's hash.
        retries: Further attempts for a picture.
        ask_failed: Whether pictures that failed in an earlier build are asked about again.

    Returns:
        Captions by image id, and reasons by image id for those without one.

    Raises:
        CaptionerError: No picture at all could be captioned.
    """
    from tqdm import tqdm

    pictures = list(pictures)
    unknown = {
        digest: path
        for _, digest, path in pictures
        if digest not in journal or (ask_failed and journal[digest][0] is None)
    }
    waiting = list(unknown.items())
    with tqdm(total=len(waiting), desc="captions", file=sys.stderr, disable=not waiting) as bar:
        for start in range(0, len(waiting), max(1, captioner.batch_size)):
            batch = waiting[start : start + max(1, captioner.batch_size)]
            for digest, result in _caption_batch(captioner, batch, retries):
                journal.put(digest, result)
                bar.update()
    captions: dict[str, str] = {}
    failed: dict[str, str] = {}
    for image_id, digest, _ in pictures:
        caption, reason = journal[digest]
        if caption is None:
            failed[image_id] = reason
        else:
            captions[image_id] = caption
    if pictures and not captions:
        raise CaptionerError(
            f"{captioner.model} captioned none of {len(pictures)} pictures; the last reason: "
            f"{list(failed.values())[-1]}"
        )
    return captions, failed


Result = tuple[str | None, str | None]
"""A caption, or the reason why there is none."""


def _caption_batch(
    captioner: Captioner, batch: Sequence[tuple[str, Path]], retries: int
) -> Iterable[tuple[str, Result]]:
    results = _attempt(captioner, [path for _, path in batch])
    for (digest, path), first in zip(batch, results, strict=True):
        result = first
        for _ in range(retries):
            if result[0] is not None:
                break
            (result,) = _attempt(captioner, [path])
        yield digest, result


def _attempt(captioner: Captioner, paths: Sequence[Path]) -> list[Result]:
    try:
        answers = captioner.answer([path.read_bytes() for path in paths])
    except Exception as error:
        # A backend may raise anything; a build must not stop for it at hour three.
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return [(None, reason)] * len(paths)
    return [_result(answer) for answer in answers]


def _result(answer: str) -> Result:
    text = split_response(answer)[0]
    # The harness writes its own notices (failed, over budget) where an answer would stand.
    if is_failed(text) or text.lstrip().startswith("[LMMS_EVAL_"):
        return None, f"the request failed: {' '.join(text.split())[:200]}"
    caption = tidy(text)
    return (caption, None) if caption else (None, "the answer is no caption")
