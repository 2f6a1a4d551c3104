"""threshold_filter: which cells it keeps, what they cost, and what rows are drawn from them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.gate.sparse_sampler import expected_above_threshold
from dp_pipeline.models.tables.threshold_filter import ThresholdFilter
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.measurement import codes_of_keys, threshold_for
from dp_pipeline_tests.gate.questions import ONE
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.contract import Constant, run
from dp_pipeline_tests.models.discrete import levels
from dp_pipeline_tests.models.tables import BITS, TWINS, table_of
from dp_pipeline_tests.populations import NOBODY

HUGE = levels(**{f"x{at}": 7 for at in range(22)})
"""7^22 cells, a little below 2^62."""


@settings(max_examples=50)
@given(
    cells=st.integers(1, 1 << 62),
    scale=st.fractions(Fraction(1, 100), 10**4, max_denominator=1000),
    many=st.integers(1, 10**4),
)
def test_a_threshold_is_the_least_that_so_few_empty_cells_reach(cells, scale, many):
    threshold = threshold_for(cells, scale, empty_cells=many)
    assert threshold >= 1
    assert expected_above_threshold(cells, threshold, scale) <= many * (1 + 1e-9)
    lower = expected_above_threshold(cells, threshold - 1, scale)
    assert threshold == 1 or lower >= many * (1 - 1e-9)


def test_without_noise_rows_are_the_people() -> None:
    table = table_of(run(ThresholdFilter(), TWINS, domain=BITS, epsilon=Fraction(10**4)))
    assert sorted(table.codes.tolist()) == sorted([[int(c) for c in row] for row in TWINS])
    assert table.cliques == (BITS.names,)


def crowd(rows: int) -> MemoryCounter:
    """Half of all people in one cell, the others each in one of their own."""
    rng = np.random.default_rng(5)
    codes = {name: rng.integers(0, 7, rows, dtype=np.uint8) for name in HUGE.names}
    for code in codes.values():
        code[: rows // 2] = 3
    return MemoryCounter(HUGE, coordinates={}, codes=codes, rows=rows)


def test_of_a_huge_table_the_crowded_cell_is_kept() -> None:
    model = ThresholdFilter(empty_cells=1)
    curator = curator_over(crowd(2000), epsilon=ONE, domain=HUGE)
    fitted = model.fit(curator, epsilon=ONE, rng=np.random.default_rng(1))
    curator.accountant.require_all_spent()
    crowded = (fitted.codes == 3).all(axis=1)
    assert crowded.mean() > 0.7
    assert abs(len(fitted.codes) - 2000) < 1000


def test_a_threshold_is_of_the_noise_of_persons_rows() -> None:
    model = ThresholdFilter(empty_cells=1)
    scale = run(model, (), domain=BITS, distance=3).draws[1].scale
    threshold = threshold_for(64, scale, empty_cells=1)
    for answer, kept in ((threshold - 1, 0), (threshold, 64)):
        done = run(model, (), domain=BITS, distance=3, noise=Constant(answer))
        assert len(done.draws[1].answer) == kept


def test_where_no_cell_is_kept_rows_are_anywhere() -> None:
    model = ThresholdFilter(empty_cells=1, synthetic_rows=3000)
    table = table_of(run(model, NOBODY, epsilon=Fraction(1000)))
    assert table.codes.shape == (3000, 3)
    assert (table.counts(("colour",)) > 800).all()


def test_keys_are_the_codes_in_mixed_radix() -> None:
    shape = (3, 1, 4, 2)
    keys = np.arange(24)
    assert np.array_equal(codes_of_keys(keys, shape).T, np.unravel_index(keys, shape))
    last = codes_of_keys(np.array([7**22 - 1]), (7,) * 22)
    assert last.tolist() == [[6] * 22]


def test_a_table_of_too_many_cells_is_refused_by_name() -> None:
    ThresholdFilter().check(HUGE)
    wider = levels(**{f"x{index}": 7 for index in range(23)})
    with pytest.raises(DeclarationError, match=r"at most 2\^62 cells together, but x0, x1, .*x22"):
        ThresholdFilter().check(wider)
    ThresholdFilter(attributes=("x1", "x22")).check(wider)
