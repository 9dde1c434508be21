"""Make CLASH samples out of pictures with captions: change one element, ask, answer, check.

The embedded generator (`rules`) needs nothing; `openai` and `harness:PROVIDER` ask a language
model. Every finished sample is on disk at once: an interrupted run goes on where it stopped when
the same command is given again, and ends in the same dataset folder whatever went wrong between.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from lmms_eval_tasks.clash.make.check.votes import keep_accepted
from lmms_eval_tasks.clash.make.endpoint import Limits
from lmms_eval_tasks.clash.make.generate.build import PER_PICTURE, Settings, build
from pragclash.cli.arguments import positive

SHOWN = 10

_DEFAULTS = Limits()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash data clash-build`."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--captions", type=Path, metavar="FILE", help="COCO captions, or {image_id, captions} rows"
    )
    what.add_argument(
        "--accepted",
        type=Path,
        metavar="VOTES",
        help="make a test set: of the dataset folder --from, the samples that people accepted "
        "(votes.jsonl, as `pragclash agreement` writes it)",
    )
    parser.add_argument("--from", type=Path, dest="source", metavar="DIR", help="see --accepted")
    parser.add_argument("--images", type=Path, metavar="DIR", help="the pictures of --captions")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to make")
    parser.add_argument("--n", type=positive, metavar="N", help="samples (default: all there are)")
    parser.add_argument(
        "--generator",
        default="rules",
        metavar="NAME",
        help="rules (default), openai (an OpenAI-compatible endpoint: OPENAI_API_URL, "
        "OPENAI_API_KEY), or harness:PROVIDER (a judge provider of the harness)",
    )
    parser.add_argument("--model", metavar="NAME", help="the endpoint's model")
    parser.add_argument(
        "--llm-checks", action="store_true", help="let the endpoint check each sample too"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument(
        "--per-picture",
        type=positive,
        default=PER_PICTURE,
        metavar="N",
        help=f"samples of one picture at most (default: {PER_PICTURE})",
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="default: OUT.work")
    add_limits(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def add_limits(parser: argparse.ArgumentParser) -> None:
    """What an endpoint may be asked for."""
    parser.add_argument(
        "--parallel", type=positive, default=_DEFAULTS.parallel, help="requests at the same time"
    )
    parser.add_argument(
        "--tries", type=positive, default=_DEFAULTS.tries, help="tries of one request"
    )
    parser.add_argument(
        "--timeout", type=float, default=_DEFAULTS.timeout_s, metavar="S", help="of one request"
    )
    parser.add_argument(
        "--pause", type=float, default=_DEFAULTS.pause_s, metavar="S",
        help="after a first failed try; it doubles",
    )  # fmt: skip
    parser.add_argument(
        "--max-tokens", type=positive, default=_DEFAULTS.max_tokens, help="of one reply"
    )
    parser.add_argument(
        "--token-budget", type=positive, metavar="N", help="of all requests and replies together"
    )


def limits_of(args: argparse.Namespace) -> Limits:
    """The limits that a command line sets."""
    return Limits(
        parallel=args.parallel,
        tries=args.tries,
        timeout_s=args.timeout,
        pause_s=args.pause,
        max_tokens=args.max_tokens,
        token_budget=args.token_budget,
    )


def run(args: argparse.Namespace) -> int:
    """Build the folder and print what became of the captions.

    Raises:
        ValueError: Something cannot be used, or the job stopped half-way; the line says which.
        OSError: A file cannot be read or written, a full disk among them.
    """
    out: Path = args.out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} exists already; choose another folder or remove it")
    if args.accepted:
        if args.source is None:
            raise ValueError("--accepted needs --from DIR, the folder that was voted on")
        report = keep_accepted(args.source, args.accepted, out)
    else:
        if args.images is None:
            raise ValueError("--captions needs --images DIR")
        settings = Settings(
            args.generator, args.model, args.seed, args.n, args.per_picture, args.llm_checks
        )
        work = args.work or out.with_name(f"{out.name}.work")
        report = build(args.captions, args.images, out, work, settings, limits_of(args))
    if args.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print_report(report)
    return 0


def _print_report(report: dict[str, Any]) -> None:
    print(f"{report['out']}: {report['n_rows']} samples on {report['n_pictures']} pictures")
    if "votes" in report:
        votes = report["votes"]
        print(
            f"{votes['accepted']} accepted, {votes['rejected']} rejected, "
            f"{votes['without']} without a vote, {votes['unknown']} votes on other samples"
        )
        return
    for reason, n in report["dropped"].items():
        print(f"{n} captions dropped: {reason}")
    if report["missing_pictures"]:
        print(f"{len(report['missing_pictures'])} pictures cannot be used:")
        for image_id, reason in list(report["missing_pictures"].items())[:SHOWN]:
            print(f"  {image_id} {reason}")
    if report["faulty_captions"]:
        print(f"{len(report['faulty_captions'])} captions cannot be used:")
        for line in report["faulty_captions"][:SHOWN]:
            print(f"  {line}")
    if "tokens" in report:
        print(
            f"{report['requests']} requests, {report['asked_again']} of them again; "
            f"{report['tokens']} tokens"
        )
