"""One run of fine-tuning: what it reads, where it writes, and how it goes on after a stop.

A run never trains on a picture of the test set, never overwrites what it did not write, and goes on
only with the model, data and settings that it was begun with.
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import json
import logging
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_tasks.clash.data import official_prompts
from lmms_eval_tasks.clash.finetune.card import card
from lmms_eval_tasks.clash.finetune.data import (
    Asked,
    Collator,
    Examples,
    HeldOut,
    Kept,
    asked_of,
    draws,
    held_out_pictures,
    keep,
)
from lmms_eval_tasks.dataset.folder import Folder, load_folder
from lmms_eval_tasks.profiles import profile_of

if TYPE_CHECKING:
    from lmms_eval_tasks.clash.finetune.model import Settings

RECORD = "training.json"
"""Written when a run begins, and again when it is finished."""

FORMAT = {"format": "pragclash-finetune", "version": 1}

WRITTEN = (
    *("README.md", "adapter_config.json", "adapter_model.safetensors", "log.jsonl", RECORD),
    *("checkpoints", "merged", ".adapter", ".merged"),
)
"""All that a run writes, which is all that --force removes."""

FORMS = {"open": ("open",), "mc": ("mc",), "both": ("open", "mc")}
"""Which questions are trained on."""

PACKAGES = ("pragclash", "torch", "transformers", "peft", "accelerate")


def finetune(args: argparse.Namespace, callbacks: Sequence[Any] = ()) -> dict[str, Any]:
    """The run that the arguments describe, from the start or from its last checkpoint.

    Args:
        args: The command's arguments.
        callbacks: Further callbacks of the Trainer.

    Returns:
        What `training.json` holds.

    Raises:
        ValueError: Arguments, data and the folder do not go together.
        FolderError: A dataset folder cannot be used.
        ValueError: The training cannot start or go on.
    """
    out: Path = args.out
    stored = check_out(out, resume=args.resume, force=args.force)
    folder, tested, asked = read_data(args.data, args.test_data)
    _quiet_libraries()
    from transformers import AutoProcessor

    from lmms_eval_tasks.clash.finetune import model as models
    from lmms_eval_tasks.clash.finetune import train as training

    settings = settings_of(args)
    processor = AutoProcessor.from_pretrained(args.model)
    _check_processor(processor, args.model)
    tokenizer = processor.tokenizer
    forms = FORMS[args.forms]
    kept = keep(
        folder,
        tested,
        asked,
        forms,
        tuple(tokenizer.all_special_tokens),
        args.max_length,
        lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"]),
    )
    if not kept.rows:
        raise ValueError(f"{args.data}: no row is left to train on: {kept.lost()}")
    ids = [row["sample_id"] for row in kept.rows]
    order = draws(ids, settings.seed, settings.epochs, forms)
    record = {
        **FORMAT,
        "status": "started",
        "model": args.model,
        "settings": dataclasses.asdict(settings),
        "data": describe(folder, tested, asked, kept, [draw.kind for draw in order]),
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }
    main = training.is_main()
    if stored is not None:
        _check_same(stored, record, out)
        if stored["status"] == "finished":
            if args.merge and main and not (out / "merged").is_dir():
                models.merge(args.model, out, settings, processor)
            return stored
    if tested.source is None and main:
        print(
            "pragclash finetune: nothing says which pictures are in the test set; give it with "
            "--test-data, or results on it may be results on training pictures",
            file=sys.stderr,
        )
    base = models.load_base(args.model, settings)
    model = models.add_adapter(base, settings)
    _check_space(out, models.bytes_needed(model))
    training.wait()
    if main:
        if args.force:
            _remove_run(out)
        out.mkdir(parents=True, exist_ok=True)
        _write_json(out / RECORD, record)
    training.wait()
    result = training.train(
        model,
        Examples(kept.rows, folder.path, asked, order),
        Collator(processor),
        settings,
        out,
        rows=len(kept.rows) * len(forms),
        save_every=args.save_every,
        resume=args.resume,
        workers=args.workers,
        checkpointing=args.gradient_checkpointing,
        quiet=args.json or not main,
        callbacks=callbacks,
    )
    record |= {"status": "finished", "result": result}
    del model, base
    if not main:
        return record
    if args.merge:
        fresh = AutoProcessor.from_pretrained(args.model)
        models.merge(args.model, out, settings, fresh)
    (out / "README.md").write_text(card(record), encoding="utf-8")
    _write_json(out / RECORD, record)
    return record


def read_data(data: Path, test_data: Path | None) -> tuple[Folder, HeldOut, Asked]:
    """The folder to train on, the pictures not to train on, and what is asked and taught.

    Raises:
        ValueError: It is the test set, or the two folders ask differently.
        FolderError: A folder cannot be used.
    """
    folder = load_folder(data, "clash")
    test = load_folder(test_data, "clash") if test_data is not None else None
    if folder.kind == "full" or folder.manifest.get("split") == "test":
        raise ValueError(f"{data}: is the test set, which must not be trained on")
    asked = _asked(folder)
    if test is not None and (other := _asked(test)) != asked:
        raise ValueError(
            f"{data} asks with the {asked.open.prompt} prompt and {test_data} with the "
            f"{other.open.prompt} one; build both with or both without --own-prompts"
        )
    return folder, held_out_pictures(folder, test), asked


def describe(
    folder: Folder, tested: HeldOut, asked: Asked, kept: Kept, kinds: Sequence[str]
) -> dict[str, Any]:
    """What was trained on, as JSON values; no paths, because the model card is made of it."""
    return {
        "kind": folder.kind,
        "split": folder.manifest.get("split"),
        "fingerprint": folder.fingerprint,
        "rows": len(kept.rows),
        "pictures": len({row["image_id"] for row in kept.rows}),
        "dropped_in_test_set": kept.in_test_set,
        "dropped_without_picture": kept.without_picture,
        "dropped_unusable_text": kept.unusable_text,
        "dropped_too_long": kept.too_long,
        "missing_pictures": len(folder.omitted),
        "test_pictures_from": tested.source,
        "draws_conflicting": kinds.count("conflicting"),
        "draws_original": kinds.count("original"),
        "conflict_target": asked.target,
        "conflict_target_from": asked.target_from,
        "prompt": asked.open.prompt,
        "prompt_hash": asked.open.sha256,
    }


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings that the arguments mean on this machine.

    Raises:
        ValueError: They do not go together.
    """
    from lmms_eval_tasks.clash.finetune.model import Settings
    from lmms_eval_tasks.clash.finetune.train import processes

    profile = profile_of(args.profile)
    four_bit = profile.four_bit if args.load_4bit is None else args.load_4bit
    if four_bit and args.train_projector:
        raise ValueError("--train-projector needs whole weights: add --no-load-4bit")
    decided = {
        "profile": profile.name,
        "four_bit": four_bit,
        "processes": processes(),
        "alpha": args.alpha or 2 * args.rank,
    }
    given = {field.name for field in dataclasses.fields(Settings)} - decided.keys()
    return Settings(**decided, **{name: getattr(args, name) for name in given})


def check_out(out: Path, *, resume: bool, force: bool) -> dict[str, Any] | None:
    """Whether the run may write there.

    Returns:
        What the folder's run wrote down, if it is to go on; else None.

    Raises:
        ValueError: It would overwrite something, or there is nothing to go on with.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    try:
        stored = json.loads((out / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = None
    if not isinstance(stored, dict) or stored.get("format") != FORMAT["format"]:
        raise ValueError(f"{out} holds something that is no run of this command: choose another")
    if stored.get("version") != FORMAT["version"]:
        raise ValueError(f"{out}: the run there was written by another version: choose another")
    if not resume and not force:
        raise ValueError(
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


def _asked(folder: Folder) -> Asked:
    try:
        return asked_of(official_prompts(folder.manifest))
    except ValueError as error:
        raise ValueError(f"{folder.path}: manifest.json: {error}") from error


def _check_processor(processor: Any, model: str) -> None:
    if getattr(processor, "tokenizer", None) is None or not hasattr(processor, "image_processor"):
        raise ValueError(f"{model}: has no processor for pictures and text")
    if not (getattr(processor, "chat_template", None) or processor.tokenizer.chat_template):
        raise ValueError(f"{model}: has no chat template, so its prompts cannot be made")
    if processor.tokenizer.eos_token_id is None:
        raise ValueError(f"{model}: its tokenizer has no end token to learn")


def _check_same(stored: Mapping[str, Any], record: Mapping[str, Any], out: Path) -> None:
    for part in ("settings", "data"):
        then, now = stored.get(part) or {}, record[part]
        for name in now:
            if then.get(name) != now[name]:
                raise ValueError(
                    f"{out}: its run has {name} = {then.get(name)}, this one {now[name]}: give "
                    "what it was begun with, or another folder"
                )
    if stored.get("model") != record["model"]:
        raise ValueError(f"{out}: its run adapts {stored.get('model')}, not {record['model']}")


def _check_space(out: Path, needed: int) -> None:
    place = out.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        raise ValueError(
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
