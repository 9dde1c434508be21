"""What a sentence decides without a yes or no: "The caption is not sarcastic".

The second layer of `postprocess.read.verdict`. A sentence decides only if every word up to its
"sarcastic" is one of a short list and nothing behind it turns it; whatever is said of another
text, of other people, in a condition or in a double denial holds a word that is not on the list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from postprocess.read.vocabulary import WORDS, holds
from postprocess.response.folding import Sentence

_SARCASM = re.compile(r"(non|un)?sarcas(?:m|tic|tically)\Z")
_DENIALS = frozenset({"not", "no", "lacks", "lack"})
_SUBJECTS, _VERBS = WORDS["subjects"], WORDS["verbs"]
_KNOWN = _SUBJECTS | _VERBS | WORDS["filling"] | WORDS["fragments"]

Claim = tuple[Literal[0, 1], int, int]
"""What is decided, and where the deciding words begin and end."""


def claim(sentence: Sentence, at: int = 0) -> Claim | None:
    """What a sentence decides from a word on, or None."""
    words, gaps = sentence.words[at:], sentence.gaps[at:]
    ends = [k for k, word in enumerate(words) if "sarcas" in word]
    if len(ends) != 1 or sentence.asks:
        return None
    end = ends[0]
    form = _SARCASM.match(words[end])
    before, behind = words[:end], words[end + 1 :]
    # "non-sarcastic" comes as two words.
    prefixed = end > 0 and words[end - 1] in ("non", "un") and gaps[end] == "-"
    before = before[:-1] if prefixed else before
    if form is None or any(w not in _KNOWN and not w.endswith("n't") for w in before):
        return None
    if any(re.search(r"[:()\[\]{}/—]", gap) for gap in gaps[1 : end + 1]) or (
        behind and re.search(r"[:=/_|]|\A-\Z", gaps[end + 1])
    ):
        return None
    if holds("open_ends", behind) and not (behind[0] == "not" and len(behind) < 4):
        return None
    if "just" in before and "not" in before:
        return None
    fragment = all(word in WORDS["fragments"] for word in before)
    verbs = [k for k, word in enumerate(before) if word in _VERBS or word.endswith("n't")]
    inverted = before[:1] and before[0] in _VERBS and before[0] not in ("it's", "there's")
    if not (fragment or verbs) or (inverted and before[0] not in ("lacks", "lack")):
        return None
    denials = [k for k, w in enumerate(before) if w in _DENIALS or w.endswith("n't")]
    if len(denials) + bool(form[1] or prefixed) > 1:
        return None
    spans = sentence.spans[at:]
    value: Literal[0, 1] = 0 if denials or form[1] or prefixed else 1
    first = denials[0] if denials else end - prefixed
    return value, spans[first][0], spans[end][1]


def closing_claim(found: Sequence[Sentence], cot: bool) -> Claim | None:
    """What an answer decides by its sentences, if it plainly decides one thing.

    A direct answer: all that it says of sarcasm agrees. A chain of thought: its last sentence, or
    the one before, is the last that speaks of sarcasm.
    """
    speaking = [sentence for sentence in found if "sarcas" in sentence.body]
    if not speaking or (cot and speaking[-1] not in found[-2:]):
        return None
    claims = [claim(sentence) for sentence in (speaking[-1:] if cot else speaking)]
    first = claims[0]
    if first is None or any(other is None or other[0] != first[0] for other in claims):
        return None
    hedged = any(holds("hedges", sentence.words) for sentence in found[-2:])
    return None if hedged else first
