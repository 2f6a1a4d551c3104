"""How often intervals of releases hold, how wide they are, and what naive intervals do.

.venv/bin/python -m benchmarks.error_bars adult nltcs --epsilon 0.1 --epsilon 1 --releases 50

Each release is drawn in memory with its own noise. Of all one- and two-way cells with a true share
of 1 % or more, and of random predicates over two and three attributes, it counts how many true
counts lie inside the 95 % intervals, by basis. ``width`` is the median width of an interval over
that of an oracle, which knows the standard deviation of the error over releases. ``naive`` takes
synthetic rows for real ones.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.papers.study import Benchmark, timed_fit
from dp_pipeline.answers.tables import OpenTable, of_tables
from dp_pipeline.config.catalogue import load_dataset
from dp_pipeline.config.parameters import from_text
from dp_pipeline.ledger.ledger import Ledger
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import guarantee_of

LEAST_SHARE = 0.01
PREDICATES = 500


def sets_of(names: tuple[str, ...], rng: np.random.Generator, most: int = 400) -> list[Any]:
    """Return every attribute, and every pair or ``most`` random ones."""
    pairs = list(combinations(names, 2))
    chosen = rng.permutation(len(pairs))[:most]
    return [*((name,) for name in names), *(pairs[i] for i in sorted(chosen.tolist()))]


def counts_of(codes: dict[str, np.ndarray], names: Any, sizes: dict[str, int]) -> np.ndarray:
    """Return the true counts of every cell."""
    keys = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
    cells = 1
    for name in names:
        keys, cells = keys * sizes[name] + codes[name], cells * sizes[name]
    return np.bincount(keys, minlength=cells)


class Tally:
    """Errors and widths of every question, over releases."""

    def __init__(self) -> None:
        self.errors: dict[Any, list[tuple[float, float, float, str]]] = defaultdict(list)

    def add(self, question: Any, true: float, estimate: Any, naive: float) -> None:
        error, width = estimate.value - true, (estimate.high - estimate.low) / 2
        is_inside = estimate.low <= true <= estimate.high
        self.errors[question].append((error, width, abs(error) <= naive, estimate.basis, is_inside))

    def lines(self) -> list[str]:
        """Return one line for each kind and basis: coverage, width, naive coverage."""
        held, naive, ratios = defaultdict(list), defaultdict(list), defaultdict(list)
        for (kind, _), some in self.errors.items():
            oracle = 1.96 * float(np.sqrt(np.mean([error**2 for error, *_ in some])))
            for _, width, is_naive, basis, is_inside in some:
                held[kind, basis].append(is_inside)
                naive[kind, basis].append(is_naive)
                ratios[kind, basis].append(width / max(oracle, 1e-9))
        return [
            f"{kind:12} {basis:9} {len(held[kind, basis]):7,} intervals: "
            f"{np.mean(held[kind, basis]):.3f} hold, width {np.median(ratios[kind, basis]):.2f}, "
            f"naive {np.mean(naive[kind, basis]):.3f}"
            for kind, basis in sorted(held)
        ]


def ask_all(
    opened: OpenTable,
    codes: dict[str, np.ndarray],
    sizes: dict[str, int],
    sets: list[Any],
    tally: Tally,
) -> None:
    """Compare every cell with a true share of 1 % with its interval."""
    rows = len(next(iter(codes.values())))
    released = len(opened._columns[opened.columns[0]])  # noqa: SLF001
    by_attribute = {attribute: column for column, attribute in opened._attributes.items()}  # noqa: SLF001
    for names in sets:
        true = counts_of(codes, names, sizes)
        frame = opened.table(*(by_attribute[name] for name in names))
        for cell in np.flatnonzero(true >= LEAST_SHARE * rows):
            line = frame.iloc[cell]
            share = min(1.0, line["count"] / rows)
            naive = 1.96 * rows * np.sqrt(share * (1 - share) / max(1, released))
            estimate = type("Line", (), {})()
            estimate.value, estimate.low = line["count"], line["low"]
            estimate.high, estimate.basis = line["high"], line["basis"]
            tally.add((f"{len(names)}-way", (names, int(cell))), float(true[cell]), estimate, naive)


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--model", default="one_shot")
@click.option("--epsilon", "epsilons", multiple=True, default=("0.1", "0.5", "1"))
@click.option("--delta", default=None)
@click.option("--releases", default=50)
@click.option("--pairs", default=400)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("build/error_bars"))
def main(
    names: tuple[str, ...],
    model: str,
    epsilons: tuple[str, ...],
    delta: str | None,
    releases: int,
    pairs: int,
    folder: Path,
) -> None:
    """Print coverage and width of intervals for each data set and ε."""
    ledger = (
        Ledger.open(folder / "ledger") if hasattr(Ledger, "open") else Ledger(folder / "ledger")
    )
    for name in names:
        spec = load_dataset(name)
        benchmark = Benchmark.of(spec, folder)
        benchmark.prepare(ledger)
        counter = benchmark.counter()
        codes = {a: c.astype(np.int64) for a, c in counter._batch.codes.items()}  # noqa: SLF001
        sizes = dict(
            zip(spec.domain.discrete, spec.domain.shape(spec.domain.discrete), strict=True)
        )
        chosen = from_text(MODELS[model], {}, of=model)
        for epsilon in map(Fraction, epsilons):
            tally, rng = Tally(), np.random.default_rng(7)
            sets = sets_of(spec.domain.discrete, rng, pairs)
            limit = None if delta is None else Fraction(delta)
            guarantee = guarantee_of(chosen, epsilon, limit, domain=spec.domain)
            for release in range(releases):
                key = f"error bars {name} {model} {epsilon} {delta} {release}"
                fitted, _ = timed_fit(chosen, counter, spec, guarantee, epsilon=epsilon, key=key)
                ask_all(of_tables(fitted.released.tables()), codes, sizes, sets, tally)
            for line in tally.lines():
                click.echo(f"{name} ε = {float(epsilon):g}, δ = {delta or 0}: {line}")


if __name__ == "__main__":
    main()
