import numpy as np
import pytest

from dp_pipeline.metrics.marginals import REDRAWS, redraw_error


def total(table: np.ndarray) -> float:
    return float(table.sum())


def test_the_error_of_a_sum_is_its_standard_deviation():
    # √(2 · 9) · 5 = 21.2; the spread of 200 draws of a sum of nine is 6 %: four of those.
    assert redraw_error(total, np.zeros((3, 3)), scale=5.0) == pytest.approx(21.2, rel=0.24)


def test_a_bias_is_part_of_the_error():
    def biased(table: np.ndarray) -> float:
        return 0.0 if (table == 7).all() else 100.0

    assert redraw_error(biased, np.full(2, 7.0), scale=1.0) == 100.0


def test_what_noise_does_not_move_has_no_error():
    assert redraw_error(lambda _: 0.5, np.ones((2, 2)), scale=1.0) == 0.0


def test_one_table_has_one_error():
    believed = np.arange(6.0).reshape(2, 3)
    first, again = (redraw_error(total, believed, scale=3.0) for _ in range(2))
    assert first == again
    assert REDRAWS >= 100
