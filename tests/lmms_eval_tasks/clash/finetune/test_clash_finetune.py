"""`pragclash finetune`: what it writes, how it goes on after a stop, and what it refuses."""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, TrainerCallback

from lmms_eval_tasks.clash.finetune import run as finetune_run
from lmms_eval_tasks.clash.finetune import train as finetune_train
from lmms_eval_tasks.clash.finetune.card import card, public_name
from lmms_eval_tasks.dataset.folder import load_folder
from postprocess.response.line import read_response
from pragclash.cli import finetune
from tests import ROOT
from tests.lmms_eval_tasks.clash_fixtures import clash_folder, clash_rows
from tests.model_wrappers.reference import wrapped
from tests.model_wrappers.tiny import BUILDERS, FakeTasks, TinyModels, captions_of, tiny_models
from tests.model_wrappers.tiny import picture as drawn

pytest.importorskip("peft")
pytestmark = pytest.mark.slow

__all__ = ["tiny_models"]

SMALL = (
    *("--profile", "cpu", "--rank", "4", "--dropout", "0.2", "--learning-rate", "1e-2"),
    *("--batch-size", "2", "--accumulate", "2", "--epochs", "2", "--save-every", "2"),
)
STEPS = 7
"""14 rows, 2 epochs, 4 draws a step."""


class Stop(TrainerCallback):
    """Raises an error after some step, as a run ends that is killed or out of something."""

    def __init__(self, step: int, error: BaseException) -> None:
        self.step, self.error = step, error

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            raise self.error


def arguments(model: Path, data: Path, out: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    finetune.add_arguments(parser)
    places = ["--model", str(model), "--data", str(data), "--out", str(out)]
    return parser.parse_args([*places, *SMALL, *more])


def tune(model: Path, data: Path, out: Path, *more: str, **hooks: Any) -> int:
    return finetune.run(arguments(model, data, out, *more), **hooks)


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "adapter_model.safetensors")


def assert_same_adapter(one: Path, other: Path) -> None:
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="session")
def base(tiny_models: TinyModels) -> Path:
    return tiny_models("llava_hf")


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clash_folder(tmp_path_factory.mktemp("finetune") / "data")


@pytest.fixture(scope="session")
def whole(base: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert tune(base, data, out) == 0
    return out


def test_a_run_leaves_adapter_card_log_and_record(whole, base, data):
    assert {path.name for path in whole.iterdir()} == {
        *("README.md", "adapter_config.json", "adapter_model.safetensors"),
        *("log.jsonl", "training.json", "checkpoints"),
    }
    lines = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert [line["draws"] for line in lines] == [4, 8, 12, 16, 20, 24, 28]
    assert lines[-1]["epoch"] == 2
    assert all(line["loss"] > 0 and line["learning_rate"] >= 0 for line in lines)
    record = json.loads((whole / "training.json").read_text())
    assert record["status"] == "finished"
    assert record["data"]["fingerprint"] == load_folder(data, "clash").fingerprint
    assert record["data"]["draws_conflicting"] + record["data"]["draws_original"] == 28
    config = json.loads((whole / "adapter_config.json").read_text())
    assert config["peft_type"] == "LORA"
    assert config["r"] == 4


def test_only_the_language_model_is_adapted(whole):
    names = list(weights(whole))
    assert all(".language_model." in name and ".lora_" in name for name in names)
    layers = {name.split(".lora_")[0].rpartition(".")[2] for name in names}
    assert layers == {
        *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    }


def test_the_adapter_was_trained(whole):
    assert all(value.abs().sum() > 0 for name, value in weights(whole).items() if "lora_B" in name)


def test_the_card_says_what_was_done_and_where_nothing(whole, base, data):
    text = (whole / "README.md").read_text()
    head = text.split("---")[1]
    assert f'base_model: "{base.name}"' in head
    assert "library_name: peft" in head
    record = json.loads((whole / "training.json").read_text())
    assert record["data"]["fingerprint"] in text
    assert "| rows trained on | 14 |" in text
    assert "**not checked**" in text
    assert "`Conflicting information.`, as pragclash's own instruction words it" in text
    assert record["result"]["memory_of"] == "process"
    assert record["result"]["peak_memory_gb"] > 0.1
    assert "peak memory of the process, GB" in text
    assert "false\nalarms" in text or "false alarms" in text
    assert str(base) not in text
    assert str(data.parent) not in text


def test_a_card_keeps_a_strange_model_name_in_its_place(whole):
    record = json.loads((whole / "training.json").read_text())
    text = card({**record, "model": 'x/y"\nlicense: mit'})
    assert "\nlicense: mit" not in text.split("---")[1]
    assert public_name("org/model") == "org/model"


def test_json_prints_one_object_and_nothing_else(base, data, tmp_path, capfd):
    assert tune(base, data, tmp_path / "out", "--json") == 0
    out, err = capfd.readouterr()
    summary = json.loads(out)
    assert summary["rows"] == 14
    assert summary["steps"] == STEPS
    assert summary["resumed_from"] is None
    assert summary["first_loss"] > 0
    assert "nothing says which pictures are in the test set" in err


def test_the_same_seed_gives_the_same_adapter_and_another_does_not(whole, base, data, tmp_path):
    assert tune(base, data, tmp_path / "same", "--save-every", "100") == 0
    assert_same_adapter(whole, tmp_path / "same")
    assert tune(base, data, tmp_path / "other", "--seed", "1") == 0
    a, b = weights(whole), weights(tmp_path / "other")
    assert not all(torch.equal(a[name], b[name]) for name in a)


def test_draws_are_taken_in_their_order(base, data, tmp_path, monkeypatch):
    taken = []
    original = finetune_run.Examples.__getitem__

    def watched(self: Any, index: int) -> Any:
        taken.append(index)
        return original(self, index)

    monkeypatch.setattr(finetune_run.Examples, "__getitem__", watched)
    assert tune(base, data, tmp_path / "out") == 0
    assert taken == list(range(28))


def test_checkpointing_and_workers_change_nothing(whole, base, data, tmp_path):
    more = ("--no-gradient-checkpointing", "--workers", "2")
    assert tune(base, data, tmp_path / "out", *more) == 0
    a, b = weights(whole), weights(tmp_path / "out")
    assert all(torch.allclose(a[name], b[name], atol=1e-6) for name in a)


@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_stopped_run_goes_on_to_the_same_adapter(step, whole, base, data, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        tune(base, data, out, callbacks=[Stop(step, KeyboardInterrupt())])
    assert not (out / "adapter_model.safetensors").exists()
    assert tune(base, data, out, "--resume") == 0
    assert_same_adapter(whole, out)
    record = json.loads((out / "training.json").read_text())
    # A stop at a step comes before that step's checkpoint.
    assert record["result"]["resumed_from"] == {1: None, 2: None, 5: 4}[step]
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    expected = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [line["loss"] for line in expected]


def cut(name: str, content: bytes | None) -> Any:
    """Damage to a checkpoint's file: other content, or no file."""

    def damage(checkpoint: Path) -> None:
        (checkpoint / name).unlink()
        if content is not None:
            (checkpoint / name).write_bytes(content)

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        cut("complete.json", None),
        pytest.param(cut("complete.json", b"[1"), marks=pytest.mark.slow),
        pytest.param(cut("optimizer.pt", b"half"), marks=pytest.mark.slow),
        pytest.param(cut("adapter_model.safetensors", None), marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_cut_short_is_passed_over(damage, whole, base, data, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        tune(base, data, out, callbacks=[Stop(5, KeyboardInterrupt())])
    damage(out / "checkpoints" / "checkpoint-4")
    assert tune(base, data, out, "--resume") == 0
    assert json.loads((out / "training.json").read_text())["result"]["resumed_from"] == 2
    assert_same_adapter(whole, out)


def test_a_finished_run_is_left_as_it_is(whole, base, data, capsys):
    before = tree(whole)
    assert tune(base, data, whole, "--resume", "--json") == 0
    assert json.loads(capsys.readouterr().out)["steps"] == STEPS
    assert tree(whole) == before


@pytest.mark.slow
def test_a_killed_process_goes_on_to_the_same_adapter(whole, base, data, tmp_path):
    out = tmp_path / "out"
    code = """
import sys, time, torch
torch.set_num_threads(1)
from transformers import TrainerCallback
from tests.lmms_eval_tasks.clash.finetune.test_clash_finetune import tune
class Slow(TrainerCallback):
    def on_step_begin(self, *args, **kwargs): time.sleep(0.5)
from pathlib import Path
tune(*map(Path, sys.argv[1:4]), callbacks=[Slow()])
"""
    command = [sys.executable, "-c", code, str(base), str(data), str(out)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (out / "checkpoints" / "checkpoint-4" / "complete.json").exists():
        assert process.poll() is None, "ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / "adapter_model.safetensors").exists()
    assert tune(base, data, out, "--resume") == 0
    assert json.loads((out / "training.json").read_text())["result"]["resumed_from"] >= 4
    assert_same_adapter(whole, out)


def test_nothing_is_overwritten_without_a_word(whole, base, data, capsys):
    before = tree(whole)
    assert tune(base, data, whole) == 1
    assert "--resume goes on with it, --force starts anew" in capsys.readouterr().err
    assert tree(whole) == before


@pytest.mark.parametrize("flag", [(), ("--resume",), ("--force",)])
def test_a_folder_of_something_else_is_never_touched(flag, base, data, tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    assert tune(base, data, tmp_path, *flag) == 1
    assert "no run of this command" in capsys.readouterr().err
    assert tree(tmp_path) == {"thesis.txt": b"years of work"}


def test_force_starts_anew_and_removes_only_what_it_wrote(base, data, tmp_path):
    out = tmp_path / "out"
    assert tune(base, data, out, "--seed", "5", "--save-every", "1") == 0
    (out / "notes.txt").write_text("mine")
    assert tune(base, data, out, "--force", "--save-every", "100") == 0
    assert (out / "notes.txt").read_text() == "mine"
    assert json.loads((out / "training.json").read_text())["settings"]["seed"] == 0
    assert sorted(p.name for p in (out / "checkpoints").iterdir()) == [f"checkpoint-{STEPS}"]


@pytest.mark.parametrize(
    ("more", "named"),
    [(("--rank", "8"), "rank"), (("--seed", "3"), "seed"), (("--batch-size", "1"), "batch_size")],
)
def test_a_run_goes_on_only_with_its_own_settings(more, named, whole, base, data, capsys):
    before = tree(whole)
    assert tune(base, data, whole, "--resume", *more) == 1
    assert f"its run has {named} = " in capsys.readouterr().err
    assert tree(whole) == before


def test_a_run_goes_on_only_with_its_own_data(whole, base, tmp_path, capsys):
    other = clash_folder(tmp_path / "other", clash_rows(12))
    assert tune(base, other, whole, "--resume") == 1
    assert "its run has fingerprint = " in capsys.readouterr().err


def test_rows_of_the_test_set_are_dropped_and_counted(base, tmp_path, capsys):
    rows = clash_rows()
    rows_lost = [row for row in rows if row["image_id"] in ("100", "103")]
    path = clash_folder(tmp_path / "train", rows)
    (path / rows[1]["image"]).unlink()
    test = clash_folder(tmp_path / "test", rows_lost)
    assert tune(base, path, tmp_path / "out", "--json", "--test-data", str(test)) == 0
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary["dropped_in_test_set"] == len(rows_lost) == 3
    assert summary["dropped_without_picture"] == 1
    assert summary["rows"] == len(rows) - 4
    assert summary["test_pictures_from"] == "test_data"
    assert "nothing says which pictures" not in err
    assert "against a copy of the test set" in (tmp_path / "out" / "README.md").read_text()


def test_no_row_left_says_why_each_is_gone(base, data, tmp_path, capsys):
    assert tune(base, data, tmp_path / "out", "--test-data", str(data)) == 1
    err = capsys.readouterr().err
    assert "no row is left" in err
    assert "14 have a picture of the test set" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("manifest", [{"kind": "full"}, {"split": "test"}])
def test_the_test_set_is_not_trained_on(manifest, base, tmp_path, capsys, monkeypatch):
    from lmms_eval_tasks.clash import data as clash_data

    any_size = clash_data.FORMAT._replace(not_full=lambda rows: None)
    monkeypatch.setattr(clash_data, "FORMAT", any_size)
    path = clash_folder(tmp_path / "data", **manifest)
    assert tune(base, path, tmp_path / "out") == 1
    assert "is the test set" in capsys.readouterr().err


def test_data_that_asks_differently_from_the_test_set_is_refused(base, data, tmp_path, capsys):
    from lmms_eval_tasks.clash.data import prompt_hash

    text = "Say what you see."
    prompts = {"open_ended": {"text": text, "sha256": prompt_hash(text)}}
    test = clash_folder(tmp_path / "test", clash_rows(2), prompts=prompts)
    assert tune(base, data, tmp_path / "out", "--test-data", str(test)) == 1
    assert "with or both without --own-prompts" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        # As torch.save and safetensors were seen to put it on a full file system.
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"),
        SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        ),
    ],
)
def test_a_full_disk_is_one_line_and_the_run_goes_on(
    error, whole, base, data, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "out"
    calls = []

    def full(checkpoint: Path) -> None:
        calls.append(checkpoint)
        if len(calls) == 2:
            raise error
        seal(checkpoint)

    seal = finetune_train.seal
    monkeypatch.setattr(finetune_train, "seal", full)
    assert tune(base, data, out) == 1
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert err.startswith("pragclash finetune: no disk space left under")
    assert "--resume" in err
    monkeypatch.undo()
    assert tune(base, data, out, "--resume") == 0
    assert json.loads((out / "training.json").read_text())["result"]["resumed_from"] == 2
    assert_same_adapter(whole, out)


def test_too_little_space_is_said_before_training(base, data, tmp_path, capsys, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(finetune_run.shutil, "disk_usage", lambda _: usage)
    assert tune(base, data, tmp_path / "out") == 1
    assert "checkpoints need" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "advice"),
    [
        (("--batch-size", "4", "--accumulate", "4"), "--batch-size 2 --accumulate 8"),
        (("--batch-size", "3", "--accumulate", "1"), "--batch-size 1 --accumulate 3"),
        (("--batch-size", "1"), "--load-4bit"),
    ],
)
def test_out_of_memory_says_what_to_set(more, advice, base, data, tmp_path, capsys):
    stop = Stop(1, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert tune(base, data, tmp_path / "out", *more, callbacks=[stop]) == 1
    err = capsys.readouterr().err
    assert "out of memory: set " in err
    assert advice in err
    assert "2 GiB" not in err


def test_an_error_that_nobody_foresaw_keeps_its_traceback(base, data, tmp_path):
    with pytest.raises(RuntimeError, match="odd"):
        tune(base, data, tmp_path / "out", callbacks=[Stop(1, RuntimeError("odd"))])


class Poison(TrainerCallback):
    """Makes the loss a NaN from the third step on."""

    seen: ClassVar[list[int]] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any):
        if state.global_step == 2:
            next(p for p in model.parameters() if p.requires_grad).data.fill_(float("nan"))


def test_a_loss_that_is_no_number_ends_the_run_and_leaves_no_checkpoint(
    base, data, tmp_path, capsys
):
    out = tmp_path / "out"
    assert tune(base, data, out, "--save-every", "1", callbacks=[Poison()]) == 1
    assert "the loss is nan at step 3: lower --learning-rate" in capsys.readouterr().err
    assert sorted(p.name for p in (out / "checkpoints").iterdir()) == [
        "checkpoint-1",
        "checkpoint-2",
    ]
    assert not (out / "adapter_model.safetensors").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--profile", "t4"), "needs a CUDA GPU"),
        (("--target-modules", "nothing_like_it"), "--target-modules: "),
        (("--load-4bit", "--train-projector"), "add --no-load-4bit"),
    ],
)
def test_settings_that_cannot_work_are_named(more, message, base, data, tmp_path, capsys):
    if "t4" in more and torch.cuda.is_available():
        pytest.skip("a GPU is here")
    assert tune(base, data, tmp_path / "out", *more) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "more", [("--rank", "0"), ("--dropout", "1"), ("--learning-rate", "nan"), ("--seed", "-1")]
)
def test_numbers_out_of_range_are_refused(more, base, data, tmp_path):
    with pytest.raises(SystemExit) as refused:
        arguments(base, data, tmp_path, *more)
    assert refused.value.code == 2


def test_a_model_that_is_not_there_is_one_line(data, tmp_path, capsys):
    assert tune(tmp_path / "nowhere", data, tmp_path / "out") == 1
    assert "pragclash finetune: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def scores(lm: Any) -> torch.Tensor:
    """Log-probabilities of Yes and No through `verdict`, four requests on two pictures."""
    tasks = FakeTasks({"pm": captions_of([drawn(1), drawn(2)], 2)})
    lm.task_dict = tasks.task_dict
    results = lm.generate_until(tasks.requests(simple=lm.is_simple))
    assert lm.run_notes()["counts"]["failed"] == 0
    choices = [read_response(result.text).choices for result in results]
    return torch.tensor([[choice[name] for name in ("Yes", "No")] for choice in choices])


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in BUILDERS if name != "llava_hf"]


@pytest.mark.parametrize("backend", ["llava_hf", *OTHERS])
@pytest.mark.parametrize("more", [(), ("--train-projector",)])
def test_adapter_and_merged_model_evaluate_alike(backend, more, tiny_models, data, tmp_path):
    folder, out = tiny_models(backend), tmp_path / "out"
    assert tune(folder, data, out, "--merge", "--epochs", "1", *more) == 0
    plain = scores(wrapped(backend, folder))
    adapted = scores(wrapped(backend, folder, peft=out))
    merged = scores(wrapped(backend, out / "merged"))
    assert (adapted - plain).abs().max() > 1e-2
    torch.testing.assert_close(adapted, merged, atol=1e-3, rtol=0)


def test_a_finished_run_can_be_merged_later(base, data, tmp_path):
    out = tmp_path / "out"
    assert tune(base, data, out) == 0
    assert not (out / "merged").exists()
    assert tune(base, data, out, "--resume", "--merge") == 0
    AutoModelForImageTextToText.from_pretrained(out / "merged")


def test_bfloat16_trains_and_keeps_its_adapter_in_float32(base, data, tmp_path):
    assert tune(base, data, tmp_path / "out", "--profile", "a100") == 0
    assert {value.dtype for value in weights(tmp_path / "out").values()} == {torch.float32}


def test_four_bit_weights_train(tiny_models, data, tmp_path):
    pytest.importorskip("bitsandbytes")
    # The 4-bit kernel of a CPU takes blocks of 64 weights.
    folder = tiny_models("llava_hf", hidden=128)
    out = tmp_path / "out"
    assert tune(folder, data, out, "--load-4bit") == 0
    assert all(value.abs().sum() > 0 for name, value in weights(out).items() if "lora_B" in name)


def test_two_processes_train_one_adapter(base, data, tmp_path):
    """As `accelerate launch` starts them: a step takes the draws of both, one of them writes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command += ["--standalone", "-m", "pragclash.cli.main", "finetune", "--json"]
    places = ["--model", str(base), "--data", str(data), "--out", str(tmp_path / "out")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *places, *SMALL, "--accumulate", "1"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads(done.stdout)
    assert summary["steps"] == STEPS
    record = json.loads((tmp_path / "out" / "training.json").read_text())
    assert record["settings"]["processes"] == 2
    lines = [json.loads(x) for x in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert [line["draws"] for line in lines] == [4, 8, 12, 16, 20, 24, 28]
    assert all(value.abs().sum() > 0 for name, value in weights(tmp_path / "out").items())
