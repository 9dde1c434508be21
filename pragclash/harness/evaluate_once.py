"""Run the tasks of an evaluation that are not finished: what the targets of the Makefile call.

Bundles are taken apart, so that a task that two tables need runs once. Finished means that a mark
of the same task, model, arguments, limit and data lies beside the results, and that the files it
names and the model's weights are still what they were. Marks are written last, and only when the
launcher exits 0; an interrupted evaluation goes on from its response cache.

  python -P -m pragclash.harness.evaluate_once --out runs/llava --tasks pragmatch_table1 ...
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

from lmms_eval_tasks.dataset.current import current_folder
from lmms_eval_tasks.dataset.folder import FolderError
from postprocess.benchmarks.pragmatch_tasks import tags_of, task_names
from postprocess.secrets import redact_arguments
from pragclash.harness.cache import benchmarks_of
from pragclash.harness.keeping import marks as kept
from pragclash.harness.keeping.weights import same_weights, weights_of


def main(argv: list[str] | None = None) -> int:
    """Run what is not finished; gives back the launcher's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -P -m pragclash.harness.evaluate_once",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--tasks", required=True, help="tasks and bundles of PragMatch and CLASH")
    parser.add_argument("--model", required=True)
    parser.add_argument("--model_args", default="")
    parser.add_argument("--limit", default="")
    args = parser.parse_args(argv)
    marks = {task: mark_of(args, task) for task in leaves(args.tasks.split(","))}
    weights = weights_of(args.model_args)
    wanted = [task for task, mark in marks.items() if not kept.holds(mark, args.out, weights)]
    done = len(marks) - len(wanted)
    if done:
        print(f"{done} of {len(marks)} tasks of {args.model} are finished ({args.out}/finished)")
    if not wanted:
        return 0
    command = [sys.executable, "-P", "-m", "pragclash.harness.launcher", "--tasks"]
    command += [",".join(wanted)]
    command += ["--model", args.model, "--output_path", str(args.out), "--log_samples"]
    command += ["--use_cache", str(args.out / "cache")]
    command += ["--model_args", args.model_args] if args.model_args else []
    command += ["--limit", args.limit] if args.limit else []
    before = kept.results_below(args.out)
    status = subprocess.call(command)
    if status != 0:
        return status
    # An id on the hub has its commit only once it has been loaded.
    now = weights_of(args.model_args)
    if not same_weights(weights, {name: now[name] for name in weights if name in now}):
        print(f"{args.model}: its weights changed while it ran; run it again", file=sys.stderr)
        return 1
    new = kept.results_below(args.out) - before
    for task in wanted:
        what = {"task": task, "model": args.model, "model_args": redact_arguments(args.model_args)}
        fault = kept.write(marks[task], args.out, task, new, {**what, "weights": now})
        if fault is not None:
            print(f"{task} is not marked as finished: {fault}", file=sys.stderr)
            status = 1
    return status


def leaves(names: list[str]) -> list[str]:
    """Single tasks, each once, in the order of the bundles that hold them.

    >>> leaves(["pragmatch_table1", "pragmatch_pml", "clash_mc"])
    ['pragmatch_pml', 'pragmatch_pml_cot', 'clash_mc']
    """
    pragmatch = task_names()
    found: dict[str, None] = {}
    for name in names:
        members = [task for task in pragmatch if name in tags_of(task)]
        found.update(dict.fromkeys(members or [name]))
    return list(found)


def mark_of(args: argparse.Namespace, task: str) -> Path:
    """The file that says a task is finished; its name changes with all that changes results."""
    parts = [task, args.model, args.model_args, args.limit]
    for benchmark in benchmarks_of(task):
        try:
            parts.append(current_folder(benchmark).fingerprint)
        except FolderError:
            # The launcher says what is wrong with the data.
            parts.append("no data")
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return Path(args.out) / "finished" / f"{task}-{name}.json"


if __name__ == "__main__":
    sys.exit(main())
