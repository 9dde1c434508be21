"""The training itself: LoRA of peft on a transformers model, by transformers' Trainer.

Nothing here knows rows or prompts. The order of the draws is given and kept; everything that a
restart needs is in a checkpoint, which counts only once all of it is on disk.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch.utils.data import Sampler, SequentialSampler
from tqdm import tqdm
from transformers import (
    AutoModelForImageTextToText,
    BitsAndBytesConfig,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_callback import PrinterCallback, ProgressCallback

LOG = "log.jsonl"
CHECKPOINTS = "checkpoints"
COMPLETE = "complete.json"
"""Written last into a checkpoint: names and sizes of its files."""

PROFILES: dict[str, dict[str, Any]] = {
    "a100": {"dtype": "bfloat16", "four_bit": False},
    # A T4 has no bfloat16, and 7B weights in float16 fill its 16 GB: they are kept in 4 bits.
    "t4": {"dtype": "float16", "four_bit": True},
    "cpu": {"dtype": "float32", "four_bit": False},
}
"""Number type of the weights at rest and of the arithmetic; what is trained is always float32."""

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")


class TrainingError(ValueError):
    """Training cannot go on; the message says what to set."""


@dataclass(frozen=True)
class Settings:
    """All that decides what comes out, besides model and data."""

    profile: str
    four_bit: bool
    rank: int
    alpha: int
    dropout: float
    target_modules: str | None
    """A regular expression over module names; None: all linear layers of the language model."""
    train_projector: bool
    learning_rate: float
    warmup: float
    batch_size: int
    accumulate: int
    epochs: int
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return asdict(self)


def load_base(model: str, settings: Settings) -> Any:
    """The model to adapt, its weights frozen.

    Raises:
        TrainingError: The profile needs a GPU, or a package is missing.
        OSError: There is no such model.
    """
    if settings.profile == "t4" and not torch.cuda.is_available():
        raise TrainingError("--profile t4 (float16) needs a CUDA GPU; on a CPU set --profile cpu")
    options: dict[str, Any] = {"dtype": getattr(torch, PROFILES[settings.profile]["dtype"])}
    if settings.four_bit:
        try:
            import bitsandbytes  # noqa: F401
        except ImportError as error:
            raise TrainingError(
                "4-bit weights need bitsandbytes: pip install 'pragclash[quant]'"
            ) from error
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=options["dtype"],
        )
    if torch.cuda.is_available() and settings.profile != "cpu":
        options["device_map"] = {"": 0}
    base = AutoModelForImageTextToText.from_pretrained(model, **options)
    base.requires_grad_(False)
    base.config.use_cache = False
    return base


def add_adapter(base: Any, settings: Settings) -> PeftModel:
    """The model with a fresh adapter, the same for the same seed.

    Raises:
        TrainingError: No layer is meant.
    """
    set_seed(settings.seed)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=settings.target_modules or language_layers(base),
        modules_to_save=projectors(base) if settings.train_projector else None,
        task_type="CAUSAL_LM",
    )
    try:
        adapted = get_peft_model(base, config)
    except ValueError as error:
        raise TrainingError(f"--target-modules: {str(error)[:300]}") from error
    for parameter in adapted.parameters():
        # Small steps are lost in half precision, and float16 gradients cannot be rescaled.
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return adapted


def language_layers(base: Any) -> str:
    """A regular expression for all linear layers of the language model, its output layer apart.

    Raises:
        TrainingError: The model does not say where its language model is.
    """
    decoder = base.get_decoder()
    name = next((name for name, module in base.named_modules() if module is decoder), "")
    leaves = {
        child.rpartition(".")[2]
        for child, module in decoder.named_modules()
        if isinstance(module, torch.nn.Linear)
    }
    if not name or not leaves:
        raise TrainingError(
            f"{type(base).__name__}: its language layers are not known; name them with "
            "--target-modules"
        )
    return rf"{re.escape(name)}\..*\.(?:{'|'.join(map(re.escape, sorted(leaves)))})"


def projectors(base: Any) -> list[str]:
    """Names of the modules that turn picture features into tokens.

    Raises:
        TrainingError: None is found.
    """
    known = ("multi_modal_projector", "connector", "merger", "visual_projection")
    found = [
        name
        for name, module in base.named_modules()
        if name.rpartition(".")[2] in known and any(True for _ in module.parameters())
    ]
    if not found:
        raise TrainingError(f"{type(base).__name__}: no projector found; leave --train-projector")
    return found


class OrderedTrainer(Trainer):
    """The Trainer, which takes examples in the order in which they are given."""

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        return SequentialSampler(train_dataset if train_dataset is not None else self.train_dataset)


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
        draws = state.global_step * self.settings.batch_size * self.settings.accumulate
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
        with (self.out / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.bar.update(state.global_step - self.bar.n)
        self.bar.set_postfix_str(f"loss {logs['loss']:.4f}")

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Seal the checkpoint that has just been written."""
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
        steps), `trained_parameters`.

    Raises:
        TrainingError: The loss is no number.
    """
    last = last_checkpoint(out) if resume else None
    cuda = torch.cuda.is_available() and settings.profile != "cpu"
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
        bf16=settings.profile == "a100",
        fp16=settings.profile == "t4",
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
        raise TrainingError(journal.fault)
    write_adapter(model, out)
    losses = [line["loss"] for line in read_log(out)]
    return {
        "steps": trainer.state.global_step,
        "resumed_from": step_of(last) if last else None,
        "first_loss": _mean(losses[:10]),
        "last_loss": _mean(losses[-10:]),
        "trained_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }


def write_adapter(model: PeftModel, out: Path) -> None:
    """Write the adapter in peft's own format; an older one is replaced only by a whole one."""
    partial = out / ".adapter"
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial, save_embedding_layers=False)
    for name in reversed(ADAPTER_FILES):
        (partial / name).replace(out / name)
    shutil.rmtree(partial)


def merge(model: str, out: Path, settings: Settings, processor: Any) -> Path:
    """Write base and adapter as one model, which loads without peft.

    The base is loaded anew on the CPU in the profile's number type, never in 4 bits: what is
    merged into rounded weights would be rounded with them.

    Returns:
        The folder, `merged` in the run's.
    """
    dtype = getattr(torch, PROFILES[settings.profile]["dtype"])
    base = AutoModelForImageTextToText.from_pretrained(model, dtype=dtype)
    merged = PeftModel.from_pretrained(base, str(out)).merge_and_unload()
    partial, target = out / ".merged", out / "merged"
    shutil.rmtree(partial, ignore_errors=True)
    merged.save_pretrained(partial)
    processor.save_pretrained(partial)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    return target


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


def bytes_needed(model: PeftModel) -> int:
    """Disk space for what a run keeps at once: three checkpoints and the adapter.

    A checkpoint holds every trained value and Adam's two moments of it, 4 bytes each.
    """
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return trained * 4 * (3 * 3 + 1)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
