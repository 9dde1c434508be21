"""One picture under two ids is found, and unrelated photographs are left alone."""

import io
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lmms_eval_tasks.dataset import same_pictures as same


def photo(seed, size=(320, 240)):
    """A picture with large shapes, as a photograph has."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8))
    return coarse.resize(size, Image.Resampling.BICUBIC)


def save(folder, name, picture, **options):
    path = folder / name
    picture.save(path, **options)
    return path


def kinds(found):
    return [(twin.kind, twin.image_id, twin.other_id) for twin in found]


def test_the_same_file_is_an_error_that_says_how_to_merge(tmp_path):
    path = save(tmp_path, "a.jpg", photo(1))
    copy = tmp_path / "b.jpg"
    copy.write_bytes(path.read_bytes())
    other = save(tmp_path, "c.jpg", photo(2))
    (twin,) = same.twins([("a", path), ("c", other), ("b", copy)])
    assert twin.is_error
    assert (twin.kind, twin.image_id, twin.other_id) == (same.SAME_BYTES, "b", "a")
    assert "give its rows image_id 'a'" in str(twin)


def test_the_same_pixels_in_another_file_are_a_warning(tmp_path):
    path = save(tmp_path, "a.png", photo(1))
    other = save(tmp_path, "a.bmp", photo(1))
    (twin,) = same.twins([("a", path), ("b", other)])
    assert (twin.kind, twin.is_error, twin.distance) == (same.SAME_PIXELS, False, 0)


@pytest.mark.parametrize("change", ["smaller", "compressed", "brighter"])
def test_another_size_or_compression_is_a_near_twin(tmp_path, change):
    picture = photo(1)
    path = save(tmp_path, "a.png", picture)
    if change == "smaller":
        other = save(tmp_path, "b.png", picture.resize((160, 120)))
    elif change == "compressed":
        other = save(tmp_path, "b.jpg", picture, quality=20)
    else:
        other = save(tmp_path, "b.png", picture.point(lambda v: min(255, v + 20)))
    (twin,) = same.twins([("a", path), ("b", other)])
    assert twin.kind == same.NEAR_TWIN
    assert f"{twin.distance} of 256 bits" in str(twin)


def test_each_copy_is_told_once_with_the_first(tmp_path):
    paths = [save(tmp_path, f"{i}.png", photo(1)) for i in range(3)]
    small = save(tmp_path, "small.png", photo(1).resize((160, 120)))
    pictures = [*((str(i), path) for i, path in enumerate(paths)), ("small", small)]
    assert kinds(same.twins(pictures)) == [
        (same.SAME_BYTES, "1", "0"),
        (same.SAME_BYTES, "2", "0"),
        (same.NEAR_TWIN, "small", "0"),
    ]


def test_plain_surfaces_are_twins_only_with_the_same_pixels(tmp_path):
    red, blue = (Image.new("RGB", (64, 64), colour) for colour in ("red", "blue"))
    pictures = [
        ("red", save(tmp_path, "red.png", red)),
        ("blue", save(tmp_path, "blue.png", blue)),
        ("red too", save(tmp_path, "red.bmp", red)),
        ("photo", save(tmp_path, "photo.png", photo(3))),
    ]
    assert kinds(same.twins(pictures)) == [(same.SAME_PIXELS, "red too", "red")]


def test_files_that_do_not_decode_are_compared_by_their_bytes(tmp_path):
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(b"no picture")
    whole = io.BytesIO()
    photo(1).save(whole, "JPEG")
    (tmp_path / "cut.jpg").write_bytes(whole.getvalue()[:2000])
    names = ("a.jpg", "b.jpg", "cut.jpg", "missing.jpg")
    found = same.twins([(name, tmp_path / name) for name in names])
    assert kinds(found) == [(same.SAME_BYTES, "b.jpg", "a.jpg")]


def test_many_pictures_are_compared_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(same, "_BLOCK", 3)
    pictures = [(str(i), save(tmp_path, f"{i}.png", photo(i % 8, (64, 48)))) for i in range(8)]
    pictures.append(("last", save(tmp_path, "last.bmp", photo(5, (64, 48)))))
    assert kinds(same.twins(pictures)) == [(same.SAME_PIXELS, "last", "5")]


def test_no_two_unrelated_photographs_are_twins():
    folder = Path(os.environ.get("PRAGCLASH_SHARED", ".")) / "photos" / "images"
    photographs = sorted(folder.glob("*.jpg"))
    if not photographs:
        pytest.skip("the photographs are not on this machine")
    assert same.twins([(path.stem, path) for path in photographs]) == []
    prints = [same.fingerprint(path)[0] for path in photographs]
    nearest = min((a != b).sum() for a, b in itertools.combinations(prints, 2))
    assert nearest > 2 * same.NEAR
