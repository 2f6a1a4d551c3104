"""Seconds and memory of private tables: one release of a data set of many attributes.

    .venv/bin/python benchmarks/release.py [model, default one_shot] [ε, default 0.8 and 6.4]

Adult where DP_PIPELINE_DATA names the real data, the generated census elsewhere; then tic_like,
86 attributes of 9,822 rows. Targets: 3 s and 10 s, at most 200 MB. At the smaller ε a model may
find that no two attributes of tic_like pay for a table, so look at the number of tables too.
Every fit runs in a process of its own, with noise as for a release: the peak of its memory is
that above what its imports take, the rows included.
"""

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

# ruff: noqa: T201


TARGETS = {"adult": 3, "census": 3, "tic_like": 10}
MOST_MEGABYTES = 200
KEY = bytes(32)


@dataclass(frozen=True)
class Measured:
    """Seconds of reading the rows; of the fit, on the clock and of the CPU; noisy tables; MB."""

    read: float
    seconds: float
    worked: float
    tables: int
    peak: float


def alone(work: Callable[..., Any], *arguments: object) -> Any:
    """What ``work`` gives in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def store(dataset: str, folder: Path) -> None:
    """Ingest and prepare the rows."""
    from dp_pipeline.config.catalogue import find_spec
    from dp_pipeline.raw.ingest import ingest
    from dp_pipeline.raw.prepare import prepare
    from dp_pipeline.raw.validate import validate

    spec = find_spec(dataset)
    snapshot = ingest(spec, folder, key=KEY, snapshot_id="rows", today=date.min)
    validate(spec, snapshot)
    prepare(spec, snapshot)


def fit(dataset: str, folder: Path, model: str, epsilon: str) -> Measured:
    """One release in memory."""
    import networkx  # noqa: F401
    import numpy as np

    from dp_pipeline.config.catalogue import find_spec
    from dp_pipeline.gate.charge import QueryExecutor
    from dp_pipeline.gate.curator import Curator
    from dp_pipeline.gate.noise import parse_noise
    from dp_pipeline.models import MODELS
    from dp_pipeline.raw.counters import open_counter
    from dp_pipeline.raw.snapshot import Snapshot
    from dp_pipeline.results.accountant import Accountant
    from dp_pipeline.results.transcript import Transcript

    spec = find_spec(dataset)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    counter = open_counter(spec, Snapshot(folder / dataset / "rows", KEY), "memory")
    read = time.perf_counter() - start
    accountant = Accountant(Fraction(epsilon))
    executor = QueryExecutor(counter, accountant, Transcript(), parse_noise("exact"))
    curator = Curator(executor, spec.domain, spec.distance)
    rng = np.random.default_rng(0)
    start, worked = time.perf_counter(), time.process_time()
    released = MODELS[model]().fit(curator, epsilon=Fraction(epsilon), rng=rng)
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    tables = len(released.tables()["measured"]["cells"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Measured(read, seconds, worked, tables, peak / 1e3)


def main() -> None:
    """Print one line a fit."""
    model, *epsilons = sys.argv[1:] or ["one_shot"]
    datasets = ("adult" if os.environ.get("DP_PIPELINE_DATA") else "census", "tic_like")
    with tempfile.TemporaryDirectory() as folder:
        for dataset in datasets:
            alone(store, dataset, Path(folder))
            for epsilon in epsilons or ("0.8", "6.4"):
                found = alone(fit, dataset, Path(folder), model, epsilon)
                print(
                    f"{model} of {dataset} at ε = {epsilon}: {found.seconds:.2f} s "
                    f"(CPU {found.worked:.2f} s, target {TARGETS[dataset]} s) for "
                    f"{found.tables} noisy tables, rows read in {found.read:.2f} s, "
                    f"peak {found.peak:.0f} MB above imports (target {MOST_MEGABYTES} MB)"
                )


if __name__ == "__main__":
    main()
