"""Taking a model's thought out of its answer, for the readers of verdicts and option letters.

The harness strips blocks of reasoning that are closed, in the tags it was told of. What it leaves
is a thought cut at the token limit, and blocks in tags it does not know. Nothing that stands in a
thought is an answer, so the readers must never see it.
"""

from __future__ import annotations

import re

_NAMES = "antthinking|seed:think|think(?:ing)?|thoughts?|analysis|reasoning|reflection|scratchpad"
_TAG = re.compile(
    rf"(?:< ?\|?|◁) ?(?P<end>/|end_(?:of_)?)? ?(?:(?:begin|start)_(?:of_)?)?(?P<name>{_NAMES})"
    r" ?(?:\|? ?>|▷)"
    r"|\[(?P<square_end>/)?think(?:ing)?\]",
    re.IGNORECASE,
)


def blank_thoughts(text: str) -> str:
    r"""The text with each thought, tags included, as spaces and a line break of the same length.

    A thought runs from its opening tag to the closing tag of the same name; without one, to the
    end of the text. A closing tag that nothing opened ends a thought that began with the text:
    some chat templates write the opening tag into the prompt.

    >>> blank_thoughts("<think>No.</think>Yes").split()
    ['Yes']
    >>> blank_thoughts("So it is plain.</think>No").split()
    ['No']
    >>> blank_thoughts("Yes <think>Or no").split()
    ['Yes']
    """
    if not any(opening in text for opening in "<[◁"):
        return text
    thoughts: list[tuple[int, int]] = []
    opened: tuple[str, int] | None = None
    for tag in _TAG.finditer(text):
        name = (tag["name"] or "[think]").lower()
        closes = bool(tag["end"] or tag["square_end"])
        if opened is None:
            if closes:
                thoughts = [(0, tag.end())]
            else:
                opened = name, tag.start()
        elif closes and name == opened[0]:
            thoughts.append((opened[1], tag.end()))
            opened = None
    if opened is not None:
        thoughts.append((opened[1], len(text)))
    pieces: list[str] = []
    at = 0
    for start, end in thoughts:
        pieces += (text[at:start], " " * (end - start - 1), "\n")
        at = end
    return "".join([*pieces, text[at:]])
