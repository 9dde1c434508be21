"""Shared fixtures. Tests never reach a model hub."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The first example of a test often pays for an import; slowness is no fault of the example.
settings.register_profile("pragclash", deadline=None)
settings.load_profile("pragclash")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of golden data beside the project; tests that need it skip where it is unset."""
    folder = os.environ.get("PRAGCLASH_SHARED")
    if not folder:
        pytest.skip("PRAGCLASH_SHARED is unset: no golden data beside this checkout")
    return Path(folder)
