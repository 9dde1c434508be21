"""One flat record a CLASH document: what was shown, what came back, and what it says.

Tables, report and export are computed from these records alone, and `pragclash score` recomputes
them from the answer, so a record carries the two answers and the letters it was matched with. It
must never change an answer, nor read one twice in different ways.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from postprocess.read import matching
from postprocess.response import line as records

SHOWN = (
    "task",
    "sample_id",
    "image_id",
    "form",
    "caption_kind",
    "modality",
    "prompt",
    "prompt_hash",
    "option_order",
    "rotation",
    "change_type",
    "categories",
    "caption",
    "question",
    "image_answer",
    "text_answer",
    "distractor",
    "conflict_option",
    "dataset_kind",
    "dataset_fingerprint",
    "n_omitted",
)
"""Columns of a document that its record repeats; a column that a document lacks becomes null."""

FORMS = ("mc", "open")
"""Multiple choice, and open questions."""

CAPTION_KINDS = ("conflicting", "original")
"""The caption with the false element, and the true one (where a conflict is a false alarm)."""

FLAGS = ("conflict", "image", "text", "none", "distractor", "unusable")
"""The official flags; a record has each as `flag_<name>`: 1, 0, or null where the form has none."""

CONFLICT_OPTION = "Conflicting information"
"""What the relaxed reading looks for where a document lacks the text of its conflict option."""


def clash_record(shown: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    """The record of one answered document.

    Correct means, on a conflicting caption, that the conflict is flagged; on an original caption,
    that the picture's answer is given and no conflict is flagged. The first is the paper's conflict
    rate; the second is stricter than the paper's image rate, which a false alarm does not lower.

    Args:
        shown: The document's columns (a record has them too, under the same names). Needed are
            `form`, `caption_kind`, `image_answer`, `text_answer` and, for `mc`, `option_order`
            (or `letters`, role to letter, where an order is not complete).
        answer: The answer as the harness hands it over, response line included; null and whatever
            else a file may hold are read as `matching.prediction_text` says.

    Returns:
        A flat dict of JSON values: `record` (version), the columns of `SHOWN`, `response` (without
        the line), `status`, `outcome`, `flag_*`, `overlap`, `correct`; for multiple choice the
        parsed `letter`, `relaxed_letter` and `relaxed_outcome` (the second view), and where the
        response line has letter log-probabilities `letter_logprob_choice` (the likeliest letter;
        null in a tie), `letter_logprob_role`, `letter_correct` (1, 0; null without
        log-probabilities), `letter_mass` (probability on the letters together), `letter_logps`
        and `letter_source`.

    Raises:
        ValueError: The form or caption kind is unknown, or the letters are; never because of the
            answer.

    >>> shown = {"sample_id": "7", "form": "open", "caption_kind": "conflicting"}
    >>> record = clash_record({**shown, "image_answer": "Kite", "text_answer": "Ball"}, "a kite")
    >>> record["outcome"], record["correct"], record["flag_image"], record["flag_distractor"]
    ('image', 0, 1, None)
    """
    form, kind = shown.get("form"), shown.get("caption_kind")
    if form not in FORMS or kind not in CAPTION_KINDS:
        where = f"sample {str(shown.get('sample_id'))[:80]!r}"
        raise ValueError(f"{where}: form {form!r:.40} or caption kind {kind!r:.40} is unknown")
    response = records.measured(matching.prediction_text(answer))
    response = response._replace(text=records.encodable(response.text))
    record: dict[str, Any] = {"record": records.RECORD_VERSION}
    record.update((name, shown.get(name)) for name in SHOWN)
    record["modality"] = record["modality"] or "image_text"
    record["response"] = response.text.strip()
    try:
        read = _choice_fields(shown, response) if form == "mc" else _open_fields(shown, response)
    except ValueError as error:
        raise ValueError(f"sample {str(shown.get('sample_id'))[:80]!r}: {error}") from error
    unread = bool(read["flag_unusable"] if form == "mc" else read["flag_none"])
    record["status"] = _status(read["outcome"], unread, response.finish)
    record.update(read)
    record["forged"] = int(response.forged)
    record["correct"] = int(
        read["flag_conflict"]
        if kind == "conflicting"
        else read["flag_image"] and not read["flag_conflict"]
    )
    return record


def sample_id_of(
    image_id: str, original_caption: str, conflicting_caption: str, question: str
) -> str:
    """A name for a sample that follows from its content alone.

    The picture's id does not do: eight pictures of the release are asked about twice.

    >>> sample_id_of("42", "A kite.", "A ball.", "What?")
    '42-882e7f8e'
    """
    content = json.dumps([image_id, original_caption, conflicting_caption, question])
    return f"{image_id}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def letters_shown(shown: Mapping[str, Any]) -> dict[str, str]:
    """Role to letter of a multiple-choice document: its `letters`, else its `option_order`.

    Raises:
        ValueError: It has neither, or the order is no permutation of the four codes.
    """
    letters = shown.get("letters")
    if isinstance(letters, Mapping):
        return {str(role): str(letter) for role, letter in letters.items()}
    return matching.letters_of(shown.get("option_order") or "")


def _open_fields(shown: Mapping[str, Any], response: records.Response) -> dict[str, Any]:
    read = matching.open_outcome(response.text, shown.get("image_answer"), shown.get("text_answer"))
    return {
        "outcome": read.outcome,
        **_flags(conflict=read.conflict, image=read.image, text=read.text, none=read.none),
        "overlap": int(read.overlap),
    }


def _choice_fields(shown: Mapping[str, Any], response: records.Response) -> dict[str, Any]:
    letters = letters_shown(shown)
    read = matching.choice_outcome(response.text, letters)
    options = {
        "image": shown.get("image_answer"),
        "text": shown.get("text_answer"),
        "distractor": shown.get("distractor"),
        "conflict": shown.get("conflict_option") or CONFLICT_OPTION,
    }
    relaxed = matching.choice_outcome(
        response.text,
        letters,
        relaxed=True,
        options={role: option for role, option in options.items() if isinstance(option, str)},
    )
    return {
        "outcome": read.outcome,
        **_flags(
            conflict=read.conflict,
            image=read.image,
            text=read.text,
            distractor=read.distractor,
            unusable=read.unusable,
        ),
        "overlap": int(read.overlap),
        "letter": read.letter,
        "relaxed_letter": relaxed.letter,
        "relaxed_outcome": relaxed.outcome,
        **_letter_fields(shown["caption_kind"], letters, response),
    }


def _letter_fields(
    kind: str, letters: Mapping[str, str], response: records.Response
) -> dict[str, Any]:
    """The letter that the log-probabilities prefer; all null where an option has none."""
    choices, failed = response.choices or {}, records.is_failed(response.text)
    roles = {letter: role for role, letter in letters.items()}
    if failed or not set(roles) <= set(choices):
        names = ("choice", "role")
        nulls: dict[str, Any] = {f"letter_logprob_{name}": None for name in names}
        nulls.update(letter_correct=None, letter_mass=None, letter_logps=None, letter_source=None)
        return nulls
    logps = {letter: choices[letter] for letter in sorted(roles)}
    best = [letter for letter, logp in logps.items() if logp == max(logps.values())]
    choice = best[0] if len(best) == 1 else None
    role = roles[choice] if choice else None
    return {
        "letter_logprob_choice": choice,
        "letter_logprob_role": role,
        "letter_correct": int(role == ("conflict" if kind == "conflicting" else "image")),
        "letter_mass": min(1.0, sum(map(math.exp, logps.values()))),
        "letter_logps": logps,
        "letter_source": response.source,
    }


def _flags(**held: bool) -> dict[str, int | None]:
    return {f"flag_{name}": int(held[name]) if name in held else None for name in FLAGS}


def _status(outcome: str, unread: bool, finish: str | None) -> str:
    if outcome in ("failed", "empty"):
        return outcome
    if unread and finish == "length":
        return "truncated"
    return "unusable" if outcome == "unusable" else "ok"
