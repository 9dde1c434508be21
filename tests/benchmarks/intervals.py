"""All intervals of a full evaluation, beside the loop that one would write first.

1,000 pictures, nine captions each (P, M, L, masked P and injected M for three cues), twelve
metrics. The loop is a bootstrap of 1,000 resamples that draws picture ids and recomputes each
metric by `postprocess.measure.pragmatch`; it is slow: it runs a few, and its time is scaled up.
Run: `python -m tests.benchmarks.intervals`.
"""

from __future__ import annotations

import time

import numpy as np

from postprocess.measure import pragmatch as metrics
from postprocess.measure.estimate import estimates
from postprocess.measure.groups import Answer

PICTURES = 1000
LOOP_DRAWS = 5
GOAL_SECONDS = 2.0
FORMS = {
    "P": ("P", None),
    "M": ("M", None),
    "L": ("L", None),
    "P-": ("P", "mask"),
    "M+": ("M", "inject"),
}


def make_answers() -> list[tuple[metrics.Slots, list[Answer]]]:
    """The answers of one pml task and of a masked and an injected pair for each of three cues."""
    rng = np.random.default_rng(0)

    def answer(number: int, slot: str, cue: str | None) -> Answer:
        condition, edit = FORMS[slot]
        label = int(condition == "P")
        s = float(rng.normal(label - 0.5, 1.5))
        verdict = int(s > 0)
        return Answer(
            str(number),
            f"{number}-{slot}-{cue}",
            condition,
            cue if edit else None,
            edit,
            label,
            verdict,
            int(verdict == label),
            s,
            "ok",
            0,
        )

    tasks: list[tuple[metrics.Slots, list[Answer]]] = []
    base = {(n, slot): answer(n, slot, None) for n in range(PICTURES) for slot in "PML"}
    tasks.append((metrics.PML, list(base.values())))
    for cue in ("lexical", "style", "ocr"):
        masked = [answer(n, "P-", cue) for n in range(PICTURES)]
        injected = [answer(n, "M+", cue) for n in range(PICTURES)]
        tasks.append((metrics.P_MINUS_M_PLUS, masked + injected))
    return tasks


def by_loop(tasks: list[tuple[metrics.Slots, list[Answer]]], draws: int) -> dict[str, list[float]]:
    """The straightforward bootstrap: draw ids, rename copies, recompute every metric."""
    rng = np.random.default_rng(1)
    out: dict[str, list[float]] = {}
    for slots, answers in tasks:
        by_id: dict[str, list[Answer]] = {}
        for one in answers:
            by_id.setdefault(one.image_id, []).append(one)
        ids = sorted(by_id)
        for _ in range(draws):
            drawn = [
                one._replace(image_id=f"{k}", sample_id=f"{k}/{one.sample_id}")
                for k, i in enumerate(rng.integers(0, len(ids), len(ids)))
                for one in by_id[ids[i]]
            ]
            for name in NAMES:
                value = metrics.figure(name, drawn, slots)
                if value is not None:
                    out.setdefault(name, []).append(value)
    return out


NAMES = (
    *("accuracy", "f1", "auroc", "pair_ranking", "acc_p", "acc_m", "acc_l", "pair_acc"),
    *("group_acc", "p_minus_m_plus", "yes_rate", "unusable_rate"),
)


def main() -> int:
    """Print both times and their ratio; 1 where the goal is missed."""
    tasks = make_answers()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        tables = [
            estimates(metrics.METRICS.values(), metrics.frame(answers, slots))
            for slots, answers in tasks
        ]
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    by_loop(tasks, LOOP_DRAWS)
    loop = (time.perf_counter() - start) * 1000 / LOOP_DRAWS
    fast = min(times)
    intervals = sum(e.low is not None for table in tables for e in table.values())
    print(
        f"{PICTURES} pictures, {sum(len(answers) for _, answers in tasks)} answers, "
        f"{intervals} intervals, 1,000 resamples"
    )
    print(f"one matrix product: {fast:.2f} s (goal {GOAL_SECONDS:.0f} s)")
    print(
        f"plain loop: {loop:.0f} s (from {LOOP_DRAWS} resamples), {loop / fast:.0f} times as long"
    )
    return int(fast > GOAL_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
