"""Build PragMatch from MMSD2.0, or from posts of your own, and audit what comes out.

P is drawn from the sarcastic posts; L is a human caption or a backend's; M is a caption of a
picture outside the set (or a post that is not sarcastic). Every slow step keeps its results in a
work folder, so an interrupted build goes on where it stopped and ends in the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from lmms_eval_tasks.dataset import folder
from lmms_eval_tasks.dataset.current import data_home
from lmms_eval_tasks.pragmatch.make import audit, cues, literal, mmsd, picture_text
from lmms_eval_tasks.pragmatch.make.card import card
from lmms_eval_tasks.pragmatch.make.pictures import Pictures, tell
from lmms_eval_tasks.pragmatch.make.stages import BuildError, Encoders, Plan, Stages

BUILD_VERSION = 1
"""Raised when the same inputs would give other rows."""

PAPER_PICTURES = 1_000
CARD_FILE = "README.md"


class Wanted(NamedTuple):
    """What is asked of a build; the fields are the arguments of `pragclash data pragmatch`."""

    source: str
    root: Path | None
    images: Path | None
    split: str
    n: int | None
    l_captions: Path | None
    captioner: str | None
    captioner_args: str
    captioner_batch: int
    device: str | None
    retries: int
    retry_failed: bool
    m_source: str
    donors: int | None
    max_similarity: float
    out: Path | None
    work: Path | None
    seed: int
    folds: int
    normalise: bool
    ocr: str


def build(wanted: Wanted, encoders: Encoders) -> Path:
    """Build a dataset folder, or find it built already.

    Returns:
        The folder.

    Raises:
        BuildError: Arguments do not go together, or the folder holds another dataset.
    """
    if wanted.root is None:
        raise BuildError("--source needs --root, the folder that holds it")
    if bool(wanted.l_captions) == bool(wanted.captioner):
        raise BuildError(
            "give literal captions: --l-captions FILE (human) or --captioner MODEL, one of them"
        )
    if wanted.ocr == "on" and picture_text.engine_name() is None:
        raise BuildError("--ocr on: the extra is not installed; pip install 'pragclash[ocr]'")
    source = mmsd.read_source(wanted.source, wanted.root, wanted.split, wanted.images)
    human = literal.read_captions(wanted.l_captions) if wanted.l_captions else None
    captioner = literal.Captioner(
        wanted.captioner or "", wanted.captioner_args, wanted.captioner_batch, wanted.device
    )
    ocr = None if wanted.ocr == "off" else picture_text.engine_name()
    settings = _settings(wanted)
    sources = [source.provenance, (human or captioner).provenance]
    described = {
        "settings": settings,
        "sources": sources,
        "encoders": list(encoders.names),
        "ocr": ocr,
        "cue_lists": cues.list_versions(),
        "build_version": BUILD_VERSION,
    }
    key = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    out = wanted.out or data_home() / "pragmatch"
    built = _build_key(out)
    if built not in (None, key):
        raise BuildError(f"{out} holds another dataset; choose another --out or remove it")
    if built == key and (out / CARD_FILE).is_file():
        tell(f"{out} is built already")
        return Path(out)
    work = wanted.work or out.parent / f"{out.name}.work"
    with Pictures(source, work) as pictures:
        builder = Stages(source, human, captioner, encoders, settings, pictures, work, bool(ocr))
        plan = builder.plan(wanted.retries, wanted.retry_failed, wanted.donors)
    manifest = {
        "kind": _kind(source, human, plan),
        "build_key": key,
        **described,
        "counts": plan.counts,
        "cues": plan.cues,
        "donors": plan.donors,
        "audit": plan.audit,
        "licences": _licences(human, plan),
    }
    if built is None:
        images = {row["image"]: plan.pictures[row["image_id"]].path for row in plan.rows}
        folder.write_folder(out, "pragmatch", plan.rows, images, manifest)
    loaded = folder.load_folder(out, "pragmatch")
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in plan.m_candidates]
    (out / audit.M_CANDIDATES_FILE).write_text("".join(lines), encoding="utf-8")
    # The card comes last: it says that everything else is there.
    (out / CARD_FILE).write_text(card(manifest, loaded.fingerprint), encoding="utf-8")
    return Path(out)


def _settings(wanted: Wanted) -> dict[str, Any]:
    """What decides the rows, beside sources and encoders."""
    n = wanted.n or (PAPER_PICTURES if wanted.source == "mmsd2" else None)
    return {
        "split": wanted.split,
        "n": n,
        "n_donors": wanted.donors,
        "seed": wanted.seed,
        "m_source": wanted.m_source,
        "normalise": wanted.normalise,
        "folds": wanted.folds,
        "max_similarity": wanted.max_similarity,
    }


def _kind(source: mmsd.Source, human: literal.Literal | None, plan: Plan) -> str:
    """`full` for the paper's size from the whole test split with human captions, else `custom`."""
    whole = source.provenance.get("rows") == source.provenance.get("rows_expected")
    full = source.name == "mmsd2" and source.split == "test" and whole and human is not None
    return "full" if full and plan.counts["pictures"] >= PAPER_PICTURES else "custom"


def _licences(human: literal.Literal | None, plan: Plan) -> dict[str, int]:
    """Licences named beside the human captions, with the number of pictures each."""
    if human is None:
        return {}
    used = {row["image_id"] for row in plan.rows}
    return dict(sorted(Counter(human.licences[x] for x in used if x in human.licences).items()))


def _build_key(out: Path) -> str | None:
    """The key of the dataset in a folder; None for an empty or missing one.

    Raises:
        BuildError: The folder holds something else.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    try:
        manifest = json.loads((out / folder.MANIFEST).read_text(encoding="utf-8"))
        return str(manifest["build_key"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BuildError(f"{out} exists and holds something else; choose another --out") from None
