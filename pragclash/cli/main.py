"""`pragclash`: data, scores, tables and reports around the harness; one module a command.

A command's module is imported only when it is called, so that `pragclash --help` and the light
commands start at once.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from importlib import metadata
from typing import NamedTuple


class Command(NamedTuple):
    """Where a command lives: a module with `add_arguments(parser)` and `run(args) -> int`."""

    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "validate": Command("pragclash.cli.validate", "check a dataset folder and list all its faults"),
    "score": Command("postprocess.runs.rescore", "score prediction files anew, check stored flags"),
    "tables": Command("pragclash.cli.tables", "the papers' tables from run folders"),
    "report": Command("pragclash.cli.report", "one self-contained page about one or several runs"),
    "compare": Command("pragclash.cli.compare", "two runs on the same pictures"),
    "export": Command("pragclash.cli.export", "submissions: Every Eval Ever, Hugging Face"),
    "finetune": Command(
        "lmms_eval_tasks.clash.finetune.command", "LoRA adapter that answers contradictions"
    ),
    "annotate": Command("pragclash.cli.annotate", "collect people's votes on a local page"),
    "agreement": Command(
        "pragclash.cli.agreement", "agreement and accuracy of people; exports their votes"
    ),
}
DATA: dict[str, Command] = {
    "pragmatch": Command(
        "pragclash.cli.data_pragmatch", "PragMatch from MMSD2.0 or your own posts; --audit"
    ),
    "clash": Command(
        "lmms_eval_tasks.clash.make.build_release",
        "CLASH from your copies of the release and of COCO train2017",
    ),
    "clash-build": Command(
        "lmms_eval_tasks.clash.make.build", "CLASH samples out of any pictures with captions"
    ),
    "clash-qc": Command(
        "lmms_eval_tasks.clash.make.check", "check CLASH samples by rules, or by a model too"
    ),
    "clash-categories": Command(
        "lmms_eval_tasks.clash.make.categories", "categories of CLASH samples; --derive"
    ),
}
"""What `pragclash data ...` builds."""


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit with its status; 2 for arguments that cannot be used."""
    argv = list(sys.argv[1:] if argv is None else argv)
    sys.exit(run(argv))


def run(argv: list[str]) -> int:
    """Run one command.

    Returns:
        Its exit status.
    """
    if argv[:1] == ["--version"]:
        print(f"pragclash {metadata.version('pragclash')}")
        return 0
    if argv[:1] == ["data"]:
        return _dispatch("pragclash data", DATA, argv[1:])
    return _dispatch("pragclash", COMMANDS, argv)


def _dispatch(prog: str, commands: dict[str, Command], argv: list[str]) -> int:
    name = argv[0] if argv else "--help"
    if name in ("--help", "-h"):
        print(_overview(prog, commands))
        return 0 if argv else 2
    if name not in commands:
        known = ", ".join([*commands, *(["data"] if prog == "pragclash" else [])])
        print(f"{prog}: unknown command {name!r}; known: {known}", file=sys.stderr)
        return 2
    command = commands[name]
    module = importlib.import_module(command.module)
    parser = argparse.ArgumentParser(
        prog=f"{prog} {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    args = parser.parse_args(argv[1:])
    try:
        status: int = module.run(args)
    except (OSError, ValueError) as error:
        if "--debug" in argv:
            raise
        print(f"{prog} {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{prog} {name}: interrupted; what was finished is kept", file=sys.stderr)
        return 130
    return status


def _overview(prog: str, commands: dict[str, Command]) -> str:
    lines = [f"usage: {prog} COMMAND [options]", ""]
    shown = dict(commands)
    if prog == "pragclash":
        lines = ["pragclash: paired scoring for PragMatch and CLASH", "", *lines]
        shown = {"data": Command("", f"build data: {', '.join(DATA)}"), **shown}
    width = max(map(len, shown), default=0)
    lines += [f"  {name:<{width}}  {command.help}" for name, command in shown.items()]
    lines += ["", f"`{prog} COMMAND --help` explains a command."]
    if prog == "pragclash":
        lines.append("Evaluations run with `lmms_eval --tasks ...`.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
