"""`lmms_eval`: the harness's own command line with our tasks and models, and honest exit codes.

Every flag is the harness's. Around it this launcher adds the task folder, the embedded default
model, a word on what is coming, and the checks that turn a silent failure into a non-zero exit:
0 done; 1 an evaluation failed, all answers of a task were empty or failed, or more than 1% of its
requests failed; 2 arguments or data cannot be used.

It reaches into lmms-eval 0.7.3 at the places named in `_install`, which is why that version is
pinned; a test fails when one of them is gone.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from pragclash.harness import cache, seals
from pragclash.harness.arguments import TASK_PATH, UsageError, check_arguments

if TYPE_CHECKING:
    import argparse

OUR_MODELS = (
    "verdict",
    "mismatch_detector",
    "socratic",
    "caption_bert",
    "caption_format",
    "human_votes",
)

PREFACE = f"""\
lmms_eval (pragclash): lmms-eval with the tasks pragmatch_* and clash_* and the models
{", ".join(OUR_MODELS)}.
Without --model it runs the embedded mismatch_detector, which needs no GPU and no download:

  lmms_eval --tasks pragmatch_pm
  lmms_eval --tasks pragmatch_pm --model verdict \\
      --model_args backend=llava_hf,pretrained=llava-hf/llava-v1.6-mistral-7b-hf,device_map=auto

All flags are lmms-eval's; `lmms_eval eval --help` lists them.
"""


@dataclass
class Outcome:
    """What became of the evaluations of one call."""

    failures: list[str] = field(default_factory=list)
    status: int = 0

    def fail(self, message: str, status: int = 1) -> None:
        """Note a failure; the highest status is the call's exit status."""
        self.failures.append(message)
        self.status = max(self.status, status)


def main(argv: list[str] | None = None) -> None:
    """Run the harness with our tasks and exit with a status that says how it went."""
    argv = list(sys.argv[1:] if argv is None else argv)
    outcome = Outcome()
    if argv in (["--help"], ["-h"]):
        print(PREFACE)
    try:
        _run(argv, outcome)
    except KeyboardInterrupt:
        outcome.fail("interrupted; with --use_cache PATH the same command goes on", 130)
    if argv[:1] == ["models"]:
        print(f"\nOf pragclash: {', '.join(OUR_MODELS)}")
    for failure in outcome.failures:
        print(f"lmms_eval: {failure}", file=sys.stderr)
    sys.stderr.flush()
    if outcome.status:
        sys.exit(outcome.status)


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
    seals.install()


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

        @staticmethod
        def names_in(path: str) -> set[str]:
            """Names of the tasks and bundles below a folder."""
            return set(indexed((path,), False))

        def initialize_tasks(
            self, include_path: list[str] | None = None, include_defaults: bool = True
        ) -> dict[str, Any]:
            return dict(indexed(tuple(include_path or ()), include_defaults))

    return TaskManager


def _watched(evaluate_single: Callable[..., Any], outcome: Outcome) -> Callable[..., Any]:
    """Check arguments first, and keep the failure that the harness would print and forget."""
    from postprocess.runs.folder import redacted

    @functools.wraps(evaluate_single)
    def wrapper(args: argparse.Namespace) -> Any:
        started = time.time()
        try:
            check_arguments(args)
            results_and_samples = evaluate_single(args)
            if args.output_path and _rank() == 0:
                _check_saved(args.output_path, started, outcome)
            return results_and_samples
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


def _check_saved(folder: str, started: float, outcome: Outcome) -> None:
    """The harness logs a results file that it could not write, and goes on."""
    found = Path(folder).rglob("*_results.json")
    if not any(path.stat().st_mtime >= started - 2 for path in found):
        outcome.fail(f"no results file was written below {folder}")


def _announced(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Say what is coming, and keep what the model notes about its own run."""

    @functools.wraps(evaluate)
    def wrapper(lm: Any, task_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        if _rank() == 0:
            print(announcement(task_dict, kwargs.get("limit"), kwargs.get("offset", 0)), flush=True)
        seals.believe_replays(lm)
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
        from pragclash.harness import answers

        wanted = kwargs.get("log_samples", True)
        kwargs["log_samples"] = True
        results = simple_evaluate(*args, **kwargs)
        if results is None:
            return None
        samples = results.get("samples", {})
        for task, rows in samples.items():
            for failure in answers.faults_of(task, answers.answers_of(rows)):
                outcome.fail(failure)
            answers.make_encodable(rows)
            for row in rows:
                for name in ("resps", "filtered_resps"):
                    row[name] = seals.without_seals(row.get(name))
        model_notes = results.pop("run_notes", None) or {}
        notes = {**answers.notes_of(samples), **model_notes}
        results.setdefault("config", {})["pragclash"] = notes
        answers.mend_errors(results, samples)
        if not wanted:
            results.pop("samples", None)
        return results

    return wrapper


def _rank() -> int:
    return int(os.environ.get("RANK", 0))


if __name__ == "__main__":
    main()
