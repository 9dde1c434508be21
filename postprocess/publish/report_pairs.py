"""What the report's browsers share: the dataset's media, captions, and words cut to a budget.

Text of models, captions and files is passed on as it is, to be shown as text. Words longer than
the page has room for are cut in the middle. Without media nothing goes in that could pass on the
data: ids, verdicts and scores only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from postprocess.measure.stats import Estimate
from postprocess.runs.folder import Runs, TaskRun
from postprocess.tables.model import Builder, Table

WORD_BUDGET = 4_000_000
"""Characters that all answers together may take."""

CAPS = (20_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 120)
"""Lengths at which answers may be cut; the largest that fits the budget is taken."""

WITHHELD = 40
"""Without media, longer answers are withheld: a chain of thought repeats the caption."""


class Media(NamedTuple):
    """The dataset folder behind a fingerprint."""

    captions: Mapping[str, str]
    """By sample id."""
    pictures: Mapping[str, Path]
    """By image id."""


class Asked(NamedTuple):
    """What a benchmark's part of a report is made of."""

    runs: Runs
    builder: Builder
    tables: Mapping[str, Table]
    """Those of the report, by name."""
    media: Mapping[str, Media]
    """Dataset folders by fingerprint; none where media must not be shown."""
    with_media: bool


def captions_from_prompts(prompts: Mapping[str, str]) -> dict[str, str]:
    r"""Captions by sample id, from prompts that differ in nothing but the caption.

    The lines that all prompts share are the question; what is left is the caption. With a single
    prompt nothing can be told apart, and the whole stays.

    >>> captions_from_prompts({"1": "Ask\nCaption: a cat\nYes?", "2": "Ask\nCaption: a dog\nYes?"})
    {'1': 'a cat', '2': 'a dog'}
    """
    split = {key: text.split("\n") for key, text in prompts.items()}
    if len(set(prompts.values())) < 2:
        return dict(prompts)
    shortest = min(map(len, split.values()))
    lines = list(split.values())
    first = 0
    while first < shortest - 1 and len({line[first] for line in lines}) == 1:
        first += 1
    last = 0
    while last < shortest - first - 1 and len({line[-1 - last] for line in lines}) == 1:
        last += 1
    middles = {key: "\n".join(line[first : len(line) - last]) for key, line in split.items()}
    label = re.match(r"[^\s:]{1,20}: ", next(iter(middles.values())))
    if label and all(text.startswith(label.group()) for text in middles.values()):
        middles = {key: text[label.end() :] for key, text in middles.items()}
    return middles


def shown_words(record: Mapping[str, Any], with_media: bool) -> str:
    """What a model wrote, or that it is withheld."""
    words = str(record.get("response") or "")
    return words if with_media or len(words) <= WITHHELD else "(withheld)"


def cap_words(answers: Iterable[dict[str, Any]]) -> int | None:
    """Cut all answers at one length, so that they fit their budget; None where none was cut."""
    answers = list(answers)
    lengths = [len(answer["w"]) for answer in answers]
    if max(lengths, default=0) <= CAPS[0] and sum(lengths) <= WORD_BUDGET:
        return None
    cap = next(
        (c for c in CAPS if sum(min(length, c) for length in lengths) <= WORD_BUDGET), CAPS[-1]
    )
    for answer in answers:
        # The verdict of a chain of thought stands at its end: both ends are kept.
        if len(answer["w"]) > cap:
            half = cap // 2
            answer["w"] = f"{answer['w'][:half]} […] {answer['w'][-half:]}"
    return cap


def kind_of(task: TaskRun) -> str:
    """`sample`, `custom` or `full`; re-scored predictions, which have no fingerprint, are full."""
    kinds = task.values("dataset_kind")
    if any(fingerprint is None for fingerprint in task.values("dataset_fingerprint")):
        return "full"
    return str(kinds[0]) if kinds else "full"


def triple(estimate: Estimate) -> list[float | None]:
    """Value, low and high in percent."""
    return [None if x is None else round(100 * x, 3) for x in estimate[:3]]
