import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.measure.groups import (
    SLOTS,
    Answer,
    AnswerError,
    DuplicateSampleError,
    MixedDataError,
    SlotConflictError,
    complete,
    group_by_picture,
)
from tests.postprocess.pragmatch_answers import answer, runs

slot_sets = st.lists(st.sampled_from(SLOTS), min_size=1, unique=True).map(tuple)
RECORD = {
    "image_id": "892551658487631873",
    "sample_id": "892551658487631873-P",
    "condition": "P",
    "cue": "style",
    "edit": "mask",
    "label": 1,
    "verdict": 0,
    "correct": 0,
    "s": -1,
    "status": "ok",
    "n_omitted": 2,
    "response": "No",
}


def test_an_answer_is_what_its_record_says():
    found = Answer.of(RECORD)
    assert found.image_id == "892551658487631873"
    assert found.slot == "P-"
    assert isinstance(found.s, float)


@given(runs())
@settings(max_examples=60, deadline=None)
def test_answers_survive_a_way_through_json(answers):
    for one in answers:
        assert Answer.from_list(json.loads(json.dumps(one.to_list()))) == one
        assert Answer.of(json.loads(json.dumps(one._asdict()))) == one


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("image_id", 892551658487631873),
        ("image_id", 8.925516584876319e17),
        ("image_id", ""),
        ("condition", "Q"),
        ("condition", None),
        ("edit", "inject"),
        ("edit", 1),
        ("cue", 3),
        ("label", 0),
        ("label", 1.0),
        ("label", True),
        ("verdict", 2),
        ("verdict", True),
        ("verdict", "No"),
        ("verdict", None),
        ("correct", 1),
        ("correct", None),
        ("correct", False),
        ("s", float("nan")),
        ("s", float("inf")),
        ("s", "0.5"),
        ("s", True),
        ("status", "unusable"),
        ("status", "fine"),
        ("n_omitted", -1),
        ("n_omitted", None),
    ],
)
def test_a_wrong_field_is_refused_with_the_sample_and_the_field(field, value):
    with pytest.raises(AnswerError, match="892551658487631873-P") as refused:
        Answer.of({**RECORD, field: value})
    assert field in str(refused.value)
    values = Answer.of(RECORD).to_list()
    values[Answer._fields.index(field)] = value
    with pytest.raises(AnswerError, match="892551658487631873-P"):
        Answer.from_list(values)


def test_a_wrong_sample_id_is_refused():
    with pytest.raises(AnswerError, match="sample_id is 7"):
        Answer.of({**RECORD, "sample_id": 7})


@pytest.mark.parametrize("field", Answer._fields)
def test_a_missing_field_is_named(field):
    with pytest.raises(AnswerError, match=field):
        Answer.of({key: value for key, value in RECORD.items() if key != field})


@pytest.mark.parametrize("values", [[], ["7", "7-P"], [*Answer.of(RECORD).to_list(), 1], "7-P"])
def test_a_list_of_another_length_is_refused(values):
    with pytest.raises(AnswerError, match="11 values"):
        Answer.from_list(values)


@pytest.mark.parametrize(
    ("condition", "edit", "slot"),
    [
        ("P", None, "P"),
        ("M", None, "M"),
        ("L", None, "L"),
        ("P", "mask", "P-"),
        ("M", "inject", "M+"),
    ],
)
def test_the_slot_follows_from_condition_and_edit(condition, edit, slot):
    one = Answer.of(RECORD)._replace(condition=condition, edit=edit)
    assert one.slot == slot


@pytest.mark.parametrize(("condition", "edit"), [("P", "inject"), ("M", "mask"), ("L", "mask")])
def test_an_edit_of_the_wrong_condition_has_no_slot(condition, edit):
    with pytest.raises(AnswerError, match="892551658487631873-P"):
        _ = Answer.of(RECORD)._replace(condition=condition, edit=edit).slot


def test_the_same_sample_twice_is_refused_even_where_both_agree():
    one = answer("7", "P", 1)
    for call in (group_by_picture, lambda answers: complete(answers, ("P", "M"))):
        with pytest.raises(DuplicateSampleError, match="'7-P' of picture '7'"):
            call([one, answer("7", "M", 0), one])
    with pytest.raises(DuplicateSampleError):
        group_by_picture([one, one._replace(image_id="8")])


def test_two_samples_for_one_slot_are_refused_by_name():
    lexical = answer("7", "P-", 1)._replace(cue="lexical", sample_id="7-lexical")
    style = answer("7", "P-", 1)._replace(cue="style", sample_id="7-style")
    with pytest.raises(SlotConflictError, match=r"'7-lexical' and '7-style'"):
        group_by_picture([lexical, style])


def test_answers_of_different_data_are_refused():
    one, other = answer("7", "P", 1, n_omitted=0), answer("8", "P", 1, n_omitted=3)
    with pytest.raises(MixedDataError, match="0 by sample '7-P', 3 by sample '8-P'"):
        complete([one, other], ("P",))


@pytest.mark.parametrize("slots", [(), ("P", "P"), ("P", "Q"), ("p",)])
def test_slots_that_mean_nothing_are_refused(slots):
    with pytest.raises(ValueError, match="slots"):
        complete([], slots)


def test_left_out_counts_half_pictures_and_omitted_ones_once():
    answers = [
        answer("1", "P", 1, n_omitted=4),
        answer("1", "M", 0, n_omitted=4),
        answer("2", "P", 1, n_omitted=4),
        answer("3", "L", 0, n_omitted=4),
    ]
    found = complete(answers, ("P", "M"))
    assert list(found.groups) == ["1"]
    assert found.left_out == 5


def test_neighbours_do_not_make_a_pair():
    answers = [answer("1", "P", 1), answer("2", "M", 0), answer("2", "P", 0), answer("1", "M", 1)]
    groups = complete(answers, ("P", "M")).groups
    assert [a.image_id for g in groups.values() for a in g.values()] == ["1", "1", "2", "2"]


@given(runs(), slot_sets, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_groups_and_their_order_do_not_depend_on_the_order_of_answers(answers, slots, draw):
    other = list(answers)
    draw.shuffle(other)
    first, second = complete(answers, slots), complete(other, slots)
    assert first == second
    assert list(first.groups) == sorted(first.groups) == list(second.groups)
    assert all(tuple(group) == slots for group in first.groups.values())


@given(runs(), slot_sets)
@settings(max_examples=100, deadline=None)
def test_every_asked_picture_is_complete_or_left_out(answers, slots):
    found = complete(answers, slots)
    asked = {a.image_id for a in answers if a.slot in slots}
    n_omitted = answers[0].n_omitted if answers else 0
    assert len(found.groups) + found.left_out == len(asked) + n_omitted
    assert sum(len(g) for g in group_by_picture(answers).values()) == len(answers)


def test_a_vote_never_cast_leaves_its_picture_out_and_is_neither_right_nor_wrong():
    cast = [answer("1", "P", 1), answer("1", "M", 0), answer("2", "P", 1)]
    uncast = answer("2", "M", None)._replace(status="left_out")
    alone = answer("3", "P", None)._replace(status="left_out")
    found = complete([*cast, uncast, alone], ("P", "M"))
    assert (list(found.groups), found.left_out) == (["1"], 2)
    assert set(group_by_picture([*cast, uncast, alone])) == {"1", "2"}
