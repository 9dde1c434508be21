"""Which categories a sample belongs to, and whether two sets of lists say the same.

A sample has a category when both changed words are in that category's list: strict co-membership,
so that an animal changed into a vehicle is in none. Case and number are folded. Samples in no list
are "other". The lists are this project's, or those of a user's own copy of the release.
"""

from __future__ import annotations

import ast
import functools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.data import CHANGE_TYPES
from lmms_eval_tasks.clash.make.word_lists.lexicon import LISTED, folded, lexicon, plural
from lmms_eval_tasks.dataset.files import read_text
from postprocess.measure.clash import CATEGORIES

Lists = Mapping[str, frozenset[str]]
"""Category to its folded words."""

CONSTANTS_FILE = "src/utils/constants.py"
CONSTANTS = ("OBJECT_CATEGORIES", "ATTRIBUTE_CATEGORIES")
"""Where the release keeps its lists."""

MIN_PAIRS = 3
"""A word in fewer changed pairs is no candidate."""

MIN_SHARE = 0.5
"""So much of a word's pairs must lead into one category."""

MAX_FILE_BYTES = 10_000_000


class Agreement(NamedTuple):
    """How two sets of categories of the same samples agree, for one category."""

    category: str
    both: int
    first_only: int
    second_only: int


class Candidate(NamedTuple):
    """A word that is changed into a category's words, or out of them, often enough."""

    category: str
    word: str
    pairs: int
    """Changed pairs that it stands in."""
    share: float
    """Part of them that leads into the category."""


def fold(text: str) -> str:
    """A word as lists are searched: case folded, spaces evened, articles gone.

    >>> fold(" A  Hot Dog ")
    'hot dog'
    """
    words = folded(text)
    return " ".join(words[1:] if words[:1] in (("a",), ("an",), ("the",)) and words[1:] else words)


def is_member(word: str, words: frozenset[str]) -> bool:
    """Whether a word is in a list, in singular or plural.

    >>> is_member("Benches", frozenset({"bench"})), is_member("dog", frozenset({"dogs"}))
    (True, True)
    """
    word = fold(word)
    if not word or word in words or plural(word) in words:
        return bool(word)
    ends = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"), ("ves", "fe"), ("men", "man"))
    return any(word.endswith(a) and word[: -len(a)] + b in words for a, b in ends)


def categories_of(original: str, conflicting: str, change_type: str, lists: Lists) -> list[str]:
    """The categories of a sample: those with both words in them, else "other".

    >>> categories_of("dog", "cats", "object", own_lists())
    ['animals']
    >>> categories_of("dog", "bus", "object", own_lists())
    ['other']
    """
    found = [
        name
        for name in LISTED[change_type]
        if name in lists
        and is_member(original, lists[name])
        and is_member(conflicting, lists[name])
    ]
    return found or ["other"]


@functools.cache
def own_lists() -> dict[str, frozenset[str]]:
    """The project's lists."""
    heads = lexicon().heads
    lists = {name: frozenset(heads[name]) for kind in CHANGE_TYPES for name in LISTED[kind]}
    # In "a dog" changed into "two dogs" the article is the number.
    return lists | {"numbers": lists["numbers"] | {"a", "an", "another", "single"}}


def release_lists(release: Path) -> dict[str, frozenset[str]]:
    """The lists of a user's copy of the release, read without running it.

    Raises:
        ValueError: The file is missing or does not assign the two constants as plain values.
    """
    path = release / CONSTANTS_FILE
    try:
        tree = ast.parse(read_text(path, MAX_FILE_BYTES))
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{path}: is not readable as Python ({str(error)[:120]})") from error
    found: dict[str, frozenset[str]] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
        if names & set(CONSTANTS):
            try:
                found |= _lists(ast.literal_eval(statement.value))
            except (ValueError, TypeError, RecursionError, MemoryError) as error:
                raise ValueError(f"{path}:{statement.lineno}: is no plain value") from error
    if not found:
        raise ValueError(f"{path}: assigns none of {', '.join(CONSTANTS)}")
    return found


def read_lists(path: Path) -> dict[str, frozenset[str]]:
    """Lists of the release's folder, or of a JSON file `{category: [words]}`.

    Raises:
        ValueError: Neither can be read there.
    """
    if path.is_dir():
        return release_lists(path)
    try:
        return _lists(json.loads(read_text(path, MAX_FILE_BYTES)))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def agreement(
    first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]
) -> tuple[list[Agreement], int]:
    """How two categorisations of the same samples agree.

    Args:
        first: Categories of each sample.
        second: The same samples in the same order.

    Returns:
        One row a category, and the number of samples with exactly the same categories.
    """
    rows = []
    names = {name for labels in (*first, *second) for name in labels}
    order = list(dict.fromkeys(x for kind in CHANGE_TYPES for x in CATEGORIES[kind]))
    for name in [*(x for x in order if x in names), *sorted(names - set(order))]:
        held = Counter((name in a, name in b) for a, b in zip(first, second, strict=True))
        rows.append(Agreement(name, held[True, True], held[True, False], held[False, True]))
    same = sum(set(a) == set(b) for a, b in zip(first, second, strict=True))
    return rows, same


def derive(
    rows: Iterable[Mapping[str, Any]], lists: Lists, min_pairs: int = MIN_PAIRS
) -> list[Candidate]:
    """Candidate words for the lists, out of the most frequent changed pairs.

    Lists seed the search: a word belongs where most of the words belong that it is exchanged with.
    Words found count as members in the next round, until no more are found.

    Args:
        rows: Rows with `original_word`, `conflicting_word` and `change_type`.
        lists: The lists that the search starts from.
        min_pairs: A word must stand in so many pairs.
    """
    partners: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        one, other = fold(row["original_word"]), fold(row["conflicting_word"])
        if one and other:
            partners[row["change_type"], one][other] += 1
            partners[row["change_type"], other][one] += 1
    known = {name: set(words) for name, words in lists.items()}
    found: dict[tuple[str, str], Candidate] = {}
    while True:
        new: list[Candidate] = []
        for (kind, word), others in sorted(partners.items()):
            total = others.total()
            if total < min_pairs:
                continue
            for name in LISTED[kind]:
                members = frozenset(known.get(name, ()))
                if (name, word) in found or is_member(word, members):
                    continue
                inside = sum(n for other, n in others.items() if is_member(other, members))
                if inside >= min_pairs and inside / total >= MIN_SHARE:
                    new.append(Candidate(name, word, total, inside / total))
        if not new:
            return sorted(found.values(), key=lambda x: (x.category, -x.pairs, x.word))
        for candidate in new:
            found[candidate.category, candidate.word] = candidate
            known[candidate.category].add(candidate.word)


def _lists(data: object) -> dict[str, frozenset[str]]:
    known = {name for kind in CHANGE_TYPES for name in LISTED[kind]}
    if not isinstance(data, Mapping):
        raise ValueError("is no mapping of categories to words")
    lists = {}
    for name, words in data.items():
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"category {str(name)[:40]!r} is no list of words")
        if name not in known:
            raise ValueError(
                f"unknown category {str(name)[:40]!r}; known: {', '.join(sorted(known))}"
            )
        lists[name] = frozenset(filter(None, map(fold, words)))
    return lists
