"""The training itself, by transformers' Trainer, in one process or several.

Nothing here knows rows or prompts. The order of the draws is given and kept; everything that a
restart needs is in a checkpoint, which counts only once all of it is on disk.
"""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from peft import PeftModel
from torch.utils.data import Sampler, SequentialSampler
from tqdm import tqdm
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from lmms_eval_tasks.clash.finetune.model import Settings, on_gpu, write_adapter
from lmms_eval_tasks.profiles import PROFILES

LOG = "log.jsonl"
CHECKPOINTS = "checkpoints"
COMPLETE = "complete.json"
"""Written last into a checkpoint: names and sizes of its files."""


class OrderedTrainer(Trainer):
    """The Trainer, which takes examples in the order in which they are given."""

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        examples: Any = train_dataset if train_dataset is not None else self.train_dataset
        return SequentialSampler(examples)


class Journal(TrainerCallback):
    """Progress bar, log file, the seal on checkpoints, and a stop when the loss is no number."""

    def __init__(self, out: Path, settings: Settings, rows: int, quiet: bool) -> None:
        """Nothing is written before training begins."""
        self.out, self.settings, self.rows, self.quiet = out, settings, rows, quiet
        self.bar: Any = None
        self.started = 0.0
        self.fault: str | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Drop the lines of steps that are about to be repeated."""
        self.started = time.monotonic()
        if not state.is_world_process_zero:
            return
        lines = [line for line in read_log(self.out) if line["step"] <= state.global_step]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (self.out / LOG).write_text(text, encoding="utf-8")
        self.bar = tqdm(
            total=state.max_steps,
            initial=state.global_step,
            desc="finetune",
            unit="step",
            disable=self.quiet,
        )

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        """One line a step."""
        if not logs or "loss" not in logs:
            return
        draws = state.global_step * self.settings.draws_a_step
        draws = min(draws, self.rows * self.settings.epochs)
        line = {
            "step": state.global_step,
            "steps": state.max_steps,
            "draws": draws,
            "epoch": round(draws / self.rows, 4),
            "loss": logs["loss"],
            "learning_rate": logs.get("learning_rate"),
            "grad_norm": logs.get("grad_norm"),
            "seconds": round(time.monotonic() - self.started, 2),
        }
        if not math.isfinite(logs["loss"]):
            self.fault = (
                f"the loss is {logs['loss']} at step {state.global_step}: lower --learning-rate "
                "(or with float16 --profile a100, where the GPU has bfloat16) and start anew "
                "with --force"
            )
            control.should_training_stop = True
            control.should_save = False
            return
        if not state.is_world_process_zero:
            return
        with (self.out / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.bar.update(state.global_step - self.bar.n)
        self.bar.set_postfix_str(f"loss {logs['loss']:.4f}")

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Seal the checkpoint that has just been written, by all processes."""
        wait()
        if state.is_world_process_zero:
            seal(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    def close(self) -> None:
        """End the bar's line, however the run ended."""
        if self.bar is not None:
            self.bar.close()


def train(
    model: PeftModel,
    examples: Any,
    collator: Any,
    settings: Settings,
    out: Path,
    *,
    rows: int,
    save_every: int,
    resume: bool,
    workers: int = 0,
    checkpointing: bool = True,
    quiet: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
) -> dict[str, Any]:
    """Run the draws, or what is left of them, and write the adapter.

    Args:
        model: From `add_adapter`.
        examples: The draws, as a dataset with a length.
        collator: Examples to a batch.
        settings: The settings.
        out: The run's folder.
        rows: Rows an epoch.
        save_every: Steps between checkpoints.
        resume: Go on from the last complete checkpoint in `out`, where there is one.
        workers: Processes that prepare batches.
        checkpointing: Compute activations again in the backward pass instead of keeping them.
        quiet: Without a progress bar.
        callbacks: Further callbacks of the Trainer.

    Returns:
        `steps`, `resumed_from` (a step or None), `first_loss`, `last_loss` (means of up to ten
        steps), `trained_parameters`, `peak_memory_gb` and `memory_of` (what was measured).

    Raises:
        ValueError: The loss is no number.
    """
    last = last_checkpoint(out) if resume else None
    cuda, profile = on_gpu(settings), PROFILES[settings.profile]
    arguments = TrainingArguments(
        output_dir=str(out / CHECKPOINTS),
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulate,
        # The draws hold all epochs.
        num_train_epochs=1,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine",
        warmup_ratio=settings.warmup,
        weight_decay=0.0,
        max_grad_norm=1.0,
        bf16=profile.bf16,
        fp16=profile.fp16,
        use_cpu=not cuda,
        gradient_checkpointing=checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        seed=settings.seed,
        data_seed=settings.seed,
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=save_every,
        # Two, because the older one is deleted before the newer one is sealed.
        save_total_limit=2,
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
        label_names=["labels"],
        dataloader_num_workers=workers,
        dataloader_pin_memory=cuda,
        disable_tqdm=True,
        report_to=[],
    )
    if cuda:
        # The Trainer would spread a batch over all GPUs that it sees.
        arguments._n_gpu = 1
    journal = Journal(out, settings, rows, quiet)
    trainer = OrderedTrainer(
        model=model,
        args=arguments,
        train_dataset=examples,
        data_collator=collator,
        callbacks=[journal, *callbacks],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    try:
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    finally:
        journal.close()
    if journal.fault:
        raise ValueError(journal.fault)
    if is_main():
        write_adapter(model, out)
    wait()
    losses = [line["loss"] for line in read_log(out)]
    return {
        "steps": trainer.state.global_step,
        "resumed_from": step_of(last) if last else None,
        "first_loss": _mean(losses[:10]),
        "last_loss": _mean(losses[-10:]),
        "trained_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        **_memory(cuda),
    }


def seal(checkpoint: Path) -> None:
    """Say of a checkpoint that all of it is there."""
    sizes = {file.name: file.stat().st_size for file in checkpoint.iterdir() if file.is_file()}
    partial = checkpoint / f".{COMPLETE}"
    partial.write_text(json.dumps(sizes), encoding="utf-8")
    partial.replace(checkpoint / COMPLETE)


def is_sealed(checkpoint: Path) -> bool:
    """Whether all of a checkpoint is there."""
    try:
        sizes = json.loads((checkpoint / COMPLETE).read_text(encoding="utf-8"))
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def last_checkpoint(out: Path) -> Path | None:
    """The newest complete checkpoint of a run, or None; incomplete ones are removed."""
    found = sorted((out / CHECKPOINTS).glob("checkpoint-*"), key=step_of)
    for checkpoint in found:
        if not is_sealed(checkpoint):
            shutil.rmtree(checkpoint)
    whole = [checkpoint for checkpoint in found if checkpoint.exists()]
    return whole[-1] if whole else None


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was written; -1 where its name tells none."""
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def read_log(out: Path) -> list[dict[str, Any]]:
    """The lines of a run's log; a last line cut short by a kill is left out."""
    try:
        text = (out / LOG).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def is_main() -> bool:
    """Whether this is the process that writes; the only one without a launcher."""
    return os.environ.get("RANK", "0") == "0"


def processes() -> int:
    """How many processes train together, as `accelerate launch` says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def wait() -> None:
    """Wait until all processes are here."""
    if processes() > 1:
        PartialState(cpu=not torch.cuda.is_available()).wait_for_everyone()


def _memory(cuda: bool) -> dict[str, Any]:
    """The most memory that this process held: the GPU's, else its own."""
    if cuda:
        held, of = torch.cuda.max_memory_allocated(), "GPU"
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        held, of = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, "process"
    return {"peak_memory_gb": round(held / 1e9, 2), "memory_of": of}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
