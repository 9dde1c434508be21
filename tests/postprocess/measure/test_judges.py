"""Which judges count together: one decision, with its reason and what it covers."""

import pytest

from postprocess.measure.judges import PAPER, combined


def labels(**judges):
    n = max(map(len, judges.values()))
    return [{name: told[i] for name, told in judges.items() if i < len(told)} for i in range(n)]


def test_a_third_judge_never_joins_the_papers_two():
    told = labels(**{PAPER[0]: ["TEXT"] * 4, PAPER[1]: ["NONE"] * 4, "other": ["CONFLICT"] * 4})
    found = combined(told)
    assert set(found.names) == set(PAPER)
    assert found.why == "the paper's judges"
    assert (found.covered, found.n) == (4, 4)


def test_without_the_papers_two_a_judge_that_stopped_early_stands_alone():
    told = labels(a=["TEXT"] * 8, b=["NONE"] * 7, c=["CONFLICT"] * 5)
    found = combined(told)
    assert found.names == ("a", "b")
    assert found.covered == 7


@pytest.mark.parametrize("asked", [["c"], ["c", "a"], ["c", "nobody"]])
def test_judges_that_are_asked_for_are_taken_and_unknown_ones_are_not(asked):
    told = labels(a=["TEXT"] * 3, c=["NONE"] * 2)
    found = combined(told, asked)
    assert found.names == tuple(name for name in asked if name in "ac")
    assert found.covered == 2


def test_nobody_judged():
    assert combined([{}, {}]).names == ()
    assert combined([]).covered == 0


def test_the_order_of_answers_changes_nothing():
    told = labels(a=["TEXT"] * 8, b=["NONE"] * 7, c=["CONFLICT"] * 5)
    assert combined(told[::-1]) == combined(told)
