"""A real browser for tests: Debian's chromium, driven by playwright-core from a node script.

    result = drive(Path("page.mjs"), {"url": ...})

runs the script, which imports `tests/browser/launch.mjs` and reports one JSON object. Where node,
chromium or playwright-core is absent the test is skipped, and says which.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = "playwright-core"


@functools.cache
def _tools() -> tuple[str, str, str] | str:
    """Node, chromium and the folder that holds playwright-core; or what is absent."""
    node = shutil.which("node")
    if node is None:
        return "node is not installed"
    chromium = os.environ.get("PRAGCLASH_CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if chromium is None:
        return "chromium is not installed (Debian: apt-get install chromium)"
    named = os.environ.get("PRAGCLASH_NODE_MODULES")
    folders = [Path(named)] if named else []
    folders += [HERE / "node_modules", ROOT / "node_modules"]
    for folder in folders:
        if (folder / PACKAGE / "package.json").is_file():
            return node, chromium, str(folder / PACKAGE)
    return f"{PACKAGE} is not installed: npm install --prefix tests/browser"


def need_browser() -> tuple[str, str, str]:
    """Node, chromium and playwright-core, or a skip that says what is absent."""
    found = _tools()
    if isinstance(found, str):
        pytest.skip(f"no browser test: {found}")
    return found


def drive(script: Path, config: dict[str, Any], timeout: float = 120) -> dict[str, Any]:
    """Run a node script that calls `run` of `launch.mjs`, and give back what it reported."""
    node, chromium, playwright = need_browser()
    whole = {**config, "chromium": chromium, "playwright": playwright}
    done = subprocess.run(
        [node, str(script)],
        input=json.dumps(whole),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"{script.name}: {done.stderr[-4000:]}"
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
