"""Installed, the harness knows our tasks however it is started; others' runs stay as they were."""

import sys

import pytest

from postprocess.benchmarks import benchmarks
from pragclash.harness import plugin
from pragclash.harness.tasks import PREFIXES, tasks_named
from tests.pragclash.harness.starting import BIN, install_metadata, start

PM = ("--tasks", "pragmatch_pm", "--model", "dummy", "--limit", "4")
STOCK = {
    "script": [BIN / "lmms-eval"],
    "module": [sys.executable, "-m", "lmms_eval"],
    "accelerate": [BIN / "accelerate", "launch", "--cpu", "-m", "lmms_eval"],
    "eval": [BIN / "lmms-eval", "eval"],
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    install_metadata(folder)
    return folder


@pytest.mark.parametrize(
    "way", ["script", *(pytest.param(w, marks=pytest.mark.slow) for w in STOCK if w != "script")]
)
def test_from_an_empty_folder_the_harness_prints_our_table(installed, tmp_path, way):
    done = start([*STOCK[way], *PM], installed, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "|pair_acc" in done.stdout
    assert "1 tasks, 4 documents, 2 pictures" in done.stdout, "the checks are not attached"


@pytest.mark.slow
def test_a_config_file_that_names_our_tasks_gets_the_checks(installed, tmp_path):
    (tmp_path / "run.yaml").write_text("tasks: pragmatch_pm\nmodel: no_such\n")
    done = start([*STOCK["script"], "--config", "run.yaml"], installed, tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "unknown model 'no_such'" in done.stderr.splitlines()[-1]


def test_a_failed_evaluation_exits_non_zero_in_the_stock_script(installed, tmp_path):
    arguments = (*PM, "--output_path", "/proc/none")
    done = start([*STOCK["script"], *arguments], installed, tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.splitlines()[-1].startswith("lmms_eval: --output_path /proc/none")


FOREIGN = """
import sys
from lmms_eval.cli import dispatch
import lmms_eval.evaluator

OURS = {"pragclash", "postprocess", "model_wrappers", "lmms_eval_tasks"}

def looked_at(**kwargs):
    names = sorted(kwargs["task_manager"].all_tasks)
    print("TASKS", sum(name.startswith(("pragmatch", "clash_")) for name in names), "mme" in names)
    print("LOADED", *sorted(n for n in sys.modules if n.split(".")[0] in OURS))

lmms_eval.evaluator.simple_evaluate = looked_at
sys.argv = ["lmms-eval", "--tasks", "mme", "--model", "dummy"]
dispatch.main()
"""


def test_with_other_tasks_nothing_of_ours_is_loaded_or_said(installed, tmp_path):
    done = start([sys.executable, "-c", FOREIGN], installed, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (loaded,) = [line.split()[1:] for line in lines if line.startswith("LOADED ")]
    assert loaded == [
        "lmms_eval_tasks",
        "model_wrappers",
        "model_wrappers.manifests",
        "pragclash",
        "pragclash.harness",
        "pragclash.harness.plugin",
        "pragclash.harness.tasks",
        "pragclash.names",
    ]
    assert "TASKS 0 True" in lines
    others = [line for line in lines if not line.startswith("LOADED")]
    assert not any("pragclash" in line or "pragmatch" in line for line in others), done.stdout
    assert "pragclash" not in done.stderr


def test_from_python_the_task_manager_knows_the_tasks_and_their_tags(installed, tmp_path):
    code = """
import lmms_eval.models
from lmms_eval.tasks import TaskManager
manager = TaskManager("ERROR", include_defaults=False)
assert manager.all_tasks == []
import pragclash.harness.tasks as tasks
tasks.expect(["pragmatch_pm"])
manager = TaskManager("ERROR")
assert "pragmatch_pm" in manager.all_subtasks and "clash" in manager.all_tags, manager.all_tasks
assert manager.match_tasks(["pragmatch_table1"])
"""
    done = start([sys.executable, "-c", code], installed, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_failure_to_attach_is_one_warning_and_the_models_stay(monkeypatch):
    told = []
    monkeypatch.setattr(plugin, "_warn", told.append)

    def broken(*_):
        raise AttributeError("no TaskManager any more")

    monkeypatch.setattr(plugin, "_when_loaded", broken)
    assert {m.model_id for m in plugin.manifests()} >= {"verdict", "mismatch_detector"}
    assert told == ["tasks and checks are not attached: AttributeError: no TaskManager any more"]


def test_the_prefixes_known_without_loading_are_the_benchmarks():
    assert [*PREFIXES] == list(benchmarks())[: len(PREFIXES)]


def test_a_config_that_cannot_be_read_names_no_tasks(tmp_path):
    (tmp_path / "odd.yaml").write_text("tasks: [")
    assert tasks_named(["--config", str(tmp_path / "odd.yaml")]) == []
    assert tasks_named(["--config", str(tmp_path / "none.yaml")]) == []
    (tmp_path / "two.yaml").write_text("- tasks: mme\n- tasks: clash_mc,clash_open\n")
    expected = ["mme", "clash_mc", "clash_open"]
    assert tasks_named(["--config", str(tmp_path / "two.yaml")]) == expected


@pytest.mark.parametrize("name", ["postprocess", "model_wrappers", "lmms_eval_tasks"])
@pytest.mark.parametrize(
    "module", ["pragclash.harness.launcher", "pragclash.cli.main"], ids=["lmms_eval", "pragclash"]
)
def test_a_file_of_our_name_in_the_folder_is_named_in_one_line(installed, tmp_path, module, name):
    (tmp_path / f"{name}.py").write_text("x = 1\n")
    done = start([sys.executable, "-m", module, "--help"], installed, tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"{tmp_path}/{name}.py is imported in place of" in line
    assert "rename it" in line
    done = start([sys.executable, "-P", "-m", module, "--help"], installed, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_installed_scripts_start_beside_a_file_of_our_name(installed, tmp_path):
    (tmp_path / "postprocess.py").write_text("raise SystemExit('imported')\n")
    for script in ("lmms_eval", "pragclash"):
        done = start([BIN / script, "--help"], installed, tmp_path)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_beside_a_file_of_our_name_the_harness_runs_and_one_warning_names_it(installed, tmp_path):
    (tmp_path / "postprocess.py").write_text("x = 1\n")
    code = "import lmms_eval.models as m; print(len(m.list_available_models()))"
    done = start([sys.executable, "-c", code], installed, tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) > 50
    told = [line for line in done.stdout.splitlines() if "pragclash" in line]
    assert len(told) == 1
    assert "postprocess.py is imported in place of" in told[0]
