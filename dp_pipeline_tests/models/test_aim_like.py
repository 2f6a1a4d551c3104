"""AIM-like: what it measures next, for how much, and when it stops."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from dp_pipeline.inference.clique_growth import CliqueGrowth
from dp_pipeline.models.base import guarantee_of
from dp_pipeline.models.tables import aim_like
from dp_pipeline.models.tables.aim_like import AimLike
from dp_pipeline.results.accountant import EXPONENTIAL, NOISY_MAX, Spend
from dp_pipeline_tests.models.contract import Run, run
from dp_pipeline_tests.models.discrete import every_delta, levels
from dp_pipeline_tests.models.tables import BITS, TWINS, table_of

SILENT = Fraction(10**4)


def rounds_of(done: Run) -> list[tuple[Spend, Spend]]:
    """Every choice, and what was measured then."""
    spends = [spend for spend in done.spends if spend.what != "number of rows"]
    choices = [
        index for index, spend in enumerate(spends) if spend.mechanism in (NOISY_MAX, EXPONENTIAL)
    ]
    return [(spends[index], spends[index + 1]) for index in choices]


def test_without_noise_the_pairs_that_depend_are_measured_first() -> None:
    done = run(AimLike(candidates=1), TWINS, domain=BITS, epsilon=SILENT)
    first = {table.what for _, table in rounds_of(done)[:3]}
    assert first == {"marginal of a, b", "marginal of c, d", "marginal of e, f"}


def test_what_three_attributes_have_together_is_seen() -> None:
    # c = a xor b: every pair is independent.
    people = tuple((a, b, "01"[a != b]) for a, b in product("01", repeat=2)) * 20
    domain = levels(a=2, b=2, c=2)
    table = table_of(run(AimLike(), people, domain=domain, epsilon=SILENT))
    assert ("a", "b", "c") in {one.attributes for one in table.measured}
    exact = np.zeros((2, 2, 2))
    np.add.at(exact, tuple(np.array([[int(x) for x in row] for row in people]).T), 1)
    assert np.abs(table.counts(("a", "b", "c")) - exact).max() <= 1
    pairs = table_of(run(AimLike(candidates=1), people, domain=domain, epsilon=SILENT))
    assert max(len(one.attributes) for one in pairs.measured) == 2


def test_candidates_are_pairs_and_the_smallest_triples() -> None:
    sizes = {"a": 2, "b": 3, "c": 5, "d": 40}
    pairs = list(combinations(sizes, 2))
    assert AimLike(candidates=1)._candidates(sizes) == pairs
    assert AimLike(candidates=7)._candidates(sizes) == [*pairs, ("a", "b", "c")]
    assert len(AimLike()._candidates(sizes)) == 10
    assert AimLike(clique_cells=40)._candidates(sizes) == [
        ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c"),
    ]  # fmt: skip


@pytest.mark.parametrize("cap", [4, 8, 16])
def test_no_clique_passes_the_cap_and_every_table_is_inside_one(cap: int) -> None:
    for seed in range(3):
        table = table_of(run(AimLike(clique_cells=cap), TWINS, domain=BITS, seed=seed))
        assert max(BITS.cell_count(clique) for clique in table.cliques) <= cap
        for one in table.measured:
            assert any(set(one.attributes) <= set(clique) for clique in table.cliques)


@every_delta
def test_a_round_costs_the_same_or_twice_as_much(delta: Fraction | None) -> None:
    done = run(AimLike(), TWINS, domain=BITS, delta=delta)
    begins = guarantee_of(AimLike(), Fraction(1), delta).amount / 24
    costs = [choice.epsilon + table.epsilon for choice, table in rounds_of(done)]
    assert [spend.epsilon for spend in done.spends[:6]] == [begins * Fraction(9, 10)] * 6
    assert all(choice.epsilon * 9 == table.epsilon for choice, table in rounds_of(done))
    for before, after in zip([begins, *costs[:-2]], costs[:-1], strict=True):
        assert after in (before, 2 * before)
    assert costs[-1] >= costs[-2]


def test_patience_decides_how_large_rounds_become() -> None:
    # With everybody the same and no noise, a second table says nothing that is new.
    impatient = run(AimLike(patience=Fraction(4)), (), domain=BITS, epsilon=Fraction("0.1"))
    patient = run(AimLike(patience=Fraction(0)), TWINS, domain=BITS)
    assert len(rounds_of(impatient)) < 8
    costs = [choice.epsilon + table.epsilon for choice, table in rounds_of(patient)]
    assert set(costs[:-1]) == {Fraction(1, 24)}
    assert len(costs) <= 24


def test_a_table_that_fits_no_clique_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[tuple[str, ...]] = []
    sound = aim_like._State.grown

    def refuse_some(state: object, names: tuple[str, ...]) -> CliqueGrowth | None:
        if len(refused) < 3:
            refused.append(names)
            return None
        return sound(state, names)  # type: ignore[arg-type]

    monkeypatch.setattr(aim_like._State, "grown", refuse_some)
    done = run(AimLike(), TWINS, domain=BITS)
    assert sum(spend.epsilon for spend in done.spends) == 1
    measured = {one.attributes for one in table_of(done).measured}
    assert len(set(refused)) == 3
    assert not measured & set(refused)


def test_where_nothing_fits_the_single_attributes_get_everything() -> None:
    done = run(AimLike(clique_cells=3), (), domain=BITS)
    assert [spend.epsilon for spend in done.spends] == [Fraction(1, 6)] * 6
