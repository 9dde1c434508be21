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
from tests import KNOWN_ANSWERS, clash_release

CELLS = json.loads((KNOWN_ANSWERS / "clash_paper_cells.json").read_text())


@pytest.fixture(scope="module")
def own_copy(tmp_path_factory):
    """The release's layout, with predictions in our own words that have its flags."""
    return clash_release.write(tmp_path_factory.mktemp("release"))


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
    path = own_copy / "predictions" / "open_ended" / "gpt-5_predictions.json.gz"
    rows = json.loads(gzip.decompress(path.read_bytes()))
    for row in rows[:20]:
        row["prediction"] = "a kite"
    (tmp_path / "results" / "open_ended").mkdir(parents=True)
    name = "open_ended/gpt-5_predictions.json"
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
