"""Files of predictions, scored anew: every flag, every rate, no document twice."""

import copy
import functools
import gzip
import json
import random

import numpy as np
import pytest

from postprocess.measure.clash import answers_of, figure, metrics_for
from postprocess.response.line import attach_response
from postprocess.runs import rescoring
from postprocess.runs.folder import read_runs
from postprocess.runs.prediction_files import read_samples, read_source
from postprocess.runs.rescoring import TwinError, score
from pragclash.cli import main
from tests import KNOWN_ANSWERS
from tests.postprocess.runs.test_prediction_files import MC, OPEN, lines, write

CELLS = json.loads((KNOWN_ANSWERS / "clash_paper_cells.json").read_text())
STORED = {
    "conflict": "matches_contradiction",
    "image": "matches_image_only",
    "text": "matches_text_only",
    "none": "matches_none",
    "distractor": "matches_irrelevant",
}
FILES = {
    "multiple_choice/gpt-4.1-mini": 5124,
    "multiple_choice/gpt-5": 5124,
    "open_ended/gpt-4.1-mini": 5124,
    "open_ended/gpt-5": 5124,
    "open_ended/finetune/llava-v1.5-7b": 5124,
    "open_ended/finetune/llava-v1.5-7b_wo_contr": 5124,
    "open_ended/finetune/llava-v1.5-7b_lora_open_ended_single": 5124,
    "open_ended/finetune/llava-v1.5-7b_lora_open_ended_single_wo_contr": 5124,
    "open_ended/finetune/mplug_owl1_lora_open_ended_single": 5124,
    "open_ended/finetune/mplug_owl1_lora_open_ended_single_wo_contr": 5124,
    "open_ended/llm_as_judge/internvl_chatv1.5": 5124,
    "open_ended/llm_as_judge/mplug_owl1": 5124 - 3 * 467,
}
"""Golden files, and how many flags of the matching rule each stores."""


@pytest.fixture(scope="session")
def shared(clash_golden):
    """The released files or, in a plain clone, a stand-in with the same counts."""
    return clash_golden


def golden(shared, name):
    return shared / "golden" / "clash" / "predictions" / f"{name}_predictions.json.gz"


def command(*arguments):
    return main.run(["score", *map(str, arguments)])


def score_source(source, **options):
    (scored,) = score([source], **options)
    return scored


def rows_of(path):
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("name", FILES)
def test_every_stored_flag_of_the_release_is_reproduced(shared, name):
    path = golden(shared, name)
    scored = score_source(read_source(path), draws=2)
    assert len(scored.records) == 1281
    assert scored.files[0].faults == []
    assert scored.files[0].check.differences == []
    raw = rows_of(path)
    # Counted without the checker: a checker that compares nothing finds no difference either.
    compared = 0
    for row, (_, record) in zip(raw, scored.records, strict=True):
        for flag, stored in STORED.items():
            if stored in row["evaluation"]:
                assert record[f"flag_{flag}"] == row["evaluation"][stored]
                compared += 1
    assert compared == FILES[name] == sum(len(row["evaluation"]) for row in raw)
    (task,) = scored.tasks.values()
    for flag, stored in STORED.items():
        flags = [row["evaluation"][stored] for row in raw if stored in row["evaluation"]]
        if len(flags) == 1281:
            assert task.figures[flag].rate.value == np.mean(flags)


def test_every_stored_flag_of_the_judges_is_reproduced(shared):
    for name, expected in [
        ("open_ended/llm_as_judge/internvl_chatv1.5", 2 * 5124),
        ("open_ended/llm_as_judge/mplug_owl1", 2 * 5124 + 4 * 814),
    ]:
        scored = score_source(read_source(golden(shared, name)), draws=2)
        assert scored.files[0].check.differences == []
        assert scored.files[0].check.compared == FILES[name] + expected
        assert scored.files[0].check.not_stored == 5124 - FILES[name]
        (task,) = scored.tasks.values()
        for judge, judged in task.judges.items():
            stored = [
                row[f"evaluation_{judge}"]
                for row in rows_of(golden(shared, name))
                if "matches_none" in row.get(f"evaluation_{judge}", {})
            ]
            assert judged.n == len(stored)
            for flag, rate in judged.rates.items():
                assert rate.held == sum(flags[STORED[flag]] for flags in stored)


def test_judges_of_some_rows_are_shown_but_not_combined(shared):
    path = golden(shared, "open_ended/llm_as_judge/mplug_owl1")
    (task,) = score_source(read_source(path), draws=2).tasks.values()
    assert {name: judged.n for name, judged in task.judges.items()} == {
        "gemini-2.5-flash": 814,
        "gemini-2.5-pro": 1281,
        "gpt-5": 1281,
        "llm": 0,
    }
    assert task.combined == ("gemini-2.5-pro", "gpt-5")
    assert task.together["all"].n == 1281
    chosen = score_source(read_source(path), judges=["gemini-2.5-flash", "gpt-5"], draws=2)
    assert chosen.tasks["clash_open"].together["all"].n == 814


def test_overlaps_are_those_of_the_facts(shared):
    path = golden(shared, "open_ended/llm_as_judge/mplug_owl1")
    (task,) = score_source(read_source(path), draws=2).tasks.values()
    assert task.overlaps == 98
    assert sum(rate.held for rate in task.outcomes.values()) == 1281


@functools.cache
def scored_as_in_the_paper(shared, name):
    samples = read_samples(shared / "golden" / "clash" / "test.json.gz")
    return score_source(read_source(golden(shared, name)), samples=samples, paper_compat=True)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell["name"])
def test_the_papers_cells_are_met(shared, cell):
    name, figure = cell["input"]["file"], cell["input"]["figure"]
    scored = scored_as_in_the_paper(shared, name)
    (task,) = scored.tasks.values()
    if figure == "overall":
        both = [read_source(golden(shared, x)) for x in (name, f"{name}_wo_contr")]
        found = score(both)[0].overall["clash_open"]
        values = [found.rate.value, found.paper.mean]
    elif figure.startswith("category "):
        values = [task.categories[figure.removeprefix("category ")].value]
    else:
        values = [task.figures[figure].rate.value, task.figures[figure].paper.mean]
    for value in values:
        assert 100 * value == pytest.approx(cell["expected"], abs=cell["tolerance"])


def test_categories_have_the_sizes_of_the_facts(shared):
    samples = read_samples(shared / "golden" / "clash" / "test.json.gz")
    source = read_source(golden(shared, "open_ended/gpt-5"))
    (task,) = score_source(source, samples=samples, paper_compat=True, draws=2).tasks.values()
    assert {name: rate.n for name, rate in task.categories.items()} == {
        "animals": 146, "transportation": 67, "food": 87, "sports": 92, "household": 143,
        "other_object": 102, "colors": 310, "numbers": 205, "materials": 58, "physical": 19,
        "environmental": 16, "other_attribute": 26,
    }  # fmt: skip
    ours = score_source(source, samples=samples, draws=2)
    assert ours.files[0].unjoined == 0
    (task,) = ours.tasks.values()
    sizes = sum(rate.n for rate in task.categories.values())
    assert sizes == 1281 + 18


def test_the_command_checks_all_twelve_files(shared, capsys):
    assert command("--check", shared / "golden" / "clash", "--draws", 10) == 0
    files, figures = capsys.readouterr().out.split("\n\n")
    rows = [line.split()[-5:] for line in files.splitlines()[1:]]
    assert len(rows) == 12
    assert {(row[0], row[1], row[3]) for row in rows} == {("1281", "0", "0")}
    assert sorted(row[4] for row in rows) == ["0"] * 11 + ["1401"]
    assert len([line for line in figures.splitlines() if " clash_" in line and "%" not in line])
    assert "llava-v1.5-7b clash_open: overall 46.41 (n 2562)" in figures


@pytest.fixture
def release(tmp_path):
    """A small file in the release's form: every outcome, both forms, judges."""
    predictions = ["a kite", "balloon", "conflicting", "", None, ["kite", "x"], "kite or balloon"]
    flags = ["0100", "0010", "1000", "0001", "0001", "0100", "0110"]
    names = ["matches_contradiction", "matches_image_only", "matches_text_only", "matches_none"]
    rows = []
    for i, (prediction, held) in enumerate(zip(predictions, flags, strict=True)):
        evaluation = {name: x == "1" for name, x in zip(names, held, strict=True)}
        rows.append({**OPEN, "image_id": i, "prediction": prediction, "evaluation": evaluation})
    return write(tmp_path / "model_predictions.json", rows)


def counts_of(capsys):
    """Rows, malformed, compared, different and not stored of the only file."""
    return capsys.readouterr().out.splitlines()[1].split()[-5:]


def altered(path, change):
    rows = json.loads(path.read_text())
    change(rows)
    path.write_text(json.dumps(rows))
    return path


def test_an_equal_file_passes_the_check(release, capsys):
    assert command("--check", release) == 0
    assert counts_of(capsys) == ["7", "0", "28", "0", "0"]


@pytest.mark.parametrize("row", range(7))
@pytest.mark.parametrize("flag", sorted(set(STORED.values()) - {"matches_irrelevant"}))
def test_any_altered_flag_is_found_with_its_row(release, capsys, row, flag):
    def flip(rows):
        rows[row]["evaluation"][flag] = not rows[row]["evaluation"][flag]

    assert command("--check", altered(release, flip)) == 1
    error = capsys.readouterr().err
    assert f"row {row + 1} " in error
    assert {v: k for k, v in STORED.items()}[flag] in error


def test_the_first_of_several_differences_is_told(release, capsys):
    def flip(rows):
        for row in rows[2:]:
            row["evaluation"]["matches_text_only"] ^= True

    assert command("--check", altered(release, flip)) == 1
    assert "row 3 " in capsys.readouterr().err


def test_a_difference_without_check_is_shown_and_no_failure(release, capsys):
    altered(release, lambda rows: rows[0]["evaluation"].update(matches_none=True))
    assert command(release) == 0
    assert counts_of(capsys) == ["7", "0", "28", "1", "0"]


def test_an_altered_judge_flag_is_found(release, capsys):
    flags = dict.fromkeys(STORED.values(), False) | {"matches_image_only": True}
    del flags["matches_irrelevant"]

    def judge(rows, flags=flags):
        rows[0] |= {"evaluation_gpt": flags, "evaluation_gpt_prediction": "IMAGE"}

    assert command("--check", altered(release, judge)) == 0
    altered(release, lambda rows: rows[0].update(evaluation_gpt_prediction="TEXT"))
    assert command("--check", release) == 1
    assert "image of gpt" in capsys.readouterr().err


def test_absent_flags_are_counted_as_not_stored(release, capsys):
    def drop(rows):
        rows[0]["evaluation"].pop("matches_none")
        rows[1].pop("evaluation")

    assert command("--check", altered(release, drop)) == 0
    assert counts_of(capsys) == ["7", "0", "23", "0", "5"]


def test_malformed_rows_are_named_counted_and_fail(tmp_path, capsys):
    path = write(tmp_path / "x.jsonl", lines(OPEN) + b"{broken\n" + lines({"image_id": 3}))
    for arguments in ([path], ["--check", path]):
        assert command(*arguments) == 1
        printed = capsys.readouterr()
        assert "row 2: is not JSON" in printed.out
        assert "row 3: has no prediction" in printed.out
        assert printed.out.splitlines()[1].split()[-5:-3] == ["3", "2"]
        assert "2 malformed rows left out" in printed.err


def test_a_file_that_cannot_be_read_is_status_2(tmp_path, capsys):
    assert command(tmp_path / "none.json") == 2
    assert "none.json: No such file" in capsys.readouterr().err
    assert command(write(tmp_path / "x", b"what"), "--check") == 2
    assert "this reads the CLASH release's lists" in capsys.readouterr().err
    assert command(write(tmp_path / "y", lines(OPEN)), tmp_path / "none") == 2


def test_nothing_in_a_file_reaches_the_terminal_raw(release, capsys):
    def hostile(rows):
        rows[0]["prediction"] = "\x1b[31m\ud800 kite\r\x07"
        rows[0]["evaluation"]["matches_none"] = True
        rows[0]["evaluation"]["\x1b]0;x\x07"] = True
        rows[0]["evaluation_\x1b[2J_prediction"] = "IMAGE"
        rows[1] = {**rows[1], "rotation": "\x1b[31m"}

    altered(release, hostile)
    command(release)
    command("--check", release)
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert "\x1b" not in text
    assert "\x07" not in text
    text.encode("utf-8")


def test_json_holds_everything(release, capsys):
    assert command("--json", "--check", release) == 0
    found = json.loads(capsys.readouterr().out)
    (file,), (model,) = found["files"], found["models"]
    figures = model["tasks"]["clash_open"]["figures"]
    assert figures["image"]["rate"] == {"held": 3, "n": 7, "value": 3 / 7}
    assert figures["image"]["interval"]["method"] == "wilson"
    assert figures["image"]["paper"]["draws"] == 1000
    assert model["tasks"]["clash_open"]["outcomes"]["both"]["held"] == 1
    assert file["check"] == {
        "compared": 28, "differences": 0, "first_difference": None, "not_stored": 0,
        "unverifiable": 0, "unknown": {},
    }  # fmt: skip


def test_json_tells_the_first_difference(release, capsys):
    altered(release, lambda rows: rows[3]["evaluation"].update(matches_none=False))
    assert command("--json", "--check", release) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["files"][0]["check"]["first_difference"]["row"] == 4


def test_the_order_of_rows_changes_no_figure(release):
    def figures(path):
        (task,) = score_source(read_source(path)).tasks.values()
        return task

    before = figures(release)
    altered(release, lambda rows: random.Random(1).shuffle(rows))
    assert figures(release) == before


def test_rows_that_share_a_picture_get_an_interval_over_pictures(release):
    def share(rows):
        for row in rows:
            row["question"] += str(row["image_id"])
            row["image_id"] //= 2

    (task,) = score_source(read_source(altered(release, share))).tasks.values()
    interval = task.figures["image"].interval
    assert (interval.method, interval.n) == ("score", 4)


def test_a_written_run_is_read_back_whole(release, tmp_path):
    assert command(release, "--out", tmp_path / "run") == 0
    found = read_runs([tmp_path / "run"])
    assert found.problems == ()
    (run,) = found.runs
    assert run.label == "model"
    records = run.records("clash_open")
    scored = score_source(read_source(release), draws=2)
    assert list(records) == [record for _, record in scored.records]
    results = json.loads(next((tmp_path / "run" / "model").glob("*_results.json")).read_text())
    answers = answers_of(records)
    assert results["results"]["clash_open"] == {
        "alias": "clash_open",
        **{f"{name},none": figure(name, answers) for name in metrics_for("clash_open")},
    }
    assert results["rescored"]["source"] == "model_predictions.json"
    assert results["rescored"]["sha256"] == scored.files[0].source.sha256


def test_a_written_run_passes_its_own_check(release, tmp_path, capsys):
    mc = write(tmp_path / "other_predictions.json.gz", gzip.compress(lines(MC)))
    assert command(release, mc, "--out", tmp_path / "run") == 0
    logs = sorted((tmp_path / "run").rglob("*_samples_*.jsonl"))
    assert len(logs) == 2
    capsys.readouterr()
    assert command("--check", *logs) == 0
    files = capsys.readouterr().out.splitlines()[1:3]
    assert [line.split()[-2:] for line in files] == [["0", "0"]] * 2


def test_the_same_file_gives_the_same_run(release, tmp_path):
    for name in ("a", "b"):
        assert command(release, "--out", tmp_path / name) == 0
    one, other = (
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*.json*")}
        for name in ("a", "b")
    )
    assert one == other
    assert one


def test_a_run_is_never_written_over_unasked(release, tmp_path, capsys):
    assert command(release, "--out", tmp_path / "run") == 0
    (log,) = (tmp_path / "run").rglob("*_samples_*.jsonl")
    log.write_text("mine")
    assert command(release, "--out", tmp_path / "run") == 2
    assert "exists already" in capsys.readouterr().err
    assert log.read_text() == "mine"
    assert command(release, "--out", tmp_path / "run", "--force") == 0
    assert log.read_text() != "mine"


def test_nothing_is_written_where_the_check_fails(release, tmp_path):
    altered(release, lambda rows: rows[3]["evaluation"].update(matches_none=False))
    assert command("--check", release, "--out", tmp_path / "run") == 1
    assert not (tmp_path / "run").exists()


def test_a_document_of_a_model_counts_once(release, tmp_path, capsys):
    """A model's main file and its judges' file hold the same predictions."""
    rows = json.loads(release.read_text())
    rows[0] |= {"evaluation_gpt_prediction": "IMAGE"}
    (tmp_path / "judged").mkdir()
    judged = write(tmp_path / "judged" / release.name, rows)
    original = write(tmp_path / "model_wo_contr_predictions.json", release.read_bytes())
    assert command(release, judged, original, "--json", "--out", tmp_path / "run") == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["twins"] == 7
    assert model["tasks"]["clash_open"]["n"] == 7
    assert model["overall"]["clash_open"]["rate"] == {"held": 1 + 3, "n": 14, "value": 4 / 14}
    assert model["tasks"]["clash_open"]["judges"]["gpt"]["n"] == 1
    (run,) = read_runs([tmp_path / "run"]).runs
    assert len(run.records("clash_open")) == 7


def test_two_predictions_of_one_document_are_refused_with_both_files(release, tmp_path, capsys):
    (tmp_path / "b").mkdir()
    twin = write(tmp_path / "b" / release.name, [{**OPEN, "image_id": 1, "prediction": "kite"}])
    assert command(release, twin, "--out", tmp_path / "run") == 2
    error = capsys.readouterr().err
    assert f"{release} and {twin} both hold clash_open of model" in error
    assert "sample" in error
    assert not (tmp_path / "run").exists()


def test_a_folder_tells_different_runs_of_one_model_apart(release, tmp_path, capsys):
    for name, rows in [("a", [OPEN]), ("b", [{**OPEN, "prediction": "balloon"}])]:
        (tmp_path / "all" / name).mkdir(parents=True)
        write(tmp_path / "all" / name / release.name, rows)
    assert command(tmp_path / "all", "--json") == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert [model["model"] for model in models] == ["model (a)", "model (b)"]
    sources = [read_source(tmp_path / "all" / name / release.name) for name in "ab"]
    with pytest.raises(TwinError, match="score them one by one"):
        score(sources)


def test_a_folder_without_predictions_is_one_line(tmp_path, capsys):
    assert command(tmp_path) == 2
    assert "holds neither *_predictions.json" in capsys.readouterr().err


def test_a_run_folder_is_scored_too(release, tmp_path, capsys):
    assert command(release, "--out", tmp_path / "run") == 0
    capsys.readouterr()
    assert command("--check", tmp_path / "run") == 0
    assert counts_of(capsys)[2:4] == [str(7 * 10), "0"]


def test_the_paper_style_prints_mean_and_deviation(release, capsys):
    assert command(release, "--paper-style", "--draws", 20) == 0
    assert " ± " in capsys.readouterr().out


def test_the_papers_pair_of_judges_is_combined_unless_others_are_asked_for(release, capsys):
    def judge(rows):
        for row in rows:
            for name in ("gemini-2.5-pro", "gpt-5", "third"):
                row[f"evaluation_{name}_prediction"] = "TEXT"

    altered(release, judge)
    for options, names in [
        ((), "gemini-2.5-pro, gpt-5"),
        (("--judges", "third,gpt-5"), "third, gpt-5"),
    ]:
        assert command(release, *options) == 0
        assert f"at least one of {names}: image 0" in capsys.readouterr().out


def sample_log(tmp_path, edit=None):
    """A sample log as the harness writes it, with response lines."""
    from postprocess.record.clash import clash_record

    out = []
    for i, rotation in enumerate([0, 1, 2, 3]):
        order = "tcid"[rotation:] + "tcid"[:rotation]
        letter = "ABCD"[order.index("c")]
        shown = {
            "task": "clash_mc_circular", "sample_id": "7-x", "image_id": "7", "form": "mc",
            "caption_kind": "conflicting", "image_answer": "kite", "text_answer": "balloon",
            "distractor": "drone", "option_order": order, "rotation": rotation,
            "change_type": "object", "categories": ["sports"], "dataset_kind": "sample",
            "n_omitted": 0,
        }  # fmt: skip
        logps = dict.fromkeys("ABCD", -3.0) | {letter: -0.2}
        text = attach_response(f"({letter})", logps)
        record = {**clash_record(shown, text), "judge_prompt_hash": "kept"}
        out.append({"doc_id": i, "filtered_resps": [text], "conflict": record, "input": "?"})
    if edit:
        edit(out)
    folder = tmp_path / "org__model"
    folder.mkdir(exist_ok=True)
    name = "20260101_000000_samples_clash_mc_circular.jsonl"
    return write(folder / name, lines(*out))


def test_a_sample_log_is_scored_again(tmp_path, capsys):
    path = sample_log(tmp_path)
    assert command("--check", path) == 0
    out = capsys.readouterr().out
    assert "right in all four rotations: 1 of 1 samples" in out
    assert "right by letter probability: 4 of 4" in out
    scored = score_source(read_source(path), draws=2)
    assert scored.name == "org__model"
    assert all(record["judge_prompt_hash"] == "kept" for _, record in scored.records)


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "image"},
        {"correct": 0},
        {"flag_text": 1},
        {"letter": "A"},
        {"letter_correct": 0},
        {"status": "failed"},
    ],
)
def test_an_altered_record_of_a_sample_log_is_found(tmp_path, capsys, change):
    def edit(rows):
        rows[2]["conflict"] |= change

    assert command("--check", sample_log(tmp_path, edit)) == 1
    assert "row 3 " in capsys.readouterr().err


def test_an_altered_answer_of_a_sample_log_is_found(tmp_path):
    def edit(rows):
        rows[1]["filtered_resps"] = ["(A)(B)"]

    assert command("--check", sample_log(tmp_path, edit)) == 1


def pragmatch_log(tmp_path, **change):
    from postprocess.record.pragmatch import SHOWN, pragmatch_record

    shown = dict.fromkeys(SHOWN) | {
        "task": "pragmatch_pm", "sample_id": "7-P", "image_id": "7", "condition": "P",
        "modality": "image_text", "prompt": "zero_shot", "label": 1, "n_omitted": 0,
        "dataset_kind": "sample",
    }  # fmt: skip
    text = attach_response("Yes", {"Yes": -0.25, "No": -1.5})
    record = pragmatch_record(shown, text) | change
    row = {"doc_id": 0, "filtered_resps": [text], "accuracy": record}
    return write(tmp_path / "x_samples_pragmatch_pm.jsonl", lines(row))


def test_a_pragmatch_log_is_scored_again(tmp_path, capsys):
    assert command("--check", pragmatch_log(tmp_path)) == 0
    assert " pragmatch_pm  1 " in capsys.readouterr().out
    assert command("--check", pragmatch_log(tmp_path, s=0.5)) == 1
    assert command("--check", pragmatch_log(tmp_path, verdict=0)) == 1


def test_a_pragmatch_record_without_its_columns_is_named(tmp_path, capsys):
    path = pragmatch_log(tmp_path)
    row = json.loads(path.read_text())
    del row["accuracy"]["label"]
    assert command(write(path, lines(row))) == 1
    assert "cannot be scored" in capsys.readouterr().out


def test_plain_rows_are_scored(tmp_path, capsys):
    rows = [
        {"prediction": "kite", "image_answer": "kite", "text_answer": "ball", "sample_id": "a"},
        {"response": "(A)", "image_answer": "kite", "text_answer": "ball", "option_order": "citd"},
        {"prediction": "x", "image_answer": "kite", "text_answer": "ball",
         "flags": {"none": True}},
    ]  # fmt: skip
    assert command("--check", write(tmp_path / "mine.jsonl", lines(*rows))) == 0
    figures = capsys.readouterr().out.split("\n\n")[1]
    found = [line.split()[1:3] for line in figures.splitlines() if line.startswith("mine ")]
    assert found[:2] == [["clash_mc", "1"], ["clash_open", "2"]]


def test_samples_add_categories(release, tmp_path, capsys):
    sample = {"image_id": 1, "question": OPEN["question"], "change_type": "object"}
    samples = [
        {**sample, "category": ["food", "sports"]},
        {**sample, "image_id": 2, "category": "food"},
    ]
    for content in ({"metadata": {}, "samples": samples}, lines(*samples), lines(samples[0])):
        path = write(tmp_path / "test.json", content)
        assert command(release, "--samples", path) == 0
        out = capsys.readouterr().out
        assert "not in the samples file" in out
        assert "conflict by category: food" in out
    assert command(release, "--samples", write(tmp_path / "bad.json", [1])) == 2
    assert command(release, "--samples", tmp_path / "none.json") == 2


def test_a_row_is_left_as_it_was(release):
    source = read_source(release)
    before = copy.deepcopy(source.rows)
    score_source(source, draws=2)
    assert source.rows == before


@pytest.mark.parametrize("held", [0, 1])
def test_a_unanimous_rate_over_shared_pictures_has_an_interval(held):
    figures = rescoring._figures({"conflict": [held] * 6}, ["a", "a", "b", "c", "d", "e"], 5, 1)
    interval = figures["conflict"].interval
    assert (interval.value, interval.n) == (held, 5)
    assert interval.high - interval.low > 0.3
