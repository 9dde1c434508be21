"""The rows of a PragMatch dataset, out of the captions that were found for its pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from lmms_eval_tasks.pragmatch.make import cues, donors
from postprocess.benchmarks.pragmatch_tasks import CUES


def masks(post: str, text: str | None) -> dict[str, str]:
    """A post without each cue that can be taken out of it, by cue."""
    found = {cue: cues.mask(post, cue, text) for cue in CUES}
    return {cue: caption for cue, caption in found.items() if caption is not None}


def make_rows(
    posts: Mapping[str, str],
    literals: Mapping[str, str],
    masked: Mapping[str, Mapping[str, str]],
    texts: Mapping[str, str],
    ms: donors.Chosen,
    folds: Mapping[str, int],
    seed: int,
) -> tuple[list[dict[str, Any]], dict[str, dict[str, int]], int]:
    """Rows by picture, clean captions first; injected Ms that would cross folds are dropped.

    Args:
        posts: P by picture.
        literals: L by picture.
        masked: P without a cue, by picture and cue.
        texts: Text on the pictures, where it was read.
        ms: M of each picture; pictures without one get no rows.
        folds: Fold by picture.
        seed: Decides which cue is injected, and where.

    Returns:
        The rows; how often each cue is present, masked and injected; how many were dropped.
    """
    rows: list[dict[str, Any]] = []
    found = {cue: Counter[str]() for cue in CUES}
    for x in sorted(ms.by_picture):
        choice = ms.by_picture[x]
        clean = {"P": posts[x], "L": literals[x], "M": choice.caption}
        for condition, caption in clean.items():
            rows.append(_row(x, condition, caption, folds[x]))
        rows[-1]["extra"] = {
            "donor": choice.donor_id,
            "similarity": round(choice.similarity, 4),
        }
        for cue in CUES:
            found[cue]["present"] += bool(cues.detect(clean["P"], cue, texts.get(x)))
            if cue in masked[x]:
                rows.append(_row(x, "P", masked[x][cue], folds[x], cue, "mask"))
                found[cue]["masked"] += 1
            rng = Random(f"{seed}:{x}:{cue}:inject")
            injected = cues.inject(clean["M"], cue, rng, texts.get(x))
            if injected is not None:
                rows.append(_row(x, "M", injected, folds[x], cue, "inject"))
    leaking = {sample for ids in donors.find_leaks(rows).values() for sample in ids}
    kept = [r for r in rows if r["edit"] != "inject" or r["sample_id"] not in leaking]
    for row in kept:
        if row["edit"] == "inject":
            found[row["cue"]]["injected"] += 1
    names = ("present", "masked", "injected")
    counts = {cue: {name: found[cue][name] for name in names} for cue in CUES}
    return kept, counts, len(rows) - len(kept)


def _row(
    image_id: str,
    condition: str,
    caption: str,
    fold: int,
    cue: str | None = None,
    edit: str | None = None,
) -> dict[str, Any]:
    suffix = f"-{cue}-{edit}" if cue else ""
    return {
        "sample_id": f"{image_id}-{condition}{suffix}",
        "image_id": image_id,
        "image": f"images/{image_id}.jpg",
        "condition": condition,
        "cue": cue,
        "edit": edit,
        "caption": caption,
        "label": int(condition == "P"),
        "fold": fold,
    }
