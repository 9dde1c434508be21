"""What a language model is asked about a sample that passed the rules.

Three requests in order: the change, the answers, the question. Each reply gives a verdict and a
reason for every check of its group. The first check that comes out wrong ends the examination;
all verdicts given until then are kept, those after it in the same reply too. A reply that cannot
be read is asked for once more and then counts as a failed check of its own name, never as passed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.make.check.rules import Verdict
from lmms_eval_tasks.clash.make.endpoint import Asker
from lmms_eval_tasks.clash.make.replies import MalformedReply, ask_twice, json_object

PROMPT_VERSION = 1
MAX_REASON_CHARS = 300


class Check(NamedTuple):
    """One yes/no matter, and which of the two a sound sample gets."""

    name: str
    asks: str
    wanted: str
    change_type: str | None = None
    """Only for samples of this change type; None for all."""


GROUPS: dict[str, tuple[Check, ...]] = {
    "change": (
        Check("change_is_object", "Are both words names of things that can be seen?", "yes",
              "object"),
        Check("change_is_synonym", "Could both words name the same thing, or is one a kind of the "
              "other?", "no", "object"),
        Check("change_is_ambiguous", "Could a careful person take the first thing for the second "
              "in a photograph?", "no", "object"),
        Check("change_is_relevant", "Is the thing a part of what the sentence is about?", "yes",
              "object"),
        Check("change_is_attribute", "Do both words say a property of the same thing, such as "
              "color, number, shape or material?", "yes", "attribute"),
        Check("change_is_objective", "Would all people agree on the property when they see it?",
              "yes", "attribute"),
    ),
    "answers": (
        Check("answers_are_synonyms", "Do any two of the three answers mean the same?", "no"),
        Check("answers_are_ambiguous", "Can any of the answers be understood in several ways "
              "here?", "no"),
        Check("answers_are_relevant", "Does each of the three answer the question?", "yes"),
        Check("answers_are_visible", "Is each of the three something that can be seen in a "
              "photograph?", "yes"),
    ),
    "question": (
        Check("question_is_clear", "Is it clear what the question asks?", "yes"),
        Check("question_is_focused", "Does it ask for one thing only, the one that the two "
              "sentences differ in?", "yes"),
        Check("question_is_answerable", "Can it be answered from the photograph alone?", "yes"),
    ),
}  # fmt: skip
"""The checks by request, in their order."""

SHOWN = {
    "change": ("original_caption", "conflicting_caption", "original_word", "conflicting_word"),
    "answers": ("question", "image_answer", "text_answer", "distractor"),
    "question": ("original_caption", "conflicting_caption", "question"),
}
"""What of a row each request shows."""

CHECKS = tuple(
    name
    for group, checks in GROUPS.items()
    for name in (*(c.name for c in checks), f"{group}_read")
)
"""Names of all checks in the order of a funnel; `*_read` fails where no reply could be read."""


def checks_of(group: str, change_type: str) -> tuple[Check, ...]:
    """The checks of a group that a sample of a change type gets."""
    return tuple(c for c in GROUPS[group] if c.change_type in (None, change_type))


def prompt_of(group: str, row: Mapping[str, Any]) -> str:
    """The request of a group."""
    asked = "\n".join(f"{c.name}: {c.asks}" for c in checks_of(group, row["change_type"]))
    data = json.dumps({name: row[name] for name in SHOWN[group]}, ensure_ascii=False, indent=1)
    return (
        f"Task: check {group}. The data below belongs to a test item about a photograph that you "
        "do not see: a sentence that is true for it, one that is not, and what is asked about "
        "them. Answer each of these with yes or no, and give a reason of one short sentence:\n"
        f"{asked}\n"
        'Reply with one JSON object and nothing else: {"<name>": {"verdict": "yes" or "no", '
        '"reason": "..."}, ...} with every name above.\n'
        f"Data:\n{data}"
    )


def examine(row: Mapping[str, Any], asker: Asker) -> list[Verdict]:
    """Verdicts of the language model, up to the request in which a check failed.

    The first verdict that did not pass, if any, is put last, since it is the one that decides.

    Raises:
        EndpointError: The endpoint gave no reply.
    """
    verdicts: list[Verdict] = []
    for group in GROUPS:
        checks = checks_of(group, row["change_type"])

        def read(reply: str, checks: tuple[Check, ...] = checks) -> dict[str, Any]:
            return _read(reply, checks)

        try:
            said = ask_twice(asker, prompt_of(group, row), read)
        except MalformedReply as error:
            return [*verdicts, Verdict(f"{group}_read", False, str(error))]
        given = [Verdict(c.name, said[c.name][0] == c.wanted, said[c.name][1]) for c in checks]
        failed = next((verdict for verdict in given if not verdict.passed), None)
        if failed:
            return [*verdicts, *(verdict for verdict in given if verdict is not failed), failed]
        verdicts += given
    return verdicts


def _read(reply: str, checks: tuple[Check, ...]) -> dict[str, tuple[str, str]]:
    data = json_object(reply)
    said = {}
    for check in checks:
        value = data.get(check.name)
        verdict = value.get("verdict") if isinstance(value, Mapping) else value
        verdict = verdict.strip().casefold() if isinstance(verdict, str) else verdict
        verdict = {True: "yes", False: "no"}.get(verdict) if isinstance(verdict, bool) else verdict
        if verdict not in ("yes", "no"):
            raise ValueError(f"gives no yes or no for {check.name}")
        reason = value.get("reason") if isinstance(value, Mapping) else ""
        said[check.name] = (verdict, str(reason or "")[:MAX_REASON_CHARS])
    return said
