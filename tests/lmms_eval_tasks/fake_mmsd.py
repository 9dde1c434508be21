"""A small MMSD2.0 with all its troubles: own texts, drawn pictures, the known post among them."""

import hashlib
import io
import json
import random

import numpy as np
from PIL import Image, ImageDraw

from lmms_eval_tasks.pragmatch.make import cues
from lmms_eval_tasks.pragmatch.make.mmsd import KNOWN_POST
from lmms_eval_tasks.pragmatch.make.stages import Encoders

FIRST_ID = 892551658487631873
SHAPES = ["circle", "square", "triangle", "stripe", "cross", "ring"]
COLOURS = ["red", "blue", "green", "orange", "purple", "brown", "black", "navy", "olive", "teal"]
GRIPES = [
    "so glad the {0} is {1} again ! ! # blessed",
    "wow , a {1} {0} , my day is complete ...",
    "lol just what i needed , another {1} {0}",
    "great job painting the {0} {1} <user>",
    'nothing says progress like a " {1} " {0}',
]
PLAIN = [
    "morning walk past the {1} {0} with <user>",
    "we finished the {1} {0} at the workshop today",
    "the {0} looks good in {1} , thanks for coming",
    "new {1} {0} arrived for the office !",
]
SCENES = ["gravel", "canvas", "linen", "marble", "cardboard", "velvet", "timber", "asphalt"]


def image_id(i):
    # Odd steps: none of these survives a float.
    return str(FIRST_ID + 7_777_777 * i)


def what(i):
    return SHAPES[i % len(SHAPES)], COLOURS[(i // len(SHAPES)) % len(COLOURS)]


def posts(sarcastic=24, plain=30):
    out = [{"image_id": int(KNOWN_POST[0]), "text": KNOWN_POST[1], "label": 0}]
    for i in range(1, sarcastic + plain):
        label = int(i <= sarcastic)
        text = (GRIPES if label else PLAIN)[i % (5 if label else 4)].format(*what(i)) + f" no {i}"
        out.append({"image_id": int(image_id(i)), "text": text, "label": label})
    random.Random(5).shuffle(out)
    return out


def drawing(i, size=(64, 48), text=None):
    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    shape, colour = what(i)
    x, y = 8 + i % 13, 6 + i % 11
    box = (x, y, x + 24, y + 24)
    if shape in ("circle", "ring"):
        pen.ellipse(box, fill=None if shape == "ring" else colour, outline=colour, width=4)
    elif shape == "triangle":
        pen.polygon([(x, y), (x + 24, y), (x + 12, y + 24)], fill=colour)
    else:
        pen.rectangle(box, fill=colour)
    if text:
        from PIL import ImageFont

        pen.text((10, size[1] - 60), text, fill="black", font=ImageFont.load_default(40))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def caption(i):
    shape, colour = what(i)
    return f"A {colour} {shape} lies on {SCENES[i % 8]} ground in frame {i}."


def write(root, rows=None, missing=(3,), corrupt=(4,)):
    """The repository layout: texts in one folder, pictures in another."""
    rows = posts() if rows is None else rows
    texts, pictures = root / "text_json_final", root / "dataset_image"
    texts.mkdir(parents=True)
    pictures.mkdir()
    (texts / "test.json").write_text(json.dumps(rows))
    for i in range(len(rows)):
        content = drawing(i)
        if i in corrupt:
            content = content[: len(content) // 2]
        if i not in missing:
            (pictures / f"{image_id(i)}.jpg").write_bytes(content)
    return root


def write_captions(path, n=54):
    rows = [{"image_id": int(image_id(i)), "captions": [caption(i), "spare"]} for i in range(n)]
    path.write_text(json.dumps(rows))
    return path


def embed(text):
    """Content words as fixed random directions: texts that share none are nearly orthogonal."""
    vector = np.zeros(256)
    for word in set(cues.content_words(text.lower())) - {"lies", "ground", "frame"}:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
        vector += np.random.default_rng(seed).normal(size=256)
    return vector / max(np.linalg.norm(vector), 1e-9)


ENCODERS = Encoders(("words at random",), embed)
