"""The checks around an evaluation: what is refused before it, looked at after it, said about it.

Mends, in lmms-eval 0.7.3: a failed evaluation exits 0 (`lmms_eval.__main__.cli_evaluate` prints
every exception and goes on), so do answers that are all empty and results that could not be
written; the arguments are printed with their keys; nothing says how much is going to be asked. The
places are `cli_evaluate_single` of `lmms_eval.__main__`, `simple_evaluate` and `evaluate` of
`lmms_eval.evaluator`, and those of `asking`, `cache`, `identity`, `saving`, `seals` and `tasks`; a
test fails when one is gone.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from postprocess.runs.refused import faults_of
from postprocess.secrets import (
    redact,
    redact_answer,
    redact_arguments,
    redacted_output,
    without_secrets,
)
from pragclash.harness import asking, cache, identity, saving, seals, tasks
from pragclash.harness.arguments import UsageError, check_arguments, check_config
from pragclash.harness.keeping.health import set_aside_damaged
from pragclash.harness.keeping.weights import weights_of

if TYPE_CHECKING:
    import argparse


@dataclass
class Outcome:
    """What became of the evaluations of one call."""

    argv: Sequence[str] = ()
    """The call's arguments."""
    default_model: bool = False
    """Whether the embedded model stands in where none is named."""
    failures: list[str] = field(default_factory=list)
    status: int = 0

    def fail(self, message: str, status: int = 1) -> None:
        """Note a failure; the highest status is the call's exit status."""
        self.failures.append(message)
        self.status = max(self.status, status)

    def run(self, call: Callable[[], Any]) -> None:
        """Call the harness, then say what failed and exit with its status.

        Raises:
            SystemExit: Something failed.
        """
        with redacted_output():
            try:
                check_config(tasks.option(self.argv, "--config"))
                call()
            except UsageError as error:
                self.fail(str(error), 2)
            except KeyboardInterrupt:
                self.fail("interrupted; with --use_cache PATH the same command goes on", 130)
            for failure in self.failures:
                print(f"lmms_eval: {failure}", file=sys.stderr)
            sys.stderr.flush()
        if self.status:
            sys.exit(self.status)


_installed: list[Outcome] = []


def install(argv: Sequence[str], default_model: bool = False) -> Outcome | None:
    """Put the checks where the harness looks its own functions up; once a process.

    Returns:
        What the run's failures will be noted in; None where the checks are there already.
    """
    import lmms_eval.__main__ as cli
    import lmms_eval.tasks
    from lmms_eval import evaluator

    if _installed:
        return None
    outcome = Outcome(argv, default_model)
    _installed.append(outcome)
    tasks.install(lmms_eval.tasks.TaskManager)
    cli.cli_evaluate_single = _watched(cli.cli_evaluate_single, outcome)
    evaluator.simple_evaluate = _checked(evaluator.simple_evaluate, outcome)
    evaluator.evaluate = _announced(evaluator.evaluate)
    evaluator.get_task_dict = identity.remembering_own(evaluator.get_task_dict)
    cache.install(argv)
    seals.install()
    return outcome


def _watched(evaluate_single: Callable[..., Any], outcome: Outcome) -> Callable[..., Any]:
    """Check arguments first, and keep the failure that the harness would print and forget."""

    @functools.wraps(evaluate_single)
    def wrapper(args: argparse.Namespace) -> Any:
        try:
            check_arguments(args, outcome.default_model)
            full = saving.no_room(args.output_path, getattr(args, "use_cache", None))
            if full is not None:
                raise UsageError(full)
            if getattr(args, "use_cache", None):
                set_aside_damaged(args.use_cache, _rank())
            with saving.Stamp(args.output_path, _rank()) as stamp:
                results_and_samples = evaluate_single(args)
                if args.output_path and _rank() == 0:
                    rows = results_and_samples[1]
                    for fault in saving.unsaved(args.output_path, stamp.value, rows):
                        outcome.fail(fault)
            return results_and_samples
        except UsageError as error:
            outcome.fail(str(error), 2)
            return None, None
        except Exception as error:
            outcome.fail(f"the evaluation failed: {type(error).__name__}: {error}")
            raise
        finally:
            # The harness prints the arguments above its table, keys and all.
            args.model_args = redact_arguments(args.model_args or "")

    return wrapper


def _announced(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Say what is coming, and keep what the model notes about its own run."""

    @functools.wraps(evaluate)
    def wrapper(lm: Any, task_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        if _rank() == 0:
            print(announcement(task_dict, kwargs.get("limit"), kwargs.get("offset", 0)), flush=True)
        seals.believe_replays(lm)
        asking.watch(lm)
        asked = identity.asked_of(task_dict, kwargs)
        weights = weights_of(getattr(kwargs.get("cli_args"), "model_args", None))
        results = evaluate(lm, task_dict, *args, **kwargs)
        if results is not None:
            run_id, model = identity.new_run_id(), getattr(kwargs.get("cli_args"), "model", None)
            simple = bool(getattr(lm, "is_simple", True))
            identity.tie(results.get("samples", {}), asked, run_id, str(model), simple)
            notes = getattr(lm, "run_notes", None)
            made = {"run_id": run_id, **({"weights": weights} if weights else {})}
            results["run_notes"] = {**(notes() if callable(notes) else {}), **made}
        return results

    return wrapper


def announcement(task_dict: Mapping[str, Any], limit: float | None, offset: int = 0) -> str:
    """One line on what a run will ask: tasks, documents, pictures, requests."""
    from lmms_eval.evaluator_utils import get_sample_size

    n_docs = n_requests = 0
    pictures: set[Any] = set()
    chosen_tasks = list(tasks.leaves(task_dict))
    for task in chosen_tasks:
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
    return f"lmms_eval: {len(chosen_tasks)} tasks, {n_docs} documents, {seen}{n_requests} requests"


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
            for failure in faults_of(task, answers.answers_of(rows)):
                outcome.fail(failure)
            answers.make_encodable(rows)
            for row in rows:
                for name in ("resps", "filtered_resps"):
                    row[name] = seals.without_seals(row.get(name))
        model_notes = results.pop("run_notes", None) or {}
        notes = {**answers.notes_of(samples), **model_notes}
        config = results.setdefault("config", {})
        config["pragclash"] = notes
        if isinstance(config.get("model_args"), str):
            config["model_args"] = redact_arguments(config["model_args"])
        answers.mend_errors(results, samples)
        for rows in samples.values():
            rows[:] = without_secrets(rows, redact_answer)
        for name in results.keys() - {"samples"}:
            results[name] = without_secrets(results[name])
        # The tracker adds these to the results when it writes them, and names the folder by them.
        general = getattr(kwargs.get("evaluation_tracker"), "general_config_tracker", None)
        for name in ("system_instruction", "model_name", "model_name_sanitized"):
            if isinstance(getattr(general, name, None), str):
                setattr(general, name, redact(getattr(general, name)))
        if not wanted:
            results.pop("samples", None)
        return results

    return wrapper


def _rank() -> int:
    return int(os.environ.get("RANK", 0))
