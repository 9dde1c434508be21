"""The floors of the house: nothing imports upwards, and the ground floor stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "postprocess": {"postprocess"},
    "lmms_eval_tasks": {"postprocess", "lmms_eval_tasks"},
    "model_wrappers": {"postprocess", "lmms_eval_tasks", "model_wrappers"},
    "pragclash": {"postprocess", "lmms_eval_tasks", "model_wrappers", "pragclash"},
}
BANNED = {"postprocess": {"torch", "lmms_eval", "transformers", "datasets"}}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", ALLOWED)
def test_nothing_imports_upwards(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        upwards = (imports(path) & set(ALLOWED)) - ALLOWED[package]
        banned = imports(path) & BANNED.get(package, set())
        assert not upwards | banned, f"{path.relative_to(ROOT)} imports {upwards | banned}"


def test_tasks_do_not_import_models():
    for path in (ROOT / "lmms_eval_tasks").rglob("*.py"):
        assert "model_wrappers" not in imports(path), path.name


@pytest.mark.parametrize("module", ["pragclash.cli.main", "pragclash.harness.launcher"])
def test_help_does_not_load_torch(module):
    code = f"""
import runpy, sys
sys.argv = ["x", "--help"]
try:
    runpy.run_module({module!r}, run_name="__main__")
except SystemExit:
    pass
sys.exit("torch was loaded" if "torch" in sys.modules else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
