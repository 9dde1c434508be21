"""Which tokens state an answer, and at which generated token an answer is stated.

The paper's score sums probability over *sets* of token spellings. The sets, and the place where
they are read, are decided here alone, so that every model of this project scores alike. Nothing
here may guess: a spelling that a tokenizer splits into several tokens is left out, and a set that
is left with none is an error, because a score over half of its tokens is a different score.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

_SPACE_MARKS = ("", " ", "▁", "Ġ")
"""No space, a space, and how SentencePiece and byte-level vocabularies write a leading space."""

_OPENING = frozenset("([{\"'“‘*_`")
"""What may stand before an option letter, as in `(A)` or `**B**`."""


def spellings(word: str) -> list[str]:
    """The spellings of an answer: as given, and for words in lower, upper and title case.

    A single letter keeps its case, since "a" is an article; it may carry its opening bracket,
    which some vocabularies hold as one token.

    >>> spellings("yes")
    ['yes', 'YES', 'Yes']
    >>> spellings("A")
    ['A', '(A']
    """
    if len(word) == 1:
        return [word, f"({word}"]
    return list(dict.fromkeys([word, word.lower(), word.upper(), word.title()]))


def single_token_ids(tokenizer: Any, words: Iterable[str]) -> list[int]:
    """Ids of all single tokens that spell one of the words, with and without a leading space.

    A tokenizer's `encode` does not reach every token (SentencePiece adds a leading space of its
    own), so the vocabulary is asked as well; an id counts only where it decodes to the spelling.

    Args:
        tokenizer: A transformers tokenizer.
        words: Answers such as `["yes"]`, or an option letter such as `["A"]`.

    Returns:
        Sorted ids, each once; empty where the tokenizer splits every spelling.
    """
    found: set[int] = set()
    for word in words:
        for spelling in spellings(word):
            candidates: list[Any] = []
            for mark in _SPACE_MARKS:
                candidates.append(tokenizer.convert_tokens_to_ids(mark + spelling))
                if mark.strip() == "":
                    encoded = tokenizer.encode(mark + spelling, add_special_tokens=False)
                    candidates.extend(encoded if len(encoded) == 1 else [])
            found.update(
                token
                for token in candidates
                if isinstance(token, int) and tokenizer.decode([token]).strip() == spelling
            )
    return sorted(found)


def choice_ids(tokenizer: Any, choices: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
    """Token ids of each answer set of a task.

    Args:
        tokenizer: A transformers tokenizer.
        choices: The task's metadata `choices`: name of a set to its words.

    Raises:
        ValueError: No single token spells a set, or one token would count for two sets.
    """
    ids = {name: single_token_ids(tokenizer, words) for name, words in choices.items()}
    owner: dict[int, str] = {}
    for name, tokens in ids.items():
        if not tokens:
            raise ValueError(
                f"no single token of {type(tokenizer).__name__} spells the answer set {name!r} "
                f"({', '.join(map(repr, choices[name]))}): its probability cannot be read"
            )
        for token in tokens:
            if token in owner:
                raise ValueError(
                    f"token {token} spells both answer sets {owner[token]!r} and {name!r}"
                )
            owner[token] = name
    return ids


def answer_step(token_texts: Sequence[str], letters: Collection[str] = ()) -> int | None:
    r"""Index of the generated token at which a direct answer is stated.

    Of option letters it is the first token that is one of them, a bracket before it allowed;
    failing that the first that is more than an opening bracket or a mark of emphasis. Of words it
    is the first token that is not white space.

    Args:
        token_texts: Text of each generated token, special tokens as "".
        letters: The option letters; empty where the answers are words.

    Returns:
        The index, or None where nothing but such tokens was generated.

    >>> answer_step([" ", "Yes"])
    1
    >>> answer_step(["(", "A", ")"], "AB")
    1
    >>> answer_step(["", "\n"]) is None
    True
    """
    bodies = [text.strip() for text in token_texts]
    for step, body in enumerate(bodies):
        if body.lstrip("(") in tuple(letters):
            return step
    for step, body in enumerate(bodies):
        if body and not (letters and set(body) <= _OPENING):
            return step
    return None
