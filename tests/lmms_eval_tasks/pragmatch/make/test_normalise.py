"""One surface form for all captions."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_eval_tasks.pragmatch.make.normalise import normalise

PIECES = ["It's", "don't", "A dog", "@sam", "www.x.org/y", "3.5", "2,000", "...", "…", "!", "“no”"]
PIECES += [
    ".",
    "<user>",
    "<num>",
    "#fun",
    "wi-fi",
    ":)",
    "7th",
    "'s",
    "'",
    "\u00df",
    "I\u0307",
    "-",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=9).map(" ".join)))
@settings(deadline=None)
def test_twice_is_once(text):
    assert normalise(normalise(text)) == normalise(text)


@given(st.text(alphabet=st.characters(codec="ascii")))
@settings(deadline=None)
def test_no_capital_and_no_double_space_is_left(text):
    form = normalise(text)
    assert form == form.lower() == " ".join(form.split())


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("A dog on a couch.", "a dog on a couch"),
        ("It’s “great”…", 'it \'s " great " ...'),
        ("can't @Bob_1 do it?!", "can 't <user> do it ? !"),
        ("mail bob@example or 0@A", "mail bob <user> or <num> <user>"),
        ("See https://t.co/Abc now", "see now"),
        ("#Monday at 10:30, 2,000 people", "# monday at <num> , <num> people"),
        ("the 7th wi-fi :)", "the 7th wi-fi :)"),
        ("<user> <num> stay", "<user> <num> stay"),
        ("end. .", "end"),
        ("", ""),
    ],
)
def test_known_forms(text, form):
    assert normalise(text) == form


def test_mmsds_own_texts_hardly_change(shared):
    """The form is MMSD2.0's: its texts keep nearly all of their tokens."""
    path = shared / "golden" / "mmsd" / "mmsd2_test.json.gz"
    texts = [post["text"] for post in json.loads(gzip.decompress(path.read_bytes()))]
    kept = total = 0
    for text in texts:
        before = text.split()
        while before and before[-1] == ".":
            before.pop()
        after = normalise(text).split()
        total += len(before)
        kept += sum(token in after for token in before)
    assert kept / total > 0.97
