"""Accuracy on the real places: NICV over the floor without privacy, against the known numbers.

A longer study (`make study`): 20 repetitions of two models at five ε on two data sets.
"""

from __future__ import annotations

import os
from datetime import date
from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.metrics.clustering import nicv
from dp_pipeline.models import build_model
from dp_pipeline.raw import prepare, readiness
from dp_pipeline.raw.comparison import clustering_quality, exact_points
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.accountant import Accountant
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.discovery import find_spec
from dp_pipeline.schema.source import DATA_FOLDER_VARIABLE
from dp_pipeline.schema.spec import DatasetSpec

pytestmark = [
    pytest.mark.study,
    pytest.mark.skipif(
        not os.environ.get(DATA_FOLDER_VARIABLE),
        reason=f"needs the real data that {DATA_FOLDER_VARIABLE} names",
    ),
]

REPETITIONS = 20
TABLE_REPETITIONS = 10
"""The known numbers are means of 10 to 20 runs: their own standard error is not printed."""

EPSILONS = ("0.01", "0.05", "0.1", "0.5", "1")
KNOWN = {
    ("birch3", "eug_kmeans"): ("4.7", "1.62", "1.34", "1.13", "1.11"),
    ("birch3", "dpqt_kmeans"): ("2.4", "1.48", "1.35", "1.27", "1.25"),
    ("checkin_events", "eug_kmeans"): ("2.4", "2.4", "2.2", "2.0", "2.0"),
    ("checkin_events", "dpqt_kmeans"): ("1.8", "1.21", "1.16", "1.15", "1.15"),
}

Prepared = tuple[DatasetSpec, Snapshot, MemoryCounter, np.ndarray]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    return {
        name: prepare_here(find_spec(name), tmp_path_factory.mktemp(name))
        for name in dict.fromkeys(name for name, _ in KNOWN)
    }


def prepare_here(spec: DatasetSpec, folder: Path) -> Prepared:
    today = date(2026, 1, 1)
    snapshot = ingest(spec, folder, key=bytes(32), snapshot_id=None, today=today)
    readiness.mark_validated(spec, snapshot, structural=True, refused=False)
    prepare.prepare(spec, snapshot)
    points = exact_points(spec, snapshot, spec.domain.numeric)
    return spec, snapshot, MemoryCounter.open(spec, snapshot), points


def released(data: Prepared, model: str, epsilon: Fraction, seed: int) -> Clusters:
    spec, _, counter, _ = data
    curator = Curator(
        counter,
        domain=spec.domain,
        reach=spec.reach,
        accountant=Accountant(epsilon),
        transcript=Transcript(),
        noise=SeededNoise(seed),
    )
    clusters = build_model(spec, model).fit(
        curator, epsilon=epsilon, rng=np.random.default_rng(seed)
    )
    assert isinstance(clusters, Clusters)
    return clusters


def ratios(data: Prepared, model: str, epsilon: str) -> np.ndarray:
    spec, snapshot, _, points = data
    centres = [
        released(data, model, Fraction(epsilon), seed).centres for seed in range(REPETITIONS)
    ]
    floor = clustering_quality(spec, snapshot, spec.domain.numeric, centres[0])["nicv_floor"]
    return np.array([nicv(points, one) / floor for one in centres])


@pytest.mark.parametrize(("dataset", "model"), KNOWN)
@pytest.mark.parametrize("place", range(len(EPSILONS)), ids=EPSILONS)
def test_the_ratio_is_no_worse_than_the_known_one(
    prepared: dict[str, Prepared], dataset: str, model: str, place: int
) -> None:
    known = KNOWN[dataset, model][place]
    found = ratios(prepared[dataset], model, EPSILONS[place])
    deviation = found.std(ddof=1)
    error = sqrt(deviation**2 / REPETITIONS + deviation**2 / TABLE_REPETITIONS)
    last_digit = 10.0 ** -len(known.partition(".")[2]) / 2
    ours = f"{found.mean():.3f} ± {deviation / sqrt(REPETITIONS):.3f}"
    print(f"\n{dataset} {model} ε={EPSILONS[place]}: {ours} (known {known})")
    assert found.mean() <= float(known) + last_digit + 3 * error
