"""What a model gives back is as many texts as it was asked for, or the run is no result.

Mends, in lmms-eval 0.7.3: `evaluate` pairs answers with requests as far as they go, takes whatever
stands in the list for text, and a model that calls `exit` ends the run with whatever status it
likes. Secrets of the environment are taken out here, before a cache or a log sees an answer.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from postprocess.response.line import is_failed, read_response
from postprocess.secrets import redact, redact_answer
from pragclash.harness.cache import benchmarks_of


def watch(lm: Any) -> None:
    """Check what the model's `generate_until` gives back to requests of ours."""
    lm.generate_until = watched(lm.generate_until)


def watched(generate: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    """The same, refusing what is no list of texts.

    Raises:
        RuntimeError: When called: the model ended the process, or gave something else.
    """

    @functools.wraps(generate)
    def wrapper(requests: Sequence[Any]) -> Any:
        ours = any(benchmarks_of(str(request.task_name)) for request in requests)
        try:
            answers = generate(requests)
        except SystemExit as error:
            raise RuntimeError(
                f"the model ended the process (exit status {error.code}) before it had answered"
            ) from error
        if not ours:
            return answers
        fault = fault_of(answers, len(requests))
        if fault is not None:
            raise RuntimeError(fault)
        return [_clean(answer) for answer in answers]

    return wrapper


def fault_of(answers: object, asked: int) -> str | None:
    """What is wrong with a model's answers, or None.

    >>> fault_of(["Yes", None], 2)
    'answer 2 of 2 of the model is no text, but a NoneType'
    >>> fault_of(["Yes"], 2)
    'the model gave 1 answers to 2 requests'
    """
    if not isinstance(answers, list | tuple):
        return f"the model gave no list of answers, but a {type(answers).__name__}"
    if len(answers) != asked:
        return f"the model gave {len(answers)} answers to {asked} requests"
    for number, answer in enumerate(answers, 1):
        text = getattr(answer, "text", answer)
        if not isinstance(text, str):
            kind = type(text).__name__
            return f"answer {number} of {asked} of the model is no text, but a {kind}"
    return None


def _clean(answer: Any) -> Any:
    """An answer without secrets; a response line that was measured is left as it is."""
    text = answer if isinstance(answer, str) else answer.text
    words, line = text, ""
    if read_response(text).sealed:
        words, _, line = text.rpartition("\n")
        line = f"\n{line}"
    clean = redact(words) if is_failed(words) else redact_answer(words)
    if clean == words:
        return answer
    if isinstance(answer, str):
        return clean + line
    return dataclasses.replace(answer, text=clean + line)
