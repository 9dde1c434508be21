"""The cue edits: take a surface cue out of a caption (mask) or put one in (inject).

Three cues. *Lexical*: overt markers such as "lol". *Style*: emphasis in the writing, from "!!" to
hash signs. *OCR*: words read off the picture, or words in the manner of overlay text; the picture
stays as it is, so both edits are made in the caption. What counts as a cue stands in the lists
under `cue_lists/` and in the rules below; both are ours, not the paper's. An edit is a function of
caption and seed alone, works on MMSD2.0's tokenised text and on ordinary English, and must never
touch a word that is not part of a cue.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import resources
from random import Random
from typing import NamedTuple

from postprocess.benchmarks.pragmatch_tasks import CUES

KINDS = ("mask", "inject")
LIST_FILES = ("lexical.txt", "style.txt", "ocr.txt", "words.txt")

MIN_SHARED_CHARS = 3
"""A shorter word on the picture is no evidence that the caption reads it."""
MIN_PART_CHARS = 6
"""Text recognition glues words together; a caption word this long may be found inside one."""
MAX_QUOTED_WORDS = 3
"""Quotes around more words are speech, not emphasis."""

_PASSES = 12
_WORD = re.compile(r"<\w+>|[^\W_]+(?:['’][^\W_]+)*")
_PLACEHOLDER = re.compile(r"<\w+>")
_RUN = re.compile(r"[!?.…](?:[^\S\n]?[!?.…])*")
_HASH = re.compile(r"(?<![\w&#])#+[^\S\n]?(?![^\S\n]*\d+\b)")
_QUOTE = re.compile(r"[\"“”]")
_STARRED = re.compile(r"(?<![\w*])\*[^\S\n]?(?=[\w<])([^*\n]{1,60}?)[^\S\n]?\*(?![\w*])")
_UNDERLINED = re.compile(r"(?<![\w])_(?=[^\W_])([^_\n]{1,60}?)_(?!\w)")
_TILDE = re.compile(r"(?<!\S)~+(?!\S)")
_LETTERS = re.compile(r"[^\W\d_]+")
_STRETCHED = re.compile(r"([A-Za-z])\1\1")
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
_EMOJI = re.compile(
    "[\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff\u2600-\u27bf\u2b50\u2b55\u2190-\u21ff]"
    "[\ufe0f\u200d\U0001f3fb-\U0001f3ff]*"
)
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
    text = resources.files(__package__).joinpath("cue_lists", file).read_text(encoding="utf-8")
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
    folder = resources.files(__package__).joinpath("cue_lists")
    out = {}
    for file in LIST_FILES:
        digest = hashlib.sha256(folder.joinpath(file).read_bytes()).hexdigest()
        out[file] = f"{word_lists(file)['version'][0]} sha256:{digest[:16]}"
    return out


def detect(caption: str, cue: str, picture_text: str | None = None) -> list[Span]:
    """Find a cue's pieces in a caption.

    Args:
        caption: The caption, tokenised or not.
        cue: `lexical`, `style` or `ocr`.
        picture_text: The text on the picture, where it is known; used by `ocr` alone.

    Returns:
        Pieces in their order, not overlapping; empty where the cue is absent.

    Raises:
        ValueError: The cue is none of the three.

    >>> [span.name for span in detect("so happy ! # monday lol", "style")]
    ['exclamation', 'hashtag']
    """
    if cue == "lexical":
        found = _lexical(caption)
    elif cue == "style":
        found = _style(caption)
    elif cue == "ocr":
        found = _ocr(caption, picture_text)
    else:
        raise ValueError(f"unknown cue {cue!r}; known: {', '.join(CUES)}")
    spans: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end)):
        if not spans or span.start >= spans[-1].end:
            spans.append(span)
    return spans


def mask(
    caption: str, cue: str, rng: Random | None = None, picture_text: str | None = None
) -> str | None:
    """Take a cue out of a caption.

    Afterwards the detector finds nothing, and every word outside the cue stands where it stood.

    Args:
        caption: The caption.
        cue: `lexical`, `style` or `ocr`.
        rng: Not drawn from: there is one way to take a cue out. Here so that edits look alike.
        picture_text: As for `detect`.

    Returns:
        The masked caption, or None where the cue is absent or no content word would remain.

    >>> mask("yup lol , that 's a giraffe", "lexical")
    "yup , that 's a giraffe"
    >>> mask("lol", "lexical") is None
    True
    """
    spans = detect(caption, cue, picture_text)
    others = _words_outside(caption, spans)
    text = caption
    for _ in range(_PASSES):
        if not spans:
            break
        text = _apply(text, spans)
        # Taking one piece out can bring two others together, or leave half of it ("SOOOO").
        spans = detect(text, cue, picture_text)
    if spans or text == caption or not content_words(text):
        return None
    # "yeah lol right" would lose words that were no cue when it began.
    return text if _in_order(others, words(text)) else None


def inject(caption: str, cue: str, rng: Random, picture_text: str | None = None) -> str | None:
    """Put a cue into a caption.

    Where the caption had no such cue, masking the result gives the caption back.

    Args:
        caption: The caption.
        cue: `lexical`, `style` or `ocr`.
        rng: Decides which cue and where; the same state gives the same edit.
        picture_text: Not drawn on: injected overlay text comes from the list, so that all
            pictures get the same kind. It says only which captions have the cue already.

    Returns:
        The caption with the cue, or None where the caption has no content word to begin with.

    >>> inject("a dog on a couch", "lexical", Random(3))
    'a dog on a couch lol'
    """
    if cue not in CUES:
        raise ValueError(f"unknown cue {cue!r}; known: {', '.join(CUES)}")
    if not content_words(caption):
        return None
    before = len(detect(caption, cue, picture_text))
    for candidate in _INJECTIONS[cue](caption, rng):
        if before == 0:
            accepted = mask(candidate, cue, None, picture_text) == caption
        else:
            accepted = len(detect(candidate, cue, picture_text)) > before
        if accepted:
            return candidate
    return None


def edit(
    caption: str, cue: str, rng: Random, kind: str, picture_text: str | None = None
) -> str | None:
    """Mask or inject a cue: the one door for builders.

    Raises:
        ValueError: The cue or the kind of edit is unknown.

    >>> edit("great job !", "style", Random(0), "mask")
    'great job'
    """
    if kind == "mask":
        return mask(caption, cue, rng, picture_text)
    if kind == "inject":
        return inject(caption, cue, rng, picture_text)
    raise ValueError(f"unknown edit {kind!r}; known: {', '.join(KINDS)}")


def count_cues(captions: Iterable[str]) -> dict[str, dict[str, int]]:
    """How many captions carry each cue, by rule, and how many can be masked.

    Picture texts are not known here: `ocr` counts overlay phrases alone.

    Returns:
        For each cue `present`, `maskable`, and each rule's own count; a caption counts once a
        rule, so the rules add up to more than `present`.
    """
    captions = list(captions)
    out: dict[str, dict[str, int]] = {}
    for cue in CUES:
        counts: Counter[str] = Counter()
        for caption in captions:
            spans = detect(caption, cue)
            counts["present"] += bool(spans)
            counts["maskable"] += mask(caption, cue) is not None
            counts.update({span.name for span in spans})
        out[cue] = dict(sorted(counts.items()))
    return out


def words(text: str) -> list[str]:
    """The word tokens of a caption, placeholders such as `<user>` included.

    >>> words("<user> it 's 5 o'clock !")
    ['<user>', 'it', 's', '5', "o'clock"]
    """
    return [match.group() for match in _WORD.finditer(text)]


def content_words(text: str) -> list[str]:
    """The words that carry substance: no placeholder, number, closed-class word or "lol".

    >>> content_words("<user> it is the <num> best 7")
    ['best']
    """
    return [
        word
        for word in words(text)
        if not _PLACEHOLDER.fullmatch(word)
        and not word.isdecimal()
        and len(word) > 1
        and not any(_is_closed(part) for part in (word, *re.split("['’]", word)[:1]))
        and not _markers().fullmatch(word)
    ]


def _words_outside(caption: str, spans: Sequence[Span]) -> list[str]:
    return [
        match.group()
        for match in _WORD.finditer(caption)
        if not any(match.start() < span.end and span.start < match.end() for span in spans)
    ]


def _in_order(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether `part` is `whole` with some elements left out."""
    rest = iter(whole)
    return all(word in rest for word in part)


def _is_closed(word: str) -> bool:
    return word.casefold() in _closed()


@functools.lru_cache(maxsize=1)
def _closed() -> frozenset[str]:
    lists = word_lists("words.txt")
    return frozenset(
        word for name, entries in lists.items() if name != "version" for word in entries
    )


def _apply(text: str, spans: Sequence[Span]) -> str:
    """Write each span's replacement, and close the gap where nothing is written."""
    out, position = "", 0
    for span in spans:
        out += text[position : span.start]
        position = span.end
        if span.replacement:
            out += span.replacement
        elif out[-1:].isalnum() and text[position : position + 1].isalnum():
            out += " "
        elif span.opens:
            position += _one_space(text, position)
        elif not out.strip():
            out, position = out.rstrip(), position + _spaces(text, position)
        elif position == len(text) or text[position].isspace() or not text[position].isalnum():
            out = out.rstrip()
    return out + text[position:]


def _one_space(text: str, position: int) -> int:
    return int(text[position : position + 1] in (" ", "\t"))


def _spaces(text: str, position: int) -> int:
    rest = text[position:]
    return len(rest) - len(rest.lstrip())


def _is_tokenised(caption: str) -> bool:
    """Whether punctuation stands apart, as in MMSD2.0; a caption without any follows its case."""
    if re.search(r"\w[.,!?](?=\s|$)", caption):
        return False
    return bool(_TOKENISED.search(caption)) or caption == caption.lower()


def _has_words(text: str) -> bool:
    return bool(re.search(r"\w", _PLACEHOLDER.sub(" ", text)))


# Lexical


@functools.lru_cache(maxsize=1)
def _markers() -> re.Pattern[str]:
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


def _lexical(caption: str) -> Iterator[Span]:
    for match in _markers().finditer(caption):
        start, end = match.span()
        before, after = caption[:start].rstrip(), caption[end:].lstrip()
        begins = not before or before[-1] in ".!?…"
        marks = _RUN.match(after)
        if before.endswith("(") and after.startswith(")"):
            start, end = len(before) - 1, len(caption) - len(after) + 1
        elif begins and after[:1] in (",", ":") and after[1:2] != ")":
            # "lol , that 's": the comma belonged to the marker.
            end = len(caption) - len(after) + 1
        elif begins and marks and not after[marks.end() :][:1].isalnum():
            # ". lol .": a sentence of its own goes with its full stop.
            end = len(caption) - len(after) + marks.end()
        elif (
            before.endswith(",") and not _has_words(after[:1]) and (not after or after[0] in ".!?")
        ):
            start = len(before) - 1
        yield Span(start, end, "marker", "")


def _inject_lexical(caption: str, rng: Random) -> Iterator[str]:
    markers = [
        marker.replace("{#}", "# " if _is_tokenised(caption) else "#")
        for marker in word_lists("lexical.txt")["inject"]
    ]
    rng.shuffle(markers)
    at_start = rng.random() < 0.5 and caption[:1].islower()
    body = caption.rstrip()
    tail = caption[len(body) :]
    for marker in markers:
        gap = " " if _is_tokenised(caption) else ""
        front = f"{marker}{gap}, {caption}" if " " in marker else f"{marker} {caption}"
        # A phrase needs a comma where no mark ends the caption.
        pause = f"{gap}," if " " in marker and body[-1:].isalnum() else ""
        back = f"{body}{pause} {marker}{tail}"
        if at_start and not marker.startswith("#"):
            yield from (front, back)
        else:
            yield from (back, front)


# Style


def _style(caption: str) -> Iterator[Span]:
    yield from _terminal_runs(caption)
    for match in _HASH.finditer(caption):
        yield Span(match.start(), match.end(), "hashtag", "", opens=True)
    yield from _scare_quotes(caption)
    for name, pattern in (("starred", _STARRED), ("underlined", _UNDERLINED)):
        for match in pattern.finditer(caption):
            yield Span(match.start(), match.end(), name, match[1])
    for match in _TILDE.finditer(caption):
        yield Span(match.start(), match.end(), "tilde", "")
    yield from _stretched_words(caption)
    yield from _shouted_words(caption)
    for match in _emoticons().finditer(caption):
        yield Span(match.start(), match.end(), "emoticon", "")
    for match in _EMOJI.finditer(caption):
        yield Span(match.start(), match.end(), "emoji", "")


def _terminal_runs(caption: str) -> Iterator[Span]:
    """Marks that end sentences, where they exclaim or repeat; plain ".", "?" are no cue."""
    for match in _RUN.finditer(caption):
        start, end = match.span()
        marks = re.sub(r"\s", "", match[0])
        exclaims, dots = "!" in marks, "." in marks or "…" in marks
        spaced_dots = set(marks) == {"."} and ".." not in match[0]
        if (
            not exclaims
            and "…" not in marks
            and (len(marks) < 2 or (spaced_dots and len(marks) < 3))
        ):
            continue
        before, after = caption[:start].rstrip(), caption[end:]
        inside = start > 0 and caption[start - 1].isalnum() and after[:1].isalnum()
        if inside and marks == "!":
            continue
        last = not _has_words(after)
        if not _has_words(before) or before[-1] in ",;:-(":
            mark = ""
        elif "?" in marks:
            mark = "?"
        elif last:
            mark = "." if dots else ""
        else:
            mark = "." if exclaims else ","
        if mark and inside:
            mark += " "
        if mark == match[0]:
            continue
        yield Span(start, end, "exclamation" if exclaims else "repeated_marks", mark)


def _scare_quotes(caption: str) -> Iterator[Span]:
    marks = [match.start() for match in _QUOTE.finditer(caption)]
    for left, right in zip(marks[::2], marks[1::2], strict=False):
        inside = caption[left + 1 : right]
        count = len(words(inside))
        if 0 < count <= MAX_QUOTED_WORDS and not re.search(r"[.!?…,]", inside):
            yield Span(left, left + 1, "scare_quotes", "", opens=True)
            yield Span(right, right + 1, "scare_quotes", "")


def _stretched_words(caption: str) -> Iterator[Span]:
    lists = word_lists("style.txt")
    for match in _LETTERS.finditer(caption):
        word = match[0]
        if not _STRETCHED.search(word) or word.lower() in lists["not_elongated"]:
            continue
        yield Span(match.start(), match.end(), "elongation", _unstretched(word, lists["doubled"]))


def _unstretched(word: str, doubled: Sequence[str]) -> str:
    """The word with its long runs cut to one letter, or to two where the list knows that word."""
    single = re.sub(r"([A-Za-z])\1{2,}", r"\1", word)
    double = re.sub(r"([A-Za-z])\1{2,}", r"\1\1", word)
    return double if double.lower() in doubled else single


def _shouted_words(caption: str) -> Iterator[Span]:
    if not re.search(r"[a-z]", _PLACEHOLDER.sub("", caption)):
        return
    lists = word_lists("style.txt")
    for match in _CAPITALS.finditer(caption):
        word = match[0]
        if word in lists["shouted"] or (len(word) >= 5 and word not in lists["acronyms"]):
            yield Span(match.start(), match.end(), "capitals", word.lower())


@functools.lru_cache(maxsize=1)
def _emoticons() -> re.Pattern[str]:
    entries = sorted(word_lists("style.txt")["emoticons"], key=len, reverse=True)
    return re.compile(rf"(?<!\S)(?:{'|'.join(map(re.escape, entries))})(?!\S)", re.IGNORECASE)


def _inject_style(caption: str, rng: Random) -> Iterator[str]:
    """An ending mark and one word set off, then either alone, in seeded order."""
    endings = list(_endings(caption, rng))
    for _ in range(3):
        ending = rng.choice(endings) if endings else caption
        yield _set_off(ending, caption, rng)
    yield from endings
    for _ in range(5):
        yield _set_off(caption, caption, rng)


def _endings(caption: str, rng: Random) -> Iterator[str]:
    core = re.sub(r"(?:\s|<\w+>)+$", "", caption)
    rest = caption[len(core) :]
    gap = " " if _is_tokenised(caption) else ""
    if core.endswith("?") and not core.endswith(("!?", "??")):
        yield f"{core}{gap}?{rest}"
        yield f"{core}{gap}!{rest}"
    elif core.endswith(".") and not core.endswith(".."):
        yield f"{core}..{rest}"
        yield f"{core}...{rest}"
    elif core[-1:].isalnum():
        marks = ["!", f"!{gap}!", f"!{gap}!{gap}!"]
        rng.shuffle(marks)
        for mark in marks:
            yield f"{core}{gap}{mark}{rest}"


def _set_off(text: str, caption: str, rng: Random) -> str:
    """One content word of the caption stretched, tagged, quoted or in capitals, inside `text`."""
    tokenised = _is_tokenised(caption)
    stretched = dict(entry.split() for entry in word_lists("style.txt")["elongated"])
    places = [m for m in _WORD.finditer(caption) if content_words(m[0]) and m[0].isalpha()]
    stretchable = [m for m in _WORD.finditer(caption) if m[0] in stretched]
    if stretchable and rng.random() < 0.5:
        place = rng.choice(stretchable)
        return text[: place.start()] + stretched[place[0]] + text[place.end() :]
    if not places:
        return text
    place = rng.choice(places)
    word = place[0]
    forms = [f"# {word}", f'" {word} "'] if tokenised else [f"#{word}", f'"{word}"']
    # Capitals are no emphasis where everything is in small letters anyway.
    if caption != caption.lower() and word == word.lower() and len(word) >= 5:
        forms.append(word.upper())
    return text[: place.start()] + rng.choice(forms) + text[place.end() :]


# OCR


@functools.lru_cache(maxsize=1)
def _overlay() -> re.Pattern[str]:
    lists = word_lists("ocr.txt")
    spaced = {
        name: "|".join(
            r"\s+".join(map(re.escape, phrase.split()))
            for phrase in sorted(lists[name], key=len, reverse=True)
        )
        for name in ("head", "tail")
    }
    return re.compile(
        rf"(?:^|(?<=[.!?…]))\s*(?P<head>(?:{spaced['head']})\s?:(?!\S*[)(]))"
        rf"|(?<![\w'’])(?P<tail>{spaced['tail']})(?![\w'’])",
        re.IGNORECASE,
    )


def _ocr(caption: str, picture_text: str | None) -> Iterator[Span]:
    for match in _overlay().finditer(caption):
        start, end = match.span("head" if match["head"] else "tail")
        before, after = caption[:start].rstrip(), caption[end:].lstrip()
        marks = _RUN.match(after)
        if match["tail"] and before.endswith("(") and after.startswith(")"):
            start, end = len(before) - 1, len(caption) - len(after) + 1
        elif match["tail"] and marks and (not before or before[-1] in ".!?…"):
            end = len(caption) - len(after) + marks.end()
        yield Span(start, end, "overlay_text", "")
    if picture_text:
        yield from _shared_words(caption, picture_text)


def shared_words(caption: str, picture_text: str) -> list[str]:
    r"""The content words of a caption that also stand on the picture, in the caption's order.

    >>> shared_words("a sign that says stop", "STOP\nALL WAY")
    ['stop']
    """
    on_picture = {word.casefold() for word in words(picture_text)}
    long = [word for word in on_picture if len(word) > MIN_PART_CHARS]

    def shared(word: str) -> bool:
        folded = word.casefold()
        if len(folded) < MIN_SHARED_CHARS:
            return False
        return folded in on_picture or (
            len(folded) >= MIN_PART_CHARS and any(folded in other for other in long)
        )

    return [word for word in content_words(caption) if shared(word)]


def _shared_words(caption: str, picture_text: str) -> Iterator[Span]:
    shared = set(shared_words(caption, picture_text))
    if not shared:
        return
    tokens = list(_WORD.finditer(caption))
    index = 0
    while index < len(tokens):
        if tokens[index][0] not in shared:
            index += 1
            continue
        first = last = index
        while last + 1 < len(tokens) and tokens[last + 1][0] in shared:
            if re.search(r"[.!?,;:]", caption[tokens[last].end() : tokens[last + 1].start()]):
                break
            last += 1
        yield _phrase_span(caption, tokens, first, last)
        index = last + 1


def _phrase_span(caption: str, tokens: list[re.Match[str]], first: int, last: int) -> Span:
    """A run of shared words with what would hang in the air without it.

    A following "'s" goes with the run. A hash or at sign before it goes. Articles, prepositions
    and conjunctions that lead up to it go where nothing follows that they could lead to.
    """
    lists = word_lists("words.txt")
    start, end = tokens[first].start(), tokens[last].end()
    if clitic := re.match(r"\s?['’](?:s|d|ll|re|ve|m)\b", caption[end:]):
        end += clitic.end()
    if sign := re.search(r"[#@]+\s?$", caption[:start]):
        start = sign.start()
    following = re.match(r"\s*(<\w+>|[\w]+|$|[^\w\s])", caption[end:])
    after = following[1].casefold() if following else ""
    closed = ("prepositions", "conjunctions", "determiners", "subjects", "auxiliaries")
    leads_nowhere = not after[:1].isalnum() or any(after in lists[group] for group in closed)
    index = first - 1
    if leads_nowhere:
        for group in ("determiners", "prepositions", "conjunctions"):
            if (
                index >= 0
                and tokens[index][0].casefold() in lists[group]
                and not caption[tokens[index].end() : start].strip()
            ):
                start = tokens[index].start()
                index -= 1
    return Span(start, end, "shared_word", "")


def _inject_ocr(caption: str, rng: Random) -> Iterator[str]:
    lists = word_lists("ocr.txt")
    gap = " " if _is_tokenised(caption) else ""
    body = caption.rstrip()
    rest = caption[len(body) :]
    heads = [f"{phrase}{gap}: {caption}" for phrase in lists["head"]]
    # A button's text stands in brackets where no mark ends the caption.
    left, right = (f"({gap}", f"{gap})") if body[-1:].isalnum() else ("", "")
    tails = [f"{body} {left}{phrase}{right}{rest}" for phrase in lists["tail"]]
    if caption[:1].isupper():
        heads = [f"{head[:1].upper()}{head[1:]}" for head in heads]
    candidates = heads + tails
    rng.shuffle(candidates)
    yield from candidates


_INJECTIONS: dict[str, Callable[[str, Random], Iterator[str]]] = {
    "lexical": _inject_lexical,
    "style": _inject_style,
    "ocr": _inject_ocr,
}
