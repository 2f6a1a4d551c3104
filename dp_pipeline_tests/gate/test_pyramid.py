import numpy as np
import pytest

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.trees import pyramid
from dp_pipeline.raw.counters.geometry import grid_counts

EDGE = 1 << 16


@pytest.mark.parametrize(("dimensions", "height"), [(1, 0), (1, 6), (2, 5), (3, 3), (4, 2)])
def test_each_level_equals_a_direct_count(dimensions, height):
    rng = np.random.default_rng(dimensions)
    columns = rng.integers(-EDGE, EDGE, size=(dimensions, 500), endpoint=True)
    columns[:, :9] = EDGE
    levels = pyramid(grid_counts(columns, 1 << height, rows=500))
    assert len(levels) == height + 1
    for index, level in enumerate(levels):
        direct = grid_counts(columns, 1 << index, rows=500)
        assert level.shape == (1 << index,) * dimensions
        assert level.dtype == np.int64
        assert level.flags.c_contiguous
        assert np.array_equal(level, direct)


def test_an_empty_grid_has_empty_levels():
    assert [level.sum() for level in pyramid(np.zeros((8, 8), dtype=np.int64))] == [0, 0, 0, 0]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 4), (6, 6)])
def test_a_grid_that_is_not_a_power_of_two_an_axis_is_refused(shape):
    with pytest.raises(BoundaryViolation, match="on every axis"):
        pyramid(np.zeros(shape, dtype=np.int64))
