"""How a backend's weights are loaded, for backends that take no such argument.

The backends of the paper's four models fix their number type or take no quantisation and no
adapter. For the time in which a backend is built, `from_pretrained` of all transformers models is
given these settings; before and after it is transformers' own. What a run really used is read off
the loaded model, never off the settings.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from lmms_eval_tasks.profiles import Profile, four_bits, profile_of

_DTYPES = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16")}


TRAINING_FACTS = ("split", "kind", "rows", "dropped_in_test_set", "fingerprint")
"""What a run notes of an adapter's training data."""


@dataclass(frozen=True)
class Loading:
    """What is changed about the loading of a backend's weights.

    Args:
        profile: A name of `lmms_eval_tasks.profiles`, `auto` among them, or None.
        peft: A folder with a PEFT adapter in safetensors, or None.
        dtype: `float32`, `float16` or `bfloat16`, over the profile's; None leaves it.

    Raises:
        ValueError: An unknown profile or type.
        FileNotFoundError: `peft` is no folder with an adapter.
        ImportError: A package that the settings need is missing.
    """

    profile: str | None = None
    peft: str | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be applied, before any weights are loaded."""
        if self.dtype is not None and self.dtype not in _DTYPES:
            raise ValueError(f"load_dtype={self.dtype}: know {', '.join(_DTYPES)}")
        if self.settings is not None and self.settings.four_bit:
            _need("bitsandbytes", f"profile={self.settings.name} quantises weights", "quant")
        if self.peft is not None:
            _need("peft", "peft= applies an adapter", "quant")
            for name in ("adapter_config.json", "adapter_model.safetensors"):
                if not (Path(self.peft) / name).is_file():
                    raise FileNotFoundError(f"peft={self.peft}: no {name} there")

    @functools.cached_property
    def settings(self) -> Profile | None:
        """The profile; what `auto` comes to on this machine.

        Raises:
            ValueError: There is no such profile.
        """
        return None if self.profile is None else profile_of(self.profile)

    def placed(self, backend: type, args: Mapping[str, Any]) -> dict[str, Any]:
        """A backend's arguments; on the CPU where that is what the profile comes to.

        Args:
            backend: The backend's class; what its constructor does not name is not given to it.
            args: The arguments, which would have it look for a GPU.
        """
        if self.settings is None or self.settings.device != "cpu":
            return dict(args)
        place = {"device": self.settings.device, "device_map": self.settings.device_map}
        known = inspect.signature(backend).parameters
        return {**args, **{name: value for name, value in place.items() if name in known}}

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give every model that is loaded in the block these settings."""
        if self == Loading():
            yield
            return
        original = PreTrainedModel.__dict__["from_pretrained"]
        depth = 0

        def from_pretrained(cls: type, *args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                model = original.__get__(None, cls)(*args, **self._changed(kwargs))
            finally:
                depth -= 1
            # A model may load its parts by the same way: the adapter is the whole model's.
            if depth == 0 and self.peft is not None:
                apply_adapter(model, Path(self.peft))
            return model

        PreTrainedModel.from_pretrained = classmethod(from_pretrained)
        try:
            yield
        finally:
            PreTrainedModel.from_pretrained = original

    def _changed(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of `from_pretrained` with the settings put in."""
        kwargs = dict(kwargs)
        settings = self.settings
        name = self.dtype or (settings and settings.dtype)
        dtype = _DTYPES[name] if name else None
        if dtype is not None:
            kwargs.pop("torch_dtype", None)
            kwargs["dtype"] = dtype
        if settings is not None:
            kwargs["attn_implementation"] = settings.attention
        if settings is not None and settings.four_bit:
            kwargs["quantization_config"] = four_bits(dtype)
        return kwargs

    def effective(self, model: Any) -> dict[str, Any]:
        """What a loaded model really is, as JSON values.

        Args:
            model: The model, as its backend holds it.
        """
        quantisation = getattr(model.config, "quantization_config", None)
        if quantisation is not None and not isinstance(quantisation, dict):
            quantisation = quantisation.to_dict()
        device_map = getattr(model, "hf_device_map", None) or {"": model.device}
        return {
            "profile": self.settings and self.settings.name,
            "dtype": str(model.dtype).removeprefix("torch."),
            "quantisation": _json(quantisation),
            "adapter": self._adapter(model),
            "device_map": {name: str(device) for name, device in device_map.items()},
            "attention": getattr(model.config, "_attn_implementation", None),
        }

    def _adapter(self, model: Any) -> dict[str, Any] | None:
        if self.peft is None:
            return None
        folder = Path(self.peft)
        digest = hashlib.sha256((folder / "adapter_model.safetensors").read_bytes()).hexdigest()
        parameters = sum(p.numel() for name, p in model.named_parameters() if "lora_" in name)
        return {
            "folder": folder.name,
            "sha256": digest,
            "lora_parameters": parameters,
            "training": training_of(folder),
        }


def training_of(folder: Path) -> dict[str, Any] | None:
    """What `training.json` beside an adapter says it was trained on; None where it says nothing."""
    try:
        held = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        data = dict(held["data"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return {"data": {name: data[name] for name in TRAINING_FACTS if name in data}}


def apply_adapter(model: Any, folder: Path) -> None:
    """Put a PEFT adapter into a model, which stays the object and class that it was.

    Args:
        model: A transformers model.
        folder: Holds `adapter_config.json` and `adapter_model.safetensors`.

    Raises:
        ValueError: A weight of the adapter finds no place in the model, or one of the model's
            adapter layers finds no weight: the adapter was made for another model.
    """
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors import safe_open

    with warnings.catch_warnings():
        # A mismatch is a warning there and an error here.
        warnings.simplefilter("ignore")
        adapted = PeftModel.from_pretrained(model, str(folder), is_trainable=False)
    expected = set(get_peft_model_state_dict(adapted))
    with safe_open(folder / "adapter_model.safetensors", framework="pt") as weights:
        given = set(weights.keys())
    if expected != given:
        odd = sorted(expected ^ given)
        raise ValueError(
            f"peft={folder}: {len(odd)} adapter weights do not fit the model, such as {odd[0]}"
        )
    adapted.eval()


def _need(package: str, why: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"{why}: pip install 'pragclash[{extra}]' (package {package})")


def _json(value: Any) -> Any:
    return None if value is None else {name: str(item) for name, item in value.items()}
