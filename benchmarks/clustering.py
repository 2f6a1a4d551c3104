"""Private clustering of a million places against scikit-learn's KMeans, in one run.

    .venv/bin/python benchmarks/clustering.py [rows, default 1000000] [k, default 100]

The private models get a prepared counter and do everything: counts, noise, k-means on the
synopsis. KMeans gets the same places as floats, ``n_init=1`` and all threads. Each side runs
in a process of its own, so that the peak of its memory is its own: the peak above the resident
size before the fit is printed beside the size of the rows.
"""

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.parameters import from_text
from dp_pipeline.gate.charge import QueryExecutor
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import parse_noise
from dp_pipeline.metrics.clustering import nicv
from dp_pipeline.models import MODELS
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.clusters import Clusters
from dp_pipeline.results.transcript import Transcript

# ruff: noqa: T201


SIDE = Coordinate(0.0, 1e6)
DOMAIN = Domain(tuple(Attribute(name, name, "clip", coordinate=SIDE) for name in ("x", "y")))


def places(rows: int, k: int) -> np.ndarray:
    """k Gaussians of different sizes at uniform places, (rows, 2)."""
    rng = np.random.default_rng(0)
    centres, sizes = rng.uniform(0, 1e6, (k, 2)), rng.uniform(0.2, 1.2, k)
    drawn = centres[rng.choice(k, rows, p=sizes / sizes.sum())]
    return np.clip(drawn + rng.normal(0, 18_000, (rows, 2)), 0, 1e6)


def private(model: str, noise: str, rows: int, k: int) -> tuple[Callable[[], np.ndarray], int]:
    """A fit at ε = 1 that gives centres, and the bytes of its rows."""
    points = places(rows, k)
    coordinates = {
        name: SIDE.encode(points[:, axis]).astype(np.int32) for axis, name in enumerate(("x", "y"))
    }
    counter = MemoryCounter(DOMAIN, coordinates=coordinates, codes={}, rows=rows)
    texts = {"k": str(k)} | ({"nominal_rows": str(rows)} if model == "dpqt_kmeans" else {})
    fitted = from_text(MODELS[model], texts, of=model)

    def fit() -> np.ndarray:
        accountant = Accountant(Fraction(1))
        executor = QueryExecutor(counter, accountant, Transcript(), parse_noise(noise))
        curator = Curator(executor, DOMAIN, distance=1)
        clusters = fitted.fit(curator, epsilon=Fraction(1), rng=np.random.default_rng(0))
        assert isinstance(clusters, Clusters)
        return clusters.centres

    return fit, 8 * rows


def without_privacy(rows: int, k: int) -> tuple[Callable[[], np.ndarray], int]:
    """scikit-learn's k-means, one start."""
    from sklearn.cluster import KMeans

    points = places(rows, k)

    def fit() -> np.ndarray:
        return np.asarray(KMeans(k, n_init=1, random_state=0).fit(points).cluster_centers_)

    return fit, points.nbytes


def measured(side: tuple[str, ...], rows: int, k: int) -> tuple[float, float, float, float]:
    """Seconds, NICV, MB of rows, and MB of the peak above what was there before the fit."""
    import sklearn.cluster  # noqa: F401  # a second of import is not clustering

    fit, size = private(side[0], side[1], rows, k) if side[1:] else without_privacy(rows, k)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    centres = fit()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return seconds, nicv(places(rows, k), centres), size / 1e6, peak / 1e3


SIDES = {
    "KMeans(n_init=1), without privacy": ("KMeans",),
    "htree_kmeans, exact noise": ("htree_kmeans", "exact"),
    "htree_kmeans, OpenDP noise": ("htree_kmeans", "opendp"),
    "dpqt_kmeans, OpenDP noise": ("dpqt_kmeans", "opendp"),
}


def measured_apart(name: str, rows: int, k: int) -> tuple[float, float, float, float]:
    """What ``measured`` says of a side, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (SIDES[name], rows, k))


def seconds_of(names: Sequence[str], rows: int, k: int) -> list[float]:
    """Seconds of some sides, one after the other."""
    return [measured_apart(name, rows, k)[0] for name in names]


def main() -> None:
    """Print one line a side."""
    rows, k = (int(text) for text in (*sys.argv[1:], "1000000", "100")[:2])
    floor = 0.0
    for name in SIDES:
        seconds, cost, size, peak = measured_apart(name, rows, k)
        floor = floor or seconds
        print(
            f"{name}: {seconds:.2f} s, {floor / seconds:.1f}x, NICV {cost:.4g}, "
            f"rows {size:.0f} MB, peak above them {peak:.0f} MB"
        )


if __name__ == "__main__":
    main()
