"""`pragclash power` answers before money is spent, from rates or from finished runs."""

import json

import pytest

from pragclash.cli import main, power
from tests.postprocess import synthetic
from tests.postprocess.run_folders import write_run


def ask(capsys, *argv):
    status = main.run(["power", *map(str, argv)])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_difference_of_two_rates(capsys):
    status, out, _ = ask(capsys, "--pictures", 100, "--pair-acc", 0.3, "--difference", 0.05)
    assert status == 0
    assert "100 pictures: seen at 5% in 11.5% of studies" in out
    assert "for 80%: 1,377 pictures" in out


def test_the_worked_examples_of_the_help_are_what_the_command_says(capsys):
    _, out, _ = ask(capsys, "--pictures", 19, "--lost", 0.1, "--json")
    (few,) = json.loads(out)["answers"]
    assert round(100 * few["power"], 1) == 11.5
    assert few["detectable"] == 0.272
    assert "27.2 points" in power.__doc__
    _, out, _ = ask(capsys, "--pictures", 638, "--lost", 0.03, "--gained", 0.01, "--json")
    assert round(100 * json.loads(out)["answers"][0]["power"]) == 75
    _, out, _ = ask(capsys, "--pictures", 638, "--lost", 0.02, "--json")
    assert round(100 * json.loads(out)["answers"][0]["power"], 1) == 99.9


def test_few_pictures_are_called_too_few(capsys):
    _, out, _ = ask(capsys, "--pictures", 5, "--lost", 0.2)
    assert "too few pictures to tell" in out


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--pair-acc", "0.3"], "--pair-acc needs --difference"),
        ([], "give --pair-acc with --difference"),
        (["--lost", "0.7", "--gained", "0.6"], "more than all"),
        (["--pair-acc", "0.3", "--difference", "0.9"], "give 1.2"),
    ],
)
def test_a_question_without_an_answer_says_why(capsys, argv, reason):
    status, _, err = ask(capsys, *argv)
    assert status == 1
    assert reason in err


def test_finished_runs_bring_their_own_discordance(capsys, tmp_path):
    for name, right in (("a", range(12)), ("b", range(8, 12))):
        records = synthetic.pragmatch(
            "pragmatch_pm",
            lambda n, slot, right=right: "Yes" if slot == "P" and n in right else "No",
        )
        write_run(tmp_path / name, {"pragmatch_pm": records}, model=name, model_args="")
    runs = ["--runs", tmp_path / "a", tmp_path / "b"]
    status, out, _ = ask(capsys, *runs, "--json")
    assert status == 0
    answers = {x["question"].split(",")[0]: x for x in json.loads(out)["answers"]}
    pair = answers["pragmatch_pm pair_acc"]
    assert (pair["lost"], pair["gained"], pair["pictures"]) == (0.4, 0.0, 20)
    _, out, _ = ask(capsys, *runs, "--difference", -0.1, "--pictures", 200, "--json")
    pair = next(x for x in json.loads(out)["answers"] if "pair_acc" in x["question"])
    assert pair["discordance"] == pytest.approx(0.4)
    assert pair["difference"] == pytest.approx(-0.1)
