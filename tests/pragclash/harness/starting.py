"""Processes that start as an installed copy of this checkout would."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests import ROOT

BIN = Path(sys.executable).parent


def install_metadata(folder: Path) -> None:
    """Write the metadata of an installed package, so that no installation need be up to date."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / f"pragclash-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: pragclash\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def start(command: list, installed: Path, cwd: Path, **env: str) -> subprocess.CompletedProcess:
    """Run a command in another folder, with this checkout as what is installed."""
    environment = {**os.environ, "PYTHONPATH": f"{installed}{os.pathsep}{ROOT}", **env}
    environment["OMP_NUM_THREADS"] = "1"
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=240,
    )
