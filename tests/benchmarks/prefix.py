"""FLOPs and time of stock backends and of `verdict`, nine captions a picture.

Random weights of the four architectures, wide enough for matrix products to be the work, prompts of
about 2,000 picture tokens and the wording of PragMatch, 4 new tokens, on a CPU in float32. FLOPs
are counted with PyTorch's own counter, to which the CPU's attention kernel is added, since it
counts that one as nothing. Both sides run through the harness's backend.

Nine captions of one picture can share one prefill at most, so the ceiling is 9. Idefics2 as it is
shipped spends 64 tokens on a picture; that row stands beside the one that meets the others' length,
and small width flatters it, since its vision tower is then as wide as its language model.

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
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from loguru import logger
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from lmms_eval_tasks.pragmatch.prompts import question
from postprocess.response.line import read_response
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


class Measured(NamedTuple):
    """One run, and the FLOPs of a second one like it."""

    result: Any
    seconds: float
    """By the clock."""
    cpu_s: float
    """Of this process alone, which other work on the machine does not lengthen."""
    flops: int


def measured(run: Callable[[], Any]) -> Measured:
    """Run twice: once timed, once counted."""
    start, cpu = time.perf_counter(), time.process_time()
    result = run()
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu
    with FlopCounterMode(display=False, custom_mapping=MAPPING) as counter:
        run()
    return Measured(result, seconds, cpu_s, counter.get_total_flops())


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
        row[side] = measured(lambda lm=lm: lm.generate_until(tasks.requests(simple=lm.is_simple)))
        if side == "verdict":
            row["prefills"] = lm.run_notes()["picture_prefills"] // 2
    return row


def words(run: Measured) -> list[str]:
    """The answers' words."""
    return [read_response(getattr(answer, "text", answer)).text for answer in run.result]


def main(names: list[str]) -> None:
    """Print one row an architecture."""
    logger.remove()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    print(f"{'':<21}{'tokens':>14}{'GFLOPs':>20}{'':>7}{'CPU seconds':>18}{'':>7}{'seconds':>18}")
    sides = f"{'stock':>12}{'verdict':>8}{'ratio':>7}"
    print(f"{'':<21}{'picture':>8}{'all':>6}{sides}{sides}{sides}  prefills  same words")
    missed = []
    with tempfile.TemporaryDirectory() as root:
        for name in names or SETTINGS:
            row = compared(name, Path(root))
            stock, verdict = row["stock"], row["verdict"]
            pairs = [
                (stock.flops / 1e9, verdict.flops / 1e9),
                (stock.cpu_s, verdict.cpu_s),
                (stock.seconds, verdict.seconds),
            ]
            numbers = "".join(f"{a:>12.1f}{b:>8.1f}{a / b:>7.2f}" for a, b in pairs)
            same = words(stock) == words(verdict)
            print(
                f"{name:<21}{row['picture_tokens']:>8}{row['prompt_tokens']:>6}{numbers}"
                f"{row['prefills']:>10}  {same}",
                flush=True,
            )
            if stock.flops / verdict.flops < GOAL:
                missed.append(f"{name} ({stock.flops / verdict.flops:.2f})")
    print(
        f"goal of {GOAL} times fewer FLOPs: "
        + (f"missed by {', '.join(missed)}" if missed else "met")
    )


if __name__ == "__main__":
    main(sys.argv[1:])
