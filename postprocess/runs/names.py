"""What to call a model, from the harness's model id and arguments; never with a secret in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from postprocess.secrets import redact_arguments

_MODEL_KEYS = ("peft", "pretrained", "model", "model_version", "model_name", "model_id", "path")
"""Keys of model arguments that name what was evaluated; the harness names its folders by them."""


def parse_model_args(text: str) -> dict[str, str]:
    """The harness's `key=value,key=value` as a mapping; a part without `=` is a flag.

    >>> parse_model_args("backend=llava_hf,pretrained=org/name,use_flash")
    {'backend': 'llava_hf', 'pretrained': 'org/name', 'use_flash': 'True'}
    """
    out = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if key.strip():
            out[key.strip()] = value.strip() if equals else "True"
    return out


def model_name(model: str, model_args: str) -> str:
    """What to call a model: the end of the path or id that names its weights, else its id.

    >>> model_name("verdict", "backend=qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct")
    'Qwen2.5-VL-7B-Instruct'
    >>> model_name("llava_hf", "pretrained=llava-hf/llava-1.5-7b-hf,peft=out/lora")
    'llava-1.5-7b-hf + lora'
    >>> model_name("mismatch_detector", "")
    'mismatch_detector'
    """
    arguments = parse_model_args(model_args)
    named = [_last(arguments[key]) for key in _MODEL_KEYS if arguments.get(key)]
    if "peft" in arguments and len(named) > 1:
        return f"{named[1]} + {named[0]}"
    return named[0] if named else model


def labels_of(runs: Sequence[tuple[str, str, Path]]) -> list[str]:
    """Short names that differ: the model's, then what else tells two runs apart."""
    names = [model_name(model, arguments) for model, arguments, _ in runs]
    out = []
    for i, (model, arguments, folder) in enumerate(runs):
        twins = [runs[j] for j, name in enumerate(names) if name == names[i] and j != i]
        extra = []
        if any(twin[0] != model for twin in twins):
            extra.append(model)
        mine = parse_model_args(arguments).items()
        others = [parse_model_args(twin[1]).items() for twin in twins]
        differing = [f"{k}={v}" for k, v in mine if any((k, v) not in other for other in others)]
        if any(twin[1] != arguments for twin in twins):
            extra += differing
        if any(twin[:2] == (model, arguments) for twin in twins):
            extra.append(str(folder))
        out.append(f"{names[i]} ({', '.join(extra)})" if extra else names[i])
    return [
        label if label not in out[:i] else f"{label} #{out[:i].count(label) + 1}"
        for i, label in enumerate(out)
    ]


def flat_args(value: object) -> str:
    """Model arguments as the harness's one text, whatever a file holds, without secrets."""
    if isinstance(value, dict):
        value = ",".join(f"{key}={item}" for key, item in value.items())
    return printable(redact_arguments(value)) if isinstance(value, str) else ""


def printable(text: str) -> str:
    r"""Text of a file as one line for a screen: what would steer a terminal is spelt out.

    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\\n'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _last(path: str) -> str:
    return path.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or path
