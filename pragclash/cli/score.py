"""Scores files of predictions anew, and says where they say otherwise.

A folder stands for all predictions and sample logs below it, such as your copy of the CLASH
release. A document of a model counts once: files of one model that hold the same documents are put
together where their predictions are equal, and refused where they are not.

Exit status: 0; 1 when a stored flag differs (with --check) or a row was malformed (a script must
not take rates over the rest for the whole); 2 when a file cannot be read or a run folder cannot be
written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from postprocess.measure.stats import DRAWS, SEED
from postprocess.read.decisions import DecisionError
from postprocess.runs import prediction_files
from postprocess.runs.decided import write_decided
from postprocess.runs.prediction_files import UnreadableFile, find_files, find_samples, read_samples
from postprocess.runs.rescore_text import file_lines, json_of, score_lines
from postprocess.runs.rescored_run import OutputExistsError, write_runs
from postprocess.runs.rescoring import TwinError, score
from pragclash.cli.arguments import add_judges, positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add = parser.add_argument
    add(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE_OR_DIR",
        help=f"predictions, gzipped or not: {prediction_files.HANDLED}",
    )
    add(
        "--check",
        action="store_true",
        help="compare with the flags stored in the files; exit 1 where one differs",
    )
    add(
        "--decisions",
        type=Path,
        metavar="DECISIONS",
        help="FILE is a run folder: write it to --out with what people read in its open answers",
    )
    add("--out", metavar="RUN", help="write a run folder that tables can read")
    add("--force", action="store_true", help="write over an earlier --out")
    add("--json", action="store_true", help="print one JSON object")
    add(
        "--captions",
        choices=("auto", "conflicting", "original"),
        default="auto",
        help="which caption was shown, where the rows do not say (auto: by 'wo_contr' in the name)",
    )
    add(
        "--samples",
        metavar="FILE",
        help="the release's test file or a samples.jsonl, for change types and categories "
        "(default: the one in a folder that is given)",
    )
    add(
        "--paper-compat",
        action="store_true",
        help="categories as the paper counts them: no samples of two categories",
    )
    add(
        "--paper-style",
        action="store_true",
        help="print mean ± deviation over bootstrap draws, as the paper does",
    )
    add_judges(parser)
    add("--draws", type=positive, default=DRAWS, help="resamples of the bootstrap")
    add("--seed", type=int, default=SEED, help="seed of the resamples")


def run(args: argparse.Namespace) -> int:
    """Run the command; see the module for its exit status."""
    try:
        return _run(args)
    except (UnreadableFile, OutputExistsError, TwinError, DecisionError) as error:
        print(f"pragclash score: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader has gone (`| head`): nothing is wrong with the files, and nobody listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"pragclash score: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


def _run(args: argparse.Namespace) -> int:
    if args.decisions:
        return _decide(args)
    folders = [path for path in args.files if path.is_dir()]
    sources = [
        prediction_files.read_source(file, args.captions)._replace(found=path in folders)
        for path in args.files
        for file in (find_files(path) if path in folders else [path])
    ]
    samples = args.samples or next(filter(None, map(find_samples, folders)), None)
    scored = score(
        sources,
        samples=read_samples(samples) if samples else (),
        paper_compat=args.paper_compat,
        judges=args.judges,
        draws=args.draws,
        seed=args.seed,
    )
    files = [file for one in scored for file in one.files]
    differing = [file.check.differences[0] for file in files if file.check.differences]
    failed = args.check and bool(differing)
    written = write_runs(scored, args.out, force=args.force) if args.out and not failed else []
    if args.json:
        print(json.dumps(json_of(scored, written), indent=2))
    else:
        shown = score_lines(
            scored,
            paper_style=args.paper_style,
            by_category=bool(args.samples or args.paper_compat),
        )
        print("\n".join([*file_lines(scored), "", *shown, *(f"wrote {path}" for path in written)]))
    for first in differing:
        print(f"pragclash score: {first}", file=sys.stderr)
    malformed = sum(len(file.faults) for file in files)
    if malformed:
        print(
            f"pragclash score: {malformed} malformed row{'s' * (malformed > 1)} left out",
            file=sys.stderr,
        )
    return 1 if malformed or failed else 0


def _decide(args: argparse.Namespace) -> int:
    """Write one run folder with people's decisions."""
    if len(args.files) != 1 or not args.out:
        print("pragclash score: --decisions takes one run folder and --out", file=sys.stderr)
        return 2
    done = write_decided(args.files[0], args.decisions, Path(args.out), force=args.force)
    if args.json:
        counts = {name: getattr(done, name) for name in ("n_person", "n_open", "n_disputed")}
        print(json.dumps({**counts, "written": [str(path) for path in done.files]}, indent=2))
    else:
        print(
            f"{done.n_person} read by a person, {done.n_open} still open "
            f"({done.n_disputed} read differently)\nwrote {args.out}"
        )
    return 0
