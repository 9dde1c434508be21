"""Our tasks in the harness's index of tasks; seen in lmms-eval 0.7.3.

Mends: an installed package can register models, and no tasks. The harness's task manager is
changed in place, so that whoever has imported it sees the tasks. Its own tasks win a clash of
names, then those of --include_path. Reading its some thousand YAML files takes seconds: they are
read once a process, and not at all for a run whose every task is ours; ours are not read for a run
that names none of them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import yaml
from loguru import logger

import lmms_eval_tasks

TASK_PATH = str(Path(lmms_eval_tasks.__file__).parent)
PREFIXES = ("pragmatch", "clash")
"""Names of the built-in benchmarks, known here so that a foreign run need not load them."""

_LISTS = re.compile(r"list(_\w+)?$")
_named: list[str] = []
"""The tasks of this run, where it was started from the command line; empty: any may be asked."""


def expect(names: Iterable[str]) -> None:
    """Say which tasks the run asks for, so that no other needs to be read."""
    _named[:] = names


def tasks_named(argv: Sequence[str]) -> list[str]:
    """The names given with --tasks, or in the file of --config.

    >>> tasks_named(["--tasks", "pragmatch_pm,clash", "--limit", "4"])
    ['pragmatch_pm', 'clash']
    """
    given = option(argv, "--tasks")
    if given is not None:
        return given.split(",")
    config = option(argv, "--config")
    return [] if config is None else _tasks_of_config(Path(config))


def option(argv: Sequence[str], name: str) -> str | None:
    """The last value given for an option of the command line, or None.

    >>> option(["--limit=4", "-x"], "--limit")
    '4'
    """
    value = None
    for arg, following in zip(argv, [*argv[1:], None], strict=True):
        if arg == name:
            value = following
        elif arg.startswith(f"{name}="):
            value = arg.removeprefix(f"{name}=")
    return value


def configs_of(path: Path) -> list[Any]:
    """The parts of a file of `--config`, whatever stands there."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content if isinstance(content, list) else [content]


def _tasks_of_config(path: Path) -> list[str]:
    """None where the file cannot be read: of that the harness complains in its own words."""
    try:
        configs = configs_of(path)
    except (OSError, ValueError, yaml.YAMLError):
        return []
    tasks = [config.get("tasks") for config in configs if isinstance(config, dict)]
    return [name for names in tasks if isinstance(names, str) for name in names.split(",")]


def any_ours(names: Iterable[str]) -> bool:
    """Whether a task, a bundle or a pattern among the names can be one of ours.

    >>> any_ours(["mme"]), any_ours(["mme", "clash_mc"]), any_ours(["prag*"]), any_ours(["clashy"])
    (False, True, True, False)
    """
    prefixes = (*PREFIXES, *(point.name for point in entry_points(group="pragclash.benchmarks")))
    for name in names:
        fixed = re.split(r"[*?\[]", name)[0]
        for prefix in prefixes:
            pattern = fixed != name and prefix.startswith(fixed)
            if name == prefix or name.startswith(f"{prefix}_") or pattern:
                return True
    return False


def leaves(task_dict: Mapping[Any, Any]) -> Iterable[Any]:
    """The single tasks of the harness's nested mapping of loaded tasks."""
    for task in task_dict.values():
        if isinstance(task, Mapping):
            yield from leaves(task)
        else:
            yield task[1] if isinstance(task, tuple) else task


def names_in(path: str) -> set[str]:
    """Names of the tasks and bundles below a folder."""
    import lmms_eval.tasks

    return set(_read(lmms_eval.tasks.TaskManager, path))


def install(manager: Any) -> None:
    """Change the harness's class of task managers in place; once a process."""
    if hasattr(manager, "_before_pragclash"):
        return
    original = manager._before_pragclash = manager.initialize_tasks

    @functools.wraps(original)
    def initialize_tasks(
        self: Any, include_path: str | list[str] | None = None, include_defaults: bool = True
    ) -> dict[str, Any]:
        own = [include_path] if isinstance(include_path, str) else list(include_path or [])
        asks_ours = not _named or any_ours(_named) or any(map(_LISTS.match, _named))
        ours = _read(manager, TASK_PATH) if include_defaults and asks_ours else {}
        only_ours = bool(_named) and set(_named) <= set(ours)
        index = {**ours, **original(self, own, False)}
        return index if only_ours or not include_defaults else {**index, **_defaults(manager)}

    manager.initialize_tasks = initialize_tasks


@functools.cache
def _read(manager: Any, path: str) -> dict[str, Any]:
    # The harness sets its log level only later, and names every shared YAML piece at DEBUG.
    logger.disable("lmms_eval.tasks")
    try:
        return _index(manager, [path], False)
    finally:
        logger.enable("lmms_eval.tasks")


@functools.cache
def _defaults(manager: Any) -> dict[str, Any]:
    return _index(manager, [], True)


def _index(manager: Any, paths: list[str], include_defaults: bool) -> dict[str, Any]:
    plain = manager.__new__(manager)
    plain.logger = logger
    original = getattr(manager, "_before_pragclash", manager.initialize_tasks)
    index: dict[str, Any] = original(plain, paths, include_defaults)
    return index
