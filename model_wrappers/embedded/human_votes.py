"""People as a model: replays the votes that the annotation page collected.

One annotator is one model (`annotator=NAME`), so that people stand in the same tables as models.
It must never fill in a vote: what nobody voted on is left out and counted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lmms_eval.api.instance import Instance
from loguru import logger

from lmms_eval_tasks.dataset.current import current_folder
from model_wrappers.embedded.base import EmbeddedModel
from postprocess.response.line import LEFT_OUT, attach_response

VOTES_FILE = "votes.jsonl"
"""Where `pragclash agreement` writes the votes, inside the dataset folder."""

LABELS = ("yes", "no", "unclear")


def read_votes(path: Path) -> dict[str, dict[str, str]]:
    """The votes of a file: annotator to sample id to label.

    Raises:
        ValueError: The file is missing, or a row is no vote, or one annotator voted twice on one
            sample in different ways.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError as error:
        raise ValueError(
            f"{path}: no votes; collect them with `pragclash annotate`, export them with "
            "`pragclash agreement`"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 (byte {error.start})") from error
    votes: dict[str, dict[str, str]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        sample_id, annotator, label = _vote(line, f"{path}:{number}")
        known = votes.setdefault(annotator, {})
        if known.setdefault(sample_id, label) != label:
            raise ValueError(
                f"{path}:{number}: {annotator!r} votes {label!r} on {sample_id!r} and "
                f"{known[sample_id]!r} in an earlier row"
            )
    return votes


def _vote(line: str, where: str) -> tuple[str, str, str]:
    try:
        row = json.loads(line)
        sample_id, annotator, label = (row[name] for name in ("sample_id", "annotator", "label"))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ValueError(f"{where}: is no vote ({type(error).__name__}: {error})") from error
    if label not in LABELS or not all(isinstance(x, str) and x for x in (sample_id, annotator)):
        raise ValueError(
            f"{where}: sample_id {sample_id!r:.40} and annotator {annotator!r:.40} must be text, "
            f"label {label!r:.40} one of {', '.join(LABELS)}"
        )
    return sample_id, annotator, label


class HumanVotes(EmbeddedModel):
    """One annotator's votes."""

    model_id = "human_votes"

    def __init__(
        self,
        annotator: str | None = None,
        votes: str | None = None,
        **arguments: Any,
    ) -> None:
        """Read the votes.

        Args:
            annotator: Whose votes; may be left out where the file holds one annotator's only.
            votes: The votes file; `votes.jsonl` of the dataset folder where not given.
            **arguments: What the harness passes to every model.

        Raises:
            TypeError: An unknown argument.
            ValueError: The file cannot be used, or the annotator is not in it.
        """
        super().__init__(**arguments)
        path = Path(votes) if votes else current_folder("pragmatch").path / VOTES_FILE
        found = read_votes(path)
        # The harness turns annotator=7 into a number.
        name = None if annotator is None else str(annotator)
        if name is None and len(found) == 1:
            (name,) = found
        if name not in found:
            known = ", ".join(sorted(found)) or "nobody"
            raise ValueError(f"{path}: annotator={name!r} has no votes; known: {known}")
        self.annotator, self.votes = name, found[name]

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Give each request's vote; says how many there were and how many are missing."""
        counts = dict.fromkeys((*LABELS, "missing"), 0)
        answers = []
        for request in requests:
            doc = self.pragmatch_document(request, "sample_id", "prompt", "condition")
            label = self.votes.get(doc["sample_id"])
            counts[label or "missing"] += 1
            answers.append(_answer(label, doc["prompt"]))
        told = ", ".join(f"{count} {label}" for label, count in counts.items())
        level = "WARNING" if counts["missing"] else "INFO"
        logger.log(level, f"human_votes of {self.annotator}: {told} of {len(requests)} requests")
        return answers


def _answer(label: str | None, prompt: str) -> str:
    """The answer's text: a vote in words, or nothing with `finish` telling why."""
    if label is None:
        return attach_response("", None, finish=LEFT_OUT)
    word = label.capitalize()
    return f"Verdict: {word}" if prompt == "cot" else word
