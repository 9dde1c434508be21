"""Answers for tests, made from short notations."""

from hypothesis import strategies as st

from postprocess.measure.groups import SLOTS, Answer

CONDITIONS = {
    "P": ("P", None),
    "M": ("M", None),
    "L": ("L", None),
    "P-": ("P", "mask"),
    "M+": ("M", "inject"),
}


def answer(image_id, slot, verdict, s=None, status=None, n_omitted=0):
    """The answer to one caption of one picture."""
    condition, edit = CONDITIONS[slot]
    label = int(condition == "P")
    return Answer(
        image_id=image_id,
        sample_id=f"{image_id}-{slot}",
        condition=condition,
        cue="style" if edit else None,
        edit=edit,
        label=label,
        verdict=verdict,
        correct=int(verdict == label),
        s=s,
        status=status or ("unusable" if verdict is None else "ok"),
        n_omitted=n_omitted,
    )


def answers_from(rows, n_omitted=0):
    return [answer(*row, n_omitted=n_omitted) for row in rows]


# Few distinct scores, so that ties are common.
scores = st.one_of(st.none(), st.sampled_from([-2.0, -0.5, 0.0, 0.5, 2.0]), st.floats(-9, 9))
verdicts = st.sampled_from([1, 0, None])


@st.composite
def runs(draw, slots=SLOTS, max_pictures=12):
    """Answers of one run, any slot of any picture missing or there, in any order."""
    n_omitted = draw(st.integers(0, 3))
    found = [
        answer(f"{picture:02}", slot, draw(verdicts), draw(scores), n_omitted=n_omitted)
        for picture in range(draw(st.integers(0, max_pictures)))
        for slot in slots
        if draw(st.integers(0, 4))
    ]
    return draw(st.permutations(found))
