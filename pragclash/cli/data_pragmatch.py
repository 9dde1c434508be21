"""Build PragMatch from MMSD2.0, or from posts of your own, and audit what comes out.

P is drawn from the sarcastic posts; L is a human caption (--l-captions) or a backend's
(--captioner); M is a caption of a picture outside the set, or a post that is not sarcastic.
An interrupted build goes on where it stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lmms_eval_tasks.pragmatch.make import build
from model_wrappers.embedded.weights import EFFICIENTNET, EFFICIENTNET_NAME, MINILM, find, locate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The builder's arguments, and the encoder that keeps M away from its picture."""
    build.add_arguments(parser)
    parser.add_argument(
        "--encoder",
        metavar="DIR",
        help="sentence encoder or BERT for selection and audit (default: the embedded MiniLM)",
    )


def run(args: argparse.Namespace) -> int:
    """Build, audit, or both; see `build.run`.

    Raises:
        ValueError: Something is missing or does not fit; the message says what to do.
    """
    try:
        return build.run(args, encoders_for(args.encoder))
    except RuntimeError as error:
        # Weights or an engine that are not installed, a captioner that captions nothing.
        raise ValueError(str(error)) from error


def encoders_for(path: str | None) -> build.Encoders:
    """The text encoder asked for, and the embedded picture encoder where it is installed.

    Raises:
        UnknownEncoderError: The folder holds no encoder.
        MissingWeightsError: No folder is named and MiniLM is not installed.
    """
    from model_wrappers.embedded.caption_baselines import text_encoder

    if path is None:
        locate(MINILM)
    name, embed = text_encoder(path)
    if find(EFFICIENTNET) is None:
        return build.Encoders((name,), embed)
    return build.Encoders((name, EFFICIENTNET_NAME), embed, _describe)


def _describe(picture: Path) -> str:
    """The likeliest things on a picture, as a text."""
    from model_wrappers.embedded.encoders import classify
    from postprocess.pictures import picture_of

    return ", ".join(classify(picture_of(picture)).names[:3])
