"""The order of options is fixed by the sample, and fair over samples."""

import hashlib
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from lmms_eval_tasks.clash.options import (
    CONFLICT_OPTION,
    conflict_letter,
    option_lines,
    option_order,
    rotate,
)
from postprocess.read.matching import letters_of
from tests import KNOWN_ANSWERS

KNOWN = json.loads((KNOWN_ANSWERS / "clash_option_order.json").read_text("utf-8"))
ORDERS = st.permutations("itdc").map("".join)
ROW = {"image_answer": "a kite", "text_answer": "a drone", "distractor": "a gull"}


def reference(sample_id: str, seed: int) -> str:
    """The order by its rank among all orders, digit by digit of a mixed-radix number."""
    rank = int(hashlib.sha256(f"{seed}:{sample_id}".encode()).hexdigest(), 16) % 24
    left, order = list("itdc"), ""
    for size in (6, 2, 1, 1):
        place, rank = divmod(rank, size)
        order += left.pop(place)
    return order


@pytest.mark.parametrize("row", KNOWN, ids=[row["name"] for row in KNOWN])
def test_known_answers(row):
    assert option_order(**row["input"]) == row["expected"], row["why"]


@given(st.text(min_size=1).filter(lambda x: x.isascii()), st.integers())
def test_the_order_equals_the_reference(sample_id, seed):
    assert option_order(sample_id, seed) == reference(sample_id, seed)


def test_all_orders_are_equally_likely():
    counts = Counter(option_order(f"{i}-{i * 7919 % 65536:04x}") for i in range(24_000))
    assert len(counts) == 24
    assert chisquare(list(counts.values())).pvalue > 0.001


def test_another_seed_shuffles_anew():
    changed = sum(option_order(str(i), 0) != option_order(str(i), 1) for i in range(2400))
    assert 2200 < changed < 2400


@given(ORDERS)
def test_over_four_rotations_every_option_has_every_letter_once(order):
    turns = [rotate(order, rotation) for rotation in range(4)]
    assert turns[0] == order
    for place in range(4):
        assert sorted(turn[place] for turn in turns) == sorted("itdc")
    assert sorted(conflict_letter(turn) for turn in turns) == list("ABCD")


@given(ORDERS)
def test_lines_and_letters_agree(order):
    lines = dict(line[1:].split(") ", 1) for line in option_lines(ROW, order))
    assert list(lines) == list("ABCD")
    letters = letters_of(order)
    assert lines[letters["conflict"]] == CONFLICT_OPTION
    assert lines[letters["image"]] == "a kite"
    assert lines[letters["text"]] == "a drone"
    assert lines[letters["distractor"]] == "a gull"
    assert conflict_letter(order) == letters["conflict"]


def test_the_conflict_option_is_the_benchmarks():
    assert CONFLICT_OPTION == "Conflicting information \N{EN DASH} cannot answer."
