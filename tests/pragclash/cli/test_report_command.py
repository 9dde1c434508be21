"""The report finds its pictures by the fingerprint of the data, and shows no others."""

import argparse

import pytest
from PIL import Image

from lmms_eval_tasks.dataset.folder import write_folder
from pragclash.cli import report
from tests.postprocess import synthetic
from tests.postprocess.run_folders import write_run


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """A custom PragMatch folder of two pictures, and no default data."""
    monkeypatch.setenv("PRAGCLASH_DATA", str(tmp_path / "none"))
    rows, images = [], {}
    for number in range(2):
        path = tmp_path / f"{number}.png"
        Image.new("RGB", (64, 48), ("red", "blue")[number]).save(path)
        images[f"images/{number}.png"] = path
        for condition in "PML":
            rows.append(
                {
                    "sample_id": f"{number:04}-{condition}",
                    "image_id": f"{number:04}",
                    "image": f"images/{number}.png",
                    "condition": condition,
                    "cue": None,
                    "edit": None,
                    "caption": f"Caption {condition} of the folder, number {number}",
                    "label": int(condition == "P"),
                }
            )
    home = tmp_path / "data"
    return home, write_folder(home / "pragmatch", "pragmatch", rows, images, {"kind": "custom"})


def page(tmp_path, fingerprint, *extra):
    records = synthetic.pragmatch(
        "pragmatch_pml", synthetic.always_no, 2, kind="custom", fingerprint=fingerprint
    )
    write_run(tmp_path / "run", {"pragmatch_pml": records}, model="m", model_args="")
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)
    out = tmp_path / "report.html"
    argv = ["--runs", tmp_path / "run", "--out", out, "--force", *extra]
    assert report.run(parser.parse_args([str(a) for a in argv])) == 0
    return out.read_text(encoding="utf-8")


@pytest.mark.parametrize("below", ["", "pragmatch"])
def test_pictures_and_captions_of_the_runs_data_are_shown(tmp_path, dataset, below):
    home, folder = dataset
    text = page(tmp_path, folder.fingerprint, "--data", home / below)
    assert text.count('"data:image/jpeg;base64,') == 2 + 1  # and once in the page's own script
    assert "Caption M of the folder, number 1" in text


def test_the_default_data_are_found(tmp_path, dataset, monkeypatch):
    home, folder = dataset
    monkeypatch.setenv("PRAGCLASH_DATA", str(home))
    assert "Caption M of the folder, number 1" in page(tmp_path, folder.fingerprint)


def test_pictures_of_other_data_are_never_shown(tmp_path, dataset):
    home, _ = dataset
    text = page(tmp_path, synthetic.OTHER, "--data", home)
    assert text.count('"data:image/jpeg;base64,') == 1
    assert "of the folder" not in text


def test_data_that_cannot_be_used_are_named_and_the_page_is_made(tmp_path, dataset, capsys):
    home, folder = dataset
    (home / "pragmatch" / "captions.jsonl").write_text("{broken\n")
    text = page(tmp_path, folder.fingerprint, "--data", home)
    assert "no pictures from" in capsys.readouterr().err
    assert "0001-M" in text


def test_without_media_no_dataset_is_even_opened(tmp_path, dataset, monkeypatch):
    home, folder = dataset
    monkeypatch.setattr(report, "media_of", lambda folders: pytest.fail("opened"))
    assert "of the folder" not in page(tmp_path, folder.fingerprint, "--data", home, "--no-media")
