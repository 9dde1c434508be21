"""`pragclash`: data, scores, tables and reports around the harness; one module a command.

A command's module is imported only when it is called, so that `pragclash --help` and the light
commands start at once; `--print-completion` alone imports them all.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, NamedTuple

from pragclash.names import require_own

SHELLS = ("bash", "zsh", "tcsh")


class Command(NamedTuple):
    """Where a command lives: a module with `add_arguments(parser)` and `run(args) -> int`."""

    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "validate": Command("pragclash.cli.validate", "check a dataset folder and list all its faults"),
    "score": Command("pragclash.cli.score", "score prediction files anew, check stored flags"),
    "reproduce": Command(
        "pragclash.cli.reproduce", "the CLASH paper's tables from your copy of its release"
    ),
    "tables": Command("pragclash.cli.tables", "the papers' tables from run folders"),
    "power": Command("pragclash.cli.power", "how many pictures a difference needs"),
    "report": Command("pragclash.cli.report", "one self-contained page about one or several runs"),
    "compare": Command("pragclash.cli.compare", "two runs on the same pictures"),
    "export": Command("pragclash.cli.export", "submissions: Every Eval Ever, Hugging Face"),
    "finetune": Command("pragclash.cli.finetune", "LoRA adapter that answers contradictions"),
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
        "pragclash.cli.data_clash",
        "CLASH from your copies of the release and of COCO train2017",
    ),
    "clash-build": Command(
        "pragclash.cli.data_clash_build", "CLASH samples out of any pictures with captions"
    ),
    "clash-qc": Command(
        "pragclash.cli.data_clash_qc", "check CLASH samples by rules, or by a model too"
    ),
    "clash-categories": Command(
        "pragclash.cli.data_clash_categories", "categories of CLASH samples; --derive"
    ),
}
"""What `pragclash data ...` builds."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help as its author laid it out, with the default of each option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help or ""
        untold = action.default in (None, False, argparse.SUPPRESS) or action.default == []
        if untold or "default" in text or action.nargs == 0:
            return text
        return f"{text} (default: %(default)s)"


class Parser(argparse.ArgumentParser):
    """A parser that asks a command's module for its arguments when the command is called."""

    def __init__(self, command: Command | None = None, **settings: Any) -> None:
        """As argparse's, and the command whose arguments are still to be asked for."""
        super().__init__(formatter_class=Formatter, **settings)
        self.command = command

    def fill(self) -> None:
        """Import the command's module and take its arguments, once."""
        if self.command is None:
            return
        module, self.command = importlib.import_module(self.command.module), None
        self.description = module.__doc__
        module.add_arguments(self)
        self.add_argument("--debug", action="store_true", help="show where a failure comes from")
        self.set_defaults(run=module.run, prog=self.prog)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse does, once the arguments are there."""
        self.fill()
        return super().parse_known_args(args, namespace)


class _PrintCompletion(argparse.Action):
    """Prints a completion script; every command's module is imported for it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        import shtab

        _fill_all(parser)
        print(shtab.complete(parser, values))
        parser.exit(0)


def _fill_all(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                child.fill()
                _fill_all(child)


def build_parser() -> Parser:
    """The parser of all commands; their own arguments are asked for when they are called."""
    parser = Parser(
        prog="pragclash",
        description="Paired scoring for PragMatch and CLASH.",
        epilog="`pragclash COMMAND --help` explains a command. "
        "Evaluations run with `lmms_eval --tasks ...`.",
    )
    version = f"pragclash {metadata.version('pragclash')}"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        choices=SHELLS,
        metavar="SHELL",
        help=f"print a completion script for {', '.join(SHELLS)}",
    )
    commands = _add_commands(parser, COMMANDS)
    data = commands.add_parser("data", help="build data", description="Build data.")
    _add_commands(data, DATA)
    return parser


def _add_commands(parser: Parser, commands: Mapping[str, Command]) -> Any:
    group = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=Parser
    )
    for name, command in commands.items():
        group.add_parser(name, help=command.help, command=command)
    return group


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit with its status; 2 for arguments that cannot be used."""
    require_own("pragclash")
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Run one command.

    Returns:
        Its exit status.
    """
    parser = build_parser()
    if not argv:
        parser.print_help()
        return 2
    args = parser.parse_args(argv)
    try:
        status: int = args.run(args)
    except (OSError, ValueError) as error:
        if args.debug:
            raise
        print(f"{args.prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{args.prog}: interrupted; what was finished is kept", file=sys.stderr)
        return 130
    return status


if __name__ == "__main__":
    main()
