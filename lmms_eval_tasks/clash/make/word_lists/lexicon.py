"""The project's word lists: which words belong to a category, and which may stand for each other.

One text file a category in `word_lists/`. A group in square brackets holds entries that can be
exchanged; after the brackets stands what a question calls such a thing. An entry is one line:

    headword/plural (flag) = answer form: related words ~ hints ! headwords that are too near

The plural is regular where none is given, and `-` for what is not counted. Related words mean the
same or a kind of it: a caption that has one of them already speaks of the entry. Hints give the
entry away without being exchangeable. Flags: `common` (too usual in its surroundings to be called
absent, so never put in) and `member` (in the category, never exchanged).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import NamedTuple

from postprocess.measure.clash import CATEGORIES

LISTED = {kind: tuple(x for x in names if x != "other") for kind, names in CATEGORIES.items()}
"""Change type to the categories that have a word list."""

MAX_WORDS = 4
"""Longest phrase of a list, in words."""

_LINE = re.compile(
    r"(?P<head>[^:~!=(]+)(?:\((?P<flag>common|member)\)\s*)?(?:=(?P<answer>[^:~!]+))?"
    r"(?::(?P<related>[^~!]+))?(?:~(?P<hints>[^!]+))?(?:!(?P<apart>.+))?"
)
_GROUP = re.compile(r"\[(?P<name>[^\]]+)\]\s*(?P<kind>.+)")
_TOKEN = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")


class WordListError(ValueError):
    """A line of a word list that cannot be read: file and line are in the message."""


class Form(NamedTuple):
    """One word or phrase of an entry."""

    text: str
    number: str
    """`one`, `many`, `both` (one form for either), `mass`, or `none` for attributes."""


class Entry(NamedTuple):
    """What is exchanged: a headword with everything that says the same."""

    category: str
    group: str
    head: str
    forms: tuple[Form, ...]
    """The headword's forms first."""
    hints: frozenset[str]
    apart: frozenset[str]
    flag: str | None
    answer: str | None
    n_head: int
    """So many of `forms` are the headword's own."""
    terms: frozenset[str]
    """Folded forms and hints: whatever a text says of the entry."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Category, group and headword: one entry of all lists."""
        return self.category, self.group, self.head

    @property
    def change_type(self) -> str:
        """Whether exchanging it changes an object or an attribute."""
        return "object" if self.category in LISTED["object"] else "attribute"

    def head_form(self, number: str) -> str | None:
        """The headword in a grammatical number, or None where it has none."""
        for form in self.forms[: self.n_head]:
            if form.number == number or (form.number == "both" and number in ("one", "many")):
                return form.text
        return None


class Group(NamedTuple):
    """Entries that can be exchanged, and what a question calls one of them."""

    category: str
    name: str
    kind: str
    kinds: str
    """Plural of `kind`."""
    entries: tuple[Entry, ...]


class Lexicon(NamedTuple):
    """All lists, ready for look-ups by folded words."""

    groups: Mapping[tuple[str, str], Group]
    members: Mapping[tuple[str, ...], tuple[tuple[Entry, Form], ...]]
    """Folded words of a form to the entries that have it."""
    heads: Mapping[str, Mapping[str, frozenset[str]]]
    """Category to its folded forms and the headwords that have them."""
    versions: Mapping[str, int]

    def group_of(self, entry: Entry) -> Group:
        """The group of an entry."""
        return self.groups[entry.category, entry.group]


class Token(NamedTuple):
    """A word of a text and where it stands."""

    text: str
    start: int
    end: int

    @property
    def folded(self) -> str:
        """The word as lists are searched."""
        return self.text.casefold().replace("’", "'")


class Found(NamedTuple):
    """A form of an entry in a text."""

    entry: Entry
    form: Form
    first: int
    """Index of its first token."""
    last: int
    """Index after its last token."""

    @property
    def is_thing(self) -> bool:
        """Whether it names something that can have attributes."""
        return self.entry.category not in LISTED["attribute"]


def tokens_of(text: str) -> list[Token]:
    """The words of a text; hyphens and apostrophes inside a word belong to it.

    >>> [token.text for token in tokens_of("A t-shirt, the dog's.")]
    ['A', 't-shirt', 'the', "dog's"]
    """
    return [Token(match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)]


def folded(text: str) -> tuple[str, ...]:
    """The words of a text, case folded.

    >>> folded("Hot  Dog")
    ('hot', 'dog')
    """
    return tuple(token.folded for token in tokens_of(text))


def plural(word: str) -> str:
    """The regular plural of a noun; of a phrase, that of its last word.

    >>> plural("dog"), plural("bench"), plural("city"), plural("toy"), plural("cell phone")
    ('dogs', 'benches', 'cities', 'toys', 'cell phones')
    """
    if re.search(r"(?:s|x|z|ch|sh)$", word):
        return f"{word}es"
    if re.search(r"[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    return f"{word}s"


def find(tokens: Sequence[Token], lexicon: Lexicon) -> list[Found]:
    """Every form of every list in a text; of overlapping ones the longest, then the first."""
    spans: list[Found] = []
    at = 0
    while at < len(tokens):
        for length in range(min(MAX_WORDS, len(tokens) - at), 0, -1):
            words = tuple(token.folded for token in tokens[at : at + length])
            known = lexicon.members.get(words)
            if known:
                spans += [Found(entry, form, at, at + length) for entry, form in known]
                at += length - 1
                break
        at += 1
    return spans


@functools.cache
def lexicon() -> Lexicon:
    """The lists that ship with the project.

    Raises:
        WordListError: A list cannot be read.
    """
    groups: list[Group] = []
    versions = {}
    for category in [*LISTED["object"], *LISTED["attribute"], "nouns"]:
        name = f"{category}.txt"
        versions[category], parsed = parse_list(_text(category), category, name)
        groups += parsed
    members: dict[tuple[str, ...], list[tuple[Entry, Form]]] = {}
    heads: dict[str, dict[str, set[str]]] = {}
    for group in groups:
        names = heads.setdefault(group.category, {})
        for entry in group.entries:
            for form in entry.forms:
                members.setdefault(folded(form.text), []).append((entry, form))
                names.setdefault(" ".join(folded(form.text)), set()).add(entry.head)
    return Lexicon(
        {(group.category, group.name): group for group in groups},
        {words: tuple(found) for words, found in members.items()},
        {
            category: {form: frozenset(found) for form, found in names.items()}
            for category, names in heads.items()
        },
        versions,
    )


@functools.cache
def word_set(name: str) -> frozenset[str]:
    """A set of small words that rules look at, by its name in `grammar.txt`.

    Raises:
        KeyError: There is no such set.
    """
    for line in _text("grammar").splitlines():
        found, _, words = line.partition(":")
        if found.strip() == name and not line.startswith("#"):
            return frozenset(words.split())
    raise KeyError(name)


def _text(name: str) -> str:
    lists = resources.files(__package__)
    return lists.joinpath(f"{name}.txt").read_text(encoding="utf-8")


def parse_list(text: str, category: str, name: str) -> tuple[int, list[Group]]:
    """Version and groups of one list.

    Raises:
        WordListError: A line cannot be read.
    """
    version = 0
    groups: list[Group] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        header = _GROUP.fullmatch(line)
        if line.startswith("version ") and line[8:].isdecimal():
            version = int(line[8:])
        elif header:
            kind, _, kinds = header["kind"].partition("/")
            groups.append(Group(category, header["name"], kind, kinds or plural(kind), ()))
        elif not groups or not (entry := _LINE.fullmatch(line)):
            raise WordListError(f"{name}:{number}: cannot be read: {line[:80]!r}")
        else:
            group = groups[-1]
            made = _entry(entry, group)
            groups[-1] = group._replace(entries=(*group.entries, made))
    if version < 1:
        raise WordListError(f"{name}: has no version line")
    return version, groups


def _entry(line: re.Match[str], group: Group) -> Entry:
    head = list(_forms(line["head"], group.category))
    related = [form for part in _split(line["related"]) for form in _forms(part, group.category)]
    forms = (*head, *related)
    hints = frozenset(" ".join(folded(hint)) for hint in _split(line["hints"]))
    return Entry(
        category=group.category,
        group=group.name,
        head=head[0].text,
        forms=forms,
        hints=hints,
        apart=frozenset(_split(line["apart"])),
        flag=line["flag"],
        answer=line["answer"].strip() if line["answer"] else None,
        n_head=len(head),
        terms=hints | {" ".join(folded(form.text)) for form in forms},
    )


def _split(part: str | None) -> list[str]:
    return [word.strip() for word in (part or "").split(",") if word.strip()]


def _forms(word: str, category: str) -> Iterator[Form]:
    one, _, many = (part.strip() for part in word.strip().partition("/"))
    if category in LISTED["attribute"]:
        yield Form(one, "none")
    elif many == "-":
        yield Form(one, "mass")
    elif many == one:
        # Trousers and cattle are many; one fish, two fish.
        yield Form(one, "many" if one.endswith("s") or one == "cattle" else "both")
    else:
        yield Form(one, "one")
        yield Form(many or plural(one), "many")
