"""From what was shown and what came back to PragMatch's one flat record a document.

Everything a table or a report needs is in this record, as JSON values; nothing else is read back
from a run. It must never raise for what a model wrote: any text gives a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postprocess.read.refusal import is_refusal
from postprocess.read.verdict import UNREAD, find_verdict
from postprocess.read.vocabulary import is_cot
from postprocess.response.line import (
    LEFT_OUT,
    RECORD_VERSION,
    Response,
    encodable,
    is_failed,
    measured,
    score_of,
)

SHOWN = (
    "task",
    "sample_id",
    "image_id",
    "condition",
    "cue",
    "edit",
    "modality",
    "prompt",
    "prompt_version",
    "label",
    "dataset_kind",
    "dataset_fingerprint",
    "n_omitted",
)
"""The document's columns that the record carries on unchanged."""

MIN_CUT_WORDS = 384
"""From this many words on an unfinished chain of thought may have met its limit of 1,024 tokens.

English runs at about three words in four tokens: this is half of the limit. A chain that broke off
much earlier ended for another reason.
"""

_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？", "…")
_CLOSERS = "\"'”’)]}*_`>»"


def pragmatch_record(shown: Mapping[str, Any], answer: str | None) -> dict[str, Any]:
    """The record of one document.

    Args:
        shown: The document's columns (see `SHOWN`; others are ignored).
        answer: The text that the harness hands over, with or without a response line; None counts
            as empty.

    Returns:
        A flat dict of JSON values: the shown columns; `response` (the model's words, without the
        response line, stripped), `status`; `verdict`, the stated one (1, 0 or None), `verdict_by`
        (`stated`, `inferred` or None) and `inferred_verdict`, what a sentence decides where
        nothing is stated: a second view; `correct` (1 or 0); `s`, `mass` and `s_source` (None
        where nothing was measured); `forged`, 1 where the model wrote a response line of its own,
        which was not believed; `sign_disagrees`, whether s and the verdict point to different
        answers (s = 0 points nowhere; None where either is missing).

    Raises:
        KeyError: A column is missing.
    """
    response = measured(answer)
    words = encodable(response.text).strip()
    prompt = shown["prompt"]
    failed = is_failed(words)
    reading = UNREAD if failed else find_verdict(words, prompt)
    verdict = reading.verdict if reading.by == "stated" else None
    score = score_of(None if failed else response.choices)
    return {
        "record": RECORD_VERSION,
        **{name: shown[name] for name in SHOWN},
        "response": words,
        "status": "failed" if failed else _status(words, verdict, response, prompt),
        "verdict": verdict,
        "verdict_by": reading.by,
        "inferred_verdict": reading.verdict if reading.by == "inferred" else None,
        "correct": int(verdict == shown["label"]),
        "s": score.s,
        "mass": score.mass,
        "s_source": None if score.s is None else response.source or "logprobs",
        "forged": int(response.forged),
        "sign_disagrees": _sign_disagrees(score.s, verdict),
    }


def with_inferred(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record as a second view has it: where nothing is stated, what a sentence decides.

    What a person settled, also as saying neither, stays.

    >>> unread = {"verdict": None, "inferred_verdict": 1, "label": 1, "status": "unusable"}
    >>> with_inferred(unread)["correct"], with_inferred({"verdict": 0})
    (1, {'verdict': 0})
    """
    verdict = record.get("inferred_verdict")
    if record["verdict"] is not None or verdict is None or record.get("verdict_by") == "person":
        return record
    return {
        **record,
        "verdict": verdict,
        "status": "ok",
        "correct": int(verdict == record["label"]),
        "sign_disagrees": _sign_disagrees(record.get("s"), verdict),
    }


def looks_cut(words: str) -> bool:
    """Whether a chain of thought without a verdict looks as if its token limit had cut it.

    For answers of backends that do not tell why they stopped. It is long (`MIN_CUT_WORDS`) and
    does not end like a sentence. Conservative: a chain cut just behind a full stop is not seen.

    >>> looks_cut("The caption praises the " + "very " * 400)
    True
    >>> looks_cut("The caption praises the")
    False
    """
    ending = words.rstrip().rstrip(_CLOSERS)
    return not ending.endswith(_SENTENCE_ENDS) and len(words.split()) >= MIN_CUT_WORDS


def _status(words: str, verdict: int | None, response: Response, prompt: str) -> str:
    """What became of an answer that came back; see `postprocess.response.line.STATUSES`."""
    if verdict is not None:
        return "ok"
    if response.finish == LEFT_OUT and not words:
        return LEFT_OUT
    if is_cot(prompt) and (
        response.finish == "length" or (response.finish is None and looks_cut(words))
    ):
        return "truncated"
    if not words:
        return "empty"
    return "refused" if is_refusal(words) else "unusable"


def _sign_disagrees(s: float | None, verdict: int | None) -> bool | None:
    """Whether the score points to the other answer than the words do."""
    if s is None or verdict is None:
        return None
    return s < 0 if verdict else s > 0
