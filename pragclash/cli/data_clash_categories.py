"""Which categories CLASH samples belong to, and whether two sets of lists say the same.

A sample has a category when both changed words are in that category's list: strict co-membership,
so that an animal changed into a vehicle is in none. Case and number are folded. Samples in no list
are "other". The lists are this project's, or those of a user's own copy of the release.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval_tasks.clash.make.check.samples import read_rows
from lmms_eval_tasks.clash.make.word_lists.categories import (
    MIN_PAIRS,
    Agreement,
    Candidate,
    Lists,
    agreement,
    categories_of,
    derive,
    own_lists,
    read_lists,
)
from pragclash.cli.arguments import positive

SHOWN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash data clash-categories`."""
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a dataset folder, samples.jsonl or release file"
    )
    parser.add_argument(
        "--lists",
        type=Path,
        metavar="PATH",
        help="second lists: your copy of the release, or a JSON file {category: [words]} "
        "(default: the categories stored in FILE)",
    )
    parser.add_argument(
        "--derive", action="store_true", help="candidate words from the most frequent changed pairs"
    )
    parser.add_argument(
        "--min-pairs", type=positive, default=MIN_PAIRS, metavar="N", help=f"default: {MIN_PAIRS}"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the categories, how they agree with a second set, and candidates.

    Raises:
        ValueError: A file cannot be read.
    """
    read = read_rows(args.file)
    rows = [one.row for one in read if one.row is not None]
    if not rows:
        raise ValueError(f"{args.file}: holds no sample that can be used")
    own = own_lists()
    first = [_of(row, own) for row in rows]
    if args.lists:
        named = str(args.lists)
        second = [_of(row, read_lists(args.lists)) for row in rows]
    else:
        named = "stored"
        second = [list(row["categories"]) for row in rows]
    stored = any(second)
    table, same = agreement(first, second) if stored else agreement(first, first)
    candidates = derive(rows, own, args.min_pairs) if args.derive else None
    if args.json:
        report: dict[str, Any] = {
            "n": len(rows),
            "n_unreadable": len(read) - len(rows),
            "compared_with": named if stored else None,
            "same": same if stored else None,
            "categories": [row._asdict() for row in table],
        }
        if candidates is not None:
            report["candidates"] = [one._asdict() for one in candidates]
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return 0
    _print(rows, table, same, named if stored else None, candidates)
    if len(read) > len(rows):
        print(
            f"{len(read) - len(rows)} samples cannot be used: clash-qc lists them", file=sys.stderr
        )
    return 0


def _print(
    rows: Sequence[Mapping[str, Any]],
    table: Sequence[Agreement],
    same: int,
    named: str | None,
    candidates: Sequence[Candidate] | None,
) -> None:
    if named is None:
        print(f"{len(rows)} samples; the file stores no categories to compare with")
        for row in table:
            print(f"  {row.category:<16}{row.both:>6}")
    else:
        print(
            f"{len(rows)} samples; own lists and {named}: {same} ({same / len(rows):.1%}) the same"
        )
        print(f"  {'category':<16}{'both':>6}{'own only':>10}{'other only':>12}")
        for row in table:
            print(f"  {row.category:<16}{row.both:>6}{row.first_only:>10}{row.second_only:>12}")
    if candidates is not None:
        print(f"{len(candidates)} candidate words from the most frequent changed pairs:")
        for name in dict.fromkeys(one.category for one in candidates):
            words = [one for one in candidates if one.category == name]
            shown = ", ".join(f"{one.word} ({one.pairs})" for one in words[:SHOWN])
            more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
            print(f"  {name}: {shown}{more}")


def _of(row: Mapping[str, Any], lists: Lists) -> list[str]:
    return categories_of(row["original_word"], row["conflicting_word"], row["change_type"], lists)
