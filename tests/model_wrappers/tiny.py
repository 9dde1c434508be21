"""Tiny models of the four architectures, random weights, built on the spot and saved to a folder.

The harness's own backends load them as they load the real ones. Nothing here is committed as a
file: weights are drawn from a fixed seed, tokenizers are trained on the sentences below.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

CORPUS = [
    "Is the caption sarcastic about this picture? Answer Yes or No.",
    "Yes No yes no YES NO Yes. No. yes, no, the answer is Yes; the answer is No",
    "A B C D A. B. C. D. (A) (B) (C) (D) Answer with the letter A, B, C or D.",
    "what a lovely day, stuck in traffic again with no phone and no coffee, great",
    "a red bus stands beside a brick house under a grey sky while a dog waits",
    "Think step by step. So the verdict is: Yes. So the verdict is: No. USER: ASSISTANT:",
]

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'].upper() }}: "
    "{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}PLACEHOLDER{% else %}{{ c['text'] }}{% endif %}"
    "{% endfor %}{% endif %} {% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT: {% endif %}"
)

QWEN_SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
    "<|image_pad|>", "<|video_pad|>", "<|vision_pad|>",
]  # fmt: skip


def byte_level_tokenizer(special: list[str]) -> Tokenizer:
    """A byte-level BPE whose vocabulary holds every short word of the corpus as one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    return tokenizer


def _fast(special: list[str], **named: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=byte_level_tokenizer(special),
        additional_special_tokens=[t for t in special if t not in named.values()],
        model_input_names=["input_ids", "attention_mask"],
        **named,
    )


def _save(model: Any, processor: Any, folder: Path) -> Path:
    tokenizer = processor.tokenizer
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    # Random weights would write picture tokens, which no full pass could then read back.
    model.generation_config.suppress_tokens = [
        token for token in tokenizer.all_special_ids if token != tokenizer.eos_token_id
    ]
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _text(vocab: int, hidden: int, layers: int, **more: Any) -> dict[str, Any]:
    return {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": hidden * 2,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "initializer_range": 0.2,
        "max_position_embeddings": 8192,
        **more,
    }


def llava_next(
    folder: Path, *, hidden: int = 32, layers: int = 2, side: int = 28, tiles: int = 2
) -> Path:
    """LLaVA-NeXT over a tiny Llama; `side` is the pixel side of a tile, of patches of 14."""
    from transformers import (
        CLIPVisionConfig,
        LlamaConfig,
        LlavaNextConfig,
        LlavaNextForConditionalGeneration,
        LlavaNextImageProcessor,
        LlavaNextProcessor,
    )

    torch.manual_seed(11)
    tokenizer = _fast(
        ["<s>", "</s>", "<pad>", "<unk>", "<image>"],
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
    )
    pinpoints = [[side * h, side * w] for h in range(1, tiles + 1) for w in range(1, tiles + 1)]
    config = LlavaNextConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=hidden, intermediate_size=hidden * 2, num_hidden_layers=layers + 1,
            num_attention_heads=4, image_size=side, patch_size=14, projection_dim=hidden,
            initializer_range=0.2,
        ).to_dict(),
        text_config=LlamaConfig(**_text(len(tokenizer), hidden, layers)).to_dict(),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=pinpoints,
        vision_feature_layer=-2,
    )  # fmt: skip
    model = LlavaNextForConditionalGeneration(config).eval()
    processor = LlavaNextProcessor(
        image_processor=LlavaNextImageProcessor(
            size={"shortest_edge": side},
            crop_size={"height": side, "width": side},
            image_grid_pinpoints=pinpoints,
        ),
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
        chat_template=CHAT_TEMPLATE.replace("PLACEHOLDER", "<image>"),
    )
    return _save(model, processor, folder)


def qwen2_5_vl(folder: Path, *, hidden: int = 32, layers: int = 2) -> Path:
    """Qwen2.5-VL; its picture tokens follow the picture's size and `max_pixels`."""
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2TokenizerFast,
        Qwen2VLImageProcessorFast,
        Qwen2VLVideoProcessor,
    )

    torch.manual_seed(12)
    folder.mkdir(parents=True, exist_ok=True)
    trained = json.loads(byte_level_tokenizer([]).to_str())["model"]
    vocab = folder / "vocab.json"
    vocab.write_text(json.dumps(trained["vocab"]), encoding="utf-8")
    merges = folder / "merges.txt"
    merges.write_text("\n".join(" ".join(m) for m in trained["merges"]), encoding="utf-8")
    tokenizer = Qwen2TokenizerFast(
        vocab_file=str(vocab),
        merges_file=str(merges),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token="<|endoftext|>",
        additional_special_tokens=[AddedToken(t, special=True) for t in QWEN_SPECIAL],
    )
    ids = tokenizer.convert_tokens_to_ids
    head = hidden // 4
    config = Qwen2_5_VLConfig(
        vision_config={
            "depth": layers, "hidden_size": hidden, "intermediate_size": hidden * 2,
            "num_heads": 2, "out_hidden_size": hidden, "fullatt_block_indexes": [layers - 1],
            "window_size": 56, "patch_size": 14, "initializer_range": 0.2,
        },
        text_config=_text(
            len(tokenizer), hidden, layers,
            rope_scaling={"type": "mrope", "mrope_section": [head // 8 or 1, head // 8 or 1,
                          head // 2 - 2 * (head // 8 or 1)]},
        ),
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )  # fmt: skip
    model = Qwen2_5_VLForConditionalGeneration(config).eval()
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessorFast(),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=CHAT_TEMPLATE.replace(
            "PLACEHOLDER", "<|vision_start|><|image_pad|><|vision_end|>"
        ),
    )
    return _save(model, processor, folder)


def idefics2(
    folder: Path,
    *,
    hidden: int = 32,
    layers: int = 2,
    latents: int = 4,
    side: int = 56,
    window: int = 4096,
) -> Path:
    """Idefics2 over a tiny Mistral; `latents` picture tokens a picture."""
    from transformers import (
        Idefics2Config,
        Idefics2ForConditionalGeneration,
        Idefics2ImageProcessor,
        Idefics2Processor,
        MistralConfig,
    )

    torch.manual_seed(13)
    tokenizer = _fast(
        ["<s>", "</s>", "<pad>", "<unk>", "<image>", "<fake_token_around_image>",
         "<end_of_utterance>"],
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
    )  # fmt: skip
    tokenizer.padding_side = "left"
    config = Idefics2Config(
        vision_config={
            "hidden_size": hidden, "intermediate_size": hidden * 2, "num_hidden_layers": layers,
            "num_attention_heads": 4, "image_size": side, "patch_size": 14,
            "initializer_range": 0.2,
        },
        perceiver_config={
            "hidden_size": hidden, "resampler_n_latents": latents, "resampler_depth": 1,
            "resampler_n_heads": 2, "resampler_head_dim": hidden // 4, "num_key_value_heads": 2,
        },
        text_config=MistralConfig(
            **_text(len(tokenizer), hidden, layers, sliding_window=window)
        ).to_dict(),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    model = Idefics2ForConditionalGeneration(config).eval()
    processor = Idefics2Processor(
        image_processor=Idefics2ImageProcessor(
            size={"shortest_edge": side // 2, "longest_edge": side}, do_image_splitting=False
        ),
        tokenizer=tokenizer,
        image_seq_len=latents,
        chat_template=CHAT_TEMPLATE.replace("PLACEHOLDER", "<image>"),
    )
    return _save(model, processor, folder)


def internvl(folder: Path, *, hidden: int = 32, layers: int = 2, side: int = 28) -> Path:
    """InternVL over a tiny Qwen2; (side / 14 / 2) squared picture tokens a tile."""
    from transformers import (
        GotOcr2ImageProcessorFast,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
        Qwen2Config,
    )

    torch.manual_seed(14)
    tokenizer = _fast(
        ["<s>", "</s>", "<pad>", "<unk>", "<IMG_CONTEXT>", "<img>", "</img>", "<video>"],
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        extra_special_tokens={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
    )
    config = InternVLConfig(
        vision_config={
            "hidden_size": hidden, "intermediate_size": hidden * 2, "num_hidden_layers": layers,
            "num_attention_heads": 4, "image_size": [side, side], "patch_size": [14, 14],
            "initializer_range": 0.2,
        },
        text_config=Qwen2Config(**_text(len(tokenizer), hidden, layers)).to_dict(),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=(side // 28) ** 2,
        downsample_ratio=0.5,
    )  # fmt: skip
    model = InternVLForConditionalGeneration(config).eval()
    processor = InternVLProcessor(
        image_processor=GotOcr2ImageProcessorFast(
            size={"height": side, "width": side}, crop_to_patches=True
        ),
        tokenizer=tokenizer,
        video_processor=InternVLVideoProcessor(size={"height": side, "width": side}),
        image_seq_length=(side // 28) ** 2,
        chat_template=CHAT_TEMPLATE.replace("PLACEHOLDER", "<IMG_CONTEXT>"),
    )
    return _save(model, processor, folder)


BUILDERS: dict[str, Callable[..., Path]] = {
    "llava_hf": llava_next,
    "qwen2_5_vl": qwen2_5_vl,
    "idefics2": idefics2,
    "internvl_hf": internvl,
}
"""Harness model id to the builder of a tiny model that its backend loads."""

BACKEND_ARGS: dict[str, str] = {
    "llava_hf": "device=cpu,device_map=cpu",
    "qwen2_5_vl": f"device=cpu,device_map=cpu,min_pixels={28 * 28},max_pixels={4 * 28 * 28}",
    "idefics2": "device=cpu,device_map=cpu,dtype=float32",
    "internvl_hf": "device=cpu,device_map=cpu,max_patches=2",
}
"""What each backend needs on a CPU."""


class TinyModels:
    """Folders of tiny models, each built once a session when first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, backend: str, **shape: int) -> Path:
        name = "-".join([backend, *(f"{k}{v}" for k, v in sorted(shape.items()))])
        folder = self.root / name
        if not (folder / "config.json").exists():
            BUILDERS[backend](folder, **shape)
        return folder


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """A callable: harness model id to the folder of a tiny model."""
    torch.set_num_threads(1)
    return TinyModels(tmp_path_factory.mktemp("tiny"))


def picture(seed: int, width: int = 56, height: int = 56) -> Image.Image:
    """A picture of seeded noise in large blocks."""
    generator = torch.Generator().manual_seed(seed)
    blocks = torch.randint(0, 256, (4, 4, 3), generator=generator, dtype=torch.uint8)
    return Image.fromarray(blocks.numpy(), "RGB").resize((width, height), Image.Resampling.NEAREST)


def grey(width: int, height: int) -> Image.Image:
    """A picture of one grey."""
    return Image.new("RGB", (width, height), (128, 128, 128))


YES_NO = {"Yes": ["Yes"], "No": ["No"]}
LETTERS = {letter: [letter] for letter in "ABCD"}


class FakeTasks:
    """Tasks and their requests as the harness would hand them to a backend.

    Each task is a list of documents `{"image": PIL image or None, "prompt": str}`.
    """

    def __init__(self, tasks: dict[str, list[dict[str, Any]]], **metadata: Any) -> None:
        self.task_dict = {name: {"test": docs} for name, docs in tasks.items()}
        self.metadata = {"choices": YES_NO, "verdict_position": "first", "prompt": "zero_shot"}
        self.metadata.update(metadata)

    @staticmethod
    def fresh(request: Any) -> Any:
        """The request with arguments of its own, since backends edit them."""
        return replace(request, arguments=copy.deepcopy(request.arguments), resps=[])

    def requests(self, *, simple: bool, gen_kwargs: dict[str, Any] | None = None) -> list[Any]:
        from lmms_eval.api.instance import Instance

        gen_kwargs = gen_kwargs or {"max_new_tokens": 4, "temperature": 0, "do_sample": False}
        out = []
        for task, splits in self.task_dict.items():
            for doc_id, doc in enumerate(splits["test"]):
                kwargs = dict(gen_kwargs)
                if simple:
                    args = (doc["prompt"], kwargs, visuals_of, doc_id, task, "test")
                else:
                    args = ("", messages_of, kwargs, doc_id, task, "test")
                metadata = {
                    **self.metadata, "task": task, "doc_id": doc_id, "repeats": 1, "split": "test"
                }  # fmt: skip
                out.append(
                    Instance(
                        request_type="generate_until", arguments=args, idx=0, metadata=metadata
                    )
                )
        return out


def visuals_of(doc: dict[str, Any]) -> list[Image.Image]:
    return [] if doc["image"] is None else [doc["image"]]


def messages_of(doc: dict[str, Any]) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if doc["image"] is not None:
        content.append({"type": "image", "url": doc["image"]})
    content.append({"type": "text", "text": doc["prompt"]})
    return [{"role": "user", "content": content}]


def prompts(n: int) -> list[str]:
    words = ["red", "bus", "dog", "house", "sky", "coffee", "phone", "brick", "grey", "day"]
    return [
        f"Is the caption sarcastic about this picture? {words[i % 10]} {words[(5 * i + 3) % 10]}"
        f" {words[(i * i) % 10]} {i}. Answer Yes or No."
        for i in range(n)
    ]


def captions_of(pictures: list[Image.Image | None], per_picture: int) -> list[dict[str, Any]]:
    """`per_picture` documents a picture, picture by picture."""
    texts = iter(prompts(len(pictures) * per_picture))
    return [{"image": p, "prompt": next(texts)} for p in pictures for _ in range(per_picture)]
