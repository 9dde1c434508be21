"""Interval, p and n of one difference are the same wherever they are printed."""

import csv
import io
import json

import pytest

from postprocess.publish.report_data import payload
from postprocess.runs.folder import read_runs
from postprocess.tables import build as tables
from postprocess.tables.formats import figure, p_text, render
from postprocess.tables.model import Options
from pragclash.cli import main
from tests.postprocess import synthetic
from tests.postprocess.run_folders import write_run


def always_yes(n, slot):
    return "Yes"


def written(folder, tasks, pictures):
    records = {
        task: synthetic.pragmatch(task, told, pictures=pictures) for task, told in tasks.items()
    }
    write_run(folder, records, model=folder.name, model_args="")
    return folder


def printed(capsys, *argv):
    assert main.run([str(a) for a in argv]) == 0
    return capsys.readouterr().out


def test_every_form_agrees_on_interval_p_and_n(tmp_path, capsys):
    def fewer(n, slot):
        return "Yes" if slot == "P" and n < 4 else "No"

    told = {
        "pragmatch_pm": lambda n, slot: "Yes" if slot == "P" and n < 11 else "No",
        "pragmatch_pm_text_only": fewer,
    }
    both = written(tmp_path / "both", told, 19)
    a = written(tmp_path / "a", {"pragmatch_pm": told["pragmatch_pm"]}, 19)
    b = written(tmp_path / "b", {"pragmatch_pm": fewer}, 19)
    runs = read_runs([both])
    table = tables.build("table4", runs, Options())
    (row,) = [row for row in table.rows if row.kind == "difference"]
    cells = json.loads(render(table, "json"))
    (as_json,) = [one["cells"] for one in cells["rows"] if one["kind"] == "difference"]
    (line,) = [
        one
        for one in csv.DictReader(io.StringIO(render(table, "csv")))
        if one["kind"] == "difference"
    ]
    compared = json.loads(printed(capsys, "compare", a, b, "--json"))["tasks"][0]["differences"]
    screen = printed(capsys, "compare", a, b)
    page = payload(runs, Options(), {}, with_media=False)
    (shown,) = [t for t in page["tables"] if t["table"] == "table4"]
    (on_page,) = [one["cells"] for one in shown["rows"] if one["kind"] == "difference"]
    seen = 0
    for one in compared:
        key = one["metric"]
        if key not in row.cells or row.cells[key].test is None:
            continue
        seen += 1
        cell, column = as_json[key], next(c for c in table.columns if c.key == key)
        want = (100 * one["low"], 100 * one["high"], one["p_value"], one["n"])
        assert (cell["low"], cell["high"], cell["p_value"], cell["n"]) == pytest.approx(want)
        assert on_page[key] == cell
        in_csv = [float(line[f"{key}_{x}"]) for x in ("low", "high", "p", "n")]
        assert in_csv == pytest.approx(want, rel=1e-3, abs=1e-4)
        points = figure(row.cells[key].estimate, column._replace(unit="points"), 1)
        text = f"{points} {p_text(row.cells[key].test, row.cells[key].adjusted)}"
        assert text in render(table, "md")
        assert text in render(table, "latex")
        assert f"[{want[0]:+.1f}, {want[1]:+.1f}]" in screen
        assert cell["exact"] == one["exact"]
        assert cell["holm"] >= cell["p_value"]
    assert seen >= 4


def test_ten_copies_of_a_small_difference_are_beyond_doubt(tmp_path, capsys):
    """40 of 190 pictures go down and none up."""
    told = {
        "pragmatch_pm": lambda n, slot: "Yes" if slot == "P" and n % 19 >= 4 else "No",
        "pragmatch_pm_text_only": lambda n, slot: "Yes" if slot == "P" else "No",
    }
    folder = written(tmp_path / "run", told, 190)
    made = json.loads(printed(capsys, "tables", "table4", "--runs", folder, "--format", "json"))
    (cells,) = [row["cells"] for row in made["rows"] if row["kind"] == "difference"]
    assert cells["accuracy"]["value"] == pytest.approx(-100 * 20 / 190)
    assert cells["accuracy"]["p_value"] < 1e-6
    assert cells["accuracy"]["exact"] < 1e-11
    assert cells["accuracy"]["high"] < 0


def test_yes_against_no_is_beyond_doubt(tmp_path, capsys):
    """A always says Yes; B says No except on 50 of 1,000 P."""
    a = written(tmp_path / "a", {"pragmatch_pm": always_yes}, 1000)
    rare = {"pragmatch_pm": lambda n, slot: "Yes" if slot == "P" and n < 50 else "No"}
    b = written(tmp_path / "b", rare, 1000)
    (task,) = json.loads(printed(capsys, "compare", a, b, "--json"))["tasks"]
    found = {one["metric"]: one for one in task["differences"]}
    assert found["accuracy"]["difference"] == pytest.approx(-0.025)
    assert found["accuracy"]["p_value"] < 1e-6
    assert found["pair_acc"]["p_value"] < 1e-6


def test_no_flip_of_nineteen_has_an_interval(tmp_path, capsys):
    told = {"pragmatch_p_minus_lexical": always_yes}
    folder = written(tmp_path / "run", told, 19)
    made = json.loads(printed(capsys, "tables", "table3", "--runs", folder, "--format", "json"))
    (cell,) = [
        row["cells"]["p.flip_difference"]
        for row in made["rows"]
        if row["kind"] == "model" and row["head"][1:] == ["zero-shot", "lexical"]
    ]
    assert (cell["value"], cell["p_value"]) == (0, 1)
    assert cell["low"] == pytest.approx(-16.8, abs=0.1)
    assert cell["high"] == pytest.approx(16.8, abs=0.1)


def test_a_row_of_few_pictures_says_so(tmp_path, capsys):
    folder = written(tmp_path / "run", {"pragmatch_pm": always_yes}, 5)
    for form in ("md", "latex"):
        text = printed(capsys, "tables", "table1", "--runs", folder, "--format", form)
        assert "too few pictures to tell" in text


def test_a_cell_with_another_n_than_its_row_says_so(tmp_path, capsys):
    records = synthetic.pragmatch("pragmatch_pm", always_yes, pictures=12)
    write_run(tmp_path / "run", {"pragmatch_pm": records[:-1]}, model="run", model_args="")
    text = printed(capsys, "tables", "table1", "--runs", tmp_path / "run")
    assert "(n 12)" in text


def test_two_wordings_stand_side_by_side(tmp_path, capsys):
    told = {
        "pragmatch_pm": always_yes,
        "pragmatch_pm_prompt_b": lambda n, slot: "Yes" if slot == "P" else "No",
    }
    folder = written(tmp_path / "run", told, 12)
    argv = ("tables", "table_prompts", "--runs", folder, "--format", "json")
    made = json.loads(printed(capsys, *argv))
    (cells,) = [row["cells"] for row in made["rows"] if row["kind"] == "difference"]
    assert cells["accuracy"]["value"] == -50
    assert cells["n"]["value"] == 12
