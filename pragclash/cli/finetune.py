"""A LoRA adapter that answers contradictions, from a CLASH dataset folder.

Every row is drawn once an epoch, with its conflicting or its original caption by a fair coin. On a
conflicting caption the reply that the instruction asks for on a conflict is learnt, on the original
the picture's answer; prompts are those of `clash_open`, with --forms those of `clash_mc` too. Rows
whose picture is in the test set are dropped and counted. A run that was stopped goes on with
`--resume` and ends with the weights that it would have had. On several GPUs: `accelerate launch
--num_processes N -m pragclash.cli.main finetune ...`.

The paper gives one epoch, equal probability, bfloat16 with gradient checkpointing on one A100. What
it does not give is ours: the help of each option says why.

OUT holds adapter_config.json and adapter_model.safetensors (peft's own format), README.md (the
model card), log.jsonl (a line a step: step, steps, draws, epoch, loss, learning_rate, grad_norm,
seconds; `pandas.read_json(path, lines=True).plot("step", "loss")` plots it), training.json
(settings, counts, versions), checkpoints/, and with --merge merged/, the whole model.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lmms_eval_tasks.clash.finetune.run import explain, finetune, summary_of
from lmms_eval_tasks.profiles import AUTO, CHOICES
from pragclash.cli.arguments import positive, whole


def _between(low: float, with_low: bool) -> Callable[[str], float]:
    """The type of numbers from `low` to below 1."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not (low < value < 1 or (with_low and value == low)):
            raise argparse.ArgumentTypeError(f"{text!r} is no number between {low:g} and 1")
        return value

    return number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add = parser.add_argument
    add("--model", required=True, metavar="PATH_OR_ID", help="model to adapt (transformers)")
    add("--data", type=Path, required=True, metavar="DIR", help="CLASH dataset folder to train on")
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the run")
    add(
        "--test-data",
        type=Path,
        metavar="DIR",
        help="the test set's dataset folder: rows with one of its pictures (same id, or same file) "
        "are dropped (default: the ids that the manifest of --data lists)",
    )
    add(
        "--profile",
        choices=CHOICES,
        default=AUTO,
        help="a100: bfloat16; t4: float16 with 4-bit weights; cpu: float32 (auto: without a GPU "
        "cpu, on one of less than 24 GB or without bfloat16 t4, else a100)",
    )
    add(
        "--forms",
        choices=("open", "mc", "both"),
        default="open",
        help="questions to train on: open (default, the paper's), multiple choice, or both",
    )
    add(
        "--max-length",
        type=whole(0, 1_000_000),
        default=1024,
        metavar="TOKENS",
        help="rows with more tokens of text are dropped and counted (default 1024; 0: no limit)",
    )
    add(
        "--load-4bit",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="hold the frozen weights in 4 bits (NF4), whatever the profile says",
    )
    add(
        "--rank",
        type=positive,
        default=16,
        help="LoRA rank (default 16: one new kind of reply needs little room, and QLoRA, "
        "arXiv 2305.14314, found that rank matters little where all linear layers are adapted)",
    )
    add(
        "--alpha",
        type=positive,
        help="LoRA scale (default twice the rank, which keeps the learning rate's meaning when the "
        "rank is changed)",
    )
    add(
        "--dropout",
        type=_between(0, True),
        default=0.05,
        help="LoRA dropout (default 0.05: a little, as one reply is the target of half the draws)",
    )
    add(
        "--target-modules",
        metavar="REGEX",
        help="modules to adapt (default: all linear layers of the language model; the vision tower "
        "stays as it is, because the fault to repair is what is done with its features)",
    )
    add(
        "--train-projector",
        action="store_true",
        help="train the projector too, in full; only for models whose projector is not trained yet",
    )
    add(
        "--learning-rate",
        type=_between(0, False),
        default=2e-4,
        help="peak (default 2e-4, QLoRA's for 7B models), after the warm-up falling along a cosine "
        "to 0",
    )
    add(
        "--warmup",
        type=_between(0, True),
        default=0.03,
        help="share of the steps (default 0.03: Adam's moments settle in a few dozen steps)",
    )
    add(
        "--batch-size",
        type=positive,
        default=4,
        help="draws at once (default 4; where memory ends, halve it and double --accumulate, and "
        "steps stay as large)",
    )
    add(
        "--accumulate",
        type=positive,
        default=4,
        help="batches a step (default 4: steps of 16 draws, so some 1,100 steps for 18,000 rows)",
    )
    add("--epochs", type=positive, default=1, help="passes over the rows (default 1, the paper's)")
    add(
        "--seed",
        type=whole(0, 2**32 - 1),
        default=0,
        help="of order, captions, weights, dropout (default 0)",
    )
    add(
        "--save-every",
        type=positive,
        default=100,
        metavar="STEPS",
        help="steps between checkpoints (default 100); the last two are kept",
    )
    add(
        "--gradient-checkpointing",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="compute activations again in the backward pass: less memory, some 30%% more time, "
        "the same result (default: yes, as in the paper)",
    )
    add(
        "--workers",
        type=whole(0, 1000),
        default=0,
        help="processes that prepare batches (default 0)",
    )
    add("--merge", action="store_true", help="also write base and adapter as one model, OUT/merged")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with the run in OUT")
    again.add_argument("--force", action="store_true", help="remove the run in OUT and start anew")
    add("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace, **hooks: Any) -> int:
    """Fine-tune and print what came of it; the exit status.

    Args:
        args: The command's arguments.
        **hooks: Handed on to `finetune`.
    """
    try:
        record = finetune(args, **hooks)
    except ImportError as error:
        print(
            f"pragclash finetune: {error}; pip install 'pragclash[quant]'",
            file=sys.stderr,
        )
        return 1
    except Exception as error:
        line = explain(error, args)
        if line is None:
            raise
        print(f"pragclash finetune: {line}", file=sys.stderr)
        return 1
    if os.environ.get("RANK", "0") != "0":
        return 0
    summary = summary_of(record, args.out)
    if args.json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    else:
        _print_summary(summary)
    return 0


def _print_summary(summary: Mapping[str, Any]) -> None:
    loss = " to ".join(
        "n/a" if summary[name] is None else f"{summary[name]:.4f}"
        for name in ("first_loss", "last_loss")
    )
    print(
        f"{summary['out']}: {summary['rows']} rows on {summary['pictures']} pictures, "
        f"{summary['draws_conflicting']} draws with the conflicting caption, "
        f"{summary['draws_original']} with the original, {summary['steps']} steps, loss {loss}"
    )
    print(
        f"dropped: {summary['dropped_in_test_set']} rows with a picture of the test set, "
        f"{summary['dropped_without_picture']} without a usable picture, "
        f"{summary['dropped_unusable_text']} with control tokens in their text, "
        f"{summary['dropped_too_long']} too long"
    )
    print(
        f"taught on conflicts: {summary['conflict_target']!r} ({summary['conflict_target_from']} "
        f"wording); peak memory of the {summary['memory_of']}: {summary['peak_memory_gb']} GB"
    )
    print(
        "evaluate: lmms_eval --model verdict --model_args "
        f"backend=<harness model>,pretrained={summary['model']},peft={summary['out']} "
        "--tasks clash_open,clash_open_original"
    )
