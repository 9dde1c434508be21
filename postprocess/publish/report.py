"""One self-contained page about one or several runs.

The page opens from disk, loads nothing, and runs exactly one script, ours: its policy names that
script by hash. All data stand in it as JSON, and all text reaches the page as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from postprocess.publish import report_data
from postprocess.publish.report_pairs import Media
from postprocess.runs.folder import Runs
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
