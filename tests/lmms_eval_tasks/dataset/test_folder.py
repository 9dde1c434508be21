import io
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lmms_eval_tasks.dataset.checks import unsafe_path
from lmms_eval_tasks.dataset.current import current_folder
from lmms_eval_tasks.dataset.folder import (
    MANIFEST,
    FolderError,
    check_folder,
    format_of,
    load_folder,
    write_folder,
)
from lmms_eval_tasks.dataset.rows import MAX_DEPTH
from lmms_eval_tasks.pragmatch.data import MAX_FOLD
from lmms_eval_tasks.sample.build import sample_folder
from tests.lmms_eval_tasks.clash_fixtures import clash_folder


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
        ({"caption": "\u200b\ufeff \u2060"}, "caption is empty"),
        ({"caption": "Caption\u200b  M of picture 0"}, "about one picture, with another label"),
        ({"caption": 7}, "caption must be text"),
        ({"cue": "style"}, "cue and edit are set together"),
        ({"cue": "smell", "edit": "mask"}, "cue 'smell' is none of"),
        ({"cue": "style", "edit": "inject"}, "edit 'inject' is for condition M, not P"),
        ({"cue": "style", "edit": "mask"}, "has no clean P to compare with"),
        ({"lable": 1}, "unknown column 'lable'"),
        ({"fold": -1}, "fold must be a whole number"),
        ({"fold": MAX_FOLD + 1}, f"from 0 to {MAX_FOLD}, not {MAX_FOLD + 1}"),
        ({"fold": 10**30}, "fold must be a whole number"),
        ({"label": 10**30}, "label must be 0 or 1"),
        ({"condition": ["P"]}, "condition a list is none of P, L, M"),
        ({"cue": {"a": 1}, "edit": "mask"}, "cue an object is none of"),
        ({"cue": "style", "edit": ["mask"]}, "edit a list is none of mask, inject"),
        ({"cue": "style", "edit": {"a": 1}}, "edit an object is none of"),
        ({"extra": [1]}, "extra must be an object, not a list"),
        ({"extra": {"a": ["\ud800"]}}, "extra holds a lone surrogate"),
        ({"extra": {"\ud800": 1}}, "extra holds a lone surrogate"),
        ({"extra": {"a": float("nan")}}, "is not JSON (NaN is no JSON number)"),
        ({"extra": json.loads('{"a":' * 17 + "1" + "}" * 17)}, "deeper than 16 levels"),
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


def test_a_number_beyond_what_a_float_holds_is_a_fault(folder):
    path = folder / "captions.jsonl"
    first, _, rest = path.read_text().partition("\n")
    path.write_text(f'{first[:-1]}, "extra": {{"a": 1e999}}}}\n{rest}')
    (fault,) = check_folder(folder)
    assert (fault.row, fault.message) == (1, "is not JSON (1e999 is too large a number)")


def test_as_deep_as_allowed_is_sound(folder):
    for line in (1, 2):
        rewrite(folder, line, extra=json.loads('{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH))
    assert check_folder(folder) == []


@pytest.mark.parametrize("name", ["manifest.json", "captions.jsonl"])
@pytest.mark.parametrize("state", ["folder", "pipe", "missing", "too large", "a circle"])
def test_a_file_that_cannot_be_read_is_named(folder, name, state, monkeypatch):
    path = folder / name
    if state == "too large":
        for reader in ("rows", "folder"):
            monkeypatch.setattr(f"lmms_eval_tasks.dataset.{reader}.MAX_BYTES", 10)
        os.utime(path, ns=(1, 1))
    else:
        path.unlink()
    if state == "folder":
        path.mkdir()
    elif state == "pipe":
        os.mkfifo(path)
    elif state == "a circle":
        path.symlink_to(path)
    said = {
        "folder": "is a folder",
        "pipe": "is no plain file",
        "missing": "is missing",
        "too large": "is larger than 10 bytes",
        "a circle": "cannot be read",
    }[state]
    found = [fault for fault in check_folder(folder, "pragmatch") if fault.file == name]
    assert any(said in fault.message for fault in found), found
    with pytest.raises(FolderError, match=f"{name}: {said}"):
        load_folder(folder, "pragmatch")


def test_a_picture_that_links_to_itself_is_left_out(folder):
    picture = folder / "images" / "pic0.png"
    picture.unlink()
    picture.symlink_to(picture)
    assert load_folder(folder, "pragmatch").omitted == {
        "images/pic0.png": "is a link that leads nowhere"
    }


def test_a_picture_number_too_long_for_a_float_is_no_crash(folder):
    for line in (1, 2, 3):
        rewrite(folder, line, image_id="9" * 30, image=f"images/{'9' * 400}.png")
    assert [fault.row for fault in check_folder(folder)] == [1]
    for line in (1, 2, 3):
        rewrite(folder, line, image=f"images/{'9' * 5000}.png")
    assert [fault.row for fault in check_folder(folder)] == [1]


def test_a_value_that_no_file_can_hold_is_a_fault_of_writing(tmp_path):
    rows = caption_rows(1)
    rows[1]["caption"] = "\ud800"
    with pytest.raises(FolderError, match=r"captions\.jsonl:2: is not UTF-8"):
        write_folder(tmp_path / "d", "pragmatch", rows, {"images/pic0.png": png(0)}, {})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**30, -1, 2**63, 0, 1, 2])
    | st.floats()
    | st.text(max_size=8)
    | st.characters(categories=["Cs"])
    | st.sampled_from(["P", "mask", "inject", "lexical", "images/pic1.png", "pic1", "object"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
COLUMNS = [
    (benchmark, column)
    for benchmark in ("pragmatch", "clash")
    for column in (*format_of(benchmark).required, *format_of(benchmark).optional)
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("sound")
    images = {f"images/pic{i}.png": png(i) for i in range(2)}
    write_folder(home / "pragmatch", "pragmatch", caption_rows(2), images, {"kind": "custom"})
    clash_folder(home / "clash")
    return {name: home / name for name in ("pragmatch", "clash")}


@pytest.mark.parametrize(("of", "column"), COLUMNS)
@settings(max_examples=12)
@given(values=st.dictionaries(st.sampled_from([1, 2, 4]), JSON, min_size=1), others=st.data())
def test_any_value_in_any_column_is_fine_or_a_fault_with_its_row(sound, of, column, values, others):
    fmt = format_of(of)
    content = (sound[of] / fmt.rows_file).read_text()
    rows = [json.loads(line) for line in content.splitlines()]
    for line, value in values.items():
        rows[line - 1][column] = value
        if column in ("cue", "edit") and others.draw(st.booleans()):
            rows[line - 1]["edit" if column == "cue" else "cue"] = others.draw(JSON)
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / of
        path.mkdir()
        shutil.copytree(sound[of] / "images", path / "images")
        shutil.copy(sound[of] / MANIFEST, path)
        (path / fmt.rows_file).write_text("".join(json.dumps(row) + "\n" for row in rows))
        faults = check_folder(path)
        assert all(fault.file == fmt.rows_file and fault.row for fault in faults)
        "".join(map(str, faults)).encode()
        try:
            read = load_folder(path, of)
        except FolderError as error:
            refused = error.faults
        else:
            refused = []
            assert len(read.rows) + len(read.omitted_rows) == len(rows)
            assert bool(read.omitted) == bool(faults)
        assert faults or not refused


@pytest.mark.parametrize("name", ["format", "version", "benchmark", "kind", "sources", "prompts"])
@settings(max_examples=25)
@given(value=JSON)
def test_any_value_in_a_manifest_is_fine_or_a_fault(sound, name, value):
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "pragmatch"
        shutil.copytree(sound["pragmatch"], path)
        manifest = json.loads((path / MANIFEST).read_text())
        (path / MANIFEST).write_text(json.dumps({**manifest, name: value}))
        faults = check_folder(path)
        assert all(fault.file == MANIFEST for fault in faults)
        if faults:
            with pytest.raises(FolderError):
                load_folder(path, "pragmatch")
        else:
            assert load_folder(path, "pragmatch").rows


def test_data_set_to_nothing_is_an_error_and_not_the_sample(monkeypatch):
    for value in ("", "  "):
        monkeypatch.setenv("PRAGCLASH_DATA", value)
        with pytest.raises(FolderError, match="PRAGCLASH_DATA: folder: the variable is set but"):
            current_folder("pragmatch")


@pytest.mark.parametrize("state", ["a file", "the kernel's"])
def test_a_cache_that_cannot_be_written_is_named_with_its_variable(tmp_path, monkeypatch, state):
    cache = tmp_path / "cache" if state == "a file" else Path("/proc/nope")
    if state == "a file":
        cache.write_text("")
    elif not Path("/proc/self").exists():
        pytest.skip("no /proc here")
    monkeypatch.setenv("PRAGCLASH_CACHE", str(cache))
    monkeypatch.delenv("PRAGCLASH_DATA", raising=False)
    with pytest.raises(FolderError) as caught:
        sample_folder("clash")
    assert "the cache for the sample cannot be written" in str(caught.value)
    assert "set PRAGCLASH_CACHE to a folder" in str(caught.value)
    assert str(cache) in str(caught.value)


def test_a_sample_that_another_process_wrote_meanwhile_is_used(tmp_path, monkeypatch):
    from lmms_eval_tasks.sample import build

    monkeypatch.setenv("PRAGCLASH_CACHE", str(tmp_path))

    def late(out, *rest):
        write_folder(out, *rest)
        raise FileExistsError(f"{out} exists already")

    monkeypatch.setattr(build, "write_folder", late)
    assert check_folder(sample_folder("clash"), "clash") == []


def test_a_faulty_row_does_not_hide_its_other_faults(folder):
    rewrite(folder, 1, label=0)
    rewrite(folder, 2, sample_id="pic0-P")
    (folder / "images" / "pic0.png").write_bytes(b"junk")
    faults = check_folder(folder)
    assert any("contradicts condition P" in fault.message for fault in faults)
    assert any("stands in row 1 already" in fault.message for fault in faults)
    assert any("does not decode" in fault.message for fault in faults)


def test_a_small_folder_cannot_call_itself_the_whole_benchmark(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "kind": "full"}))
    (fault,) = check_folder(folder)
    assert '"kind" is full, but 4 pictures have P, L and M' in fault.message
    with pytest.raises(FolderError, match="write custom"):
        load_folder(folder, "pragmatch")
