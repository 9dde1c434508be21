"""Collect people's votes on a dataset, or on what a run left unread, on a page of this machine.

It prints a link; open it in a browser. Every vote is on disk before the page goes on, so the
command may be stopped or killed at any time: the same command goes on where it was. Several people
may vote into one file, each with a name and a link of their own.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

from lmms_eval_tasks.annotation.guard import is_loopback
from lmms_eval_tasks.annotation.plan import TASKS, items_of
from lmms_eval_tasks.annotation.store import Store, annotator_name
from lmms_eval_tasks.annotation.unread import DECISIONS, READING, unread_items, write_decisions
from lmms_eval_tasks.dataset.folder import load_folder
from pragclash.cli.arguments import positive, whole

DATABASE = "votes.sqlite3"
"""The votes file inside the dataset folder."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash annotate`."""
    parser.add_argument(
        "folder", type=Path, nargs="?", metavar="DIR", help="dataset folder (--unread: optional)"
    )
    parser.add_argument(
        "--unread",
        type=Path,
        metavar="RUN",
        help=f"read the answers that a run folder left open; decisions go to RUN/{DECISIONS}",
    )
    parser.add_argument(
        "--task",
        choices=TASKS,
        help="sarcasm: is the pair sarcastic (PragMatch); clash: is the item sound (CLASH)",
    )
    parser.add_argument("--annotator", metavar="NAME", required=True, help="who votes")
    parser.add_argument(
        "--host", default="127.0.0.1", help="where to listen (default: this machine only)"
    )
    parser.add_argument(
        "--port",
        type=whole(0, 65535),
        default=0,
        help="default: the one used last time, or any free one",
    )
    parser.add_argument("--db", type=Path, metavar="FILE", help=f"default: {DATABASE} in DIR")
    parser.add_argument(
        "--seed",
        type=int,
        help="of the order and of --pictures; kept in the votes file (default: 0)",
    )
    parser.add_argument(
        "--only",
        type=_kinds,
        metavar="KINDS",
        help="; ".join(
            f"{task.name}: of {','.join(task.kinds)} (default {','.join(task.default)})"
            for task in TASKS.values()
        ),
    )
    parser.add_argument(
        "--pictures",
        type=positive,
        metavar="N",
        help="captions of N pictures only; all annotators get the same pictures",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further name that this machine is reached by; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Serve the page until it is stopped.

    Raises:
        ValueError: The folder, the votes file, a name or a choice cannot be used, or the packages
            of the page are not installed.
        OSError: The port is taken.
    """
    try:
        from lmms_eval_tasks.annotation import serve, server
    except ImportError as error:
        raise ValueError(
            f"the page needs {error.name}: python -m pip install 'pragclash[annotate]'"
        ) from error
    if args.unread is None and (args.folder is None or args.task is None):
        raise ValueError("give DIR and --task, or --unread RUN")
    task = READING if args.unread else TASKS[args.task]
    annotator = annotator_name(args.annotator)
    folder = load_folder(args.folder, task.benchmark) if args.folder else None
    if folder is not None and folder.omitted:
        print(f"{len(folder.omitted)} pictures cannot be used; `pragclash validate` names them")
    home = args.unread or args.folder
    store = Store.open(args.db or home / DATABASE, task.name, create=True)
    try:
        seed = _settle(store, annotator, args.seed)
        path = home if folder is None else folder.path
        if args.unread:
            items = unread_items(args.unread, folder)
            write = functools.partial(write_decisions, store, args.unread / DECISIONS)
            session = server.Session(path, task, items, store, annotator, seed, write)
        else:
            assert folder is not None
            items = items_of(folder, task, args.only, args.pictures, seed)
            session = server.Session(path, task, items, store, annotator, seed)
        used = f"port of {annotator}"
        wished = int(store.meta(used) or 0)
        with serve.listen(args.host, args.port, wished) as listening:
            store.set_meta(used, str(listening.getsockname()[1]))
            link = serve.link(args.host, listening, session.key)

            def started() -> None:
                done = len(session.given())
                print(
                    f"{done} of {len(items)} done by {annotator}, votes in {store.path}\n"
                    f"open {link}\n"
                    "Ctrl-C stops; the same command goes on",
                    flush=True,
                )

            if not is_loopback(args.host):
                print(
                    f"warning: --host {args.host}: everybody on this network who has the link can "
                    "read the data and vote, and the connection is not encrypted; `ssh -L` with "
                    "the default host is safer",
                    file=sys.stderr,
                )
            app = server.application(session, args.host, tuple(args.allow_host))
            serve.serve(app, listening, started)
        print(f"stopped: {len(session.given())} of {len(items)} done by {annotator}")
    finally:
        store.close()
    return 0


def _settle(store: Store, annotator: str, seed: int | None) -> int:
    """The file's seed; the first run sets it. A name that only looks different is refused."""
    for known in store.asked():
        if known != annotator and known.casefold() == annotator.casefold():
            raise ValueError(f"--annotator {annotator!r}: {store.path} knows {known!r}")
    stored = int(store.set_meta("seed", str(seed or 0), keep=True))
    if seed is not None and seed != stored:
        raise ValueError(
            f"--seed {seed}: {store.path} began with seed {stored}, and all its annotators get the "
            "same pictures; leave --seed out or use another --db"
        )
    return stored


def _kinds(text: str) -> list[str]:
    return [kind.strip() for kind in text.split(",") if kind.strip()]
