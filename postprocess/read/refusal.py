"""Whether an answer without a verdict is a plain refusal.

Only a model that says of itself that it cannot or will not help, in the first sentences of a short
answer. "I cannot tell" is no refusal, and neither is a sentence about what the picture lacks.
"""

from __future__ import annotations

import re

from postprocess.response.folding import fold

MAX_CHARS = 600
"""A longer answer argues; it does not merely refuse."""

_REFUSAL = re.compile(
    r"\A\W*(?:(?:i'm|i am) (?:very |really )?sorry|sorry|i apologi[sz]e|as an ai[\w ]{0,30})?"
    r"[ ,.;]{0,3}"
    r"(?:but )?(?:unfortunately, )?(?:i|i'm|i am|we)(?: must| have to)? ?"
    r"(?:can't|cannot|can not|won't|will not|unable to|not able to|decline to|refuse to)"
    r"(?: fulfill?| comply| help| assist| provide| engage| discuss| participate| continue"
    r"| respond to| complete| support)(?!\w)"
)


def is_refusal(words: str) -> bool:
    """Whether the words refuse.

    >>> is_refusal("I'm sorry, but I can't help with that."), is_refusal("I can't tell.")
    (True, False)
    """
    return len(words) <= MAX_CHARS and _REFUSAL.match(fold(words)) is not None
