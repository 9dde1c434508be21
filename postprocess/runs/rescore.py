"""`pragclash score`: scores files of predictions anew, and says where they say otherwise.

Exit status: 0; 1 when a stored flag differs or a row was malformed (a script must not take rates
over the rest for the whole); 2 when a file cannot be read or a run folder cannot be written.
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
from postprocess.runs.prediction_files import UnreadableFile
from postprocess.runs.rescore_text import figure_line, json_of, lines_of
from postprocess.runs.rescored_run import OutputExistsError, write_runs
from postprocess.runs.rescoring import Scored, overalls, read_samples, score_source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help=f"predictions, gzipped or not: {prediction_files.HANDLED}",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare with the flags stored in the files; exit 1 at the first difference",
    )
    parser.add_argument(
        "--decisions",
        metavar="DECISIONS",
        help="FILE is a run folder: write it to --out with what people read in its open answers",
    )
    parser.add_argument("--out", metavar="RUN", help="write a run folder that tables can read")
    parser.add_argument("--force", action="store_true", help="write over an earlier --out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--captions",
        choices=("auto", "conflicting", "original"),
        default="auto",
        help="which caption was shown, where the rows do not say (auto: by 'wo_contr' in the name)",
    )
    parser.add_argument(
        "--samples",
        metavar="FILE",
        help="the release's test file or a samples.jsonl, for change types and categories",
    )
    parser.add_argument(
        "--paper-compat",
        action="store_true",
        help="categories as the paper counts them: no samples of two categories",
    )
    parser.add_argument(
        "--judges", metavar="A,B", help="the judges to combine (default: all that answered enough)"
    )
    parser.add_argument("--draws", type=int, default=DRAWS, help="resamples of the bootstrap")
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the resamples")


def run(args: argparse.Namespace) -> int:
    """Run the command; see the module for its exit status."""
    try:
        return _run(args)
    except (UnreadableFile, OutputExistsError, DecisionError) as error:
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
    if args.draws < 1:
        print("pragclash score: --draws must be 1 or more", file=sys.stderr)
        return 2
    if args.decisions:
        return _decide(args)
    samples = read_samples(args.samples) if args.samples else []
    judges = [name.strip() for name in args.judges.split(",")] if args.judges else None
    scored: list[Scored] = []
    for file in args.files:
        one = score_source(
            prediction_files.read_source(file, args.captions),
            samples=samples,
            paper_compat=args.paper_compat,
            judges=judges,
            draws=args.draws,
            seed=args.seed,
        )
        scored.append(one)
        if args.check and one.check.differences:
            if args.json:
                print(json.dumps(json_of(scored, [], []), indent=2))
            print(f"pragclash score: {one.check.differences[0]}", file=sys.stderr)
            return 1
    together = overalls(scored, args.draws, args.seed)
    written = write_runs(scored, args.out, force=args.force) if args.out else []
    if args.json:
        print(json.dumps(json_of(scored, together, written), indent=2))
    else:
        lines = [line for one in scored for line in lines_of(one, checked=args.check)]
        lines += [f"{name}: {figure_line('overall', figure)}" for name, figure in together]
        lines += [f"wrote {path}" for path in written]
        print("\n".join(lines))
    malformed = sum(len(one.faults) for one in scored)
    if malformed:
        print(
            f"pragclash score: {malformed} malformed row{'s' * (malformed > 1)} left out",
            file=sys.stderr,
        )
    return 1 if malformed else 0


def _decide(args: argparse.Namespace) -> int:
    """Write one run folder with people's decisions."""
    if len(args.files) != 1 or not args.out:
        print("pragclash score: --decisions takes one run folder and --out", file=sys.stderr)
        return 2
    run = Path(args.files[0])
    done = write_decided(run, Path(args.decisions), Path(args.out), force=args.force)
    counts = {name: getattr(done, name) for name in ("n_person", "n_open", "n_disputed")}
    if args.json:
        print(json.dumps({**counts, "written": [str(path) for path in done.files]}, indent=2))
    else:
        print(
            f"{done.n_person} read by a person, {done.n_open} still open "
            f"({done.n_disputed} read differently)\nwrote {args.out}"
        )
    return 0
