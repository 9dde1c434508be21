"""What the votes of `pragclash annotate` add up to: agreement, people's accuracy, an export.

For PragMatch the votes are written as `votes.jsonl`, which the model `human_votes` replays, so that
people stand in the same tables as models. For CLASH the ids of the accepted samples are written
too: a sample that somebody accepted and nobody rejected.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmms_eval_tasks.annotation.plan import TASKS
from lmms_eval_tasks.annotation.results import accepted, collect, vote_lines, write_lines
from lmms_eval_tasks.annotation.store import Store
from lmms_eval_tasks.dataset.folder import load_folder
from postprocess.measure.agreement import Agreement, People, agreement, people
from postprocess.measure.stats import Estimate
from postprocess.tables import papers as reference
from pragclash.cli.annotate import DATABASE
from pragclash.cli.arguments import add_json

VOTES = "votes.jsonl"
ACCEPTED = "accepted.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `pragclash agreement`."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="dataset folder")
    parser.add_argument("--db", type=Path, metavar="FILE", help=f"default: {DATABASE} in DIR")
    add_json(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"default: {VOTES} in DIR")
    parser.add_argument(
        "--accepted",
        type=Path,
        metavar="FILE",
        help=f"CLASH: ids of accepted samples, one a line (default: {ACCEPTED} in DIR)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the figures and write the votes; 1 where there is no vote on this dataset.

    Raises:
        ValueError: The votes file or the dataset cannot be used.
        OSError: The export cannot be written.
    """
    store = Store.open(args.db or args.folder / DATABASE)
    try:
        name = store.meta("task")
        if name not in TASKS:
            raise ValueError(f"{store.path} holds votes for the unknown task {name!r}")
        task = TASKS[name]
        folder = load_folder(args.folder, task.benchmark)
        results = collect(store, folder, task)
    finally:
        store.close()
    votes = {
        name: {sample_id: vote.label for sample_id, vote in own.items()}
        for name, own in results.votes.items()
    }
    labels = [label.value for label in task.labels]
    picture_of = {row["sample_id"]: row["image_id"] for row in folder.rows}
    told: dict[str, Any] = {
        "folder": str(args.folder),
        "task": task.name,
        "dataset_kind": folder.kind,
        "dataset_fingerprint": folder.fingerprint,
        "annotators": {
            name: {
                **{label: Counter(own.values())[label] for label in labels},
                "missing": results.missing[name],
                "stale": results.stale[name],
            }
            for name, own in votes.items()
        },
    }
    if not any(votes.values()):
        raise ValueError(f"{store.path}: no vote on {args.folder} as it is now")
    pairs = agreement(votes, picture_of, labels)
    persons = people(votes, folder.rows) if task.name == "sarcasm" else []
    out = args.out or args.folder / VOTES
    lines = vote_lines(results)
    write_lines(out, lines)
    told["votes"] = {"file": str(out), "n": len(lines)}
    if task.name == "clash":
        ids = accepted(results)
        chosen = args.accepted or args.folder / ACCEPTED
        write_lines(chosen, ids)
        told["accepted"] = {"file": str(chosen), "n": len(ids), "sample_ids": ids}
    if args.json:
        told["agreement"] = [
            {**pair._asdict(), "raw": pair.raw._asdict(), "kappa": pair.kappa._asdict()}
            for pair in pairs
        ]
        told["people"] = [
            {**one._asdict(), "estimates": {k: e._asdict() for k, e in one.estimates.items()}}
            for one in persons
        ]
        print(json.dumps(told, ensure_ascii=False))
    else:
        print("\n".join(_lines(told, labels, pairs, persons)))
    return 0


def _lines(
    told: dict[str, Any],
    labels: Sequence[str],
    pairs: Sequence[Agreement],
    persons: Sequence[People],
) -> list[str]:
    kind, fingerprint = told["dataset_kind"], told["dataset_fingerprint"][:16]
    lines = [f"{told['folder']}: {told['task']}, {kind}, fingerprint {fingerprint}", ""]
    columns = [*labels, "missing", "stale"]
    counts = [[name, *(str(n[key]) for key in columns)] for name, n in told["annotators"].items()]
    lines += _table([["annotator", *columns], *counts])
    if any(n["stale"] for n in told["annotators"].values()):
        lines.append("stale: given on other words or another picture; left out everywhere")
    if pairs:
        head = ["annotators", "n", "same label", "kappa", f"kappa at most, {len(labels)} labels"]
        body = [
            [f"{p.a}, {p.b}", str(p.n), _percent(p.raw), _plain(p.kappa), _number(p.ceiling)]
            for p in pairs
        ]
        lines += ["", *_table([head, *body])]
    else:
        lines += ["", "agreement needs two annotators"]
    if persons:
        names = list(dict.fromkeys(name for one in persons for name in one.estimates))
        head = ["people", *names, "pairs", "left out"]
        body = [
            [
                one.annotator,
                *(_percent(one.estimates.get(name)) for name in names),
                str(one.n_pairs),
                str(one.n_left_out),
            ]
            for one in persons
        ]
        lines += ["", *_table([head, *body])]
        lines += [
            "in percent, with 95% intervals over pictures; Unclear counts as wrong; left out: P or",
            "M of the picture has no vote; chance is 50 for items, 25 for pairs, 12.5 for groups",
            "",
            f"reference, {reference.PRAGMATCH}: people 85.8 item, 71.5 paired; "
            f"{reference.HUMAN_NOTE}",
            f"remark: {reference.ANNOTATION}",
        ]
    lines += ["", f"{told['votes']['n']} votes written to {told['votes']['file']}"]
    if "accepted" in told:
        found = told["accepted"]
        lines.append(f"{found['n']} samples accepted by all who judged them: {found['file']}")
    return lines


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _percent(estimate: Estimate | None) -> str:
    if estimate is None or estimate.value is None:
        return "n/a"
    text = f"{100 * estimate.value:.1f}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _plain(estimate: Estimate) -> str:
    text = _number(estimate.value)
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"
