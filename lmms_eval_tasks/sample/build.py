"""Builds the sample's dataset folders in the user cache, once, without network."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from platformdirs import user_cache_dir

from lmms_eval_tasks.dataset.checks import Fault
from lmms_eval_tasks.dataset.folder import FolderError, load_folder, write_folder
from lmms_eval_tasks.sample import photographs

CACHE_ENVIRONMENT = "PRAGCLASH_CACHE"


def sample_folder(benchmark: str) -> Path:
    """The sample of a benchmark as a dataset folder, built on first use.

    The folder's name carries a hash of rows and pictures: a new version of either makes a new
    folder, and several processes may build it at once.

    Raises:
        FolderError: The packages that ship the photographs are not installed, or the cache cannot
            be written.
    """
    try:
        rows = photographs.sample_rows(benchmark)
        pictures = photographs.sample_images()
        content = {image_id: picture.read() for image_id, picture in pictures.items()}
    except (photographs.MissingPhotographs, ValueError) as error:
        raise FolderError(Path("sample"), [Fault("photographs", None, str(error))]) from error
    used = {row["image_id"] for row in rows}
    files = {f"images/{x}{pictures[x].suffix}": content[x] for x in sorted(used)}
    named = [{**row, "image": f"images/{row['image_id']}{_suffix(row, files)}"} for row in rows]
    digest = hashlib.sha256(repr(sorted(map(repr, named))).encode())
    for name in sorted(files):
        digest.update(name.encode() + hashlib.sha256(files[name]).digest())
    home = Path(os.environ.get(CACHE_ENVIRONMENT) or user_cache_dir("pragclash"))
    out = home / "sample" / digest.hexdigest()[:16] / benchmark
    if not _is_there(out):
        sources = [
            {
                "image_id": x,
                "licence": pictures[x].licence,
                "author": pictures[x].author,
                "source": pictures[x].source,
            }
            for x in sorted(used)
        ]
        encoders = list(photographs.ENCODERS.get(benchmark, ()))
        manifest = {"kind": "sample", "sources": sources, "encoders": encoders}
        try:
            write_folder(out, benchmark, named, files, manifest)
        except OSError as error:
            # Another process may have put the same folder there first.
            if not _is_there(out):
                message = (
                    f"the cache for the sample cannot be written ({error.strerror or error}); "
                    f"set {CACHE_ENVIRONMENT} to a folder that can"
                )
                raise FolderError(home, [Fault("sample", None, message)]) from error
            load_folder(out, benchmark)
    return out


def _is_there(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def _suffix(row: dict[str, object], files: dict[str, bytes]) -> str:
    stem = f"images/{row['image_id']}."
    return "." + next(name for name in files if name.startswith(stem)).rpartition(".")[2]
