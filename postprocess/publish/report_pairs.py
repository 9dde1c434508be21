"""The pair browser's data: every picture with its captions, and what each model made of them.

Text of models, captions and files is passed on as it is, to be shown as text. Words longer than
the page has room for are cut in the middle. Without media nothing goes in that could pass on the
data: ids, verdicts and scores only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from postprocess.measure import clash as clash_metrics
from postprocess.measure.groups import Answer
from postprocess.response.line import LEFT_OUT
from postprocess.runs.folder import Runs
from postprocess.tables.model import MODALITY_TITLES, PROMPT_TITLES

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


class Configuration(NamedTuple):
    """A model with the way it was asked."""

    run: int
    prompt: str
    modality: str


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


def pairs(runs: Runs, media: Mapping[str, Media], with_media: bool) -> dict[str, Any]:
    """PragMatch answers by picture and caption, for the pair browser."""
    configurations: dict[Configuration, int] = {}
    pictures: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
    for index, run in enumerate(runs.runs):
        # Tasks that ask more of a picture come first; the same question twice is shown once.
        ordered = sorted(run.tasks, key=lambda task: ("pml" not in task, task))
        for task in ordered:
            if not task.startswith("pragmatch_"):
                continue
            found = run.tasks[task]
            derived: dict[str, str] = {}
            if with_media:
                texts = zip(found.records, found.prompts, strict=True)
                derived = captions_from_prompts({r["sample_id"]: text for r, text in texts})
            for record in found.records:
                prompt, modality = str(record.get("prompt")), str(record.get("modality"))
                key = Configuration(index, prompt, modality)
                number = configurations.setdefault(key, len(configurations))
                source = str(record.get("dataset_fingerprint"))
                captions = pictures[source, record["image_id"]]
                sample = record["sample_id"]
                if sample not in captions:
                    known = media.get(source)
                    text = known.captions.get(sample) if known else None
                    captions[sample] = {
                        "id": sample,
                        "slot": Answer.of(record).slot,
                        "cue": record.get("cue"),
                        "text": text if text is not None else derived.get(sample, ""),
                        "answers": {},
                    }
                if record["status"] == LEFT_OUT:
                    continue
                captions[sample]["answers"].setdefault(
                    number,
                    {
                        "v": record["verdict"],
                        "ok": record["correct"],
                        "s": None if record.get("s") is None else round(record["s"], 3),
                        "st": record["status"],
                        "w": _words(record, with_media),
                    },
                )
    order = {slot: i for i, slot in enumerate(("P", "P-", "M", "M+", "L"))}
    return {
        "configurations": [
            {
                "name": _configuration_name(runs.runs[c.run].label, c),
                "model": c.run,
                "prompt": c.prompt,
                "modality": c.modality,
            }
            for c in configurations
        ],
        "pictures": [
            {
                "id": image_id,
                "data": source[:12],
                "captions": [
                    {**caption, "answers": [[k, v] for k, v in caption["answers"].items()]}
                    for caption in sorted(
                        captions.values(), key=lambda c: (order[c["slot"]], str(c["cue"]))
                    )
                ],
            }
            for (source, image_id), captions in sorted(pictures.items())
        ],
    }


def _category(name: str, change_type: str | None) -> str:
    return clash_metrics.category_name(name, change_type).replace("_", ", ")


def _words(record: Mapping[str, Any], with_media: bool) -> str:
    words = str(record.get("response") or "")
    return words if with_media or len(words) <= WITHHELD else "(withheld)"


def _configuration_name(label: str, configuration: Configuration) -> str:
    parts = [label, PROMPT_TITLES.get(configuration.prompt, configuration.prompt)]
    if configuration.modality == "text_only":
        parts.append(MODALITY_TITLES["text_only"])
    return ", ".join(parts)


def questions(runs: Runs, with_media: bool) -> dict[str, Any]:
    """CLASH answers by document, for the pair browser."""
    configurations: dict[tuple[int, str], int] = {}
    items: dict[tuple[str, str, str], dict[str, Any]] = {}
    for index, run in enumerate(runs.runs):
        for task, found in run.tasks.items():
            if not task.startswith("clash_"):
                continue
            form = task.removesuffix("_original")
            number = configurations.setdefault((index, form), len(configurations))
            for record in found.records:
                key = (
                    str(record.get("dataset_fingerprint")),
                    record["sample_id"],
                    str(record.get("caption_kind")),
                )
                item = items.setdefault(
                    key,
                    {
                        "id": record["image_id"],
                        "sample": record["sample_id"],
                        "kind": record.get("caption_kind"),
                        "caption": (record.get("caption") or "") if with_media else "",
                        "question": (record.get("question") or "") if with_media else "",
                        "answers": [
                            record.get(name) or ""
                            for name in ("image_answer", "text_answer", "distractor")
                        ]
                        if with_media
                        else [],
                        "categories": [
                            clash_metrics.category_name(c, record.get("change_type")).replace(
                                "_", ", "
                            )
                            for c in record.get("categories") or ()
                        ],
                        "results": [],
                    },
                )
                result: dict[str, Any] = {
                    "o": record["outcome"],
                    "ok": record["correct"],
                    "w": _words(record, with_media),
                }
                if record.get("rotation") is not None:
                    result["rotation"] = record["rotation"]
                if record.get("judges"):
                    result["judges"] = {str(k): v for k, v in record["judges"].items()}
                item["results"].append([number, result])
    titles = {"clash_mc": "multiple choice", "clash_open": "open"}
    return {
        "configurations": [
            {
                "name": f"{runs.runs[index].label}, "
                f"{titles.get(form, form.removeprefix('clash_').replace('_', ', '))}",
                "model": index,
                "form": form,
            }
            for index, form in configurations
        ],
        "items": [item for _, item in sorted(items.items())],
    }


def cap_words(pairs: dict[str, Any], questions: dict[str, Any]) -> int | None:
    """Cut all answers at one length, so that they fit their budget; None where none was cut."""
    answers = [
        answer
        for picture in pairs["pictures"]
        for caption in picture["captions"]
        for _, answer in caption["answers"]
    ]
    answers += [result for item in questions["items"] for _, result in item["results"]]
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
