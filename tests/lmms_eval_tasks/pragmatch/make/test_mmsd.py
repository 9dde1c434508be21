"""Reading MMSD2.0: which file it is, which rows it has, and what is refused by name."""

import json
from pathlib import Path

import pytest

from lmms_eval_tasks.pragmatch.make.mmsd import KNOWN_POST, SourceError, read_source
from tests.lmms_eval_tasks import fake_mmsd


@pytest.fixture
def root(tmp_path):
    return fake_mmsd.write(tmp_path / "mmsd2")


def rewrite(root, change):
    path = root / "text_json_final" / "test.json"
    rows = json.loads(path.read_text())
    change(rows)
    path.write_text(json.dumps(rows))


def row_of(rows, image_id):
    return next(i for i, row in enumerate(rows) if row["image_id"] == image_id)


def write_parquet(root, rows, name="test-00000-of-00001.parquet", config="mmsd-v2"):
    import datasets

    features = datasets.Features(
        {
            "image": datasets.Image(),
            "text": datasets.Value("string"),
            "label": datasets.Value("int64"),
            "id": datasets.Value("string"),
        }
    )
    columns = {
        "image": [{"path": None, "bytes": fake_mmsd.drawing(i)} for i in range(len(rows))],
        "text": [row["text"] for row in rows],
        "label": [row["label"] for row in rows],
        "id": [str(row["image_id"]) for row in rows],
    }
    (root / config).mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_dict(columns, features=features).to_parquet(root / config / name)


def test_the_repository_layout_is_read_whole(root):
    source = read_source("mmsd2", root)
    assert [p.image_id for p in source.posts] == [str(r["image_id"]) for r in fake_mmsd.posts()]
    assert source.provenance["rows"] == 54
    assert source.provenance["rows_expected"] == 2409
    assert source.provenance["sarcastic"] == 24
    assert isinstance(source.pictures.find(fake_mmsd.image_id(1)), Path)
    assert source.pictures.find(fake_mmsd.image_id(3)) == "is missing"


def test_the_hub_layout_is_read_with_its_pictures(tmp_path):
    rows = fake_mmsd.posts()
    write_parquet(tmp_path, rows)
    source = read_source("mmsd2", tmp_path)
    assert [post.text for post in source.posts] == [row["text"] for row in rows]
    assert source.pictures.find(str(rows[5]["image_id"])) == fake_mmsd.drawing(5)
    assert source.pictures.find("1") == "is missing"


def test_a_sibling_is_refused_and_the_right_one_found_beside_it(root):
    sibling = root / "text_json_clean"
    sibling.mkdir()
    rows = fake_mmsd.posts()
    rows[row_of(rows, int(KNOWN_POST[0]))]["text"] = KNOWN_POST[1] + " # baseball # lol"
    (sibling / "test.json").write_text(json.dumps(rows))
    assert read_source("mmsd2", root).provenance["rows"] == 54
    (root / "text_json_final" / "test.json").unlink()
    with pytest.raises(SourceError, match=r"text_json_clean/test.json: is not MMSD2.0 but a sib"):
        read_source("mmsd2", root)


def test_a_sibling_in_parquet_is_refused(tmp_path):
    rows = fake_mmsd.posts()
    rows[row_of(rows, int(KNOWN_POST[0]))]["text"] = "another text"
    write_parquet(tmp_path, rows, config="mmsd-v1")
    with pytest.raises(SourceError, match="sibling"):
        read_source("mmsd2", tmp_path)


def test_another_split_needs_the_test_split_beside_it(root):
    with pytest.raises(SourceError, match="no train split"):
        read_source("mmsd2", root, "train")
    rows = [{"image_id": 11, "text": "so fun", "label": 1}]
    (root / "text_json_final" / "train.json").write_text(json.dumps(rows))
    (root / "dataset_image" / "11.jpg").write_bytes(fake_mmsd.drawing(1))
    assert read_source("mmsd2", root, "train").posts[0].image_id == "11"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"image_id": 8.925516584876319e17}, "went through a float"),
        ({"image_id": "8.925516584876319e+17"}, "went through a float"),
        ({"image_id": "../../secret"}, "may hold only letters"),
        ({"image_id": True}, "must be text"),
        ({"label": 2}, "label must be 0 or 1"),
        ({"label": True}, "label must be 0 or 1"),
        ({"text": 7}, "text must be text"),
        ({"text": "a \ud800"}, "lone surrogate"),
        ({"author": "me"}, "unknown column 'author'"),
    ],
)
def test_a_faulty_row_is_named_with_file_and_row(root, change, reason):
    rewrite(root, lambda rows: rows[9].update(change))
    with pytest.raises(SourceError, match=rf"text_json_final/test.json:10: .*{reason}"):
        read_source("mmsd2", root)


def test_a_duplicate_is_named_with_both_rows(root):
    rewrite(root, lambda rows: rows.append(dict(rows[4])))
    with pytest.raises(SourceError, match=r"test.json:55: .* stands in row 5 already"):
        read_source("mmsd2", root)


@pytest.mark.parametrize("damage", [float, lambda x: int(float(x)), lambda x: f"{x:.17e}"])
def test_ids_that_all_went_through_a_float_are_noticed(root, damage):
    def change(rows):
        for row in rows:
            row["image_id"] = damage(row["image_id"])

    rewrite(root, change)
    with pytest.raises(SourceError, match=r"through a float|looks rounded"):
        read_source("mmsd2", root)


def test_rounded_ids_are_noticed_in_posts_of_ones_own(tmp_path):
    rows = [{"image_id": (8_925_516 + i) << 40, "text": "so fun", "label": 1} for i in range(4)]
    (tmp_path / "posts.json").write_text(json.dumps(rows))
    with pytest.raises(SourceError, match="rounded by a float"):
        read_source("posts", tmp_path)


def test_a_picture_that_links_out_of_the_folder_is_not_read(root, tmp_path):
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(fake_mmsd.drawing(0))
    link = root / "dataset_image" / f"{fake_mmsd.image_id(3)}.jpg"
    link.symlink_to(secret)
    found = read_source("mmsd2", root).pictures.find(fake_mmsd.image_id(3))
    assert found == "is a link that leaves the folder"


def test_nothing_there_says_what_is_looked_for(tmp_path):
    with pytest.raises(SourceError, match=r"no test\.json"):
        read_source("mmsd2", tmp_path)
    with pytest.raises(SourceError, match="is not a folder"):
        read_source("mmsd2", tmp_path / "nowhere")
    (tmp_path / "test.json").write_text("{")
    with pytest.raises(SourceError, match="is not JSON"):
        read_source("mmsd2", tmp_path)


def test_missing_pictures_folder_is_said(tmp_path):
    root = fake_mmsd.write(tmp_path / "x")
    (root / "dataset_image").rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="separate download"):
        read_source("mmsd2", root)
    source = read_source("mmsd2", root, images=tmp_path / "elsewhere")
    assert isinstance(source.pictures.find(fake_mmsd.image_id(1)), Path)


def test_the_golden_text_is_recognised(shared, tmp_path):
    import gzip

    content = gzip.decompress((shared / "golden" / "mmsd" / "mmsd2_test.json.gz").read_bytes())
    (tmp_path / "test.json").write_bytes(content)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / f"{KNOWN_POST[0]}.jpg").write_bytes(fake_mmsd.drawing(1))
    source = read_source("mmsd2", tmp_path)
    assert source.provenance["rows"] == source.provenance["rows_expected"] == 2409
    assert source.provenance["sarcastic"] == 1037
