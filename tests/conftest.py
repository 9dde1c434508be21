"""Shared fixtures. Tests never reach a model hub, nor the caches of whoever runs them.

Environment is set at import, before any worker of pytest-xdist starts: workers inherit it, so that
all of them share one folder in which the sample is built once.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests import clash_release

# The first example of a test often pays for an import; slowness is no fault of the example.
settings.register_profile("pragclash", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=30)
settings.load_profile("pragclash")

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Workers of pytest-xdist are the parallelism; threads of the tiny models would only compete.
os.environ.setdefault("OMP_NUM_THREADS", "1")
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["PRAGCLASH_CACHE"] = tempfile.mkdtemp(prefix="pragclash-tests-")


@pytest.fixture(scope="session")
def golden() -> Path | None:
    """The folder of golden data that `PRAGCLASH_SHARED` names, for tests that can do without."""
    folder = os.environ.get("PRAGCLASH_SHARED")
    return Path(folder) if folder else None


@pytest.fixture(scope="session")
def shared(golden: Path | None) -> Path:
    """The folder of golden data, for tests of what only the original texts or photographs show."""
    if golden is None:
        pytest.skip("needs originals that this project does not ship (PRAGCLASH_SHARED is unset)")
    return golden


@pytest.fixture(scope="session")
def clash_golden(golden: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `golden/clash`: the released files, else a stand-in with the same counts."""
    if golden is not None:
        return golden
    root = tmp_path_factory.mktemp("clash_golden")
    clash_release.write(root / "golden" / "clash")
    return root


def pytest_report_header() -> str:
    """Say at the top what this run can hold against the originals."""
    folder = os.environ.get("PRAGCLASH_SHARED")
    return f"golden data: {folder or 'none (PRAGCLASH_SHARED is unset): a stand-in by its counts'}"


def pytest_unconfigure() -> None:
    """Remove the cache, once, where it was made."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["PRAGCLASH_CACHE"], ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    """Where slow tests are left out, try fewer examples too; all tests try hypothesis's hundred."""
    if config.option.markexpr == "not slow":
        settings.load_profile("fast")
