"""What an amount buys, and how tables share one: no other split has less noise."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.results.measurement import NoiseRate, NoisyMarginal

both = pytest.mark.parametrize("concentrated", [False, True], ids=["Laplace", "Gaussian"])
weights = st.lists(st.floats(0.5, 1e4), min_size=1, max_size=6)


@both
@pytest.mark.parametrize("distance", [1, 7])
def test_deviation_and_variance_are_those_of_a_table(concentrated: bool, distance: int):
    amount = Fraction(1, 5000)
    scale = Fraction(distance**2) / (2 * amount) if concentrated else distance / amount
    table = NoisyMarginal(("a",), np.zeros(2, np.int64), scale, gaussian=concentrated)
    rate = NoiseRate(concentrated, distance)
    assert rate.mean_noise(float(amount)) == pytest.approx(table.mean_noise, rel=0.01)
    assert rate.variance(float(amount)) == pytest.approx(table.variance, rel=0.01)


@given(
    concentrated=st.booleans(),
    weights=weights,
    amount=st.floats(1e-4, 10),
    parts=st.lists(st.floats(0.01, 1), min_size=6, max_size=6),
)
def test_no_split_of_the_amount_has_less_noise_than_the_shares(
    concentrated, weights, amount, parts
):
    rate = NoiseRate(concentrated, distance=3)

    def noise(shares: list[float]) -> float:
        amounts = [amount * share / sum(shares) for share in shares]
        return sum(w * rate.mean_noise(part) for w, part in zip(weights, amounts, strict=True))

    least = noise([rate.relative_share(weight) for weight in weights])
    assert noise(parts[: len(weights)]) >= least * (1 - 1e-9)


@both
def test_shares_for_an_exact_split_are_whole_and_at_least_one(concentrated: bool):
    shares = NoiseRate(concentrated, 1).integer_shares([0.0, 1e-9, 1.0, 4.0])
    assert shares[:3] == [1, 1, 1000]
    assert shares[3] == pytest.approx(1000 * 4 ** (2 / 3 if concentrated else 0.5), abs=1)
    assert all(type(share) is Fraction for share in shares)
