"""What noisy counts say against a release: when they speak, and when they are silent.

Noise is seeded, so every outcome here is fixed. Where a test says that something stays silent, one
warning alone has a probability of at most 0.2 % for another seed (``reporting.plausibility``).
"""

from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute, Domain, Protection
from dp_pipeline.config.encoding import Bins, Coordinate, IntArray, Levels
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models import MODELS, build_model
from dp_pipeline.models.base import declared_guarantee
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import Snapshot, mark_validated
from dp_pipeline.reporting.plausibility import NoisyTotal, bundle_warnings, release_warnings
from dp_pipeline.results.bundle import K_ANONYMITY, Bundle
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.test_units import couples, fit
from dp_pipeline_tests.models.test_units import domain as units_domain
from dp_pipeline_tests.populations import TOWN
from dp_pipeline_tests.reporting.samples import spec as sample_spec

CLUSTERINGS = [name for name, model in MODELS.items() if issubclass(model, Clustering)]
COUNTED_ALIKE = ("htree_kmeans", "privtree_kmeans", "dpqt_kmeans", "hybrid_kmeans", "dp_kmeans")
"""One of each way to count: along a tree, leaves, nodes, the last of two rounds, of many."""
TABLES = ("one_shot", "independent", "privbayes", "mst", "threshold_filter", "priview")
KEY = bytes(32)
SQUARE = Domain(tuple(Attribute(name, name, "clip", Coordinate(0.0, 4.0)) for name in ("x", "y")))
PEOPLE = Domain(
    (
        Attribute("age", "age", "clip", Coordinate(0.0, 90.0), cells=Bins((0.0, 30.0, 60.0, 90.0))),
        Attribute("tenure", "tenure", "other", cells=Levels(("owner", "renter", "?")), other="?"),
    )
)


def over_square(places: Any, **changes: Any) -> tuple[DatasetSpec, MemoryCounter]:
    """A declaration that expects 10,000 rows, and rows at some places (n, 2) of the square."""
    rows = np.asarray(places, dtype=np.float64).reshape(-1, 2)
    coordinates = {
        name: SQUARE[name].coordinate.encode(rows[:, axis]).astype(np.int32)
        for axis, name in enumerate(SQUARE.names)
    }
    counter = MemoryCounter(SQUARE, coordinates=coordinates, codes={}, rows=len(rows))
    return sample_spec(**{"domain": SQUARE, "nominal_rows": 10_000, **changes}), counter


def over_people(codes: IntArray, **changes: Any) -> tuple[DatasetSpec, MemoryCounter]:
    """A declaration that expects 10,000 rows, and rows with some codes (n, 2)."""
    columns = {name: codes[:, axis].astype(np.uint8) for axis, name in enumerate(PEOPLE.names)}
    ages, many = {"age": np.zeros(len(codes), dtype=np.int32)}, len(codes)
    counter = MemoryCounter(PEOPLE, coordinates=ages, codes=columns, rows=many)
    return sample_spec(**{"domain": PEOPLE, "nominal_rows": 10_000, **changes}), counter


EMPTY = np.zeros((0, 2), dtype=np.int64)


def released_table(
    population: tuple[DatasetSpec, MemoryCounter],
    model: str,
    epsilon: str = "0.5",
    *,
    seed: int = 0,
    **parameters: str,
) -> tuple[DatasetSpec, Bundle]:
    """One release, drawn with a seed."""
    spec, counter = population
    amount = Fraction(epsilon)
    spec = replace(spec, models={model: spec.models.get(model, parameters)}, partitions=(amount,))
    built = build_model(spec, model)
    claim = declared_guarantee(spec, built, amount)
    curator = curator_over(
        counter,
        epsilon=claim.amount,
        currency=claim.currency,
        domain=spec.domain,
        distance=spec.distance,
        noise=SeededNoise(seed),
        benchmark=not spec.is_release,
        relation=spec.relation,
    )
    released = built.fit(curator, epsilon=amount, rng=np.random.default_rng(seed))
    facts = {"kind": "dp", "model": model, "epsilon": epsilon, "evaluation": "none"}
    spends = curator.accountant.spends
    return spec, Bundle("ab" * 32, facts, spends, {}, released.tables(), "cd" * 32)


def warnings_of(*population: Any, **parameters: Any) -> tuple[str, ...]:
    return bundle_warnings(*released_table(*population, **parameters))


def kinds(warnings: tuple[str, ...]) -> list[str]:
    return [text.partition(":")[0] for text in warnings]


def blobs(rows: int, *, seed: int = 3) -> np.ndarray:
    """Three towns of different sizes in the square."""
    rng = np.random.default_rng(seed)
    towns = np.array([[1.0, 1.0], [3.0, 1.5], [2.0, 3.2]])[rng.choice(3, rows, p=[0.5, 0.3, 0.2])]
    return np.clip(towns + rng.normal(0, 0.2, (rows, 2)), 0, 4)


@pytest.mark.parametrize("model", CLUSTERINGS)
def test_clustering_of_dropped_rows_warns_of_few_rows(model: str):
    warnings = warnings_of(over_square(EMPTY), model, k="3")
    assert "Few rows" in kinds(warnings)
    assert "10,000 that nominal_rows declares" in warnings[0]


@pytest.mark.chain
@pytest.mark.parametrize("model", CLUSTERINGS)
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_a_nominal_number_that_is_wrong_by_a_fifth_is_no_news(model: str, epsilon: str):
    for rows in (8_000, 12_000):
        assert warnings_of(over_square(blobs(rows)), model, epsilon, k="3") == ()


@pytest.mark.chain
@pytest.mark.parametrize("model", TABLES)
def test_table_of_dropped_rows_warns_of_few_rows(model: str):
    assert kinds(warnings_of(over_people(EMPTY), model)) == ["Few rows"]
    many = np.random.default_rng(1).integers(0, 3, (8_000, 2))
    assert warnings_of(over_people(many), model, "0.1") == ()


def test_empty_table_is_recognised_by_its_noise():
    few = over_people(EMPTY, nominal_rows=None)
    assert kinds(warnings_of(few, "independent")) == ["No rows to be seen"]
    square = over_square(EMPTY, nominal_rows=None)
    assert kinds(warnings_of(square, "eug_kmeans", k="1")) == ["Weak signal"]


def test_fifty_centres_of_three_hundred_rows_are_mostly_noise():
    few = over_square(blobs(300), nominal_rows=300)
    (weak,) = warnings_of(few, "htree_kmeans", "0.1", k="50")
    assert weak.startswith("Weak signal:")
    assert "50 centres are mostly noise" in weak
    assert warnings_of(few, "htree_kmeans", "1", k="3") == ()
    replaced = over_square(blobs(300), relation="replace_one")
    advice = warnings_of(replaced, "htree_kmeans", k="50")[-1]
    assert "N·ε/(k·2) must be at least 20, where neighbouring tables differ by 2 rows" in advice
    assert advice.endswith("Fewer centres or a larger ε would help.")


def test_persons_with_many_rows_are_a_weaker_signal():
    spec, counter = over_square(blobs(3_000), nominal_rows=3_000)
    assert warnings_of((spec, counter), "eug_kmeans", "0.5", k="10") == ()
    of_persons = replace(spec, protection=Protection("rider", 20))
    (message,) = warnings_of((of_persons, counter), "eug_kmeans", "0.5", k="10")
    # The formula is that of the number behind it: about 3,000 · 0.5 / (10 · 20), and not 150.
    assert "N·ε/(k·20) must be at least 20, where neighbouring tables differ by 20 rows" in message
    assert float(message.partition(", but it is ")[2].partition(" ")[0]) < 20
    assert message.endswith("Fewer centres, a larger ε or a smaller at_most would help.")


@pytest.mark.parametrize("model", ["htree_kmeans", "privtree_kmeans", "dp_kmeans_pp"])
def test_rows_clipped_to_a_bound_give_a_warning(model: str):
    clipped = blobs(10_000)
    clipped[:, 1] = 4.0
    spec, counter = over_square(clipped)
    (message,) = warnings_of((spec, counter), model, "1", k="3")
    assert message.startswith("At a bound: ")
    assert "at the upper bound of y; numbers beyond it are clipped to it: bounds or" in message
    dropping = replace(
        spec, domain=Domain(tuple(replace(axis, on_invalid="drop") for axis in SQUARE))
    )
    (message,) = warnings_of((dropping, counter), model, "1", k="3")
    assert "at the upper bound of y; numbers beyond it are dropped with their rows: bo" in message


def test_column_of_other_values_warns_of_one_level():
    thirds = np.arange(10_000) % 3
    unknown, young = ([thirds, 0 * thirds + 2], [0 * thirds, thirds])
    (message,) = warnings_of(over_people(np.stack(unknown, axis=1)), "one_shot", "1")
    assert message.startswith("One level: ")
    assert "tenure = '?'" in message
    # A number in its first bin gives no warning.
    assert warnings_of(over_people(np.stack(young, axis=1)), "one_shot", "1") == ()


def test_the_total_of_a_bundle_is_that_of_its_measured_tables():
    codes = np.random.default_rng(1).integers(0, 3, (5_000, 2))
    spec, bundle = released_table(over_people(codes), "mst")
    sums = bundle.tables["measured"], bundle.tables["cells"]
    total = NoisyTotal.of_tables(bundle.tables, bundle.spends, distance=1)
    assert sums[0]["cells"].sum() == len(sums[1]["noisy_count"])
    assert abs(total.rows - 5_000) < 4 * total.deviation
    without = {name: item for name, item in bundle.tables.items() if name != "cells"}
    assert NoisyTotal.of_tables(without, bundle.spends, distance=1) is None
    assert bundle_warnings(spec, replace(bundle, tables=without)) == ()


def test_totals_of_stored_tables_and_of_a_release_agree():
    spec, counter = over_people(np.random.default_rng(1).integers(0, 3, (5_000, 2)))
    noise = SeededNoise(5)
    curator = curator_over(counter, epsilon=Fraction(1), domain=spec.domain, noise=noise)
    table = MODELS["one_shot"]().fit(curator, epsilon=Fraction(1), rng=np.random.default_rng(0))
    assert isinstance(table, SyntheticTable)
    of_tables = NoisyTotal.of_tables(table.tables(), curator.accountant.spends, distance=1)
    of_counts = NoisyTotal.of_counts(table.noisy_counts)
    assert of_tables.rows == pytest.approx(of_counts.rows)
    assert of_tables.deviation == pytest.approx(of_counts.deviation)


@pytest.mark.chain
@pytest.mark.parametrize("model", COUNTED_ALIKE)
@pytest.mark.parametrize("rows", [0, 500])
def test_the_deviation_of_a_total_is_not_below_that_of_its_noise(model: str, rows: int):
    """40 seeds: the mean square of (N̂ − N)/σ is below 2. A σ that is right passes with all but
    0.1 % (χ² of 40 normals: 1.8 at 99.9 %, a little more with Laplace tails); one that is 30 % of
    the truth fails. htree's N̂ is at least 1 and pulled up by its cut-offs: that hides a missing
    row, it never invents one.
    """
    population = over_square(blobs(rows))
    off = []
    for seed in range(40):
        spec, bundle = released_table(population, model, "0.2", seed=seed, k="3")
        total = NoisyTotal.of_tables(bundle.tables, bundle.spends, distance=spec.distance)
        off.append((total.rows - rows) / total.deviation)
    below = np.minimum(off, 0.0) if model == "htree_kmeans" else np.array(off)
    assert float(np.mean(below**2)) < 2


def test_class_table_warns_without_a_class():
    spec, bundle = released_table(over_people(EMPTY), "independent")
    for rows, expected in (([40, 60], []), ([], ["No class"])):
        classes = {"classes": {"rows": np.array(rows, dtype=np.int64)}, "claims": {}}
        assert kinds(bundle_warnings(spec, replace(bundle, tables=classes))) == expected


def test_k_anonymous_table_has_no_warnings():
    spec, bundle = released_table(over_square(EMPTY), "eug_kmeans", k="3")
    facts = {**bundle.facts, "kind": "not-dp", K_ANONYMITY: "k-anonymity", "reason": "none"}
    assert bundle_warnings(spec, replace(bundle, facts=facts)) == ()


BUILT_IN = {
    "pytest2d": ("htree_kmeans", "dpqt_kmeans", "eug_kmeans"),
    "unbalance_like": ("htree_kmeans", "dpqt_kmeans", "eug_kmeans"),
    "trips": ("htree_kmeans", "eug_kmeans"),
    "census": ("independent",),
}
MOSTLY_NOISE = {("unbalance_like", "0.01")}
"""6,500 rows · 0.01 / 8 centres = 8: NICV is 15 to 175 times that of k-means without privacy."""


@pytest.fixture(scope="module")
def built_in(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root: Path = tmp_path_factory.mktemp("built_in")
    result = {}
    for name in BUILT_IN:
        spec = find_spec(name)
        snapshot = ingest(spec, root, key=KEY, snapshot_id="one", today=date.min)
        mark_validated(spec, snapshot, structural=True, refused=False)
        prepare(spec, snapshot)
        result[name] = (spec, open_counter(spec, Snapshot(snapshot.folder, KEY)))
    return result


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_data_sets_are_silent_at_all_their_partitions(built_in: dict[str, Any], name: str):
    for model in BUILT_IN[name]:
        for epsilon in built_in[name][0].partition_keys:
            warnings = warnings_of(built_in[name], model, epsilon, seed=7)
            expected = ["Weak signal"] if (name, epsilon) in MOSTLY_NOISE else []
            assert kinds(warnings) == expected, (model, epsilon, warnings)


@pytest.mark.parametrize(("sizes", "is_noise"), [((176, 80), True), ((8, 8), False)])
def test_pairs_of_more_noise_than_rows_are_mostly_noise(sizes: tuple[int, int], is_noise: bool):
    def warnings_about(*measured: tuple[str, int, float]) -> list[str]:
        columns = zip(("marginal", "cells", "deviation"), zip(*measured, strict=True), strict=True)
        tables = {"measured": {name: np.array(values) for name, values in columns}}
        spec, total = DatasetSpec.of_domain("town", TOWN), NoisyTotal(5000.0, 1.4)
        warnings = release_warnings(spec, tables, total, epsilon=Fraction(1))
        return [each.partition(":")[0] for each in warnings]

    pair = ("a, b", sizes[0] * sizes[1], 1.4)
    assert warnings_about(("", 1, 10.0), pair) == ["Mostly noise"] * is_noise
    assert warnings_about(("", 1, 1.0), ("a", 4, 9000.0)) == []


def test_no_rows_are_said_to_be_below_deviations_of_the_noise():
    spec, total = DatasetSpec.of_domain("town", TOWN), NoisyTotal(855.0, 229.0)
    (warning,) = release_warnings(spec, {}, total, epsilon=Fraction(1))
    words = "their noisy number, 855, is below 916, 4 standard deviations of its noise, so"
    assert words in warning
    assert release_warnings(spec, {}, NoisyTotal(916.0, 229.0), epsilon=Fraction(1)) == ()


def test_a_release_of_no_units_is_recognised_by_its_noise():
    spec = DatasetSpec.of_domain("units", units_domain())
    tables = fit([], units_domain(), Fraction(1)).tables()
    total = NoisyTotal.of_tables(tables, (), distance=1)
    (warning,) = release_warnings(spec, tables, total, epsilon=Fraction(1))
    assert warning.startswith("No units to be seen")
    tables = fit(couples(300), units_domain(), Fraction(4)).tables()
    total = NoisyTotal.of_tables(tables, (), distance=1)
    assert abs(total.rows - 600) < 4 * total.deviation
