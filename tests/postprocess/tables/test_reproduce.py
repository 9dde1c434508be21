"""The paper's tables, regenerated: from counts of the released flags, and from the files."""

from __future__ import annotations

import gzip
import json

import pytest

from postprocess.measure.stats import SEED
from postprocess.runs.prediction_files import find_files, find_samples, read_samples, read_source
from postprocess.tables.reproduce import TABLES, reproduce
from postprocess.tables.setting import (
    Adapter,
    adapter_of,
    paper_row,
    papers_setting,
    released_adapter,
)
from pragclash.cli import main
from tests import KNOWN_ANSWERS

COUNTS = json.loads((KNOWN_ANSWERS / "clash_released_flags.json").read_text())
CELLS = json.loads((KNOWN_ANSWERS / "clash_paper_cells.json").read_text())
WORDS = {"conflict": "a conflict", "image": "a kite", "text": "a drone", "none": "nothing"}
NAMES = ("conflict", "image", "text", "none")
STORED = {
    **{"conflict": "matches_contradiction", "image": "matches_image_only"},
    **{"text": "matches_text_only", "none": "matches_none", "distractor": "matches_irrelevant"},
}
CHOICES = {
    **{"contradiction": "A", "image_only": "B"},
    **{"text_only": "C", "irrelevant_but_plausible": "D"},
}


def row_of(picture: int, flags: str, judges: str, mc: bool) -> dict:
    """A prediction in our own words that has these flags."""
    held, _, kept = flags.partition(" ")
    names = (*NAMES[:3], "distractor") if mc else NAMES
    values = {name: mark == "1" for name, mark in zip(names, held, strict=True)}
    row = {"image_id": picture, "question": f"What is at place {picture}?"}
    row |= {"original_caption": "A kite.", "conflicting_caption": "A drone."}
    if mc:
        letter = next((x for x, on in zip("ABCD", values.values(), strict=True) if on), None)
        row["prediction"] = f"({letter})" if letter else "no letter"
        texts = {name: {"choice": x, "answer": name} for name, x in CHOICES.items()}
        row["modality_answers"] = texts
    else:
        row["prediction"] = " or ".join(WORDS[name] for name in NAMES if values[name])
        row["modality_answers"] = {"image_only": "kite", "text_only": "drone"}
    marks = kept or "s" * len(names)
    row["evaluation"] = {
        STORED[name]: values[name] for name, mark in zip(names, marks, strict=True) if mark == "s"
    }
    for judge, _, label in (part.partition("=") for part in judges.split(",") if part):
        labels = dict(zip(NAMES, ("CONFLICT", "IMAGE", "TEXT", "NONE"), strict=True))
        row[f"evaluation_{judge}_prediction"] = "what?" if label == "UNREADABLE" else label
        row[f"evaluation_{judge}"] = {STORED[x]: labels[x] == label for x in NAMES}
    return row


@pytest.fixture(scope="module")
def own_copy(tmp_path_factory):
    """The release's layout, with predictions in our own words that have its flags."""
    home = tmp_path_factory.mktemp("release")
    pictures, samples = [], []
    for group in COUNTS["groups"]:
        first = len(samples) + 1000 * len(pictures)
        ids = [first + i for i in range(group["pictures"])]
        pictures.append(ids)
        for picture in ids:
            for kind, categories in group["samples"]:
                sample = {"image_id": picture, "question": f"What is at place {picture}?"}
                sample |= {"change_type": kind}
                sample["category"] = categories if len(categories) > 1 else categories[0]
                samples.append(sample)
    (home / "data").mkdir()
    test_file = home / "data" / "synthetic_captions_test_filtered.json"
    test_file.write_text(json.dumps({"metadata": {}, "samples": samples}))
    for name, entries in COUNTS["files"].items():
        rows, left = [], [iter(ids) for ids in pictures]
        for group, flags, judges, count in entries:
            for _ in range(count):
                mc = name.startswith("multiple_choice")
                rows.append(row_of(next(left[group]), flags, judges, mc))
        path = home / "results" / f"{name}_predictions.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows))
    return home


def cells_of(home):
    sources = [read_source(path)._replace(found=True) for path in find_files(home)]
    found = reproduce(sources, read_samples(find_samples(home)), draws=200, seed=SEED)
    return {(cell.table, cell.model, cell.column): cell for cell in found.cells}, found.remarks


@pytest.fixture(scope="module")
def own_cells(own_copy):
    return cells_of(own_copy)


def test_every_table_is_regenerated_from_the_released_flags(own_cells):
    cells, remarks = own_cells
    assert {table for table, _, _ in cells} == set(TABLES)
    assert not [cell for cell in cells.values() if cell.off]
    assert remarks == []
    known = [cell for cell in cells.values() if cell.paper is not None]
    assert len(known) == 19
    for cell in known:
        assert cell.reason or abs(cell.ours - cell.paper) <= 0.2
        assert cell.mean == pytest.approx(cell.ours, abs=0.3)
    assert all(cell.released is not None for cell in cells.values() if "mPLUG" not in cell.model)


def test_the_cells_known_from_the_paper_are_all_among_them(own_cells):
    cells, _ = own_cells
    printed = sorted(cell.paper for cell in cells.values() if cell.paper is not None)
    for cell in CELLS:
        assert any(abs(value - cell["expected"]) < 0.02 for value in printed), cell["name"]


def test_the_command_prints_ours_the_papers_and_the_difference(own_copy, capsys):
    assert main.run(["reproduce", "--release", str(own_copy), "--draws", "20"]) == 0
    out = capsys.readouterr().out
    line = next(x for x in out.splitlines() if x.startswith("GPT-5") and "conflict" in x)
    assert line.split() == ["GPT-5", "conflict", "1281", "86.81", "86.81", "86.78", "+0.03"]
    assert "0 off, 1 explained" in out
    style = ["reproduce", "--release", str(own_copy), "--draws", "20", "--paper-style"]
    assert main.run(style) == 0
    assert " ± " in capsys.readouterr().out


def test_a_cell_that_is_off_fails_and_is_named(own_copy, tmp_path, capsys):
    name = "open_ended/gpt-5_predictions.json"
    rows = json.loads((own_copy / "results" / name).read_text())
    for row in rows[:20]:
        row["prediction"] = "a kite"
    (tmp_path / "results" / "open_ended").mkdir(parents=True)
    (tmp_path / "results" / name).write_text(json.dumps(rows))
    assert main.run(["reproduce", "--release", str(tmp_path), "--draws", "20", "--json"]) == 1
    printed = capsys.readouterr()
    assert "main, open questions: GPT-5: image is off: 2" in printed.err
    found = json.loads(printed.out)
    assert any(cell["off"] for cell in found["cells"])
    assert "no test file" in found["remarks"][0]


def test_a_folder_that_is_no_release_is_one_line(tmp_path, capsys):
    assert main.run(["reproduce", "--release", str(tmp_path)]) == 2
    assert "holds neither" in capsys.readouterr().err


def test_the_released_files_give_the_same_cells(shared, own_cells):
    cells, _ = cells_of(shared / "golden" / "clash")
    assert cells.keys() == own_cells[0].keys()
    for key, cell in cells.items():
        own = own_cells[0][key]
        assert not cell.off
        assert (cell.ours, cell.n) == (pytest.approx(own.ours), own.n), key


def test_the_counts_are_those_of_the_released_files(shared):
    for name, entries in COUNTS["files"].items():
        path = shared / "golden" / "clash" / "predictions" / f"{name}_predictions.json.gz"
        assert sum(entry[-1] for entry in entries) == len(
            json.loads(gzip.decompress(path.read_bytes()))
        )


FULL = {"n": 1289, "dataset_kind": "full", "prompt": "official"}


@pytest.mark.parametrize(
    ("model", "change", "reason"),
    [
        ("GPT-5", {}, None),
        ("GPT-5", {"n": 1281}, None),
        (None, {}, "none of the paper's models"),
        ("GPT-5", {"n": 146}, "146 of 1281 pictures"),
        ("GPT-5", {"dataset_kind": "custom"}, "not the released test set"),
        ("GPT-5", {"prompt": "pragclash"}, "not the release's prompt"),
        ("LLaVa-1.5-7b", {"adapter": Adapter("finetune", 18_097)}, None),
        ("LLaVa-1.5-7b", {"adapter": Adapter("finetune", 146)}, "trained on 146 rows"),
        ("LLaVa-1.5-7b", {"adapter": Adapter(None, 146)}, "not trained on a file of the release"),
        ("GPT-5", {"dataset_kind": "custom", "prompt": None, "released": True, "n": 1281}, None),
    ],
)
def test_a_papers_cell_stands_only_in_the_papers_setting(model, change, reason):
    found = papers_setting(model, **{**FULL, **change})
    if reason is None:
        assert found is None
    else:
        assert found.startswith("not the paper's setting: ")
        assert reason in found


def test_each_tuned_model_has_the_row_of_its_own_data():
    data = {"split": "finetune-merged", "rows": 31_000, "dropped_in_test_set": 676}
    merged = adapter_of({"data": data})
    assert paper_row("LLaVa-1.5-7b", merged) == "LLaVa-1.5-7b, tuned on ~30k"
    assert papers_setting("LLaVa-1.5-7b", **FULL, adapter=merged) is None
    for training in (None, {}, {"data": []}, {"data": {"split": "mine", "rows": 146}}):
        assert paper_row("LLaVa-1.5-7b", adapter_of(training)).endswith("tuned on other data")
    assert released_adapter("llava_lora_open_ended_single (finetune)") == Adapter(
        "finetune", 18_097
    )
    assert released_adapter("llava_lora_open_ended_single_2").split is None
