"""Does fine-tuning teach a model to look at the picture? A proof that runs on two CPU cores.

Conflict rates can rise by what captions alone give away. Here they give away nothing: pictures are
drawn, colour and count are known by construction, and rows come in pairs with the same question,
each picture's true caption being the other's false one. Whatever reads text alone answers both
rows of a pair alike, so its conflict rate equals its false-alarm rate. The model is a LLaVA (CLIP
tower, projector, Llama) with random weights; `pragclash finetune` trains it, the harness asks it.
Beside the true pictures it is asked about grey ones and about another row's.

A second data set holds the same rows and as many spoiled ones, of the kinds that quality control is
there to reject.

Run: `nice python tests/benchmarks/finetune_proof.py`; figures go to finetune_proof.md beside it.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from PIL import Image, ImageDraw

from lmms_eval_tasks.clash.data import sample_id_of
from lmms_eval_tasks.clash.finetune.data import CONFLICT_TARGET, prompt_of
from lmms_eval_tasks.clash.prompts import INSTRUCTIONS, compose
from lmms_eval_tasks.dataset.folder import Folder, write_folder
from postprocess.measure.stats import Estimate, bootstrap_ratio, wilson
from postprocess.record.clash import clash_record
from postprocess.runs.folder import read_runs
from pragclash.cli import finetune

COLOURS = {
    "red": (200, 40, 40),
    "green": (40, 160, 60),
    "blue": (50, 70, 200),
    "yellow": (220, 190, 40),
}
COUNTS = {"two": 2, "three": 3, "four": 4, "five": 5}
THINGS = ("balls", "boxes")
FRAMES = (
    "{count} {colour} {things} lie on a table.",
    "there are {count} {colour} {things}.",
    "a picture of {count} {colour} {things}.",
)
QUESTIONS = {"colour": "what color are the {things}?", "count": "how many {things} are there?"}
VALUES = {"colour": tuple(COLOURS), "count": tuple(COUNTS)}
CATEGORIES = {"colour": "colors", "count": "numbers"}
SIDE, CELL = 48, 12

GOAL, LIMIT = 0.30, 0.10
"""Conflict rate minus false-alarm rate: at least with pictures, at most without."""

Made = tuple[dict[str, Any], bytes]


class Scene(NamedTuple):
    """What a picture shows."""

    colour: str
    count: str
    things: str


def drawn(scene: Scene, rng: random.Random) -> bytes:
    """A picture: things of random size and shade at random places on a random light ground."""
    ground = tuple(rng.randint(215, 255) for _ in range(3))
    image = Image.new("RGB", (SIDE, SIDE), ground)
    pen = ImageDraw.Draw(image)
    cells = list(itertools.product(range(SIDE // CELL), repeat=2))
    for x, y in rng.sample(cells, COUNTS[scene.count]):
        size = rng.randint(7, 10)
        left = x * CELL + rng.randint(0, CELL - size)
        top = y * CELL + rng.randint(0, CELL - size)
        shade = tuple(min(255, max(0, v + rng.randint(-25, 25))) for v in COLOURS[scene.colour])
        draw = pen.ellipse if scene.things == "balls" else pen.rectangle
        draw((left, top, left + size - 1, top + size - 1), fill=shade)
    return _png(image)


def pair(rng: random.Random, number: int, attributes: Sequence[str]) -> list[Made]:
    """Two rows whose pictures differ in one attribute, each with the other's caption as its lie."""
    attribute = rng.choice(attributes)
    shared = Scene(rng.choice(VALUES["colour"]), rng.choice(VALUES["count"]), rng.choice(THINGS))
    frame = rng.choice(FRAMES)
    here, there, other = rng.sample(VALUES[attribute], 3)
    made = []
    for index, (true, false) in enumerate(((here, there), (there, here))):
        scene = shared._replace(**{attribute: true})
        lie = shared._replace(**{attribute: false})
        image_id = str(2 * number + index)
        row = {
            "image_id": image_id,
            "image": f"images/{image_id}.png",
            "original_caption": frame.format(**scene._asdict()),
            "conflicting_caption": frame.format(**lie._asdict()),
            "question": QUESTIONS[attribute].format(things=shared.things),
            "change_type": "attribute",
            "categories": [CATEGORIES[attribute]],
            "original_word": true,
            "conflicting_word": false,
            "image_answer": true,
            "text_answer": false,
            "distractor": other,
            "extra": {"scene": scene._asdict(), "frame": frame, "attribute": attribute},
        }
        made.append((_named(row), drawn(scene, rng)))
    return made


def spoiled(made: Made, rng: random.Random) -> Made:
    """A row with one of three faults: no real change, a false original, answers exchanged."""
    row, picture = dict(made[0]), made[1]
    scene, attribute = row["extra"]["scene"], row["extra"]["attribute"]
    fault = rng.choice(("no_change", "false_original", "exchanged"))
    if fault == "no_change":
        # The "conflicting" caption says the same in other words.
        frame = rng.choice([frame for frame in FRAMES if frame != row["extra"]["frame"]])
        row["conflicting_caption"] = frame.format(**scene)
    elif fault == "false_original":
        # Both captions are false, and the picture's answer is read off one of them.
        false = {**scene, attribute: row["distractor"]}
        row["original_caption"] = row["extra"]["frame"].format(**false)
        row["image_answer"], row["distractor"] = row["distractor"], row["image_answer"]
    else:
        row["image_answer"], row["text_answer"] = row["text_answer"], row["image_answer"]
    row["extra"] = {**row["extra"], "fault": fault}
    return _named(row), picture


def rows_of(
    seed: int, pairs: int, first: int = 0, attributes: Sequence[str] = tuple(VALUES)
) -> list[Made]:
    """Rows with their pictures, `pairs` pairs of them, numbered from `first`."""
    rng = random.Random(seed)
    return [made for number in range(pairs) for made in pair(rng, first + number, attributes)]


def folder_of(out: Path, made: Sequence[Made]) -> Folder:
    """The dataset folder of some rows."""
    pictures = {row["image"]: picture for row, picture in made}
    return write_folder(out, "clash", [row for row, _ in made], pictures, {"kind": "custom"})


def blanked(made: Sequence[Made]) -> list[Made]:
    """The rows with a grey picture each."""
    grey = _png(Image.new("RGB", (SIDE, SIDE), (128, 128, 128)))
    return [(row, grey) for row, _ in made]


def swapped(made: Sequence[Made], seed: int) -> list[Made]:
    """The rows with each other's pictures: a random cyclic order, so that nobody keeps theirs."""
    order = random.Random(seed).sample(range(len(made)), len(made))
    out: list[Any] = [None] * len(made)
    for at, index in enumerate(order):
        out[index] = (made[index][0], made[order[at - 1]][1])
    return out


def _named(row: dict[str, Any]) -> dict[str, Any]:
    row = {name: value for name, value in row.items() if name != "sample_id"}
    return {"sample_id": sample_id_of(row["image_id"], row), **row}


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


TEMPLATE = (
    "{% for m in messages %}{{ m['role'].upper() }}: {% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<image> {% else %}{{ c['text'] }}{% endif %}{% endfor %} "
    "{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


def tokenizer() -> Any:
    """One token a word of this world and of the prompt."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    texts = [INSTRUCTIONS["open_ended"], CONFLICT_TARGET, "USER: ASSISTANT:", *FRAMES]
    texts += [*QUESTIONS.values(), *COLOURS, *COUNTS, *THINGS]
    split = pre_tokenizers.Whitespace()
    words = {word for text in texts for word, _ in split.pre_tokenize_str(text.lower())}
    special = ["<s>", "</s>", "<pad>", "<unk>", "<image>"]
    vocabulary = {word: index for index, word in enumerate([*special, *sorted(words)])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = split
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        additional_special_tokens=["<image>"],
        model_input_names=["input_ids", "attention_mask"],
    )


def untrained(out: Path, seed: int, hidden: int = 64, layers: int = 2) -> Path:
    """A LLaVA with random weights: its tower sees patches of the size that one thing takes."""
    import torch
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    torch.manual_seed(seed)
    words = tokenizer()
    shape = {
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
    }
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            **shape, image_size=SIDE, patch_size=CELL, projection_dim=hidden
        ).to_dict(),
        text_config=LlamaConfig(
            **shape,
            vocab_size=len(words),
            num_key_value_heads=4,
            initializer_range=hidden**-0.5,
            max_position_embeddings=512,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.pad_token_id,
        ).to_dict(),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
    )
    model = LlavaForConditionalGeneration(config).eval()
    model.generation_config.eos_token_id = words.eos_token_id
    model.generation_config.pad_token_id = words.pad_token_id
    model.save_pretrained(out)
    LlavaProcessor(
        image_processor=CLIPImageProcessor(
            size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
        ),
        tokenizer=words,
        patch_size=CELL,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
        chat_template=TEMPLATE,
    ).save_pretrained(out)
    return out


# A rank as large as the model is wide: random layers have to be learnt as a whole. Ten times the
# default learning rate, because the model is a thousand times narrower than those it is meant for.
OPTIONS = (
    *("--profile", "cpu", "--rank", "64", "--alpha", "64", "--dropout", "0", "--train-projector"),
    *("--learning-rate", "2e-3", "--batch-size", "32", "--accumulate", "1"),
    *("--no-gradient-checkpointing", "--json", "--save-every", "500"),
)


def tune(base: Path, data: Path, test: Path, out: Path, seed: int, epochs: int) -> None:
    """Run the command.

    Raises:
        RuntimeError: It failed; it has said why.
    """
    parser = argparse.ArgumentParser()
    finetune.add_arguments(parser)
    places = ("--model", base, "--data", data, "--test-data", test, "--out", out)
    args = parser.parse_args(
        [*map(str, places), *OPTIONS, "--seed", str(seed), "--epochs", str(epochs)]
    )
    if finetune.run(args):
        raise RuntimeError("pragclash finetune failed")


def asked_here(base: Path, adapter: Path | None, made: Sequence[Made]) -> list[dict[str, Any]]:
    """Records of both captions of every row, in batches and without the harness: a quick look."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor = AutoProcessor.from_pretrained(base)
    processor.tokenizer.padding_side = "left"
    model = AutoModelForImageTextToText.from_pretrained(base)
    if adapter is not None:
        model = PeftModel.from_pretrained(model, str(adapter))
    model.eval()
    head = INSTRUCTIONS["open_ended"]
    records = []
    for kind, start in itertools.product(("conflicting", "original"), range(0, len(made), 100)):
        part = made[start : start + 100]
        prompts = [
            prompt_of(processor, compose(head, row, row[f"{kind}_caption"])) for row, _ in part
        ]
        pictures = [[Image.open(io.BytesIO(picture)).convert("RGB")] for _, picture in part]
        inputs = processor(text=prompts, images=pictures, padding=True, return_tensors="pt")
        with torch.inference_mode():
            output = model.generate(**inputs, max_new_tokens=5, do_sample=False)
        texts = processor.tokenizer.batch_decode(
            output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
        )
        for (row, _), text in zip(part, texts, strict=True):
            shown = {"task": "clash_open", "form": "open", "caption_kind": kind, **row}
            records.append(clash_record(shown, text))
    return records


def asked(base: Path, adapter: Path | None, home: Path, out: Path) -> list[dict[str, Any]]:
    """Records of `clash_open` and `clash_open_original`, by the harness itself.

    Args:
        base: The untrained model.
        adapter: The adapter, or None.
        home: What `PRAGCLASH_DATA` is set to.
        out: The harness's output folder.

    Raises:
        RuntimeError: The harness failed, or its output cannot be read whole.
    """
    arguments = f"backend=llava_hf,pretrained={base},device=cpu,device_map=cpu"
    if adapter is not None:
        arguments += f",peft={adapter}"
    command = [
        *(sys.executable, "-m", "pragclash.harness.launcher"),
        *("--tasks", "clash_open,clash_open_original", "--model", "verdict"),
        *("--model_args", arguments, "--output_path", str(out), "--log_samples"),
    ]
    environment = {**os.environ, "PRAGCLASH_DATA": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    found = read_runs([out])
    if done.returncode or found.problems or len(found.runs) != 1:
        raise RuntimeError(f"evaluation failed: {found.problems} {done.stderr[-2000:]}")
    return [x for task in found.runs[0].tasks.values() for x in task.records]


class Figures(NamedTuple):
    """What answers to both captions come to; rates are proportions."""

    conflict: float
    false_alarms: float
    gap: Estimate
    """Conflict minus false alarms, resampled by pair: the two rows of a pair share their texts."""
    image: float
    """The picture's answer on original captions."""
    none: float
    """Nothing recognised on conflicting captions."""
    by_category: dict[str, float]
    """Conflict minus false alarms."""


def figures(records: Sequence[Mapping[str, Any]]) -> Figures:
    """The figures of a set of answers."""
    by_kind: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    gaps: dict[int, int] = defaultdict(int)
    rows: dict[int, int] = defaultdict(int)
    categories: dict[str, list[int]] = defaultdict(list)
    for record in records:
        conflicting = record["caption_kind"] == "conflicting"
        signed = record["flag_conflict"] if conflicting else -record["flag_conflict"]
        by_kind[record["caption_kind"]].append(record)
        number = int(record["image_id"]) // 2
        gaps[number] += signed
        rows[number] += conflicting
        categories[record["categories"][0]].append(signed)
    numbers = sorted(rows)
    return Figures(
        conflict=_mean([r["flag_conflict"] for r in by_kind["conflicting"]]),
        false_alarms=_mean([r["flag_conflict"] for r in by_kind["original"]]),
        gap=_difference([gaps[n] for n in numbers], [rows[n] for n in numbers]),
        image=_mean([r["flag_image"] for r in by_kind["original"]]),
        none=_mean([r["flag_none"] for r in by_kind["conflicting"]]),
        by_category={name: 2 * _mean(values) for name, values in sorted(categories.items())},
    )


def _difference(gaps: Sequence[int], rows: Sequence[int]) -> Estimate:
    """A mean difference over pairs; where every pair has the largest one, Wilson's interval."""
    if gaps == rows:
        return wilson(len(rows), len(rows))
    return bootstrap_ratio(gaps, rows)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class Line(NamedTuple):
    """One line of the table."""

    seed: int
    training: str
    pictures: str
    figures: Figures


def prove(root: Path, seed: int, pairs: int, held_out: int, epochs: int) -> list[Line]:
    """One seed: data, models, training and evaluation."""
    good = rows_of(seed, pairs)
    rng = random.Random(seed + 100)
    bad = [spoiled(made, rng) for made in rows_of(seed + 200, pairs, first=pairs)]
    test = rows_of(seed + 300, held_out, first=10 * pairs)
    shown = {"true": test, "grey": blanked(test), "another row's": swapped(test, seed)}
    homes = {}
    for index, (name, made) in enumerate(shown.items()):
        homes[name] = root / f"test{index}"
        folder_of(homes[name] / "clash", made)
    folder_of(root / "filtered", good)
    folder_of(root / "unfiltered", [*good, *bad])
    base = untrained(root / "base", seed)
    plan = {"none": ["true"], "filtered": list(shown), "unfiltered": list(shown)}
    lines = []
    for training, conditions in plan.items():
        adapter = None
        if training != "none":
            adapter = root / f"adapter-{training}"
            tune(base, root / training, homes["true"] / "clash", adapter, seed, epochs)
        for name in conditions:
            out = root / "runs" / f"{training}-{list(homes).index(name)}"
            line = Line(seed, training, name, figures(asked(base, adapter, homes[name], out)))
            lines.append(line)
            print(json.dumps(line, default=str), file=sys.stderr, flush=True)
    return lines


def missed(lines: Sequence[Line]) -> list[str]:
    """What the figures fall short of; empty when the proof holds."""
    out = []
    for line in lines:
        gap, where = line.figures.gap, f"seed {line.seed}, {line.pictures} pictures"
        if line.training != "filtered":
            continue
        if line.pictures == "true":
            if gap.value is None or gap.value < GOAL or gap.low is None or gap.low <= 0:
                out.append(f"{where}: {_points(gap)} is not at least {GOAL:.0%}")
        elif gap.value is None or abs(gap.value) > LIMIT:
            out.append(f"{where}: {_points(gap)} is not within {LIMIT:.0%}")
    return out


def table(lines: Sequence[Line]) -> str:
    """The lines as a table in Markdown, in percent."""
    head = (
        "seed",
        "trained on",
        "pictures shown",
        "conflict",
        "false alarms",
        "difference [95%]",
        "colour",
        "count",
        "image on originals",
        "incorrect",
    )
    out = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for line in lines:
        f = line.figures
        cells = (
            line.seed,
            line.training,
            line.pictures,
            *(f"{100 * x:.1f}" for x in (f.conflict, f.false_alarms)),
            _points(f.gap),
            *(f"{100 * f.by_category.get(name, 0):.1f}" for name in ("colors", "numbers")),
            *(f"{100 * x:.1f}" for x in (f.image, f.none)),
        )
        out.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(out)


def _points(estimate: Estimate) -> str:
    if estimate.value is None:
        return "n/a"
    value = f"{100 * estimate.value:.1f}"
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def main(argv: list[str] | None = None) -> int:
    """Run the proof; 1 when it does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--pairs", type=int, default=1000, help="pairs of good training rows")
    parser.add_argument("--held-out", type=int, default=200, help="pairs of held-out rows")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--figures", type=Path, default=Path(__file__).with_suffix(".md"))
    args = parser.parse_args(argv)
    started = time.monotonic()
    lines = []
    with tempfile.TemporaryDirectory() as root:
        for seed in args.seeds:
            place = Path(root) / str(seed)
            lines += prove(place, seed, args.pairs, args.held_out, args.epochs)
    shortfalls = missed(lines)
    verdict = "The proof holds." if not shortfalls else "Missed: " + "; ".join(shortfalls) + "."
    command = "python tests/benchmarks/finetune_proof.py " + " ".join(
        f"--{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in (
            ("seeds", args.seeds),
            ("pairs", args.pairs),
            ("held-out", args.held_out),
            ("epochs", args.epochs),
        )
    )
    minutes = (time.monotonic() - started) / 60
    made_on = f"{platform.machine()}, {minutes:.0f} minutes, `{command}`"
    text = "\n\n".join([FIRST, table(lines), verdict, LAST, f"Made on {made_on}."])
    args.figures.write_text(text + "\n", encoding="utf-8")
    print(text)
    return bool(shortfalls)


FIRST = """# Fine-tuning teaches the picture, not the captions

Figures of `finetune_proof.py`, in percent, on held-out drawn pictures. `filtered`: good rows;
`unfiltered`: the same rows and as many spoiled ones, for as many epochs, so twice the steps."""

LAST = """The goal: with the true pictures conflict rate minus false-alarm rate is at least 30
points and its interval lies above 0; with grey pictures, or another row's, it is at most 10 either
way. Intervals are bootstraps over pairs of rows. With grey pictures the two rows of a pair are the
same requests with opposite labels, so the difference is exactly 0 whatever the model answers:
captions tell nothing. Another row's picture agrees with either caption equally often.

Colour and count: the difference among rows that ask for it. Image on originals: the picture's
answer was given to the true caption. Incorrect: nothing was recognised on conflicting captions.

A third of the spoiled rows have a "conflicting" caption that says the same in other words, a third
an original caption that is false as well, a third exchanged answers. What this shows is that the
command makes a model compare caption and picture; it says nothing of how large the effect is on
photographs."""


if __name__ == "__main__":
    raise SystemExit(main())
