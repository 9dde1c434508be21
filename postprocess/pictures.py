"""One way from a picture's file to its pixels: for models, the report, the vote page and training.

Whoever judges a picture judges what `picture_of` gives: RGB, turned upright, the first frame, what
is transparent on white. A file is hostile until decoded: only the formats named here are tried, so
that no decoder starts a program for a stranger's file, and a picture of more than `MAX_PIXELS` is
not decoded. What has no one reading as a picture (floats beyond 0 and 1) is refused
by name, never shown black or white.
"""

from __future__ import annotations

import functools
import hashlib
import io
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""What a picture file may be. PostScript is not among them: its decoder starts Ghostscript."""

MAX_PIXELS = 89_478_485
"""From more on, Pillow warns of a file that is made to fill the memory."""

_DEPTHS = (8, 16, 32)
_BROWSER_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}

Source: TypeAlias = "str | Path | bytes | Image.Image | Mapping[str, Any]"
"""A file, its bytes, an open picture, or a dataset's `{"path": ..., "bytes": ...}`."""

_lock = threading.RLock()


class PictureError(ValueError):
    """A file that cannot be used as a picture; the message says why."""


class Encoded(NamedTuple):
    """A picture as a browser may have it."""

    data: bytes
    media_type: str


class Checked(NamedTuple):
    """What is known of a picture file once it was decoded."""

    fault: str | None
    """Why it cannot be used."""
    sha256: str | None
    """Of its pixels; see `pixel_hash`."""


@contextmanager
def strict_decoding() -> Iterator[None]:
    """Let a truncated picture be an error in here; afterwards the process's own choice holds again.

    The harness sets `ImageFile.LOAD_TRUNCATED_IMAGES` for the whole process, and grey then stands
    where bytes are missing. One thread at a time, or two would restore each other's setting.

    >>> before = ImageFile.LOAD_TRUNCATED_IMAGES
    >>> with strict_decoding():
    ...     ImageFile.LOAD_TRUNCATED_IMAGES
    False
    >>> ImageFile.LOAD_TRUNCATED_IMAGES is before
    True
    """
    with _lock:
        before, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, False
        try:
            yield
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = before


def picture_of(source: Source, about: int | None = None) -> Image.Image:
    """Decode a picture to RGB, without any metadata of its file.

    Args:
        source: The file, its bytes, a dataset's mapping of both, or a picture that is open already.
        about: Longest side that will be needed, where less than all pixels will do: a JPEG is then
            decoded faster, at a size not below this.

    Raises:
        PictureError: The file is missing, damaged, too large, or no picture in one of `FORMATS`.
    """
    if isinstance(source, Image.Image):
        return _upright(source)
    with _opened(source) as image:
        if about is not None:
            image.draft("RGB", (about, about))
        return _upright(image)


def size_of(source: str | Path | bytes) -> tuple[int, int]:
    """Width and height as the file says, without decoding it.

    Raises:
        PictureError: As in `picture_of`.
    """
    with _opened(source) as image:
        width, height = image.size
    return width, height


def browser_picture(source: str | Path | bytes) -> Encoded:
    """A file for a browser, in which a person sees the pixels that `picture_of` gives.

    The file itself where every browser shows it so; a PNG of the pixels where browsers would add to
    it (moving frames, transparency on the page's colour, a colour profile) or do not know it.

    Raises:
        PictureError: As in `picture_of`.
    """
    data = source if isinstance(source, bytes) else _bytes_of(Path(source))
    with _opened(data) as image:
        plain = (
            image.mode in ("RGB", "L")
            and getattr(image, "n_frames", 1) == 1
            and not image.has_transparency_data
            and "icc_profile" not in image.info
            and image.getexif().get(0x0112, 1) == 1
        )
        if plain and image.format in _BROWSER_TYPES:
            image.load()
            return Encoded(data, _BROWSER_TYPES[image.format])
        stream = io.BytesIO()
        _upright(image).save(stream, "PNG")
    return Encoded(stream.getvalue(), "image/png")


def pixel_hash(image: Image.Image) -> str:
    """SHA-256 over the size and the RGB pixels: equal exactly where a model is shown the same.

    >>> a, b = Image.new("RGB", (2, 3)), Image.new("RGB", (3, 2))
    >>> pixel_hash(a) == pixel_hash(a.copy()), pixel_hash(a) == pixel_hash(b)
    (True, False)
    """
    digest = hashlib.sha256(f"{image.width}x{image.height}\n".encode())
    digest.update(image.convert("RGB").tobytes())
    return digest.hexdigest()


def checked(path: Path) -> Checked:
    """Decode a file and say what came of it; kept for as long as the file does not change."""
    try:
        status = path.stat()
    except OSError:
        return Checked("is missing", None)
    return _checked(str(path), status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=100_000)
def _checked(path: str, _mtime: int, size: int) -> Checked:
    if size == 0:
        return Checked("is an empty file", None)
    try:
        return Checked(None, pixel_hash(picture_of(path)))
    except PictureError as error:
        return Checked(f"does not decode ({error})", None)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PictureError(f"cannot be read: {error.strerror}") from error


@contextmanager
def _opened(source: str | Path | bytes | Mapping[str, Any]) -> Iterator[Image.Image]:
    held: Any = source
    if isinstance(source, Mapping):
        held = source.get("bytes") or source["path"]
    file = io.BytesIO(held) if isinstance(held, bytes) else held
    try:
        with strict_decoding(), warnings.catch_warnings():
            # The bound below is the one that counts.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(file, formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise PictureError(f"{image.width} x {image.height} pixels are too many")
                yield image
    except PictureError:
        raise
    except UnidentifiedImageError as error:
        raise PictureError(f"no picture in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}") from error
    except Exception as error:  # decoders raise whatever a damaged file makes them stumble over
        raise PictureError(f"{type(error).__name__}: {str(error)[:120]}") from error


def _upright(image: Image.Image) -> Image.Image:
    """In RGB, turned as its metadata says, what is transparent on white, no metadata."""
    # Moving pictures stand at their first frame from the start; a TIFF's further pages stay shut.
    out = _flat(ImageOps.exif_transpose(image))
    out.info.clear()
    return out


def _flat(image: Image.Image) -> Image.Image:
    if image.mode == "F" or image.mode.startswith("I"):
        return _scaled(image).convert("RGB")
    if image.has_transparency_data or image.mode in ("La", "RGBa"):
        if image.mode in ("La", "RGBa"):
            image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def _scaled(image: Image.Image) -> Image.Image:
    """Grey of more than 8 bits a pixel in 8 bits, white being the largest number of its depth.

    A file of 32 bits may hold numbers of fewer: its depth is the narrowest that holds them all.
    """
    import numpy as np

    if image.mode == "F":
        floats = np.asarray(image)
        if not (np.isfinite(floats).all() and floats.min() >= 0 and floats.max() <= 1):
            raise PictureError("float pixels are read from 0 (black) to 1 (white) only")
        return Image.fromarray(np.rint(floats * 255).astype(np.uint8))
    values = np.asarray(image)
    if image.mode == "I":
        whole = values.astype(np.int32).view(np.uint32)
        bits = next(bits for bits in _DEPTHS if int(whole.max()) < 2**bits)
    else:
        whole, bits = values.astype(np.uint32), 16
    grey = np.rint(whole.astype(np.float64) * (255 / (2**bits - 1))).astype(np.uint8)
    clear = image.info.get("transparency")
    if isinstance(clear, int):
        grey[whole == clear] = 255
    return Image.fromarray(grey)
