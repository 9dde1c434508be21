"""Warnings: what keeps no folder from being used, and is named with its row all the same."""

import io
import json
import time

import numpy as np
import pytest
from PIL import Image

from lmms_eval_tasks.dataset.folder import write_folder
from lmms_eval_tasks.dataset.warnings import folder_warnings
from pragclash.cli.main import run


def picture(width, height, plain=False):
    noise = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    image = Image.new("RGB", (width, height), "teal") if plain else Image.fromarray(noise)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def folder_of(path, caption="a caption", content=None, image_id="b"):
    rows, images = [], {"images/a.png": picture(30, 40), f"images/{image_id}.png": content}
    images[f"images/{image_id}.png"] = content or picture(40, 30)
    for x in ("a", image_id):
        rows.append(
            {
                "sample_id": f"{x}-P",
                "image_id": x,
                "image": f"images/{x}.png",
                "condition": "P",
                "cue": None,
                "edit": None,
                "caption": "a caption" if x == "a" else caption,
                "label": 1,
            }
        )
    return write_folder(path / "out", "pragmatch", rows, images, {"kind": "custom"}).path


def warned(path):
    return [(found.row, found.message) for found in folder_warnings(path, "pragmatch")]


def test_an_ordinary_folder_has_no_warning(tmp_path):
    assert warned(folder_of(tmp_path, "<user> it is <num> o'clock <3")) == []


@pytest.mark.parametrize(
    "token",
    ["<image>", "<|im_end|>", "</s>", "<s>", "[INST]", "[/INST]", "<<SYS>>", "<|eot_id|>"],
)
def test_a_control_token_is_named_with_its_row(tmp_path, token):
    ((row, message),) = warned(folder_of(tmp_path, f"a dog {token} on a couch"))
    assert row == 2
    assert message == f"caption holds {token!r}, which some models read as a command"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (picture(1, 1, plain=True), ["1 x 1 pixels: too small", "one colour"]),
        (picture(20, 4020), ["beyond 1 to 200"]),
        (picture(300, 300, plain=True), ["one colour"]),
    ],
)
def test_an_odd_picture_is_named(tmp_path, content, said):
    found = warned(folder_of(tmp_path, content=content))
    assert len(found) == len(said)
    for words in said:
        assert any(row == 2 and words in message for row, message in found), found


def test_a_huge_picture_of_one_colour_takes_seconds(tmp_path):
    path = folder_of(tmp_path, content=picture(9_000, 9_000, plain=True))
    start = time.monotonic()
    assert [message for _, message in warned(path)] == ["picture images/b.png has one colour only"]
    assert time.monotonic() - start < 10


def test_ids_that_differ_in_case_only_are_named(tmp_path):
    found = warned(folder_of(tmp_path, image_id="A"))
    assert (2, "image_id 'A' differs from 'a' in row 1 by case only") in found
    assert len(found) == 2


def test_validate_prints_warnings_and_exits_0(tmp_path, capsys):
    path = folder_of(tmp_path, "so </s> good")
    assert run(["validate", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "warning: captions.jsonl:2: caption holds '</s>'" in printed
    assert "sound; pragmatch, custom, 2 rows" in printed
    assert run(["validate", str(path), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["faults"] == []
    assert [warning["row"] for warning in listed["warnings"]] == [2]
