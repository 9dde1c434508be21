"""Check CLASH samples, whoever made them: a funnel of what each check takes away, with reasons.

The rules need no model. With --judge a language model is asked about what is left; verdicts go to
a file as they come, and an interrupted check goes on there when the same command is given again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import Any

from lmms_eval_tasks.clash.make import quality, quality_llm
from lmms_eval_tasks.clash.make.build import Stopped, add_limits, limits_of, spent_before
from lmms_eval_tasks.clash.make.endpoint import Asker, Budget, EndpointError, Limits, endpoint_of
from lmms_eval_tasks.clash.make.quality import Examined, Verdict
from lmms_eval_tasks.clash.make.sample_files import Read, read_rows
from lmms_eval_tasks.dataset.journal import Journal

READABLE = "readable"
"""Name of the check that a sample can be read at all."""

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
    checks = [READABLE, *(rule.name for rule in quality.RULES)]
    if args.judge:
        work = args.work or args.file.with_name(f"{args.file.name}.qc")
        examined = examine_llm(
            read, examined, args.judge, args.model, work, limits_of(args), args.seed
        )
        checks += quality_llm.CHECKS
    if args.verdicts:
        lines = [json.dumps(_as_dict(one), ensure_ascii=False) for one in examined]
        args.verdicts.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    report = report_of(read, examined, checks)
    if args.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(args.file, report)
    return 0


def examine_rules(read: Sequence[Read]) -> list[Examined]:
    """The samples with the rules' verdicts, in the file's order."""
    examined = []
    for one in read:
        if one.row is None:
            verdicts = [Verdict(READABLE, False, one.fault or "")]
            examined.append(Examined(f"sample {one.place}", tuple(verdicts)))
        else:
            verdicts = [Verdict(READABLE, True, ""), *quality.apply_rules(one.row)]
            examined.append(Examined(one.row["sample_id"], tuple(verdicts)))
    return examined


def examine_llm(
    read: Sequence[Read],
    examined: Sequence[Examined],
    judge: str,
    model: str | None,
    work: Path,
    limits: Limits,
    seed: int = 0,
) -> list[Examined]:
    """The samples with a language model's verdicts after the rules' own.

    Raises:
        Stopped: The endpoint gave up; what is finished is in the journal.
    """
    stop, results = Event(), list(examined)
    todo = [place for place, one in enumerate(examined) if one.failure is None]
    with Journal(work / "verdicts.jsonl") as journal:
        endpoint = endpoint_of(judge, model, limits.timeout_s)
        budget = Budget(limits.token_budget, spent_before(journal))
        asker = Asker(endpoint.send, limits, budget, seed, stop)
        keys = {place: _key(read[place], judge, model) for place in todo}
        pool = ThreadPoolExecutor(limits.parallel)
        running: dict[Future[list[Verdict]], int] = {}
        fresh = iter([place for place in todo if keys[place] not in journal])
        try:
            while True:
                while len(running) < limits.parallel:
                    place = next(fresh, None)
                    if place is None:
                        break
                    running[pool.submit(quality_llm.examine, read[place].row or {}, asker)] = place
                if not running:
                    break
                failure: EndpointError | None = None
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    place = running.pop(future)
                    try:
                        journal.put(keys[place], [list(x) for x in future.result()])
                        journal.put("spent", budget.spent)
                    except EndpointError as error:
                        failure = failure or error
                if failure is not None:
                    raise failure
        except EndpointError as error:
            done = sum(key in journal for key in keys.values())
            raise Stopped(
                f"{error}; {done} of {len(todo)} samples are checked, the same command goes on"
            ) from error
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            endpoint.close()
        for place in todo:
            given = tuple(Verdict(*verdict) for verdict in journal[keys[place]])
            results[place] = Examined(
                examined[place].sample_id, (*examined[place].verdicts, *given)
            )
    return results


def report_of(
    read: Sequence[Read], examined: Sequence[Examined], checks: Sequence[str]
) -> dict[str, Any]:
    """`n`, `accepted`, the `funnel`, and the `rejected` with place, check and reason."""
    rejected = []
    for one, result in zip(read, examined, strict=True):
        if result.failure is not None:
            rejected.append(
                {
                    "place": one.place,
                    "sample_id": result.sample_id,
                    "check": result.failure.check,
                    "reason": result.failure.reason,
                }
            )
    return {
        "n": len(examined),
        "accepted": len(examined) - len(rejected),
        "funnel": [step._asdict() for step in quality.funnel(examined, checks)],
        "rejected": rejected,
    }


def _key(read: Read, judge: str, model: str | None) -> str:
    """What a verdict depends on: the row's texts, who was asked, and the wording."""
    row = {k: v for k, v in (read.row or {}).items() if isinstance(v, str) and k != "image"}
    content = json.dumps([quality_llm.PROMPT_VERSION, judge, model, row], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


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
