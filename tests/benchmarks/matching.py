"""Scoring one open-ended file against a straightforward loop, both in this process.

The loop normalises each prediction and each answer once a row and stems every token anew; the
module remembers stems and answers, and starts from nothing here. Prints the ratio of the best of
several runs and exits 1 above a fifth. Uses a released file where golden data is beside the
checkout (PRAGCLASH_SHARED), rows of the same shape otherwise.

    python -m tests.benchmarks.matching
"""

import gzip
import json
import os
import random
import re
import sys
import time
from pathlib import Path

from nltk.stem.porter import PorterStemmer

from postprocess.read import matching

LIMIT = 0.2
ROWS = 1281
REPEATS = 5
FILE = "golden/clash/predictions/open_ended/gpt-4.1-mini_predictions.json.gz"

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
NOUNS = {"wooden": "wood", "golden": "gold", "sandy": "sand", "brightly": "bright"}


def released_rows() -> list[tuple[str, str, str]] | None:
    """Prediction, picture's answer and caption's answer of a released file, where there is one."""
    folder = os.environ.get("PRAGCLASH_SHARED")
    path = Path(folder, FILE) if folder else None
    if path is None or not path.is_file():
        return None
    rows = json.loads(gzip.decompress(path.read_bytes()))
    pairs = [(row["prediction"], row["modality_answers"]) for row in rows]
    return [(text, answers["image_only"], answers["text_only"]) for text, answers in pairs]


def made_rows() -> list[tuple[str, str, str]]:
    """Rows with sentences of ten words from a vocabulary of 1,500."""
    rng = random.Random(0)
    syllables = ["ba", "con", "di", "el", "fra", "go", "hi", "ment", "ation", "ing", "ly", "ous"]
    words = ["".join(rng.choices(syllables, k=rng.randint(2, 4))) for _ in range(1500)]
    return [
        (" ".join(rng.choices(words, k=10)), *(" ".join(rng.choices(words, k=2)) for _ in "ab"))
        for _ in range(ROWS)
    ]


def plain_loop(rows: list[tuple[str, str, str]]) -> list[tuple[bool, bool, bool]]:
    """The flags by the definition, with nothing remembered between rows."""
    stem = PorterStemmer().stem

    def form(text: str) -> str:
        out = []
        for token in re.findall(r"\w+", text.lower()):
            if token in ("the", "a", "an"):
                continue
            if token.isascii() and token.isdigit() and str(int(token)) == token:
                token = NUMBERS[int(token)] if int(token) <= 10 else token
            out.append(stem(NOUNS.get(token, token)))
        return " ".join(out)

    def stands(answer: str, text: str) -> bool:
        return re.search(rf"\b{re.escape(answer)}\b", text) is not None

    found = []
    for prediction, image, text in rows:
        said = form(prediction)
        conflict = any(stands(form(word), said) for word in ("conflict", "contradict"))
        found.append((conflict, stands(form(image), said), stands(form(text), said)))
    return found


def module(rows: list[tuple[str, str, str]]) -> list[tuple[bool, bool, bool]]:
    """The same flags by `postprocess.read.matching`, its memory emptied first."""
    matching._cached_stem.cache_clear()
    matching._normalise_short.cache_clear()
    return [tuple(matching.open_outcome(*row)[:3]) for row in rows]


def best(function, rows) -> tuple[float, list]:
    """Seconds of the fastest of several runs, and what it returned."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        found = function(rows)
        times.append(time.perf_counter() - start)
    return min(times), found


def main() -> int:
    """Run both and compare."""
    rows = released_rows()
    where = "released" if rows else "made"
    rows = rows or made_rows()
    matching.normalise("warm")  # the import of the stemmer is no part of either
    plain, expected = best(plain_loop, rows)
    ours, found = best(module, rows)
    if found != expected:
        print("the two disagree: no ratio")
        return 1
    ratio = ours / plain
    print(
        f"{len(rows)} {where} rows: module {1000 * ours:.1f} ms, plain loop {1000 * plain:.1f} ms, "
        f"ratio {ratio:.3f} (limit {LIMIT})"
    )
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
