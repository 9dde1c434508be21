"""Examines CLASH samples, whoever made them, and counts what each check takes away.

The rules come first and need no model; a language model is asked about what is left. Its verdicts
are in a journal as they come, so that an interrupted check goes on there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from lmms_eval_tasks.clash.make.check import llm, rules
from lmms_eval_tasks.clash.make.check.rules import Examined, Verdict
from lmms_eval_tasks.clash.make.check.samples import Read
from lmms_eval_tasks.clash.make.endpoint import EndpointError, Limits
from lmms_eval_tasks.clash.make.work import Stopped, Unit, Work
from lmms_eval_tasks.dataset.journal import Journal

READABLE = "readable"
"""Name of the check that a sample can be read at all."""


def examine_rules(read: Sequence[Read]) -> list[Examined]:
    """The samples with the rules' verdicts, in the file's order."""
    examined = []
    for one in read:
        if one.row is None:
            verdicts = [Verdict(READABLE, False, one.fault or "")]
            examined.append(Examined(f"sample {one.place}", tuple(verdicts)))
        else:
            verdicts = [Verdict(READABLE, True, ""), *rules.apply_rules(one.row)]
            examined.append(Examined(one.row["sample_id"], tuple(verdicts)))
    return examined


def examine_llm(
    read: Sequence[Read],
    examined: Sequence[Examined],
    judge: str,
    model: str | None,
    work: Path,
    limits: Limits,
    seed: int = 0,
) -> list[Examined]:
    """The samples with a language model's verdicts after the rules' own.

    Raises:
        Stopped: The endpoint gave up; what is finished is in the journal.
    """
    results = list(examined)
    todo = [place for place, one in enumerate(examined) if one.failure is None]
    units = [Unit(_key(read[place], judge, model), place) for place in todo]
    with (
        Journal(work / "verdicts.jsonl") as journal,
        Work(journal, limits, seed, judge, model) as asking,
    ):

        def ask(place: int) -> list[list[Any]]:
            assert asking.asker is not None, "a judge is always asked"
            return [list(x) for x in llm.examine(read[place].row or {}, asking.asker)]

        try:
            with closing(asking.outcomes(units, ask)) as outcomes:
                for place, given in outcomes:
                    verdicts = tuple(Verdict(*verdict) for verdict in given)
                    results[place] = Examined(
                        examined[place].sample_id, (*examined[place].verdicts, *verdicts)
                    )
        except EndpointError as error:
            done = sum(unit.key in journal for unit in units)
            raise Stopped(
                f"{error}; {done} of {len(todo)} samples are checked, the same command goes on"
            ) from error
    return results


def report_of(
    read: Sequence[Read], examined: Sequence[Examined], checks: Sequence[str]
) -> dict[str, Any]:
    """`n`, `accepted`, the `funnel`, and the `rejected` with place, check and reason."""
    rejected = []
    for one, result in zip(read, examined, strict=True):
        if result.failure is not None:
            rejected.append(
                {
                    "place": one.place,
                    "sample_id": result.sample_id,
                    "check": result.failure.check,
                    "reason": result.failure.reason,
                }
            )
    return {
        "n": len(examined),
        "accepted": len(examined) - len(rejected),
        "funnel": [step._asdict() for step in rules.funnel(examined, checks)],
        "rejected": rejected,
    }


def _key(read: Read, judge: str, model: str | None) -> str:
    """What a verdict depends on: the row's texts, who was asked, and the wording."""
    row = {k: v for k, v in (read.row or {}).items() if isinstance(v, str) and k != "image"}
    content = json.dumps([llm.PROMPT_VERSION, judge, model, row], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
