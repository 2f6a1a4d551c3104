"""A table of independent attributes: shares near the counts, rows near the shares."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.release.measurement import NoisyMarginal, variance
from dp_pipeline.release.product import (
    ProductTable,
    estimated_rows,
    pair_probabilities,
    sample_product,
)
from dp_pipeline_tests.populations import TOWN

COLOUR, SMOKES = [500, 300, 200], [900, 100]


def marginal(name: str, table: list[int], scale: str = "1") -> NoisyMarginal:
    return NoisyMarginal((name,), np.array(table), Fraction(scale))


def product_of(colour: list[int], smokes: list[int], rows: int = 10) -> ProductTable:
    marginals = (marginal("colour", colour), marginal("smokes", smokes))
    codes = sample_product(marginals, rows, np.random.default_rng(1))
    return ProductTable(marginals, codes, TOWN)


def test_the_released_probabilities_are_the_shares_of_the_counts() -> None:
    product = product_of(COLOUR, SMOKES)
    assert np.allclose(product.probabilities(("colour",)), [0.5, 0.3, 0.2])
    assert np.allclose(product.probabilities(("smokes",)), [0.9, 0.1])


def test_the_distribution_of_a_pair_is_the_product_in_the_order_asked() -> None:
    product = product_of(COLOUR, SMOKES)
    pair = product.probabilities(("smokes", "colour"))
    assert pair.shape == (2, 3)
    assert np.allclose(pair, np.multiply.outer([0.9, 0.1], [0.5, 0.3, 0.2]))


def test_synthetic_rows_have_the_released_shares() -> None:
    # 10^5 rows: a share is off by more than 0.01 with probability below 10^-9.
    product = product_of(COLOUR, SMOKES, rows=100_000)
    drawn = np.bincount(product.codes[:, 0], minlength=3) / 100_000
    assert np.abs(drawn - [0.5, 0.3, 0.2]).max() < 0.01


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    colour=st.lists(st.integers(-100, 100) | st.integers(-(2**62), 2**62), min_size=3, max_size=3),
    smokes=st.lists(st.integers(-100, 100), min_size=2, max_size=2),
)
def test_any_noisy_counts_give_probabilities_and_rows(colour: list[int], smokes: list[int]) -> None:
    product = product_of(colour, smokes)
    for names in (("colour",), ("smokes",), ("colour", "smokes")):
        shares = product.probabilities(names)
        assert shares.shape == TOWN.shape(names)
        assert (shares >= 0).all()
        assert np.isclose(shares.sum(), 1)
    assert (product.codes >= 0).all()
    assert (product.codes < TOWN.shape(("colour", "smokes"))).all()


def test_the_tables_name_every_cell_and_every_row() -> None:
    tables = product_of(COLOUR, SMOKES).tables()
    assert tables["marginals"]["attribute"].tolist() == ["colour"] * 3 + ["smokes"] * 2
    assert tables["marginals"]["level"].tolist() == ["red", "green", "blue", "no", "yes"]
    assert tables["marginals"]["noisy_count"].tolist() == COLOUR + SMOKES
    assert tables["marginals"]["probability"].sum() == pytest.approx(2)
    assert set(tables["synthetic"]) == {"colour", "smokes"}
    assert set(tables["synthetic"]["colour"].tolist()) <= {"red", "green", "blue"}
    assert len(tables["synthetic"]["smokes"]) == 10


def test_a_table_of_no_rows_has_none() -> None:
    tables = product_of(COLOUR, SMOKES, rows=0).tables()
    assert [len(values) for values in tables["synthetic"].values()] == [0, 0]


# How many rows there are.


def test_the_number_of_rows_is_the_mean_of_the_totals_weighted_by_inverse_variance() -> None:
    one, other = marginal("colour", [10, 20, 30], "2"), marginal("smokes", [50, 50], "1/2")
    weights = 1 / np.array([3 * variance(one.scale), 2 * variance(other.scale)])
    expected = (weights * [60, 100]).sum() / weights.sum()
    assert estimated_rows((one, other)) == round(expected)


def test_totals_without_noise_are_the_number_of_rows() -> None:
    silent = (marginal("colour", COLOUR, "1/10000"), marginal("smokes", [899, 101], "1/1000000"))
    assert estimated_rows(silent) == 1000


@pytest.mark.parametrize("table", [[-5, 1, 1], [0, 0, 0], [-(2**62), 0, 0]])
def test_there_are_never_fewer_than_no_rows(table: list[int]) -> None:
    assert estimated_rows((marginal("colour", table),)) == 0


def test_agreeing_totals_are_the_number_of_rows() -> None:
    assert (
        estimated_rows((marginal("colour", COLOUR, "7"), marginal("smokes", SMOKES, "3"))) == 1000
    )


@pytest.mark.parametrize("scale", ["1/2", "1", "7/3", "100"])
def test_the_variance_is_that_of_the_discrete_laplace(scale: str) -> None:
    q = np.exp(-1 / float(Fraction(scale)))
    x = np.arange(-20_000, 20_001)
    chances = (1 - q) / (1 + q) * q ** np.abs(x).astype(float)
    assert variance(Fraction(scale)) == pytest.approx((chances * x * x).sum(), rel=1e-9)


def test_the_variance_is_known_at_the_largest_scale_that_noise_can_have() -> None:
    assert variance(Fraction(2**55)) == pytest.approx(2 * 2.0**110)


def test_pairs_of_stored_marginals_are_products_and_the_too_large_are_left_out() -> None:
    table = {
        "attribute": np.array(["a", "a", "b", "b", "b", "c", "c"]),
        "probability": np.array([0.5, 0.5, 0.2, 0.3, 0.5, 1.0, 0.0]),
    }
    pairs = pair_probabilities(table, most_cells=4)
    assert {pair: one.tolist() for pair, one in pairs.items()} == {
        ("a", "c"): [[0.5, 0.0], [0.5, 0.0]]
    }
    assert len(pair_probabilities(table, most_cells=6)) == 3
