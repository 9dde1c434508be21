"""The dataset card: what a built dataset is, for whoever finds the folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmms_eval_tasks.pragmatch.make.audit import WARN_ABOVE, table

_FAULTS = {
    "captions": (
        "- M is a description of another picture and P is a post: the two differ in register, "
        "which no surface form hides. A reader of captions alone can use that; see the audit."
    ),
    "mmsd_negatives": (
        "- M is a post that its author did not mark as sarcastic. It may still be sarcastic, and "
        "it may by chance fit the picture more loosely than its similarity says."
    ),
}


def card(manifest: Mapping[str, Any], fingerprint: str) -> str:
    """The card of a dataset, as Markdown, from its manifest alone."""
    counts, settings = manifest["counts"], manifest["settings"]
    source, literal = manifest["sources"][0], manifest["sources"][1]
    lines = [
        "# PragMatch dataset",
        "",
        f"Built by pragclash. Kind: **{manifest['kind']}**. Fingerprint: `{fingerprint}`.",
        "",
        "One picture, up to three clean captions: P (sarcastic), L (literal), M (arbitrary "
        "mismatch); only P deserves the answer Yes. Cue edits of P (mask) and M (inject) stand "
        "beside them. Cue lists and edits are pragclash's own, not the paper's.",
        "",
        "## Where it comes from",
        "",
        f"- Pictures and P: {_inline(source['name'])}"
        + (f", split {_inline(source['split'])}" if "split" in source else "")
        + f", {source['rows']} posts of which {source['sarcastic']} are sarcastic.",
        f"- L: {_literal(literal)}.",
        f"- M: `{settings['m_source']}`; {manifest['donors']['offered']} donors on offer, "
        f"{manifest['donors']['used']} used, each {manifest['donors']['fewest_uses']} to "
        f"{manifest['donors']['most_uses']} times; cosine at most {settings['max_similarity']}.",
        f"- Encoders used in the selection: {', '.join(map(_inline, manifest['encoders']))}. A "
        "model that uses one of them is judged on data that it helped to choose; mark its row.",
        f"- Surface form: {'one for all captions' if settings['normalise'] else 'as given'}.",
        f"- Seed {settings['seed']}, {settings['folds']} folds by picture.",
        "",
        "## Licence",
        "",
        *_licences(manifest),
        "",
        "## Counts",
        "",
        "| what | number |",
        "|---|---|",
        *[f"| {name.replace('_', ' ')} | {value} |" for name, value in counts.items()],
        "",
        "| cue | P with it | masked P | injected M |",
        "|---|---|---|---|",
        *[
            f"| {cue} | {found['present']} | {found['masked']} | {found['injected']} |"
            for cue, found in manifest["cues"].items()
        ],
        "",
        "Text on the pictures: "
        + (f"read with {manifest['ocr']}." if manifest["ocr"] else "not read, so OCR is weak."),
        "",
        "## What captions alone achieve",
        "",
        table(manifest["audit"]["lines"], manifest["audit"]["not_available"]),
        "",
        f"Above {100 * WARN_ABOVE:.0f}% pair accuracy a result says little about pictures. The "
        "paper prints 99.6 item and 99.3 pair for captions in its own data, and 31.3 and 5.3 for "
        "format, which lie below chance: the unit of that baseline is unclear.",
        "",
        "## Known faults",
        "",
        _FAULTS[settings["m_source"]],
        "- Whether a post is sarcastic is its author's mark, not a reader's judgement.",
    ]
    if literal["by"] == "model":
        lines.append(
            "- L was written by a model. It is a guess at what the picture shows, not the truth: "
            "read a sample before trusting acc_l."
        )
    if not settings["normalise"]:
        lines.append(
            "- P, L and M keep their own case and tokenisation, which may tell them apart; build "
            "with --normalise to compare."
        )
    return "\n".join(lines) + "\n"


def _literal(literal: Mapping[str, Any]) -> str:
    if literal["by"] == "people":
        return f"human captions from `{_inline(literal['name'])}` ({literal['rows']} rows)"
    told = ", ".join(
        f"{name}={_inline(str(value))}" for name, value in literal.items() if name != "by"
    )
    return f"written by a model ({told})"


def _licences(manifest: Mapping[str, Any]) -> list[str]:
    named = manifest.get("licences") or {}
    lines = [f"- {count} pictures: {_inline(name)}" for name, count in named.items()]
    if manifest["sources"][0]["name"] == "MMSD2.0":
        lines.append(
            "- MMSD2.0 consists of posts and pictures of other people, collected for research. "
            "They grant no licence that pragclash knows of: use them where you may, and do not "
            "pass the folder on."
        )
    elif not named:
        lines.append("- No licence is known for these pictures and posts; ask their owners.")
    return lines


def _inline(text: str) -> str:
    """A name as it may stand in Markdown: one line, no markup of its own."""
    return "".join(" " if char in "\r\n|`<>[]*" else char for char in text)[:200]
