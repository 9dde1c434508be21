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

NEARLY = 0.75
"""Share of the most complete judge's answers below which a judge stands alone."""

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
    """The judges to combine: those asked for, else the paper's two, else all that cover as much.

    A judge that stopped early would shrink the common answers to its own, so without the paper's
    two a judge must have answered nearly as many as the most complete one; single failures do not
    throw it out.

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
        enough = NEARLY * max(map(len, cover.values()), default=0)
        names = tuple(name for name, own in cover.items() if own and len(own) >= enough)
        why = f"all judges that answered {NEARLY:.0%} or more of what the most complete one did"
    together = frozenset.intersection(*(cover[name] for name in names)) if names else frozenset()
    return Combined(names, why, len(together), len(labels))


def described(labels: Labels, asked: Sequence[str] | None = None) -> str | None:
    """Which judges count together, why, and how many answers they cover; None without any judge.

    >>> described([{"a": "NONE"}, {"a": "TEXT"}], ["a", "b"])
    'judges a (as asked for), which judged 2 of 2 answers; no judge called b'
    >>> described([{}]) is None
    True
    """
    known = named(labels)
    if not known:
        return None
    names, why, covered, n = combined(labels, asked)
    lacking = [name for name in asked or () if name not in known]
    told = f"judges {', '.join(names) or 'none'} ({why}), which judged {covered} of {n} answers"
    return told + (f"; no judge called {', '.join(lacking)}" if lacking else "")


def _plain(name: str) -> str:
    """A judge's name without provider, case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", re.split(r"[:/]", name.lower())[-1])
