"""Forty columns: what has a grid says that it cannot, the rest gives centres."""

from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.gate.counter import MAX_GRID_AXES
from dp_pipeline.gate.curator import Curator
from dp_pipeline.models import MODELS
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.contract import built

GRIDS = {"dp_kmeans_pp", "dpqt_kmeans", "eug_kmeans", "hybrid_kmeans", "oept_kmeans"}
OTHERS = [
    name for name, model in MODELS.items() if issubclass(model, Clustering) and name not in GRIDS
]


def wide(columns: int) -> Domain:
    """Columns in the box [0, 1], the first twice as wide."""
    return Domain(
        tuple(
            Attribute(
                f"x{index}", f"x{index}", "clip", coordinate=Coordinate(0.0, 1.0 if index else 2.0)
            )
            for index in range(columns)
        )
    )


def over_two_places(columns: int) -> Curator:
    """A hundred rows at a quarter of every side, and a hundred at three quarters."""
    domain = wide(columns)
    places = np.repeat(np.array([-(1 << 15), 1 << 15], dtype=np.int32), 100)
    coordinates = dict.fromkeys(domain.numeric, places)
    counter = MemoryCounter(domain, coordinates=coordinates, codes={}, rows=200)
    return curator_over(counter, domain=domain)


@pytest.mark.parametrize("name", sorted(GRIDS))
def test_a_grid_takes_32_columns_and_refuses_more(name: str) -> None:
    model = built(MODELS[name], nominal_rows=1000)
    model.check(wide(MAX_GRID_AXES))
    released = model.fit(
        over_two_places(MAX_GRID_AXES), epsilon=Fraction(10**6), rng=np.random.default_rng(1)
    )
    assert np.isfinite(released.centres).all()
    with pytest.raises(DeclarationError, match="A clustering by this grid takes at most"):
        model.check(wide(MAX_GRID_AXES + 1))


@pytest.mark.parametrize("columns", [33, 64, 65])
def test_the_gate_refuses_a_grid_that_no_array_can_hold(columns: int) -> None:
    curator = over_two_places(columns)
    with pytest.raises(BoundaryViolation, match="A grid must have at most 32 axes, not "):
        curator.measure_grid(curator.domain.numeric, cells=1, epsilon=Fraction(1))
    assert curator.accountant.spends == ()


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_models_give_centres_in_forty_columns(name: str) -> None:
    model = built(MODELS[name], nominal_rows=1000)
    model.check(wide(40))
    released = model.fit(over_two_places(40), epsilon=Fraction(10**6), rng=np.random.default_rng(1))
    assert released.centres.shape == (3, 40)
    assert ((released.centres >= 0) & (released.centres <= [2.0] + [1.0] * 39)).all()


def test_a_tree_finds_both_places_in_forty_columns() -> None:
    model = built(MODELS["htree_kmeans"], k=2)
    released = model.fit(over_two_places(40), epsilon=Fraction(10**6), rng=np.random.default_rng(1))
    # Its forty bits are two for the wide side and one for every other but the last.
    low, high = sorted(released.centres.tolist())
    assert np.allclose(low[1:39], 0.25, atol=0.01)
    assert np.allclose(high[1:39], 0.75, atol=0.01)
