"""Which judges' labels are put together, and what they make of the answers.

`combined` is the one place that chooses: the harness's metric, `score`, tables, report and compare
all ask it, and show its reason beside the figure. An answer that a judge never gave a label for is
unjudged, never `none`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PAPER = ("gemini-2.5-pro", "gpt-5")
"""The judges of the CLASH paper."""

Labels = Sequence[Mapping[str, str | None]]
"""For each answer its label by judge; None or absent where that judge did not answer."""


class Combined(NamedTuple):
    """The judges that count together."""

    names: tuple[str, ...]
    why: str
    covered: int
    """Answers that all of them judged."""
    n: int
    """All answers."""


def named(labels: Labels) -> list[str]:
    """Every judge that occurs, sorted."""
    return sorted({name for one in labels for name in one})


def combined(labels: Labels, asked: Sequence[str] | None = None) -> Combined:
    """The judges to combine: those asked for, else the paper's two, else equals in cover.

    A judge that stopped early would shrink the common answers to its own, so without the paper's
    two only judges that answered the very same documents are put together: the most documents, and
    of those the most judges.

    Args:
        labels: For each answer its label by judge.
        asked: Names that somebody asked for; unknown ones are left out.

    >>> both = {"openai:gpt-5": "NONE", "Gemini 2.5 Pro": "TEXT", "other": "TEXT"}
    >>> combined([both]).names
    ('Gemini 2.5 Pro', 'openai:gpt-5')
    >>> combined([{"a": "NONE", "b": "TEXT", "c": None}, {"a": "TEXT", "b": "NONE"}]).names
    ('a', 'b')
    """
    cover = {
        name: frozenset(i for i, one in enumerate(labels) if one.get(name) is not None)
        for name in named(labels)
    }
    paper = [next((n for n in cover if cover[n] and _plain(n) == _plain(p)), None) for p in PAPER]
    if asked is not None:
        names, why = tuple(name for name in asked if name in cover), "as asked for"
    elif None not in paper:
        names, why = tuple(str(name) for name in paper), "the paper's judges"
    else:
        groups: dict[frozenset[int], list[str]] = {}
        for name, own in cover.items():
            if own:
                groups.setdefault(own, []).append(name)
        most = max(groups, key=lambda own: (len(own), len(groups[own])), default=frozenset())
        names, why = tuple(groups.get(most, ())), "all judges that answered the same documents"
    together = frozenset.intersection(*(cover[name] for name in names)) if names else frozenset()
    return Combined(names, why, len(together), len(labels))


def _plain(name: str) -> str:
    """A judge's name without provider, case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", re.split(r"[:/]", name.lower())[-1])
