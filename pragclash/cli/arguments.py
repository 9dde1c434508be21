"""The vocabulary of arguments that several commands share: one type, one flag, one help text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postprocess.runs.folder import Problem
    from postprocess.tables.model import Options


def whole(low: int, high: int) -> Callable[[str], int]:
    """A type for whole numbers from `low` to `high`.

    >>> whole(1, 9)("3")
    3
    """

    def integer(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r}: a whole number from {low} to {high}")
        return value

    return integer


positive = whole(1, 1_000_000_000)
"""The type of counts."""


def share(text: str) -> float:
    """The type of proportions, 0 to 1.

    >>> share("0.25")
    0.25
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a number from 0 to 1")
    return value


def add_runs(parser: argparse.ArgumentParser) -> None:
    """`--runs DIR ...`, the run folders a command reads."""
    parser.add_argument(
        "--runs", nargs="+", type=Path, required=True, metavar="DIR", help="run folders"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`, for programs that read the answer."""
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")


def add_output(
    parser: argparse.ArgumentParser, what: str = "write there, not to the screen"
) -> None:
    """`--out FILE` and `--force`."""
    parser.add_argument("--out", type=Path, metavar="FILE", help=what)
    parser.add_argument("--force", action="store_true", help="overwrite --out")


def judges(text: str) -> tuple[str, ...]:
    """The type of lists of judges.

    >>> judges("gpt-5, gemini-2.5-pro")
    ('gpt-5', 'gemini-2.5-pro')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def add_judges(parser: argparse.ArgumentParser) -> None:
    """`--judges A,B`, the judges of CLASH that count together."""
    parser.add_argument(
        "--judges",
        type=judges,
        metavar="A,B",
        help="the judges to combine (default: the paper's two, else all that answered enough)",
    )


def add_computing(parser: argparse.ArgumentParser) -> None:
    """How figures are computed: `--mix`, `--exclude`, `--seed`."""
    # Here alone: it loads scipy, which commands without figures need not wait for.
    from postprocess.measure import stats

    parser.add_argument(
        "--mix",
        action="store_true",
        help="allow different data, prompts and settings, and mark the rows",
    )
    parser.add_argument(
        "--exclude",
        action="store_true",
        help="second view of PragMatch: leave answers without a verdict out",
    )
    parser.add_argument(
        "--inferred",
        action="store_true",
        help="second view of PragMatch: where an answer states no verdict, what its sentences say",
    )
    add_judges(parser)
    parser.add_argument(
        "--seed",
        type=int,
        default=stats.SEED,
        help="seed of a test that must draw (default: %(default)s)",
    )


def options_of(args: argparse.Namespace) -> Options:
    """What `add_computing` asked for."""
    from postprocess.tables.model import Options

    return Options(
        mix=args.mix,
        exclude=args.exclude,
        inferred=args.inferred,
        judges=args.judges,
        paper_style=getattr(args, "paper_style", False),
        paper_compat=getattr(args, "paper_compat", False),
        seed=args.seed,
    )


def tell(problems: Iterable[Problem], command: str) -> None:
    """Print problems to standard error, a line each."""
    for problem in problems:
        print(f"pragclash {command}: {problem}", file=sys.stderr)
