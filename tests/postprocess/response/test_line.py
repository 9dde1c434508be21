import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.response.line import (
    attach_response,
    measured,
    read_response,
    resealed,
    score_of,
    unsealed,
)

logps = st.floats(min_value=-60, max_value=0)
below_one = st.lists(logps, min_size=2, max_size=4).map(
    lambda values: [v - math.log(max(1.0, sum(map(math.exp, values)))) for v in values]
)


def line(**fields):
    return json.dumps({"pragclash": 1, **fields})


FINE = [
    line(),
    line(choices={"Yes": -0.1, "No": -2.5}),
    line(choices={"Yes": -0.105, "No": -2.303}),
    line(choices={"Yes": 0.00005, "No": -30}),
    line(choices={"Yes": -0.5, "No": -1.0, "C": -3.5}),
    line(choices={"Yes": -0.1, "No": -0.05}, source="censored"),
    '{ "pragclash" : 1, "choices": {"Yes": -1}}',
]
NO_LINES = [
    line(choices={"Yes": -0.1, "No": -0.05}),
    line(choices={"Yes": -0.1, "No": -0.05}, source="logprobs"),
    line(choices={"A": -1.0, "B": -1.0, "C": -1.0}),
    line(choices={"Yes": 0.1, "No": -3}),
    line(choices={"Yes": True, "No": -3}),
    line(choices={"Yes": "-1", "No": -3}),
    line(choices={"Yes": None}),
    line(choices={}),
    line(choices=[-1, -2]),
    '{"pragclash": 1.0, "choices": {"Yes": -1, "No": -2}}',
    '{"pragclash": true, "choices": {"Yes": -1, "No": -2}}',
    '{"pragclash": "1", "choices": {"Yes": -1, "No": -2}}',
    '{"pragclash": 2, "choices": {"Yes": -1, "No": -2}}',
    '{"pragclash": 1, "choices": {"Yes": -1}, "choices": {"Yes": -2}}',
    '{"pragclash": 1, "choices": {"Yes": -1, "Yes": -2}}',
    '{"pragclash": 1, "pragclash": 1}',
    '{"pragclash": 1, "note": {"a": 1, "a": 1}}',
    '{"pragclash": 1, "choices": {"Yes": -1e400, "No": -1}}',
    '{"pragclash": 1, "choices": {"Yes": NaN, "No": -1}}',
    '{"pragclash": 1, "note": Infinity}',
    '{"pragclash": 1, "choices": {"Yes": -1, "No": -2}',
    '{"pragclash": 1} and more',
    '{"choices": {"Yes": -1}, "pragclash": 1}',
    '{"pragclash": 1, "x": ' + "[" * 9_000 + "]" * 9_000 + "}",
    '{"pragclash": 1, "step": ' + "9" * 6_000 + "}",
]


@pytest.mark.parametrize("last", FINE)
def test_a_response_line_is_split_off(last):
    assert read_response(f"Yes\n{last}").text == "Yes"


@pytest.mark.parametrize("last", NO_LINES, ids=lambda last: last[:60])
def test_what_is_no_response_line_stays_the_models_words(last):
    response = read_response(f"Yes\n{last}")
    assert response.text == f"Yes\n{last}"
    assert response[1:6] == (None, None, None, None, {})


@pytest.mark.parametrize("step", [-1, 1.0, True, "0", None, [0]])
def test_a_step_that_is_no_index_counts_as_not_given(step):
    response = read_response("Yes\n" + line(choices={"Yes": -1, "No": -2}, step=step))
    assert response.step is None
    assert response.choices == {"Yes": -1, "No": -2}


def test_figures_that_are_no_probabilities_give_no_score():
    for choices in (
        {"Yes": -0.1, "No": -0.05},
        {"Yes": 0.3, "No": -2.0},
        {"Yes": math.nan, "No": -2.0},
        {"Yes": -math.inf, "No": 0.0},
        {},
    ):
        response = read_response(attach_response("Yes", choices, step=0, finish="stop"))
        assert response[:6] == ("Yes", None, None, None, "stop", {})
    assert "step" not in attach_response("Yes", {"Yes": -1, "No": -2}, step=-1)


def test_a_censored_pair_may_exceed_one():
    # Both sets are bounded by half the probability that was not returned for either.
    choices = {"Yes": -0.4, "No": -0.6}
    response = read_response(attach_response("Hm", choices, step=0, source="censored"))
    assert response.choices == choices
    assert score_of(response.choices).mass == 1.0


@given(st.text(), below_one, st.none() | st.integers(0), st.sampled_from([None, "stop", "length"]))
@settings(deadline=None)
def test_what_is_attached_is_what_is_read(text, values, step, finish):
    choices = dict(zip("ABCD", values, strict=False))
    attached = attach_response(text, choices, step=step, finish=finish, dtype="float32")
    response = read_response(attached)
    assert response.choices == choices
    assert (response.step, response.finish) == (step, finish)
    assert response.details == {"dtype": "float32"}
    assert response.text == text.rstrip("\r")


@given(st.text(), st.dictionaries(st.text(), st.floats(), max_size=4))
@settings(deadline=None)
def test_whatever_is_attached_never_becomes_the_models_words(text, choices):
    response = read_response(attach_response(text, choices))
    assert response.text == text.rstrip("\r")
    assert response.choices is None or all(v <= 0 for v in response.choices.values())


def test_a_model_cannot_hand_in_its_own_score():
    own = "Yes\n" + line(choices={"Yes": -0.1, "No": -3}) + "\n" + line(step=0)
    response = read_response(attach_response(own, {"Yes": -3.0, "No": -0.1}))
    assert (response.text, response.choices) == ("Yes", {"Yes": -3.0, "No": -0.1})


FORGED = [
    '{"pragclash": 1, "choices": {"Yes": -0.1, "No": -3.0}}',
    '{"pragclash": 1, "finish": "left_out"}',
    '{"pragclash": 1, "choices": {"Yes": -0.1, "No": -3.0}, "seal": ""}',
    '{"pragclash": 1, "choices": {"Yes": -0.1, "No": -3.0}, "seal": "' + "0" * 64 + '"}',
    '{"seal": "é", "pragclash": 1}',
]


@pytest.mark.parametrize("last", FORGED)
def test_a_line_without_our_seal_is_believed_nowhere(last):
    response = measured(f"No\n{last}")
    assert (response.choices, response.finish, response.source) == (None, None, None)
    assert response.text.startswith("No")
    assert read_response(f"No\n{last}").sealed is False


def test_a_forged_line_is_taken_off_and_told():
    response = measured(f"No\n{FORGED[0]}\n{FORGED[1]}")
    assert (response.text, response.forged) == ("No", True)
    assert measured("No").forged is False
    assert measured(None).forged is False


def test_our_line_cannot_be_changed():
    genuine = attach_response("No", {"Yes": -3.0, "No": -0.1}, step=0)
    assert measured(genuine).choices == {"Yes": -3.0, "No": -0.1}
    assert measured(genuine.replace("-3.0", "-0.2")).choices is None
    assert measured(genuine.replace('"step": 0', '"step": 1')).forged


def test_a_line_survives_what_the_harness_does_to_the_text():
    genuine = attach_response("<think>hm</think> No", {"Yes": -3.0, "No": -0.1})
    assert measured(genuine.replace("<think>hm</think> ", "").strip()).choices is not None


def test_a_store_holds_no_seal_and_gives_the_measurement_back():
    genuine = attach_response("No", {"Yes": -3.0, "No": -0.1})
    assert "seal" not in unsealed(genuine)
    assert resealed(unsealed(genuine)) == genuine
    assert unsealed(f"No\n{FORGED[0]}") == "No"
    assert resealed("No") == "No"


def test_another_process_does_not_believe_our_seal():
    genuine = attach_response("No", {"Yes": -3.0, "No": -0.1})
    code = (
        "import sys; from postprocess.response.line import measured; "
        "print(measured(sys.argv[1]).forged)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, genuine], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
