"""Build PragMatch from MMSD2.0, or from posts of your own, and audit what comes out.

P is drawn from the sarcastic posts; L is a human caption (--l-captions) or a backend's
(--captioner); M is a caption of a picture outside the set, or a post that is not sarcastic.
An interrupted build goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_tasks.dataset.folder import MANIFEST
from lmms_eval_tasks.pragmatch.make import audit, donors, mmsd
from lmms_eval_tasks.pragmatch.make.audit import audit_folder, table
from lmms_eval_tasks.pragmatch.make.build import Wanted, build
from lmms_eval_tasks.pragmatch.make.pictures import tell
from lmms_eval_tasks.pragmatch.make.stages import BuildError, Encoders, told
from model_wrappers.embedded.weights import EFFICIENTNET, EFFICIENTNET_NAME, MINILM, find, locate
from pragclash.cli.arguments import positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash data pragmatch`."""
    source = parser.add_argument_group("source")
    source.add_argument("--source", choices=mmsd.SOURCES, help="mmsd2, or posts of your own")
    source.add_argument("--root", type=Path, metavar="DIR", help="folder that holds the source")
    source.add_argument("--images", type=Path, metavar="DIR", help="folder of its pictures")
    source.add_argument("--split", choices=tuple(mmsd.SPLITS), default="test")
    source.add_argument("--n", type=positive, help="pictures (default: 1000 of mmsd2, else all)")
    captions = parser.add_argument_group("literal captions (L, and M with --m-source captions)")
    captions.add_argument("--l-captions", type=Path, metavar="FILE", help="human captions")
    captions.add_argument("--captioner", metavar="MODEL", help="a backend of the harness by name")
    captions.add_argument("--captioner-args", default="", metavar="NAME=VALUE,...")
    captions.add_argument("--captioner-batch", type=positive, default=1, metavar="N")
    captions.add_argument("--device", help="for the captioner")
    captions.add_argument("--retries", type=int, default=2, help="for a picture that fails")
    captions.add_argument("--retry-failed", action="store_true", help="ask again what failed")
    mismatch = parser.add_argument_group("mismatch captions (M)")
    mismatch.add_argument("--m-source", choices=audit.M_SOURCES, default="captions")
    mismatch.add_argument("--donors", type=positive, metavar="N", help="donor pictures to caption")
    mismatch.add_argument(
        "--max-similarity", type=float, default=donors.MAX_SIMILARITY, metavar="COSINE"
    )
    build = parser.add_argument_group("build")
    build.add_argument("--out", type=Path, metavar="DIR", help="default: where the tasks look")
    build.add_argument("--work", type=Path, metavar="DIR", help="default: OUT.work")
    build.add_argument("--seed", type=int, default=0)
    build.add_argument("--folds", type=positive, default=5)
    build.add_argument("--normalise", action="store_true", help="one surface form for P, L and M")
    build.add_argument("--ocr", choices=("auto", "on", "off"), default="auto")
    report = parser.add_argument_group("audit")
    report.add_argument(
        "--audit",
        nargs="?",
        const="",
        metavar="DIR",
        help="print what captions alone achieve: of DIR, of the build, or of the current dataset",
    )
    report.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--encoder",
        metavar="DIR",
        help="sentence encoder or BERT for selection and audit (default: the embedded MiniLM)",
    )


def run(args: argparse.Namespace) -> int:
    """Build, audit, or both.

    Raises:
        ValueError: Something is missing or does not fit; the message says what to do.
    """
    try:
        return run_with(args, encoders_for(args.encoder))
    except RuntimeError as error:
        # Weights or an engine that are not installed, a captioner that captions nothing.
        raise ValueError(str(error)) from error


def run_with(args: argparse.Namespace, encoders: Encoders) -> int:
    """Build, audit, or both, with these encoders.

    Raises:
        BuildError, SourceError, FolderError, DonorError, LeakError: See their classes.
    """
    if args.source is None:
        if args.audit is None:
            raise BuildError("give --source to build, or --audit to look at what is there")
        return _print_audit(audit_folder(args.audit or None, encoders.embed), args.json)
    out = build(Wanted._make(getattr(args, name) for name in Wanted._fields), encoders)
    manifest = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    if args.json:
        print(json.dumps({"out": str(out), **manifest}, indent=2, sort_keys=True))
        return 0
    print(f"{out}: {manifest['kind']}; {told(manifest['counts'])}")
    if args.audit is not None:
        return _print_audit(manifest["audit"], False)
    _warn(manifest["audit"])
    return 0


def encoders_for(path: str | None) -> Encoders:
    """The text encoder asked for, and the embedded picture encoder where it is installed.

    Raises:
        ValueError: The folder holds no encoder.
        MissingWeightsError: No folder is named and MiniLM is not installed.
    """
    from model_wrappers.embedded.caption_baselines import text_encoder

    if path is None:
        locate(MINILM)
    name, embed = text_encoder(path)
    if find(EFFICIENTNET) is None:
        return Encoders((name,), embed)
    return Encoders((name, EFFICIENTNET_NAME), embed, _describe)


def _describe(picture: Path) -> str:
    """The likeliest things on a picture, as a text."""
    from model_wrappers.embedded.encoders import classify
    from postprocess.pictures import picture_of

    return ", ".join(classify(picture_of(picture)).names[:3])


def _print_audit(found: Mapping[str, Any], as_json: bool) -> int:
    if as_json:
        print(json.dumps(found, indent=2, sort_keys=True))
        return 0
    print(table(found["lines"], found["not_available"]))
    _warn(found)
    return 0


def _warn(found: Mapping[str, Any]) -> None:
    for warning in found["warnings"]:
        tell(f"WARNING: {warning}")
