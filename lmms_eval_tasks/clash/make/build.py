"""Make CLASH samples out of pictures with captions: change one element, ask, answer, check.

The embedded generator (`rules`) needs nothing; `openai` and `harness:PROVIDER` ask a language
model. Every finished sample is on disk at once: an interrupted run goes on where it stopped when
the same command is given again, and ends in the same dataset folder whatever went wrong between.
"""

from __future__ import annotations

import argparse
import errno
import json
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.make.captions import Pictures, find_picture, read_captions, sources
from lmms_eval_tasks.clash.make.endpoint import Asker, Budget, EndpointError, Limits, endpoint_of
from lmms_eval_tasks.clash.make.generate import Dropped, Generator, Source, make_row
from lmms_eval_tasks.clash.make.generate_llm import LlmGenerator
from lmms_eval_tasks.clash.make.generate_rules import RuleGenerator
from lmms_eval_tasks.clash.make.quality_llm import examine
from lmms_eval_tasks.clash.make.votes import keep_accepted
from lmms_eval_tasks.dataset.files import sha256
from lmms_eval_tasks.dataset.folder import write_folder
from lmms_eval_tasks.dataset.journal import Journal
from lmms_eval_tasks.dataset.pictures import picture_fault

PER_PICTURE = 3
SHOWN = 10

_DEFAULTS = Limits()
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class Settings(NamedTuple):
    """What decides the outcome of a job, beside the captions."""

    generator: str
    model: str | None
    seed: int
    n: int | None
    per_picture: int
    llm_checks: bool


class Stopped(ValueError):
    """A job that could not be finished; what is finished is on disk."""


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
    parser.add_argument("--n", type=_positive, metavar="N", help="samples (default: all there are)")
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
        type=_positive,
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
        "--parallel", type=_positive, default=_DEFAULTS.parallel, help="requests at the same time"
    )
    parser.add_argument(
        "--tries", type=_positive, default=_DEFAULTS.tries, help="tries of one request"
    )
    parser.add_argument(
        "--timeout", type=float, default=_DEFAULTS.timeout_s, metavar="S", help="of one request"
    )
    parser.add_argument(
        "--pause", type=float, default=_DEFAULTS.pause_s, metavar="S",
        help="after a first failed try; it doubles",
    )  # fmt: skip
    parser.add_argument(
        "--max-tokens", type=_positive, default=_DEFAULTS.max_tokens, help="of one reply"
    )
    parser.add_argument(
        "--token-budget", type=_positive, metavar="N", help="of all requests and replies together"
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
        try:
            report = build(args.captions, args.images, out, work, settings, limits_of(args))
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise Stopped(
                f"{work}: {error.strerror}; what is finished is kept, the same command goes on"
            ) from error
    if args.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print_report(report)
    return 0


def build(
    captions: Path,
    images: Path,
    out: Path,
    work: Path,
    settings: Settings,
    limits: Limits = _DEFAULTS,
) -> dict[str, Any]:
    """Make a dataset folder out of captions.

    Args:
        captions: A file that `read_captions` understands.
        images: Folder of the pictures.
        out: The folder to make.
        work: Folder of the journal.
        settings: What decides the outcome.
        limits: What an endpoint may be asked for.

    Returns:
        `out`, `n_rows`, `n_pictures`, `fingerprint`, `generator`, `dropped` (reason to count),
        `missing_pictures`, `faulty_captions`, and for endpoints `tokens`, `requests` and
        `asked_again` of this run.

    Raises:
        Stopped: The endpoint gave up, or the journal belongs to another job.
        ValueError: Captions or generator cannot be used, or no sample came out.
        OSError: A file cannot be read or written.
    """
    pictures = read_captions(captions)
    with Journal(work / "samples.jsonl") as journal:
        _claim(journal, work, captions, settings)
        job = _Job(journal, settings, limits)
        try:
            rows, missing = job.run(_Found(pictures, images), sources(pictures, settings.seed))
        finally:
            job.close()
        report: dict[str, Any] = {
            "out": str(out),
            "generator": job.generator.name,
            "dropped": dict(sorted(job.dropped.items())),
            "missing_pictures": missing,
            "faulty_captions": pictures.faults,
        }
        if job.asker is not None:
            report["tokens"] = job.asker.budget.spent
            report["requests"] = job.asker.requests
            report["asked_again"] = job.asker.asked_again
    if not rows:
        reasons = "; ".join(f"{reason} ({n})" for reason, n in job.dropped.most_common(3))
        first = next(iter(missing.items()), None)
        reasons = reasons or (f"picture {first[0]} {first[1]}" if first else "no captions")
        raise ValueError(f"no sample came out: {reasons}")
    files = {
        f"images/{row['image_id']}{_suffix(images, pictures, row)}": row["image_id"] for row in rows
    }
    names = {image_id: name for name, image_id in files.items()}
    rows = [{**row, "image": names[row["image_id"]]} for row in rows]
    manifest = {
        "kind": "custom",
        "encoders": [],
        "generator": {
            "name": job.generator.name,
            "model": settings.model,
            "seed": settings.seed,
            "llm_checks": settings.llm_checks,
        },
        "sources": [{"name": "captions", "file": captions.name, "sha256": sha256(captions)}],
    }
    copied = {
        name: find_picture(images, pictures.files[image_id]) for name, image_id in files.items()
    }
    folder = write_folder(out, "clash", rows, copied, manifest)
    report |= {
        "n_rows": len(rows),
        "n_pictures": len(files),
        "fingerprint": folder.fingerprint,
    }
    return report


class _Found:
    """Which pictures are there; looked at once each."""

    def __init__(self, pictures: Pictures, images: Path) -> None:
        self._pictures, self._images = pictures, images
        self._faults: dict[str, str | None] = {}

    def fault(self, image_id: str) -> str | None:
        if image_id not in self._faults:
            path = find_picture(self._images, self._pictures.files[image_id])
            self._faults[image_id] = picture_fault(path)
        return self._faults[image_id]


class _Job:
    """Makes the first `n` samples in the sources' order, several at a time."""

    def __init__(self, journal: Journal, settings: Settings, limits: Limits) -> None:
        self.journal, self.settings = journal, settings
        self.dropped: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()
        self._said: set[str] = set()
        self.asker: Asker | None = None
        self.generator: Generator
        self._stop = threading.Event()
        self._endpoint = None
        self._workers = limits.parallel
        needs = settings.generator != "rules" or settings.llm_checks
        if settings.generator == "rules" and settings.llm_checks:
            raise ValueError("--llm-checks needs a --generator that asks a model")
        if needs:
            self._endpoint = endpoint_of(settings.generator, settings.model, limits.timeout_s)
            budget = Budget(limits.token_budget, spent_before(journal))
            self.asker = Asker(self._endpoint.send, limits, budget, settings.seed, self._stop)
            self.generator = LlmGenerator(self.asker, f"{settings.generator}:{settings.model}")
        else:
            self._workers = 1
            self.generator = RuleGenerator(settings.seed)

    def close(self) -> None:
        if self._endpoint is not None:
            self._endpoint.close()

    def run(
        self, found: _Found, units: Sequence[Source]
    ) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Rows of the accepted samples, and the pictures that cannot be used."""
        wanted = len(units) if self.settings.n is None else self.settings.n
        rows: list[dict[str, Any]] = []
        missing: dict[str, str] = {}
        # Units are settled in their order, so that the outcome does not depend on who is faster;
        # no more are begun than samples are still wanted, so that no request is wasted.
        open_units: list[tuple[Source, Future[dict[str, Any]]]] = []
        todo = iter(units)
        pool = ThreadPoolExecutor(self._workers)
        progress = _Progress(min(wanted, len(units)))
        try:
            while len(rows) < wanted:
                while len(open_units) < min(wanted - len(rows), 4 * self._workers):
                    source = next(todo, None)
                    if source is None:
                        break
                    if self._taken[source.image_id] >= self.settings.per_picture:
                        continue
                    reason = found.fault(source.image_id)
                    if reason:
                        missing[source.image_id] = reason
                        continue
                    open_units.append((source, self._begin(pool, source)))
                if not open_units:
                    break
                if not open_units[0][1].done():
                    wait([future for _, future in open_units], return_when=FIRST_COMPLETED)
                self._keep(open_units)
                while open_units and open_units[0][0].key in self.journal:
                    row = self._settled(open_units.pop(0)[0])
                    if row is not None:
                        rows.append(row)
                        progress.show(len(rows), self.dropped.total())
        except (EndpointError, KeyboardInterrupt) as error:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            self._keep([x for x in open_units if x[1].done() and not _failed(x[1])])
            if isinstance(error, KeyboardInterrupt):
                raise
            kept = sum(source.key in self.journal for source in units)
            raise Stopped(
                f"{error}; {kept} finished captions are kept, the same command goes on"
            ) from error
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            progress.close()
        return rows[:wanted], missing

    def _begin(self, pool: ThreadPoolExecutor, source: Source) -> Future[dict[str, Any]]:
        """What becomes of a source: from the journal, or made by one of the workers."""
        if source.key not in self.journal:
            return pool.submit(self._make, source)
        known: Future[dict[str, Any]] = Future()
        known.set_result(self.journal[source.key])
        return known

    def _keep(self, open_units: Sequence[tuple[Source, Future[dict[str, Any]]]]) -> None:
        """Write what is finished to the journal, and then raise what stops the run."""
        failure: BaseException | None = None
        for source, future in open_units:
            if future.done() and source.key not in self.journal:
                failure = failure or (future.exception() if _failed(future) else None)
                if not _failed(future):
                    self.journal.put(source.key, future.result())
                    if self.asker is not None:
                        self.journal.put("spent", self.asker.budget.spent)
        if failure is not None:
            raise failure

    def _make(self, source: Source) -> dict[str, Any]:
        """What becomes of a source: `row`, or `dropped` with the reason."""
        verdicts: list[list[Any]] = []
        try:
            row = make_row(source, self.generator)
            if self.settings.llm_checks and self.asker is not None:
                given = examine(row, self.asker)
                verdicts = [list(verdict) for verdict in given]
                if given and not given[-1].passed:
                    raise Dropped("check", given[-1].check, given[-1].reason)
        except Dropped as drop:
            reason = f"{drop.stage}: {drop.reason}"
            return {"dropped": reason, "detail": drop.detail, "verdicts": verdicts}
        return {"row": row, "verdicts": verdicts}

    def _settled(self, source: Source) -> dict[str, Any] | None:
        outcome = self.journal[source.key]
        if "row" not in outcome:
            self.dropped[outcome["dropped"]] += 1
            return None
        row: dict[str, Any] = outcome["row"]
        if self._taken[source.image_id] >= self.settings.per_picture:
            return None
        if row["sample_id"] in self._said:
            self.dropped["same sample as another"] += 1
            return None
        self._said.add(row["sample_id"])
        self._taken[source.image_id] += 1
        return row


def spent_before(journal: Journal) -> int:
    """Tokens that earlier runs of a job spent, as its journal has them."""
    return int(journal["spent"]) if "spent" in journal else 0


def _failed(future: Future[dict[str, Any]]) -> bool:
    return future.cancelled() or future.exception() is not None


class _Progress:
    """One line that is rewritten, on a terminal only."""

    def __init__(self, total: int) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=total, unit=" samples", disable=not sys.stderr.isatty(), leave=False)

    def show(self, done: int, dropped: int) -> None:
        self._bar.n = done
        self._bar.set_postfix_str(f"{dropped} dropped")

    def close(self) -> None:
        self._bar.close()


def _claim(journal: Journal, work: Path, captions: Path, settings: Settings) -> None:
    """Let a journal serve one job only: outcomes of other settings must not be mixed in."""
    # How many samples are wanted changes no single outcome.
    fields = {k: v for k, v in settings._asdict().items() if k not in ("n", "per_picture")}
    job = {**fields, "captions": sha256(captions)}
    if "job" not in journal:
        journal.put("job", job)
    elif journal["job"] != job:
        old = journal["job"]
        changed = ", ".join(name for name in job if old.get(name) != job[name])
        raise Stopped(
            f"{work} holds a job with other settings ({changed}): "
            "remove it to start anew, or name another --work"
        )


def _suffix(images: Path, pictures: Pictures, row: dict[str, Any]) -> str:
    suffix = find_picture(images, pictures.files[row["image_id"]]).suffix.lower()
    return suffix if suffix[1:].isalnum() else ".jpg"


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1")
    return int(text)


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
