"""One picture under two ids: the same file, the same pixels, or nearly so.

Pictures are what every interval counts as independent, so one picture under two ids makes a figure
look surer than it is. The same bytes are an error, for nobody means them; the same pixels in two
files and near-twins (another size or compression) are for a person to judge. Each file is read
once, and its thumbnail is decoded once, so memory does not grow with the size of the pictures;
only pictures whose thumbnails agree are decoded whole. Whether a picture can be used at all is not
decided here: one that does not decode is compared by its bytes alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from postprocess.pictures import PictureError, checked, picture_of

SIDE = 16
"""The fingerprint compares SIDE x SIDE neighbours: 256 bits."""

NEAR = 40
"""Bits in which near-twins differ at most. The nearest two of 36 unrelated photographs differ in 97
bits; the same photograph at a quarter of its size in at most 18, at JPEG quality 10 in at most 27,
and with 2% cut off each side in at most 40 for 31 of the 36. A mirrored one is not found."""

FLAT = 2.0
"""Standard deviation of the thumbnail's greys (0 to 255) below which it has no fingerprint: all
plain surfaces would look alike."""

_CHUNK = 1 << 20
_BLOCK = 1024

SAME_BYTES, SAME_PIXELS, NEAR_TWIN = "same bytes", "same pixels", "near-twin"


class Twin(NamedTuple):
    """Two ids that seem to be one picture."""

    kind: str
    """`same bytes`, `same pixels` or `near-twin`."""
    image_id: str
    path: Path
    other_id: str
    """The one that comes first."""
    other_path: Path
    distance: int
    """Bits of the fingerprint in which they differ; 0 for the same pixels."""

    @property
    def is_error(self) -> bool:
        """Whether it must be mended; the other kinds are for a person to judge."""
        return self.kind == SAME_BYTES

    def __str__(self) -> str:
        """What is wrong, and what to do."""
        pair = f"image_id {self.image_id!r} ({self.path.name})"
        first = f"{self.other_id!r} ({self.other_path.name})"
        if self.kind == SAME_BYTES:
            return (
                f"{pair} is the very file of {first}, but would count as another picture: give its "
                f"rows image_id {self.other_id!r} and that picture, and drop those whose caption "
                "this picture has already"
            )
        seen = "the same pixels as" if self.kind == SAME_PIXELS else "nearly the same picture as"
        tail = (
            "" if self.kind == SAME_PIXELS else f" ({self.distance} of {SIDE * SIDE} bits differ)"
        )
        return f"{pair} shows {seen} {first}{tail}: if they are one, give both one image_id"


def twins(pictures: Iterable[tuple[str, Path]]) -> list[Twin]:
    """The pictures that stand under two ids.

    Args:
        pictures: (image_id, path), each id once; files that cannot be read are skipped.

    Returns:
        In the order given, each picture with the first that it equals: for three files of the same
        bytes two entries, both with the first. Near-twins are told of the first of each group of
        equal pictures only.
    """
    first_of: dict[bytes, tuple[str, Path]] = {}
    found: dict[int, Twin] = {}
    kept: list[tuple[int, str, Path]] = []
    prints: list[npt.NDArray[np.bool_]] = []
    for at, (image_id, path) in enumerate(pictures):
        digest = _digest(path)
        if digest is None:
            continue
        other = first_of.setdefault(digest, (image_id, path))
        if other != (image_id, path):
            found[at] = Twin(SAME_BYTES, image_id, path, *other, 0)
            continue
        bits, flat = fingerprint(path)
        if bits is not None:
            kept.append((at, image_id, path))
            # A flat picture is compared with flat ones only, and must have the same pixels.
            prints.append(np.append(bits, np.repeat(flat, NEAR + 1)))
    pixels: dict[int, str | None] = {}
    for i, j, distance in _near(prints):
        (_, other_id, other_path), (at, image_id, path) = kept[i], kept[j]
        if at in found:
            continue
        for k in (i, j):
            if k not in pixels:
                pixels[k] = checked(kept[k][2]).sha256
        if pixels[i] is not None and pixels[i] == pixels[j]:
            found[at] = Twin(SAME_PIXELS, image_id, path, other_id, other_path, 0)
        elif not prints[i][-1]:
            found[at] = Twin(NEAR_TWIN, image_id, path, other_id, other_path, distance)
    return [found[at] for at in sorted(found)]


def fingerprint(path: Path) -> tuple[npt.NDArray[np.bool_] | None, bool]:
    """The picture's difference hash, and whether it is flat; None where it does not decode.

    A bit says whether a point of the thumbnail is brighter than its right neighbour (dHash); size,
    format and compression hardly change it.
    """
    try:
        picture = picture_of(path, about=SIDE * 8).convert("L")
    except PictureError:
        return None, False
    small = picture.resize((SIDE + 1, SIDE), Image.Resampling.BOX)
    grey = np.asarray(small, dtype=np.int16)
    return (grey[:, :-1] > grey[:, 1:]).ravel(), bool(grey.std() < FLAT)


def _near(prints: list[npt.NDArray[np.bool_]]) -> Iterator[tuple[int, int, int]]:
    """Pairs (earlier, later, distance) of at most `NEAR` bits, the nearest of a later one first."""
    if not prints:
        return
    signs = np.where(np.stack(prints), 1.0, -1.0).astype(np.float32)
    width = signs.shape[1]
    for start in range(0, len(signs), _BLOCK):
        block = signs[start : start + _BLOCK]
        distance = (width - block @ signs.T) / 2
        later, earlier = np.nonzero(distance <= NEAR)
        pairs = [
            (int(distance[row, i]), int(i), start + int(row))
            for row, i in zip(later, earlier, strict=True)
            if i < start + row
        ]
        for bits, i, j in sorted(pairs, key=lambda pair: (pair[2], pair[0], pair[1])):
            yield i, j, bits


def _digest(path: Path) -> bytes | None:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return None
    return digest.digest()
