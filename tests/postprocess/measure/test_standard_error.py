import numpy as np
import pytest

from postprocess.measure.groups import Answer
from postprocess.measure.standard_error import accuracy_stderr


def answer(picture: int, condition: str, correct: int) -> Answer:
    label = int(condition == "P")
    verdict = label if correct else 1 - label
    return Answer(
        image_id=str(picture),
        sample_id=f"{picture}-{condition}",
        condition=condition,
        cue=None,
        edit=None,
        label=label,
        verdict=verdict,
        correct=correct,
        s=None,
        status="ok",
        n_omitted=0,
    )


@pytest.mark.parametrize("seed", range(5))
def test_error_is_that_of_the_mean_over_pictures(seed):
    correct = np.random.default_rng(seed).integers(0, 2, (40, 3))
    answers = [
        answer(i, condition, int(correct[i, j]))
        for i in range(40)
        for j, condition in enumerate("PML")
    ]
    means = correct[:, :2].mean(axis=1)
    expected = means.std(ddof=1) / np.sqrt(40)
    assert accuracy_stderr(answers, ("P", "M", "L")) == pytest.approx(expected, rel=1e-12)


def test_half_pairs_and_literal_captions_do_not_count():
    pairs = [answer(i, c, (i + (c == "M")) % 3 > 0) for i in range(6) for c in "PM"]
    more = [answer(0, "L", 0), answer(99, "P", 1)]
    assert accuracy_stderr(pairs + more, ("P", "M")) == accuracy_stderr(pairs, ("P", "M"))


def test_one_picture_has_no_error():
    assert accuracy_stderr([answer(1, "P", 1), answer(1, "M", 1)], ("P", "M")) is None
