"""What is registered with the harness is there: a module that moved is found before a user does."""

import ast
from pathlib import Path

import pytest

from model_wrappers import manifests

PATHS = [path for forms in manifests.MODELS.values() for path in forms if path]


@pytest.mark.parametrize("path", PATHS)
def test_every_registered_class_stands_where_its_path_says(path):
    module, _, name = path.rpartition(".")
    source = Path(manifests.__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    tree = ast.parse(source.read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
