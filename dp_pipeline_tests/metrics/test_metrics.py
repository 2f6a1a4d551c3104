import math
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dp_pipeline.metrics
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.clustering import nearest_centres, nicv, rcp
from dp_pipeline_tests.test_architecture import run_code

coordinate = st.floats(-1e6, 1e6)


@given(
    points=st.lists(st.tuples(coordinate, coordinate), min_size=1, max_size=9),
    centres=st.lists(st.tuples(coordinate, coordinate), min_size=1, max_size=4),
)
def test_nicv_is_the_mean_squared_distance_to_the_nearest_centre(points, centres):
    nearest = [min(math.dist(point, centre) ** 2 for centre in centres) for point in points]
    actual = nicv(np.array(points), np.array(centres))
    assert actual == pytest.approx(sum(nearest) / len(points), rel=1e-6, abs=1e-3)


def test_nicv_is_exact_at_large_offsets():
    points = np.array([[1e9, 1e9], [1e9 + 2, 1e9]])
    assert nicv(points, np.array([[1e9 + 1, 1e9]])) == 1.0


def test_nicv_of_many_rows_is_the_same_as_of_their_blocks():
    rng = np.random.default_rng(0)
    points, centres = rng.normal(size=(3 << 14, 2)), rng.normal(size=(100, 2))
    parts = [nicv(block, centres) for block in np.split(points, 3)]
    assert nicv(points, centres) == pytest.approx(np.mean(parts))


def test_every_point_goes_to_the_nearest_centre():
    points = np.array([[0.0, 0.0], [2.0, 0.0], [1.5, 5.0]])
    assert nearest_centres(points, np.array([[2.0, 0.0], [0.0, 0.0]])).tolist() == [1, 0, 0]


def test_nicv_of_no_rows_is_not_a_number():
    assert math.isnan(nicv(np.zeros((0, 2)), np.zeros((1, 2))))


@pytest.mark.parametrize(
    ("points", "centres"), [((3, 2), (1, 3)), ((3,), (1, 2)), ((3, 2), (2,)), ((3, 2), (0, 2))]
)
def test_nicv_refuses_shapes_that_do_not_fit(points, centres):
    with pytest.raises(DeclarationError, match="centres"):
        nicv(np.zeros(points), np.zeros(centres))


def test_rcp_is_positive_when_the_candidate_is_better():
    assert rcp(reference=4.0, candidate=1.0) == 75.0
    assert rcp(reference=4.0, candidate=6.0) == -50.0
    assert math.isnan(rcp(reference=0.0, candidate=1.0))
    assert math.isnan(rcp(reference=math.nan, candidate=1.0))


def test_metrics_load_nothing_heavier_than_numpy():
    files = pkgutil.iter_modules(dp_pipeline.metrics.__path__, "dp_pipeline.metrics.")
    imports = ", ".join(file.name for file in files)
    imported = set(run_code(f"import sys, {imports}; print(*sys.modules)").stdout.split())
    assert "numpy" in imported
    assert not {"pandas", "pyarrow", "sklearn", "scipy"} & imported
