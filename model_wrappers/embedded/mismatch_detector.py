"""The embedded default: a model that sees whether a caption matches, and nothing else.

It is the straw man of the PragMatch paper made runnable. EfficientNet-Lite0 names the picture,
MiniLM compares the names with the caption, and the answer is Yes, "sarcastic", exactly when the
two do not match. So it tells P from L and cannot tell P from M, which paired scoring shows and
accuracy hides. It must never see a label.

Its threshold comes from `mismatch_calibration.json`: everyday sentences that this project wrote,
each with three class names that a classifier might give to a photograph of it. A sentence against
its own names is a match, against another sentence's names a mismatch; a logistic curve through the
two gives the threshold and the scale, and a test fits them anew. No picture and no caption of a
benchmark takes part, and none may: a line drawn on evaluated data would measure itself.

CLASH. The option letters are laid out as the prompt lays them out, and only a list of texts goes
on to the comparison, with the place of the option that says "conflicting information": that one
anybody can tell by reading it. Which text is the picture's answer, the caption's or the distractor
is not passed on. In the open form a comparing model needs something to compare, so it is given the
two answers as a set, sorted; that is help no real model gets, and its open rates are no contest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lmms_eval.api.instance import Instance
from loguru import logger
from scipy import special
from tqdm import tqdm

from model_wrappers.embedded import encoders
from model_wrappers.embedded.base import EmbeddedModel, SeenRequest
from model_wrappers.embedded.encoders import PictureClasses
from model_wrappers.embedded.weights import EFFICIENTNET_NAME, MINILM_NAME
from postprocess.response.line import attach_response, failure_text

SOURCE = "similarity"
"""What a score rests on, in the response line."""

CONFLICT = "Conflicting information."

_ROLES = {"i": "image_answer", "t": "text_answer", "d": "distractor"}
"""Letters of `option_order` other than `c`, the option that says the two conflict."""


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


@lru_cache(maxsize=1)
def load_calibration() -> Calibration:
    """The stored threshold and scale."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    return Calibration(stored["threshold"], stored["scale"])


def mismatch(picture: PictureClasses, text: str) -> float:
    """Natural log odds that a text does not match a picture; above 0 it does not."""
    line = load_calibration()
    fit = score(picture.probabilities, picture.indices, text)
    return (line.threshold - fit) * line.scale


def log_softmax(odds: list[float]) -> list[float]:
    """Log-probabilities from log odds, rounded so that a last bit never shows.

    >>> log_softmax([0.0, 0.0])
    [-0.693147, -0.693147]
    """
    logps: list[float] = special.log_softmax(odds).round(6).tolist()
    return logps


def options_as_shown(doc: dict[str, Any]) -> list[str | None]:
    """Texts of options A, B, C, ... of a CLASH document; None for the one that says "conflict"."""
    return [None if role == "c" else doc[_ROLES[role]] for role in doc["option_order"]]


class MismatchDetector(EmbeddedModel):
    """Picture against caption by shipped weights."""

    model_id = "mismatch_detector"
    encoders_used = (MINILM_NAME, EFFICIENTNET_NAME)

    def __init__(self, **arguments: Any) -> None:
        """See `EmbeddedModel`; says once what it is."""
        super().__init__(**arguments)
        logger.info(
            "mismatch_detector: an embedded baseline, no vision-language model. EfficientNet-Lite0 "
            "names the picture, MiniLM compares the names with the caption, and it answers Yes "
            "exactly when they do not match. It cannot know sarcasm."
        )

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Answer requests one by one, in their order."""
        progress = tqdm(requests, desc=self.model_id, disable=self.rank != 0)
        return [self.answer(self.read(request)) for request in progress]

    def answer(self, reading: SeenRequest) -> str:
        """The answer to one request, with its response line where the task has answer sets."""
        if reading.error is not None:
            return reading.error
        if reading.benchmark == "pragmatch":
            return self._yes_or_no(reading)
        if reading.picture is None:
            return failure_text("a CLASH document without a picture", retries=0)
        if reading.doc["form"] == "open":
            return self._open(reading.doc, reading.picture)
        return self._letter(reading.doc, reading.picture)

    def _yes_or_no(self, reading: SeenRequest) -> str:
        picture = reading.picture
        s = 0.0 if picture is None else mismatch(picture, reading.doc["caption"])
        yes, no = log_softmax([s, 0.0])
        verdict = "Yes" if yes > no else "No"
        text = f"{self._reasoning(picture, s)}\nVerdict: {verdict}"
        return attach_response(
            text if reading.chain_of_thought else verdict,
            {"Yes": yes, "No": no},
            step=0,
            source=SOURCE,
        )

    def _reasoning(self, picture: PictureClasses | None, s: float) -> str:
        """What the comparison rested on, in a sentence or two."""
        if picture is None:
            return "Without a picture there is nothing to compare the caption with."
        names = ", ".join(picture.names[:3])
        chance = 100 / (1 + math.exp(-s))
        return (
            f"The picture looks like: {names}. I put the chance that the caption does not match it "
            f"at {chance:.0f} percent, and I take a caption that does not match for sarcasm."
        )

    def _letter(self, doc: dict[str, Any], picture: PictureClasses) -> str:
        """The best-matching option, or the conflict option where the caption does not match."""
        options = options_as_shown(doc)
        odds = [
            None if option is None else -mismatch(picture, f"{doc['question']} {option}")
            for option in options
        ]
        best = max(value for value in odds if value is not None)
        s = mismatch(picture, doc["caption"])
        # The best option stands at 0, so the conflict option wins exactly when s is above 0.
        logps = log_softmax([s if value is None else value - best for value in odds])
        letters = "ABCDEFGH"[: len(options)]
        return attach_response(
            f"({letters[int(np.argmax(logps))]})",
            dict(zip(letters, logps, strict=True)),
            step=0,
            source=SOURCE,
        )

    def _open(self, doc: dict[str, Any], picture: PictureClasses) -> str:
        """The nearer of the two answers, or that the two conflict."""
        if mismatch(picture, doc["caption"]) > 0:
            return CONFLICT
        answers: list[str] = sorted({doc["image_answer"], doc["text_answer"]})
        return min(answers, key=lambda answer: mismatch(picture, f"{doc['question']} {answer}"))
