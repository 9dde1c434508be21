"""`pragclash validate` says whether a folder is sound, and names pictures that stand twice."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from lmms_eval_tasks.dataset.folder import write_folder
from pragclash.cli import main


def picture(seed, size=(128, 96), form="PNG"):
    pixels = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC).save(out, form)
    return out.getvalue()


@pytest.fixture
def validate(tmp_path, capsys):
    def run(pictures, *argv):
        rows = [
            {
                "sample_id": f"{image_id}-{condition}",
                "image_id": image_id,
                "image": f"images/{image_id}.png",
                "condition": condition,
                "cue": None,
                "edit": None,
                "caption": f"caption {condition} of {image_id}",
                "label": int(condition == "P"),
            }
            for image_id in pictures
            for condition in "PML"
        ]
        images = {f"images/{image_id}.png": content for image_id, content in pictures.items()}
        folder = tmp_path / "folder"
        write_folder(folder, "pragmatch", rows, images, {"kind": "custom", "sources": []})
        status = main.run(["validate", str(folder), *argv])
        return status, capsys.readouterr().out

    return run


def test_a_sound_folder_is_said_to_be_sound(validate):
    status, out = validate({"a": picture(1), "b": picture(2)})
    assert status == 0
    assert "sound; pragmatch, custom, 6 rows, 2 pictures" in out
    assert "warning" not in out


def test_one_picture_under_two_ids_is_a_fault_with_the_way_out(validate):
    status, out = validate({"a": picture(1), "b": picture(1)})
    assert status == 1
    assert "images/b.png: image_id 'b' (b.png) is the very file of 'a'" in out
    assert "give its rows image_id 'a'" in out
    assert "sound" not in out


def test_a_near_twin_is_a_warning_and_no_fault(validate):
    status, out = validate({"a": picture(1), "b": picture(1, (64, 48))}, "--json")
    told = json.loads(out)
    assert (status, told["faults"]) == (0, [])
    assert "nearly the same picture as 'a'" in told["warnings"][0]["message"]
