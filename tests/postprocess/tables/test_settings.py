"""What may stand in a table, and beside what: the paper's numbers, failed runs, other settings."""

import json
from types import SimpleNamespace

import pytest

from postprocess.publish.compare import NoResultError, compare
from postprocess.publish.export import refusals
from postprocess.publish.report_data import payload
from postprocess.read.fates import fates
from postprocess.response.line import failure_text
from postprocess.runs.folder import read_runs
from postprocess.tables.build import MixedError, _same_pictures, build
from postprocess.tables.formats import render
from postprocess.tables.model import Options
from pragclash.cli import main
from tests.postprocess import synthetic
from tests.postprocess.run_folders import write_run

FAST = Options()
BASE = "backend=llava_hf,pretrained=llava-hf/llava-1.5-7b-hf"
OPEN = ("clash_open", "clash_open_original")
OWN = '{"generation": {"max_new_tokens": 16, "temperature": 0}}'
WARM = '{"generation": {"max_new_tokens": 3, "temperature": 0.9}}'
RULED = '{"generation": {"max_new_tokens": 16, "temperature": 0}, "system_instruction": "Be brief"}'


def official(task, n=1281):
    records = synthetic.clash(task, lambda i: "a conflict" if i % 2 else "a kite", n)
    return [{**record, "prompt": "official"} for record in records]


def clash_run(folder, training=None, name="adapter", n=1281):
    """A run of LLaVA-1.5 with or without an adapter."""
    arguments = BASE if training is None else f"{BASE},peft=out/{name}"
    place = write_run(folder, {task: official(task, n) for task in OPEN}, model_args=arguments)
    if training is not None:
        (path,) = place.glob("*_results.json")
        results = json.loads(path.read_text())
        results["config"]["pragclash"] = {"adapter": {"folder": name, "training": training}}
        path.write_text(json.dumps(results))
    return folder


def trained(split, rows, dropped=0):
    return {"data": {"split": split, "rows": rows, "dropped_in_test_set": dropped}}


def model_row(table):
    (row,) = (row for row in table.rows if row.kind == "model")
    return row


@pytest.mark.parametrize(
    ("training", "name", "shown"),
    [
        (None, "", "0.00"),
        (trained("finetune", 18_000, 97), "adapter", "76.86"),
        (trained("finetune-merged", 31_676), "adapter-merged", "51.84"),
        (trained("finetune-merged", 31_676), "adapter", "51.84"),
        (trained("finetune", 146), "adapter", None),
        (trained("finetune-unfiltered", 40_000), "adapter", None),
        ({}, "adapter", None),
    ],
)
def test_a_tuned_model_has_the_number_of_its_own_training_data_or_none(
    tmp_path, training, name, shown
):
    table = build("clash-finetune", read_runs([clash_run(tmp_path, training, name)]), FAST)
    reference = model_row(table).cells["conflict"].reference
    assert (reference and reference.text(2)) == shown
    said = any("not the paper's setting" in note for note in table.notes)
    assert said == (shown is None)
    tuned = [row.head[0] for row in table.rows if row.kind == "paper"]
    assert ("LLaVa-1.5-7b, tuned on ~15k" in tuned) == (shown != "76.86")


def test_a_number_that_must_not_stand_there_is_said_in_its_column(tmp_path):
    table = build("clash-open", read_runs([clash_run(tmp_path, n=146)]), FAST)
    cells = model_row(table).cells
    assert cells["text"].reference is None
    assert cells["text"].withheld
    line = next(x for x in render(table, "md").splitlines() if x.startswith("| llava"))
    assert "not the paper's setting" in line
    assert any("146 of 1281 pictures" in note for note in table.notes)


@pytest.mark.parametrize("kind", ["sample", "custom"])
def test_other_data_have_no_number_of_the_pragmatch_paper_beside_them(tmp_path, kind):
    records = synthetic.pragmatch("pragmatch_pml", synthetic.skilled(), kind=kind)
    model = "backend=llava_hf,pretrained=llava-hf/llava-v1.6-vicuna-7b-hf"
    write_run(tmp_path, {"pragmatch_pml": records}, model_args=model)
    table = build("table1", read_runs([tmp_path]), FAST)
    assert all(row.cells["group_acc"].reference is None for row in table.rows
               if row.kind == "model")  # fmt: skip
    assert any("not the benchmark's data" in note for note in table.notes)


def failed(n):
    return synthetic.clash("clash_open", lambda i: failure_text("503") if i < n else "a kite", 50)


@pytest.mark.parametrize("n", [1, 50])
def test_what_the_launcher_refuses_is_no_row_but_listed(tmp_path, n):
    write_run(tmp_path / "down", {"clash_open": failed(n)}, model="down", model_args="")
    write_run(tmp_path / "up", {"clash_open": failed(0)}, model="up", model_args="")
    table = build("clash-open", read_runs([tmp_path]), FAST)
    assert [row.head[0] for row in table.rows if row.kind == "model"] == ["up"]
    (problem,) = map(str, table.problems)
    assert problem.startswith("down: clash_open: ")
    assert "failed" in problem
    assert f"left aside: {problem}" in render(table, "md").replace("\\_", "_")
    found = {run.label: run for run in read_runs([tmp_path]).runs}
    with pytest.raises(NoResultError, match="clash_open"):
        compare(found["down"], found["up"], FAST)


def test_every_table_says_what_became_of_answers_that_hold_none(tmp_path):
    said = ["(A)", "", "I'm sorry, but I can't help with that.", "Maybe it is so."]
    records = synthetic.clash("clash_mc", lambda i: said[i % 4], 20)
    write_run(tmp_path, {"clash_mc": records}, model="m", model_args="")
    cells = model_row(build("clash-mc", read_runs([tmp_path]), FAST)).cells
    names = ("failed", "empty", "truncated", "refused", "other_form")
    assert [cells[name].estimate.value for name in names] == [0, 5, 0, 5, 5]
    assert fates(records * 2) == fates(records)


def test_suspicious_readings_are_counted_and_change_no_figure(tmp_path):
    records = synthetic.clash("clash_open", lambda i: "There is no conflict: kite", 10)
    write_run(tmp_path, {"clash_open": records}, model="m", model_args="")
    cells = model_row(build("clash-open", read_runs([tmp_path]), FAST)).cells
    assert cells["suspicious"].estimate.value == 10
    assert cells["conflict"].estimate.value == 1


def made(settings, own):
    records = synthetic.pragmatch("pragmatch_pml", synthetic.skilled())
    return [{**r, "run_id": "r", "model": "m", "settings": settings, "settings_own": own}
            for r in records]  # fmt: skip


def settings_run(folder, name, settings, own):
    place = write_run(folder, {"pragmatch_pml": made(settings, own)}, model=name, model_args="")
    (path,) = place.glob("*_results.json")
    results = json.loads(path.read_text())
    results["config"] |= {"model": name, "pragclash": {"run_id": "r"}}
    path.write_text(json.dumps(results))


@pytest.mark.parametrize(
    ("other", "difference"), [(WARM, "temperature"), (RULED, "system_instruction")]
)
def test_other_settings_are_refused_marked_and_never_exported(tmp_path, other, difference):
    settings_run(tmp_path / "a", "plain", OWN, 1)
    settings_run(tmp_path / "b", "changed", other, 0)
    runs = read_runs([tmp_path])
    with pytest.raises(MixedError, match=difference):
        build("table1", runs, FAST)
    with pytest.raises(MixedError, match=difference):
        compare(*runs.runs, FAST)
    table = build("table1", runs, FAST._replace(mix=True))
    assert table.notes[0].startswith("MIXED")
    marks = {row.head[0]: row.marks for row in table.rows if row.head[1:] == ("zero-shot",)}
    assert marks["plain"] != marks["changed"]
    assert "‡" in marks["changed"]
    by_name = {run.label: run for run in runs.runs}
    assert any("not the task's own" in why for why in refusals(by_name["changed"],
                                                                ["pragmatch_pml"]))  # fmt: skip
    assert not refusals(by_name["plain"], ["pragmatch_pml"])


def test_a_changed_run_alone_is_marked(tmp_path):
    settings_run(tmp_path, "changed", WARM, 0)
    table = build("table1", read_runs([tmp_path]), FAST)
    assert any("‡" in row.marks for row in table.rows)
    assert any("temperature=0.9" in note for note in table.notes)


def test_runs_of_earlier_releases_are_read_and_marked(tmp_path):
    records = synthetic.pragmatch("pragmatch_pml", synthetic.skilled())
    write_run(tmp_path / "old", {"pragmatch_pml": records}, model="old", model_args="")
    settings_run(tmp_path / "new", "new", OWN, 1)
    table = build("table1", read_runs([tmp_path]), FAST)
    assert "made before run ids: old" in table.notes


def test_the_same_sample_with_another_picture_is_not_mixed(tmp_path):
    for name in ("a", "b"):
        settings_run(tmp_path / name, name, OWN, 1)
        (path,) = (tmp_path / name).rglob("*_samples_*.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            row["accuracy"]["picture_sha"] = name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(MixedError, match="picture that was shown"):
        build("table1", read_runs([tmp_path]), FAST)


def test_how_verdicts_came_about_is_told_and_the_inferred_are_a_second_view(tmp_path):
    records = synthetic.pragmatch(
        "pragmatch_pml",
        lambda n, slot: "Yes" if n else "The caption is clearly sarcastic here." if slot == "P"
        else "Hm.",
    )  # fmt: skip
    write_run(tmp_path, {"pragmatch_pml": records}, model="m", model_args="")
    first = build("table1", read_runs([tmp_path]), FAST)
    told = "m: 57 verdicts stated, 2 answers unread, 1 more only inferred from a sentence"
    assert told in first.notes
    second = build("table1", read_runs([tmp_path]), FAST._replace(inferred=True))
    assert any(note.startswith("second view: where an answer states") for note in second.notes)
    rows = [next(r for r in t.rows if r.kind == "model") for t in (first, second)]
    assert [row.cells["acc_p"].estimate.value for row in rows] == [0.95, 1.0]


def judged(n):
    return {"one": "CONFLICT" if n < 10 else "NONE", "two": "CONFLICT" if n < 5 else "IMAGE",
            "three": "NONE"}  # fmt: skip


def test_the_judges_asked_for_are_combined_everywhere(tmp_path):
    records = synthetic.clash("clash_open_judge", lambda n: "a conflict", judges=judged)
    write_run(tmp_path, {"clash_open_judge": records}, model="m", model_args="")
    runs = read_runs([tmp_path])
    for judges, wanted in ((None, 0.5), (("two", "three"), 0.25)):
        table = build("clash-judge", runs, FAST._replace(judges=judges))
        got = {row.head[1]: row.cells["conflict"].estimate for row in table.rows
               if row.kind == "model"}  # fmt: skip
        assert got["at least one"].value == wanted
        both = compare(runs.runs[0], runs.runs[0], FAST._replace(judges=judges)).tasks[0]
        assert {d.metric: d.a for d in both.differences}["judge_conflict"] == wanted
    unknown = build("clash-judge", runs, FAST._replace(judges=("two", "nobody")))
    assert any("no judge called nobody" in note for note in unknown.notes)


def test_exact_agreement_counts_equal_flags_alone(tmp_path):
    records = synthetic.clash(
        "clash_open_judge",
        lambda n: "a conflict" if n < 5 else "a kite or a conflict",
        judges=lambda n: {"one": "CONFLICT"},
    )
    write_run(tmp_path, {"clash_open_judge": records}, model="m", model_args="")
    table = build("clash-judge", read_runs([tmp_path]), FAST)
    (row,) = (row for row in table.rows if row.head[1] == "one")
    assert row.cells["exact"].estimate.value == 0.25


def test_the_commands_take_the_views(tmp_path, capsys):
    records = synthetic.clash("clash_open_judge", lambda n: "a conflict", judges=judged)
    write_run(tmp_path, {"clash_open_judge": records}, model="m", model_args="")
    views = ["--runs", str(tmp_path), "--judges", "two,three", "--inferred"]
    assert main.run(["tables", "clash-judge", *views]) == 0
    told = "judges two, three (as asked for), which judged 20 of 20 answers"
    assert told in capsys.readouterr().out
    assert main.run(["compare", str(tmp_path), str(tmp_path), *views[2:]]) == 0
    assert told in capsys.readouterr().out
    assert main.run(["report", *views, "--out", str(tmp_path / "page.html"), "--no-media"]) == 0


def test_rates_are_printed_as_the_paper_does_where_that_is_asked(tmp_path):
    runs = read_runs([clash_run(tmp_path)])
    plain = model_row(build("clash-finetune", runs, FAST)).cells
    styled = build("clash-finetune", runs, FAST._replace(paper_style=True))
    cells = model_row(styled).cells
    for key in ("conflict", "overall", "image_on_originals", "false_alarms"):
        mean, _, sd = cells[key].printed.partition(" ± ")
        assert float(mean) == pytest.approx(100 * plain[key].estimate.value, abs=0.2)
        n = 1281 * (1 + (key == "overall"))
        p = plain[key].estimate.value
        assert float(sd) == pytest.approx(100 * (p * (1 - p) / n) ** 0.5, rel=0.1)
        assert not plain[key].printed
    assert cells["conflict"].printed in render(styled, "md")
    assert any("mean ± deviation" in note for note in styled.notes)


def test_a_report_names_what_is_suspicious_about_an_answer(tmp_path):
    records = synthetic.clash(
        "clash_open", lambda i: "There is no conflict: kite" if i < 3 else "a kite", 10
    )
    write_run(tmp_path, {"clash_open": records}, model="m", model_args="")
    items = payload(read_runs([tmp_path]), FAST, {})["questions"]["items"]
    found = [result.get("signs") for item in items for _, result in item["results"]]
    assert found.count(None) == 7
    assert all("under a negation" in signs[0] for signs in found if signs)


def test_a_refused_run_is_in_no_part_of_a_report(tmp_path):
    write_run(tmp_path / "down", {"clash_open": failed(50)}, model="down", model_args="")
    write_run(tmp_path / "up", {"clash_open": failed(0)}, model="up", model_args="")
    page = payload(read_runs([tmp_path]), FAST, {})
    assert page["models"] == ["up"]
    assert any("all 50 answers are failed" in problem for problem in page["problems"])
    assert not any(line.startswith("down") for line in page["headline"])


def test_one_picture_under_two_ids_is_told_under_the_table():
    def told(*pictures):
        records = [{"image_id": str(i), "picture_sha": x} for i, x in enumerate(pictures)]
        return _same_pictures(
            [(SimpleNamespace(label="m"), SimpleNamespace(task="t", records=records))]
        )

    assert told("a", "b", "c") == []
    assert told(None, None) == []
    (note,) = told("a", "b", "a")
    assert note.startswith("m, t: 3 image ids show 2 distinct pictures")
