"""The commands: one parser, filled when a command is called."""

import subprocess
import sys

import pytest

from pragclash.cli import main


def test_every_command_and_its_help(capsys):
    for name in main.COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main.run([name, "--help"])
        assert ended.value.code == 0
        assert f"usage: pragclash {name}" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["nope"], ["data", "nope"], ["validate"], ["data"]])
def test_what_cannot_be_used_exits_2_in_one_line(argv, capsys):
    with pytest.raises(SystemExit) as ended:
        main.run(argv)
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err.splitlines()[-1]


def test_without_arguments_the_commands_are_listed(capsys):
    assert main.run([]) == 2
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*main.COMMANDS, "data"))


def test_help_names_the_default_of_an_option_that_has_one(capsys):
    with pytest.raises(SystemExit):
        main.run(["data", "pragmatch", "--help"])
    shown = capsys.readouterr().out
    assert "default: " in shown
    assert "default: None" not in shown
    assert "default: False" not in shown


def test_a_failure_is_one_line_and_with_debug_its_traceback(monkeypatch, capsys):
    def fails(_):
        raise OSError("no room on the disk")

    monkeypatch.setattr("pragclash.cli.validate.run", fails)
    assert main.run(["validate", "folder"]) == 1
    assert capsys.readouterr().err == "pragclash validate: no room on the disk\n"
    with pytest.raises(OSError, match="no room"):
        main.run(["validate", "folder", "--debug"])


def test_the_overview_imports_no_command():
    code = """
import sys
from pragclash.cli import main
try:
    main.main(["--help"])
except SystemExit:
    pass
ours = [n for n in sys.modules if n.split(".")[0] in ("postprocess", "lmms_eval_tasks", "numpy")]
sys.exit(f"loaded {ours}" if ours else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", main.SHELLS)
def test_completion_knows_commands_and_their_options(shell, capsys):
    with pytest.raises(SystemExit) as ended:
        main.run(["--print-completion", shell])
    assert ended.value.code == 0
    script = capsys.readouterr().out
    words = ["agreement", "validate", "finetune"]
    # The generator of tcsh scripts does not go below the first level.
    words += ["clash-build", "--benchmark", "--draws"] if shell != "tcsh" else []
    assert [word for word in words if word not in script] == []


def test_bash_accepts_the_completion(capsys, tmp_path):
    with pytest.raises(SystemExit):
        main.run(["--print-completion", "bash"])
    (tmp_path / "completion.sh").write_text(capsys.readouterr().out)
    done = subprocess.run(["bash", "-n", tmp_path / "completion.sh"], capture_output=True)
    assert done.returncode == 0, done.stderr
