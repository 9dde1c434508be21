"""Check CLASH samples, whoever made them: a funnel of what each check takes away, with reasons.

The rules need no model. With --judge a language model is asked about what is left; verdicts go to
a file as they come, and an interrupted check goes on there when the same command is given again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from lmms_eval_tasks.clash.make.check import llm, rules
from lmms_eval_tasks.clash.make.check.funnel import READABLE, examine_llm, examine_rules, report_of
from lmms_eval_tasks.clash.make.check.rules import Examined
from lmms_eval_tasks.clash.make.check.samples import read_rows
from pragclash.cli.data_clash_build import add_limits, limits_of

SHOWN = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash data clash-qc`."""
    parser.add_argument(
        "file", type=Path, metavar="FILE",
        help="a dataset folder, samples.jsonl, or a file of the release; may be gzipped",
    )  # fmt: skip
    parser.add_argument(
        "--judge", metavar="NAME", help="ask a model too: openai, or harness:PROVIDER"
    )
    parser.add_argument("--model", metavar="NAME", help="the model of --judge")
    parser.add_argument(
        "--verdicts", type=Path, metavar="FILE", help="write every verdict and reason (JSON lines)"
    )
    parser.add_argument("--work", type=Path, metavar="DIR", help="default: FILE.qc beside FILE")
    parser.add_argument("--seed", type=int, default=0, help="of the pauses (default: 0)")
    add_limits(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the funnel and what was rejected; 0 whatever is rejected.

    Raises:
        ValueError: The file or the judge cannot be used, or the judge gave up half-way.
        OSError: A file cannot be written.
    """
    read = read_rows(args.file)
    if not read:
        raise ValueError(f"{args.file}: holds no samples")
    examined = examine_rules(read)
    checks = [READABLE, *(rule.name for rule in rules.RULES)]
    if args.judge:
        work = args.work or args.file.with_name(f"{args.file.name}.qc")
        examined = examine_llm(
            read, examined, args.judge, args.model, work, limits_of(args), args.seed
        )
        checks += llm.CHECKS
    if args.verdicts:
        lines = [json.dumps(_as_dict(one), ensure_ascii=False) for one in examined]
        args.verdicts.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    report = report_of(read, examined, checks)
    if args.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(args.file, report)
    return 0


def _as_dict(one: Examined) -> dict[str, Any]:
    return {
        "sample_id": one.sample_id,
        "accepted": one.failure is None,
        "verdicts": [verdict._asdict() for verdict in one.verdicts],
    }


def _print(path: Path, report: dict[str, Any]) -> None:
    n, accepted = report["n"], report["accepted"]
    print(f"{path}: {accepted} of {n} samples accepted ({accepted / n:.1%})")
    print(f"  {'check':<26}{'failed':>8}{'left':>8}")
    for step in report["funnel"]:
        print(f"  {step['check']:<26}{step['failed']:>8}{step['left']:>8}")
    for one in report["rejected"][:SHOWN]:
        print(f"  {one['sample_id']}: {one['check']}: {one['reason']}")
    if len(report["rejected"]) > SHOWN:
        print(f"  and {len(report['rejected']) - SHOWN} more; --json lists all")
