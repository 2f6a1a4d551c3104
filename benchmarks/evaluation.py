"""Evaluation, triples and bounded contributions against plain code for the same, as ratios.

    .venv/bin/python benchmarks/evaluation.py [rows, default 1000000]

Both sides of a ratio run in the same process on the same rows, one thread, and the answers are
compared. The plain side is what evaluation was made of before it was made of the counters' kernels:
a key a row in 64 bits, all pairs of rows, ten starts of k-means on all rows, an HMAC a row.
"""

import hashlib
import hmac
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from dp_pipeline.metrics.clustering import nicv
from dp_pipeline.metrics.marginals import MOST_PLACES, attribute_sets
from dp_pipeline.raw.closest_record import distance_to_closest_record
from dp_pipeline.raw.comparison import distances
from dp_pipeline.raw.contributions import PersonKeys, keep_at_most
from dp_pipeline.raw.counters.tables import contingency_table, exact_marginals
from dp_pipeline.raw.evaluate import reference_kmeans

# ruff: noqa: T201

Result = TypeVar("Result")
Codes = Mapping[str, np.ndarray]

MIX14 = (2, 3, 42, 16, 7, 15, 6, 5, 2, 20, 10, 9, 8, 41)
SIZES = {f"a{at}": size for at, size in enumerate(MIX14)}
NAMES = tuple(SIZES)
CLASSES = 12


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Wall time in seconds, and the result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def report(what: str, ours: float, plain: float, *, target: str) -> None:
    """One line."""
    print(f"{what}: {ours:.2f} s against {plain:.2f} s, {plain / ours:.1f}x (target {target})")


def table(rows: int, *, seed: int) -> dict[str, np.ndarray]:
    """Rows of a mixture of classes, in each of which attributes are independent."""
    chances = np.random.default_rng(7)
    shares = [chances.dirichlet(np.full(size, 0.4), CLASSES).cumsum(axis=1) for size in MIX14]
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, CLASSES, rows)
    codes = {}
    for name, share in zip(NAMES, shares, strict=True):
        # Classes lie one after the other on a line, so one search finds the level of every row.
        line = (share + np.arange(CLASSES)[:, None]).ravel()
        place = np.searchsorted(line, rng.random(rows) + kind, side="right")
        codes[name] = (place - kind * share.shape[1]).clip(0, share.shape[1] - 1).astype(np.uint8)
    return codes


def plain_distance(real: Codes, released: Codes, ways: Sequence[tuple[str, ...]]) -> float:
    """Average variation distance by one table of keys a marginal."""
    total = 0.0
    for way in ways:
        shape = [SIZES[name] for name in way]
        keys = [
            np.ravel_multi_index([some[name].astype(np.int64) for name in way], shape)
            for some in (real, released)
        ]
        shares = [np.bincount(key, minlength=np.prod(shape)) / len(key) for key in keys]
        total += float(np.abs(shares[0] - shares[1]).sum()) / 2
    return total / len(ways)


def plain_closest(real: Codes, released: Codes) -> float:
    """Distance to the closest record by all pairs of different real and some released rows."""
    rows = np.unique(np.stack([real[name] for name in NAMES]), axis=1)
    drawn = len(released[NAMES[0]])
    chosen = np.random.default_rng(0).permutation(drawn)[:MOST_PLACES]
    places = np.stack([released[name][chosen] for name in NAMES])
    differs = [
        sum((column != code).view(np.uint8) for column, code in zip(rows, place, strict=True)).min()
        for place in places.T
    ]
    return float(np.mean(differs)) / len(NAMES)


def tables(rows: int) -> None:
    """Distances of marginals and to the closest record, of as many released rows."""
    real, released = table(rows, seed=1), table(rows, seed=2)
    sums = [0.0, 0.0]
    for k in (2, 3, 5, 6):
        ways = attribute_sets(NAMES, k)
        ours, distance_of = timed(lambda ways=ways: distances(real, released, SIZES, ways))
        found = np.mean(list(distance_of.values()))
        plain, expected = timed(lambda ways=ways: plain_distance(real, released, ways))
        assert abs(found - expected) < 1e-9
        report(f"AVD of {len(ways)} sets of {k}, N={rows:.0e}", ours, plain, target="2x")
        sums = [sums[0] + ours, sums[1] + plain]
    ours, found = timed(lambda: distance_to_closest_record(real, released))
    plain, expected = timed(lambda: plain_closest(real, released))
    assert abs(found - expected) < 1e-9
    report("distance to the closest record", ours, plain, target="10x")
    report("both together", sums[0] + ours, sums[1] + plain, target="3 s at 10^6 rows")


def triples(rows: int) -> None:
    """All triples together against each by itself, and against pairs, a table."""
    codes = table(rows, seed=1)
    pairs, some = (list(combinations(NAMES, k)) for k in (2, 3))
    of_pairs, _ = timed(lambda: exact_marginals(codes, SIZES, pairs, rows=rows))
    ours, found = timed(lambda: exact_marginals(codes, SIZES, some, rows=rows))
    plain, expected = timed(
        lambda: [contingency_table(codes, SIZES, names, rows=rows) for names in some]
    )
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    report(f"all {len(some)} triples, N={rows:.0e}", ours, plain, target="3x")
    print(
        f"  a triple takes {ours / len(some) * len(pairs) / of_pairs:.1f} times as long as a pair"
    )


def reference(rows: int) -> None:
    """k-means without privacy for evaluation, against ten starts on all rows; k = 100."""
    from sklearn.cluster import KMeans

    rng = np.random.default_rng(0)
    middles = rng.uniform(-60_000, 60_000, size=(100, 2))[rng.integers(0, 100, rows)]
    points = middles + rng.normal(0, 1500, middles.shape)
    ours, found = timed(lambda: reference_kmeans(points, 100))
    plain, fitted = timed(lambda: KMeans(100, n_init=10, random_state=0).fit(points))
    report(f"k-means without privacy, N={rows:.0e}", ours, plain, target="20x")
    floors = [nicv(points, one) for one in (found, fitted.cluster_centers_)]
    print(f"  its NICV is {floors[0] / floors[1]:.4f} of that of ten starts on all rows")


def plain_kept(rides: pa.Table, *, at_most: int, key: bytes) -> int:
    """How many rows are kept by an HMAC a row, one after the other."""
    best: dict[int, list[bytes]] = {}
    for row in zip(*(column.to_pylist() for column in rides.columns), strict=True):
        digest = hmac.digest(key, repr(row).encode(), hashlib.sha256)
        best.setdefault(row[0], []).append(digest)
    return sum(len(sorted(own)[:at_most]) for own in best.values())


def contributions(rows: int) -> None:
    """Rows of persons who all have more than they may, as numbers and as texts."""
    rng = np.random.default_rng(0)
    columns = {"rider": rng.integers(0, rows // 20, rows)}
    columns |= {f"x{at}": rng.normal(50, 10, rows).round(4) for at in range(3)}
    columns |= {f"level{at}": rng.integers(0, 12, rows) for at in range(4)}
    rides = pa.table(columns)
    key = b"k" * 32
    for kind, some in (("numbers", rides), ("texts", _as_texts(rides))):
        keys = PersonKeys.of(some.column_names, "rider", key)
        ours, kept = timed(lambda some=some, keys=keys: keep_at_most(some, at_most=5, keys=keys))
        plain, expected = timed(lambda some=some: plain_kept(some, at_most=5, key=key))
        assert kept.num_rows == expected
        report(f"rows of persons, {kind}, N={rows:.0e}", ours, plain, target="5x")
        tracemalloc.start()
        keep_at_most(some, at_most=5, keys=keys)
        peak = tracemalloc.get_traced_memory()[1] / rows
        tracemalloc.stop()
        print(f"  {1e6 * ours / rows:.2f} µs and {peak:.0f} bytes a row (target 1 and 64)")


def _as_texts(some: pa.Table) -> pa.Table:
    return pa.table({name: some[name].cast(pa.string()) for name in some.column_names})


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with threadpool_limits(1):
        for measure in (tables, triples, reference, contributions):
            measure(count)
