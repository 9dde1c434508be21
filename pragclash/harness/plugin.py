"""What the harness loads of this project in every way of starting it; seen in lmms-eval 0.7.3.

The entry-point group `lmms_eval.models` is read when `lmms_eval.models` is imported: by the scripts
`lmms-eval` and `lmms_eval`, by `python -m lmms_eval`, by `accelerate launch -m lmms_eval`, by the
web UI's runs. From here our models are registered, our tasks made known, and a run from the command
line that names one of them gets the checks and the exit status of our own launcher. Any other run
is left as it is. Whatever fails here is one warning: the harness must never break over us, and
nothing heavy may be imported.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pragclash.names import shadowed

if TYPE_CHECKING:
    import argparse

    from lmms_eval.models.registry_v2 import ModelManifest

_CLI = "lmms_eval.__main__"
_TASKS = "lmms_eval.tasks"


def manifests() -> list[ModelManifest]:
    """The manifests of our models; what else is attached is attached on the way."""
    try:
        fault = shadowed()
        if fault is not None:
            _warn(fault)
            return []
        _when_loaded(_TASKS, "TaskManager", _know_tasks)
        _when_loaded(_CLI, "__name__", _watch_cli)
    except Exception as error:
        _warn(f"tasks and checks are not attached: {type(error).__name__}: {error}")
    from model_wrappers.manifests import manifests as models

    return models()


def _warn(message: str) -> None:
    from loguru import logger

    logger.warning(f"pragclash: {message}")


def _know_tasks(module: ModuleType) -> None:
    from pragclash.harness import tasks

    tasks.install(module.TaskManager)


def _when_loaded(name: str, needs: str, do: Callable[[ModuleType], None]) -> None:
    """Call `do` with a module, now if it has what is needed, or when somebody has imported it."""
    module = sys.modules.get(name)
    if module is not None and hasattr(module, needs):
        do(module)
    else:
        sys.meta_path.insert(0, _Waiting(name, do))


class _Waiting(MetaPathFinder):
    """Finds one module as everybody finds it, and does something once it is loaded."""

    def __init__(self, name: str, do: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.do = do

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                try:
                    self.do(module)
                except Exception as error:
                    _warn(f"tasks and checks are not attached: {type(error).__name__}: {error}")

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _WatchedCli(ModuleType):
    """The harness's command-line module, whose `cli_evaluate` is handed out with our checks.

    The module is still being loaded when our entry point is read: what it will define can only be
    changed where it is asked for.
    """

    @property
    def cli_evaluate(self) -> Callable[..., Any]:
        return _with_checks(self.__dict__["cli_evaluate"])


def _watch_cli(module: ModuleType) -> None:
    if type(module) is ModuleType:
        module.__class__ = _WatchedCli


def _with_checks(cli_evaluate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(cli_evaluate)
    def wrapper(args: argparse.Namespace | None = None) -> None:
        from pragclash.harness import tasks

        argv = sys.argv[1:]
        given = getattr(args, "tasks", None)
        names = given.split(",") if isinstance(given, str) else tasks.tasks_named(argv)
        tasks.expect(names)
        outcome = None
        if tasks.any_ours(names):
            try:
                from pragclash.harness import evaluation

                outcome = evaluation.install(argv)
            except Exception as error:
                _warn(f"checks are not attached: {type(error).__name__}: {error}")
        if outcome is None:
            cli_evaluate(args)
        else:
            outcome.run(lambda: cli_evaluate(args))

    return wrapper
