"""Where `mismatch_detector` draws its line: fitted on sentences that belong to no benchmark.

`mismatch_calibration.json` holds everyday sentences that this project wrote, each with three class
names that a classifier might give to a photograph of it. A sentence against its own names is a
match, against another sentence's names a mismatch; a logistic curve through the two gives the
threshold and the scale. No picture and no caption of a benchmark takes part, and none may: a line
drawn on evaluated data would measure itself. `python -m model_wrappers.embedded.calibration`
fits anew and writes the two numbers into the file; a test holds them to the sentences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from model_wrappers.embedded import encoders

FILE = Path(__file__).with_name("mismatch_calibration.json")


class Calibration(NamedTuple):
    """P(mismatch) = 1 / (1 + exp(-scale * (threshold - score)))."""

    threshold: float
    """Score at which match and mismatch are equally likely, a cosine less its prior."""
    scale: float
    """Slope of the logistic curve, in natural log odds per unit of score."""


def score(weights: Sequence[float], classes: Sequence[int], text: str) -> float:
    """How well a text fits what a picture shows.

    The weighted mean cosine between the text and the names of the classes, less the text's mean
    cosine with the names of all classes.

    Args:
        weights: Weight of each class, any positive scale.
        classes: Numbers of the classes.
        text: A caption.

    Returns:
        A number around 0 for an unrelated text, up to 1 for a class name itself.
    """
    names = np.average(encoders.class_embeddings()[list(classes)], axis=0, weights=weights)
    return float((names - encoders.mean_class_embedding()) @ encoders.embed(text))


def calibrate(sentences: Sequence[Mapping[str, Any]]) -> Calibration:
    """Fit the threshold and the scale.

    Args:
        sentences: Rows with `sentence` and `classes`, names of ImageNet classes, likeliest first.
            Names weigh 1, 1/2, 1/3, about as a classifier's probabilities fall off. Matches and
            mismatches weigh alike, though there are many more of the latter.
    """
    from sklearn.linear_model import LogisticRegression

    number = {name: index for index, name in enumerate(encoders.class_names())}
    pictures = [[number[name] for name in row["classes"]] for row in sentences]
    scores = np.array(
        [
            score([1 / rank for rank in range(1, len(classes) + 1)], classes, row["sentence"])
            for row in sentences
            for classes in pictures
        ]
    )
    mismatch = ~np.eye(len(sentences), dtype=bool).ravel()
    fit = LogisticRegression(C=1e6, class_weight="balanced", tol=1e-8, max_iter=1000)
    fit.fit(scores[:, None], mismatch)
    slope, intercept = float(fit.coef_[0, 0]), float(fit.intercept_[0])
    return Calibration(threshold=-intercept / slope, scale=-slope)


@lru_cache(maxsize=1)
def load_calibration() -> Calibration:
    """The stored threshold and scale."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    return Calibration(stored["threshold"], stored["scale"])


def main() -> None:
    """Fit on the sentences of the file and store the two numbers in it."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    fit = calibrate(stored["sentences"])
    rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in stored["sentences"])
    FILE.write_text(
        f'{{\n  "threshold": {fit.threshold:.4f},\n  "scale": {fit.scale:.2f},\n'
        f'  "sentences": [\n{rows}\n  ]\n}}\n',
        encoding="utf-8",
    )
    print(f"threshold {fit.threshold:.4f}, scale {fit.scale:.2f}, {len(stored['sentences'])} rows")


if __name__ == "__main__":
    main()
