"""Memory that the paper's four models are expected to need, computed from their parameter counts.

The models are built from their published dimensions on PyTorch's meta device, where weights have
shapes and no values. Under `profile=t4` the weights of linear layers take 4 bits and their scales
(NF4 in blocks of 64, the scales themselves in 8 bits), all others 16 bits, as bitsandbytes does it;
under `profile=a100` all take 16 bits. The kept prefix is the key-value cache of one prompt.
Activations, the CUDA context and fragmentation come on top, and nothing here is measured.

Run: `python -m tests.benchmarks.memory`.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers as t

PROMPT_TOKENS = {"LLaVA-v1.6-7B": 2300, "Qwen2.5-VL-7B": 2200, "InternVL2.5-8B": 2200,
                 "Idefics2-8B": 200}  # fmt: skip
NF4_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes a weight: four bits, an 8-bit scale a block of 64, a 32-bit one for 256 blocks."""

_MISTRAL = {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8}  # fmt: skip


def models() -> dict[str, Any]:
    """The four models, without values."""
    llava = t.LlavaNextConfig(text_config=t.MistralConfig(vocab_size=32064, **_MISTRAL).to_dict())
    qwen = t.Qwen2_5_VLConfig(
        vision_config={"depth": 32, "hidden_size": 1280, "intermediate_size": 3420,
                       "num_heads": 16, "out_hidden_size": 3584},
        text_config={"vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
                     "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
                     "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
    )  # fmt: skip
    internvl = t.InternVLConfig(
        vision_config={"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                       "num_attention_heads": 16, "image_size": [448, 448], "patch_size": [14, 14]},
        # The release's InternLM2 has the dimensions and the parameters of this Llama.
        text_config=t.LlamaConfig(vocab_size=92553, **_MISTRAL).to_dict(),
    )  # fmt: skip
    idefics = t.Idefics2Config(
        vision_config={"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
                       "num_attention_heads": 16, "image_size": 980, "patch_size": 14},
        perceiver_config={"hidden_size": 4096, "resampler_n_latents": 64, "resampler_depth": 3,
                          "resampler_n_heads": 16, "resampler_head_dim": 96,
                          "num_key_value_heads": 4},
        text_config=t.MistralConfig(vocab_size=32003, **_MISTRAL).to_dict(),
    )  # fmt: skip
    with torch.device("meta"):
        return {
            "LLaVA-v1.6-7B": t.LlavaNextForConditionalGeneration(llava),
            "Qwen2.5-VL-7B": t.Qwen2_5_VLForConditionalGeneration(qwen),
            "InternVL2.5-8B": t.InternVLForConditionalGeneration(internvl),
            "Idefics2-8B": t.Idefics2ForConditionalGeneration(idefics),
        }


def expected(name: str, model: Any) -> dict[str, float]:
    """Parameters in billions, and gigabytes (1e9 bytes) of weights and of one kept prefix."""
    total = sum(parameter.numel() for parameter in model.parameters())
    linear = sum(
        module.weight.numel()
        for path, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and not path.endswith("lm_head")
    )
    text = model.config.get_text_config()
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    cache = 2 * text.num_hidden_layers * text.num_key_value_heads * head * 2
    return {
        "parameters": total / 1e9,
        "t4": (linear * NF4_BYTES + (total - linear) * 2) / 1e9,
        "a100": total * 2 / 1e9,
        "prefix": cache * PROMPT_TOKENS[name] / 1e9,
    }


def main() -> None:
    """Print one row a model."""
    print(f"{'':<16}{'parameters':>11}{'weights t4':>12}{'weights a100':>13}{'kept prefix':>12}")
    for name, model in models().items():
        row = expected(name, model)
        print(
            f"{name:<16}{row['parameters']:>9.2f} B{row['t4']:>9.1f} GB{row['a100']:>10.1f} GB"
            f"{row['prefix']:>9.2f} GB"
        )


if __name__ == "__main__":
    main()
