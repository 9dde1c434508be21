"""Reads the text on a picture with an OCR engine; optional (`pip install pragclash[ocr]`).

The result is evidence for the OCR cue and for nothing else. It comes from a picture and is as
hostile as one: bounded, never shown unescaped, never executed.
"""

from __future__ import annotations

import functools
from importlib import metadata, util
from typing import Any

DISTRIBUTION = "rapidocr-onnxruntime"
MIN_CONFIDENCE = 0.5
"""Lines that the engine is less sure of are noise more often than text."""
MAX_CHARS = 2_000
MAX_SIDE = 1_280
"""Longer sides are shrunk to this many pixels; overlay text stays readable."""


class MissingEngineError(RuntimeError):
    """The extra `ocr` is not installed."""


def engine_name() -> str | None:
    """Engine and version, or None where it is not installed."""
    if util.find_spec("rapidocr_onnxruntime") is None:
        return None
    try:
        return f"{DISTRIBUTION} {metadata.version(DISTRIBUTION)}"
    except metadata.PackageNotFoundError:
        return DISTRIBUTION


@functools.lru_cache(maxsize=1)
def _engine() -> Any:
    if engine_name() is None:
        raise MissingEngineError(
            "reading text on pictures needs the extra `ocr`: pip install 'pragclash[ocr]' "
            "(Python below 3.13)"
        )
    from rapidocr_onnxruntime import RapidOCR

    return RapidOCR(intra_op_num_threads=1, inter_op_num_threads=1)


def read_text(picture: bytes) -> str:
    """The text on a picture, one recognised line a line, in the engine's order.

    Args:
        picture: The content of a picture file that decodes.

    Returns:
        At most 2,000 characters; empty where no text was found.

    Raises:
        MissingEngineError: The extra `ocr` is not installed.
    """
    import numpy as np

    from postprocess.pictures import picture_of

    engine = _engine()
    image = picture_of(picture)
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    # The engine expects blue first.
    result, _ = engine(np.asarray(image)[:, :, ::-1])
    lines = [str(text) for _, text, confidence in result or [] if confidence >= MIN_CONFIDENCE]
    return "\n".join(" ".join(line.split()) for line in lines)[:MAX_CHARS]
