"""Reading a verdict, Yes (sarcastic) or No, out of a model's answer.

Two readings. A *zero-shot* answer gives its verdict at once, or in a sentence that plainly decides;
where it says both, and does not label one as the answer, it has none. A *chain of thought* argues
first: its last stated verdict counts, and what it says on the way does not. The reader must never
take for a verdict what the sentence does not use as one ("notice", "no dog", "Yes or No", a quoted
caption, "if it were sarcastic"): an answer left unread is counted and shown, an answer read wrongly
is not.

Each sentence yields *findings*, stated words or deciding sentences, with a rank; the prompt decides
which of them counts. Words are in `verdict_words`, folding and sentences in `verdict_text`. Every
look around a word is bounded, so the time grows with the length and no faster.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from postprocess.read import verdict_words as vocabulary
from postprocess.read.verdict_text import (
    SOFT,
    Sentence,
    first_turn,
    fold,
    sentence_at,
    spans,
    stands_alone,
    telling,
)

PROMPTS = ("zero_shot", "cot")

_LOOK = 24
"""How many words a look to the left takes in."""


_MAX_TURNS = 3
"""How often adjoining sentences may state the other verdict before none of them counts."""


class Verdict(NamedTuple):
    """A verdict and the words that state it."""

    value: Literal[0, 1]
    """1 for Yes (sarcastic), 0 for No."""
    start: int
    """Offset in the answer of the deciding words' first character."""
    end: int
    """Offset behind their last character."""
    by: Literal["word", "sentence"]
    """`word`: a yes or no (or true, false after a label); `sentence`: such as "not sarcastic".

    Only at a word does the probability of Yes against No mean anything.
    """


def is_cot(prompt: str) -> bool:
    """Whether a prompt asks for a chain of thought; `zero_shot_b` is a form of `zero_shot`.

    Raises:
        ValueError: The name is neither a known prompt nor begins with one and an underscore.

    >>> is_cot("zero_shot_b"), is_cot("cot")
    (False, True)
    """
    for known in PROMPTS:
        if prompt == known or prompt.startswith(f"{known}_"):
            return known == "cot"
    raise ValueError(f"prompt {prompt!r}: know {', '.join(PROMPTS)} and their forms")


def read_verdict(text: str | None, prompt: str = "zero_shot") -> Literal[0, 1] | None:
    r"""The verdict that an answer states: 1 for Yes, 0 for No, None for none.

    Any string is read, whatever it holds, in time linear in its length.

    Args:
        text: The model's words, without a response line; None reads as empty.
        prompt: `zero_shot` or `cot`, or a form of one (`zero_shot_b`).

    Raises:
        ValueError: Unknown prompt.

    >>> read_verdict("**No**"), read_verdict("Yes, but it is not sarcastic.")
    (0, None)
    >>> read_verdict("No dog is seen, so the words mean the opposite.\nVerdict: Yes", "cot")
    1
    """
    found = find_verdict(text, prompt)
    return None if found is None else found.value


def verdict_span(text: str | None, prompt: str = "zero_shot") -> tuple[int, int] | None:
    """Where the deciding words stand in the answer, or None without a verdict.

    The span covers the yes or no and nothing around it. In a verdict by sentence it covers the
    deciding words ("not sarcastic"), where no token says Yes or No: `find_verdict` tells which.

    >>> verdict_span("Verdict: **No**", "cot")
    (11, 13)
    """
    found = find_verdict(text, prompt)
    return None if found is None else (found.start, found.end)


def find_verdict(text: str | None, prompt: str = "zero_shot") -> Verdict | None:
    """The verdict with its place and kind; `read_verdict` and `verdict_span` are parts of it.

    Raises:
        ValueError: Unknown prompt.

    >>> find_verdict("This caption isn't sarcastic.")
    Verdict(value=0, start=13, end=28, by='sentence')
    """
    text = text or ""
    if is_cot(prompt):
        return _verdict(_decide_cot(list(_findings(fold(text), cot=True))))
    turn = first_turn(text)
    # A base model goes on with the next exercise; its first answer is the one asked for.
    found = None if turn is None else _direct_verdict(text[:turn])
    return found or _direct_verdict(text)


def _direct_verdict(text: str) -> Verdict | None:
    return _verdict(_decide_zero_shot(list(_findings(fold(text), cot=False))))


def _verdict(found: _Finding | None) -> Verdict | None:
    if found is None or found.value is None:
        return None
    return Verdict(found.value, found.start, found.end, found.by)


class _Finding(NamedTuple):
    """Something in the answer that states, withholds or merely echoes a verdict."""

    rank: int
    """1 labelled, or said to take a stated verdict back; 2 concluded; 3 said; 4 said to begin with.

    In a zero-shot answer the yes or no that opens a sentence has rank 3.
    """
    value: Literal[0, 1] | None
    start: int
    end: int
    by: Literal["word", "sentence"]
    echo: bool = False
    """Whether it is "Yes or No", the question's own options."""
    sentence: int = -1
    """Which sentence of the answer it stands in."""


def _decide_zero_shot(findings: Sequence[_Finding]) -> _Finding | None:
    """The one verdict that the findings agree on, if they do.

    A labelled or concluded verdict outweighs sentences before it; nothing outweighs a denial that
    follows ("Yes, but it is not sarcastic").
    """
    findings = [finding for finding in findings if not finding.echo]
    stated = [f for f in findings if f.by == "word" or f.rank <= 2]
    if any(finding.value is None for finding in stated):
        return None
    if not stated:
        stated = findings
    if not stated or any(finding.value != stated[0].value for finding in stated):
        return None
    settles = any(finding.rank <= 2 for finding in stated)
    for finding in findings:
        against = finding.value != stated[0].value
        if against and not (settles and finding.start < stated[-1].start):
            return None
    return stated[0]


def _decide_cot(findings: Sequence[_Finding]) -> _Finding | None:
    """The last finding of the best rank; withheld, or asked once more behind it, there is none.

    Nor is there one where the answer only goes back and forth between the two (`_loops`).
    """
    ranked = [finding for finding in findings if not finding.echo]
    if not ranked:
        return None
    best = min(finding.rank for finding in ranked)
    stated = [finding for finding in ranked if finding.rank == best]
    last = stated[-1]
    if best == 1 and _loops(stated):
        return None
    if best > 1 and any(finding.echo and finding.start > last.start for finding in findings):
        return None
    return last


def _loops(stated: Sequence[_Finding]) -> bool:
    """Whether one verdict follows the other, sentence on sentence, three times or more.

    A model that thinks again between two verdicts has changed its mind; one that does not is
    repeating itself.
    """
    turns = sum(
        one.value != other.value and other.sentence - one.sentence == 1
        for one, other in pairwise(stated)
    )
    return turns >= _MAX_TURNS


def _findings(text: str, cot: bool) -> Iterator[_Finding]:
    """All findings of a folded text, in its order."""
    found = spans(text)
    announced_at = -1
    stated = False
    read: tuple[int, Sentence | None] = (-1, None)
    for number in telling(text, found):
        before = read[1]
        if read[0] != number - 1:
            before = sentence_at(text, found[number - 1])
        sentence = sentence_at(text, found[number])
        read = (number, sentence)
        last = number == len(found) - 1
        scan = _Scan(sentence, announced_at == number, last)
        takes_back = _takes_back(sentence.words[:4])
        findings = [] if sentence.asks else scan.findings()
        opening = None if sentence.asks or _answers_other(before) else scan.opening()
        if opening is not None and all(f.start != sentence.spans[opening][0] for f in findings):
            bare = all(
                i == opening or w in vocabulary.BARE or vocabulary.SARCASM.match(w)
                for i, w in enumerate(sentence.words[:_LOOK])
            )
            rank = 4 if number == 0 else None
            if not cot:
                rank = 3
            elif last or bare or (before is not None and before.asks):
                rank = 2
            if rank is not None:
                findings.append(scan.word(opening, rank))
                findings.sort(key=_start)
        retracts = takes_back and stated
        if cot and not retracts:
            findings = _uncontradicted(findings)
        for finding in findings:
            finding = finding._replace(sentence=number)
            if retracts:
                yield finding._replace(rank=1)
            elif not cot or finding.rank != 3 or number >= len(found) - 2:
                stated = stated or finding.rank == 1
                yield finding
        for i in sorted(sentence.options)[:1]:
            yield _Finding(2, None, *sentence.spans[i], "word", echo=True)
        if scan.announces_next():
            announced_at = number + 1


def _uncontradicted(findings: Sequence[_Finding]) -> list[_Finding]:
    """One sentence's findings, a concluded yes or no withheld where a claim behind it differs.

    "Yes, but that alone isn't sarcasm" says yes to something else.
    """
    claims = [finding for finding in findings if finding.by == "sentence"]
    return [
        finding._replace(value=None)
        if finding.by == "word"
        and finding.rank == 2
        and any(claim.start > finding.start and claim.value != finding.value for claim in claims)
        else finding
        for finding in findings
    ]


def _takes_back(words: Sequence[str]) -> bool:
    """Whether a sentence that begins with these words takes back what was stated before."""
    some, *phrases = vocabulary.RETRACTIONS
    return not some.isdisjoint(words[:2]) or any(phrase.issubset(words) for phrase in phrases)


def _start(finding: _Finding) -> int:
    return finding.start


def _answers_other(before: Sentence | None) -> bool:
    """Whether the sentence before asks, or announces, something else than sarcasm."""
    if before is None or any(vocabulary.SARCASM.match(word) for word in before.words[-_LOOK:]):
        return False
    if before.asks:
        return not before.options
    return ":" in before.gaps[-1] and vocabulary.LABELS.isdisjoint(before.words[-4:])


class _Scan:
    """One look over one sentence for all it says about the verdict."""

    def __init__(self, sentence: Sentence, announced: bool, last: bool) -> None:
        self.sentence = sentence
        self.words, self.gaps, self.polar = sentence.words, sentence.gaps, sentence.polar
        self.announced = announced
        self.last = last
        self.conditions = [i for i, w in enumerate(self.words) if self._opens_condition(i, w)]
        self.refuses = self._has_refusal()
        self.regions = [0] if announced else []
        """First words behind a label, in order."""
        self.named: dict[int, int] = {}
        """For "sarcastic: no": the word after the colon, by the place of "sarcastic"."""
        self.rated: dict[int, tuple[int | None, int]] = {}
        """For "sarcasm: none" and "sarcasm: low": value and place of the word after the colon."""
        for i, word in enumerate(self.words):
            self._read_label(i, word)

    def word(self, i: int, rank: int, value: int | None = None) -> _Finding:
        """The finding of a stated word."""
        polarity = self.polar[i] if value is None else value
        return _Finding(rank, 1 if polarity else 0, *self.sentence.spans[i], "word")

    def findings(self) -> list[_Finding]:
        """All but the yes or no that opens the sentence, in order, contradictions withheld."""
        found = {f.start: f for f in (*self._statements(), *self._concluded(), *self._labelled())}
        ordered = sorted(found.values(), key=_start)
        labelled = {f.value for f in ordered if f.rank == 1}
        one = len(self.regions) == 1
        if one and len(labelled) > 1 and not _takes_back(self.words):
            # "Verdict: Yes, but it is not sarcastic" states nothing.
            return [f._replace(value=None) if f.rank == 1 else f for f in ordered]
        return ordered

    def opening(self, start: int = 0) -> int | None:
        """The yes or no that opens the sentence, or the part of it that begins at word `start`."""
        for i in range(start, min(len(self.words), start + 10)):
            if self.polar[i] is not None:
                rest = self.words[i + 1 :] if len(self.words) - i < 4 else None
                doubted = bool(rest) and vocabulary.DOUBTS.issuperset(rest or ())
                good = stands_alone(self.sentence, i) and not self.refuses and not doubted
                return i if good and not self._conditional(i) else None
            if i in self.sentence.options:
                continue
            word = self.words[i]
            if word not in vocabulary.OPENERS and not self._enumerates(i):
                return None
            if word in vocabulary.SAYING and vocabulary.FIRST_PERSON.isdisjoint(
                self.words[start:i]
            ):
                # "Say yes" asks for it.
                return None
        return None

    def announces_next(self) -> bool:
        """Whether the sentence ends in a label, so that the next one is the answer."""
        short = len(self.words) <= 4
        return self.words[-1] in vocabulary.LABELS and (short or ":" in self.gaps[-1])

    # Labels.

    def _read_label(self, i: int, word: str) -> None:
        """Note what a label at word i announces."""
        names_sarcasm = bool(vocabulary.SARCASM.match(word))
        if not names_sarcasm and word not in vocabulary.LABELS and not (word == "a" and i == 0):
            return
        at = i + 1
        if names_sarcasm:
            while at <= i + 2 and self.words[at : at + 1] and self.words[at] in vocabulary.NAMED:
                at += 1
        while at < len(self.words) and at in self.sentence.options:
            at += 1
        if at >= len(self.words):
            return
        gap = self.gaps[at]
        separated = any(mark in gap for mark in ":=—-|{") and gap != "-"
        if names_sarcasm:
            denied = i > 0 and self.words[i - 1] in ("non", "not")
            if (separated or gap == "-") and not vocabulary.NEGATED_FORM.match(word) and not denied:
                opening = self.opening(at)
                if opening is None and self.words[at] in vocabulary.TRUTH:
                    opening = at
                if opening is not None:
                    self.named[i] = opening
                elif separated:
                    self._read_rating(i, at)
        elif self._spoken_of(i):
            return
        elif word == "a":
            if ":" in gap:
                self.regions.append(at)
        elif separated or gap == "-":
            self.regions.append(at)
        elif at == i + 1 and not set(gap) - set(" *_`~\"'"):
            behind = self._behind_copula(at)
            if behind is not None:
                self.regions.append(behind)
            elif word == "verdict" and self.polar[at] is not None:
                self.regions.append(at)

    def _read_rating(self, i: int, at: int) -> None:
        """Note what stands behind "sarcasm:" at word i where it is neither yes nor no.

        A word of absence or presence decides. Anything else leaves it open ("low"), except what
        explains a "sarcastic" that is itself the answer.
        """
        words = self.words
        before = words[self._clause_start(i) : i]
        if self.gaps[i] != "_" and any(_claims(word) or _denies(word) for word in before):
            return
        alone = at + 1 == len(words) or bool(self.gaps[at + 1].strip(SOFT))
        value: int | None = None
        following = words[at + 1] if at + 1 < len(words) else ""
        if words[at] in vocabulary.ABSENT:
            # "none/low" and "0/1" are the options, "0/10" is a degree.
            listed = "/" in self.gaps[at + 1] and not (following.isdigit() and following != "1")
            value = 0 if (alone and not listed) or following in vocabulary.PRESENT else None
        elif words[at] == "not" and words[at + 1 : at + 2]:
            at += 1
            denied = words[at] in vocabulary.PRESENT or words[at : at + 2] == ["at", "all"]
            value = 0 if denied else None
        elif (alone and words[at] in vocabulary.PRESENT) or (
            # A flag; "sarcasm: 1" may be a degree.
            (words[i], words[at:]) == ("sarcastic", ["1"])
        ):
            value = 1
        elif words[at] in vocabulary.EXPLAINING and (
            words[i] != "sarcasm" or words[at - 1] in vocabulary.PARTICIPLES
        ):
            return
        self.rated[i] = value, at

    def _spoken_of(self, i: int) -> bool:
        """Whether the sentence speaks about the verdict at label i, and does not give it."""
        start = max(self._clause_start(i), i - 8)
        before = self.words[start:i]
        weighs = any(pair == ("whether", "to") for pair in pairwise(before))
        return weighs or not vocabulary.SPOKEN_OF.isdisjoint(before[-3:])

    def _behind_copula(self, at: int) -> int | None:
        """The word behind "is", "would be" and the like at word `at`, if they stand there."""
        if self.words[at] in ("would", "should", "must", "will"):
            at += 1
        if at + 1 < len(self.words) and self.words[at] in ("is", "be", "was", "remains"):
            return at + 1
        return None

    def _labelled(self) -> Iterator[_Finding]:
        """What stands behind labels."""
        for i in self.named.values():
            yield self.word(i, 1, vocabulary.TRUTH.get(self.words[i]))
        for i, (value, at) in self.rated.items():
            if value is not None:
                start, end = self.sentence.spans[i][0], self.sentence.spans[at][1]
                yield _Finding(1, 1 if value else 0, start, end, "sentence")
        for at in self.regions:
            opening = self.opening(at)
            if opening is not None:
                yield self.word(opening, 1)
            elif self.words[at] in vocabulary.TRUTH and (
                at + 1 == len(self.words) or self.gaps[at + 1].strip(SOFT)
            ):
                yield self.word(at, 1, vocabulary.TRUTH[self.words[at]])
            elif not vocabulary.UNDECIDED.isdisjoint(self.words[at : at + 4]) or self.refuses:
                yield _Finding(1, None, *self.sentence.spans[at], "word")

    def _in_region(self, i: int) -> bool:
        """Whether word i stands behind a label."""
        return bool(self.regions) and i >= self.regions[0]

    # A yes or no within the sentence.

    def _concluded(self) -> Iterator[_Finding]:
        """Each yes or no that a conclusion or the sentence's end puts forward."""
        for i, value in enumerate(self.polar):
            if value is None or not stands_alone(self.sentence, i) or self._conditional(i):
                continue
            behind = self.gaps[i + 1].strip(SOFT)
            if (
                not behind
                and self.words[i + 1 : i + 2]
                and (self.words[i + 1] not in vocabulary.CLAUSE_STARTERS)
            ):
                # "We say yes to summer"
                continue
            rank = self._conclusion_rank(i)
            if rank is not None:
                yield self.word(i, rank)

    def _conclusion_rank(self, i: int) -> int | None:
        words = self.words
        at = i - 1
        while at >= 0 and i - at <= 4 and words[at] in vocabulary.ADVERBS:
            if words[at] in vocabulary.INTRODUCERS:
                break
            at -= 1
        if at < 0:
            return None
        region = 1 if self._in_region(i) else 2
        if words[at] in vocabulary.COPULAS:
            possible = at and words[at - 1] in ("could", "might", "may", "can", "there")
            if not vocabulary.LABELS.isdisjoint(words[max(0, at - 15) : at]) and not possible:
                return 1
            return region if words[i - 1] in vocabulary.ARTICLES and not possible else None
        if self.refuses or not vocabulary.DOUBTS.isdisjoint(words[max(0, i - _LOOK) : i]):
            return None
        if words[at] in vocabulary.SAYING:
            own = not vocabulary.FIRST_PERSON.isdisjoint(words[max(0, at - 4) : at])
            return region if own and not any(map(_denies, words[max(0, at - 4) : at])) else None
        if words[at] in vocabulary.INTRODUCERS:
            return region
        ends = i == len(words) - 1 and "," in self.gaps[at + 1 if at + 1 < i else i]
        ends = ends and words[i - 1] not in vocabulary.REPORTERS
        return region if ends and (self.last or self._in_region(i)) else None

    # Sentences that decide.

    def _statements(self) -> Iterator[_Finding]:
        """What the sentence claims of the pair, in words other than yes and no."""
        for i, word in enumerate(self.words):
            claim = None
            if vocabulary.SARCASM.match(word):
                if i not in self.named and i not in self.rated:
                    claim = self._claim(i)
            elif i == len(self.words) - 1 or word in ("not", "isn't"):
                claim = self._short_claim(i)
            if claim is not None:
                value, first = claim
                start, end = self.sentence.spans[first][0], self.sentence.spans[i][1]
                yield _Finding(self._claim_rank(i), value, start, end, "sentence")
            elif i == len(self.words) - 1 and self._contrasts(i):
                yield _Finding(self._claim_rank(i), None, *self.sentence.spans[i], "sentence")

    def _contrasts(self, i: int) -> bool:
        """Whether word i ends a contrast: "The picture is not sarcastic, but the caption is"."""
        before = self.words[max(0, i - _LOOK) : i]
        return (
            self.words[i] in vocabulary.ELLIPSES
            and not vocabulary.CONTRASTS.isdisjoint(before)
            and any(map(vocabulary.SARCASM.match, before))
        )

    def _claim_rank(self, i: int) -> int:
        if self._in_region(i):
            return 1
        before = self.words[max(0, i - _LOOK) : i]
        concludes = before[:1] == ["so"] or not vocabulary.CONCLUDERS.isdisjoint(before)
        return 2 if concludes else 3

    def _claim(self, i: int) -> tuple[Literal[0, 1], int] | None:
        """What is claimed at a "sarcastic" or "sarcasm" at word i, and the first deciding word."""
        if self._left_open(i):
            return None
        start = self._clause_start(i)
        clause = self.words[start:i]
        if self._hedged(clause) or self._denied_before(start):
            return None
        if not (self._has_verb(start, i) or self._is_fragment(start, i) or self._is_subject(i)):
            return None
        return self._polarity(start, i)

    def _left_open(self, i: int) -> bool:
        """Whether what surrounds word i makes it an option, a compound or a condition."""
        words, gaps = self.words, self.gaps
        if i + 1 < len(words):
            following, gap = words[i + 1], gaps[i + 1]
            if gap in ("-", "_") or following in ("or", "if", "unless", "when"):
                return True
            if following == "only" and words[i + 2 : i + 3] in (["if"], ["when"]):
                return True
            if "/" in gap and following in ("not", "non", "literal", "sincere"):
                return True
        if i and gaps[i] in ("-", "_") and words[i - 1] not in ("non", "un"):
            return True
        if i and words[i - 1] == "or" and not any(map(_denies, words[max(0, i - 8) : i])):
            return True
        near = words[max(0, i - _LOOK) : i + _LOOK]
        unsure = any(
            w in ("unsure", "uncertain") or (w in ("sure", "certain") and _denies(near[k - 1]))
            for k, w in enumerate(near)
        )
        return unsure or self._conditional(i)

    def _clause_start(self, i: int) -> int:
        """First word of the clause that ends at word i."""
        at = i
        while at > 0 and i - at < _LOOK:
            gap = self.gaps[at]
            if any(mark in gap for mark in ",:()—[]{}|=") or " - " in gap:
                break
            if (
                self.words[at - 1] in vocabulary.BREAKERS
                and not self._is_than(at - 1)
                and not self._joins_parts(at - 1)
            ):
                break
            at -= 1
        return at

    def _is_than(self, i: int) -> bool:
        """Whether word i is the "rather" of "rather than"."""
        return self.words[i : i + 2] == ["rather", "than"]

    def _joins_parts(self, i: int) -> bool:
        """Whether word i is the "and" of "the picture and the caption are"."""
        if self.words[i] != "and" or i == 0 or self.words[i - 1] not in vocabulary.PARTS:
            return False
        article = self.words[i + 1] in ("the", "its", "this")
        after = self.words[i + 1 + article : i + 3 + article]
        return (
            len(after) == 2 and after[0] in vocabulary.PARTS and after[1] in vocabulary.JOINED_VERBS
        )

    def _denied_before(self, start: int) -> bool:
        """Whether an earlier clause denies the thought: "I do not think, all told, that it is"."""
        before = self.words[max(0, start - _LOOK) : start]
        return any(
            _denies(word) and not vocabulary.CLAIMED_DENIALS.isdisjoint(before[k + 1 : k + 2])
            for k, word in enumerate(before)
        )

    def _hedged(self, clause: list[str]) -> bool:
        """Whether the clause leaves open what it speaks of."""
        if not vocabulary.HEDGES.isdisjoint(clause) or clause[-1:] in (["more"], ["less"]):
            return True
        if clause[-1:] == ["little"] and clause[-2:-1] != ["a"]:
            return True
        for k, word in enumerate(clause):
            following = clause[k + 1 : k + 4]
            if word in vocabulary.DISTANCING:
                before = clause[max(0, k - 3) : k]
                if "beyond" not in before and not any(map(_denies, before)):
                    return True
            if word in vocabulary.HARD and following[:1] == ["to"]:
                return True
            if word in vocabulary.DENIALS:
                if word == "impossible" and not vocabulary.REFUSED.isdisjoint(following[1:2]):
                    return True
                if following[:1] not in (["that"], ["to"]) and any(map(_claims, clause[:k][-1:])):
                    return True
            if word in ("would", "can", "should", "i'd", "we'd"):
                own = word != "should" and not vocabulary.FIRST_PERSON.isdisjoint(
                    clause[max(0, k - 1) : k + 1]
                )
                rest = [w for w in following if w != "not" and not w.endswith("ly")]
                spoken = rest[:1] == ["be"] and rest[1:2] and rest[1] in vocabulary.REPORTED
                if not spoken and not (own and rest and rest[0] in vocabulary.OWN_CLAIMS):
                    return True
            elif _denies(word):
                if word != "no" and following[:1] and following[0] in vocabulary.NOT_KNOWN:
                    return True
                if not vocabulary.PARTLY.isdisjoint(following[:2]) and "only" not in following[:1]:
                    return True
                if word in vocabulary.REFUSALS and not vocabulary.REFUSED.isdisjoint(following):
                    return True
        return False

    def _has_verb(self, start: int, i: int) -> bool:
        """Whether a verb of the clause reaches word i over nothing but filling words."""
        words = self.words
        for at in range(i - 1, start - 1, -1):
            word = words[at]
            if _claims(word):
                break
            if word in vocabulary.DIRECT_NEGATORS:
                return True
            if not _fills(word):
                return False
        else:
            return False
        inverted = words[start] in vocabulary.INVERTED and words[start + 1] in vocabulary.SUBJECTS
        if inverted:
            return False
        if word == "be" and at > start and words[at - 1] == "to":
            governing = [w for w in words[max(start, at - 3) : at - 1] if w != "not"]
            return bool(governing) and governing[-1] in vocabulary.INFINITIVES
        return True

    def _is_fragment(self, start: int, i: int) -> bool:
        """Whether the clause is just "(not) (a) sarcastic (caption)", and stands for a sentence."""
        words = self.words
        clause = words[start:i]
        if "to" in clause or not all(
            _fills(w) or w in vocabulary.OPENERS or _denies(w) for w in clause
        ):
            return False
        end = i + 1
        while (
            end < len(words)
            and words[end] in vocabulary.NOUNS
            and not self.gaps[end].strip(" *_`~\"'")
        ):
            end += 1
        ends = (
            end == len(words)
            or bool(self.gaps[end].strip(" *_`~\"'"))
            or words[end] in vocabulary.BREAKERS
            or words[end] == "as"
        )
        if not ends:
            return False
        if start == 0 or start in self.regions or any(map(_denies, clause)):
            return True
        joint = words[start - 1]
        before = words[max(0, start - 12) : start - 1]
        claimed = any(map(_claims, before))
        return claimed and (
            joint in ("but", "rather")
            or (
                joint in ("and", "so", "thus", "hence", "therefore")
                and not any(map(_denies, before))
            )
        )

    def _is_subject(self, i: int) -> bool:
        """Whether word i is the subject of "sarcasm is (not) present"."""
        after = [w for w in self.words[i + 1 : i + 6] if w != "not" and not w.endswith("ly")]
        return after[:1] in (["is"], ["was"], ["isn't"], ["wasn't"]) and (
            after[1:2] != [] and after[1] in vocabulary.PRESENT
        )

    def _polarity(self, start: int, i: int) -> tuple[Literal[0, 1], int] | None:
        """1 or 0 by the negators that bear on word i; None where they cancel out."""
        words = self.words
        denials = [at for at in range(start, i) if self._bears(at, start)]
        if words[max(0, start - 2) : start] == ["anything", "but"]:
            denials.append(start - 2)
        if words[i - 2 : i] in (["rather", "than"], ["instead", "of"], ["opposed", "to"]) or (
            i and words[i - 1] == "than" and words[i - 2] not in ("other", "nothing")
        ):
            denials.append(i - 1)
        inner = 1 if vocabulary.NEGATED_FORM.match(words[i]) else 0
        behind: int | None = 0
        if self._is_subject(i):
            behind = sum(map(_denies, words[i + 1 : i + 4]))
        elif words[i] == "sarcastic" and "reason" not in words[start:i]:
            behind = self._said_of_claim(i)
        if behind is None:
            return None
        count = len(denials) + inner + behind
        if count > 1:
            return None
        if count == 0:
            return 1, i
        return 0, denials[0] if denials and i - denials[0] <= 4 else i

    def _said_of_claim(self, i: int) -> int | None:
        """How many denials say of the claim that ends at word i that it is false; None: unsure."""
        after = self.words[i + 1 : i + 6]
        if after[:1] not in (
            ["is"],
            ["isn't"],
            ["was"],
            ["wasn't"],
            ["would"],
            ["seems"],
        ) or self.gaps[i + 1].strip(SOFT):
            return 0
        said = [w for w in after if not w.endswith("ly")][1:3]
        denied = sum(map(_denies, (after[0], *said[:1])))
        judged = said[1:] if said[:1] == ["not"] else said
        if judged[:1] and judged[0] in vocabulary.DENIALS:
            return denied + 1
        return denied if judged[:1] and judged[0] in vocabulary.AFFIRMATIONS else None

    def _bears(self, at: int, start: int) -> bool:
        """Whether the negator at word `at`, if it is one, denies what its clause says."""
        words = self.words
        word = words[at]
        following = words[at + 1 : at + 4]
        if word in vocabulary.DENIALS:
            return following[:1] in (["that"], ["to"])
        if word in ("opposite", "short"):
            return following[:1] == ["of"] and words[at + 2 : at + 3] != ["what"]
        if not _denies(word):
            return False
        if not vocabulary.NO_DENIAL.isdisjoint(following[:2]):
            return False
        if following[:1] in (["only"], ["just"], ["merely"], ["simply"]):
            return False
        if word == "far" and following[:1] != ["from"]:
            return False
        if word == "free" and following[:1] not in (["of"], ["from"]):
            return False
        return not (word == "nor" and "neither" in words[start:at])

    def _short_claim(self, i: int) -> tuple[Literal[0, 1], int] | None:
        """What "It is not.", "Definitely not." and "I don't think so." claim, ending at word i."""
        words = self.words
        ends = i == len(words) - 1 or "," in self.gaps[i + 1]
        if not ends or i == 0 or self._conditional(i):
            return None
        start = self._clause_start(i)
        clause = words[start : i + 1]
        if start and words[start - 1] in ("because", "since", "which", "who"):
            return None
        if len(clause) <= 4 and clause[0] in ("it", "this", "they", "it's"):
            if clause[1:] in (["is", "not"], ["isn't"], ["are", "not"], ["aren't"]) or clause == [
                "it's",
                "not",
            ]:
                return 0, i - 1 if clause[-1] == "not" else i
            if clause[1:] in (["is"], ["are"]):
                return 1, i
        if (
            clause[-1] == "not"
            and words[i - 1] in vocabulary.SURE_NOT
            and (start == 0 or start in self.regions or self.polar[start - 1] is not None)
            and all(w in vocabulary.OPENERS for w in clause[:-1])
        ):
            return 0, i
        if clause in (["i", "don't", "think", "so"], ["i", "do", "not", "think", "so"]):
            return 0, i - 2
        if clause == ["i", "think", "not"]:
            return 0, i
        if clause == ["not", "at", "all"] and start == 0:
            return 0, start
        return None

    # Conditions and refusals.

    def _opens_condition(self, i: int, word: str) -> bool:
        """Whether word i opens a condition; "as if" and "if I had to choose" do not."""
        if word not in ("if", "unless", "suppose", "assuming"):
            return False
        if i and self.words[i - 1] in ("as", "even"):
            return False
        after = self.words[i + 1 : i + 3]
        forced = after[:1] in (["forced"], ["asked"], ["pressed"], ["any"])
        return not forced and after not in (["i", "had"], ["i", "have"], ["i", "must"])

    def _conditional(self, i: int) -> bool:
        """Whether a condition stands within a look before word i."""
        at = bisect_left(self.conditions, max(0, i - _LOOK))
        return at < bisect_right(self.conditions, i)

    def _enumerates(self, i: int) -> bool:
        """Whether word i is the "a" of "a)" or the "1" of "1."."""
        word, gap = self.words[i], self.gaps[i + 1]
        return (len(word) == 1 or word.isdigit()) and any(mark in gap for mark in ").]:")

    def _has_refusal(self) -> bool:
        """Whether the sentence says that the model will not or cannot tell."""
        return any(
            word in vocabulary.REFUSALS
            and not vocabulary.REFUSED.isdisjoint(self.words[i + 1 : i + 6])
            for i, word in enumerate(self.words)
        )


def _denies(word: str) -> bool:
    """Whether a word is a negator."""
    return word in vocabulary.NEGATORS or word.endswith("n't")


def _claims(word: str) -> bool:
    """Whether a word is a verb that may claim something of the pair."""
    return word in vocabulary.CLAIMS or word.endswith(("'s", "'re"))


def _fills(word: str) -> bool:
    """Whether a word may stand between a verb and "sarcastic"."""
    return word in vocabulary.FILLING or word.endswith("ly")
