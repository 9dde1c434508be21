"""Made-up answers of made-up models, as the records that the tasks would write."""

import hashlib
import math
import random
from collections.abc import Callable

from postprocess.benchmarks.pragmatch_tasks import spec_of
from postprocess.record.clash import clash_record
from postprocess.record.pragmatch import pragmatch_record
from postprocess.response.line import attach_response

FULL = hashlib.sha256(b"full").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


def said(s: float | None, verdict: str | None = None) -> str:
    """An answer with a response line that gives the score s; without s, the words alone."""
    words = verdict if verdict is not None else "Yes" if (s or 0) > 0 else "No"
    if s is None:
        return words
    yes = 0.98 / (1 + math.exp(-s))
    return attach_response(words, {"Yes": math.log(yes), "No": math.log(0.98 - yes)}, step=0)


def pragmatch(
    task: str,
    answer: Callable[[int, str], str],
    pictures: int = 20,
    *,
    kind: str = "full",
    fingerprint: str = FULL,
    prompt_version: int = 1,
    omitted: int = 0,
) -> list[dict]:
    """Records of a task: `answer(picture, slot)` says what the model wrote."""
    spec = spec_of(task)
    names = {("P", None): "P", ("M", None): "M", ("L", None): "L"}
    names |= {("P", "mask"): "P-", ("M", "inject"): "M+"}
    return [
        pragmatch_record(
            {
                "task": task,
                "sample_id": f"{number:04}-{names[condition, edit]}{cue or ''}",
                "image_id": f"{number:04}",
                "condition": condition,
                "cue": cue,
                "edit": edit,
                "modality": spec.modality,
                "prompt": spec.prompt,
                "prompt_version": prompt_version,
                "label": int(condition == "P"),
                "dataset_kind": kind,
                "dataset_fingerprint": fingerprint,
                "n_omitted": omitted,
            },
            answer(number, names[condition, edit]),
        )
        for number in range(pictures)
        for condition, cue, edit in spec.slots
    ]


def skilled(seed: int = 0, skill: float = 1.5, bias: float = -0.5) -> Callable[[int, str], str]:
    """A model whose score is higher on P by `skill` and shifted by `bias`."""

    def answer(number: int, slot: str) -> str:
        rng = random.Random(f"{seed}/{number}/{slot}")
        return said(round(rng.gauss(bias + (skill if slot[0] == "P" else 0), 1.0), 3))

    return answer


def always_no(number: int, slot: str) -> str:
    """A model that says No to everything, surely."""
    return said(-5.0)


def clash(
    task: str,
    answer: Callable[[int], str],
    samples: int = 20,
    *,
    kind: str = "full",
    fingerprint: str = FULL,
    judges: Callable[[int], dict] | None = None,
) -> list[dict]:
    """Records of a CLASH task; the letters are A image, B text, C distractor, D conflict."""
    categories = ("animals", "colors", "other")
    form = "mc" if task.startswith("clash_mc") else "open"
    out = []
    for number in range(samples):
        record = clash_record(
            {
                "task": task,
                "sample_id": f"c{number:04}",
                "image_id": f"i{number:04}",
                "form": form,
                "caption_kind": "original" if task.endswith("original") else "conflicting",
                "prompt": "pragclash",
                "prompt_hash": hashlib.sha256(form.encode()).hexdigest(),
                "option_order": "itdc",
                "rotation": None,
                "change_type": "attribute" if number % 3 == 1 else "object",
                "categories": [categories[number % 3]],
                "caption": f"A kite number {number} above a ball.",
                "question": "What flies?",
                "image_answer": "kite",
                "text_answer": "ball",
                "distractor": "plane",
                "dataset_kind": kind,
                "dataset_fingerprint": fingerprint,
                "n_omitted": 0,
            },
            answer(number),
        )
        if judges is not None:
            record["judges"] = judges(number)
        out.append(record)
    return out
