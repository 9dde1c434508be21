"""Power before money: how many pictures a paired difference or a flip needs.

Two rates on the same pictures are told apart by the pictures on which they differ; their share is
the discordance. Without --discordance two models are taken to go right independently, which asks
for more pictures than two models of one kind do; --runs A B takes it from finished runs instead.
The test is the one in the tables, at 5%, and its power is exact.

Worked examples; the first two are the smallest subsets of the PragMatch paper:
  pragclash power --pictures 19 --lost 0.1
      19 pictures carry a lexical cue. A mask that costs a model 1 answer in 10 is seen in 11% of
      studies; only a flip of 27.2 points is seen in 80%.
  pragclash power --pictures 638 --lost 0.03 --gained 0.01
      638 pictures carry a style cue. A flip of 2 points is seen in 75% where 3% are lost and 1%
      gained, and in 99.9% where 2% are lost and none gained.
  pragclash power --pictures 100 --pair-acc 0.3 --difference 0.05
      Two independent models 5 points apart are told apart in 12%; it takes 1,377 pictures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from postprocess.measure.intervals import too_few
from postprocess.measure.power import POWER, Design, design, detectable, pictures_needed, power
from pragclash.cli.arguments import positive, share

Question: TypeAlias = tuple[str, int | None, Design, Callable[[float], Design]]
"""What is asked in words, pictures, the design, and the design of any size of difference."""


def signed_share(text: str) -> float:
    """The type of differences, -1 to 1.

    >>> signed_share("-0.05")
    -0.05
    """
    return -share(text[1:]) if text.startswith("-") else share(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash power`."""
    parser.add_argument("--pictures", type=positive, metavar="N", help="pictures that you have")
    parser.add_argument("--pair-acc", type=share, metavar="P", help="rate of the first model")
    parser.add_argument(
        "--difference", type=signed_share, metavar="D", help="second model less first"
    )
    parser.add_argument(
        "--discordance", type=share, metavar="X", help="share of pictures on which the two differ"
    )
    parser.add_argument("--lost", type=share, metavar="L", help="a flip: right before, not after")
    parser.add_argument("--gained", type=share, metavar="G", help="a flip: right after, not before")
    parser.add_argument(
        "--runs",
        nargs=2,
        type=Path,
        metavar=("A", "B"),
        help="run folders: what their own discordance can show, for every task they share",
    )
    parser.add_argument(
        "--power", type=share, default=POWER, help="wanted (default: %(default)s)", metavar="W"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")


def run(args: argparse.Namespace) -> int:
    """Print what the pictures show and how many are needed.

    Raises:
        ValueError: The arguments fit no question, or no such rates exist.
    """
    if not 0 < args.power < 1:
        raise ValueError("--power is above 0 and below 1")
    if args.runs:
        if args.pair_acc is not None or args.lost is not None or args.gained is not None:
            raise ValueError("--runs brings its own rates: leave --pair-acc, --lost, --gained out")
        answers = [_answer(*asked, args.power) for asked in _of_runs(args)]
        if not answers:
            raise ValueError("these two runs share no task with pictures complete in both")
    else:
        answers = [_answer(*_asked(args), args.power)]
    if args.json:
        print(json.dumps({"wanted_power": args.power, "answers": answers}))
    else:
        print("\n".join(line for answer in answers for line in _lines(answer, args.power)))
    return 0


def _asked(args: argparse.Namespace) -> Question:
    flip = args.lost is not None or args.gained is not None
    if flip == (args.pair_acc is not None):
        raise ValueError(
            "give --pair-acc with --difference (two rates on the same pictures), or --lost and "
            "--gained (a flip), or --runs A B"
        )
    if flip:
        of = Design(args.gained or 0.0, args.lost or 0.0)
        if of.discordance > 1:
            raise ValueError(f"{of.gained:g} gained and {of.lost:g} lost are more than all")
        least = min(of)
        toward = (
            (lambda x: _within(Design(least, least + x)))
            if of.difference <= 0
            else (lambda x: _within(Design(least + x, least)))
        )
        return "flip", args.pictures, of, toward
    if args.difference is None:
        raise ValueError("--pair-acc needs --difference, such as 0.05")
    sign = -1 if args.difference < 0 else 1
    return (
        f"paired rates, {args.pair_acc:g} and {args.pair_acc + args.difference:g}",
        args.pictures,
        design(args.pair_acc, args.difference, args.discordance),
        lambda x: design(args.pair_acc, sign * x, args.discordance),
    )


def _within(of: Design) -> Design:
    if of.discordance > 1:
        raise ValueError("more than all pictures")
    return of


def _of_runs(args: argparse.Namespace) -> list[Question]:
    from postprocess.publish.compare import compare
    from postprocess.runs.folder import read_runs

    runs = [read_runs([folder]) for folder in args.runs]
    for folder, found in zip(args.runs, runs, strict=True):
        if len(found.runs) != 1:
            raise ValueError(f"{folder} holds {len(found.runs)} runs, not one: name its folder")
    asked: list[Question] = []
    for task in compare(runs[0].runs[0], runs[1].runs[0]).tasks:
        for one in task.differences:
            # A picture with one yes or no is what this test counts; pooled captions are not.
            if one.only_a is None or one.only_b is None or not task.n:
                continue
            if one.estimate.method != "tango":
                continue
            seen = Design(one.only_b / task.n, one.only_a / task.n)
            gap = seen.difference if args.difference is None else args.difference
            at = seen.discordance
            of = _shifted(at, gap)
            words = (
                f"{task.task} {one.metric}, {task.n} pictures in both, {one.only_a} only A, "
                f"{one.only_b} only B"
            )
            asked.append((words, args.pictures or task.n, of, partial(_shifted, at)))
    return asked


def _shifted(discordance: float, difference: float) -> Design:
    """A difference at a discordance seen; a larger one than that needs more of it."""
    seen = max(discordance, abs(difference))
    return Design((seen + difference) / 2, (seen - difference) / 2)


def _answer(
    what: str, pictures: int | None, of: Design, by: Callable[[float], Design], wanted: float
) -> dict[str, Any]:
    return {
        "question": what,
        "difference": of.difference,
        "gained": of.gained,
        "lost": of.lost,
        "discordance": of.discordance,
        "pictures": pictures,
        "power": None if pictures is None else power(pictures, of),
        "detectable": None if pictures is None else detectable(pictures, by, wanted),
        "pictures_needed": pictures_needed(of, wanted),
        "too_few": pictures is not None and too_few(pictures),
    }


def _lines(answer: dict[str, Any], wanted: float) -> list[str]:
    lines = [
        f"{answer['question']}: {100 * answer['difference']:+.1f} points, "
        f"{100 * answer['discordance']:.1f}% of the pictures differ"
    ]
    if answer["pictures"] is not None:
        seen = f"seen at 5% in {100 * answer['power']:.1f}% of studies"
        lines.append(f"  {answer['pictures']:,} pictures: {seen}")
        if answer["too_few"]:
            lines.append("  too few pictures to tell")
        smallest = answer["detectable"]
        lines.append(
            f"  smallest difference seen in {100 * wanted:g}%: "
            + ("none" if smallest is None else f"{100 * smallest:.1f} points")
        )
    needed = answer["pictures_needed"]
    none = "without a difference" if not answer["difference"] else "more than a million"
    lines.append(
        f"  for {100 * wanted:g}%: " + (none if needed is None else f"{needed:,} pictures")
    )
    return lines
