"""Which requests of a run are one inference, and in which order inferences run.

The harness hands over the requests of all chosen tasks in one list, in the order of the tasks.
Requests with the same picture content, the same prompt and the same generation arguments are one
job with several askers, and the jobs of one picture follow each other, so that its prefix is
computed once. Where an answer belongs is kept by position in the harness's list, never guessed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from model_wrappers.verdict.reading import ReadingRule, SetScore

_REASON_CHARS = 300


@dataclass
class Job:
    """One inference and everyone who waits for it."""

    request: Any
    """The first request that asks for it, as the harness made it."""
    askers: list[int]
    """Positions of the requests it answers."""
    pictures: tuple[str, ...] = ()
    """Digests of its pictures' content; empty for text alone."""
    prompt: str = ""
    """The prompt; for messages their JSON without the media."""
    text: str = ""
    """The words of the prompt alone."""
    gen_kwargs: dict[str, Any] = field(default_factory=dict)
    error: Exception | None = None
    """Why its document could not be read; such a job is never run."""

    @property
    def batch_key(self) -> tuple[str, str, str, bool]:
        """Jobs that a backend may run as rows of one batch share this."""
        return (
            self.request.metadata["task"],
            str(self.request.metadata.get("split")),
            _canonical(self.gen_kwargs),
            bool(self.pictures),
        )


@dataclass
class JobAnswer:
    """What became of a job."""

    text: str = ""
    """The backend's words, unchanged."""
    token_counts: Any = None
    failure: str | None = None
    """Why there is no answer; None where there is one."""
    retries: int = 1
    """How often a failed job was tried again."""
    finish: str | None = None
    """`stop` where the model ended by itself, `length` where a limit ended it."""
    scores: dict[ReadingRule, SetScore] = field(default_factory=dict)
    """The score of each reading that has one."""
    details: dict[ReadingRule, dict[str, Any]] = field(default_factory=dict)
    """What the score of each reading rests on, JSON values."""


def reason(error: BaseException) -> str:
    """An exception as the one line of a failed request."""
    words = " ".join(str(error).split())
    line = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return line[:_REASON_CHARS]


def wanted(job: Job, readings: Sequence[ReadingRule | None]) -> list[ReadingRule]:
    """The different readings that the askers of a job want, in order."""
    found = dict.fromkeys(readings[asker] for asker in job.askers)
    return [reading for reading in found if reading is not None]


def picture_digest(picture: Any) -> str | None:
    """A digest of a picture's content, or None for something whose content cannot be seen.

    >>> grey = Image.new("RGB", (2, 1), "grey")
    >>> picture_digest(grey) == picture_digest(Image.new("RGB", (1, 2), "grey"))
    False
    """
    if not isinstance(picture, Image.Image):
        return None
    digest = hashlib.blake2b(f"{picture.mode}|{picture.size}|".encode(), digest_size=16)
    digest.update(picture.tobytes())
    if picture.mode == "P":
        digest.update(bytes(picture.getpalette() or ()))
    return digest.hexdigest()


def is_sampled(gen_kwargs: Mapping[str, Any]) -> bool:
    """Whether an answer is drawn at random, so that each request is a draw of its own."""
    return bool(gen_kwargs.get("do_sample")) or bool(gen_kwargs.get("temperature") or 0)


def plan(requests: Sequence[Any], task_dict: Mapping[str, Any], *, simple: bool) -> list[Job]:
    """The jobs of a list of requests, grouped by picture.

    Args:
        requests: The harness's requests of type `generate_until`.
        task_dict: Documents by task and split, as on the model.
        simple: Whether the requests are of the simple form (context and visuals) rather than of
            the chat form (messages).

    Returns:
        Jobs in running order: pictures in order of their first request, the prompts of a picture
        sorted so that neighbours share the longest beginning, text alone last.
    """
    jobs: dict[Any, Job] = {}
    order: dict[tuple[str, ...], int] = {}
    for position, request in enumerate(requests):
        job, key = _job(request, position, task_dict, simple)
        order.setdefault(job.pictures, position)
        if key in jobs:
            jobs[key].askers.append(position)
        else:
            jobs[key] = job
    return sorted(
        jobs.values(), key=lambda job: (not job.pictures, order[job.pictures], job.prompt)
    )


def _job(
    request: Any, position: int, task_dict: Mapping[str, Any], simple: bool
) -> tuple[Job, Any]:
    if simple:
        context, gen_kwargs, to_media, doc_id, task, split = request.args
    else:
        context, to_media, gen_kwargs, doc_id, task, split = request.args
    gen_kwargs = dict(gen_kwargs)
    try:
        media = to_media(task_dict[task][split][doc_id])
        if simple:
            digests = [picture_digest(visual) for visual in media or ()]
            prompt = text = context
        else:
            digests = []
            words: list[str] = []
            prompt = _canonical(_without_media(media, digests, words))
            text = " ".join(words)
    except Exception as error:
        return Job(request, [position], gen_kwargs=gen_kwargs, error=error), ("error", position)
    job = Job(
        request,
        [position],
        tuple(digest or f"unseen {position} {at}" for at, digest in enumerate(digests)),
        prompt,
        text,
        gen_kwargs,
    )
    if None in digests or is_sampled(gen_kwargs):
        return job, ("own", position)
    return job, (job.pictures, prompt, _canonical(gen_kwargs))


def _without_media(value: Any, digests: list[str | None], words: list[str]) -> Any:
    """Messages without their media; digests of pictures and the texts are appended as they come."""
    if isinstance(value, list):
        return [_without_media(item, digests, words) for item in value]
    if not isinstance(value, Mapping):
        return value
    if value.get("type") in ("image", "video", "audio"):
        digests.append(picture_digest(value.get("url")))
        return {**value, "url": None}
    if isinstance(value.get("text"), str):
        words.append(value["text"])
    return {name: _without_media(item, digests, words) for name, item in value.items()}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=repr)
