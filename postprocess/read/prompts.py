"""The prompts of a verdict by their names: one asks for it directly, one for a chain of thought."""

from __future__ import annotations

PROMPTS = ("zero_shot", "cot")


def is_cot(prompt: str) -> bool:
    """Whether a prompt asks for a chain of thought; `zero_shot_b` is a form of `zero_shot`.

    Raises:
        ValueError: The name is neither a known prompt nor begins with one and an underscore.

    >>> is_cot("zero_shot_b"), is_cot("cot")
    (False, True)
    """
    for known in PROMPTS:
        if prompt == known or prompt.startswith(f"{known}_"):
            return known == "cot"
    raise ValueError(f"prompt {prompt!r}: know {', '.join(PROMPTS)} and their forms")
