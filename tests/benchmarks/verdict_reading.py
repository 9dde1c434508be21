"""How well the reader of verdicts reads: on the known answers, on files of real ones, and its time.

    python -m tests.benchmarks.verdict_reading              the known answers, by source
    python -m tests.benchmarks.verdict_reading FILE...      published answers to yes/no questions
    python -m tests.benchmarks.verdict_reading --time [N]   seconds for N answers

A FILE is JSON or JSON lines, gzipped or not, as hallucination benchmarks publish them; the answer
is looked for under usual keys, or under `--key`. The reader is held against the rule that most
scripts use, "the first word is yes or no". Where the two differ, and where only one reads, the
answers are shown, for a person to judge.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from postprocess.read.verdict import find_verdict, read_verdict
from tests import KNOWN_ANSWERS

KEYS = ("model_prediction", "answer", "response", "prediction", "pred", "output", "text")
SHOWN = 20
_FIRST_WORD = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


class Tally(NamedTuple):
    """What one layer made of the answers of one source."""

    source: str
    layer: str
    n: int
    owed: int
    """Answers that a person reads and that this layer is there for."""
    read: int
    """Of these, how many it reads as the person does."""
    wrong: int
    """Answers, owed or not, that it reads as what they do not say."""


def measure(rows: Sequence[Mapping[str, Any]]) -> list[Tally]:
    """The tallies of both layers on known answers, by source and set."""
    seen: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        found = find_verdict(row["text"], row["prompt"])
        for layer in ("stated", "inferred"):
            tally = seen.setdefault((f"{row['source']}, {row['set']}", layer), Counter())
            tally["n"] += 1
            tally["owed"] += row["by"] == layer
            tally["read"] += (
                row["by"] == layer and found.by == layer and (found.verdict == row["expected"])
            )
            tally["wrong"] += found.by == layer and found.verdict != row["expected"]
    return [
        Tally(source, layer, tally["n"], tally["owed"], tally["read"], tally["wrong"])
        for (source, layer), tally in sorted(
            seen.items(), key=lambda one: (one[0][1] != "stated", one[0])
        )
    ]


def table_lines(tallies: Iterable[Tally]) -> list[str]:
    """The tallies as rows of a Markdown table."""
    head = ["| layer | answers from | n | owed to it | read | wrong |", "|---|---|---|---|---|---|"]
    return head + [
        f"| {t.layer} | {t.source} | {t.n} | {t.owed} | {t.read} | {t.wrong} |" for t in tallies
    ]


def first_word(text: str) -> int | None:
    """The rule of most scripts: the first word is yes or no.

    >>> first_word("Yes, it is."), first_word("It is.")
    (1, None)
    """
    match = _FIRST_WORD.match(text)
    return None if match is None else int(match[1].lower() == "yes")


def answers_of(path: Path, key: str | None = None) -> Iterator[str]:
    """The answers in a published file.

    Raises:
        ValueError: The file holds no answer under a known key.
    """
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    try:
        rows = json.loads(text)
    except ValueError:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    rows = list(rows.values()) if isinstance(rows, dict) else rows
    found = 0
    for row in rows:
        if isinstance(row, str):
            answer: object = row
        else:
            name = key or next((name for name in KEYS if isinstance(row.get(name), str)), None)
            answer = row.get(name) if name else None
        if isinstance(answer, str):
            found += 1
            yield answer
    if not found:
        raise ValueError(f"{path}: no answer under {key or ', '.join(KEYS)}; name it with --key")


def compare(path: Path, key: str | None) -> int:
    """Print how the reader stands against the first-word rule; how often the two contradict."""
    pairs = [(text, read_verdict(text), first_word(text)) for text in answers_of(path, key)]
    both = sum(ours is not None and ours == rule for _, ours, rule in pairs)
    rule_reads = sum(rule is not None for *_, rule in pairs)
    against = [text for text, ours, rule in pairs if ours is not None and rule not in (None, ours)]
    lost = [text for text, ours, rule in pairs if ours is None and rule is not None]
    gained = [text for text, ours, rule in pairs if ours is not None and rule is None]
    share = f"{100 * both / rule_reads:.1f}%" if rule_reads else "n/a"
    print(
        f"{path.name}: {len(pairs)} answers; the first word reads {rule_reads}, the reader "
        f"{sum(ours is not None for _, ours, _ in pairs)}: the same {both} ({share}), "
        f"the opposite {len(against)}"
    )
    for title, texts in (("opposite", against), ("first word only", lost), ("reader only", gained)):
        for text in texts[:SHOWN]:
            print(f"  {title}: {text[:160]!r}")
    return len(against)


def timed(n: int) -> float:
    """Seconds of processor time for n answers of 2,000 characters, half of them chains."""
    chain = (
        "The picture shows a long queue in the rain. The caption says that it is a lovely day. "
        "Nobody would enjoy this, so the author means the opposite of what the words say. "
    )
    body = (chain * 13)[:1_980]
    texts = [(f"{body}\nVerdict: Yes", "cot"), (f"No, it is meant. {body}", "zero_shot")]
    start = time.process_time()
    for k in range(n):
        read_verdict(*texts[k % 2])
    return time.process_time() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--key", help="where a row of FILE holds the answer")
    parser.add_argument("--time", nargs="?", type=int, const=10_000, metavar="N")
    args = parser.parse_args(arguments)
    if args.time:
        print(f"{args.time} answers of 2,000 characters: {timed(args.time):.1f} s")
        return 0
    if args.files:
        return int(sum(compare(path, args.key) for path in args.files) > 0)
    rows = json.loads((KNOWN_ANSWERS / "verdicts.json").read_text(encoding="utf-8"))
    print("\n".join(table_lines(measure(rows))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
