"""How often the 95% intervals hold the truth, and how often the tests at 5% cry wolf.

Every line draws many data sets of one kind (12 to 1,000 pictures) from a model whose true figure is
known, asks the code that prints for an interval and a p, and counts. Rates of one yes or no a
picture are not drawn: their coverage is summed over all outcomes. Columns: coverage and its
smoothed value (over true rates within 10% of the named one, since the coverage of counts jumps
with the rate), share without an interval, mean width, and the test's size where the two models
are equal. Run: `python -m tests.benchmarks.coverage` (`--figures rate flips` for a part).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, norm

from postprocess.measure import limits, significance
from postprocess.measure.intervals import furthest
from postprocess.measure.stats import Floats
from tests.benchmarks.coverage_data import (
    FLIPS,
    ONE_MODEL,
    SCORES,
    TWO_MODELS,
    A,
    B,
    M,
    P,
    drawn,
    placements,
    scores,
)

SIZES = (12, 19, 50, 100, 638, 1000)
RATES = (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
BAND, BAND_AT_12, SIZE = (0.93, 0.98), 0.91, (0.01, 0.06)
REPLICATIONS = 4000
SWAP_REPLICATIONS, SWAPS, SWAPPED_UP_TO = 600, 399, 100
"""The swap test is exact by construction; its simulation is slow and stops at 100 pictures."""
EDGE = 1e-9


class Line(NamedTuple):
    """One kind of data at one number of pictures."""

    figure: str
    scenario: str
    n: int
    coverage: float
    missing: float
    width: float
    size: float | None = None


def rates(sizes: Sequence[int], spread: float = 0.0) -> Iterator[Line]:
    """Wilson's interval, by enumeration; averaged over rates within `spread` of the named one."""
    for n in sizes:
        k = np.arange(n + 1)
        low, high = limits.mean_limits(np.column_stack([n - k, k]) * 1.0, np.array([0.0, 1.0]))
        for rate in RATES:
            near = min(rate, 1 - rate) * spread
            covered = [
                (binom.pmf(k, n, p) * ((low <= p + EDGE) & (p - EDGE <= high))).sum()
                for p in np.linspace(rate - near, rate + near, 101 if spread else 1)
            ]
            width = (binom.pmf(k, n, rate) * (high - low)).sum()
            yield Line("rate", f"{rate:g}", n, float(np.mean(covered)), 0.0, float(width))


def f1(counts: Floats, p: Floats = P, m: Floats = M) -> Floats:
    return 2 * (counts @ p) / (counts @ (1 + p + 1 - m))


def independence(counts: Floats, p: Floats = P, m: Floats = M) -> Floats:
    out: Floats = (counts @ p) * (counts @ m) / counts.sum(axis=-1) ** 2
    return out


def pair_acc(counts: Floats) -> Floats:
    out: Floats = counts @ (P * M) / counts.sum(axis=-1)
    return out


def counted(
    figure: str,
    scenario: str,
    n: int,
    ends: tuple[Floats, Floats],
    truth: float,
    share: Floats,
    p: Floats | None = None,
) -> Line:
    low, high = ends
    holds = (low <= truth + EDGE) & (truth - EDGE <= high)
    size = None if p is None else float((share * (p < 0.05)).sum())
    return Line(
        figure,
        scenario,
        n,
        float((share * holds).sum()),
        float((share * ~(np.isfinite(low) & np.isfinite(high))).sum()),
        float((share * (high - low)).sum()),
        size,
    )


def pooled(sizes: Sequence[int], times: int) -> Iterator[Line]:
    """Accuracy and F1 of one model: score intervals."""
    for n in sizes:
        for seed, (scenario, chances) in enumerate(ONE_MODEL.items()):
            counts, share = drawn(chances, n, times, seed)
            halves = np.column_stack([counts[:, 3], counts[:, 1] + counts[:, 2], counts[:, 0]])
            truth = float(chances @ (P + M) / 2)
            ends = limits.mean_limits(halves, np.array([0, 0.5, 1]))
            yield counted("accuracy", scenario, n, ends, truth, share)
            ends = limits.ratio_limits(counts, 2 * P, 1 + P + 1 - M)
            yield counted("f1", scenario, n, ends, float(f1(chances)), share)


def ranking(sizes: Sequence[int], times: int) -> Iterator[Line]:
    """pair_ranking: 0, one half or 1 a picture."""
    kinds = {".5 without ties": [0.5, 0, 0.5], ".9": [0.05, 0.1, 0.85], ".98": [0.02, 0, 0.98]}
    kinds["mostly ties"] = [0.02, 0.9, 0.08]
    for n in sizes:
        for seed, (scenario, chances) in enumerate(kinds.items()):
            counts, share = drawn(np.array(chances), n, times, 100 + seed)
            ends = limits.mean_limits(counts, np.array([0, 0.5, 1]))
            truth = chances[1] / 2 + chances[2]
            yield counted("pair_ranking", scenario, n, ends, truth, share)


def jackknifed(
    figure: Callable[[Floats], Floats], counts: Floats, share_of: int
) -> tuple[Floats, Floats, Floats]:
    """Value, variance, and deviations (samples, cells) of the values without one picture."""
    value = figure(counts)
    gone = np.stack([figure(np.maximum(counts - e, 0)) for e in np.eye(counts.shape[1])], axis=1)
    gone = np.where(counts > 0, gone, 0)
    away = gone - (counts * gone).sum(axis=1, keepdims=True) / share_of
    return value, (counts * away**2).sum(axis=1) * (share_of - 1) / share_of, away


def together(counts: Floats, a: Floats, b: Floats) -> Floats:
    """Correlation of two jackknives, by sample."""
    cross, aa, bb = ((counts * x).sum(axis=1) for x in (a * b, a * a, b * b))
    still = np.minimum(aa, bb) < 1e-20
    out: Floats = np.where(still, 0, cross / np.sqrt(np.where(still, 1, aa * bb)))
    return np.clip(out, -1, 1)


def no_means(sizes: Sequence[int], times: int) -> Iterator[Line]:
    """independence, and what pair_acc has beyond it."""
    for n in sizes:
        for seed, (scenario, chances) in enumerate(ONE_MODEL.items()):
            counts, share = drawn(chances, n, times, seed)
            value, variance, _ = jackknifed(independence, counts, n)
            ends = limits.spread_limits(value, variance, n, limits.rate_spread)
            yield counted("independence", scenario, n, ends, float(independence(chances)), share)
            ends = limits.excess_limits(counts)
            truth = float(pair_acc(chances) - independence(chances))
            yield counted("pair_excess", scenario, n, ends, truth, share)


def score_p(counts: Floats, values: Floats) -> Floats:
    """p of the score test at 0, as `significance.of_differences` computes it."""
    variance = limits.tilted_variance(counts, np.broadcast_to(values, counts.shape))
    total, n = counts @ values, counts.sum(axis=1)
    p = np.where(total == 0, 1.0, 2 * norm.sf(np.abs(total) / np.sqrt(n * variance + 1e-300)))
    return np.asarray(p, dtype=np.float64)


def flips(sizes: Sequence[int], times: int) -> Iterator[Line]:
    """Flip difference and paired rates: Tango's interval, and the score test."""
    values = np.array([-1.0, 0, 1])
    for n in sizes:
        for seed, (scenario, (up, down)) in enumerate(FLIPS.items()):
            counts, share = drawn(np.array([down, 1 - up - down, up]), n, times, 200 + seed)
            p = score_p(counts, values) if up == down else None
            ends = limits.mean_limits(counts, values)
            yield counted("flips, paired rates", scenario, n, ends, up - down, share, p)


def differences(sizes: Sequence[int], times: int) -> Iterator[Line]:
    """Accuracy and F1 of two models on the same pictures."""
    gap = (P + M)[A] / 2 - (P + M)[B] / 2
    steps = np.array([-1, -0.5, 0, 0.5, 1])
    sides = [lambda c, at=at: f1(c, P[at], M[at]) for at in (A, B)]
    for n in sizes:
        for seed, (scenario, chances) in enumerate(TWO_MODELS.items()):
            counts, share = drawn(chances, n, times, 300 + seed)
            by_step = np.stack([counts[:, gap == x].sum(axis=1) for x in steps], axis=1)
            low, high, p = (np.zeros(len(counts)) for _ in range(3))
            bound = np.array([furthest(steps[row > 0], 0.5) for row in by_step])
            for at, columns in ((bound == 0.5, slice(1, 4)), (bound == 1, slice(0, 5))):
                if at.any():
                    part, values = by_step[at][:, columns], steps[columns]
                    low[at], high[at] = limits.mean_limits(part, values)
                    p[at] = score_p(part, values)
            null = scenario.startswith("equal")
            truth = float(chances @ gap)
            yield counted(
                "accuracy, A-B", scenario, n, (low, high), truth, share, p if null else None
            )
            parts = []
            for side, at in zip(sides, (A, B), strict=True):
                value, _, away = jackknifed(side, counts, n)
                alone = np.stack([counts[:, at == x].sum(axis=1) for x in range(4)], axis=1)
                ends = limits.ratio_limits(alone, 2 * P, 1 + P + 1 - M)
                parts.append((np.stack([value, *ends]), away))
            (a, move_a), (b, move_b) = parts
            ends = limits.difference_limits(a, b, together(counts, move_a, move_b))
            truth = float(sides[0](chances) - sides[1](chances))
            equal = null and "opposed" not in scenario and n <= SWAPPED_UP_TO
            line = counted("f1, A-B", scenario, n, ends, truth, share)
            yield line._replace(size=f1_size(chances, n, seed) if equal else None)


def f1_size(chances: Floats, n: int, seed: int) -> float:
    """Size of the swap test for F1, by drawing data sets and swaps."""
    rng, found = np.random.default_rng([900 + seed, n]), 0
    for _ in range(SWAP_REPLICATIONS):
        cell = rng.choice(16, n, p=chances)
        p, m = (np.concatenate([x[A[cell]], x[B[cell]]]) for x in (P, M))
        test = significance.swap(
            lambda w, p=p, m=m: f1(w, p, m),
            n,
            np.flatnonzero(A[cell] != B[cell]),
            exact=0,
            draws=SWAPS,
        )
        found += test.p_value < 0.05
    return found / SWAP_REPLICATIONS


def aurocs(sizes: Sequence[int], times: int) -> Iterator[Line]:
    """AUROC of scores that share what the picture adds."""
    times //= 2
    for n in sizes:
        for auc, r in SCORES:
            rng = np.random.default_rng([round(100 * auc + 10 * r), n])
            found = []
            for _ in range(times):
                value, gone = placements(*scores(rng, n, auc, r)[1:])
                found.append((value, limits.jackknife_variance(gone, value)))
            value, variance = np.array(found).T
            ends = limits.spread_limits(value, variance, n, limits.auroc_spread)
            share = np.full(times, 1 / times)
            yield counted("auroc", f"{auc:g}, shared {r:g}", n, ends, auc, share)


def auroc_differences(sizes: Sequence[int], times: int) -> Iterator[Line]:
    """AUROC of two models whose scores of one caption are related."""
    times //= 2
    for n in sizes:
        for auc_a, auc_b, r in (
            (0.7, 0.7, 0.6),
            (0.9, 0.9, 0.6),
            (0.9, 0.8, 0.3),
            (0.98, 0.95, 0.6),
        ):
            rng = np.random.default_rng([round(100 * auc_a + 10 * auc_b), n])
            a, b, together_, found = [], [], [], 0
            swapped = SWAP_REPLICATIONS if auc_a == auc_b and n <= SWAPPED_UP_TO else 0
            for at in range(times):
                common = rng.normal(size=(2, n)) * r**0.5
                sides = []
                for auc in (auc_a, auc_b):
                    own = rng.normal(size=(2, n)) * (1 - r) ** 0.5
                    s = common + own + [[2**0.5 * norm.ppf(auc)], [0]]
                    sides.append((s, *placements(*s)))
                for into, (_, value, gone) in zip((a, b), sides, strict=True):
                    into.append((value, limits.jackknife_variance(gone, value)))
                together_.append(limits.correlation(sides[0][2], sides[1][2]))
                if at < swapped:
                    found += auroc_p(sides[0][0], sides[1][0]) < 0.05
            parts = []
            for side in (a, b):
                value, variance = np.array(side).T
                ends = limits.spread_limits(value, variance, n, limits.auroc_spread)
                parts.append(np.stack([value, *ends]))
            ends = limits.difference_limits(*parts, np.array(together_))
            line = counted(
                "auroc, A-B",
                f"{auc_a:g} against {auc_b:g}, related {r:g}",
                n,
                ends,
                auc_a - auc_b,
                np.full(times, 1 / times),
            )
            yield line._replace(size=found / swapped if swapped else None)


def auroc_p(a: Floats, b: Floats) -> float:
    """The swap test of two AUROCs, a and b of shape (2, pictures): positive, negative scores."""
    positive, negative = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    won = (positive[:, None] > negative) + (positive[:, None] == negative) / 2

    def auroc(w: Floats) -> Floats:
        out: Floats = ((w @ won) * w).sum(axis=1) / w.sum(axis=1) ** 2
        return out

    return significance.swap(auroc, a.shape[1], exact=0, draws=SWAPS).p_value


FIGURES: dict[str, Callable[[Sequence[int], int], Iterator[Line]]] = {
    "rate": lambda sizes, _: rates(sizes),
    "rate, smoothed": lambda sizes, _: rates(sizes, 0.1),
    "pooled": pooled,
    "ranking": ranking,
    "no_means": no_means,
    "flips": flips,
    "differences": differences,
    "auroc": aurocs,
    "auroc_differences": auroc_differences,
}


def shown(line: Line) -> str:
    """One row of the table, in percent but for the width."""
    size = "" if line.size is None else f"{100 * line.size:6.1f}"
    return (
        f"{line.figure:<20} {line.scenario:<34} {line.n:>5} {100 * line.coverage:>7.1f} "
        f"{100 * line.missing:>6.1f} {line.width:>6.3f} {size}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, then which lines are outside the bands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", nargs="+", choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="N")
    parser.add_argument("--times", type=int, default=REPLICATIONS, help="data sets a line")
    args = parser.parse_args(argv)
    start, lines = time.perf_counter(), []
    print(
        f"{'figure':<20} {'data':<34} {'n':>5} {'covers':>7} {'none':>6} {'width':>6} {'size':>6}"
    )
    for name in args.figures:
        for line in FIGURES[name](args.sizes, args.times):
            lines.append(line._replace(figure=name if name.startswith("rate") else line.figure))
            print(shown(lines[-1]), flush=True)
    low, high = BAND
    under = [x for x in lines if x.coverage < (low if x.n >= 19 else BAND_AT_12)]
    over = [x for x in lines if x.n >= 19 and x.coverage > high]
    tests = [x.size for x in lines if x.size is not None]
    print(f"{len(lines)} lines, {time.perf_counter() - start:.0f} s")
    print(f"without an interval: {sum(x.missing > 0 for x in lines)}")
    print(
        f"below the band: {len(under)}; above 98%: {len(over)}, {sum(x.n < 60 for x in over)} of "
        "them at fewer than 60 pictures"
    )
    for x in under:
        print(f"  {x.figure}, {x.scenario}, n = {x.n}: {100 * x.coverage:.1f}")
    if tests:
        print(f"test sizes: {100 * min(tests):.1f} to {100 * max(tests):.1f}%")
    return 0


if __name__ == "__main__":
    sys.exit(main())
