"""The numbers that the two papers print, as data, for the reference column of our tables.

In percent. A cell is here only where it is known; what the paper gives as a range over several
settings stays a range, and a cell whose model was inferred from the order of a list is marked "~".
Nothing here is ever used to compute one of our figures.

Sources: PragMatch, arXiv 2608.09772; CLASH, arXiv 2511.19199.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PRAGMATCH = "PragMatch, arXiv 2608.09772"
CLASH = "CLASH, arXiv 2511.19199"

BY_ORDER = "assigned to this model by the order in which the paper lists ranges"
ANNOTATION = (
    "at 77.5% agreement two raters with two labels cannot exceed kappa 0.571, yet the paper gives "
    "0.618: its annotation had at least three labels or another unit"
)
FORMAT_UNIT = (
    "31.3 and 5.3 lie below the two-class chance levels of 50 and 25: the unit of that baseline is "
    "unclear"
)


class Reference(NamedTuple):
    """A number of a paper, in percent."""

    low: float
    high: float
    """Equal to `low` but where the paper gives a range over several settings."""
    approximate: bool = False
    """Marked "~": not assigned to this cell by the paper's own words."""
    remark: str = ""

    def text(self, digits: int = 1) -> str:
        """As it is printed, with the digits of its paper.

        >>> Reference(19.0, 19.0).text(), Reference(4.1, 6.9, True).text()
        ('19.0', '~4.1–6.9')
        """
        shown = f"{self.low:.{digits}f}"
        if self.high != self.low:
            shown += f"–{self.high:.{digits}f}"
        return f"~{shown}" if self.approximate else shown


def _is(value: float) -> Reference:
    return Reference(value, value)


def _about(value: float) -> Reference:
    return Reference(value, value, True, BY_ORDER)


def _from(low: float, high: float, remark: str = "range over the cues") -> Reference:
    return Reference(low, high, False, remark)


LLAVA, INTERNVL, QWEN, IDEFICS = (
    "LLaVA-v1.6-7B",
    "InternVL2.5-8B",
    "Qwen2.5-VL-7B",
    "Idefics2-8B",
)

PAPER_MODELS: dict[str, str] = {
    LLAVA: r"llava.*(v?1\.6|next).*7b",
    INTERNVL: r"internvl2[._]5.*8b",
    QWEN: r"qwen2\.5.?vl.*7b",
    IDEFICS: r"idefics2.*8b",
    "Gemini 2.5 Pro": r"gemini.?2\.5.?pro",
    "Gemini 2.5 Flash Lite": r"gemini.?2\.5.?flash.?lite",
    "GPT-5": r"gpt.?5(?![\d.])(?!.*(mini|nano))",
    "GPT-4.1 Mini": r"gpt.?4\.1.?mini",
    "InstructBLIP-T5-xxl": r"instructblip.*t5.?xxl",
    "Qwen2.5VL-32b": r"qwen2\.5.?vl.*32b",
    "Qwen3VL-8b": r"qwen3.?vl.*8b(?!.*a3b)",
    "Qwen3VL-30b": r"qwen3.?vl.*30b",
    "InternVL 1.5": r"internvl.*1[._-]?5(?!.*2[._]5)",
    "LLaVa-1.5-7b": r"llava.*1\.5.*7b",
    "Phi3-vision-128k": r"phi.?3.*vision.*128k",
    "LRV-MiniGPT4-7b": r"lrv.*minigpt.?4.*7b",
    "MiniGPT4-7b": r"minigpt.?4.*7b",
    "mPLUG-Owl-2": r"mplug.?owl.?2",
    "mPLUG-Owl-1": r"mplug.?owl.?1",
}
"""A paper's name of a model, and how ids and file names of its weights look."""

Cells = dict[str, Reference]
Table = dict[tuple[str, ...], Cells]
"""By the head of a row, its model under the paper's name."""

TABLE1: Table = {
    (LLAVA, "zero-shot"): {
        "accuracy": _is(74.2),
        "f1": _is(70.8),
        "acc_p": _is(62.5),
        "acc_m": _is(85.9),
        "acc_l": _is(43.1),
        "group_acc": _is(19.0),
    },
    (INTERNVL, "zero-shot"): {
        "f1": _about(14.0),
        "acc_p": _about(8.0),
        "acc_m": _is(98.0),
        "pair_acc": _about(7.4),
    },
    (QWEN, "zero-shot"): {
        "f1": _about(24.3),
        "acc_p": _about(13.9),
        "acc_m": _is(99.3),
        "pair_acc": _about(13.4),
    },
    (IDEFICS, "zero-shot"): {"acc_m": _is(96.7), "pair_acc": _about(10.2)},
}
"""Main results by model and prompt, then by metric."""

TABLE1_NOTE = "grouped P-M-L is never above 26.4 in the paper's eight configurations"

TABLE3: Table = {
    (LLAVA, "zero-shot", "ocr"): {"acc_m_plus": _is(9.4)},
    **{
        (INTERNVL, "zero-shot", cue): {
            "acc_p_minus": _from(4.1, 6.9),
            "acc_m_plus": _from(89.8, 96.3),
        }
        for cue in ("lexical", "style", "ocr")
    },
    **{
        (IDEFICS, "zero-shot", cue): {
            "acc_p_minus": _from(4.1, 6.9),
            "acc_m_plus": _from(94.8, 96.3),
        }
        for cue in ("lexical", "style", "ocr")
    },
    **{
        (QWEN, "zero-shot", cue): {"acc_p_minus": _from(8.7, 21.1), "acc_m_plus": _from(76.1, 88.3)}
        for cue in ("lexical", "style", "ocr")
    },
}
"""Cue edits by model and cue (zero-shot), then by metric; most are ranges over the cues."""

TABLE4_NOTE = "in the paper text alone beats picture and text for all models but Idefics2-8B"

HUMAN: Table = {
    ("people",): {
        "accuracy": Reference(85.8, 85.8, False, ANNOTATION),
        "pair_acc": Reference(71.5, 71.5, False, ANNOTATION),
    },
    ("caption_bert",): {"accuracy": _is(99.6), "pair_acc": _is(99.3)},
    ("caption_format",): {
        "accuracy": Reference(31.3, 31.3, False, FORMAT_UNIT),
        "pair_acc": Reference(5.3, 5.3, False, FORMAT_UNIT),
    },
}
"""People, a frozen BERT on captions alone, and formatting features alone."""

HUMAN_NOTE = (
    "the paper's annotators: agreement 77.5 over 400 instances, Cohen's kappa 0.618; literal "
    "support 91.0, mismatch plausibility 100"
)

CLASH_MC: Table = {
    ("Gemini 2.5 Pro",): {"conflict": _is(88.48)},
    ("GPT-5",): {"conflict": _is(86.78)},
    ("InstructBLIP-T5-xxl",): {"conflict": _is(63.87)},
    ("Qwen2.5VL-32b",): {"conflict": _is(16.10)},
    ("GPT-4.1 Mini",): {"conflict": _is(13.56), "image": _is(69.57)},
    (QWEN,): {"conflict": _is(7.79)},
    ("Qwen3VL-8b",): {"conflict": _is(7.13)},
    ("Qwen3VL-30b",): {"conflict": _is(3.81)},
    ("Gemini 2.5 Flash Lite",): {"image": _is(74.98)},
    ("InternVL 1.5",): {"text": _is(52.40)},
    ("LLaVa-1.5-7b",): {"text": _is(44.68)},
    ("Phi3-vision-128k",): {"unusable": _is(59.63)},
    ("MiniGPT4-7b",): {"unusable": _is(52.30)},
    ("LRV-MiniGPT4-7b",): {"unusable": _is(51.74)},
}
"""Multiple choice, strict reading."""

CLASH_OPEN: Table = {
    ("Gemini 2.5 Pro",): {"conflict": _is(91.59)},
    ("GPT-5",): {"conflict": _is(81.16)},
    ("GPT-4.1 Mini",): {"conflict": _is(39.93)},
    ("Qwen3VL-8b",): {"conflict": _is(20.49)},
    ("Qwen3VL-30b",): {"conflict": _is(19.80)},
    ("InternVL 1.5",): {"conflict": _is(18.76), "text": _is(55.51)},
    (QWEN,): {"conflict": _is(17.13)},
    ("mPLUG-Owl-2",): {"text": _is(97.03)},
    ("LLaVa-1.5-7b",): {"text": _is(62.10)},
}
"""Open questions, relaxed matching."""

CLASH_FINETUNE: Table = {
    ("LLaVa-1.5-7b",): {"conflict": _is(0.00)},
    ("LLaVa-1.5-7b, tuned on ~15k",): {
        "conflict": _is(76.86),
        "overall": _is(84.08),
        "incorrect": _is(0.47),
    },
    ("LLaVa-1.5-7b, tuned on ~30k",): {"conflict": _is(51.84)},
    ("mPLUG-Owl-1",): {"conflict": _is(6.56), "incorrect": _is(61.63)},
    ("mPLUG-Owl-1, tuned on ~15k",): {"conflict": _is(57.45), "incorrect": _is(7.09)},
}
"""Open questions before and after fine-tuning."""

_ROUND = "the paper's text says about 78"
CLASH_CATEGORIES: Table = {
    ("GPT-5", "multiple choice"): {
        "animals": _is(97.32),
        "numbers": _is(75.70),
        "household": Reference(78.0, 78.0, True, _ROUND),
    },
    ("Gemini 2.5 Pro", "multiple choice"): {
        "animals": _is(98.65),
        "numbers": _is(85.83),
        "household": Reference(78.0, 78.0, True, _ROUND),
    },
}
"""Conflict by category."""


def paper_model(name: str) -> str | None:
    """The paper's name of a model, from an id, a path or a label; None for any other model.

    >>> paper_model("llava-hf/llava-v1.6-vicuna-7b-hf")
    'LLaVA-v1.6-7B'
    >>> paper_model("gpt-5_predictions"), paper_model("gpt-5-mini"), paper_model("verdict")
    ('GPT-5', None, None)
    """
    text = name.lower()
    return next((model for model, form in PAPER_MODELS.items() if re.search(form, text)), None)


TABLES: dict[str, Table] = {
    "table1": TABLE1,
    "table3": TABLE3,
    "human": HUMAN,
    "clash-mc": CLASH_MC,
    "clash-open": CLASH_OPEN,
    "clash-finetune": CLASH_FINETUNE,
    "clash-categories": CLASH_CATEGORIES,
}


def beside(table: str, model: str | None, *setting: str) -> Cells:
    """The paper's cells that may stand beside a row: those of its model in its very setting.

    Args:
        table: Name of the table.
        model: The paper's name of the model; None for a model that the paper does not have.
        setting: The rest of the row's head: prompt, cue, form.

    >>> beside("table1", LLAVA, "zero-shot")["group_acc"].text()
    '19.0'
    >>> beside("table1", LLAVA, "chain of thought"), beside("table1", None, "zero-shot")
    ({}, {})
    """
    return {} if model is None else TABLES.get(table, {}).get((model, *setting), {})
