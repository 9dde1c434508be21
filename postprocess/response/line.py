"""What a backend's answer becomes: the response line, its score, and one flat record a document.

Text is the only thing that survives the harness's caches, filters, gathers and replays, so a
wrapper that knows log-probabilities writes them as one JSON object on a last line of the answer
(the response line), and this module splits that line off again before anything is parsed. It must
never invent a score: no line, no score. And it must never take a model's word for a measurement:
the line is sealed with a key of the process that wrote it, and `measured`, which records are made
of, believes no other line.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

RECORD_VERSION = 1
"""Version of the record; readers refuse others by name."""

RESPONSE_LINE_VERSION = 1
"""Value of the key `pragclash` in a response line."""

LEFT_OUT = "left_out"
"""Status, and `finish` of a response line, where nobody was asked: a vote that was never cast.

It is no answer, so it is neither right nor wrong: its picture is left out, and counted.
"""

STATUSES = ("ok", "unusable", "empty", "truncated", "refused", "failed", LEFT_OUT)
"""What can become of an answer; the first alone is a reading."""

MAX_LINE_CHARS = 20_000
"""A longer last line is answer text, whatever it looks like: parsing stays bounded."""

FAILED_PREFIX = "[LMMS_EVAL_REQUEST_FAILED"
"""How the harness's API backends begin the text of a request that failed for good."""

_KEY = secrets.token_bytes(32)
"""Of this process alone: it is never written, printed or handed over, a fork of it apart."""

_SEALED = re.compile(r'(?P<line>\{.*), "seal": "(?P<seal>[0-9a-f]{64})"\}')
_LINE_START = re.compile(r'\{\s*"pragclash"\s*:')
_ROUNDING = 1e-4
"""Log-probabilities above zero by no more than this are rounding of a probability of one."""

_SUM_ROUNDING = 0.01
"""How far the sets' probabilities may sum above one: log-probabilities of two decimals do."""

_CENSORED = "censored"
"""Source of a score of which a set is an upper bound; bounds may sum above one."""


class Response(NamedTuple):
    """An answer taken apart: the model's words, and what a wrapper measured beside them."""

    text: str
    choices: dict[str, float] | None
    """Natural log of the probability summed over each answer set, by the set's name."""
    step: int | None
    """Index of the generated token at which `choices` was read."""
    source: str | None
    """What the score rests on: `logprobs`, `censored`, `similarity`, ..."""
    finish: str | None
    """`length` where the backend stopped at its token limit, `stop` where it ended by itself."""
    details: dict[str, Any]
    """Everything else on the line: spellings, repetition penalty, dtype."""
    sealed: bool = False
    """Whether this process wrote the line."""
    forged: bool = False
    """Whether the answer ended with a line that nobody measured; see `measured`."""


class Score(NamedTuple):
    """The paper's score and what it rests on."""

    s: float | None
    """log P(positive set) - log P(negative set); above 0 the pair is judged sarcastic."""
    mass: float | None
    """Probability on the two sets together, 0 to 1; little mass makes `s` a guess."""


def attach_response(
    text: str,
    choices: Mapping[str, float] | None,
    *,
    step: int | None = None,
    source: str = "logprobs",
    finish: str | None = None,
    **details: Any,
) -> str:
    r"""Append the response line to an answer.

    A line of the same form that the model itself wrote at its end is dropped first: a model
    cannot hand in its own score.

    Choices that `read_response` would refuse (a backend's figures need not be probabilities) are
    left out, and the answer has no score.

    Args:
        text: The backend's answer, unchanged.
        choices: Natural log of the summed probability of each answer set, or None for no score.
        step: Index of the generated token the score was read at; a negative one is left out.
        source: What the score rests on.
        finish: `length` or `stop`, where known.
        **details: Further facts, JSON values.

    Returns:
        The answer, a line break, and the line.

    >>> unsealed(attach_response("Yes", {"Yes": -0.5, "No": -1.5}, step=0))
    'Yes\n{"pragclash": 1, "choices": {"Yes": -0.5, "No": -1.5}, "step": 0, "source": "logprobs"}'
    """
    text = own_words(text)
    line: dict[str, Any] = {"pragclash": RESPONSE_LINE_VERSION}
    logps = {name: float(logp) for name, logp in (choices or {}).items()}
    if _log_probabilities(logps, source) is not None:
        line["choices"] = logps
        if step is not None and step >= 0:
            line["step"] = step
        line["source"] = source
    if finish is not None:
        line["finish"] = finish
    line.update(details)
    return f"{text}\n{_with_seal(json.dumps(line, allow_nan=False))}"


def unsealed(text: str) -> str:
    r"""An answer as it may be stored: its line without the seal, a line of anybody else gone.

    >>> unsealed('No\n{"pragclash": 1, "choices": {"Yes": -0.1, "No": -3.0}}')
    'No'
    """
    if not read_response(text).sealed:
        return own_words(text)
    head, _, line = text.rstrip().rpartition("\n")
    return f"{head}\n{_bare(line)}"


def resealed(text: str) -> str:
    """An answer out of a store that `unsealed` filled, with its line believed in this process.

    Only for text that this project stored itself: whatever line stands there is believed.
    """
    if read_response(text).text == text:
        return text
    head, _, line = text.rstrip().rpartition("\n")
    return f"{head}\n{_with_seal(_bare(line))}"


def measured(text: str | None) -> Response:
    r"""Take an answer apart, and believe its line only where this process sealed it.

    A line without that seal is something the model wrote, or a server: it is taken off the words,
    nothing on it counts, and the answer is marked as `forged`.

    >>> measured('No\n{"pragclash": 1, "choices": {"Yes": -0.1, "No": -3.0}}')[:2]
    ('No', None)
    >>> measured(attach_response("No", {"Yes": -3.0, "No": -0.1})).choices
    {'Yes': -3.0, 'No': -0.1}
    """
    response = read_response(text)
    if response.sealed:
        return response
    words = own_words(text or "")
    return Response(words, None, None, None, None, {}, forged=words != (text or ""))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _bare(line: str) -> str:
    sealed = _SEALED.fullmatch(line)
    return f"{sealed['line']}}}" if sealed else line


def _with_seal(line: str) -> str:
    seal = hmac.new(_KEY, _bytes(line), hashlib.sha256).hexdigest()
    return f'{line[:-1]}, "seal": "{seal}"}}'


def read_response(text: str | None) -> Response:
    r"""Take an answer apart into the model's words and the response line.

    The line is the last one of the answer; anything that is not exactly a response line (another
    version, a key given twice, a value that is no log-probability, sets whose probabilities sum
    above one, a missing brace) stays part of the text. What the line says may be believed only
    where it is `sealed`; records are made of `measured`. Sets under the source `censored` may sum
    above one, since an upper bound stands for what a server did not return. A step that is no
    index counts as not given.

    >>> read_response('No\n{"pragclash": 1, "choices": {"Yes": -2.0, "No": -0.2}}').choices
    {'Yes': -2.0, 'No': -0.2}
    >>> read_response("No").choices is None
    True
    """
    text = text or ""
    whole = Response(text, None, None, None, None, {})
    stripped = text.rstrip()
    head, _, last = stripped.rpartition("\n")
    if len(last) > MAX_LINE_CHARS or not _LINE_START.match(last):
        return whole
    try:
        line = json.loads(last, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return whole
    sealed = hmac.compare_digest(_bytes(_with_seal(_bare(last))), _bytes(last))
    line.pop("seal", None)
    version = line.pop("pragclash", None)
    if type(version) is not int or version != RESPONSE_LINE_VERSION:
        return whole
    source = line.pop("source", None)
    choices = line.pop("choices", None)
    if choices is not None:
        choices = _log_probabilities(choices, source)
        if choices is None:
            return whole
    step = line.pop("step", None)
    finish = line.pop("finish", None)
    return Response(
        head.rstrip("\r"),
        choices,
        step if type(step) is int and step >= 0 else None,
        source if isinstance(source, str) else None,
        finish if isinstance(finish, str) else None,
        line,
        sealed,
    )


def own_words(text: str) -> str:
    r"""A model's words without any response line that it wrote itself.

    >>> own_words('No\n{"pragclash": 1, "choices": {"Yes": -2.0, "No": -0.2}}')
    'No'
    """
    while (words := read_response(text).text) != text:
        text = words
    return text


def split_response(text: str | None) -> tuple[str, dict[str, float] | None]:
    """Split an answer into the model's words and the log-probabilities of its answer sets.

    Returns:
        The text without the response line, and the sets' log-probabilities, or None without a line.
    """
    response = read_response(text)
    return response.text, response.choices


def score_of(
    choices: Mapping[str, float] | None, positive: str = "Yes", negative: str = "No"
) -> Score:
    """The score s of PragMatch and the probability mass beneath it.

    Source: protocol of the PragMatch paper, s = log sum P(Y_yes) - log sum P(Y_no).

    >>> score_of({"Yes": math.log(0.6), "No": math.log(0.3)})
    Score(s=0.6931471805599454, mass=0.8999999999999999)
    >>> score_of(None)
    Score(s=None, mass=None)
    """
    if choices is None or positive not in choices or negative not in choices:
        return Score(None, None)
    yes, no = choices[positive], choices[negative]
    return Score(yes - no, min(1.0, math.exp(yes) + math.exp(no)))


def is_failed(text: str) -> bool:
    """Whether an answer is the text of a failed request rather than a model's words."""
    return text.lstrip().startswith(FAILED_PREFIX)


def encodable(text: str) -> str:
    r"""The text with lone surrogates replaced, so that it can be written as UTF-8.

    >>> encodable("\ud83d\ude00 \ud800") == "\U0001f600 \ufffd"
    True
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def failure_text(reason: str, retries: int = 1) -> str:
    """The text by which a wrapper reports a failed request, in the harness's own form.

    >>> failure_text("out of memory")
    '[LMMS_EVAL_REQUEST_FAILED after 1 retries] out of memory'
    """
    return f"{FAILED_PREFIX} after {retries} retries] {reason}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict; raises ValueError for a key given twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _log_probabilities(value: object, source: object) -> dict[str, float] | None:
    """Names mapped to log-probabilities of disjoint sets, or None where the value is none."""
    if not isinstance(value, dict) or not value:
        return None
    out: dict[str, float] = {}
    for name, logp in value.items():
        if isinstance(logp, bool) or not isinstance(logp, int | float):
            return None
        # The comparison comes first: it holds for integers too large for a float.
        if not -1e300 < logp <= _ROUNDING:
            return None
        out[name] = min(0.0, float(logp))
    total = math.fsum(map(math.exp, out.values()))
    return None if total > 1 + _SUM_ROUNDING and source != _CENSORED else out
