"""`pragclash report`: one self-contained page about one or several runs.

The page opens from disk, loads nothing, and runs exactly one script, ours: its policy names that
script by hash. All data stand in it as JSON, and all text reaches the page as text.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from postprocess.publish import report_data
from postprocess.publish.report_pairs import Media
from postprocess.runs.folder import Runs, read_runs
from postprocess.tables.build import MixedError, add_computing_arguments, options_of, tell
from postprocess.tables.model import DEFAULT, Options

MAX_BYTES = 15_000_000
"""What a page with 10,000 records stays under; a larger one is written, and said to be large."""


def build(
    runs: Runs,
    options: Options = DEFAULT,
    media: Mapping[str, Media] | None = None,
    *,
    with_media: bool = True,
) -> str:
    """The page as text, in ASCII but for the page's own assets.

    Args:
        runs: What was read.
        options: How figures are computed.
        media: Dataset folders by fingerprint, for pictures and captions.
        with_media: Whether pictures and captions may be in the page; without, ids only.

    Raises:
        MixedError: The runs differ in data or prompts, and `options.mix` is off.
    """
    return page(report_data.payload(runs, options, media or {}, with_media=with_media))


def page(data: Mapping[str, Any]) -> str:
    """The page around its data."""
    style, script = asset("page.css"), asset("page.js")
    policy = (
        f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    )
    parts = {"policy": policy, "style": style, "script": script, "data": embedded(data)}
    out = []
    for piece in asset("page.html").split("{{"):
        name, closed, rest = piece.partition("}}")
        out.append(parts[name] + rest if closed else piece)
    return "".join(out)


def embedded(data: Mapping[str, Any]) -> str:
    r"""JSON that may stand inside a script element, whatever its texts hold.

    Without `<` nothing in it can end the element or begin a comment; in ASCII a lone surrogate
    stays an escape.

    >>> embedded({"a": "</script>"})
    '{"a":"\\u003c/script>"}'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def asset(name: str) -> str:
    """A file of the page's own."""
    path = resources.files("postprocess.publish") / "assets" / name
    return path.read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash report`."""
    parser.add_argument(
        "--runs", nargs="+", type=Path, required=True, metavar="DIR", help="run folders"
    )
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE")
    parser.add_argument("--force", action="store_true", help="overwrite --out")
    parser.add_argument(
        "--no-media",
        action="store_true",
        help="ids only: neither pictures nor captions, for data that must not be passed on",
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    add_computing_arguments(parser)


def run(args: argparse.Namespace, media: Mapping[str, Media] | None = None) -> int:
    """Write a report.

    Args:
        args: Parsed arguments.
        media: Dataset folders by fingerprint; the caller knows where they are.

    Returns:
        0; 1 where the runs must not stand in one report or the file exists; 2 without any run.
    """
    if args.out.exists() and not args.force:
        print(f"pragclash report: {args.out} exists; --force overwrites it", file=sys.stderr)
        return 1
    runs = read_runs(args.runs)
    tell(runs.problems, "report")
    if not runs.runs:
        print("pragclash report: no records in these folders", file=sys.stderr)
        return 2
    try:
        text = build(runs, options_of(args), media, with_media=not args.no_media)
    except MixedError as error:
        print(f"pragclash report: {error}", file=sys.stderr)
        return 1
    args.out.parent.mkdir(parents=True, exist_ok=True)
    size = args.out.write_text(text, encoding="utf-8")
    records = sum(len(task.records) for one in runs.runs for task in one.tasks.values())
    if size > MAX_BYTES:
        print(
            f"pragclash report: {args.out} has {size / 1e6:.0f} MB; --no-media or fewer runs make "
            "it smaller",
            file=sys.stderr,
        )
    if args.json:
        written = {"out": str(args.out), "bytes": size, "records": records}
        print(json.dumps({**written, "runs": [one.label for one in runs.runs]}))
    else:
        print(f"{args.out}: {len(runs.runs)} models, {records} records, {size / 1e6:.1f} MB")
    return 0
