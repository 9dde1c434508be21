"""What an answer to a CLASH question says: the picture's answer, the caption's, or a conflict.

The official flags of the release are reproduced as they are: independent of one another, and
sometimes several at once. Beside them every answer gets exactly one outcome, so that rates can add
up to one. Whatever a model wrote may reach this module (null, a list, a megabyte of brackets); it
must never raise on it, and its time must stay linear in the length of the answer.

Source: the scoring of "CLASH: A Benchmark for Cross-Modal Contradiction Detection"
(arXiv 2511.19199), checked flag by flag against the predictions that its authors released.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import islice
from typing import Any, NamedTuple

from postprocess.response.folding import blank_thoughts
from postprocess.response.line import is_failed

ROLES = ("image", "text", "distractor", "conflict")
"""What an option stands for: the picture's answer, the caption's, neither, or the conflict."""

LETTERS = "ABCD"
"""The letters an option can have."""

OPEN_OUTCOMES = ("failed", "empty", "conflict", "both", "image", "text", "none")
"""What an open answer can come to, the first that holds."""

CHOICE_OUTCOMES = ("failed", "empty", "conflict", "image", "text", "distractor", "unusable")
"""What a multiple-choice answer can come to."""

JUDGE_LABELS = {"IMAGE": "image", "TEXT": "text", "CONFLICT": "conflict", "NONE": "none"}
"""The labels a judge may give, and the outcome each one names."""

MAX_STEM_CHARS = 100
"""Longer tokens are compared unstemmed: no word is that long, and stemming stays cheap."""

_SHORT = 200
"""Texts up to this length are remembered with their normal form: answers and terse predictions."""

_ARTICLES = frozenset(("the", "a", "an"))
_REPLACED = {
    "0": "zero",
    "1": "one",
    "2": "two",
    "3": "three",
    "4": "four",
    "5": "five",
    "6": "six",
    "7": "seven",
    "8": "eight",
    "9": "nine",
    "10": "ten",
    "wooden": "wood",
    "golden": "gold",
    "sandy": "sand",
    "brightly": "bright",
}
_CONFLICT_WORDS = ("conflict", "contradict")  # their own stems
_ORDER_CODES = {"i": "image", "t": "text", "d": "distractor", "c": "conflict"}

_TOKEN = re.compile(r"\w+")
_BRACKETED = re.compile(r"\(([A-D])\)")
_MARKED = re.compile(r"(?<!\w)([A-D])[).:]")
_STATED = re.compile(
    r"(?<!not )(?<!not the )"
    r"\b(?:(?:answer|option|choice|letter)(?: is)?|choose|pick|select|go with)"
    r":?[ \W]{1,4}(?:option )?(?:([B-D])\b|(A)(?=\W*\Z|[^\w\s]))",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(
    r"\b(?:because|since|given that|whereas|rather than|instead of|even though|although)\b",
    re.IGNORECASE,
)
"""What follows explains the choice, and may name the options that were not chosen."""
_REJECTED = re.compile(
    r"(?<![\w(])\(?[A-D]\)?(?: (?:is|was|would be) (?:wrong|incorrect|false|not)\b)"
)
_MENTIONED = re.compile(r"(?<![\w'’-])[B-D](?![\w'’-])")
_PLAIN = re.compile(r" +\w")
_TOKEN_TAG = re.compile(r"<[|/]?[A-Za-z_]{1,20}[|/]?>")
_LEAD_IN = frozenset(
    (
        *("the", "my", "correct", "final", "right", "best", "answer", "option", "choice"),
        *("letter", "is", "it", "it's", "would", "be", "i", "i'd", "i'll", "choose", "pick"),
        *("select", "go", "with", "boxed", "text", "so", "therefore", "sure"),
    )
)
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_MAX_LEAD = 12
"""Words that may introduce a letter, itself included."""
_ENDS_LETTER = frozenset(').:,;]}*_`"!>')
"""Right behind a letter these show that it is no article and no part of a word."""
_DASHES = frozenset("-–—=:(|→")
_AFTER_A = frozenset(("is", "because", "since"))
"""Words that no article stands before: "A is right"."""
_NEAR_DENIALS = frozenset(("no", "without", "neither", "nor"))
_DENIALS = frozenset(("not", "never", "cannot"))
_LABEL_WORD = re.compile(r"(?<!\w)(IMAGE|TEXT|CONFLICT|NONE)(?!\w)")


class OpenOutcome(NamedTuple):
    """What an open answer says: the four official flags, and one outcome."""

    conflict: bool
    """The answer speaks of a conflict or of contradicting."""
    image: bool
    """The picture's answer stands in it."""
    text: bool
    """The caption's answer stands in it."""
    none: bool
    """Nothing of the three does."""
    outcome: str
    """One of `OPEN_OUTCOMES`."""
    overlap: bool
    """More than one of the flags holds."""


class ChoiceOutcome(NamedTuple):
    """What a multiple-choice answer says: the official flags, the letter, and one outcome."""

    conflict: bool
    image: bool
    text: bool
    distractor: bool
    unusable: bool
    """No single letter of an option can be read; also of an empty or failed answer."""
    letter: str | None
    outcome: str
    """One of `CHOICE_OUTCOMES`."""
    overlap: bool
    """Always False: an option has one role. Kept so that both outcomes read alike."""


def prediction_text(prediction: Any) -> str:
    """The words of a prediction, whatever a file holds in its place.

    A list counts by its first element, in both forms of the task. A number is its digits. Null, an
    empty list, a mapping and a truth value say nothing.

    >>> prediction_text(["(A)", "(B)"]), prediction_text(2), prediction_text(None)
    ('(A)', '2', '')
    """
    while isinstance(prediction, list | tuple):
        if not prediction:
            return ""
        prediction = prediction[0]
    if isinstance(prediction, str):
        return prediction
    if isinstance(prediction, int | float) and not isinstance(prediction, bool):
        try:
            return str(prediction)
        except ValueError:  # an integer beyond Python's limit for printing
            return ""
    return ""


def normalise(text: str) -> str:
    """The form in which answers are compared: lower case, no articles, Porter stems.

    Tokens are runs of word characters; digits 0 to 10 become words and four adjectives their nouns
    before stemming, as in the release; stems are joined with spaces.

    >>> normalise("The 2 wooden tables!")
    'two wood tabl'
    """
    return _normalise_short(text) if len(text) <= _SHORT else _normalise(text)


def contains(text: str, answer: str) -> bool:
    """Whether an answer stands in a text, both normalised, between word boundaries.

    An answer of no words (or of articles only) stands nowhere.

    >>> contains("two dog run", "dog"), contains("hotdog", "dog"), contains("dog", "")
    (True, False, False)
    """
    return bool(answer) and f" {answer} " in f" {text} "


def open_outcome(prediction: Any, image_answer: Any, text_answer: Any) -> OpenOutcome:
    """Read an open answer by the release's relaxed matching.

    Args:
        prediction: The model's words, without a response line; see `prediction_text` for the rest.
        image_answer: The answer that the picture gives.
        text_answer: The answer that the caption gives.

    Returns:
        Flags that may overlap, and the outcome `failed > empty > conflict > both > image > text >
        none`. An empty answer has the flag `none`, as in the release, and so has the text of a
        failed request, in which nothing is looked for.

    >>> open_outcome("Conflicting information: a kite or 2 balloons", "Kite", "Two balloons")
    OpenOutcome(conflict=True, image=True, text=True, none=False, outcome='conflict', overlap=True)
    >>> open_outcome("That is contradictory", "kite", "balloon").outcome
    'none'
    """
    words = prediction_text(prediction)
    if is_failed(words):
        return OpenOutcome(False, False, False, True, "failed", False)
    if not words.strip():
        return OpenOutcome(False, False, False, True, "empty", False)
    image_form = normalise(prediction_text(image_answer))
    text_form = normalise(prediction_text(text_answer))
    found = normalise(words)
    conflict = any(contains(found, word) for word in _CONFLICT_WORDS)
    image = contains(found, image_form)
    text = contains(found, text_form)
    if conflict:
        outcome = "conflict"
    elif image and text:
        outcome = "both"
    else:
        outcome = "image" if image else "text" if text else "none"
    none = not (conflict or image or text)
    return OpenOutcome(conflict, image, text, none, outcome, conflict + image + text > 1)


def choice_outcome(
    prediction: Any,
    letters: Mapping[str, str],
    *,
    relaxed: bool = False,
    options: Mapping[str, str] | None = None,
) -> ChoiceOutcome:
    """Read a multiple-choice answer.

    Strict (the release's rule): exactly one distinct letter in the form `(A)` to `(D)` is the
    answer, however often it is repeated; none or several is unusable, and so are `B`, `b`, `(b)`
    and `B)`. Relaxed (a second view, not in the paper): a thought in tags is no part of the
    answer, nor is what explains it where a letter stands before ("B because (A) is wrong") or a
    letter that is called wrong; where no letter stands in brackets, a bare letter that the answer
    consists of, begins with (`B)`, `**D**`, `I choose D.`, `D` on a line of its own) or names
    (`the answer is B`); else the text of exactly one option as whole words, unless it is denied
    (`not red`). The article "a" is no letter.

    Args:
        prediction: The model's words, without a response line; see `prediction_text` for the rest.
        letters: Role to letter, such as `{"image": "B", "text": "C", "distractor": "D",
            "conflict": "A"}`.
        relaxed: Read by the relaxed rule.
        options: Role to the option's text, as shown; needed for the relaxed rule.

    Returns:
        Flags of which exactly one holds, the letter, and the outcome.

    Raises:
        ValueError: `letters` is no mapping of roles to distinct letters, or `relaxed` without
            `options`. Never because of the prediction.

    >>> letters = {"image": "B", "text": "C", "distractor": "D", "conflict": "A"}
    >>> choice_outcome("(A), definitely (A)", letters).outcome
    'conflict'
    >>> choice_outcome("B", letters).outcome
    'unusable'
    >>> options = {"image": "Kite", "text": "Balloon", "distractor": "Pinwheel"}
    >>> choice_outcome("It is a balloon.", letters, relaxed=True, options=options).letter
    'C'
    """
    roles = _roles(letters)
    if relaxed and options is None:
        raise ValueError("the relaxed reading needs the options' texts")
    words = prediction_text(prediction)
    if is_failed(words):
        return _choice(None, None, "failed")
    if not words.strip():
        return _choice(None, None, "empty")
    bracketed = set(_BRACKETED.findall(words))
    letter = bracketed.pop() if len(bracketed) == 1 else None
    if relaxed:
        letter = _relaxed_letter(words, letters, options or {}) or letter
    return _choice(letter, roles.get(letter or ""), "unusable")


def letters_of(option_order: str) -> dict[str, str]:
    """Role to letter from an option order: what A, B, C, D stand for, as `i`, `t`, `d`, `c`.

    Raises:
        ValueError: The order is no permutation of the four codes.

    >>> letters_of("tcid")
    {'text': 'A', 'conflict': 'B', 'image': 'C', 'distractor': 'D'}
    """
    if not isinstance(option_order, str) or sorted(option_order) != sorted(_ORDER_CODES):
        raise ValueError(f"option order {option_order!r:.40} is no permutation of 'itdc'")
    return {_ORDER_CODES[code]: letter for code, letter in zip(option_order, LETTERS, strict=True)}


def order_of(letters: Mapping[str, str]) -> str:
    """The option order of a complete mapping of roles to letters; the inverse of `letters_of`.

    >>> order_of({"text": "A", "conflict": "B", "image": "C", "distractor": "D"})
    'tcid'
    """
    roles = _roles(letters)
    codes = {role: code for code, role in _ORDER_CODES.items()}
    return "".join(codes[roles[letter]] for letter in sorted(roles))


def judge_label(text: Any, *, relaxed: bool = False) -> str | None:
    """A judge's label: IMAGE, TEXT, CONFLICT or NONE, or None where it gave none of them.

    Strict (the release's rule): the answer is the label and nothing else, in any case, spaces
    around it apart. Relaxed: the last line that is not blank names exactly one label, in capitals,
    such as `Label: **TEXT**`. No label is never the label NONE.

    >>> judge_label(" conflict "), judge_label("**IMAGE**"), judge_label("**IMAGE**", relaxed=True)
    ('CONFLICT', None, 'IMAGE')
    """
    words = prediction_text(text).strip()
    if len(words) <= _SHORT and words.upper() in JUDGE_LABELS:
        return words.upper()
    if not relaxed or is_failed(words):
        return None
    named = set(_LABEL_WORD.findall(words.rpartition("\n")[2]))
    return named.pop() if len(named) == 1 else None


def _choice(letter: str | None, role: str | None, otherwise: str) -> ChoiceOutcome:
    flags = (role == "conflict", role == "image", role == "text", role == "distractor")
    return ChoiceOutcome(*flags, role is None, letter, role or otherwise, False)


def _roles(letters: Mapping[str, str]) -> dict[str, str]:
    """Letter to role."""
    roles = {letter: role for role, letter in letters.items()}
    fine = len(roles) == len(letters) and all(
        role in ROLES and letter in tuple(LETTERS) for letter, role in roles.items()
    )
    if not fine or not roles:
        raise ValueError(f"letters must map roles to distinct letters A to D, not {dict(letters)}")
    return roles


def _relaxed_letter(
    words: str, letters: Mapping[str, str], options: Mapping[str, str]
) -> str | None:
    visible = _TOKEN_TAG.sub("\n", blank_thoughts(words)).strip()
    visible = _REJECTED.sub(" ", visible)
    chosen = _EXPLAINED.split(visible, maxsplit=1)[0]
    for text in dict.fromkeys((chosen, visible)):
        bracketed = set(_BRACKETED.findall(text))
        letter = _bare_letter(text) if not bracketed else None
        if letter or bracketed:
            return letter or (bracketed.pop() if len(bracketed) == 1 else None)
    return _option_letter(visible, letters, options)


def _bare_letter(text: str) -> str | None:
    """The letter that an answer begins with or names, None where it begins with or names two."""
    flat = " ".join(text.split())
    marked: set[str] = set(_MARKED.findall(flat))
    leading = _leading_letters(text)
    if leading:
        marked |= leading
        return marked.pop() if len(marked) == 1 else None
    stated: set[str] = {(one or other).upper() for one, other in _STATED.findall(flat)}
    return stated.pop() if len(stated) == 1 else None


def _leading_letters(text: str) -> set[str]:
    """The letter behind an answer's first words ("I choose ..."), with those joined to it."""
    found: set[str] = set()
    for word in islice(_WORD.finditer(text), _MAX_LEAD):
        if _is_letter(word, text):
            found.add(word.group().upper())
            if _PLAIN.match(text, word.end()):
                # "B is dark blue and C is blue" chooses neither.
                found.update(_MENTIONED.findall(text))
            continue
        said = word.group().lower()
        if said not in ("or", "and") and (found or said not in _LEAD_IN):
            break
    return found


def _is_letter(word: re.Match[str], text: str) -> bool:
    """Whether a word is an option's letter rather than an article or a part of a word."""
    letter = word.group()
    if len(letter) != 1 or letter.upper() not in tuple(LETTERS):
        return False
    behind = text[word.end() : word.end() + 40]
    if not behind.strip(" *_`~\"'.)\n") or behind.lstrip(" ")[:1] == "\n":
        return True
    if behind[0] in _ENDS_LETTER:
        return behind[0] != "." or not behind[1:2].isalnum()
    if behind[0] != " " or not letter.isupper():
        return False
    after = behind.split(maxsplit=1)[0]
    return letter != "A" or after[0] in _DASHES or after.lower() in _AFTER_A


def _option_letter(
    words: str, letters: Mapping[str, str], options: Mapping[str, str]
) -> str | None:
    """The letter of the only option whose text stands in the answer, and is not denied there.

    Longer options are looked for first and taken out: "dark red" is not "red" as well.
    """
    text = f" {normalise(words)} "
    wanted = {
        role: normalise(prediction_text(option))
        for role, option in options.items()
        if role in letters
    }
    found = []
    for role in sorted(wanted, key=lambda role: -len(wanted[role])):
        answer = wanted[role]
        if contains(text, answer):
            if _denied(text, answer):
                return None
            found.append(letters[role])
            for _ in range(2):  # neighbours share a space, so one pass may skip every other
                text = text.replace(f" {answer} ", " \n ")
    return found[0] if len(found) == 1 else None


def _denied(text: str, answer: str) -> bool:
    """Whether a negator stands right before the first place of an answer: "is not really red"."""
    before = text[: text.index(f" {answer} ")][-40:].split()
    # "isn't" falls apart into "isn" and "t".
    near = any(word in _DENIALS or word == "t" for word in before[-2:])
    return near or not _NEAR_DENIALS.isdisjoint(before[-1:])


def _normalise(text: str) -> str:
    return " ".join(
        [_stem(token) for token in _TOKEN.findall(text.lower()) if token not in _ARTICLES]
    )


_normalise_short = lru_cache(maxsize=2**14)(_normalise)


def _stem(token: str) -> str:
    return _cached_stem(token) if len(token) <= MAX_STEM_CHARS else token


@lru_cache(maxsize=2**16)
def _cached_stem(token: str) -> str:
    stem: str = _stemmer().stem(_REPLACED.get(token, token))
    return stem


@cache
def _stemmer() -> Any:
    # Importing NLTK takes a second, and most commands never match an open answer.
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()
