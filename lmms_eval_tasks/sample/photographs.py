"""The sample: which photographs it uses, where the installed packages keep them, and its rows.

The photographs ship inside scikit-image, scikit-learn and matplotlib; none is part of this project,
and nothing here imports those packages or reaches a network. `photographs.json` says for each one
whose it is, its licence and where that is stated; `pragmatch.jsonl` and `clash.jsonl` hold what
this project wrote about them.
"""

from __future__ import annotations

import functools
import io
import json
from importlib import resources, util
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

LONGEST_SIDE = 640
"""Pixels; larger photographs are made smaller so that the demo stays light."""

ENCODERS = {"pragmatch": ("sentence-transformers/all-MiniLM-L6-v2",)}
"""Encoders that had a part in choosing the captions, by benchmark: a model that uses one of them
looks better or worse than it is, so manifests name them. PragMatch's captions were revised until a
classifier over these embeddings could not tell P from M."""

_JPEG_QUALITY = 92


class MissingPhotographs(FileNotFoundError):
    """Photographs of the sample are not on this machine; the message says how to get them."""


class Photograph(NamedTuple):
    """One photograph that an installed package ships, and whose it is."""

    image_id: str
    title: str
    distribution: str
    """The name to install the package by."""
    package: str
    path: str
    """Path of the file inside the package."""
    licence: str
    author: str
    source: str
    """Where the photograph comes from: an address, or the package itself."""
    stated_in: str
    """Where licence and source are stated: a file or a function's documentation."""
    sha256: str
    """Of the shipped file for which the captions were written, in hexadecimal digits."""
    shrink: bool
    """Whether the shipped file is larger than `LONGEST_SIDE`."""
    text: tuple[str, ...]
    """Words that a person can read on the picture; they make a caption carry the OCR cue."""

    @property
    def suffix(self) -> str:
        """Ending of the file that `read` returns the bytes of."""
        return ".jpg" if self.shrink else Path(self.path).suffix

    def file(self) -> Path:
        """The shipped file.

        Raises:
            MissingPhotographs: The package is not installed, or does not hold the file.
        """
        for folder in _package_folders(self.package):
            if (folder / self.path).is_file():
                return folder / self.path
        raise MissingPhotographs(
            f"the sample's photograph {self.image_id!r} ({self.package}/{self.path}) ships with "
            f'{self.distribution}, which is not here: pip install "pragclash[demo]"'
        )

    def read(self) -> bytes:
        """The picture as a PNG or JPEG file of at most `LONGEST_SIDE` pixels a side.

        The shipped bytes where they are small enough; otherwise a JPEG that is the same for the
        same versions of the package and of Pillow.

        Raises:
            MissingPhotographs: As `file`.
        """
        shipped = self.file().read_bytes()
        return _smaller(shipped) if self.shrink else shipped


def sample_images() -> dict[str, Photograph]:
    """The sample's photographs by image id, in the order of its rows.

    No file is looked for: that happens on `Photograph.read`.
    """
    entries = json.loads(_data("photographs.json"))
    return {
        entry["image_id"]: Photograph(**{**entry, "text": tuple(entry["text"])})
        for entry in entries
    }


def sample_rows(benchmark: str) -> list[dict[str, Any]]:
    """The sample's rows for a benchmark, without the `image` column; a picture's rows together.

    Raises:
        ValueError: The benchmark has no sample.
    """
    names = (file.name.partition(".jsonl") for file in resources.files(__package__).iterdir())
    with_sample = sorted(name for name, ending, _ in names if ending)
    if benchmark not in with_sample:
        raise ValueError(f"no sample for {benchmark!r}; there is one for {', '.join(with_sample)}")
    return [json.loads(line) for line in _data(f"{benchmark}.jsonl").splitlines()]


def _file(name: str) -> Traversable:
    return resources.files(__package__).joinpath(name)


def _data(name: str) -> str:
    return _file(name).read_text(encoding="utf-8")


@functools.cache
def _package_folders(package: str) -> tuple[Path, ...]:
    # Finding a top-level package does not run it: importing these takes seconds.
    spec = util.find_spec(package)
    return tuple(map(Path, spec.submodule_search_locations or ())) if spec else ()


def _smaller(shipped: bytes) -> bytes:
    from PIL import Image

    from postprocess.pictures import picture_of

    small = picture_of(shipped)
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.save(out, "JPEG", quality=_JPEG_QUALITY, subsampling=0)
    return out.getvalue()
