"""Milliseconds of the ledger beside other releases: none, 5,000 and 100,000 of one population.

    .venv/bin/python benchmarks/ledger.py [numbers of releases, default 0 5000 100000]

The history is written as whole rows, hashed and chained, and verified once; then each question is
asked several times, and the median is shown. ``replay`` is a settled release of a small data set,
asked for as a pipeline does it: account, snapshot, key, bundle. Everything but ``verify`` has to
stay flat.
"""

import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from dp_pipeline.ledger import Charge, Ledger, SpendRow
from dp_pipeline.releases.home import Home

# ruff: noqa: T201


NANO = 1_000_000
RIDES = """
name: rides
title: Rides
description: Rides of a benchmark.
population: riders
purpose: release
protection: {unit: one_row}
ceiling: {total: 900000}
source: {kind: csv, path: rides.csv}
attributes:
  lat: {bounds: [47.3, 47.5]}
  lon: {bounds: [8.4, 8.6]}
nominal_rows: 200
partitions: [1]
models:
  htree_kmeans: {k: 2}
"""


def charge(name: str) -> Charge:
    """One release of 0.001, with facts as long as those of a pipeline."""
    import hashlib

    facts = {"model": "grid", "postprocessing": "{}", "measuring": "m" * 300, "snapshot": "a"}
    key = hashlib.sha256(name.encode()).hexdigest()
    return Charge(key, "riders", "dp", NANO, f"rides/grid {name}", facts)


SPENDS = [SpendRow(f"cells {n}", "laplace", Fraction(1, 4000), Fraction(4000)) for n in range(4)]


def fill(ledger: Ledger, releases: int) -> None:
    """Settled releases, as ``reserve`` writes them but in one transaction."""
    from dp_pipeline.ledger.head import Draft

    with ledger._book.writing() as page:  # noqa: SLF001
        for n in range(releases):
            one = charge(f"old {n}")
            page.append(Draft.of(one, "reserve", nano_epsilon=NANO, facts=one.facts))
            page.append(Draft.of(one, "settled", spends=SPENDS))


def declared(folder: Path) -> tuple[object, Home]:
    """A prepared data set in a home of its own, with its account."""
    from dp_pipeline.config.parser import load_spec
    from dp_pipeline.raw.ingest import ingest
    from dp_pipeline.raw.prepare import prepare
    from dp_pipeline.raw.snapshot import mark_validated
    from dp_pipeline.releases.account import open_population

    (folder / "rides.yaml").write_text(RIDES)
    rows = "".join(f"{47.3 + n / 1000:.4f},{8.4 + n / 1000:.4f}\n" for n in range(200))
    (folder / "rides.csv").write_text(f"lat,lon\n{rows}")
    spec, home = load_spec(folder / "rides.yaml"), Home(folder / "home")
    open_population(spec, home)
    key = home.ledger.key(spec.population)
    today = datetime.now(UTC).date()
    snapshot = ingest(spec, home.raw, key=key, snapshot_id=None, today=today)
    mark_validated(spec, snapshot, structural=True, refused=False)
    prepare(spec, snapshot)
    return spec, home


def milliseconds(question: Callable[[], object], times: int) -> float:
    """The median over ``times`` calls after a first one."""
    question()
    gc.collect()
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        question()
        taken.append(time.perf_counter() - begun)
    return 1000 * statistics.median(taken)


def measured(releases: int) -> Iterator[tuple[str, float]]:
    """Each question and its milliseconds beside so many releases."""
    from dp_pipeline.releases.epsilon_release import EpsilonRelease
    from dp_pipeline.releases.publish import publish

    with tempfile.TemporaryDirectory() as folder:
        spec, home = declared(Path(folder))
        ledger, fresh = home.ledger, iter(range(10**6))
        fill(ledger, releases)
        release = EpsilonRelease(spec, "htree_kmeans", Fraction(1), home, "opendp")
        publish(release)

        def reserve_and_settle() -> None:
            with ledger.reserve(charge(f"new {next(fresh)}")) as reservation:
                reservation.settle(SPENDS)

        yield "reserve + settle", milliseconds(reserve_and_settle, 9)
        yield "balance", milliseconds(lambda: ledger.balance("riders"), 9)
        yield "state", milliseconds(lambda: ledger.state(charge("old 0").key), 9)
        yield "replay", milliseconds(lambda: publish(release), 5)
        yield "a fresh release", milliseconds(lambda: publish(release, new_draw=True), 3)
        yield "verify", milliseconds(ledger.verify, 1)


def main() -> None:
    """Print one column a number of releases."""
    os.environ.pop("DP_PIPELINE_LEDGER", None)
    numbers = [int(text) for text in sys.argv[1:]] or [0, 5_000, 100_000]
    columns = {number: dict(measured(number)) for number in numbers}
    print("ms".ljust(18) + "".join(f"{number:>12,}" for number in numbers))
    for name in columns[numbers[0]]:
        print(name.ljust(18) + "".join(f"{columns[number][name]:>12.1f}" for number in numbers))


if __name__ == "__main__":
    main()
