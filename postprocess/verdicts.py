"""Reading a verdict, Yes (sarcastic) or No, out of a model's answer."""

from __future__ import annotations

import re

PROMPTS = ("zero_shot", "cot")


def is_cot(prompt: str) -> bool:
    """Whether a prompt asks for a chain of thought; `zero_shot_b` and the like are forms of one.

    Raises:
        ValueError: The name begins with no known prompt.
    """
    for known in PROMPTS:
        if prompt == known or prompt.startswith(f"{known}_"):
            return known == "cot"
    raise ValueError(f"prompt {prompt!r}: know {', '.join(PROMPTS)} and their forms")


def read_verdict(text: str | None, prompt: str = "zero_shot") -> int | None:
    """1 for Yes, 0 for No, None where the text states neither."""
    is_cot(prompt)
    found = re.findall(r"^\W*(yes|no)\b(?! \w)|verdict\W+(yes|no)\b", text or "", re.I)
    if not found:
        return None
    return int("yes" in "".join(found[-1]).lower())
