"""Small CLASH data of our own for tests: a dataset folder, and one in the release's layout."""

import io
import json
from pathlib import Path

from PIL import Image

from lmms_eval_tasks.clash.data import sample_id_of
from lmms_eval_tasks.dataset.folder import write_folder

_OBJECTS = (
    ("A red kite hangs over the beach.", "kite", "drone", "What hangs over the beach?", "animals"),
    ("A heron stands in the pond.", "heron", "goose", "Which bird stands in the pond?", "animals"),
    ("A tram waits at the corner.", "tram", "truck", "What waits at the corner?", "transportation"),
    ("A pear lies on the plate.", "pear", "plum", "Which fruit lies on the plate?", "food"),
)
_ATTRIBUTES = (
    ("The door is painted green.", "green", "blue", "What color is the door?", "colors"),
    ("Three ducks cross the road.", "Three", "Five", "How many ducks cross?", "numbers"),
    ("The bench is made of stone.", "stone", "wood", "What is the bench made of?", "materials"),
)


def clash_rows(n: int = 14) -> list[dict]:
    """Rows of our format; some pictures are asked about twice, some rows are in two categories."""
    rows = []
    for index in range(n):
        pool = _OBJECTS if index % 2 else _ATTRIBUTES
        caption, word, other, question, category = pool[index // 2 % len(pool)]
        caption = f"{caption[:-1]} number {index}. "
        picture = index - 1 if index % 5 == 4 else index
        row = {
            "image_id": str(100 + picture),
            "image": f"images/{100 + picture}.png",
            "original_caption": caption,
            "conflicting_caption": caption.replace(word, other).strip(),
            "question": question,
            "change_type": "object" if index % 2 else "attribute",
            "categories": ["food", "household"] if category == "food" else [category],
            "original_word": word,
            "conflicting_word": other,
            "image_answer": word,
            "text_answer": other,
            "distractor": "something else",
        }
        rows.append({"sample_id": sample_id_of(row["image_id"], row), **row})
    return rows


def picture(shade: int, form: str = "PNG") -> bytes:
    """The bytes of a small picture."""
    out = io.BytesIO()
    Image.new("RGB", (8, 6), (shade % 256, 80, 160)).save(out, form)
    return out.getvalue()


def photograph(shade: int) -> bytes:
    """The bytes of a picture that is no placeholder."""
    out = io.BytesIO()
    grey = Image.linear_gradient("L").resize((64, 48))
    Image.merge("RGB", (grey, Image.new("L", (64, 48), shade % 256), grey)).save(out, "JPEG")
    return out.getvalue()


def clash_folder(path: Path, rows: list[dict] | None = None, **manifest) -> Path:
    """A dataset folder with those rows."""
    rows = clash_rows() if rows is None else rows
    images = {row["image"]: picture(int(row["image_id"])) for row in rows}
    write_folder(path, "clash", rows, images, {"kind": "custom", **manifest})
    return path


def release_sample(image_id: object, number: int = 0, **changes) -> dict:
    """One sample in the release's form, with texts of our own."""
    sample = {
        "image_id": image_id,
        "original_caption": f"A grey cat sleeps on chair {number}. ",
        "conflicting_caption": f"A grey dog sleeps on chair {number}.",
        "question": f"Which animal sleeps on chair {number}?",
        "change_type": "object",
        "answers": {
            "image_only": "Cat",
            "text_only": "Dog",
            "irrelevant_but_plausible": "Rabbit",
        },
        "changed_words": {"original": "cat", "conflicting": "dog"},
        "category": "animals",
    }
    return {**sample, **changes}


PROMPTS_SOURCE = '''"""Prompts of a release that exists in this test only."""

import os

_SHARED = "Look closely – say what is \\"there\\".\\n"

MULTIPLE_CHOICE_INSTRUCTION = (
    "Pick one: 'A' to 'D'. "
    "No words – just the letter."
)
OPEN_ENDED_INSTRUCTION = _SHARED + """Use "few" words;
don't guess."""
JUDGE_PROMPT: str = "Which of IMAGE, TEXT, CONFLICT, NONE is it?"
JUDGE_PROMPT += "\\nOne word."

print(os.environ["NO_SUCH_VARIABLE_HERE"])
'''
"""Would raise if it were run."""


EVALUATION_SOURCE = '''import os

from src.models.prompts import JUDGE_PROMPT

MARKS = ("a", "b")


def generate_llm_as_judge_prompt(prediction, image_only, text_only):
    """Puts together what a judge reads."""
    return f"""{JUDGE_PROMPT}
    Now sort this one. {{As it stands.}}
    By the picture: {image_only}~
    By the sentence: {text_only}~
    It said: {prediction}~~
    """


os.environ["NO_SUCH_VARIABLE_HERE"]
'''.replace("~", " ")
"""How a release puts the judge's request together; would raise if it were run."""


def release_copy(
    path: Path,
    samples: list[dict],
    *,
    prompts: str | None = PROMPTS_SOURCE,
    evaluation: str = EVALUATION_SOURCE,
) -> Path:
    """A release's folder with those samples as its test set."""
    (path / "data").mkdir(parents=True)
    content = json.dumps({"metadata": {"num_samples": len(samples)}, "samples": samples})
    (path / "data" / "synthetic_captions_test_filtered.json").write_text(content)
    if prompts is not None:
        (path / "src" / "models").mkdir(parents=True)
        (path / "src" / "models" / "prompts.py").write_text(prompts, encoding="utf-8")
        (path / "src" / "evaluation.py").write_text(evaluation, encoding="utf-8")
    return path


def coco_copy(path: Path, image_ids: list[int]) -> Path:
    """A folder of pictures under COCO's names."""
    path.mkdir(parents=True)
    for image_id in image_ids:
        (path / f"{image_id:012d}.jpg").write_bytes(photograph(image_id))
    return path
