"""The model of a run: the frozen base, the adapter on it, and what is written of them.

The base is never changed; what is trained is held in float32, whatever the base is held in.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForImageTextToText, set_seed

from lmms_eval_tasks.profiles import PROFILES, four_bits

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")


@dataclass(frozen=True)
class Settings:
    """All that decides what comes out, besides model and data."""

    profile: str
    four_bit: bool
    forms: str
    max_length: int
    processes: int
    """How many train together; draws a step are so many times as many."""
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

    @property
    def draws_a_step(self) -> int:
        """Draws between two steps of the optimiser."""
        return self.batch_size * self.accumulate * self.processes


def load_base(model: str, settings: Settings) -> Any:
    """The model to adapt, its weights frozen.

    Raises:
        ValueError: The profile needs a GPU, or a package is missing.
        OSError: There is no such model.
    """
    profile = PROFILES[settings.profile]
    if profile.fp16 and not torch.cuda.is_available():
        raise ValueError("--profile t4 (float16) needs a CUDA GPU; on a CPU set --profile cpu")
    options: dict[str, Any] = {"dtype": getattr(torch, profile.dtype)}
    if settings.four_bit:
        if importlib.util.find_spec("bitsandbytes") is None:
            raise ValueError("4-bit weights need bitsandbytes: pip install 'pragclash[quant]'")
        options["quantization_config"] = four_bits(options["dtype"])
    if on_gpu(settings):
        options["device_map"] = {"": int(os.environ.get("LOCAL_RANK", "0"))}
    base = AutoModelForImageTextToText.from_pretrained(model, **options)
    base.requires_grad_(False)
    base.config.use_cache = False
    return base


def add_adapter(base: Any, settings: Settings) -> PeftModel:
    """The model with a fresh adapter, the same for the same seed.

    Raises:
        ValueError: No layer is meant.
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
        raise ValueError(f"--target-modules: {str(error)[:300]}") from error
    for parameter in adapted.parameters():
        # Small steps are lost in half precision, and float16 gradients cannot be rescaled.
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return adapted


def language_layers(base: Any) -> str:
    """A regular expression for all linear layers of the language model, its output layer apart.

    Raises:
        ValueError: The model does not say where its language model is.
    """
    decoder = base.get_decoder()
    name = next((name for name, module in base.named_modules() if module is decoder), "")
    leaves = {
        child.rpartition(".")[2]
        for child, module in decoder.named_modules()
        if isinstance(module, torch.nn.Linear)
    }
    if not name or not leaves:
        raise ValueError(
            f"{type(base).__name__}: its language layers are not known; name them with "
            "--target-modules"
        )
    return rf"{re.escape(name)}\..*\.(?:{'|'.join(map(re.escape, sorted(leaves)))})"


def projectors(base: Any) -> list[str]:
    """Names of the modules that turn picture features into tokens.

    Raises:
        ValueError: None is found.
    """
    known = ("multi_modal_projector", "connector", "merger", "visual_projection")
    found = [
        name
        for name, module in base.named_modules()
        if name.rpartition(".")[2] in known and any(True for _ in module.parameters())
    ]
    if not found:
        raise ValueError(f"{type(base).__name__}: no projector found; leave --train-projector")
    return found


def write_adapter(model: PeftModel, out: Path) -> None:
    """Write the adapter in peft's own format; an older one is replaced only by a whole one."""
    partial = out / ".adapter"
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(str(partial), save_embedding_layers=False)
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
    dtype = getattr(torch, PROFILES[settings.profile].dtype)
    base = AutoModelForImageTextToText.from_pretrained(model, dtype=dtype)
    merged = PeftModel.from_pretrained(base, str(out)).merge_and_unload()
    partial, target = out / ".merged", out / "merged"
    shutil.rmtree(partial, ignore_errors=True)
    merged.save_pretrained(partial)
    processor.save_pretrained(partial)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    return target


def bytes_needed(model: PeftModel) -> int:
    """Disk space for what a run keeps at once: three checkpoints and the adapter.

    A checkpoint holds every trained value and Adam's two moments of it, 4 bytes each.
    """
    trained: int = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return trained * 4 * (3 * 3 + 1)


def on_gpu(settings: Settings) -> bool:
    """Whether the run computes on a GPU."""
    return torch.cuda.is_available() and PROFILES[settings.profile].device == "cuda"
