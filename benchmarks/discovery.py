"""How good discovery is on five distributions: ``python benchmarks/discovery.py`` prints the
tables of the decision about it, in about two minutes.

Quantiles of the tree are compared with joint exponential ones (Gillenwater, Joseph, Kulesza,
"Differentially Private Quantiles", ICML 2021), here in floats and for this comparison alone.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import DiscoveredAttribute
from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.config.parser import load_spec
from dp_pipeline.gate.discovery import discover
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.raw.counters.undeclared import UndeclaredRows
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.transcript import Transcript

KEY = b"k" * 32
SPEC = """
name: numbers
description: Drawn numbers.
population: numbers
purpose: benchmark
protection: {unit: one_row}
source: {kind: csv, path: rows.csv}
"""
ROWS = 10_000
FEW = 2_500
"""Rows where joint quantiles are compared: their time grows with the square of it."""
REPETITIONS = 10
EPSILONS = ("0.01", "0.1", "1")
BINS = 16

Draw = Callable[[np.random.Generator, int], FloatArray]
DISTRIBUTIONS: Mapping[str, tuple[Draw, tuple[float, float]]] = {
    "uniform on 0 to 1000": (lambda rng, n: rng.uniform(0, 1000, n), (0, 1000)),
    "lognormal, median 22026": (lambda rng, n: rng.lognormal(10, 1, n), (0, 2e6)),
    "modes at 100 and 10^6": (
        lambda rng, n: np.where(
            rng.random(n) < 0.5, rng.normal(100, 10, n), rng.normal(1e6, 1e3, n)
        ),
        (0, 2e6),
    ),
    "integers 0 to 15": (lambda rng, n: rng.integers(0, 16, n).astype(float), (0, 16)),
    "all equal to 37": (lambda _, n: np.full(n, 37.0), (0, 100)),
}
"""Name → rows and the bounds that somebody might declare."""


def found(spec: DatasetSpec, values: FloatArray, seed: int) -> DiscoveredAttribute | None:
    """What is discovered of x; None where noise said too little."""
    assert spec.discover is not None
    counter = UndeclaredRows.of_table(spec, pa.table({"x": values}), KEY)
    accountant = Accountant(spec.discover.epsilon)
    discovered = discover(spec, counter, accountant, Transcript(), SeededNoise(seed))["x"]
    return None if discovered.weak else discovered


def spec_of(attribute: str, epsilon: str) -> DatasetSpec:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.yaml"
        path.write_text(f"{SPEC}attributes: {{x: {attribute}}}\ndiscover: {{epsilon: {epsilon}}}\n")
        return load_spec(path)


def share_outside(values: FloatArray, bounds: tuple[float, float]) -> float:
    return float(((values < bounds[0]) | (values > bounds[1])).mean())


def rank_error(values: FloatArray, edges: FloatArray) -> float:
    """Mean over the wanted quantiles of how far the nearest edge's rank is from it, as a share of
    the rows; an edge on many equal rows has all of their ranks.
    """
    ordered = np.sort(values)
    low = np.searchsorted(ordered, edges, side="left") / len(values)
    # An edge just above an atom takes all of it, so do its ranks to the next value.
    high = np.searchsorted(ordered, edges + 1e-9, side="right") / len(values)
    wanted = np.arange(1, BINS)[:, None] / BINS
    if not len(edges):
        return float(np.minimum(wanted, 1 - wanted).mean())
    gaps = np.maximum(0, np.maximum(low - wanted, wanted - high))
    return float(gaps.min(axis=1).mean())


def joint_edges(
    values: FloatArray, box: tuple[float, float], epsilon: float, rng: np.random.Generator
) -> Callable[[], FloatArray]:
    """A sampler of joint exponential quantiles, by dynamic programming over all pairs of gaps."""
    values = np.clip(values + rng.uniform(0, 1e-3, len(values)), *box)
    ends = np.concatenate([[box[0]], np.sort(values), [box[1]]])
    gaps = np.maximum(np.diff(ends), 1e-12)
    size, wanted = len(gaps), len(values) / BINS
    rate = epsilon / (4 * (1 - 1 / BINS))
    # Places of two quantiles one behind the other → how much too many rows lie between.
    steps = np.arange(size)
    cost = np.exp(-rate * np.abs(steps[None, :] - steps[:, None] - wanted))
    cost = np.triu(cost)
    weight = gaps / gaps.sum()
    forward = [np.exp(-rate * np.abs(steps - wanted)) * weight]
    for _ in range(BINS - 2):
        after = (forward[-1] @ cost) * weight
        forward.append(after / after.sum())
    last = np.exp(-rate * np.abs(size - 1 - steps - wanted))

    def draw() -> FloatArray:
        chances, places = forward[-1] * last, []
        for at in range(BINS - 2, -1, -1):
            place = int(rng.choice(size, p=chances / chances.sum()))
            places.append(place)
            if at:
                chances = forward[at - 1] * cost[:, place]
        chosen = np.array(places)
        return np.sort(ends[chosen] + rng.random(len(chosen)) * gaps[chosen])

    return draw


def bounds_table() -> list[str]:
    lines = ["| rows | " + " | ".join(f"ε = {one}" for one in EPSILONS) + " |", "|---|---|---|---|"]
    for name, (draw, _) in DISTRIBUTIONS.items():
        cells = []
        for epsilon in EPSILONS:
            spec, clipped, bounds = spec_of("{bounds: discover}", epsilon), [], []
            for seed in range(REPETITIONS):
                values = draw(np.random.default_rng(seed), ROWS)
                one = found(spec, values, seed)
                if one is not None and one.bounds is not None:
                    clipped.append(share_outside(values, one.bounds))
                    bounds.append(one.bounds)
            if not bounds:
                cells.append("refused")
                continue
            usual = max(set(bounds), key=bounds.count)
            refused = f", refused {REPETITIONS - len(bounds)}" if len(bounds) < REPETITIONS else ""
            cells.append(f"{usual[0]:g} to {usual[1]:g}, {np.mean(clipped):.2%} outside{refused}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def quantile_table() -> list[str]:
    heads = " | ".join(f"tree, ε = {one} | joint, ε = {one}" for one in EPSILONS)
    lines = [f"| rows | {heads} |", "|---" * (1 + 2 * len(EPSILONS)) + "|"]
    for name, (draw, box) in DISTRIBUTIONS.items():
        cells = []
        for epsilon in EPSILONS:
            text = f"{{bounds: [{box[0]:.0f}, {box[1]:.0f}], bins: {{quantiles: {BINS}}}}}"
            spec, rng = spec_of(text, epsilon), np.random.default_rng(0)
            values = draw(rng, FEW)
            edges = [found(spec, values, seed) for seed in range(REPETITIONS)]
            tree = [
                rank_error(values, np.array((edge.edges if edge else None) or ())) for edge in edges
            ]
            sample = joint_edges(values, box, float(Fraction(epsilon)), rng)
            joint = [
                # On the same lattice as the tree's.
                rank_error(values, np.unique(np.rint(sample())))
                for _ in range(REPETITIONS)
            ]
            cells += [f"{np.mean(tree):.2%}", f"{np.mean(joint):.2%}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    sys.stdout.write("\n".join([*bounds_table(), "", *quantile_table(), ""]))
