"""What one_shot takes for a gap: without what the noise of one-way marginals puts there."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.amounts import Currency
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.models.tables.one_shot.gaps import GapQuestions, _InCube
from dp_pipeline.models.tables.one_shot.plan import Plan
from dp_pipeline.models.tables.one_shot.round import Round
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.discrete import counter_of, dependent_rows, domain_of

DELTA = Fraction(1, 10**9)
SIZES = (4, 7, 3, 12, 5)

both_currencies = pytest.mark.parametrize("delta", [None, DELTA], ids=["epsilon", "rho"])


def asking(
    codes: np.ndarray,
    epsilon: str,
    *,
    seed: int = 0,
    delta: Fraction | None = None,
    sizes: tuple[int, ...] = SIZES,
) -> GapQuestions:
    """After one-way marginals for a fifth of the amount."""
    domain, currency = domain_of(sizes), Currency(delta)
    curator = curator_over(
        counter_of(domain, codes),
        domain=domain,
        epsilon=currency.amount_of(Fraction(epsilon)),
        currency=currency,
        noise=SeededNoise(seed),
    )
    round_ = OneShot()._begun(curator)
    begun = round_.begun(round_.planning.amount / 5)
    return GapQuestions(round_.planning, curator, begun, round_.zeros)


def without_noise(codes: np.ndarray, asked: GapQuestions) -> dict[tuple[str, str], float]:
    """‖c − N̂p̂p̂ᵀ‖₁ of every pair over groups of levels."""
    found, shares = {}, asked.begun.shares
    for pair in asked.planning.pairs:
        one, other = (np.array(asked.begun.groupings[name].groups) for name in pair)
        counts = np.zeros([len(shares[name]) for name in pair])
        places = (one[codes[:, int(pair[0][1:])]], other[codes[:, int(pair[1][1:])]])
        np.add.at(counts, places, 1)
        expected = asked.begun.ways.rows * np.outer(*(shares[name] for name in pair))
        found[pair] = float(np.abs(counts - expected).sum())
    return found


def every_combination(often: int) -> np.ndarray:
    """Rows as independent as can be, one level of x3 so many times as often as each other one."""
    codes = np.stack(np.meshgrid(*map(np.arange, SIZES)), axis=-1).reshape(-1, len(SIZES))
    return np.concatenate([codes] * 8 + [codes[codes[:, 3] == 0]] * 8 * (often - 1))


@both_currencies
@pytest.mark.parametrize(("often", "epsilon", "groups"), [(1, "0.1", 12), (90, "0.02", 5)])
def test_what_noise_puts_into_a_gap_is_foreseen(
    delta: Fraction | None, often: int, epsilon: str, groups: int
) -> None:
    # 40 times ten pairs: their mean is off by less than 4 % and a false alarm less likely than
    # 10⁻⁶; shares without negative ones have a little less noise than what was measured.
    codes, seen, foreseen, levels = every_combination(often), [], [], []
    for seed in range(40):
        asked = asking(codes, epsilon, seed=seed, delta=delta)
        seen.append(sum(without_noise(codes, asked).values()))
        foreseen.append(sum(map(asked._beside, asked.planning.pairs)))
        levels.append(asked.begun.groupings["x3"].size)
    assert np.mean(levels) == pytest.approx(groups, abs=1)
    assert np.mean(seen) == pytest.approx(np.mean(foreseen), rel=0.12)


@both_currencies
def test_gaps_of_all_pairs_are_about_what_they_are_without_noise(delta: Fraction | None) -> None:
    codes = dependent_rows(SIZES, 30_000)
    asked = asking(codes, "40", delta=delta)
    found = asked.asked(Plan(Fraction(1, 5), Fraction(1, 10)))
    true = without_noise(codes, asked)
    assert list(found) == asked.planning.pairs
    for pair, gap in found.items():
        assert gap == pytest.approx(true[pair], abs=300)


@both_currencies
def test_picked_pairs_are_those_with_large_gaps_and_no_circle(delta: Fraction | None) -> None:
    codes = dependent_rows(SIZES, 30_000)
    asked = asking(codes, "40", delta=delta)
    found = asked.asked(Plan(Fraction(1, 5), Fraction(1, 10), picks=3))
    true = nx.Graph()
    for pair, gap in without_noise(codes, asked).items():
        true.add_edge(*pair, weight=gap)
    best = sorted(nx.maximum_spanning_edges(true), key=lambda one: -one[2]["weight"])[:3]
    picked = {frozenset(pair) for pair, gap in found.items() if gap > 0}
    assert picked == {frozenset(edge[:2]) for edge in best}
    for one, other, edge in best:
        gap = max(found.get((one, other), 0.0), found.get((other, one), 0.0))
        assert gap == pytest.approx(edge["weight"], abs=60)


@both_currencies
def test_pairs_not_picked_have_the_rest_of_the_mean(
    delta: Fraction | None,
) -> None:
    codes = dependent_rows(SIZES, 30_000)
    asked = asking(codes, "40", delta=delta)
    plan = Plan(Fraction(1, 5), Fraction(1, 10), picks=3, mean_gap=Fraction(1, 10))
    found, true = asked.asked(plan), without_noise(codes, asked)
    largest = sorted(found.values())[-3:]
    (rest,) = {gap for gap in found.values() if gap not in largest}
    assert rest == pytest.approx((sum(true.values()) - sum(largest)) / (len(true) - 3), abs=60)
    assert rest > 100


@both_currencies
def test_tables_that_one_way_marginals_pay_for_are_left_out(
    delta: Fraction | None,
) -> None:
    # Independent rows at a small ε: the error of all pairs is least without any table.
    codes = np.random.default_rng(2).integers(0, SIZES, (4000, len(SIZES)))
    asked = asking(codes, "0.2", delta=delta)
    round_ = Round(asked.curator, asked.planning, asked.begun.first[0], asked.zeros)
    two, pairs = [("x0", "x1"), ("x3", "x4")], asked.planning.pairs
    for gap, tables, kept in ((1.0, pairs, []), (3900.0, two, two)):
        gaps = dict.fromkeys(pairs, 0.0) | dict.fromkeys(tables, gap)
        search = round_.search(asked.begun, gaps)
        assert list(round_._worth(asked.begun, search, tables)) == kept


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    many=st.integers(1, 400), scale=st.floats(0.5, 50), far=st.sampled_from([0.1, 0.5, 0.9, 1.1])
)
def test_noise_in_a_cube_is_as_likely_as_its_density_says(
    many: int, scale: float, far: float
) -> None:
    # R is Gamma(many + 1) and the noise uniform in ± R: 60,000 draws; a false alarm of one of 30
    # cases is less likely than 10⁻⁶.
    rng = np.random.default_rng(many)
    noise = scale * rng.gamma(many + 1, size=60_000) * rng.uniform(-1, 1, 60_000)
    cube = _InCube(many, scale)
    assert np.abs(noise).max() < 3 * cube.reach
    places = np.linspace(0, 2 * cube.reach, 20_001)
    density = cube.density(places)
    assert np.square(noise).mean() == pytest.approx(cube.variance, rel=0.05)
    here = places <= far * scale * (many + 1)
    expected = density[here].sum() / density.sum()
    assert np.mean(np.abs(noise) <= far * scale * (many + 1)) == pytest.approx(expected, abs=0.012)


def chain_of(rows: int) -> np.ndarray:
    """Twelve attributes of five levels, each as the one before it two times out of three."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 5, (rows, 12))
    for at in range(1, 12):
        follows = rng.random(rows) < 2 / 3
        codes[follows, at] = codes[follows, at - 1]
    return codes


@both_currencies
def test_gaps_of_a_chain_are_near_what_its_tree_says(delta: Fraction | None) -> None:
    # The mean over ten releases of 55 pairs: less than half the square of the error.
    codes, near, alone = chain_of(20_000), [], []
    for seed in range(10):
        asked = asking(codes, "0.2", seed=seed, delta=delta, sizes=(5,) * 12)
        pairs, price = asked.planning.pairs, asked.planning.amount / 10
        true = without_noise(codes, asked)
        outside = [pair for pair in pairs if int(pair[1][1:]) - int(pair[0][1:]) > 1]
        noisy = asked._noisy(pairs, price)
        likely = dict(zip(pairs, noisy.likely().tolist(), strict=True))
        again = asking(codes, "0.2", seed=seed, delta=delta, sizes=(5,) * 12)
        found = again._measured(pairs, price)
        near.append(np.mean([(found[pair] - true[pair]) ** 2 for pair in outside]))
        alone.append(np.mean([(likely[pair] - true[pair]) ** 2 for pair in outside]))
    assert np.mean(near) < np.mean(alone) / 2
