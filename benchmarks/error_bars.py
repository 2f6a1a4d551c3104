"""How often intervals of releases hold, how wide they are, and what naive intervals do.

    .venv/bin/python -m benchmarks.error_bars adult nltcs --epsilon 0.1 --epsilon 1 --releases 50

Each release is drawn with its own noise and stored in ``--folder``, and so is what was asked of it:
a run that was killed goes on where it stopped. Every ε and δ of every data set has its first
release before any has its second. Of all one- and two-way cells with a true share of 1 % or more,
and of random predicates over two and three attributes, it counts how many true counts lie inside
the 95 % intervals, by what they rest on. ``width`` is the median width of an interval over that of
an oracle, which knows the root mean square error over all releases. ``naive`` takes synthetic rows
for real ones. ``--regression`` draws tables from a known logistic model, and counts how often
coefficients by ``replicates(20)`` and ``combine`` hold it. Stored releases are those of the code
that drew them: take another folder after models were changed. Answers are asked for again where the
code of answers has changed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from hashlib import sha256
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import pandas as pd

from benchmarks.papers.study import Benchmark, timed_fit
from dp_pipeline import answers
from dp_pipeline.answers.estimate import Estimate, combine
from dp_pipeline.answers.tables import OpenTable, open_table
from dp_pipeline.config.catalogue import load_dataset
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.encoding import IntArray, Names
from dp_pipeline.config.parameters import from_text
from dp_pipeline.estimators import PrivateSynthesizer
from dp_pipeline.export.arrow_tables import read_parquet, write_parquet
from dp_pipeline.ledger import Ledger
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import guarantee_of
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.clusters import Tables

LEAST_SHARE = 0.01
PREDICATES = 500
COEFFICIENTS = np.array([-0.5, 1.0, -0.8, 0.6])
"""Of the known model: a constant and three binary columns, of which two depend on each other."""
ROWS = 3_000

Codes = dict[str, IntArray]


class Interval(NamedTuple):
    """One interval beside the truth.

    kind       of question, with the number of its columns
    question   its place among all of its data set
    width      half the distance of both ends
    is_naive   whether a naive interval holds the truth
    """

    kind: str
    basis: str
    question: int
    error: float
    width: float
    is_inside: bool
    is_naive: bool


def summary(intervals: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each kind and basis: coverage, width, naive coverage."""
    squares = intervals.assign(square=intervals.error**2)
    oracle = squares.groupby(["kind", "question"]).square.transform("mean") ** 0.5
    ratios = intervals.assign(ratio=intervals.width / np.maximum(1.96 * oracle, 1e-9))
    for (kind, basis), group in ratios.groupby(["kind", "basis"]):
        yield (
            f"{kind} {basis}: {len(group):,} intervals, {group.is_inside.mean():.3f} hold, "
            f"width {group.ratio.median():.2f}, naive {group.is_naive.mean():.3f}"
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
    opened: OpenTable, codes: Codes, sizes: dict[str, int], tables: list[Names]
) -> Iterator[Interval]:
    rows, question = len(next(iter(codes.values()))), 0
    columns = dict(zip(codes, opened.columns, strict=True))
    for names in tables:
        true = counts_of(codes, names, sizes)
        large = np.flatnonzero(true >= LEAST_SHARE * rows)
        lines = opened.table(*(columns[name] for name in names)).iloc[large].to_dict("records")
        for line, count in zip(lines, true[large].tolist(), strict=True):
            estimate = Estimate(line["count"], line["low"], line["high"], 0.95, line["basis"])
            kind = f"{len(names)}-way cells"
            yield interval_of(kind, question, estimate, count, rows, opened.precision.rows)
            question += 1


def ask_predicates(
    opened: OpenTable, codes: Codes, sizes: dict[str, int], rng: np.random.Generator
) -> Iterator[Interval]:
    """Ask for rows whose two or three attributes are in a random half of their levels each."""
    rows, precision = len(next(iter(codes.values()))), opened.precision
    for question in range(PREDICATES):
        names = rng.choice(list(codes), 2 + question % 2, replace=False).tolist()
        halves = {name: rng.permutation(sizes[name]) < (sizes[name] + 1) // 2 for name in names}
        true = np.logical_and.reduce([halves[name][codes[name]] for name in names]).sum()
        mask = np.logical_and.reduce([halves[name][precision.codes[name]] for name in names])
        estimate = opened.count_rows(mask, tuple(names))
        kind = f"predicates of {len(names)}"
        yield interval_of(kind, question, estimate, int(true), rows, precision.rows)


def interval_of(
    kind: str, question: int, estimate: Estimate, true: int, rows: int, released: int
) -> Interval:
    error, width = estimate.value - true, (estimate.high - estimate.low) / 2
    is_naive = abs(error) <= naive_reach(estimate.value, rows, released)
    is_inside = estimate.low <= true <= estimate.high
    return Interval(kind, estimate.basis, question, error, width, is_inside, is_naive)


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
            domain={name: {"size": 2, "nullable": False} for name in names},
            epsilon=epsilon,
            noise=f"seeded:{release}",
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


def times_of(tables: Tables) -> str:
    """Return seconds of processor of a first question, of a later one, and of 20 replicates."""
    opened, seconds = open_table(tables), []
    names = list(opened.precision.codes)[:2]
    rows = np.logical_and.reduce([opened.precision.codes[name] == 0 for name in names])
    for ask in (
        lambda: opened.count_rows(rows, tuple(names)),
        lambda: opened.count_rows(rows, tuple(names)),
        lambda: list(opened.replicates(20, seed=1)),
    ):
        started = time.process_time()
        ask()
        seconds.append(time.process_time() - started)
    return "first question {:.2f} s, a later one {:.3f} s, 20 replicates {:.1f} s".format(*seconds)


@dataclass(frozen=True)
class Rows:
    """The rows of one data set, and what is asked about them."""

    spec: DatasetSpec
    counter: MemoryCounter
    tables: list[Names]

    @classmethod
    def prepare(cls, name: str, folder: Path, pairs: int) -> Rows:
        """Read them as their file says: rows that a generator makes as for a release."""
        spec = load_dataset(name)
        if spec.source.kind == "generator":
            benchmark = Benchmark.of(replace(spec, purpose="benchmark"), folder)
            benchmark = replace(benchmark, spec=spec)
        else:
            benchmark = Benchmark.of(spec, folder)
        benchmark.prepare(Ledger(folder / "ledger"))
        tables = tables_to_ask(spec.domain.discrete, np.random.default_rng(7), pairs)
        return cls(spec, benchmark.counter(), tables)

    @property
    def codes(self) -> Codes:
        batch = self.counter._batch  # noqa: SLF001
        return {name: codes.astype(np.int64) for name, codes in batch.codes.items()}

    def draw(self, model: str, epsilon: str, delta: str, release: int) -> Tables:
        """Return the tables of a new release; its noise is of its own."""
        domain, chosen = self.spec.domain, from_text(MODELS[model], {}, of=model)
        guarantee = guarantee_of(chosen, Fraction(epsilon), Fraction(delta) or None, domain=domain)
        key = f"error bars {self.spec.name} {model} {epsilon} {delta} {release}"
        exact = Fraction(epsilon)
        fitted, _ = timed_fit(chosen, self.counter, self.spec, guarantee, epsilon=exact, key=key)
        return fitted.released.tables()

    def ask(self, tables: Tables) -> pd.DataFrame:
        """Return every interval beside the truth."""
        opened, domain = open_table(tables), self.spec.domain
        sizes = dict(zip(domain.discrete, domain.shape(domain.discrete), strict=True))
        cells = ask_cells(opened, self.codes, sizes, self.tables)
        predicates = ask_predicates(opened, self.codes, sizes, np.random.default_rng(8))
        return pd.DataFrame([*cells, *predicates], columns=list(Interval._fields))


def stored_tables(folder: Path, draw: Callable[[], Tables]) -> Tables:
    """Return the tables in the folder, which are drawn and stored where there are none."""
    if not folder.is_dir():
        unfinished = folder.with_name("unfinished")
        unfinished.mkdir(parents=True, exist_ok=True)
        for name, table in draw().items():
            with (unfinished / f"{name}.parquet").open("wb") as file:
                write_parquet(file, table)
        unfinished.rename(folder)
    return {file.stem: read_parquet(file.read_bytes()) for file in folder.glob("*.parquet")}


def code_of_answers() -> str:
    """Return a digest of the code that says how sure a number is."""
    files = sorted(Path(answers.__path__[0]).glob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


@click.command()
@click.argument("names", nargs=-1)
@click.option("--model", default="one_shot")
@click.option("--epsilon", "epsilons", multiple=True, default=("0.1", "0.5", "1"))
@click.option("--delta", "deltas", multiple=True, default=("0",))
@click.option("--releases", default=50)
@click.option("--pairs", default=400, help="Pairs of attributes whose cells are looked at.")
@click.option("--regression", is_flag=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("build/error_bars"))
def main(
    names: Names,
    model: str,
    epsilons: Names,
    deltas: Names,
    releases: int,
    pairs: int,
    regression: bool,
    folder: Path,
) -> None:
    """Print coverage and width of intervals for each data set (a name, or a file), ε and δ."""
    for epsilon in epsilons if regression else ():
        click.echo(regress(epsilon, releases))
    tables, code = [Rows.prepare(name, folder, pairs) for name in names], code_of_answers()
    heads: dict[str, list[pd.DataFrame]] = defaultdict(list)
    times: dict[str, str] = {}
    for release, rows, delta, epsilon in product(range(releases), tables, deltas, epsilons):
        head = f"{rows.spec.name} {model} ε={epsilon} δ={delta}"
        key = f"{head} {release}".replace("/", "_")
        place, answered = folder / "releases" / key, folder / f"answers {pairs} {code}" / key
        if not answered.is_file():
            drawn = stored_tables(place, partial(rows.draw, model, epsilon, delta, release))
            times[head] = times.get(head) or times_of(drawn)
            answered.parent.mkdir(exist_ok=True)
            rows.ask(drawn).to_csv(folder / "unfinished.csv", index=False)
            (folder / "unfinished.csv").rename(answered)
        heads[head].append(pd.read_csv(answered))
    for head, frames in heads.items():
        for line in (*summary(pd.concat(frames)), times.get(head, "")):
            click.echo(f"{head}, {len(frames)} releases: {line}")


if __name__ == "__main__":
    main()
