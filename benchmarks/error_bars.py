"""How often intervals of releases hold, how wide they are, and what naive intervals do.

.venv/bin/python -m benchmarks.error_bars adult nltcs --epsilon 0.1 --epsilon 1 --releases 50

Each release is drawn in memory with its own noise. Of all one- and two-way cells with a true share
of 1 % or more, and of random predicates over two and three attributes, it counts how many true
counts lie inside the 95 % intervals, by what they rest on. ``width`` is the median width of an
interval over that of an oracle, which knows the root mean square error over all releases. ``naive``
takes synthetic rows for real ones. ``--regression`` draws tables from a known logistic model, and
counts how often coefficients by ``replicates(20)`` and ``combine`` hold it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from benchmarks.papers.study import Benchmark, timed_fit
from dp_pipeline.answers.estimate import combine
from dp_pipeline.answers.tables import OpenTable, of_tables
from dp_pipeline.config.catalogue import load_dataset
from dp_pipeline.config.encoding import IntArray, Names
from dp_pipeline.config.parameters import from_text
from dp_pipeline.estimators import PrivateSynthesizer
from dp_pipeline.ledger import Ledger
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import guarantee_of

LEAST_SHARE = 0.01
PREDICATES = 500
COEFFICIENTS = np.array([-0.5, 1.0, -0.8, 0.6])
"""Of the known model: a constant and three binary columns, of which two depend on each other."""
ROWS = 3_000

Codes = dict[str, IntArray]


class Interval(NamedTuple):
    """One interval beside the truth; ``is_naive`` says whether a naive one holds it."""

    error: float
    width: float
    is_inside: bool
    is_naive: bool


class Tally:
    """Intervals of every question, over releases."""

    def __init__(self) -> None:
        self.intervals: dict[tuple[str, str], dict[Any, list[Interval]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def add(self, kind: str, question: Any, basis: str, interval: Interval) -> None:
        self.intervals[kind, basis][question].append(interval)

    def lines(self) -> Iterator[str]:
        """Yield a line for each kind and basis: coverage, width, naive coverage."""
        for (kind, basis), questions in sorted(self.intervals.items()):
            every = [interval for some in questions.values() for interval in some]
            ratios = [
                interval.width / max(1.96 * np.sqrt(np.mean([one.error**2 for one in some])), 1e-9)
                for some in questions.values()
                for interval in some
            ]
            yield (
                f"{kind} {basis}: {len(every):,} intervals, "
                f"{np.mean([one.is_inside for one in every]):.3f} hold, "
                f"width {np.median(ratios):.2f}, "
                f"naive {np.mean([one.is_naive for one in every]):.3f}"
            )


def tables_to_ask(names: Names, rng: np.random.Generator, most: int) -> list[Names]:
    """Return every attribute, and every pair or ``most`` random ones."""
    pairs = list(combinations(names, 2))
    chosen = sorted(rng.permutation(len(pairs))[:most].tolist())
    return [*((name,) for name in names), *(pairs[place] for place in chosen)]


def counts_of(codes: Codes, names: Names, sizes: dict[str, int]) -> IntArray:
    """Return the true rows in every cell."""
    keys, cells = np.zeros(len(codes[names[0]]), dtype=np.int64), 1
    for name in names:
        keys, cells = keys * sizes[name] + codes[name], cells * sizes[name]
    return np.bincount(keys, minlength=cells)


def naive_reach(count: float, rows: int, released: int) -> float:
    """Return half the width of an interval that takes released rows for a sample of real ones."""
    share = min(1.0, count / rows)
    return 1.96 * rows * float(np.sqrt(share * (1 - share) / max(1, released)))


def ask_cells(
    opened: OpenTable, codes: Codes, sizes: dict[str, int], tables: list[Names], tally: Tally
) -> None:
    rows = len(next(iter(codes.values())))
    columns = dict(zip(codes, opened.columns, strict=True))
    for names in tables:
        true = counts_of(codes, names, sizes)
        lines = opened.table(*(columns[name] for name in names)).to_dict("records")
        for cell in np.flatnonzero(true >= LEAST_SHARE * rows).tolist():
            line, count = lines[cell], true[cell]
            error, width = line["count"] - count, (line["high"] - line["low"]) / 2
            naive = naive_reach(line["count"], rows, opened.precision.rows)
            interval = Interval(
                error, width, line["low"] <= count <= line["high"], abs(error) <= naive
            )
            tally.add(f"{len(names)}-way cells", (names, cell), line["basis"], interval)


def ask_predicates(
    opened: OpenTable, codes: Codes, sizes: dict[str, int], rng: np.random.Generator, tally: Tally
) -> None:
    """Ask for rows whose two or three attributes are in a random half of their levels each."""
    rows, precision = len(next(iter(codes.values()))), opened.precision
    for question in range(PREDICATES):
        names = rng.choice(list(codes), 2 + question % 2, replace=False).tolist()
        halves = {name: rng.permutation(sizes[name]) < (sizes[name] + 1) // 2 for name in names}
        true = np.logical_and.reduce([halves[name][codes[name]] for name in names]).sum()
        mask = np.logical_and.reduce([halves[name][precision.codes[name]] for name in names])
        estimate = opened.count_rows(mask, tuple(names))
        error, width = estimate.value - true, (estimate.high - estimate.low) / 2
        naive = naive_reach(estimate.value, rows, precision.rows)
        interval = Interval(
            error, width, estimate.low <= true <= estimate.high, abs(error) <= naive
        )
        tally.add(f"predicates of {len(names)}", question, estimate.basis, interval)


def logistic_fit(rows: IntArray, counts: IntArray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and their standard errors by Newton's method.

    rows     (cells, 4): three columns, and the outcome last
    counts   (cells,)
    """
    inputs, outcome = np.column_stack([np.ones(len(rows)), rows[:, :3]]), rows[:, 3]
    beta = np.zeros(4)
    for _ in range(30):
        chances = 1 / (1 + np.exp(-inputs @ beta))
        weights = counts * chances * (1 - chances)
        information = (inputs.T * weights) @ inputs + 1e-9 * np.eye(4)
        beta = beta + np.linalg.solve(information, inputs.T @ (counts * (outcome - chances)))
    return beta, np.sqrt(np.diag(np.linalg.inv(information)))


def table_of_known_model(rng: np.random.Generator) -> np.ndarray:
    """Return rows (n, 4) of a known logistic model."""
    first = rng.random(ROWS) < 0.4
    second = rng.random(ROWS) < np.where(first, 0.6, 0.3)
    third = rng.random(ROWS) < 0.5
    inputs = np.column_stack([np.ones(ROWS), first, second, third])
    outcome = rng.random(ROWS) < 1 / (1 + np.exp(-inputs @ COEFFICIENTS))
    return np.column_stack([first, second, third, outcome]).astype(np.int64)


def regress(epsilon: str, releases: int) -> str:
    """Return how often intervals of coefficients hold the known ones."""
    names, held, naive = ("a", "b", "c", "y"), [], []
    cells = np.array(list(product((0, 1), repeat=4)))
    for release in range(releases):
        rows = table_of_known_model(np.random.default_rng(release))
        synthesizer = PrivateSynthesizer(
            domain=dict.fromkeys(names, 2), epsilon=epsilon, noise=f"seeded:{release}"
        ).fit(rows.tolist())
        fits = []
        for frame in synthesizer.replicates(20, seed=release):
            keys = frame.to_numpy().astype(np.int64) @ np.array([8, 4, 2, 1])
            fits.append(logistic_fit(cells, np.bincount(keys, minlength=16)))
        keys = synthesizer.sample().to_numpy().astype(np.int64) @ np.array([8, 4, 2, 1])
        beta, errors = logistic_fit(cells, np.bincount(keys, minlength=16))
        naive += (np.abs(beta - COEFFICIENTS) <= 1.96 * errors).tolist()
        for place, true in enumerate(COEFFICIENTS):
            estimate = combine([(beta[place], errors[place]) for beta, errors in fits])
            held.append(estimate.low <= true <= estimate.high)
    return (
        f"logistic regression, ε = {epsilon}: {len(held)} coefficients, {np.mean(held):.3f} hold, "
        f"naive {np.mean(naive):.3f}"
    )


def times_of(tables: Any) -> str:
    """Return seconds of a first question, of a later one, and of 20 replicates."""
    opened, seconds = of_tables(tables), []
    columns = opened.columns[:2]
    values = [str(opened.table(column)[column][0]) for column in columns]
    opened = of_tables(tables)
    question = f"`{columns[0]}` == {values[0]!r} and `{columns[1]}` == {values[1]!r}"
    for ask in (
        lambda: opened.count(question),
        lambda: opened.count(question),
        lambda: list(opened.replicates(20, seed=1)),
    ):
        started = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - started)
    return "first question {:.2f} s, a later one {:.3f} s, 20 replicates {:.1f} s".format(*seconds)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--model", default="one_shot")
@click.option("--epsilon", "epsilons", multiple=True, default=("0.1", "0.5", "1"))
@click.option("--delta", default="0")
@click.option("--releases", default=50)
@click.option("--pairs", default=400, help="Pairs of attributes whose cells are looked at.")
@click.option("--regression", is_flag=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("build/error_bars"))
def main(
    names: Names,
    model: str,
    epsilons: Names,
    delta: str,
    releases: int,
    pairs: int,
    regression: bool,
    folder: Path,
) -> None:
    """Print coverage and width of intervals for each data set and ε."""
    for epsilon in epsilons if regression else ():
        click.echo(regress(epsilon, releases))
    ledger = Ledger(folder / "ledger")
    for name in names:
        spec = load_dataset(name)
        benchmark = Benchmark.of(spec, folder)
        benchmark.prepare(ledger)
        counter, domain = benchmark.counter(), spec.domain
        codes = {a: c.astype(np.int64) for a, c in counter._batch.codes.items()}  # noqa: SLF001
        sizes = dict(zip(domain.discrete, domain.shape(domain.discrete), strict=True))
        chosen = from_text(MODELS[model], {}, of=model)
        for epsilon in map(Fraction, epsilons):
            tally, rng = Tally(), np.random.default_rng(7)
            tables = tables_to_ask(domain.discrete, rng, pairs)
            guarantee = guarantee_of(chosen, epsilon, Fraction(delta) or None, domain=domain)
            head = f"{name} ε = {float(epsilon):g} δ = {delta}"
            for release in range(releases):
                key = f"error bars {name} {model} {epsilon} {delta} {release}"
                fitted, _ = timed_fit(chosen, counter, spec, guarantee, epsilon=epsilon, key=key)
                released = fitted.released.tables()
                opened = of_tables(released)
                ask_cells(opened, codes, sizes, tables, tally)
                ask_predicates(opened, codes, sizes, np.random.default_rng(8), tally)
            for line in (*tally.lines(), times_of(released)):
                click.echo(f"{head}: {line}")


if __name__ == "__main__":
    main()
