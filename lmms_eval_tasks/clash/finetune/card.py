"""The model card of an adapter: what it was made from, how, and what it must not be taken for.

A card may be published, so it holds no path of the machine it was written on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_WORDING = {
    "official": "as the release's instruction words it",
    "pragclash": "as pragclash's own instruction words it",
}
_CHECKED = {
    "test_data": "dropped by id and by file content, against a copy of the test set",
    "manifest": "dropped by id, as the data's manifest lists them",
    None: "**not checked**: nothing said which pictures are in the test set",
}


def public_name(model: str) -> str:
    """A model's name on a hub, or the last part of a local path.

    >>> public_name("/home/me/models/llava"), public_name("llava-hf/llava-1.5-7b-hf")
    ('llava', 'llava-hf/llava-1.5-7b-hf')
    """
    path = Path(model)
    return path.name if path.is_absolute() or path.exists() else model


def card(record: Mapping[str, Any]) -> str:
    """The card's text.

    Args:
        record: What `finetune.py` writes to `training.json`.
    """
    data, settings, result = record["data"], record["settings"], record["result"]
    model = public_name(record["model"])
    head = {
        "base_model": json.dumps(model, ensure_ascii=False),
        "library_name": "peft",
        "pipeline_tag": "image-text-to-text",
        "tags": "[lora, clash, cross-modal-contradiction]",
    }
    rows = {
        "rows trained on": data["rows"],
        "rows dropped, picture in the test set": data["dropped_in_test_set"],
        "rows dropped, picture missing or broken": data["dropped_without_picture"],
        "rows dropped, control tokens in their text": data["dropped_unusable_text"],
        "draws with the conflicting caption": data["draws_conflicting"],
        "draws with the original caption": data["draws_original"],
        "kind and fingerprint": f"{data['kind']}, `{data['fingerprint']}`",
        "prompt": f"{data['prompt']}, `{data['prompt_hash']}`",
        "rows dropped, text too long": data["dropped_too_long"],
        "taught on conflicts": f"`{data['conflict_target']}`, "
        + _WORDING[data["conflict_target_from"]],
        "pictures of the test set": _CHECKED[data["test_pictures_from"]],
    }
    figures = {
        "optimiser steps": result["steps"],
        "loss, mean of the first ten steps": _loss(result["first_loss"]),
        "loss, mean of the last ten steps": _loss(result["last_loss"]),
        "trained parameters": f"{result['trained_parameters']:,}",
        f"peak memory of the {result['memory_of']}, GB": result["peak_memory_gb"],
    }
    return "\n".join(
        [
            "---",
            *(f"{name}: {value}" for name, value in head.items()),
            "---",
            "",
            "# LoRA adapter that answers contradictions between caption and picture",
            "",
            "Made by `pragclash finetune` for the CLASH task: asked about a picture and a caption,",
            "say that they conflict where they do, and give the picture's answer where they do",
            "not.",
            "",
            "## Use",
            "",
            "```text",
            "lmms_eval --model verdict --model_args "
            f"backend=<harness model>,pretrained={model},peft=<this folder> \\",
            "    --tasks clash_open,clash_open_original",
            "```",
            "",
            "Read the two tasks together: `conflict` of `clash_open_original` is the rate of false",
            "alarms, and a model that always cries conflict is perfect in `clash_open`. No",
            "evaluation was run when this card was written.",
            "",
            "## Data",
            "",
            *_table(rows),
            "",
            "## Training",
            "",
            *_table({name: _shown(value) for name, value in settings.items()}),
            *(f"| {name} | {value} |" for name, value in figures.items()),
            "",
            *_table(record["versions"], "package", "version"),
            "",
        ]
    )


def _table(values: Mapping[str, Any], left: str = "", right: str = "") -> list[str]:
    rows = [f"| {name} | {value} |" for name, value in values.items()]
    return [f"| {left} | {right} |", "|---|---|", *rows]


def _shown(value: Any) -> Any:
    return f"`{value}`".replace("|", "\\|") if isinstance(value, str) else value


def _loss(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4f}"
