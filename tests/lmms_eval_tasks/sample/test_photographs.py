"""A real build: 36 photographs, human captions as L, our own posts, the embedded encoders."""

import argparse
import json
import shutil

import pytest

from lmms_eval_tasks.dataset.folder import check_folder, load_folder
from lmms_eval_tasks.pragmatch.make.donors import MAX_SIMILARITY, check_leaks
from model_wrappers.embedded import weights
from tests import TESTS

POSTS = TESTS / "lmms_eval_tasks" / "photo_posts.json"


@pytest.mark.slow
@pytest.mark.skipif(
    bool(weights.missing("mismatch_detector")), reason="the extra `demo` is not installed"
)
def test_photographs_with_donors_kept_apart(shared, tmp_path, capsys):
    from pragclash.cli import data_pragmatch

    root = tmp_path / "root"
    (root / "images").mkdir(parents=True)
    shutil.copy(POSTS, root / "posts.json")
    captions = json.loads((shared / "photos" / "photos.json").read_text())
    for photo in captions:
        picture = shared / "photos" / photo["file_name"]
        shutil.copy(picture, root / "images" / f"{photo['image_id']}.jpg")
    parser = argparse.ArgumentParser()
    data_pragmatch.add_arguments(parser)
    given = ["--source", "posts", "--root", str(root), "--out", str(tmp_path / "out")]
    given += ["--l-captions", str(shared / "photos" / "photos.json"), "--folds", "3"]
    args = parser.parse_args([*given, "--ocr", "off", "--audit"])
    assert data_pragmatch.run(args) == 0
    assert check_folder(tmp_path / "out", "pragmatch") == []
    data = load_folder(tmp_path / "out", "pragmatch")
    check_leaks(data.rows)
    inside = {row["image_id"] for row in data.rows}
    assert len(inside) == 18
    ms = [row for row in data.rows if row["condition"] == "M" and row["edit"] is None]
    assert len({row["extra"]["donor"] for row in ms}) == 18
    assert not inside & {row["extra"]["donor"] for row in ms}
    assert max(row["extra"]["similarity"] for row in ms) <= MAX_SIMILARITY
    lines = data.manifest["audit"]["lines"]
    assert {(line["m_source"], line["features"]) for line in lines} == {
        (m, f) for m in ("captions", "mmsd_negatives") for f in ("caption", "format")
    }
    solved = {(x["m_source"], x["features"]): x["pair"][0] for x in lines}
    assert solved["captions", "caption"] > 75 > solved["mmsd_negatives", "caption"]
    assert data.manifest["licences"] == {
        "Attribution License": 11,
        "Attribution-ShareAlike License": 7,
    }
    assert "| captions | caption | 18 |" in capsys.readouterr().out
