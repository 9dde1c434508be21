"""The wording of CLASH's questions, and how a prompt is put together.

A prompt is the instruction, the caption, the question and, in multiple choice, the options, each on
a line of its own and without labels: that is the release's form. The release's own instructions may
not be shipped. A dataset folder built from a user's copy carries them and they are used; everybody
else gets the instructions below, which this project wrote. Which of the two it was stands in every
record. A changed word changes results: raise `PROMPT_VERSION` and the snapshots in the same commit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.data import OfficialPrompt, prompt_hash
from lmms_eval_tasks.clash.options import option_lines

PROMPT_VERSION = 1

INSTRUCTIONS = {
    "multiple_choice": (
        "You see a picture. Below it stand one sentence about the picture, one question and four "
        "options. The sentence may be wrong about what the picture shows. Choose the option that "
        "fits picture and sentence taken together, and reply with its letter alone, in round "
        "brackets."
    ),
    "open_ended": (
        "You see a picture. Below it stand one sentence about the picture and one question. The "
        "sentence may be wrong about what the picture shows. If picture and sentence lead to the "
        "same answer, reply with that answer in a few words. If they lead to different answers, "
        "reply: conflicting information."
    ),
    "judge": (
        "A program was shown a picture and a sentence that disagree on one detail, and was asked "
        "about that detail. You get the answer that follows from the picture, the answer that "
        "follows from the sentence, and what the program replied. Sort the reply into one class:\n"
        "IMAGE: it gives the picture's answer, in these or other words.\n"
        "TEXT: it gives the sentence's answer, in these or other words.\n"
        "CONFLICT: it says that picture and sentence do not agree.\n"
        "NONE: anything else.\n"
        "Picture's answer: {image_answer}\n"
        "Sentence's answer: {text_answer}\n"
        "Reply of the program: {prediction}\n"
        "Write the name of the class and nothing more."
    ),
}
"""Our instructions, by the names that official ones have in a folder's manifest."""

SLOTS = ("image_answer", "text_answer", "prediction")
"""What a judge's instruction has in braces where the two answers and the prediction go."""

_SLOT = re.compile(rf"\{{({'|'.join(SLOTS)})\}}")


class Instruction(NamedTuple):
    """The instruction in force, and where it comes from."""

    text: str
    prompt: str
    """`official` or `pragclash`."""
    sha256: str


def instruction(name: str, official: Mapping[str, OfficialPrompt]) -> Instruction:
    """The release's instruction where the dataset folder carries it, else ours.

    Args:
        name: `multiple_choice`, `open_ended` or `judge`.
        official: What the folder carries, by the same names.
    """
    if name in official:
        return Instruction(official[name].text, "official", official[name].sha256)
    text = INSTRUCTIONS[name]
    return Instruction(text, "pragclash", prompt_hash(text))


def compose(head: str, row: Mapping[str, Any], caption: str, order: str | None = None) -> str:
    """The text of one request; the picture goes before it.

    Args:
        head: The instruction.
        row: A row of `samples.jsonl`.
        caption: The caption that is shown, as it is, spaces at its end included.
        order: Option order in multiple choice, None for an open question.
    """
    options = [] if order is None else option_lines(row, order)
    return "\n".join([head, caption, row["question"], *options])


def judge_request(head: str, row: Mapping[str, Any], prediction: str) -> str:
    """What a judge is asked: the two answers and the prediction, never the question.

    Slots in braces are filled in one pass, so that braces in a model's answer stay text.

    Args:
        head: The instruction with each of `SLOTS` in braces; official ones hold the release's
            whole request.
        row: A row or document with `image_answer` and `text_answer`.
        prediction: The model's words.

    Raises:
        ValueError: The instruction lacks a slot.
    """
    missing = sorted(set(SLOTS) - set(_SLOT.findall(head)))
    if missing:
        raise ValueError(
            f"the judge's instruction has no slot for {', '.join(missing)}: make the dataset "
            "folder again with pragclash data clash --release"
        )
    values = {"prediction": prediction, **{name: row[name] for name in SLOTS[:2]}}
    return _SLOT.sub(lambda slot: str(values[slot[1]]), head)
