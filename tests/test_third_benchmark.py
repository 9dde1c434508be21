"""A third benchmark is one folder and one registration: no shared file knows its name."""

import csv
import importlib
import io
import json
from pathlib import Path

import pytest
import yaml

import tests.toy_benchmark
from lmms_eval_tasks import lists
from postprocess import benchmarks
from postprocess.publish import compare, export, report_data
from postprocess.publish.every_eval_ever import Submission
from postprocess.runs.folder import read_runs
from postprocess.tables.build import build
from postprocess.tables.formats import render
from postprocess.tables.model import Options
from tests import ROOT
from tests.postprocess.run_folders import write_run
from tests.postprocess.synthetic import FULL
from tests.toy_benchmark import task as toy_task
from tests.toy_benchmark.benchmark import BENCHMARK, METRICS, record

FOLDER = Path(tests.toy_benchmark.__file__).parent
FAST = Options()


@pytest.fixture
def toy():
    benchmarks.register(BENCHMARK)
    yield BENCHMARK
    benchmarks.unregister(BENCHMARK.name)


def shown(number):
    return {
        "task": "counting_things",
        "sample_id": f"s{number}",
        "image_id": f"i{number}",
        "wanted": number % 5,
        "prompt": "plain",
        "dataset_kind": "full",
        "dataset_fingerprint": FULL,
    }


@pytest.fixture
def runs(toy, tmp_path):
    for name, off in (("good", 10), ("bad", 2)):
        records = [record(shown(n), str(n % 5 + (n % off == 0))) for n in range(20)]
        write_run(
            tmp_path / name, {"counting_things": records}, model=name, model_args="pretrained=o/m"
        )
    return tmp_path


def test_no_shared_file_names_it():
    files = [
        p
        for folder in ("postprocess", "lmms_eval_tasks", "pragclash", "model_wrappers")
        for p in (ROOT / folder).rglob("*.py")
    ]
    assert len(files) > 80
    assert not [p for p in files if "counting_things" in p.read_text(encoding="utf-8")]


def test_its_table_is_made_like_any_other(runs):
    table = build("counting", read_runs([runs]), FAST)
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert [row["kind"] for row in rows] == ["baseline", "baseline", "model", "model"]
    found = {row["model"]: row for row in rows}
    (bad,) = [row for name, row in found.items() if "bad" in name]
    (good,) = [row for name, row in found.items() if "good" in name]
    assert (float(bad["exact"]), float(good["exact"])) == (50.0, 90.0)
    assert float(bad["off_by_one"]) == 50.0
    assert float(bad["exact_low"]) < 50.0 < float(bad["exact_high"])
    assert float(found["chance"]["exact"]) == 10.0


def test_two_of_its_runs_are_compared(runs):
    a, b = read_runs([runs]).runs
    (one,) = compare.compare(a, b, FAST).tasks
    (gap,) = one.differences
    assert (gap.metric, one.n, len(one.differing)) == ("exact", 20, 8)
    assert abs(gap.estimate.value) == pytest.approx(0.4)
    assert gap.test.exact == pytest.approx(2 * 0.5**8)
    assert "8 pictures on which they differ" in compare.as_text(compare.compare(a, b, FAST))


def test_a_report_shows_its_table(runs):
    data = report_data.payload(read_runs([runs]), FAST, {})
    assert [table["table"] for table in data["tables"]] == ["counting"]
    assert len(data["models"]) == 2
    json.dumps(data)


def test_it_is_exported(runs):
    run = next(r for r in read_runs([runs]).runs if r.model == "good")
    who = Submission("org/model", "A lab")
    files = export.every_eval_ever(run, ["counting_things"], who)
    (aggregate,) = [json.loads(text) for path, text in files.items() if path.endswith(".json")]
    (result,) = aggregate["evaluation_results"]
    assert result["metric_config"]["metric_id"] == "counting.exact"
    assert result["metric_config"]["evaluation_description"] == METRICS["exact"].doc
    assert result["score_details"]["score"] == 0.9
    pages = export.hugging_face(run, ["counting_things"], who, {"counting": "org/counting"})
    assert yaml.safe_load(pages[".eval_results/counting.yaml"])[0]["value"] == 90.0


def test_the_harness_s_lists_become_its_figures(toy):
    values = [toy_task.process_results(shown(n), [str(n % 5)]) for n in range(10)]
    values.append(toy_task.process_results(shown(11), ["2"]))
    values.append(toy_task.process_results(shown(12), ["no idea"]))
    assert all(list(one) == list(METRICS) for one in values)
    found = {name: getattr(toy_task, name)([one[name] for one in values]) for name in METRICS}
    assert found == {"exact": 10 / 12, "off_by_one": 1 / 12, "n_left_out": 0}


def test_its_yaml_lists_are_made_from_its_registry(toy):
    (path,) = lists.made(toy)
    assert path == FOLDER / "_metrics_counting.yaml"
    assert path.read_text(encoding="utf-8") == lists.made(toy)[path]


def test_a_prefix_that_would_claim_another_s_tasks_is_refused(toy):
    with pytest.raises(ValueError, match="could be"):
        benchmarks.register(importlib.import_module("dataclasses").replace(toy, name="counting_x"))


@pytest.mark.parametrize("name", ["pragmatch", "clash"])
def test_checked_in_lists_and_readmes_are_those_of_the_registry(name):
    files = lists.made(benchmarks.named(name))
    assert any(path.name == "README.md" for path in files)
    for path, text in files.items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path} is stale: run python -m lmms_eval_tasks.lists"
        )
