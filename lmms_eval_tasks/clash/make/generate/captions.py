"""Reads captions that samples are made of: COCO's file, a list of pictures, or JSON lines.

Everything in it is hostile: a file name counts by its last part only, an id must be one that a
dataset folder may hold, and a caption that is no text is left out and counted.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from lmms_eval_tasks.clash.make.generate.stages import Source
from lmms_eval_tasks.dataset.checks import check_id, check_text
from lmms_eval_tasks.dataset.files import read_text

MAX_BYTES = 4_000_000_000
MAX_CAPTION_CHARS = 500
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")


class Pictures(NamedTuple):
    """Pictures with their captions, in the file's order."""

    captions: dict[str, tuple[str, ...]]
    """By image id."""
    files: dict[str, str]
    """File name by image id, the last part only."""
    faults: list[str]
    """One line for each caption or picture that cannot be used."""


def read_captions(path: Path) -> Pictures:
    """Captions by picture.

    Args:
        path: COCO's form (`images`, `annotations`); or a list, or JSON lines, of
            `{image_id, file_name, captions}`, where a picture without `file_name` is called after
            its id.

    Raises:
        ValueError: The file cannot be read, or holds no caption.
    """
    text = read_text(path, MAX_BYTES)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        try:
            data = [json.loads(line) for line in text.split("\n") if line.strip()]
        except (ValueError, RecursionError):
            raise ValueError(f"{path}: is neither JSON nor JSON lines ({error})") from error
    records: Iterable[Any]
    if isinstance(data, Mapping) and isinstance(data.get("annotations"), list):
        records = _from_coco(data)
    elif isinstance(data, list):
        records = data
    else:
        raise ValueError(f"{path}: holds neither annotations nor a list of pictures")
    pictures = _collect(records)
    if not pictures.captions:
        first = f" ({pictures.faults[0]})" if pictures.faults else ""
        raise ValueError(f"{path}: holds no caption that can be used{first}")
    return pictures


def sources(pictures: Pictures, seed: int) -> list[Source]:
    """Every caption as a source, in a seeded order: one of each picture, then the next of each.

    A source's place among its picture's captions follows from the seed too.
    """
    rounds: list[list[Source]] = []
    for image_id in sorted(pictures.captions):
        texts = pictures.captions[image_id]
        order = list(range(len(texts)))
        random.Random(f"{seed}:{image_id}").shuffle(order)
        for turn, index in enumerate(order):
            if turn == len(rounds):
                rounds.append([])
            rounds[turn].append(Source(image_id, pictures.files[image_id], texts, index))
    for turn, row in enumerate(rounds):
        random.Random(f"{seed}:round {turn}").shuffle(row)
    return [source for row in rounds for source in row]


def find_picture(folder: Path, name: str) -> Path:
    """Where a picture lies: in the folder or one of the places COCO uses inside it."""
    places = [folder / name, folder / "images" / name]
    places += [folder / split / name for split in ("train2017", "val2017")]
    if not Path(name).suffix:
        places += [folder / f"{name}{suffix}" for suffix in SUFFIXES]
        places += [folder / "images" / f"{name}{suffix}" for suffix in SUFFIXES]
    return next((place for place in places if place.is_file()), places[0])


def _from_coco(data: Mapping[str, Any]) -> list[Any]:
    names = {}
    for image in data.get("images") or ():
        if isinstance(image, Mapping):
            names[_text_id(image.get("id"))] = image.get("file_name")
    records: dict[Any, dict[str, Any]] = {}
    for annotation in data["annotations"]:
        if not isinstance(annotation, Mapping):
            continue
        image_id = _text_id(annotation.get("image_id"))
        record = records.setdefault(
            image_id, {"image_id": image_id, "file_name": names.get(image_id), "captions": []}
        )
        record["captions"].append(annotation.get("caption"))
    return list(records.values())


def _collect(records: Iterable[Any]) -> Pictures:
    captions: dict[str, tuple[str, ...]] = {}
    files: dict[str, str] = {}
    faults: list[str] = []
    for place, record in enumerate(records):
        if not isinstance(record, Mapping):
            faults.append(f"record {place}: is not a JSON object")
            continue
        image_id = _text_id(record.get("image_id"))
        problems = check_id("image_id", image_id)
        if problems:
            faults.append(f"record {place}: {problems[0]}")
            continue
        name = record.get("file_name")
        if name is None:
            # COCO's own names are padded; a picture of one's own is looked for by its id.
            name = f"{int(image_id):012d}.jpg" if image_id.isdecimal() else image_id
        name = PurePosixPath(str(name).replace("\\", "/")).name
        if not name or name.startswith(".") or ":" in name or not name.isprintable():
            faults.append(f"record {place}: file_name {name[:40]!r} cannot be used")
            continue
        texts = []
        given = record.get("captions")
        for text in given if isinstance(given, Sequence) and not isinstance(given, str) else ():
            problems = check_text("caption", text)
            if not problems and len(text) > MAX_CAPTION_CHARS:
                problems = [f"caption has {len(text)} characters"]
            if problems:
                faults.append(f"image_id {image_id}: {problems[0]}")
            elif text.strip() not in texts:
                texts.append(text.strip())
        if texts:
            captions[image_id] = tuple(dict.fromkeys((*captions.get(image_id, ()), *texts)))
            files.setdefault(image_id, name)
    return Pictures(captions, files, faults)


def _text_id(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
