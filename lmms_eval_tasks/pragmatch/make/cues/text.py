"""What all cues share: the word lists, the words of a caption, and how it is written."""

from __future__ import annotations

import functools
import hashlib
import re
from importlib import resources
from typing import NamedTuple

_LISTS = resources.files("lmms_eval_tasks.pragmatch.make").joinpath("cue_lists")
LIST_FILES = ("lexical.txt", "style.txt", "ocr.txt", "words.txt")

WORD = re.compile(r"<\w+>|[^\W_]+(?:['’][^\W_]+)*")
PLACEHOLDER = re.compile(r"<\w+>")
RUN = re.compile(r"[!?.…](?:[^\S\n]?[!?.…])*")
_TOKENISED = re.compile(r"\s(?:[.,!?;:]+|['’](?:s|t|m|re|ve|ll|d))(?=\s|$)|<(?:user|num)>")


class Span(NamedTuple):
    """One piece of a cue in a caption and what a mask puts in its place."""

    start: int
    end: int
    """`caption[start:end]` is the piece."""
    name: str
    """The rule that found it: `laughter`, `hashtag`, `shared_word`, ..."""
    replacement: str
    """What a mask writes instead; empty where the piece goes."""
    opens: bool = False
    """Whether the piece clings to what follows (a hash sign, an opening quote)."""


@functools.cache
def word_lists(file: str) -> dict[str, tuple[str, ...]]:
    """The sections of a list file, each with its entries in the file's order.

    Raises:
        ValueError: The file has no version line, or an entry outside every section.
    """
    lists: dict[str, list[str]] = {}
    section: str | None = None
    version: str | None = None
    text = (
        resources.files("lmms_eval_tasks.pragmatch.make")
        .joinpath("cue_lists", file)
        .read_text(encoding="utf-8")
    )
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = header[1]
            lists[section] = []
        elif section is not None:
            lists[section].append(line)
        elif line.startswith("version "):
            version = line.removeprefix("version ")
        else:
            raise ValueError(f"{file}:{number}: {line!r} stands outside every section")
    if version is None:
        raise ValueError(f"{file}: has no version line")
    return {"version": (version,), **{name: tuple(words) for name, words in lists.items()}}


def list_versions() -> dict[str, str]:
    """Each list file with its version and the start of its SHA-256, for manifests."""
    out = {}
    for file in LIST_FILES:
        digest = hashlib.sha256(_LISTS.joinpath(file).read_bytes()).hexdigest()
        out[file] = f"{word_lists(file)['version'][0]} sha256:{digest[:16]}"
    return out


def words(text: str) -> list[str]:
    """The word tokens of a caption, placeholders such as `<user>` included.

    >>> words("<user> it 's 5 o'clock !")
    ['<user>', 'it', 's', '5', "o'clock"]
    """
    return [match.group() for match in WORD.finditer(text)]


def content_words(text: str) -> list[str]:
    """The words that carry substance: no placeholder, number, closed-class word or "lol".

    >>> content_words("<user> it is the <num> best 7")
    ['best']
    """
    return [
        word
        for word in words(text)
        if not PLACEHOLDER.fullmatch(word)
        and not word.isdecimal()
        and len(word) > 1
        and not any(part.casefold() in _closed() for part in (word, *re.split("['’]", word)[:1]))
        and not markers().fullmatch(word)
    ]


@functools.lru_cache(maxsize=1)
def _closed() -> frozenset[str]:
    lists = word_lists("words.txt")
    return frozenset(
        word for name, entries in lists.items() if name != "version" for word in entries
    )


@functools.lru_cache(maxsize=1)
def markers() -> re.Pattern[str]:
    """The overt markers of the list, as one pattern."""
    lists = word_lists("lexical.txt")
    plain = [re.escape(word) for word in lists["words"]] + list(lists["patterns"])
    phrases = [r"\s+(?:,\s+)?".join(map(re.escape, x.split())) for x in lists["phrases"]]
    # "yeah , right" in ordinary spelling has its comma at the word.
    phrases += [r",?\s+".join(map(re.escape, x.split())) for x in lists["phrases"]]
    signs = "|".join(re.escape(sign) for sign in lists["signs"])
    tags = "|".join(map(re.escape, lists["hashtags"]))
    return re.compile(
        rf"(?:(?<![\w&])#+\s?(?:{tags})(?![\w'’])"
        rf"|(?:(?<![\w&])#+\s?)?(?<![\w'’<-])(?:{'|'.join(phrases + plain)})(?![\w'’>-])"
        rf"|(?<!\S)(?:{signs})(?!\S))",
        re.IGNORECASE,
    )


def is_tokenised(caption: str) -> bool:
    """Whether punctuation stands apart, as in MMSD2.0; a caption without any follows its case."""
    if re.search(r"\w[.,!?](?=\s|$)", caption):
        return False
    return bool(_TOKENISED.search(caption)) or caption == caption.lower()


def has_words(text: str) -> bool:
    """Whether a text has a letter or a digit outside placeholders."""
    return bool(re.search(r"\w", PLACEHOLDER.sub(" ", text)))
