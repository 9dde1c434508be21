"""What can be told from a caption alone: the classifier behind the audit and the caption baselines.

Logistic regression over a caption's features, trained on the clean captions of a whole dataset
folder and applied fold by fold, so that a caption is scored by a model that has seen neither its
picture nor its text. It must never be trained on the requests of a run: `--limit`, order and ranks
change nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

N_FOLDS = 5

Features = Callable[[str], np.ndarray]
"""A caption's feature vector, always of one length."""

_INVERSE_REGULARISATION = {"caption": 10.0, "format": 1.0}
_PLACEHOLDER = re.compile(r"<\w+>")
_WORD = re.compile(r"[^\W_]+")

FORMAT_FEATURES = (
    "characters",
    "words",
    "mean_word_length",
    "capital_share",
    "starts_with_capital",
    "ends_with_full_stop",
    "ends_with_letter",
    "exclamation_marks",
    "question_marks",
    "full_stops",
    "ellipses",
    "commas",
    "colons",
    "double_quotes",
    "brackets",
    "hash_signs",
    "at_signs",
    "placeholders",
    "digits",
    "detached_punctuation",
    "detached_clitics",
    "elongations",
    "not_ascii",
)
"""Names of the format features in their order: how a caption is written, no word of what it says.

Which features the paper's baseline uses is not published; these are ours.
"""


class UntrainableError(ValueError):
    """A dataset from which no caption-only classifier can be trained, and why."""


class Score(NamedTuple):
    """What the caption alone says."""

    log_odds: float
    """Natural log odds that the caption is sarcastic; rounded, so that no last bit shows."""
    fold: int
    """The fold the scoring model did not see."""


def caption_key(caption: str) -> str:
    """What makes two captions the same string: case and spacing do not tell them apart.

    >>> caption_key(" A dog  on a Couch")
    'a dog on a couch'
    """
    return " ".join(caption.split()).casefold()


def hash_fold(image_id: str, n_folds: int = N_FOLDS) -> int:
    """The fold of a picture where its dataset stores none: decided by its id alone."""
    return int.from_bytes(hashlib.sha256(image_id.encode()).digest()[:8], "big") % n_folds


def folds_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Each picture's fold: the dataset's own, or else decided by a hash of the picture's id.

    Raises:
        ValueError: Some pictures have a fold and others have none, or one picture has two.
    """
    stored: dict[str, int | None] = {}
    for row in rows:
        fold = row.get("fold")
        if stored.setdefault(row["image_id"], fold) != fold:
            raise ValueError(f"picture {row['image_id']} stands in two folds")
    without = [image_id for image_id, fold in stored.items() if fold is None]
    if without and len(without) < len(stored):
        raise ValueError(f"picture {without[0]} has no fold, others have one")
    return {x: hash_fold(x) if fold is None else fold for x, fold in stored.items()}


def format_features(caption: str) -> np.ndarray:
    """How a caption is written, shape (23,); see `FORMAT_FEATURES`."""
    bare = _PLACEHOLDER.sub(" ", caption)
    letters = [char for char in bare if char.isalpha()]
    words = _WORD.findall(bare)
    stripped = caption.strip()
    last = stripped[-1:]
    return np.array(
        [
            len(stripped),
            len(words),
            sum(map(len, words)) / max(len(words), 1),
            sum(char.isupper() for char in letters) / max(len(letters), 1),
            stripped[:1].isupper(),
            last == "." and not stripped.endswith(".."),
            last.isalnum(),
            caption.count("!"),
            caption.count("?"),
            len(re.findall(r"(?<!\.)\.(?!\.)", caption)),
            len(re.findall(r"\.{2,}|…", caption)),
            caption.count(","),
            caption.count(":") + caption.count(";"),
            len(re.findall(r'["“”]', caption)),
            len(re.findall(r"[()\[\]]", caption)),
            caption.count("#"),
            caption.count("@"),
            len(_PLACEHOLDER.findall(caption)),
            sum(char.isdigit() for char in caption),
            len(re.findall(r"\s[.,!?;:]", caption)),
            len(re.findall(r"\s['’](?:s|t|m|re|ve|ll|d)\b", caption)),
            len(re.findall(r"([^\W\d_])\1\1", caption)),
            sum(not char.isascii() for char in caption),
        ],
        dtype=float,
    )


class CaptionOnly:
    """One classifier a fold, each trained on the other folds' clean captions.

    Conditions weigh so that sarcastic and other captions count alike. A caption of the training
    folds whose string also stands in the held-out fold is left out of training: where a dataset
    uses one string for two pictures, the classifier must not have read the answer.
    """

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], features: Features, kind: str = "caption"
    ) -> None:
        """Train.

        Args:
            rows: The dataset's rows; edited captions are not trained on.
            features: Feature vector of a caption.
            kind: `caption` or `format`: how strongly the weights are held back.

        Raises:
            UntrainableError: A fold's training captions are all of one class, or there is one fold.
        """
        rows = sorted(rows, key=lambda row: row["sample_id"])
        self.features = features
        self.folds = folds_of(rows)
        clean = [row for row in rows if row["edit"] is None]
        known = {row["caption"]: features(row["caption"]) for row in clean}
        if len(set(self.folds.values())) < 2:
            raise UntrainableError(
                f"{len(self.folds)} pictures in one fold: a caption can only be scored by a model "
                "that has not seen its picture, so at least two folds are needed"
            )
        self._models: dict[int, Any] = {}
        for fold in sorted(set(self.folds.values())):
            held_out = {
                caption_key(row["caption"]) for row in rows if self.folds[row["image_id"]] == fold
            }
            training = [
                row
                for row in clean
                if self.folds[row["image_id"]] != fold
                and caption_key(row["caption"]) not in held_out
            ]
            self._models[fold] = _train(training, known, fold, _INVERSE_REGULARISATION[kind])

    def score(self, caption: str, image_id: str) -> Score:
        """Score a caption of a picture by the model that has not seen the picture.

        Raises:
            KeyError: The picture is not in the dataset.
        """
        fold = self.folds[image_id]
        vector = self.features(caption).reshape(1, -1)
        log_odds = float(self._models[fold].decision_function(vector)[0])
        return Score(round(log_odds, 6), fold)


def _train(
    rows: Sequence[Mapping[str, Any]], known: Mapping[str, np.ndarray], fold: int, c: float
) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    labels = [row["label"] for row in rows]
    if len(set(labels)) < 2:
        found = "no captions" if not labels else f"captions of label {labels[0]} only"
        raise UntrainableError(
            f"fold {fold}: the other folds hold {found} that are not also in this fold"
        )
    vectors = np.stack([known[row["caption"]] for row in rows])
    model = LogisticRegression(C=c, class_weight="balanced", max_iter=2000, tol=1e-6)
    # Embeddings have one scale already; counts and shares do not.
    pipeline = make_pipeline(StandardScaler(), model) if vectors.shape[1] < 64 else model
    return pipeline.fit(vectors, labels)
