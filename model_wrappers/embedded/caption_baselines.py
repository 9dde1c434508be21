"""Baselines that never look: `caption_bert` reads the caption, `caption_format` how it is written.

What they reach is what a benchmark gives away without its pictures, so they belong beside every
result. Both are trained on the clean captions of the whole dataset folder, labels included, and
score each caption by the fold that has not seen its picture; requests are only answered. They are
the only models of this project that may see labels.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lmms_eval.api.instance import Instance
from loguru import logger
from tqdm import tqdm

from lmms_eval_tasks.dataset.current import current_folder
from lmms_eval_tasks.dataset.folder import Folder
from lmms_eval_tasks.pragmatch.make.caption_only import CaptionOnly, Features, format_features
from model_wrappers.embedded import encoders
from model_wrappers.embedded.base import EmbeddedModel
from model_wrappers.embedded.mismatch_detector import log_softmax
from model_wrappers.embedded.weights import MINILM_NAME
from postprocess.response.line import attach_response, failure_text

_MAX_TOKENS = 256


@functools.lru_cache(maxsize=2)
def text_encoder(path: str | None = None) -> tuple[str, Features]:
    """A frozen text encoder: its name and the function from a text to a vector of length one.

    Args:
        path: A folder with a sentence-transformers model or any model that `AutoModel` loads (BERT
            and its kin; token states are averaged); None for the embedded MiniLM. Remote code in
            such a folder is never run.

    Raises:
        ValueError: The folder is missing, or holds neither.
    """
    if path is None:
        return MINILM_NAME, encoders.embed
    folder = Path(path).expanduser()
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        raise ValueError(
            f"encoder={path}: not a folder with a model (no config.json or modules.json); only "
            "local folders are read, nothing is downloaded"
        )
    try:
        encode = _sentence_encoder(folder)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"encoder={path}: {error}") from error
    return f"{folder.name} sha256:{_digest(folder)}", functools.lru_cache(100_000)(encode)


def _sentence_encoder(folder: Path) -> Callable[[str], np.ndarray]:
    from sentence_transformers import SentenceTransformer

    # A model that is no sentence encoder gets a layer that averages its token states.
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    model.max_seq_length = min(_MAX_TOKENS, model.max_seq_length or _MAX_TOKENS)

    def encode(text: str) -> np.ndarray:
        sound = text.encode("utf-8", "replace").decode("utf-8")
        with encoders.one_thread():
            vector: np.ndarray = model.encode(sound, convert_to_numpy=True, show_progress_bar=False)
        unit: np.ndarray = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return unit

    return encode


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in (".safetensors", ".bin", ".json", ".txt"):
            digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


class _CaptionBaseline(EmbeddedModel):
    """What both baselines share: the folder's classifier, and answers to requests."""

    kind = ""
    _trained: tuple[str, CaptionOnly] | None = None
    """Fingerprint of the dataset that the classifier was trained on, and the classifier."""

    features: Features
    """From a caption to its vector."""

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Answer Yes or No from the caption alone, with the score in the response line."""
        progress = tqdm(requests, desc=self.model_id, disable=self.rank != 0)
        return [self._answer(request) for request in progress]

    def _answer(self, request: Instance) -> str:
        doc = self.pragmatch_document(
            request, "caption", "image_id", "prompt", "dataset_fingerprint", "condition"
        )
        classifier = self._classifier(doc["dataset_fingerprint"])
        try:
            score = classifier.score(doc["caption"], doc["image_id"])
        except KeyError:
            return failure_text(f"picture {doc['image_id']} is not in the dataset folder", 0)
        yes, no = log_softmax([score.log_odds, 0.0])
        verdict = "Yes" if score.log_odds > 0 else "No"
        text = verdict
        if doc["prompt"] == "cot":
            text = f"Judged by its {self.kind} alone, without the picture.\nVerdict: {verdict}"
        return attach_response(
            text,
            {"Yes": yes, "No": no},
            step=0,
            source=f"{self.kind}_only",
            fold=score.fold,
        )

    def _classifier(self, fingerprint: str) -> CaptionOnly:
        """The classifier of the dataset whose documents are asked about, trained on first use."""
        if self._trained is None or self._trained[0] != fingerprint:
            folder: Folder = current_folder("pragmatch")
            if folder.fingerprint != fingerprint:
                raise ValueError(
                    f"{self.model_id}: the documents are of dataset {fingerprint[:12]}, the folder "
                    f"{folder.path} is {folder.fingerprint[:12]}"
                )
            self._trained = fingerprint, CaptionOnly(folder.rows, self.features, self.kind)
        return self._trained[1]


class CaptionBert(_CaptionBaseline):
    """A frozen sentence encoder and logistic regression."""

    model_id = "caption_bert"
    kind = "caption"

    def __init__(self, encoder: str | None = None, **arguments: Any) -> None:
        """Choose the encoder.

        Args:
            encoder: Folder of a sentence encoder or BERT; the embedded MiniLM where not given.
            **arguments: What the harness passes to every model.

        Raises:
            ValueError: No encoder can be loaded from the folder.
        """
        super().__init__(**arguments)
        self.encoder_name, self.features = text_encoder(encoder)
        self.encoders_used = (self.encoder_name,)
        logger.info(
            f"caption_bert: a baseline that never sees a picture. Encoder {self.encoder_name}, "
            "frozen; trained with labels on the clean captions of the dataset's other folds."
        )


class CaptionFormat(_CaptionBaseline):
    """Format features and logistic regression."""

    model_id = "caption_format"
    kind = "format"
    features = staticmethod(format_features)

    def __init__(self, **arguments: Any) -> None:
        """See the module; it takes no argument of its own."""
        super().__init__(**arguments)
        logger.info(
            "caption_format: a baseline that sees neither picture nor words, only how a caption "
            "is written; trained with labels on the clean captions of the dataset's other folds."
        )
