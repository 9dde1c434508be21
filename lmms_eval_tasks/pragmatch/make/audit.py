"""What a dataset gives away without its pictures: the caption-only baselines, item and pair.

The paper's own data is solved by captions alone, so every dataset is audited and the result stands
in its manifest, its card and beside each table. A dataset whose pairs fall to a caption reader
measures caption reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lmms_eval_tasks.dataset.checks import Fault
from lmms_eval_tasks.dataset.current import current_folder
from lmms_eval_tasks.dataset.folder import FolderError, load_folder
from lmms_eval_tasks.pragmatch.make.caption_only import (
    CaptionOnly,
    UntrainableError,
    format_features,
)
from postprocess.measure.stats import Estimate, bootstrap, resampled_sums, wilson

WARN_ABOVE = 0.75
"""Pair accuracy from captions alone above which the dataset is called into question."""

M_CANDIDATES_FILE = "m_candidates.jsonl"
"""Beside the rows: an M of the source that was not used, so that both can be audited."""

FEATURES = ("caption", "format")
M_SOURCES = ("captions", "mmsd_negatives")


class Line(NamedTuple):
    """What one kind of features reaches with one source of M."""

    m_source: str
    features: str
    """`caption` (sentence embedding) or `format` (how it is written)."""
    item: Estimate
    """Accuracy over P and M; chance 50%."""
    pair: Estimate
    """Both right for one picture; chance 25%."""


def rows_with(
    rows: Iterable[Mapping[str, Any]], m_captions: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The clean rows with M captions of another source; pictures without one are left out."""
    out = []
    for row in rows:
        if row["edit"] is None and row["image_id"] in m_captions:
            caption = m_captions[row["image_id"]] if row["condition"] == "M" else row["caption"]
            out.append({**row, "caption": caption})
    return out


def audit(
    rows: Iterable[Mapping[str, Any]],
    m_source: str,
    embed: Callable[[str], np.ndarray] | None,
) -> list[Line]:
    """Train and score the caption-only baselines on one dataset.

    Args:
        rows: Rows of a dataset folder; only complete P-M pairs count, all clean captions train.
        m_source: What the rows' M is, for the report.
        embed: A text to its vector of length one; None leaves the caption line out.

    Raises:
        UntrainableError: There are too few pictures or folds.
    """
    clean = [row for row in rows if row["edit"] is None]
    pairs: dict[str, dict[str, str]] = {}
    for row in clean:
        if row["condition"] in ("P", "M"):
            pairs.setdefault(row["image_id"], {})[row["condition"]] = row["caption"]
    complete = {x: found for x, found in sorted(pairs.items()) if len(found) == 2}
    lines = []
    for kind in FEATURES:
        features = embed if kind == "caption" else format_features
        if features is None:
            continue
        classifier = CaptionOnly(clean, features, kind)
        right = np.array(
            [
                [
                    classifier.score(found["P"], image_id).log_odds > 0,
                    classifier.score(found["M"], image_id).log_odds <= 0,
                ]
                for image_id, found in complete.items()
            ]
        )
        lines.append(Line(m_source, kind, _item(right), _pair(right)))
    return lines


def _item(right: np.ndarray) -> Estimate:
    share = right.mean(axis=1, keepdims=True)
    resampled = resampled_sums(share)[:, 0] / len(right)
    return bootstrap(float(share.mean()), resampled, len(right))


def _pair(right: np.ndarray) -> Estimate:
    return wilson(int(right.all(axis=1).sum()), len(right))


def audit_sources(
    rows: Sequence[Mapping[str, Any]],
    m_source: str,
    others: Mapping[str, Mapping[str, str] | str],
    embed: Callable[[str], np.ndarray] | None,
) -> tuple[list[Line], dict[str, str]]:
    """Audit a dataset with its own M and with that of the other source.

    Args:
        rows: Rows of a dataset folder.
        m_source: The source of their M.
        others: The other sources: M captions by image id, or why there are none.
        embed: As for `audit`.

    Returns:
        The lines, and for each source without lines the reason.
    """
    lines: list[Line] = []
    missing: dict[str, str] = {}
    for source in dict.fromkeys((m_source, *others)):
        found = others.get(source, {})
        if source != m_source and isinstance(found, str):
            missing[source] = found
            continue
        try:
            if source == m_source or isinstance(found, str):
                lines += audit(rows, source, embed)
            else:
                lines += audit(rows_with(rows, found), source, embed)
        except UntrainableError as error:
            missing[source] = str(error)
    return lines, missing


def report(
    rows: Sequence[Mapping[str, Any]],
    m_source: str,
    others: Mapping[str, Mapping[str, str] | str],
    embed: Callable[[str], np.ndarray] | None,
) -> dict[str, Any]:
    """`audit_sources` as manifests keep it: `lines`, `not_available` and `warnings`."""
    lines, missing = audit_sources(rows, m_source, others, embed)
    return {"lines": to_json(lines), "not_available": missing, "warnings": warnings_of(lines)}


def warnings_of(lines: Iterable[Line]) -> list[str]:
    """One sentence for each line whose pair accuracy is above the limit."""
    return [
        f"with M from {line.m_source}, {line.features} features alone solve "
        f"{100 * line.pair.value:.1f}% of the pairs (limit {100 * WARN_ABOVE:.0f}%): results on "
        "this dataset say little about pictures"
        for line in lines
        if line.pair.value is not None and line.pair.value > WARN_ABOVE
    ]


def to_json(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """Lines as JSON values, rates in percent with one decimal place."""
    return [
        {
            "m_source": line.m_source,
            "features": line.features,
            "n_pictures": line.pair.n,
            "item": _percent(line.item),
            "pair": _percent(line.pair),
        }
        for line in lines
    ]


def _percent(estimate: Estimate) -> list[float | None]:
    """Value, low, high."""
    return [
        None if x is None else round(100 * x, 1)
        for x in (estimate.value, estimate.low, estimate.high)
    ]


def audit_folder(path: str | None, embed: Callable[[str], np.ndarray] | None) -> dict[str, Any]:
    """Audit a dataset folder, with both sources of M where the folder holds them.

    Args:
        path: The folder; None for the one that the tasks use.
        embed: As for `audit`.

    Returns:
        See `report`.
    """
    data = load_folder(path, "pragmatch") if path else current_folder("pragmatch")
    m_source = data.manifest.get("settings", {}).get("m_source", data.kind)
    others: dict[str, Mapping[str, str] | str] = {
        name: "the folder holds no M of this source" for name in M_SOURCES if name != m_source
    }
    others |= dict(data.manifest.get("audit", {}).get("not_available", {}))
    others |= _m_candidates(data.path)
    return report(data.rows, m_source, others, embed)


def _m_candidates(path: Path) -> dict[str, dict[str, str]]:
    file = path / M_CANDIDATES_FILE
    found: dict[str, dict[str, str]] = {}
    if file.is_file():
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                by_picture = found.setdefault(str(row["m_source"]), {})
                by_picture[str(row["image_id"])] = str(row["caption"])
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise FolderError(
                    path, [Fault(file.name, number, f"is no candidate ({error!r})")]
                ) from error
    return found


def table(found: Sequence[Mapping[str, Any]], missing: Mapping[str, str]) -> str:
    """The audit as a Markdown table, out of `to_json`."""
    out = [
        "| M from | features | pictures | item accuracy (chance 50) | pair accuracy (chance 25) |",
        "|---|---|---|---|---|",
    ]
    for line in found:
        cells = [line["m_source"], line["features"], str(line["n_pictures"])]
        cells += [_cell(line["item"]), _cell(line["pair"])]
        out.append(f"| {' | '.join(cells)} |")
    out += [f"| {source} | not available: {reason} | | | |" for source, reason in missing.items()]
    return "\n".join(out)


def _cell(values: Sequence[float | None]) -> str:
    value, low, high = values
    if value is None:
        return "n/a"
    return f"{value:.1f}" if low is None else f"{value:.1f} [{low:.1f}, {high:.1f}]"
