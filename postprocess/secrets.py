"""Keys and passwords kept out of everything that is written or printed.

Two ways to know a secret, and every writer of this suite passes both: by shape (`api_key=...`, a
URL's user and password, `Bearer ...`, `sk-...`) and by value (whatever the environment's variables
with such names hold now). It must never touch a number or a key of a structure, and leaves text
alone in which neither is found: what a model wrote stays what it wrote.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

REDACTED = "REDACTED"

MIN_CHARS = 8
"""A shorter value of the environment is not looked for: it would be found in plain words."""

_STRONG = r"(?:api[_-]?key|access[_-]?key|secret|password|passwd|credential)s?(?![a-z])"
# `max_token`, `image_token`, `score_key` and their like name settings; a plural counts tokens.
_SETTINGS = ("max", "new", "image", "video", "pad", "eos", "bos", "score", "cluster", "answer")
_WEAK = "".join(rf"(?<!{word}[_-])" for word in _SETTINGS) + (
    r"(?<![a-z])(?:key|token|auth|authorization)[0-9]*"
)
_NAME = re.compile(rf"(?i)(?:{_STRONG}|{_WEAK}$)")
_VARIABLE = re.compile(r"(?i)(?:key|token|secret|password|passwd|credential)s?(?![a-z])")
_ARGUMENT = re.compile(r"(?P<head>(?:^|,)\s*(?P<name>[^,=]+)=)(?P<value>[^,]*)")

_URL = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]{1,20}://)[^\s/@\"'<>]{1,400}@")
_HEADER = re.compile(
    r"(?i)(?P<head>\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?)(?:[a-z]{1,12}\s{1,3})?[^\s\"',]{6,}"
)
_BEARER = re.compile(r"(?i)\b(?P<head>bearer\s{1,3})[A-Za-z0-9._~+/=*-]{8,}")
_ASSIGNED = re.compile(
    rf"(?i)(?P<head>(?:{_STRONG}[\w-]{{0,20}}|{_WEAK})(?:=|[\"']\s{{0,3}}:)\s{{0,3}}[\"']?)"
    r"(?P<value>[^\s,;&\"'<>(){}\[\]]{3,400})"
)
_NO_SECRETS = ("true", "false", "none", "null", "redacted")
_SHAPES = (
    re.compile(r"\bsk-(?=[\w*-]*[0-9*])[\w*-]{8,}"),
    re.compile(r"\b(?:hf|ghp|gho|glpat|xox[abp])[_-][A-Za-z0-9_-]{16,}"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"),
    re.compile(r"\bAKIA[A-Z0-9]{12,}"),
)


def redact(text: str) -> str:
    """The text without secrets, for whatever is no model's answer.

    >>> redact("401: Incorrect API key provided: sk-ab12****wxyz")
    '401: Incorrect API key provided: REDACTED'
    >>> redact("base_url=https://ada:pa55@host/v1?key=abc&n=5,max_new_tokens=16")
    'base_url=https://REDACTED@host/v1?key=REDACTED&n=5,max_new_tokens=16'
    >>> redact("The key is the word 'Great'; the caption is sarcastic.")
    "The key is the word 'Great'; the caption is sarcastic."
    """
    text = _HEADER.sub(rf"\g<head>{REDACTED}", redact_answer(text))
    return _ASSIGNED.sub(_unless_plain, text)


def redact_answer(text: str) -> str:
    """A model's words, a prompt or a caption without what can be nothing but a secret.

    A name beside a value is left alone here: it may be an answer.

    >>> redact_answer("key=Yes, says sk-abcdefgh1234")
    'key=Yes, says REDACTED'
    """
    for value in _values():
        text = text.replace(value, REDACTED)
    if "://" in text:
        text = _URL.sub(rf"\g<scheme>{REDACTED}@", text)
    text = _BEARER.sub(rf"\g<head>{REDACTED}", text)
    for shape in _SHAPES:
        text = shape.sub(REDACTED, text)
    return text


def redact_arguments(model_args: str) -> str:
    """The harness's `name=value,name=value` without the values of names that may be a secret's.

    >>> redact_arguments("model=gpt-5,api_key=sk 1 2,openai-key=x,auth=y,max_tokens=5")
    'model=gpt-5,api_key=REDACTED,openai-key=REDACTED,auth=REDACTED,max_tokens=5'
    """

    def argument(match: re.Match[str]) -> str:
        return match["head"] + (REDACTED if is_secret_name(match["name"]) else match["value"])

    return redact(_ARGUMENT.sub(argument, model_args))


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret.

    >>> [n for n in ("HF_TOKEN", "passwd", "max_new_tokens", "tokenizer") if is_secret_name(n)]
    ['HF_TOKEN', 'passwd']
    """
    return _NAME.search(name) is not None


def without_secrets(value: Any, clean: Callable[[str], str] = redact) -> Any:
    """A structure of JSON values without secrets; what stands below a secret's name is one.

    Args:
        value: Of any type; what is no JSON value is given back as it is.
        clean: `redact`, or `redact_answer` where models' words stand.

    >>> without_secrets({"api_key": "x1", "n": 5, "error": ["Bearer abcdefgh12"]})
    {'api_key': 'REDACTED', 'n': 5, 'error': ['Bearer REDACTED']}
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {
            key: REDACTED
            if isinstance(item, str) and item and isinstance(key, str) and is_secret_name(key)
            else without_secrets(item, clean)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(item, clean) for item in value]
    if isinstance(value, tuple):
        return tuple(without_secrets(item, clean) for item in value)
    return value


@contextmanager
def redacted_output() -> Iterator[None]:
    """Take secrets out of whatever this process prints in here, to the screen or as an error."""
    saved = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Stream(saved[0]), _Stream(saved[1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = saved


class _Stream:
    """A text stream that writes without secrets and is its original in everything else."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(redact(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _unless_plain(match: re.Match[str]) -> str:
    """An assignment without its value, but for values that are no secret anywhere."""
    if match["value"].casefold() in _NO_SECRETS:
        return match[0]
    return match["head"] + REDACTED


def _values() -> list[str]:
    """What the environment holds in secret, the longest first."""
    found = {
        value
        for name, value in os.environ.items()
        if len(value) >= MIN_CHARS and _VARIABLE.search(name)
    }
    return sorted(found, key=lambda value: (-len(value), value))
