import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lmms_eval_tasks.current import current_folder
from lmms_eval_tasks.folder import (
    FolderError,
    check_folder,
    load_folder,
    unsafe_path,
    write_folder,
)


def png(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def caption_rows(n: int) -> list[dict]:
    rows = []
    for i in range(n):
        for condition in "PML":
            rows.append(
                {
                    "sample_id": f"pic{i}-{condition}",
                    "image_id": f"pic{i}",
                    "image": f"images/pic{i}.png",
                    "condition": condition,
                    "cue": None,
                    "edit": None,
                    "caption": f"caption {condition} of picture {i}",
                    "label": int(condition == "P"),
                }
            )
    return rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "data" / "pragmatch"
    images = {f"images/pic{i}.png": png(i) for i in range(4)}
    write_folder(out, "pragmatch", caption_rows(4), images, {"kind": "custom", "sources": []})
    return out


def rewrite(folder: Path, line: int, **changes: object) -> None:
    path = folder / "captions.jsonl"
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    rows[line - 1].update(changes)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_written_folder_is_sound_and_reads_back(folder):
    assert check_folder(folder) == []
    read = load_folder(folder, "pragmatch")
    assert len(read.rows) == 12
    assert read.kind == "custom"
    assert read.omitted == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"condition": "Q"}, "condition 'Q' is none of P, L, M"),
        ({"label": 0}, "label 0 contradicts condition P"),
        ({"label": True}, "label must be 0 or 1"),
        ({"label": "1"}, "label must be 0 or 1"),
        ({"sample_id": "pic1-P"}, "stands in row 1 already"),
        ({"image_id": 8.92551658487631873e17}, "went through a float"),
        ({"image_id": "8.92551658487631873e+17"}, "went through a float"),
        ({"image_id": 892551658487631873}, "must be text, not int"),
        ({"image_id": "../secret"}, "may hold only letters"),
        ({"image": "images/../../secret.png"}, "leaves the folder"),
        ({"image": "/etc/passwd"}, "leaves the folder"),
        ({"image": "captions.jsonl"}, "pictures lie under images/"),
        ({"caption": "  "}, "caption is empty"),
        ({"caption": 7}, "caption must be text"),
        ({"cue": "style"}, "cue and edit are set together"),
        ({"cue": "smell", "edit": "mask"}, "cue 'smell' is none of"),
        ({"cue": "style", "edit": "inject"}, "edit 'inject' is for condition M, not P"),
        ({"cue": "style", "edit": "mask"}, "has no clean P to compare with"),
        ({"lable": 1}, "unknown column 'lable'"),
        ({"fold": -1}, "fold must be a whole number"),
        ({"fold": 3}, "differs from fold"),
    ],
)
def test_each_fault_names_file_and_row(folder, changes, said):
    line = 4 if changes == {"sample_id": "pic1-P"} else 1
    if line == 4:
        rewrite(folder, 1, sample_id="pic1-P")
    else:
        rewrite(folder, 1, **changes)
    faults = check_folder(folder)
    assert any(said in fault.message and fault.file == "captions.jsonl" for fault in faults), faults
    assert all(fault.row is not None for fault in faults)
    with pytest.raises(FolderError, match=r"captions\.jsonl:\d+: "):
        load_folder(folder, "pragmatch")


def test_validate_lists_all_faults_not_the_first(folder):
    rewrite(folder, 1, label=0)
    rewrite(folder, 5, condition="X")
    rewrite(folder, 9, caption="")
    assert [fault.row for fault in check_folder(folder)] == [1, 5, 9]


def test_a_missing_column_is_named(folder):
    path = folder / "captions.jsonl"
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    del rows[2]["caption"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [(f.row, f.message) for f in check_folder(folder)] == [(3, "has no 'caption'")]


def test_bytes_that_are_no_utf8_are_named_with_their_row(folder):
    path = folder / "captions.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"caption M", b"caf\xe9 M")
    path.write_bytes(b"".join(lines))
    (fault,) = check_folder(folder)
    assert fault.row == 2
    assert "is not UTF-8" in fault.message


def test_an_id_that_differs_from_its_file_by_float_rounding_is_found(tmp_path):
    rows = caption_rows(1)
    for row in rows:
        row.update(image_id="892551658487631872", image="images/892551658487631873.png")
    with pytest.raises(FolderError, match="as after a float"):
        write_folder(
            tmp_path / "d",
            "pragmatch",
            rows,
            {"images/892551658487631873.png": png(0)},
            {"kind": "custom"},
        )


def test_ids_that_were_all_rounded_are_found(tmp_path):
    rows, images = [], {}
    for i in range(4):
        exact = 892551658487631873 + 1000 * i
        rounded = str(int(float(exact)))
        for row in caption_rows(1):
            row.update(
                sample_id=f"{rounded}-{row['condition']}",
                image_id=rounded,
                image=f"images/{rounded}.png",
                caption=f"{row['caption']} {i}",
            )
            rows.append(row)
        images[f"images/{rounded}.png"] = png(i)
    with pytest.raises(FolderError, match="looks rounded by a float"):
        write_folder(tmp_path / "d", "pragmatch", rows, images, {"kind": "custom"})


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "text"])
def test_an_unusable_picture_is_left_out_named_and_counted(folder, damage):
    picture = folder / "images" / "pic2.png"
    content = picture.read_bytes()
    picture.unlink()
    if damage != "missing":
        bad = {"empty": b"", "truncated": content[: len(content) // 2], "text": b"not a picture"}
        picture.write_bytes(bad[damage])
    read = load_folder(folder, "pragmatch")
    assert list(read.omitted) == ["images/pic2.png"]
    assert {row["image_id"] for row in read.rows} == {"pic0", "pic1", "pic3"}
    assert len(read.omitted_rows) == 3
    (fault,) = check_folder(folder)
    assert fault.row == 7
    assert "images/pic2.png" in fault.message


def test_truncation_is_found_where_the_harness_has_switched_leniency_on(folder, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    picture = folder / "images" / "pic1.png"
    picture.write_bytes(picture.read_bytes()[:200])
    assert list(load_folder(folder, "pragmatch").omitted) == ["images/pic1.png"]


def test_a_folder_without_any_usable_picture_is_refused(folder):
    shutil.rmtree(folder / "images")
    with pytest.raises(FolderError, match="no picture can be used"):
        load_folder(folder, "pragmatch")


def test_a_link_out_of_the_folder_is_not_followed(folder, tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(png(9))
    picture = folder / "images" / "pic0.png"
    picture.unlink()
    picture.symlink_to(secret)
    read = load_folder(folder, "pragmatch")
    assert read.omitted == {"images/pic0.png": "is a link that leaves the folder"}


def test_the_fingerprint_sees_rows_and_pictures_but_not_order(folder):
    before = load_folder(folder, "pragmatch").fingerprint
    path = folder / "captions.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(reversed(lines)))
    assert load_folder(folder, "pragmatch").fingerprint == before
    rewrite(folder, 1, caption="another caption")
    changed = load_folder(folder, "pragmatch").fingerprint
    assert changed != before
    (folder / "images" / "pic0.png").write_bytes(png(77))
    os.utime(path, ns=(1, 1))
    assert load_folder(folder, "pragmatch").fingerprint != changed


def test_nothing_is_written_over(folder):
    with pytest.raises(FileExistsError, match="exists already"):
        write_folder(folder, "pragmatch", caption_rows(1), {}, {"kind": "custom"})


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    rows = caption_rows(1)
    rows[0]["label"] = 0
    out = tmp_path / "d"
    with pytest.raises(FolderError):
        write_folder(out, "pragmatch", rows, {"images/pic0.png": png(0)}, {"kind": "custom"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("state", ["missing", "empty"])
def test_a_named_but_missing_or_empty_folder_is_an_error(tmp_path, monkeypatch, state):
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path))
    if state == "empty":
        (tmp_path / "pragmatch").mkdir()
    with pytest.raises(FolderError, match="pragclash data pragmatch"):
        current_folder("pragmatch")


def test_a_dataset_put_one_level_too_high_is_explained(folder, monkeypatch):
    monkeypatch.setenv("PRAGCLASH_DATA", str(folder))
    with pytest.raises(FolderError, match="must name the folder above it"):
        current_folder("pragmatch")


def test_a_named_folder_is_used(folder, monkeypatch):
    monkeypatch.setenv("PRAGCLASH_DATA", str(folder.parent))
    assert current_folder("pragmatch").path == folder


@pytest.mark.parametrize(
    "name", ["../a", "images/../a", "/images/a", "images\\..\\a", "C:images/a", "images", "x/a.png"]
)
def test_paths_that_leave_the_folder_are_refused(name):
    assert unsafe_path(name) is not None


def test_a_manifest_of_another_version_is_refused(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "version": 2}))
    with pytest.raises(FolderError, match="this reads 'pragclash-dataset' 1"):
        load_folder(folder, "pragmatch")


def test_deeply_nested_json_is_a_fault_not_a_crash(folder):
    path = folder / "captions.jsonl"
    path.write_text(path.read_text() + "[" * 100_000 + "\n")
    (fault,) = check_folder(folder)
    assert "is not JSON" in fault.message
