"""Tables hold the figures of the records, the papers' numbers, and what is missing."""

import argparse
import csv
import functools
import gzip
import io
import json
import re
from types import SimpleNamespace

import pytest

from postprocess.benchmarks.pragmatch_tasks import CUES
from postprocess.measure import pragmatch as metrics
from postprocess.measure.groups import Answer
from postprocess.runs.folder import read_runs
from postprocess.tables import build as tables
from postprocess.tables.formats import as_json, missing_commands, render
from pragclash.cli import tables as tables_command
from tests.postprocess import synthetic
from tests.postprocess.run_folders import write_run

LLAVA = "backend=llava_hf,pretrained=llava-hf/llava-v1.6-vicuna-7b-hf"
FAST = tables.Options()


@pytest.fixture
def llava(tmp_path):
    """A run of a paper's model on pml, with its folder."""
    records = synthetic.pragmatch("pragmatch_pml", synthetic.skilled())
    write_run(tmp_path / "llava", {"pragmatch_pml": records}, model_args=LLAVA)
    return tmp_path / "llava", records


def table_of(name, *folders, options=FAST):
    return tables.build(name, read_runs(folders), options)


@functools.cache
def table_of_release(name, folder):
    return table_of(name, folder)


def row_of(table, *head):
    (row,) = [r for r in table.rows if r.head[: len(head)] == head]
    return row


def percent(cell):
    return None if cell.estimate is None else cell.estimate.value


def command(*argv):
    parser = argparse.ArgumentParser()
    tables_command.add_arguments(parser)
    return tables_command.run(parser.parse_args([str(a) for a in argv]))


def test_table1_holds_every_metric_of_the_records(llava):
    folder, records = llava
    row = row_of(table_of("table1", folder), "llava-v1.6-vicuna-7b-hf", "zero-shot")
    answers = [Answer.of(record) for record in records]
    for key in ("accuracy", "f1", "auroc", "acc_p", "acc_m", "acc_l", "pair_acc", "group_acc"):
        want = metrics.figure(key, answers, metrics.PML)
        assert percent(row.cells[key]) == pytest.approx(want)
        assert row.cells[key].estimate.low < want < row.cells[key].estimate.high
    assert percent(row.cells["n"]) == 20


def test_the_papers_numbers_stand_beside_the_papers_model(llava):
    table = table_of("table1", llava[0])
    cells = row_of(table, "llava-v1.6-vicuna-7b-hf", "zero-shot").cells
    assert cells["group_acc"].reference.text() == "19.0"
    assert cells["pair_acc"].reference is None
    paper = row_of(table, "Qwen2.5-VL-7B", "zero-shot")
    assert paper.kind == "paper"
    assert paper.cells["acc_p"].reference.text() == "~13.9"
    assert not [r for r in table.rows if r.head[0] == "LLaVA-v1.6-7B"]


def test_every_table_has_an_always_no_row_that_is_what_such_a_model_scores(tmp_path):
    tasks = {"pragmatch_pml": synthetic.pragmatch("pragmatch_pml", synthetic.always_no)}
    for family in ("p_minus", "m_plus", "p_minus_m_plus"):
        for cue in CUES:
            task = f"pragmatch_{family}_{cue}"
            tasks[task] = synthetic.pragmatch(task, synthetic.always_no)
    tasks["clash_mc"] = synthetic.clash("clash_mc", lambda n: "(A)")
    tasks["clash_open"] = synthetic.clash("clash_open", lambda n: "a kite")
    tasks["clash_open_original"] = synthetic.clash("clash_open_original", lambda n: "a kite")
    write_run(tmp_path, tasks, model="no", model_args="")
    for name in tables.tables():
        table = table_of(name, tmp_path)
        fixed = next(r for r in table.rows if r.head[0].startswith("always No"))
        mine = [
            r for r in table.rows if r.head[0] == "no" and "zero-shot" in (*r.head, "zero-shot")
        ]
        for key, cell in fixed.cells.items():
            for row in mine[:1]:
                if key in row.cells and row.cells[key].estimate is not None:
                    assert percent(row.cells[key]) == percent(cell), (name, key)


def test_a_missing_task_is_an_empty_cell_with_the_command_that_fills_it(llava):
    table = table_of("table1", llava[0])
    cell = row_of(table, "llava-v1.6-vicuna-7b-hf", "chain of thought").cells["acc_p"]
    assert cell.estimate is None
    assert cell.command == (
        f"lmms_eval --model verdict --model_args {LLAVA} --tasks pragmatch_pml_cot "
        f"--output_path {llava[0]} --log_samples"
    )
    assert missing_commands(table) == [cell.command]
    text = render(table, "md")
    assert "| (1) |" in text
    assert f"(1) not run: `{cell.command}`" in text


def test_a_command_quotes_what_a_shell_would_read(tmp_path):
    records = synthetic.pragmatch("pragmatch_pm", synthetic.always_no)
    write_run(tmp_path, {"pragmatch_pm": records}, model="m", model_args="x=$(touch /tmp/pwned)")
    (text,) = missing_commands(table_of("table1", tmp_path))
    assert "'x=$(touch /tmp/pwned)'" in text


def test_pairs_alone_fill_what_pairs_can(tmp_path):
    records = synthetic.pragmatch("pragmatch_pm", synthetic.skilled())
    write_run(tmp_path, {"pragmatch_pm": records}, model="m", model_args="")
    row = row_of(table_of("table1", tmp_path), "m", "zero-shot")
    assert percent(row.cells["pair_acc"]) is not None
    assert row.cells["group_acc"].command


def test_without_scores_the_cells_that_need_them_are_not_applicable(tmp_path):
    records = synthetic.pragmatch("pragmatch_pml", lambda n, slot: "Yes")
    write_run(tmp_path, {"pragmatch_pml": records}, model="m", model_args="")
    table = table_of("table1", tmp_path)
    assert row_of(table, "m", "zero-shot").cells["auroc"].estimate is None
    line = next(x for x in render(table, "md").splitlines() if x.startswith("| m | zero-shot"))
    assert "n/a" in line


def test_different_data_are_refused_by_name_and_marked_when_mixing_is_asked_for(tmp_path):
    for name, kind, fingerprint in (
        ("a", "full", synthetic.FULL),
        ("b", "sample", synthetic.OTHER),
    ):
        records = synthetic.pragmatch(
            "pragmatch_pml", synthetic.skilled(), kind=kind, fingerprint=fingerprint
        )
        write_run(tmp_path / name, {"pragmatch_pml": records}, model=name, model_args="")
    folders = (tmp_path / "a", tmp_path / "b")
    with pytest.raises(tables.MixedError, match=r"full data .*a/pragmatch_pml.*sample data"):
        table_of("table1", *folders)
    table = table_of("table1", *folders, options=FAST._replace(mix=True))
    assert (row_of(table, "a", "zero-shot").marks, row_of(table, "b", "zero-shot").marks) == (
        "a",
        "b",
    )
    assert table.notes[0].startswith("MIXED")
    assert "[b] data: the SAMPLE" in "\n".join(table.notes)
    assert "| a [a] |" in render(table, "md")


def test_different_prompts_are_refused(tmp_path):
    for version in (1, 2):
        records = synthetic.pragmatch("pragmatch_pml", synthetic.skilled(), prompt_version=version)
        write_run(
            tmp_path / str(version), {"pragmatch_pml": records}, model=f"m{version}", model_args=""
        )
    with pytest.raises(tables.MixedError, match="zero-shot, version 2"):
        table_of("table1", tmp_path / "1", tmp_path / "2")


def test_zero_shot_and_chain_of_thought_are_rows_of_their_own(tmp_path):
    tasks = {
        task: synthetic.pragmatch(task, answer)
        for task, answer in (
            ("pragmatch_pml", synthetic.always_no),
            ("pragmatch_pml_cot", lambda n, slot: "So it is.\nVerdict: Yes"),
        )
    }
    write_run(tmp_path, tasks, model="m", model_args="")
    table = table_of("table1", tmp_path)
    assert percent(row_of(table, "m", "zero-shot").cells["acc_p"]) == 0
    assert percent(row_of(table, "m", "chain of thought").cells["acc_p"]) == 1


def test_cue_differences_are_paired_over_the_same_pictures(tmp_path):
    task = "pragmatch_p_minus_ocr"
    records = synthetic.pragmatch(
        task, lambda n, slot: "Yes" if slot == "P" or n % 4 == 0 else "No", pictures=16
    )
    write_run(tmp_path, {task: records}, model="m", model_args="")
    cells = row_of(table_of("table3", tmp_path), "m", "zero-shot", "ocr").cells
    assert percent(cells["acc_p"]) == 1
    assert percent(cells["acc_p_minus"]) == 0.25
    assert percent(cells["p.flip_difference"]) == -0.75
    assert cells["p.flip_difference"].test.exact == pytest.approx(2 * 0.5**12)
    assert percent(cells["p_p_minus"]) == 0.25
    assert cells["acc_m"].command
    assert percent(cells["n_masked"]) == 16


def test_the_text_only_difference_is_paired(tmp_path):
    tasks = {
        "pragmatch_pml": synthetic.pragmatch("pragmatch_pml", synthetic.always_no),
        "pragmatch_pml_text_only": synthetic.pragmatch(
            "pragmatch_pml_text_only", lambda n, slot: "Yes" if n < 5 else "No"
        ),
    }
    write_run(tmp_path, tasks, model="m", model_args="")
    table = table_of("table4", tmp_path)
    row = row_of(table, "m", "zero-shot", "picture less text only")
    assert percent(row.cells["acc_p"]) == -0.25
    assert percent(row.cells["acc_m"]) == 0.25
    line = next(x for x in render(table, "md").splitlines() if "picture less" in x)
    assert "-25.0 [" in line
    assert "+25.0 [" in line


def test_people_and_caption_baselines_have_their_own_table(tmp_path):
    records = synthetic.pragmatch("pragmatch_pm", synthetic.skilled())
    for i, name in enumerate(("ann", "ben")):
        write_run(
            tmp_path,
            {
                "pragmatch_pm": records
                if i
                else synthetic.pragmatch("pragmatch_pm", synthetic.always_no)
            },
            model="human_votes",
            model_args=f"annotator={name}",
            date=f"2026080{i + 1}_120000",
        )
    write_run(tmp_path / "x", {"pragmatch_pm": records}, model="other", model_args="")
    table = table_of("human", tmp_path)
    heads = [row.head[0] for row in table.rows]
    assert "mean of 2 annotators" in heads
    assert "other" not in heads
    people = [row_of(table, f"human_votes (annotator={n})") for n in ("ann", "ben")]
    mean = row_of(table, "mean of 2 annotators").cells["accuracy"]
    assert percent(mean) == pytest.approx(sum(percent(r.cells["accuracy"]) for r in people) / 2)
    assert people[0].cells["pair_acc"].reference.text() == "71.5"
    assert any("kappa 0.571" in note for note in table.notes)


def test_the_exclude_view_is_named_and_not_the_default(tmp_path):
    records = synthetic.pragmatch(
        "pragmatch_pml", lambda n, slot: "Well, who knows" if n == 0 else "No"
    )
    write_run(tmp_path, {"pragmatch_pml": records}, model="m", model_args="")
    default = table_of("table1", tmp_path)
    assert percent(row_of(default, "m", "zero-shot").cells["acc_m"]) == 0.95
    second = table_of("table1", tmp_path, options=FAST._replace(exclude=True))
    assert percent(row_of(second, "m", "zero-shot").cells["acc_m"]) == 1
    assert any("second view" in note for note in second.notes)


def test_limits_and_cut_runs_are_noted(tmp_path):
    records = synthetic.pragmatch("pragmatch_pml", synthetic.always_no, 5)
    write_run(tmp_path / "a", {"pragmatch_pml": records}, model="m", model_args="", limit=15)
    write_run(
        tmp_path / "b",
        {"pragmatch_pml": records},
        model="n",
        model_args="",
        effective={"pragmatch_pml": 60},
    )
    notes = "\n".join(table_of("table1", tmp_path / "a", tmp_path / "b").notes)
    assert "only --limit 15 documents" in notes
    assert "n, pragmatch_pml: the run is incomplete" in notes


def test_clash_tables_print_false_alarms_beside_conflicts(tmp_path):
    tasks = {
        "clash_mc": synthetic.clash("clash_mc", lambda n: "(D)" if n < 5 else "B"),
        "clash_mc_original": synthetic.clash(
            "clash_mc_original", lambda n: "(D)" if n < 2 else "(A)"
        ),
    }
    write_run(tmp_path, tasks, model="m", model_args="")
    cells = row_of(table_of("clash-mc", tmp_path), "m").cells
    assert percent(cells["conflict"]) == 0.25
    assert percent(cells["unusable"]) == 0.75
    assert percent(cells["false_alarms"]) == 0.1
    open_cells = row_of(table_of("clash-categories", tmp_path), "m", "open").cells
    assert "clash_open" in open_cells["n"].command


def test_categories_of_two_count_in_both_unless_told(tmp_path):
    records = synthetic.clash("clash_mc", lambda n: "(D)")
    records[0]["categories"] = ["animals", "food"]
    write_run(tmp_path, {"clash_mc": records}, model="m", model_args="")
    cells = row_of(table_of("clash-categories", tmp_path), "m", "multiple choice").cells
    assert cells["food"].estimate.n == 1
    compat = table_of("clash-categories", tmp_path, options=FAST._replace(paper_compat=True))
    cells = row_of(compat, "m", "multiple choice").cells
    assert "food" not in cells
    assert cells["animals"].estimate.n == 6


def test_judges_stand_one_by_one_and_together(tmp_path):
    def judges(n):
        return {
            "one": "CONFLICT" if n < 10 else "NONE",
            "two": "CONFLICT" if n < 5 else "IMAGE",
            "lazy": "CONFLICT" if n == 0 else None,
        }

    records = synthetic.clash("clash_open_judge", lambda n: "a conflict", judges=judges)
    write_run(tmp_path, {"clash_open_judge": records}, model="m", model_args="")
    table = table_of("clash-judge", tmp_path)
    got = {r.head[1]: percent(r.cells["conflict"]) for r in table.rows if r.head[0] == "m"}
    assert got == {
        "matching rule": 1,
        "one": 0.5,
        "two": 0.25,
        "lazy": 1,
        "at least one": 0.5,
        "both": 0.25,
    }
    assert percent(row_of(table, "m", "lazy").cells["left_out"]) == 19


@pytest.mark.parametrize("name", list(tables.tables()))
@pytest.mark.parametrize("form", ["md", "latex", "csv", "json"])
def test_every_table_takes_every_form(llava, name, form):
    text = render(table_of(name, llava[0]), form)
    assert text.endswith("\n")
    if form == "json":
        assert json.loads(text)["table"] == name
    if form == "csv":
        rows = list(csv.reader(io.StringIO(text)))
        assert len({len(row) for row in rows}) == 1
    if form == "md":
        widths = {line.count(" | ") for line in text.splitlines() if line.startswith("|")}
        assert len(widths) == 1


def test_the_same_figures_stand_in_csv_and_json(llava):
    table = table_of("table1", llava[0])
    made = as_json(table)
    cell = next(r for r in made["rows"] if r["kind"] == "model")["cells"]["pair_acc"]
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    row = next(r for r in rows if r["kind"] == "model")
    assert float(row["pair_acc"]) == pytest.approx(cell["value"], abs=1e-3)
    assert float(row["pair_acc_low"]) == pytest.approx(cell["low"], abs=1e-3)
    assert row["group_acc_paper"] == "19.0"


@pytest.mark.parametrize("form", ["md", "latex", "csv", "json"])
def test_hostile_labels_stay_text(tmp_path, form):
    label = "=cmd|'C calc'!A0 <b>$\\input{x}\ud800"
    records = synthetic.pragmatch("pragmatch_pml", synthetic.always_no, 3)
    write_run(tmp_path, {"pragmatch_pml": records}, model=label, model_args="")
    runs = read_runs([tmp_path])
    out = tmp_path / "out"
    assert command("table1", "--runs", tmp_path, "--format", form, "--out", out) == 0
    text = out.read_text(encoding="utf-8")
    assert runs.runs[0].label == label.replace("\ud800", "\\ud800")
    if form == "latex":
        assert "\\input{" not in text
    if form == "md":
        # A code span shows its content as it is.
        assert "<b>" not in re.sub("`[^`]*`", "", text)
    if form == "csv":
        assert "\n=cmd" not in text


def test_the_command_names_problems_and_keeps_going(llava, capsys):
    folder, _ = llava
    (path,) = folder.rglob("*_samples_pragmatch_pml.jsonl")
    path.write_text(path.read_text()[:-30])
    assert command("table1", "--runs", folder) == 0
    out, err = capsys.readouterr()
    assert "cut off" in err
    assert "llava" in out
    assert "left aside" in out


def test_the_command_overwrites_only_with_force(llava, tmp_path, capsys):
    out = tmp_path / "table.md"
    out.write_text("mine")
    argv = ("table1", "--runs", llava[0], "--out", out)
    assert command(*argv) == 1
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert command(*argv, "--force") == 0
    assert out.read_text().startswith("### PragMatch")


def test_no_records_at_all_is_an_error(tmp_path, capsys):
    assert command("table1", "--runs", tmp_path) == 2
    assert "no records" in capsys.readouterr().err


def test_mixing_is_refused_by_the_command(tmp_path, capsys):
    for name, fingerprint in (("a", synthetic.FULL), ("b", synthetic.OTHER)):
        records = synthetic.pragmatch("pragmatch_pm", synthetic.always_no, fingerprint=fingerprint)
        write_run(tmp_path / name, {"pragmatch_pm": records}, model=name, model_args="")
    argv = ("table1", "--runs", tmp_path / "a", tmp_path / "b")
    assert command(*argv) == 1
    assert "--mix" in capsys.readouterr().err
    assert command(*argv, "--mix", "--json") == 0
    assert json.loads(capsys.readouterr().out)["notes"][0].startswith("MIXED")


GOLDEN = (
    # file, table, head, {cell: stored flag}
    ("multiple_choice/gpt-5", "clash-mc", ("gpt-5",)),
    ("multiple_choice/gpt-4.1-mini", "clash-mc", ("gpt-4.1-mini",)),
    ("open_ended/gpt-5", "clash-open", ("gpt-5",)),
    ("open_ended/gpt-4.1-mini", "clash-open", ("gpt-4.1-mini",)),
    ("open_ended/llm_as_judge/internvl_chatv1.5", "clash-open", ("internvl_chatv1.5",)),
    ("open_ended/finetune/llava-v1.5-7b", "clash-open", ("llava-v1.5-7b",)),
    (
        "open_ended/finetune/llava-v1.5-7b_lora_open_ended_single",
        "clash-finetune",
        ("llava-v1.5-7b_lora_open_ended_single",),
    ),
    (
        "open_ended/finetune/mplug_owl1_lora_open_ended_single",
        "clash-finetune",
        ("mplug_owl1_lora_open_ended_single",),
    ),
)
STORED = {
    "conflict": "matches_contradiction",
    "image": "matches_image_only",
    "text": "matches_text_only",
    "distractor": "matches_irrelevant",
    "none": "matches_none",
    "incorrect": "matches_none",
}


@pytest.fixture(scope="session")
def shared(clash_golden):
    """The released files or, in a plain clone, a stand-in with the same counts."""
    return clash_golden


@pytest.fixture(scope="module")
def released(shared, tmp_path_factory):
    """The twelve released files as run folders, through the command."""
    from pragclash.cli import main

    folder = shared / "golden" / "clash" / "predictions"
    out = tmp_path_factory.mktemp("released")
    files = sorted(str(path) for path in folder.rglob("*.json.gz"))
    assert len(files) == 12
    assert main.run(["score", *files, "--out", str(out), "--draws", "10"]) == 0
    return out, folder


def stored_rows(folder, name):
    with gzip.open(folder / f"{name}_predictions.json.gz", "rt", encoding="utf-8") as stream:
        return json.load(stream)


@pytest.mark.parametrize(("name", "table", "head"), GOLDEN)
def test_released_files_give_the_stored_flags_and_the_papers_cells(released, name, table, head):
    out, folder = released
    rows = stored_rows(folder, name)
    cells = row_of(table_of_release(table, out), *head).cells
    compared = 0
    for key, flag in STORED.items():
        if key in cells and all(flag in row["evaluation"] for row in rows):
            mean = sum(bool(row["evaluation"][flag]) for row in rows) / len(rows)
            assert percent(cells[key]) == pytest.approx(mean, abs=1e-12), key
            compared += 1
    assert compared >= 2
    known = {k: c for k, c in cells.items() if c.reference is not None}
    for key, cell in known.items():
        assert 100 * percent(cell) == pytest.approx(cell.reference.low, abs=0.2), key


def test_the_papers_cells_that_the_released_files_cover(released):
    out, _ = released
    covered = {
        (name, row.head[0], key)
        for name in ("clash-mc", "clash-open", "clash-finetune")
        for row in table_of_release(name, out).rows
        for key, cell in row.cells.items()
        if row.kind == "model" and cell.reference is not None and cell.estimate is not None
    }
    assert len(covered) == 16
    assert ("clash-finetune", "llava-v1.5-7b_lora_open_ended_single", "overall") in covered
    assert ("clash-finetune", "mplug_owl1", "incorrect") in covered


def test_judged_files_give_the_stored_judge_flags(released):
    out, folder = released
    rows = stored_rows(folder, "open_ended/llm_as_judge/internvl_chatv1.5")
    table = table_of_release("clash-judge", out)
    judges = [r.head[1] for r in table.rows if r.head[0] == "internvl_chatv1.5"]
    assert judges == ["matching rule", "gemini-2.5-pro", "gpt-5", "at least one", "both"]
    for judge in ("gemini-2.5-pro", "gpt-5"):
        cells = row_of(table, "internvl_chatv1.5", judge).cells
        compared = 0
        for key, flag in STORED.items():
            stored = [value for row in rows if (value := judge_flag(row, judge, flag)) is not None]
            if key in cells and len(stored) == len(rows):
                assert percent(cells[key]) == pytest.approx(sum(stored) / len(rows), abs=1e-12)
                compared += 1
        assert compared == 4


def judge_flag(row, judge, flag):
    """A judge's stored flag, wherever the row keeps it."""
    for holder in (row, row["evaluation"]):
        for key, value in holder.items():
            if isinstance(value, dict) and judge in key and flag in value:
                return bool(value[flag])
    return None


@pytest.mark.parametrize(("chosen", "used", "marked"), [("a", "a", True), ("a", "b", False)])
def test_a_model_that_rests_on_an_encoder_which_chose_the_data_is_marked(chosen, used, marked):
    notes = {"encoders": [used], "data": {"pragmatch": {"encoders": [chosen]}}}
    task = SimpleNamespace(task="pragmatch_pml", results={"config": {"pragclash": notes}})
    marks: dict[tuple[str, str], str] = {}
    remarks = tables._mark_selection([(SimpleNamespace(label="m"), task)], marks)
    assert (marks == {("m", "pragmatch_pml"): "†"}) == marked
    assert bool(remarks) == marked
    older = SimpleNamespace(task="pragmatch_pml", results={})
    assert tables._mark_selection([(SimpleNamespace(label="m"), older)], {}) == []
