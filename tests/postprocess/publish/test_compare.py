"""Two runs are compared on the pictures that both have, and on nothing else."""

import argparse
import json

import pytest

from postprocess.publish import compare
from postprocess.runs.folder import read_runs
from postprocess.tables.build import MixedError
from pragclash.cli import compare as compare_command
from tests.postprocess import synthetic
from tests.postprocess.run_folders import write_run


def answers_right(which):
    """A model right on P and M of the pictures in `which`, and always No elsewhere."""
    return lambda n, slot: "Yes" if slot == "P" and n in which else "No"


@pytest.fixture
def two(tmp_path):
    for name, right in (("a", range(12)), ("b", range(8, 12))):
        records = synthetic.pragmatch("pragmatch_pm", answers_right(right))
        write_run(
            tmp_path / name,
            {
                "pragmatch_pm": records,
                "clash_open": synthetic.clash("clash_open", lambda n: "kite"),
            },
            model=name,
            model_args="",
        )
    return tmp_path / "a", tmp_path / "b"


def command(*argv):
    parser = argparse.ArgumentParser()
    compare_command.add_arguments(parser)
    return compare_command.run(parser.parse_args([str(a) for a in argv]))


def test_the_pairs_on_which_two_models_differ_are_listed(two):
    (a,), (b,) = (read_runs([folder]).runs for folder in two)
    found = compare.compare(a, b)
    clash, pairs = found.tasks
    assert pairs.task == "pragmatch_pm"
    assert [d.unit for d in pairs.differing] == [f"{n:04}" for n in range(8)]
    assert pairs.differing[0].a == {"P": 1, "M": 1}
    assert pairs.differing[0].b == {"P": 0, "M": 1}
    (pair,) = [d for d in pairs.differences if d.metric == "pair_acc"]
    assert (pair.a, pair.b) == (0.6, 0.2)
    assert pair.test.exact == pytest.approx(2 * 0.5**8)
    assert clash.differing == []


def test_pictures_that_one_side_lacks_are_counted_and_left_out(two, tmp_path):
    records = synthetic.pragmatch("pragmatch_pm", answers_right(range(4)), pictures=5)
    write_run(tmp_path / "c", {"pragmatch_pm": records[:-1]}, model="c", model_args="")
    (a,), (c,) = (read_runs([folder]).runs for folder in (two[0], tmp_path / "c"))
    (task,) = compare.compare(a, c).tasks
    assert (task.n, task.only_in_a, task.only_in_b) == (4, 16, 0)
    assert compare.compare(a, c).unshared == ["clash_open"]


def test_the_two_benchmarks_may_have_different_data(tmp_path):
    for name in "ab":
        tasks = {
            "pragmatch_pm": synthetic.pragmatch("pragmatch_pm", synthetic.always_no),
            "clash_mc": synthetic.clash("clash_mc", lambda n: "(A)", fingerprint=synthetic.OTHER),
        }
        write_run(tmp_path / name, tasks, model=name, model_args="")
    (a,), (b,) = (read_runs([tmp_path / name]).runs for name in "ab")
    assert len(compare.compare(a, b).tasks) == 2


def test_other_data_are_refused(two, tmp_path):
    records = synthetic.pragmatch("pragmatch_pm", synthetic.always_no, fingerprint=synthetic.OTHER)
    write_run(tmp_path / "c", {"pragmatch_pm": records}, model="c", model_args="")
    (a,), (c,) = (read_runs([folder]).runs for folder in (two[0], tmp_path / "c"))
    with pytest.raises(MixedError, match="--mix"):
        compare.compare(a, c)


def test_the_command_prints_both_forms(two, capsys):
    assert command(*two) == 0
    text = capsys.readouterr().out
    assert "pragmatch_pm: 20 in both" in text
    assert "8 pictures on which they differ" in text
    assert "0000: A P M right, B M right, P wrong" in text
    assert command(*two, "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert len(made["tasks"][1]["differing"]) == 8


def test_a_folder_of_several_models_asks_which_one(two, capsys):
    parent = two[0].parent
    assert command(parent, two[1]) == 2
    assert "'a', 'b'" in capsys.readouterr().err
    assert command(parent, parent, "--a", "a", "--b", "b") == 0
    capsys.readouterr()
    assert command(parent, parent, "--a", "nobody", "--b", "b") == 2
    assert "no run is called 'nobody'" in capsys.readouterr().err


def test_runs_without_a_common_task_cannot_be_compared(two, tmp_path, capsys):
    records = synthetic.pragmatch("pragmatch_p", synthetic.always_no)
    write_run(tmp_path / "c", {"pragmatch_p": records}, model="c", model_args="")
    assert command(two[0], tmp_path / "c") == 1
    assert "no task in common" in capsys.readouterr().err
