"""What a run writes says what made it, is its own and whole, and holds no secret."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from postprocess.response.line import attach_response, failure_text, measured
from postprocess.runs.folder import read_runs
from postprocess.runs.identity import identity, own_settings, why_not_together
from postprocess.secrets import redact, redacted_output
from pragclash.harness import asking, evaluation, saving
from pragclash.harness.identity import DEFAULT_TAGS
from tests.pragclash.harness.test_launcher import BACKEND, data, launch, read_run

__all__ = ["data", "launch"]

KEY = "Zq7-wholly-secret-value"
SAME_SECOND = """
import itertools
from lmms_eval import utils
_seconds = itertools.count()
utils.get_datetime_str = lambda timezone="": f"20260101_0000{next(_seconds):02}"
"""
SMALL_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
"""


@pytest.mark.slow
def test_records_say_how_they_were_made_and_hold_no_secret(launch, tmp_path):
    arguments = ("--tasks", "pragmatch_pm", "--log_samples", "--output_path")
    rule = f"'401: wrong key {KEY}, not sk-abcd1234efgh' if i == 3 else 'No'"
    plain = launch(*arguments, "plain", rule=rule, MY_API_KEY=KEY)
    changed = launch(
        *arguments,
        "changed",
        *("--gen_kwargs", "temperature=0.9,do_sample=True,max_new_tokens=3"),
        *("--system_instruction", f"Be brief. {KEY}", "--use_cache", "cache"),
        rule=rule,
        MY_API_KEY=KEY,
    )
    assert plain.returncode == changed.returncode == 0, changed.stderr
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "rule":
            content = path.read_bytes()
            assert KEY.encode() not in content, path
            assert b"sk-abcd1234efgh" not in content, path
    for done in (plain, changed):
        assert KEY not in done.stdout + done.stderr
    first, second = (
        read_run(tmp_path / name)[1]["pragmatch_pm"][0]["accuracy"] for name in ("plain", "changed")
    )
    assert own_settings(first)
    assert not own_settings(second)
    assert first["run_id"] != second["run_id"]
    assert first["picture_sha"] == second["picture_sha"]
    assert first["prompt_sha"] != second["prompt_sha"]
    assert json.loads(first["settings"]) == {
        "generation": {"do_sample": False, "max_new_tokens": 16, "temperature": 0, "until": []}
    }
    why = why_not_together(identity(first), identity(second))
    assert why is not None
    assert "temperature 0 and 0.9" in why
    assert "system_instruction none and Be brief. REDACTED" in why
    runs = read_runs([tmp_path / "plain", tmp_path / "changed"])
    assert len(runs.runs) == 2
    assert not runs.problems


@pytest.mark.slow
def test_two_models_of_one_second_in_one_folder_stay_apart(data, tmp_path):
    started = []
    for answer in ("No", "Yes"):
        script, rule = tmp_path / f"{answer}.py", tmp_path / f"rule-{answer}"
        script.write_text(BACKEND.replace("    main()", f"{_indented(SAME_SECOND)}\n    main()"))
        rule.write_text(repr(answer))
        command = [sys.executable, str(script), "--model", "scripted", "--tasks", "pragmatch_pm"]
        command += ["--model_args", f"rule={rule}", "--output_path", "out", "--log_samples"]
        env = {**os.environ, "PRAGCLASH_DATA": str(data), "OMP_NUM_THREADS": "1"}
        started.append(subprocess.Popen(command, cwd=tmp_path, env=env))
    assert [process.wait(timeout=240) for process in started] == [0, 0]
    runs = read_runs([tmp_path / "out"])
    assert not runs.problems
    said = {
        run.arguments["rule"][-3:].strip("-"): {r["response"] for r in run.records("pragmatch_pm")}
        for run in runs.runs
    }
    assert said == {"No": {"No"}, "Yes": {"Yes"}}
    assert not list((tmp_path / "out").rglob(".run-*")), "the stamps are given back"


@pytest.mark.slow
def test_a_sample_log_that_is_not_whole_is_a_failed_run(data, tmp_path):
    script = tmp_path / "small.py"
    script.write_text(BACKEND.replace("    main()", f"{_indented(SMALL_FILES)}\n    main()"))
    (tmp_path / "rule").write_text("'No'")
    command = [sys.executable, str(script), "--model", "scripted", "--tasks", "pragmatch_pm"]
    command += ["--model_args", f"rule={tmp_path / 'rule'}", "--output_path", "out"]
    env = {**os.environ, "PRAGCLASH_DATA": str(data), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--log_samples"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "of 18 rows were written (is the disk full?)" in done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("None", "answer 1 of 18 of the model is no text, but a NoneType"),
        ("b'No' if i == 2 else 'No'", "answer 3 of 18 of the model is no text, but a bytes"),
        ("exit(0)", "the model ended the process (exit status 0) before it had answered"),
    ],
)
def test_what_is_no_answer_is_no_result(launch, tmp_path, rule, line):
    done = launch("--tasks", "pragmatch_pm", "--output_path", "out", rule=rule)
    assert done.returncode == 1, done.stdout + done.stderr
    assert line in done.stderr.splitlines()[-1]
    assert not list((tmp_path / "out").rglob("*_results.json"))


def _indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())


def asked(*names: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(task_name=name) for name in names]


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        (["Yes"], "gave 1 answers to 2 requests"),
        (["Yes", 1.5], "answer 2 of 2 of the model is no text, but a float"),
        (["Yes", None], "no text, but a NoneType"),
        (None, "gave no list of answers, but a NoneType"),
        ("No", "gave no list of answers, but a str"),
    ],
)
def test_answers_are_as_many_texts_as_were_asked_for(answers, fault):
    generate = asking.watched(lambda requests: answers)
    with pytest.raises(RuntimeError, match=fault):
        generate(asked("pragmatch_pm", "pragmatch_pm"))
    assert generate(asked("mmmu", "mmmu")) == answers, "tasks of others are as they were"


def test_typed_answers_pass_and_keep_their_type():
    from lmms_eval.api.instance import GenerationResult, TokenCounts

    typed = GenerationResult("at https://ada:pw@host", TokenCounts(output_tokens=3))
    (answer,) = asking.watched(lambda requests: [typed])(asked("clash_mc"))
    assert (answer.text, answer.token_counts) == ("at https://REDACTED@host", typed.token_counts)


def test_a_measured_line_survives_the_removal_of_a_secret(monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", KEY)
    sealed = attach_response(f"No {KEY}", {"Yes": -2.0, "No": -0.2}, step=0)
    (answer,) = asking.watched(lambda requests: [sealed])(asked("pragmatch_pm"))
    response = measured(answer)
    assert response.text == "No REDACTED"
    assert response.choices == {"Yes": -2.0, "No": -0.2}


def test_a_models_words_are_no_secret_and_a_failure_s_are():
    words = "The key=No, because token=Yes would be odd"
    failed = failure_text("openai: 401, api_key=abc123 is wrong")
    answers = asking.watched(lambda requests: [words, failed])(asked("clash_mc", "clash_mc"))
    assert answers[0] == words
    assert "abc123" not in answers[1]


@pytest.mark.parametrize(
    "text",
    [
        "base_url=https://ada:pa55word@host/v1",
        "key=pa55word",
        "auth=pa55word",
        "passwd=pa55word",
        "openai-key=pa55word",
        '{"Authorization": "Bearer pa55word99"}',
        "https://host/v1?n=1&api_key=pa55word",
        "--hf_token=pa55word",
        "{'password': 'pa55word'}",
    ],
)
def test_a_secret_is_known_by_its_shape(text, capsys):
    assert "pa55word" not in redact(text)
    with redacted_output():
        print(text)
        print(text, file=sys.stderr)
    printed = capsys.readouterr()
    assert "pa55word" not in printed.out + printed.err
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "text", ["max_new_tokens=16,score_key=correct", "tokenizer=a/b", "the password: tulips", "a@b"]
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


def test_stamps_of_one_folder_differ(tmp_path, monkeypatch):
    from lmms_eval import utils

    seconds = iter(["1", "1", "2", "2", "3"])

    def clock(timezone: str = "") -> str:
        return next(seconds)

    monkeypatch.setattr(utils, "get_datetime_str", clock)
    with saving.Stamp(str(tmp_path)) as first:
        assert utils.get_datetime_str(timezone="UTC") == "1"
        # Another process has the harness's own clock.
        utils.get_datetime_str = clock
        with saving.Stamp(str(tmp_path)) as second:
            assert utils.get_datetime_str() == "2"
        (tmp_path / "2_results.json").write_text("{}")
    assert (first.value, second.value) == ("1", "2")
    with saving.Stamp(str(tmp_path)) as third:
        assert utils.get_datetime_str() == "3", "2 stands on a file"
    assert third.value == "3"
    assert [path.name for path in tmp_path.iterdir()] == ["2_results.json"]


def test_a_rank_that_writes_nothing_holds_nothing(tmp_path):
    from lmms_eval import utils

    with saving.Stamp(str(tmp_path), rank=1) as stamp:
        assert utils.get_datetime_str()
    assert stamp.value is None
    assert not list(tmp_path.iterdir())


def test_rows_are_counted_after_they_were_written(tmp_path):
    def faults() -> list[str]:
        return saving.unsaved(str(tmp_path), "1", {"t": [1, 2]})

    assert "no results file" in faults()[0]
    (tmp_path / "m").mkdir()
    results = tmp_path / "m" / "1_results.json"
    results.write_text('{"a": ')
    assert "no results file" in faults()[0]
    results.write_text("{}")
    assert "0 of 2 rows" in faults()[0]
    log = tmp_path / "m" / "1_samples_t.jsonl"
    log.write_text('{"a": 1}\n{"b": ')
    assert "1 of 2 rows" in faults()[0]
    log.write_text('{"a": 1}\n{"b": 2}\n')
    assert faults() == []


def test_without_room_no_model_is_loaded(tmp_path, monkeypatch):
    args = argparse.Namespace(
        output_path=str(tmp_path / "new"), use_cache=None, model_args="", tasks="pragmatch_pm"
    )
    monkeypatch.setattr(evaluation, "check_arguments", lambda *_: None)
    monkeypatch.setattr(saving.shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    outcome = evaluation.Outcome()
    evaluation._watched(lambda args: pytest.fail("the model was loaded"), outcome)(args)
    assert outcome.status == 2
    assert "1 MB of disk are free" in outcome.failures[0]


def test_the_harness_has_what_is_mended_here():
    import inspect

    import lmms_eval.__main__  # noqa: F401
    from lmms_eval import evaluator, utils

    assert callable(utils.get_datetime_str)
    assert callable(evaluator.get_task_dict)
    assert "utils.get_datetime_str(" in inspect.getsource(sys.modules["lmms_eval.__main__"])
    assert repr(DEFAULT_TAGS) in Path(sys.modules["lmms_eval.__main__"].__file__).read_text()
