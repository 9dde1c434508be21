"""The one standard error the harness's own table may show for `accuracy`.

The harness takes the spread over every document that carries a record: literal captions and half
pairs too, which the value leaves out. Here the error is that of the value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from postprocess.measure.groups import Answer, complete


def accuracy_stderr(
    answers: Sequence[Answer], slots: Sequence[str], scored: Sequence[str] | None = None
) -> float | None:
    """Standard error of an accuracy over complete pictures, with pictures as the clusters.

    Every complete picture has equally many scored captions, so accuracy is the mean of the
    pictures' own accuracies, and its error is their sample deviation over the root of their number.

    Args:
        answers: Answers of one task, in any order.
        slots: What makes a picture complete, `metrics.slots_for(family)`.
        scored: The slots that the accuracy is over; those of `metrics.accuracy` where not given.

    Returns:
        The error on the scale of the accuracy, 0 to 0.5; None below two complete pictures.
    """
    if scored is None:
        scored = [slot for slot in slots if slot != "L" or len(slots) == 1]
    means = [
        sum(group[slot].correct for slot in scored) / len(scored)
        for group in complete(answers, tuple(slots)).groups.values()
    ]
    n = len(means)
    if n < 2:
        return None
    centre = math.fsum(means) / n
    return math.sqrt(math.fsum((mean - centre) ** 2 for mean in means) / (n - 1) / n)
