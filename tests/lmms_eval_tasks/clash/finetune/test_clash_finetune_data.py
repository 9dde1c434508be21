"""Which rows are trained on, in which order and with which caption, and what of it is learnt."""

from __future__ import annotations

import doctest
import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForImageTextToText, AutoProcessor

from lmms_eval_tasks.clash import task
from lmms_eval_tasks.clash.data import OfficialPrompt, prompt_hash
from lmms_eval_tasks.clash.finetune import card as finetune_card
from lmms_eval_tasks.clash.finetune import data as finetune_data
from lmms_eval_tasks.clash.finetune.data import (
    CONFLICT_TARGET,
    IGNORED,
    Collator,
    Draw,
    Examples,
    HeldOut,
    answer_tokens,
    asked_of,
    draws,
    held_out_pictures,
    keep,
    prompt_of,
    prompt_text,
    target_of,
)
from lmms_eval_tasks.clash.options import CONFLICT_OPTION, option_order
from lmms_eval_tasks.clash.prompts import INSTRUCTIONS, compose
from lmms_eval_tasks.dataset.folder import load_folder
from postprocess.read.matching import choice_outcome, letters_of, open_outcome
from tests.lmms_eval_tasks.clash_fixtures import clash_folder, clash_rows, picture
from tests.model_wrappers.tiny import BUILDERS, CHAT_TEMPLATE, TinyModels, tiny_models

__all__ = ["tiny_models"]

HEAD = INSTRUCTIONS["open_ended"]
ASKED = asked_of({})
NOTHING = HeldOut(frozenset(), frozenset(), None)
ids = st.lists(st.text("abcdef0123456789-", min_size=1, max_size=8), max_size=40, unique=True)


def test_the_examples_in_the_docstrings_hold():
    for module in (finetune_data, finetune_card):
        assert doctest.testmod(module).failed == 0


@given(ids, st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_every_row_is_drawn_once_an_epoch(sample_ids, seed, epochs):
    order = draws(sample_ids, seed, epochs)
    for epoch in range(epochs):
        part = order[epoch * len(sample_ids) : (epoch + 1) * len(sample_ids)]
        assert sorted(draw.row for draw in part) == list(range(len(sample_ids)))


@given(ids, st.integers(0, 1000), st.randoms(use_true_random=False))
def test_draws_do_not_depend_on_the_order_of_the_rows(sample_ids, seed, rng):
    shuffled = rng.sample(sample_ids, len(sample_ids))
    named = [
        [(names[draw.row], draw.kind) for draw in draws(names, seed, 2)]
        for names in (sample_ids, shuffled)
    ]
    assert named[0] == named[1]


@pytest.mark.parametrize("seed", range(5))
def test_either_caption_is_as_likely_wherever_a_draw_stands(seed):
    kinds = [draw.kind for draw in draws([f"s{n}" for n in range(10_000)], seed)]
    # Five standard deviations of a fair coin, over all draws and over the first quarter.
    assert abs(Counter(kinds)["conflicting"] - 5000) < 250
    assert abs(Counter(kinds[:2500])["conflicting"] - 1250) < 125
    # Neighbours have nothing to do with each other.
    same = sum(a == b for a, b in itertools.pairwise(kinds))
    assert abs(same - 5000) < 250


def test_another_epoch_and_another_seed_draw_anew():
    names = [f"s{n}" for n in range(200)]
    both = draws(names, 0, 2)
    assert both[:200] == draws(names, 0)
    parts = (both[:200], both[200:], draws(names, 1))
    kinds = [{draw.row: draw.kind for draw in part} for part in parts]
    for one, other in ((0, 1), (0, 2)):
        assert 50 < sum(kinds[one][row] != kinds[other][row] for row in range(200)) < 150
    assert [draw.row for draw in both[:200]] != [draw.row for draw in both[200:]]


def test_targets_score_as_what_they_stand_for():
    for row in clash_rows():
        answers = row["image_answer"], row["text_answer"]
        conflict = open_outcome(target_of(row, ASKED, Draw(0, "conflicting")), *answers)
        image = open_outcome(target_of(row, ASKED, Draw(0, "original")), *answers)
        assert (conflict.outcome, conflict.overlap) == ("conflict", False)
        assert image.outcome == "image"


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("Look. Else say 'Conflicting information – cannot answer'.", CONFLICT_OPTION[:-1]),
        (
            "Or: conflicting information - cannot answer. Be brief.",
            "Conflicting information - cannot answer.",
        ),
        ('If so, say "Conflicting information".', "Conflicting information"),
        ("Say what is there.", CONFLICT_OPTION),
    ],
)
def test_what_is_taught_is_what_the_releases_instruction_asks_for(text, target):
    asked = asked_of({"open_ended": OfficialPrompt(text, prompt_hash(text))})
    assert (asked.target, asked.target_from) == (target, "official")
    assert (ASKED.target, ASKED.target_from) == (CONFLICT_TARGET, "pragclash")
    assert open_outcome(asked.target, "kite", "drone").outcome == "conflict"


def test_multiple_choice_rows_are_drawn_beside_open_ones_and_taught_their_letter():
    rows = clash_rows()
    names = [row["sample_id"] for row in rows]
    order = draws(names, 0, 1, ("open", "mc"))
    for form in (False, True):
        assert sorted(x.row for x in order if bool(x.order) == form) == list(range(len(rows)))
    assert [x for x in order if x.order is None] == draws(names, 0)
    for draw in order:
        row = rows[draw.row]
        if draw.order is not None:
            text = prompt_text(row, ASKED, draw)
            caption = row[f"{draw.kind}_caption"]
            assert text == compose(INSTRUCTIONS["multiple_choice"], row, caption, draw.order)
            read = choice_outcome(target_of(row, ASKED, draw), letters_of(draw.order))
            assert read.outcome == ("conflict" if draw.kind == "conflicting" else "image")
    shown = {x.row: x.order for x in order if x.order is not None}
    assert any(shown[i] != option_order(name) for i, name in enumerate(names))


def test_a_row_with_too_much_text_is_dropped_and_counted(tmp_path):
    rows = clash_rows()
    rows[3]["question"] += " Really?" * 200
    folder = load_folder(clash_folder(tmp_path / "train", rows), "clash")
    words = lambda text: len(text.split())  # noqa: E731
    kept = keep(folder, NOTHING, ASKED, ("open", "mc"), (), 200, words)
    assert (kept.too_long, len(kept.rows)) == (1, len(rows) - 1)
    assert "1 are too long" in kept.lost()
    assert keep(folder, NOTHING, ASKED, ("open",), (), 0, words).too_long == 0


def test_pictures_of_the_test_set_are_found_by_id_and_by_file(tmp_path):
    rows = clash_rows()
    folder = load_folder(clash_folder(tmp_path / "train", rows), "clash")
    # Row 0's picture under another id, and row 1's id with another picture.
    same_file = {**rows[0], "sample_id": "a", "image_id": "9100", "image": "images/9100.png"}
    same_id = {**rows[1], "sample_id": "b"}
    assert picture(9100) != picture(int(rows[0]["image_id"]))
    test = clash_folder(tmp_path / "test", [same_file, same_id])
    (test / "images" / "9100.png").write_bytes(picture(int(rows[0]["image_id"])))
    (test / same_id["image"]).write_bytes(picture(77))
    kept = keep(folder, held_out_pictures(folder, load_folder(test, "clash")), ASKED)
    lost = {rows[0]["image_id"], rows[1]["image_id"]}
    assert kept.in_test_set == sum(row["image_id"] in lost for row in rows)
    assert not lost & {row["image_id"] for row in kept.rows}
    assert len(kept.rows) + kept.in_test_set == len(rows)


def test_a_tested_picture_that_is_missing_there_is_dropped_all_the_same(tmp_path):
    rows = clash_rows()
    folder = load_folder(clash_folder(tmp_path / "train", rows), "clash")
    test = clash_folder(tmp_path / "test", rows[:2])
    (test / rows[0]["image"]).unlink()
    kept = keep(folder, held_out_pictures(folder, load_folder(test, "clash")), ASKED)
    assert rows[0]["image_id"] not in {row["image_id"] for row in kept.rows}


def test_pictures_that_the_manifest_lists_are_dropped(tmp_path):
    rows = clash_rows()
    listed = [rows[4]["image_id"]]
    path = clash_folder(tmp_path / "d", rows, pictures_of_the_test_set=listed)
    folder = load_folder(path, "clash")
    tested = held_out_pictures(folder, None)
    assert tested.source == "manifest"
    kept = keep(folder, tested, ASKED)
    assert kept.in_test_set == sum(row["image_id"] in listed for row in rows) == 2


def test_a_manifest_that_lists_no_ids_is_an_error(tmp_path):
    path = clash_folder(tmp_path / "d", pictures_of_the_test_set={"1": 2})
    with pytest.raises(ValueError, match=r"manifest\.json: pictures_of_the_test_set"):
        held_out_pictures(load_folder(path, "clash"), None)


def test_missing_pictures_and_control_tokens_are_counted(tmp_path):
    rows = clash_rows()
    rows[2]["conflicting_caption"] = "The bench <image> is made of wood"
    path = clash_folder(tmp_path / "d", rows)
    (path / rows[0]["image"]).write_bytes(b"")
    kept = keep(load_folder(path, "clash"), NOTHING, ASKED, ("open",), ("</s>", "<image>"))
    assert (kept.without_picture, kept.unusable_text) == (1, 1)
    assert {rows[0]["sample_id"], rows[2]["sample_id"]}.isdisjoint(
        row["sample_id"] for row in kept.rows
    )


def examples_of(tmp_path: Path, n: int = 6) -> Examples:
    rows = clash_rows(n)
    order = draws([row["sample_id"] for row in rows], 0)
    assert len({draw.kind for draw in order}) == 2
    return Examples(rows, clash_folder(tmp_path / "data", rows), ASKED, order)


@pytest.mark.parametrize("backend", sorted(BUILDERS))
def test_tokens_before_the_answer_are_those_of_the_evaluation(
    backend: str, tiny_models: TinyModels, tmp_path: Path
) -> None:
    """The reference is the task's own chat message through a fresh processor."""
    folder = tiny_models(backend)
    examples = examples_of(tmp_path)
    processor = AutoProcessor.from_pretrained(folder)
    fresh = AutoProcessor.from_pretrained(folder)
    tokenizer = fresh.tokenizer
    batch = Collator(processor)([examples[index] for index in range(len(examples))])
    for index, draw in enumerate(examples.order):
        row = examples.rows[draw.row]
        with_picture = {
            **row,
            "image": _opened(examples.folder / row["image"]),
            "caption": row[f"{draw.kind}_caption"],
            "instruction": HEAD,
            "option_order": None,
        }
        messages = task.doc_to_messages(with_picture)
        prompt = fresh.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        inputs = fresh(text=[prompt], images=[[with_picture["image"]]], return_tensors="pt")
        n = inputs["input_ids"].shape[1]
        assert batch["input_ids"][index, :n].tolist() == inputs["input_ids"][0].tolist()
        assert (batch["labels"][index, :n] == IGNORED).all()
        length = int(batch["attention_mask"][index].sum())
        learnt = batch["labels"][index, n:length]
        assert learnt.tolist() == batch["input_ids"][index, n:length].tolist()
        assert learnt[-1] == tokenizer.eos_token_id
        assert tokenizer.decode(learnt, skip_special_tokens=True).strip() == target_of(
            row, ASKED, draw
        )
        assert (batch["labels"][index, length:] == IGNORED).all()
        assert (batch["attention_mask"][index, length:] == 0).all()


def _opened(path: Path) -> Any:
    from PIL import Image

    with Image.open(path) as image:
        image.load()
        return image


@pytest.mark.parametrize("backend", sorted(BUILDERS))
def test_a_batch_loses_what_its_examples_lose(
    backend: str, tiny_models: TinyModels, tmp_path: Path
) -> None:
    """The reference reads the log-probabilities of the answers off the logits, row by row."""
    folder = tiny_models(backend)
    model = AutoModelForImageTextToText.from_pretrained(folder).eval()
    collator = Collator(AutoProcessor.from_pretrained(folder))
    examples = examples_of(tmp_path, 4)
    parts = [examples[index] for index in range(len(examples))]
    with torch.no_grad():
        loss = model(**collator(parts)).loss
        found = []
        for part in parts:
            batch = collator([part])
            labels = batch.pop("labels")[0]
            rows = torch.log_softmax(model(**batch).logits[0].double(), dim=-1)
            found += [
                -float(rows[at - 1, labels[at]]) for at in range(len(labels)) if labels[at] >= 0
            ]
    assert float(loss) == pytest.approx(sum(found) / len(found), rel=1e-3)


@pytest.mark.parametrize("ending", ["ASSISTANT:", "ASSISTANT: ", "<s>", "###"])
@settings(max_examples=20, deadline=None)
@given(target=st.sampled_from(["kite", "Conflicting information.", "3", " two dogs ", "<odd>"]))
def test_an_answer_starts_where_the_evaluations_prompt_ends(ending, target, tiny_models):
    processor = AutoProcessor.from_pretrained(tiny_models("llava_hf"))
    processor.chat_template = CHAT_TEMPLATE.replace("PLACEHOLDER", "<image>").replace(
        "ASSISTANT: ", ending
    )
    tokenizer = processor.tokenizer
    prompt = prompt_of(processor, "What?")
    tokens = answer_tokens(processor, prompt, "What?", target)
    assert tokens[-1] == tokenizer.eos_token_id
    assert tokens.count(tokenizer.eos_token_id) == 1
    assert tokenizer.decode(tokens, skip_special_tokens=True).strip() == target.strip()


def test_the_order_of_rows_in_a_batch_moves_nothing(tiny_models, tmp_path):
    collator = Collator(AutoProcessor.from_pretrained(tiny_models("llava_hf")))
    examples = examples_of(tmp_path)
    parts = [examples[index] for index in range(len(examples))]
    order = random.Random(3).sample(range(len(parts)), len(parts))
    one, other = collator(parts), collator([parts[index] for index in order])
    for name in ("input_ids", "labels", "attention_mask", "pixel_values"):
        assert torch.equal(one[name][order], other[name]), name
