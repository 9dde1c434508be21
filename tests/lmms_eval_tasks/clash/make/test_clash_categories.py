"""Categories by co-membership, the release's lists, agreement, candidates."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_eval_tasks.clash.data import CATEGORIES
from lmms_eval_tasks.clash.make.check.samples import read_rows
from lmms_eval_tasks.clash.make.word_lists.categories import (
    CONSTANTS_FILE,
    agreement,
    categories_of,
    derive,
    is_member,
    own_lists,
    read_lists,
    release_lists,
)
from lmms_eval_tasks.clash.make.word_lists.lexicon import LISTED
from pragclash.cli.data_clash_categories import add_arguments, run
from tests import ROOT
from tests.lmms_eval_tasks.clash_fixtures import clash_folder


@pytest.mark.parametrize(
    ("original", "conflicting", "kind", "expected"),
    [
        ("dog", "cat", "object", ["animals"]),
        ("DOGS", "a cat", "object", ["animals"]),
        ("dog", "bus", "object", ["other"]),
        ("skateboard", "bicycle", "object", ["transportation", "sports"]),
        ("red", "blue", "attribute", ["colors"]),
        ("a", "two", "attribute", ["numbers"]),
        ("2", "three", "attribute", ["numbers"]),
        ("wooden", "metal", "attribute", ["materials"]),
        ("red", "two", "attribute", ["other"]),
        ("dog", "cat", "attribute", ["other"]),
        ("", "", "object", ["other"]),
    ],
)
def test_both_words_must_be_members(
    original: str, conflicting: str, kind: str, expected: list[str]
) -> None:
    assert categories_of(original, conflicting, kind, own_lists()) == expected


def test_every_category_but_other_has_a_list_and_no_word_is_empty() -> None:
    lists = own_lists()
    assert set(lists) == {name for names in LISTED.values() for name in names}
    assert all(len(words) >= 10 and all(words) for words in lists.values())


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(LISTED["object"])), st.data())
def test_order_and_number_of_words_change_no_category(name: str, data: Any) -> None:
    words = sorted(own_lists()[name])
    one, other = data.draw(st.sampled_from(words)), data.draw(st.sampled_from(words))
    found = categories_of(one, other, "object", own_lists())
    assert name in found
    assert found == categories_of(other.upper(), one.title(), "object", own_lists())


def test_members_are_found_in_both_numbers() -> None:
    assert all(is_member(x, frozenset({"knife", "city", "box", "man", "cats"}))
               for x in ("knives", "cities", "boxes", "men", "cat"))  # fmt: skip
    assert not any(is_member(x, frozenset({"car"})) for x in ("carpet", "ca", "", "scar"))


def test_agreement_against_a_plain_count(golden: Path | None) -> None:
    if golden is None:
        sample = ROOT / "lmms_eval_tasks" / "sample" / "clash.jsonl"
        rows = [json.loads(line) for line in sample.read_text().splitlines()]
    else:
        read = read_rows(golden / "golden" / "clash" / "test.json.gz")
        rows = [one.row for one in read if one.row]
    first = [
        categories_of(r["original_word"], r["conflicting_word"], r["change_type"], own_lists())
        for r in rows
    ]
    second = [r["categories"] for r in rows]
    table, same = agreement(first, second)
    assert same == sum(sorted(a) == sorted(b) for a, b in zip(first, second, strict=True))
    stored = Counter(name for labels in second for name in labels)
    counted = {row.category: row.both + row.second_only for row in table}
    assert counted == {name: stored[name] for name in counted}
    assert golden is None or same / len(rows) >= 0.8, "the lists no longer cover what people change"


def test_lists_of_a_release_are_read_without_running_it(tmp_path: Path) -> None:
    path = tmp_path / CONSTANTS_FILE
    path.parent.mkdir(parents=True)
    path.write_text(
        "import os\nos.kill(os.getpid(), 9)\n"
        'OBJECT_CATEGORIES = {"animals": ["Heron", "the goose"]}\n'
        'ATTRIBUTE_CATEGORIES = {"colors": ["puce"]}\n'
    )
    lists = release_lists(tmp_path)
    assert lists == {"animals": {"heron", "goose"}, "colors": {"puce"}}
    assert categories_of("herons", "geese", "object", lists) == ["other"]
    assert categories_of("herons", "goose", "object", lists) == ["animals"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("OBJECT_CATEGORIES = {", "not readable as Python"),
        ("OBJECT_CATEGORIES = make()", "no plain value"),
        ("OTHER = 1", "assigns none of"),
        ('OBJECT_CATEGORIES = {"cars": []}', "no plain value"),
    ],
)
def test_lists_that_cannot_be_read_are_one_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / CONSTANTS_FILE
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ValueError, match=why):
        read_lists(tmp_path)


def test_candidates_come_from_frequent_pairs_and_spread_from_the_seeds() -> None:
    def rows(one: str, other: str, times: int) -> list[dict[str, str]]:
        pair = {"original_word": one, "conflicting_word": other, "change_type": "object"}
        return [pair] * times

    data = [
        *rows("dog", "wombat", 4),  # next to a listed word
        *rows("wombat", "numbat", 3),  # next to a candidate only
        *rows("dog", "chair", 1),  # too rare
        *rows("table", "cat", 2), *rows("stone", "cat", 3), *rows("stone", "moon", 9),
    ]  # fmt: skip
    found = {(one.category, one.word): one.pairs for one in derive(data, own_lists())}
    assert found == {("animals", "wombat"): 7, ("animals", "numbat"): 3}
    assert derive(list(reversed(data)), own_lists()) == derive(data, own_lists())


def test_the_command_shows_agreement_and_candidates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = clash_folder(tmp_path / "clash")
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert run(parser.parse_args([str(folder), "--derive", "--json"])) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["n"] == 14
    assert report["compared_with"] == "stored"
    known = {name for names in CATEGORIES.values() for name in names}
    assert {row["category"] for row in report["categories"]} <= known
    assert run(parser.parse_args([str(folder), "--derive"])) == 0
    assert "own lists and stored" in capsys.readouterr().out
    lists = tmp_path / "lists.json"
    lists.write_text(json.dumps({"animals": ["kite", "drone"]}))
    assert run(parser.parse_args([str(folder), "--lists", str(lists), "--json"])) == 0
    report = json.loads(capsys.readouterr().out)
    animals = next(row for row in report["categories"] if row["category"] == "animals")
    assert animals["second_only"] > 0
