"""One loader for the whole suite: what each kind of file becomes, pixel by pixel."""

import hashlib
import io
import os
import struct
import subprocess
import time

import numpy as np
import pytest
from PIL import Image

from lmms_eval_tasks.annotation.pictures import picture as page_picture
from lmms_eval_tasks.dataset.pictures import picture_fault
from lmms_eval_tasks.documents import build_docs, picture_of
from postprocess import pictures
from postprocess.publish import thumbnails
from tests import ROOT

WHITE, BLACK = (255, 255, 255), (0, 0, 0)
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def row(values: list, dtype: type) -> Image.Image:
    return Image.fromarray(np.array([values], dtype=dtype))


def upright(form: str) -> bytes:
    image = Image.new("RGB", (2, 1))
    image.putdata([(200, 0, 0), (0, 0, 200)])
    exif = Image.Exif()
    exif[0x0112] = 3
    return saved(image, form, exif=exif)


def palette() -> bytes:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata([0, 1])
    return saved(image, "PNG", transparency=1)


def two_frames() -> bytes:
    first, second = (Image.new("RGB", (2, 1), colour) for colour in ("red", "blue"))
    return saved(first, "GIF", save_all=True, append_images=[second])


def unsigned_tiff() -> bytes:
    """A TIFF of one row of unsigned 32-bit numbers, which Pillow itself does not write."""
    tags = [(256, 2), (257, 1), (258, 32), (259, 1), (262, 1), (273, 134), (277, 1), (278, 1)]
    tags += [(279, 8), (339, 1)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    head = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + struct.pack("<I", 0)
    return head + struct.pack("<II", 0, 2**32 - 1)


GREY = [(v, v, v) for v in (0, 128, 255)]
KINDS = {
    "16-bit grey": (lambda: saved(row([0, 32896, 65535], np.uint16), "PNG"), GREY),
    "16-bit TIFF": (lambda: saved(row([0, 32896, 65535], np.uint16), "TIFF"), GREY),
    "32-bit TIFF of 16-bit numbers": (
        lambda: saved(row([0, 32896, 65535], np.int32), "TIFF"),
        GREY,
    ),
    "32-bit TIFF of 8-bit numbers": (lambda: saved(row([0, 128, 255], np.int32), "TIFF"), GREY),
    "32-bit TIFF": (unsigned_tiff, [BLACK, WHITE]),
    "float TIFF": (lambda: saved(row([0, 128 / 255, 1], np.float32), "TIFF"), GREY),
    "drawing on transparency": (
        lambda: saved(row([[0, 0, 0, 0], [0, 0, 0, 255], [0, 0, 0, 51]], np.uint8), "PNG"),
        [WHITE, BLACK, (204, 204, 204)],
    ),
    "grey with alpha": (
        lambda: saved(Image.merge("LA", [row([9, 9], np.uint8), row([0, 255], np.uint8)]), "PNG"),
        [WHITE, (9, 9, 9)],
    ),
    "a clear colour": (
        lambda: saved(row([[1, 2, 3], [4, 5, 6]], np.uint8), "PNG", transparency=(1, 2, 3)),
        [WHITE, (4, 5, 6)],
    ),
    "16-bit grey with a clear grey": (
        lambda: saved(row([0, 65535, 32896], np.uint16), "PNG", transparency=0),
        [WHITE, WHITE, GREY[1]],
    ),
    "palette": (palette, [(10, 20, 30), WHITE]),
    "two colours": (lambda: saved(row([0, 255], np.uint8).convert("1"), "PNG"), [BLACK, WHITE]),
    "CMYK": (
        lambda: saved(Image.new("CMYK", (2, 1), (0, 0, 0, 255)), "TIFF"),
        [BLACK, BLACK],
    ),
    "turned by its metadata": (lambda: upright("PNG"), [(0, 0, 200), (200, 0, 0)]),
    "moving": (two_frames, [(255, 0, 0)] * 2),
    "bitmap": (lambda: saved(row([[1, 2, 3]], np.uint8), "BMP"), [(1, 2, 3)]),
    "WebP": (
        lambda: saved(row([[1, 2, 3]], np.uint8), "WEBP", lossless=True),
        [(1, 2, 3)],
    ),
}


def pixels(image: Image.Image) -> list[tuple[int, ...]]:
    return [tuple(pixel) for pixel in np.asarray(image).reshape(-1, 3).tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_model_page_and_report_judge_the_same_pixels(kind, tmp_path):
    make, expected = KINDS[kind]
    content = make()
    path = tmp_path / "a.png"
    path.write_bytes(content)
    (doc,) = build_docs([{"image": "a.png"}], {}, tmp_path)
    shown = picture_of(doc)
    assert shown.mode == "RGB"
    assert pixels(shown) == expected
    assert not shown.info
    assert pixels(pictures.picture_of(content)) == expected

    page = page_picture(path, hashlib.sha256(content).hexdigest())
    with Image.open(io.BytesIO(page.data)) as opened:
        assert not opened.has_transparency_data
        assert getattr(opened, "n_frames", 1) == 1
        assert pixels(opened.convert("RGB")) == expected

    report = pictures.picture_of(path, about=88)
    assert pixels(report) == expected
    assert thumbnails.encode(path, 88) is not None


def test_a_photograph_goes_to_the_page_as_it_is():
    content = saved(Image.new("RGB", (8, 8), "red"), "JPEG")
    assert pictures.browser_picture(content) == (content, "image/jpeg")
    for odd in (upright("JPEG"), saved(Image.new("RGB", (8, 8)), "JPEG", icc_profile=b"x" * 128)):
        assert pictures.browser_picture(odd).media_type == "image/png"


def test_postscript_under_another_name_starts_no_program(tmp_path, monkeypatch):
    started: list[object] = []
    monkeypatch.setattr(subprocess.Popen, "__init__", lambda *args, **_: started.append(args))
    path = tmp_path / "a.png"
    path.write_bytes(EPS)
    (doc,) = build_docs([{"image": "a.png"}], {}, tmp_path)
    with pytest.raises(
        pictures.PictureError,
        match="picture of sample None: no picture in JPEG, PNG",
    ):
        picture_of(doc)
    with pytest.raises(ValueError, match="no picture in JPEG"):
        page_picture(path, hashlib.sha256(EPS).hexdigest())
    assert thumbnails.encode(path, 88) is None
    assert "no picture in JPEG" in (picture_fault(path) or "")
    assert not started


def test_a_row_of_the_dataset_decodes_nothing_by_itself(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(EPS)
    monkeypatch.setattr(Image, "open", lambda *args, **_: pytest.fail("a decoder was asked"))
    (doc,) = build_docs([{"image": "a.png"}], {}, tmp_path)
    assert doc["image"] == {"path": str(tmp_path / "a.png"), "bytes": None}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda: saved(row([0, 2], np.float32), "TIFF"), "float pixels are read from 0"),
        (lambda: saved(row([0, np.nan], np.float32), "TIFF"), "float pixels are read from 0"),
        (lambda: saved(Image.effect_noise((64, 64), 90), "PNG")[:-900], "OSError|SyntaxError"),
        (lambda: b"", "is an empty file|no picture"),
    ],
)
def test_what_has_no_reading_is_refused_by_name(tmp_path, content, reason):
    path = tmp_path / "a.tiff"
    path.write_bytes(content())
    with pytest.raises(pictures.PictureError, match=reason):
        pictures.picture_of(path)
    assert pictures.checked(path).fault
    assert pictures.checked(path).sha256 is None


def test_too_many_pixels_are_never_decoded(monkeypatch):
    monkeypatch.setattr(pictures, "MAX_PIXELS", 63)
    content = saved(Image.new("RGB", (8, 8)), "PNG")
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(pictures.PictureError, match="8 x 8 pixels are too many"):
        pictures.picture_of(content)


def test_the_hash_of_pixels_is_kept_until_the_file_changes(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(saved(Image.new("RGB", (2, 2), "red"), "PNG"))
    first = pictures.checked(path)
    assert first.sha256 == pictures.pixel_hash(Image.new("RGB", (2, 2), "red"))
    path.write_bytes(saved(Image.new("RGB", (2, 2), "blue"), "PNG"))
    os.utime(path, (time.time(), time.time() + 5))
    assert pictures.checked(path).sha256 != first.sha256
    path.unlink()
    assert pictures.checked(path).fault == "is missing"


def test_no_other_module_opens_a_picture():
    packages = ("postprocess", "lmms_eval_tasks", "model_wrappers", "pragclash")
    found = [
        str(path.relative_to(ROOT))
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
        if "Image.open(" in (code := path.read_text(encoding="utf-8")) or 'convert("RGB")' in code
    ]
    assert found == ["postprocess/pictures.py"]
