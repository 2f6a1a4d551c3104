"""What a model asks for: parameters from text, numbers of levels and cells, and shares of ε."""

from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.catalogue import available_datasets
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import from_text, texts_of
from dp_pipeline.gate.counter import MAX_GRID_CELLS
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models import MODELS, build_model
from dp_pipeline.models.base import ModelFit, guarantee_of, planning_units
from dp_pipeline.models.clustering.base import cells_per_axis
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans, tree_height
from dp_pipeline.models.clustering.grid_kmeans import EugKMeans
from dp_pipeline.models.clustering.privtree_kmeans import PrivTreeKMeans
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.raw.counters.batch import Answer, BatchQuery
from dp_pipeline.raw.counters.fold import FoldCounter
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.config.declarations import loaded
from dp_pipeline_tests.instruments import RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import Constant, LargeAnswers, build_declared, built, run
from dp_pipeline_tests.models.tables import in_memory, space, two_groups, wide
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN


def test_a_model_that_is_not_declared_or_not_known_is_refused(tmp_path) -> None:
    spec = loaded(tmp_path, models="models: {eug_kmeans: , magic: }")
    for name in ("independent", "magic", "nope"):
        with pytest.raises(DeclarationError, match=f"must be one of eug_kmeans, not '{name}'"):
            build_model(spec, name)


def test_declared_rows_reach_every_model_that_plans_with_them(tmp_path) -> None:
    rows = "nominal_rows: 1234"
    for name, model_type in MODELS.items():
        known = {field.name for field in fields(model_type)}
        needed = {"label": "colour"} if "label" in known else {}
        model = build_declared(tmp_path, name, needed, nominal_rows=rows)
        if "nominal_rows" in known:
            assert model.nominal_rows == 1234
            own = build_declared(tmp_path, name, {"nominal_rows": "7"}, nominal_rows=rows)
            assert own.nominal_rows == 7
            assert build_declared(tmp_path, name, {}).nominal_rows is None


def test_every_model_of_every_built_in_data_set_can_be_built(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path))
    monkeypatch.delenv("DP_PIPELINE_DATASETS", raising=False)
    built = [build_model(spec, name) for spec in available_datasets() for name in spec.models]
    assert {type(model) for model in built} == set(MODELS.values())


def test_parameters_are_read_and_written_in_two_kinds() -> None:
    texts = {"k": "5", "columns": "x y", "nominal_rows": "99", "gamma": "0.25", "starts": "3"}
    model = from_text(DpqtKMeans, texts, of="toy")
    assert model == DpqtKMeans(
        k=5, columns=("x", "y"), nominal_rows=99, gamma=Fraction(1, 4), starts=3
    )
    measuring, others = (texts_of(model, measuring=kind) for kind in (True, False))
    own = {"columns": "('x', 'y')", "nominal_rows": "99", "gamma": "1/4"}
    assert measuring == {**own, "variant": "sound"}
    assert others == {"k": "5", "starts": "3"}


CHANGED = {
    "k": 2,
    "recluster": 2,
    "starts": 1,
    "synthetic_rows": 3,
    "negatives": "clipped",
    "family_cells": 16,
    "beta": Fraction(1, 4),
}
"""Another value of every parameter that shapes post-processing in some model."""

POST_PROCESSED = [
    name
    for name, model_type in MODELS.items()
    if not all(field.metadata["measuring"] for field in fields(model_type))
]


def test_centres_that_are_moved_have_measuring_parameters_alone() -> None:
    rest = "dp_kjig dplk_kmeans dplloyd dp_kmeans dp_kmeans_pp hybrid_kmeans idp_kmeans oept_kmeans"
    assert {*MODELS} - {*POST_PROCESSED} == {*rest.split()}


@pytest.mark.parametrize("name", POST_PROCESSED)
def test_a_parameter_not_measuring_asks_no_other_question(name: str) -> None:
    model_type = MODELS[name]
    others = [field.name for field in fields(model_type) if not field.metadata["measuring"]]
    base = built(model_type, nominal_rows=1000)
    changed = replace(base, **{field: CHANGED[field] for field in others})
    # Another seed too: that of a release hashes what is post-processed.
    first, other = run(base), run(changed, seed=8)
    assert first.spends == other.spends
    assert [draw.exact.tolist() for draw in first.draws] == [
        draw.exact.tolist() for draw in other.draws
    ]


@settings(max_examples=80)
@given(units=st.floats(0, 1e18), epsilon=st.floats(1e-6, 1e6), dimensions=st.integers(1, 40))
def test_planned_trees_and_grids_fit_the_gate(units, epsilon, dimensions):
    height, cells = tree_height(units, dimensions), cells_per_axis(units, epsilon, dimensions)
    assert height >= 0
    assert 1 << (height * dimensions) <= MAX_GRID_CELLS
    assert 1 <= cells**dimensions <= MAX_GRID_CELLS


@pytest.mark.parametrize(
    ("rows", "dimensions", "height"),
    [
        (100_000, 2, 5),
        (1, 2, 0),
        (2, 1, 0),
        (3, 1, 1),
        (2981, 2, 4),
        (10**15, 2, 12),
        (10**6, 30, 0),
    ],
)
def test_a_tree_has_ln_n_over_d_levels(rows: int, dimensions: int, height: int) -> None:
    assert tree_height(rows, dimensions) == height


@settings(max_examples=50)
@given(units=st.floats(1, 1e6), epsilon=st.floats(0.01, 10), dimensions=st.integers(1, 3))
def test_a_grid_is_the_published_one_up_to_rounding(units, epsilon, dimensions):
    published = (units * epsilon / 10) ** (2 / (2 + dimensions))
    cells = cells_per_axis(units, epsilon, dimensions)
    assert cells == 1 or abs(cells - min(published, MAX_GRID_CELLS ** (1 / dimensions))) < 1


def test_declared_rows_are_free_and_others_cost_two_percent() -> None:
    curator = curator_over(TEN_PEOPLE, distance=20)
    assert planning_units(curator, 1000, Fraction(1)) == (50.0, Fraction(1))
    assert curator.accountant.spends == ()
    noise, many = RecordingNoise(), Fraction(10**5)
    curator = curator_over(TEN_PEOPLE, distance=2, noise=noise)
    assert planning_units(curator, None, many) == (5.0, Fraction(98_000))
    assert noise.draws[0].scale == Fraction(2, 2000)
    assert planning_units(curator_over(()), None, many)[0] == 1.0


def test_a_quadtree_tests_levels_and_counts_leaves_afresh() -> None:
    # N = 1000, d = 2: three levels, threshold 1. ε so large that there is no noise.
    epsilon = Fraction(10**6)
    done = run(DpqtKMeans(k=3, nominal_rows=1000), epsilon=epsilon)
    *splits, leaves = done.spends
    assert [spend.epsilon for spend in splits] == [epsilon * Fraction(3, 10) / 3] * 3
    assert leaves.epsilon == epsilon * Fraction(7, 10)
    root, quarters, sixteenths = (draw.exact.tolist() for draw in done.draws[:3])
    assert root == [10]
    assert quarters == [4, 0, 1, 5]
    # Two quarters have more than one row; their children, in the order of the corners.
    assert sixteenths == [4, 0, 0, 0, 1, 0, 0, 4]
    synopsis, people = done.released.synopsis, np.array([row[:2] for row in TEN_PEOPLE])
    below = (people < synopsis.upper[:, None]) | (synopsis.upper == [8.0, 1.0])[:, None]
    inside = (below & (people >= synopsis.lower[:, None])).all(axis=2)
    assert inside.sum(axis=1).tolist() == synopsis.weights.tolist()
    assert inside.sum(axis=0).tolist() == [1] * 10
    assert len(inside) == 2 + 6 + 2 * 4


@pytest.mark.parametrize(("answer", "is_split"), [(6, False), (7, True)])
def test_a_box_is_split_above_a_thousandth_of_all_rows(answer: int, is_split: bool) -> None:
    model = DpqtKMeans(k=3, columns=("x",), nominal_rows=6000)
    released = run(model, distance=3, noise=Constant(answer)).released
    assert (len(released.synopsis.weights) > 1) == is_split


def test_a_quadtree_never_tests_its_last_level() -> None:
    done = run(DpqtKMeans(k=3, nominal_rows=1000), noise=LargeAnswers())
    assert [len(draw.exact) for draw in done.draws] == [1, 4, 16, 64]


def test_a_grid_is_one_measure_of_all_cells() -> None:
    done = run(EugKMeans(k=3, nominal_rows=1000), epsilon=Fraction(1))
    assert [draw.exact.shape for draw in done.draws] == [(10, 10)]
    assert [spend.epsilon for spend in done.spends] == [1]


def test_every_attribute_gets_the_root_of_its_size_as_its_share() -> None:
    done = run(Independent(), epsilon=Fraction(1))
    shares = [float(spend.epsilon) for spend in done.spends]
    roots = np.sqrt(TOWN.shape(("y", "colour", "smokes")))
    assert shares == pytest.approx((roots / roots.sum()).tolist(), rel=1e-3)
    equal = run(Independent(shares="equal"), epsilon=Fraction(1))
    assert [spend.epsilon for spend in equal.spends] == [Fraction(1, 3)] * 3


def test_privtree_splits_as_often_as_its_levels_say() -> None:
    for levels, leaves in ((1, 4), (2, 16)):
        done = run(PrivTreeKMeans(k=2, levels=levels), noise=LargeAnswers())
        assert done.draws[-1].exact.size == leaves


LOOKS = {
    "htree_kmeans": 9,
    "eug_kmeans": 2,
    "dpqt_kmeans": 2,
    "hybrid_kmeans": 3,
    "dplloyd": 7,
    "independent": 1,
    "priview": 1,
    "jtree": 3,
    "privhd": 3,
    "mst": 3,
    "one_shot": 5,
}
"""Model → looks at most. Those that choose again and again, as PrivBayes and AIM, take one a round;
a generation of a tree is one."""


def scan_count(name: str) -> int:
    """Return how often one fit with default parameters at ε = 1 scans the rows."""
    rows: MemoryCounter
    if name.endswith(("kmeans", "lloyd")):
        domain = space(3)
        rows = in_memory(two_groups(domain, 4000), domain)
    else:
        domain, rows = wide(8, 4000)
    queries: list[BatchQuery] = []

    def fold(query: BatchQuery) -> Answer | None:
        queries.append(query)
        return rows._fold(query)

    model, epsilon, rng = MODELS[name](), Fraction(1), np.random.default_rng(0)
    spec = DatasetSpec.of_domain("rows", domain, purpose="release")
    fit = ModelFit(spec, model, guarantee_of(model, epsilon))
    fit.fit_model(FoldCounter(domain, fold), Transcript(), SeededNoise(1), epsilon=epsilon, rng=rng)
    return len(queries)


@pytest.mark.parametrize("name", LOOKS)
def test_a_release_looks_at_the_rows_a_few_times(name: str) -> None:
    assert 1 <= scan_count(name) <= LOOKS[name]
