"""Profiles: how a model's weights are held on this or that hardware, in training as in evaluation.

One table, so that an adapter is evaluated on weights of the kind that it was trained on. The table
is plain data and `auto` a pure choice; this module must never import torch when it is imported,
because commands without a model read it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch
    from transformers import BitsAndBytesConfig

AUTO = "auto"
"""The profile that follows from what is there."""

LARGE_GPU_BYTES = 23_000_000_000
"""Memory from which a GPU holds 7B weights in 16 bits; cards sold as 24 GB report a little less."""


class Profile(NamedTuple):
    """How weights are held and what the arithmetic is done in."""

    name: str
    dtype: str
    """Name of the torch type of weights and arithmetic; what is trained is always float32."""
    four_bit: bool
    """Whether frozen weights are held in 4 bits (NF4, with double quantisation)."""
    device: str
    """`cuda` or `cpu`."""
    attention: str = "sdpa"
    """Name of transformers' attention implementation."""

    @property
    def bf16(self) -> bool:
        """Whether the arithmetic is bfloat16."""
        return self.dtype == "bfloat16"

    @property
    def fp16(self) -> bool:
        """Whether the arithmetic is float16, whose gradients have to be scaled."""
        return self.dtype == "float16"

    @property
    def device_map(self) -> str:
        """What transformers takes as `device_map` to put a model there."""
        return "cpu" if self.device == "cpu" else "auto"


PROFILES: dict[str, Profile] = {
    "cpu": Profile("cpu", "float32", False, "cpu"),
    # A T4 has no bfloat16, and 7B weights in float16 fill its 16 GB: they are kept in 4 bits.
    "t4": Profile("t4", "float16", True, "cuda"),
    "a100": Profile("a100", "bfloat16", False, "cuda"),
}
"""The profiles by name."""

CHOICES = (AUTO, *PROFILES)
"""What may be given as a profile."""


def auto_profile(gpu_bytes: int | None, bfloat16: bool = True) -> str:
    """The profile for a machine.

    Args:
        gpu_bytes: Memory of its smallest GPU; None without a GPU.
        bfloat16: Whether that GPU computes in bfloat16.

    >>> auto_profile(None), auto_profile(16 * 10**9), auto_profile(80 * 10**9)
    ('cpu', 't4', 'a100')
    >>> auto_profile(32 * 10**9, bfloat16=False)
    't4'
    """
    if gpu_bytes is None:
        return "cpu"
    return "a100" if bfloat16 and gpu_bytes >= LARGE_GPU_BYTES else "t4"


def four_bits(dtype: torch.dtype | None) -> BitsAndBytesConfig:
    """How frozen weights are held in 4 bits: NF4, with double quantisation.

    Args:
        dtype: The type of the arithmetic.
    """
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )


def profile_of(name: str) -> Profile:
    """The profile of a name; `auto` looks at this machine's GPUs.

    Raises:
        ValueError: There is no such profile.
    """
    if name == AUTO:
        name = auto_profile(*_hardware())
    if name not in PROFILES:
        raise ValueError(f"profile={name[:40]}: know {', '.join(CHOICES)}")
    return PROFILES[name]


def _hardware() -> tuple[int | None, bool]:
    """Memory of the smallest GPU that torch sees, and whether it computes in bfloat16."""
    import torch

    if not torch.cuda.is_available():
        return None, False
    found = range(torch.cuda.device_count())
    memory = min(torch.cuda.get_device_properties(i).total_memory for i in found)
    return memory, torch.cuda.is_bf16_supported(including_emulation=False)
