"""FLOPs and wall time of stock backends and of `verdict`, nine captions a picture.

Random weights of the four architectures, wide enough for matrix products to be the work, prompts of
about 2,000 picture tokens and the wording of PragMatch, 4 new tokens, on a CPU in float32. FLOPs
are counted with PyTorch's own counter, to which the CPU's attention kernel is added, since it
counts that one as nothing. Both sides run through the harness's backend.

Nine captions share nine tenths of a prompt at most, so the ceiling is 9. Idefics2 as it is shipped
spends 64 tokens on a picture; that row is shown beside the one that meets the others' length.

Run: `python -m tests.benchmarks.prefix [backend ...]`.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from loguru import logger
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from lmms_eval_tasks.pragmatch.prompts import question
from postprocess.records import read_response
from tests.model_wrappers import reference
from tests.model_wrappers.tiny import BUILDERS, FakeTasks, picture

CAPTIONS = [
    "what a lovely day, stuck in traffic again",
    "great, no phone and no coffee",
    "a red bus stands beside a brick house",
    "a dog waits under a grey sky",
    "what a lovely grey sky, great",
    "no traffic and a red bus, lovely",
    "a red house and a dog beside a bus",
    "stuck with a dog in a brick house",
    "again no bus, what a great day",
]
GOAL = 7.5
WIDTH = {"hidden": 128, "layers": 4}
SETTINGS: dict[str, tuple[str, dict[str, int], tuple[int, int], dict[str, int]]] = {
    # Five tiles of 24 x 24 patches, the strips beside the picture left out.
    "LLaVA-NeXT": ("llava_hf", {"side": 336}, (672, 448), {}),
    "Qwen2.5-VL": ("qwen2_5_vl", {}, (1260, 1260), {"max_pixels": 2100 * 28 * 28}),
    "Idefics2": ("idefics2", {"side": 490, "latents": 2000}, (490, 364), {}),
    # Seven tiles of 448 and a thumbnail, 256 tokens each.
    "InternVL": ("internvl_hf", {"side": 448}, (1750, 250), {"max_patches": 7}),
    "Idefics2, 64 tokens": ("idefics2", {"side": 490, "latents": 64}, (490, 364), {}),
}


def cpu_attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """FLOPs of the CPU's attention kernel, from the shapes of its tensors."""
    return sdpa_flop_count(query, key, value)


MAPPING = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: cpu_attention}


def measured(run: Callable[[], Any]) -> tuple[Any, float, int]:
    """What a run returns, its seconds, and the FLOPs of a second one like it."""
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    with FlopCounterMode(display=False, custom_mapping=MAPPING) as counter:
        run()
    return result, seconds, counter.get_total_flops()


def compared(name: str, root: Path) -> dict[str, Any]:
    """Both sides of one architecture."""
    backend, shape, size, args = SETTINGS[name]
    folder = BUILDERS[backend](root / name.replace(",", "").replace(" ", "_"), **WIDTH, **shape)
    image = picture(1, *size)
    docs = [
        {"image": image, "prompt": question(caption, "zero_shot", "image_text")}
        for caption in CAPTIONS
    ]
    tasks = FakeTasks({"pragmatch": docs})
    row: dict[str, Any] = {"name": name}
    for side, build in (("stock", reference.stock), ("verdict", reference.wrapped)):
        lm = build(backend, folder, **args)
        lm.task_dict = tasks.task_dict
        # The counter follows modules by their gradients, and trips over Idefics2's.
        lm.model.requires_grad_(False)
        if side == "stock":
            (first, *_) = tasks.requests(simple=lm.is_simple)
            ids = reference.stock_pass(lm, first).inputs["input_ids"][0].tolist()
            config = lm.model.config
            token = getattr(config, "image_token_id", None) or config.image_token_index
            row["picture_tokens"], row["prompt_tokens"] = ids.count(token), len(ids)
        results, row[f"{side}_s"], row[f"{side}_flops"] = measured(
            lambda lm=lm: lm.generate_until(tasks.requests(simple=lm.is_simple))
        )
        row[side] = [read_response(getattr(r, "text", r)).text for r in results]
        if side == "verdict":
            row["prefills"] = lm.run_notes()["picture_prefills"] // 2
    return row


def main(names: list[str]) -> None:
    """Print one row an architecture."""
    logger.remove()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    print(
        f"{'':<21}{'picture':>8}{'prompt':>7}{'GFLOPs':>20}{'':>7}{'seconds':>18}{'':>7}"
        f"{'prefills':>9}  same words\n"
        f"{'':<21}{'tokens':>8}{'tokens':>7}{'stock':>12}{'verdict':>8}{'ratio':>7}"
        f"{'stock':>10}{'verdict':>8}{'ratio':>7}"
    )
    missed = []
    with tempfile.TemporaryDirectory() as root:
        for name in names or SETTINGS:
            row = compared(name, Path(root))
            ratio = row["stock_flops"] / row["verdict_flops"]
            print(
                f"{name:<21}{row['picture_tokens']:>8}{row['prompt_tokens']:>7}"
                f"{row['stock_flops'] / 1e9:>12.1f}{row['verdict_flops'] / 1e9:>8.1f}"
                f"{ratio:>7.2f}{row['stock_s']:>10.1f}{row['verdict_s']:>8.1f}"
                f"{row['stock_s'] / row['verdict_s']:>7.2f}{row['prefills']:>9}"
                f"  {row['stock'] == row['verdict']}",
                flush=True,
            )
            if ratio < GOAL:
                missed.append(f"{name} ({ratio:.2f})")
    print(
        f"goal of {GOAL} times fewer FLOPs: "
        + (f"missed by {', '.join(missed)}" if missed else "met")
    )


if __name__ == "__main__":
    main(sys.argv[1:])
