"""One prefill a picture: the part of a prompt that captions share is computed once.

All captions of a picture share the prompt up to the caption, the picture's tokens included. The
key-value cache of one caption, cropped to what the next one shares with it, is handed to the next
`generate`; the vision tower is not run again. Reuse is exact by construction: `refusal` names
every circumstance in which it would not be, and then the plain path is taken. Nothing here may be
kept longer than one picture: a cache of a 7B model is gigabytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import DynamicCache

from model_wrappers.verdict.capture import setting

KNOWN_ARCHITECTURES = frozenset({"llava_next", "qwen2_5_vl", "idefics2", "internvl"})
"""`model_type`s whose reuse this project's tests compare with an independent forward pass; of any
other the first reuse of a run is checked against a plain pass before a second one is allowed."""

_PICTURE_TOKEN_FIELDS = (
    "image_token_id", "image_token_index", "video_token_id", "video_token_index",
    "vision_start_token_id", "vision_end_token_id",
)  # fmt: skip

_PER_TOKEN = frozenset({"position_ids", "token_type_ids", "mm_token_type_ids", "cache_position"})

_NOT_PICTURES = frozenset({"input_ids", "attention_mask", "pad_token_id", "eos_token_id"})


@dataclass
class Lease:
    """A cache handed to one call of `generate`, and what it is a cache of."""

    cache: DynamicCache
    length: int
    """How many tokens of the prompt the cache holds already; 0 for a picture seen anew."""
    key: bytes
    """What the cache is computed from, beside the tokens: see `picture_key`."""
    ids: list[int]
    """The prompt's tokens."""
    rope_deltas: list[tuple[Any, Any]] = field(default_factory=list)
    """Modules that keep position offsets of the last prompt, with the values of this one."""


def picture_key(kwargs: Mapping[str, Any]) -> bytes | None:
    """A digest of everything that `generate` gets of a prompt's pictures.

    Shape alone, or pixel values alone, would not do: two grey pictures of 560 x 1120 and
    1120 x 560 have equal pixel values and equal tokens in Qwen2.5-VL, and differ in the grid.

    Args:
        kwargs: The arguments of `generate`.

    Returns:
        The digest over name, type, shape and bytes of every tensor that is not text, or None
        where there is none, which is to say no picture.
    """
    digest = hashlib.blake2b(digest_size=32)
    found = False
    for name in sorted(kwargs):
        value = kwargs[name]
        if name in _NOT_PICTURES or value is None or isinstance(value, bool | int | float | str):
            continue
        tensors = _tensors(value)
        if not tensors:
            digest.update(f"{name}|{value!r}|".encode())
            continue
        found = True
        for tensor in tensors:
            digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
            data = tensor.detach().contiguous().cpu().flatten()
            digest.update(data.view(torch.uint8).numpy().tobytes())
    return digest.digest() if found else None


def picture_tokens(model: Any) -> frozenset[int]:
    """The token ids by which a model's prompts stand for pictures."""
    config = model.config
    values = [getattr(config, name, None) for name in _PICTURE_TOKEN_FIELDS]
    return frozenset(value for value in values if isinstance(value, int))


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading tokens two prompts share.

    >>> common_prefix([1, 2, 3], [1, 2, 4, 5])
    2
    """
    shared = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        shared += 1
    return shared


def refusal(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Why a call of `generate` may not share a prefix, or None where it may.

    Args:
        model: The model.
        args: Positional arguments of the call.
        kwargs: Keyword arguments of the call.
    """
    ids = kwargs.get("input_ids")
    if args or not isinstance(ids, torch.Tensor) or kwargs.get("inputs_embeds") is not None:
        return "the prompt is not given as input_ids"
    if ids.dim() != 2 or ids.shape[0] != 1:
        return "more than one row"
    mask = kwargs.get("attention_mask")
    if mask is not None and not (mask.shape == ids.shape and bool(mask.all())):
        return "padded or masked tokens"
    if kwargs.get("past_key_values") is not None:
        return "the backend brings a cache of its own"
    if setting(model, kwargs, "num_beams", 1) != 1 or kwargs.get("assistant_model") is not None:
        return "beams or assisted decoding"
    if setting(model, kwargs, "num_return_sequences", 1) != 1:
        return "several answers a prompt"
    if not setting(model, kwargs, "use_cache", True):
        return "use_cache is off"
    for name in ("cache_implementation", "prefill_chunk_size", "prompt_lookup_num_tokens",
                 "penalty_alpha", "dola_layers", "token_healing"):  # fmt: skip
        if setting(model, kwargs, name):
            return f"generation setting {name}"
    if model.config.is_encoder_decoder or not model._supports_default_dynamic_cache():
        return "the architecture has no cache that can be cropped"
    if getattr(model, "_is_stateful", False):
        return "the architecture keeps a state"
    for name, value in kwargs.items():
        if name in _NOT_PICTURES or not isinstance(value, torch.Tensor):
            continue
        if name in _PER_TOKEN or value.shape == ids.shape:
            return f"{name} holds values of single tokens"
    if not picture_tokens(model):
        return "the model's configuration names no picture token"
    return None


class Prefixes:
    """The kept prefix of the picture at hand.

    Args:
        model: The model whose calls of `generate` these are.
    """

    def __init__(self, model: Any) -> None:
        """Nothing is kept yet."""
        self.picture_tokens = picture_tokens(model)
        self.kept: Lease | None = None

    def forget(self) -> None:
        """Free the kept cache."""
        self.kept = None

    def take(self, kwargs: Mapping[str, Any]) -> Lease | None:
        """The cache to hand to a call that no guard refuses.

        A kept prefix is handed out once: whatever becomes of the call, the cache has changed, and
        only `keep` makes it a prefix again.

        Args:
            kwargs: The arguments of `generate`.

        Returns:
            A lease on the kept cache, cropped to what the prompts share; on an empty one for
            another picture; None where the prompt holds no picture.
        """
        key = picture_key(kwargs)
        ids = kwargs["input_ids"][0].tolist()
        last = self._last_picture_token(ids)
        if key is None or last < 0:
            return None
        kept, self.kept = self.kept, None
        if kept is not None and kept.key == key:
            # At least one token must be left to compute, or there would be no logits.
            shared = min(common_prefix(kept.ids, ids), len(ids) - 1)
            # A prefix that ends inside the picture leaves picture tokens without their picture.
            if shared > max(last, self._last_picture_token(kept.ids)):
                kept.cache.crop(shared)
                if kept.cache.get_seq_length() == shared:
                    for module, value in kept.rope_deltas:
                        module.rope_deltas = value
                    return Lease(kept.cache, shared, key, ids)
        # Without a configuration all layers keep everything: sliding ones cannot be cropped.
        return Lease(DynamicCache(), 0, key, ids)

    def _last_picture_token(self, ids: Sequence[int]) -> int:
        return max((at for at, token in enumerate(ids) if token in self.picture_tokens), default=-1)

    def keep(self, model: Any, lease: Lease) -> None:
        """Make the cache of a call that has returned the kept prefix.

        Args:
            model: The model that was called.
            lease: What it was given; the cache now holds the whole prompt and the answer.
        """
        # Position offsets live on the model, and a prompt in between overwrites them.
        lease.rope_deltas = [
            (module, module.rope_deltas)
            for module in model.modules()
            if getattr(module, "rope_deltas", None) is not None
        ]
        self.kept = lease


def has_picture(kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of `generate` is given any picture."""
    return any(name not in _NOT_PICTURES and _tensors(value) for name, value in kwargs.items())


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []
