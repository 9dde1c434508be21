"""`pragclash finetune`: a LoRA adapter that answers contradictions, from a CLASH dataset folder.

Every row is drawn once an epoch, with its conflicting or its original caption by a fair coin. On a
conflicting caption the reply "Conflicting information." is learnt, on the original the picture's
answer; prompts are those of `clash_open`. Rows whose picture is in the test set are dropped and
counted. A run that was stopped goes on with `--resume` and ends with the weights that it would
have had.

The paper gives one epoch, equal probability, bfloat16 with gradient checkpointing on one A100. What
it does not give is ours: the help of each option says why.

OUT holds adapter_config.json and adapter_model.safetensors (peft's own format), README.md (the
model card), log.jsonl (a line a step: step, steps, draws, epoch, loss, learning_rate, grad_norm,
seconds; `pandas.read_json(path, lines=True).plot("step", "loss")` plots it), training.json
(settings, counts, versions), checkpoints/, and with --merge merged/, the whole model.
"""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_tasks.clash.data import official_prompts
from lmms_eval_tasks.clash.finetune.card import card
from lmms_eval_tasks.clash.finetune.data import (
    CONFLICT_TARGET,
    Collator,
    Examples,
    HeldOut,
    Kept,
    draws,
    held_out_pictures,
    keep,
)
from lmms_eval_tasks.clash.prompts import Instruction, instruction
from lmms_eval_tasks.dataset.folder import Folder, FolderError, load_folder

if TYPE_CHECKING:
    from lmms_eval_tasks.clash.finetune.train import Settings

RECORD = "training.json"
"""Written when a run begins, and again when it is finished."""

FORMAT = {"format": "pragclash-finetune", "version": 1}

WRITTEN = (
    *("README.md", "adapter_config.json", "adapter_model.safetensors", "log.jsonl", RECORD),
    *("checkpoints", "merged", ".adapter", ".merged"),
)
"""All that a run writes, which is all that --force removes."""

PACKAGES = ("pragclash", "torch", "transformers", "peft", "accelerate")


class FinetuneError(ValueError):
    """The run cannot start or go on; the message says what to do."""


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
        choices=("auto", "a100", "t4", "cpu"),
        default="auto",
        help="a100: bfloat16; t4: float16 with 4-bit weights; cpu: float32 (auto: by the hardware)",
    )
    add(
        "--load-4bit",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="hold the frozen weights in 4 bits (NF4), whatever the profile says",
    )
    add(
        "--rank",
        type=_positive,
        default=16,
        help="LoRA rank (default 16: one new kind of reply needs little room, and QLoRA, "
        "arXiv 2305.14314, found that rank matters little where all linear layers are adapted)",
    )
    add(
        "--alpha",
        type=_positive,
        help="LoRA scale (default twice the rank, which keeps the learning rate's meaning when the "
        "rank is changed)",
    )
    add(
        "--dropout",
        type=_share,
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
        type=_rate,
        default=2e-4,
        help="peak (default 2e-4, QLoRA's for 7B models), after the warm-up falling along a cosine "
        "to 0",
    )
    add(
        "--warmup",
        type=_share,
        default=0.03,
        help="share of the steps (default 0.03: Adam's moments settle in a few dozen steps)",
    )
    add(
        "--batch-size",
        type=_positive,
        default=4,
        help="draws at once (default 4; where memory ends, halve it and double --accumulate, and "
        "steps stay as large)",
    )
    add(
        "--accumulate",
        type=_positive,
        default=4,
        help="batches a step (default 4: steps of 16 draws, so some 1,100 steps for 18,000 rows)",
    )
    add("--epochs", type=_positive, default=1, help="passes over the rows (default 1, the paper's)")
    add("--seed", type=_seed, default=0, help="of order, captions, weights, dropout (default 0)")
    add(
        "--save-every",
        type=_positive,
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
    add("--workers", type=_count, default=0, help="processes that prepare batches (default 0)")
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
    summary = summary_of(record, args.out)
    if args.json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    else:
        _print_summary(summary)
    return 0


def finetune(args: argparse.Namespace, callbacks: Sequence[Any] = ()) -> dict[str, Any]:
    """The run that the arguments describe, from the start or from its last checkpoint.

    Args:
        args: The command's arguments.
        callbacks: Further callbacks of the Trainer.

    Returns:
        What `training.json` holds.

    Raises:
        FinetuneError: Arguments, data and the folder do not go together, or there are several
            processes.
        FolderError: A dataset folder cannot be used.
        TrainingError: The training cannot start or go on.
    """
    out: Path = args.out
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise FinetuneError("runs in one process on one GPU: start it without a launcher")
    stored = check_out(out, resume=args.resume, force=args.force)
    folder, tested, head = read_data(args.data, args.test_data)
    _quiet_libraries()
    from transformers import AutoProcessor

    from lmms_eval_tasks.clash.finetune import train as training

    settings = settings_of(args)
    processor = AutoProcessor.from_pretrained(args.model)
    _check_processor(processor, args.model)
    kept = keep(folder, tested, head.text, tuple(processor.tokenizer.all_special_tokens))
    order = draws([row["sample_id"] for row in kept.rows], settings.seed, settings.epochs)
    record = {
        **FORMAT,
        "status": "started",
        "model": args.model,
        "settings": settings.as_dict(),
        "data": describe(folder, tested, head, kept, [draw.kind for draw in order]),
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }
    if stored is not None:
        _check_same(stored, record, out)
        if stored["status"] == "finished":
            if args.merge and not (out / "merged").is_dir():
                training.merge(args.model, out, settings, processor)
            return stored
    if tested.source is None:
        print(
            "pragclash finetune: nothing says which pictures are in the test set; give it with "
            "--test-data, or results on it may be results on training pictures",
            file=sys.stderr,
        )
    base = training.load_base(args.model, settings)
    model = training.add_adapter(base, settings)
    _check_space(out, training.bytes_needed(model))
    if args.force:
        _remove_run(out)
    out.mkdir(parents=True, exist_ok=True)
    _write_json(out / RECORD, record)
    result = training.train(
        model,
        Examples(kept.rows, folder.path, head.text, order),
        Collator(processor),
        settings,
        out,
        rows=len(kept.rows),
        save_every=args.save_every,
        resume=args.resume,
        workers=args.workers,
        checkpointing=args.gradient_checkpointing,
        quiet=args.json,
        callbacks=callbacks,
    )
    record |= {"status": "finished", "result": result}
    del model, base
    if args.merge:
        fresh = AutoProcessor.from_pretrained(args.model)
        training.merge(args.model, out, settings, fresh)
    (out / "README.md").write_text(card(record), encoding="utf-8")
    _write_json(out / RECORD, record)
    return record


def read_data(data: Path, test_data: Path | None) -> tuple[Folder, HeldOut, Instruction]:
    """The folder to train on, the pictures not to train on, and the instruction.

    Raises:
        FinetuneError: It is the test set, no row is left, or the two folders ask differently.
        FolderError: A folder cannot be used.
    """
    folder = load_folder(data, "clash")
    test = load_folder(test_data, "clash") if test_data is not None else None
    if folder.kind == "full" or folder.manifest.get("split") == "test":
        raise FinetuneError(f"{data}: is the test set, which must not be trained on")
    head = _open_instruction(folder)
    if test is not None and (asked := _open_instruction(test)).sha256 != head.sha256:
        raise FinetuneError(
            f"{data} asks with the {head.prompt} prompt and {test_data} with the {asked.prompt} "
            "one; build both with or both without --own-prompts"
        )
    tested = held_out_pictures(folder, test)
    kept = keep(folder, tested, head.text)
    if not kept.rows:
        raise FinetuneError(
            f"{data}: no row is left to train on: {kept.in_test_set} have a picture of the test "
            f"set, {kept.without_picture} have no usable picture"
        )
    return folder, tested, head


def describe(
    folder: Folder, tested: HeldOut, head: Instruction, kept: Kept, kinds: Sequence[str]
) -> dict[str, Any]:
    """What was trained on, as JSON values; no paths, because the model card is made of it."""
    return {
        "kind": folder.kind,
        "fingerprint": folder.fingerprint,
        "rows": len(kept.rows),
        "pictures": len({row["image_id"] for row in kept.rows}),
        "dropped_in_test_set": kept.in_test_set,
        "dropped_without_picture": kept.without_picture,
        "dropped_unusable_text": kept.unusable_text,
        "missing_pictures": len(folder.omitted),
        "test_pictures_from": tested.source,
        "draws_conflicting": kinds.count("conflicting"),
        "draws_original": kinds.count("original"),
        "conflict_target": CONFLICT_TARGET,
        "prompt": head.prompt,
        "prompt_hash": head.sha256,
    }


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings that the arguments mean on this machine.

    Raises:
        FinetuneError: They do not go together.
    """
    import torch

    from lmms_eval_tasks.clash.finetune.train import PROFILES, Settings

    profile = args.profile
    if profile == "auto":
        cuda = torch.cuda.is_available()
        profile = "cpu" if not cuda else "a100" if torch.cuda.is_bf16_supported(False) else "t4"
    four_bit = PROFILES[profile]["four_bit"] if args.load_4bit is None else args.load_4bit
    if four_bit and args.train_projector:
        raise FinetuneError("--train-projector needs whole weights: add --no-load-4bit")
    return Settings(
        profile=profile,
        four_bit=four_bit,
        rank=args.rank,
        alpha=args.alpha or 2 * args.rank,
        dropout=args.dropout,
        target_modules=args.target_modules,
        train_projector=args.train_projector,
        learning_rate=args.learning_rate,
        warmup=args.warmup,
        batch_size=args.batch_size,
        accumulate=args.accumulate,
        epochs=args.epochs,
        seed=args.seed,
    )


def check_out(out: Path, *, resume: bool, force: bool) -> dict[str, Any] | None:
    """Whether the run may write there.

    Returns:
        What the folder's run wrote down, if it is to go on; else None.

    Raises:
        FinetuneError: It would overwrite something, or there is nothing to go on with.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    try:
        stored = json.loads((out / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = None
    if not isinstance(stored, dict) or stored.get("format") != FORMAT["format"]:
        raise FinetuneError(f"{out} holds something that is no run of this command: choose another")
    if stored.get("version") != FORMAT["version"]:
        raise FinetuneError(f"{out}: the run there was written by another version: choose another")
    if not resume and not force:
        raise FinetuneError(
            f"{out} holds a run ({stored.get('status')}): --resume goes on with it, --force starts "
            "anew"
        )
    return stored if resume else None


def explain(error: BaseException, args: argparse.Namespace) -> str | None:
    """One line for what a user can do something about; None for anything else."""
    text = " ".join(str(error).split())[:500]
    if any(_no_space(each) for each in _chain(error)):
        return (
            f"no disk space left under {args.out}: what is finished stays; free some and run the "
            "same command with --resume"
        )
    if isinstance(error, MemoryError) or "out of memory" in text.lower():
        draws_a_step = args.batch_size * args.accumulate
        if args.batch_size > 1:
            halved = max(1, args.batch_size // 2)
            advice = f"--batch-size {halved} --accumulate {-(-draws_a_step // halved)}"
        else:
            advice = "--load-4bit"
        return f"out of memory: set {advice} (steps stay as large) and start anew with --force"
    return text if isinstance(error, OSError | ValueError) else None


def _chain(error: BaseException | None) -> list[BaseException]:
    """An error and those that it came from."""
    out: list[BaseException] = []
    while error is not None and error not in out:
        out.append(error)
        error = error.__cause__ or error.__context__
    return out


def _no_space(error: BaseException) -> bool:
    """Whether an error means a full disk; torch and safetensors hide the system's code."""
    code = getattr(error, "errno", None)
    signs = (
        "No space left",
        "Disk quota exceeded",
        "PytorchStreamWriter failed",
        "inline_container",
    )
    return code in (errno.ENOSPC, errno.EDQUOT) or any(sign in str(error) for sign in signs)


def summary_of(record: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """What `--json` prints: folder, counts and losses in one flat object."""
    merged = str(out / "merged") if (out / "merged").is_dir() else None
    own = {"out": str(out), "adapter": str(out), "merged": merged, "log": str(out / "log.jsonl")}
    return {**own, "model": record["model"], **record["data"], **record["result"]}


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
        f"{summary['dropped_unusable_text']} with control tokens in their text"
    )
    print(
        "evaluate: lmms_eval --model verdict --model_args "
        f"backend=<harness model>,pretrained={summary['model']},peft={summary['out']} "
        "--tasks clash_open,clash_open_original"
    )


def _open_instruction(folder: Folder) -> Instruction:
    try:
        return instruction("open_ended", official_prompts(folder.manifest))
    except ValueError as error:
        raise FinetuneError(f"{folder.path}: manifest.json: {error}") from error


def _check_processor(processor: Any, model: str) -> None:
    if getattr(processor, "tokenizer", None) is None or not hasattr(processor, "image_processor"):
        raise FinetuneError(f"{model}: has no processor for pictures and text")
    if not (getattr(processor, "chat_template", None) or processor.tokenizer.chat_template):
        raise FinetuneError(f"{model}: has no chat template, so its prompts cannot be made")
    if processor.tokenizer.eos_token_id is None:
        raise FinetuneError(f"{model}: its tokenizer has no end token to learn")


def _check_same(stored: Mapping[str, Any], record: Mapping[str, Any], out: Path) -> None:
    for part in ("settings", "data"):
        then, now = stored.get(part) or {}, record[part]
        for name in now:
            if then.get(name) != now[name]:
                raise FinetuneError(
                    f"{out}: its run has {name} = {then.get(name)}, this one {now[name]}: give "
                    "what it was begun with, or another folder"
                )
    if stored.get("model") != record["model"]:
        raise FinetuneError(f"{out}: its run adapts {stored.get('model')}, not {record['model']}")


def _check_space(out: Path, needed: int) -> None:
    place = out.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        raise FinetuneError(
            f"{out}: checkpoints need {needed / 1e9:.1f} GB there and {free / 1e9:.1f} GB are free"
        )


def _remove_run(out: Path) -> None:
    for name in WRITTEN:
        path = out / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _write_json(path: Path, value: Any) -> None:
    partial = path.with_name(f".{path.name}")
    partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)


def _quiet_libraries() -> None:
    """Keep hints that concern no user of this command out of its output."""
    for name in ("transformers", "bitsandbytes"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _number(kind: Callable[[str], Any], fits: Callable[[Any], bool], what: str) -> Callable:
    def parse(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not fits(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return parse


_positive = _number(int, lambda x: x >= 1, "a whole number from 1")
_count = _number(int, lambda x: x >= 0, "a whole number from 0")
_seed = _number(int, lambda x: 0 <= x < 2**32, "a whole number from 0 to 2**32 - 1")
_share = _number(float, lambda x: 0 <= x < 1, "a share from 0 to below 1")
_rate = _number(float, lambda x: 0 < x < 1, "a rate between 0 and 1")

__all__ = [
    "FinetuneError",
    "FolderError",
    "add_arguments",
    "finetune",
    "run",
]
