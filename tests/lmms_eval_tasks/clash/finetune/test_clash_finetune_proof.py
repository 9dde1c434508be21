"""Fine-tuning makes a model look at the picture; the short form of benchmarks/finetune_proof.py."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from lmms_eval_tasks.clash.data import check_row, check_rows
from tests.benchmarks import finetune_proof as proof

pytest.importorskip("peft")


def test_text_alone_tells_nothing():
    made = proof.rows_of(0, 50)
    seen: dict[str, Counter[tuple[str, str]]] = {"conflicting": Counter(), "original": Counter()}
    for row, _ in made:
        for kind, counts in seen.items():
            counts[row[f"{kind}_caption"], row["question"]] += 1
    assert seen["conflicting"] == seen["original"]


def test_rows_good_and_spoiled_are_rows():
    rng = random.Random(0)
    made = proof.rows_of(1, 50)
    bad = [proof.spoiled(one, rng) for one in made]
    for rows in ([row for row, _ in made], [row for row, _ in bad]):
        assert not [fault for row in rows for fault in check_row(row)]
        assert not check_rows(list(enumerate(rows)))
    faults = Counter(row["extra"]["fault"] for row, _ in bad)
    assert min(faults[name] for name in ("no_change", "false_original", "exchanged")) > 20
    for (good, _), (row, _) in zip(made, bad, strict=True):
        fault, true = row["extra"]["fault"], good["image_answer"]
        assert (true in row["conflicting_caption"].split()) == (fault == "no_change")
        assert (true in row["original_caption"].split()) == (fault != "false_original")
        assert (row["image_answer"] == true) == (fault == "no_change")


def test_swapping_leaves_nobody_its_own_picture():
    made = proof.rows_of(2, 20)
    other = proof.swapped(made, 0)
    assert [row for row, _ in other] == [row for row, _ in made]
    assert Counter(picture for _, picture in other) == Counter(picture for _, picture in made)
    assert not any(a[1] == b[1] for a, b in zip(made, other, strict=True))


@pytest.mark.slow
def test_after_training_conflicts_are_seen_in_pictures_and_in_nothing_else(tmp_path):
    torch.set_num_threads(1)
    colour = ("colour",)
    held_out = proof.rows_of(9, 100, first=10**6, attributes=colour)
    proof.folder_of(tmp_path / "train", proof.rows_of(0, 400, attributes=colour))
    proof.folder_of(tmp_path / "test", held_out)
    base, adapter = proof.untrained(tmp_path / "base", 0), tmp_path / "adapter"
    before = proof.figures(proof.asked_here(base, None, held_out)).gap
    proof.tune(base, tmp_path / "train", tmp_path / "test", adapter, seed=0, epochs=8)
    shown = {
        "true": held_out,
        "grey": proof.blanked(held_out),
        "another row's": proof.swapped(held_out, 1),
    }
    lines = [
        proof.Line(0, "filtered", name, proof.figures(proof.asked_here(base, adapter, made)))
        for name, made in shown.items()
    ]
    assert not proof.missed(lines), proof.table(lines)
    assert before.value is not None
    assert abs(before.value) < proof.LIMIT
