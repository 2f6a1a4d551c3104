"""Clusterings: how models that move centres do it, and that all keep promises in any box."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.gate.counter import MAX_GRID_AXES
from dp_pipeline.gate.rules import NearestCentre
from dp_pipeline.models.clustering.base import Lloyd, round_budgets
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.clustering.grid_kmeans import (
    DpKMeansPlusPlus,
    EugKMeans,
    HybridKMeans,
    OeptKMeans,
)
from dp_pipeline.models.clustering.htree_kmeans import HTreeKMeans
from dp_pipeline.models.clustering.lloyd_kmeans import (
    DpKMeans,
    DplkKMeans,
    DpLloyd,
    IdpKMeans,
    best_sizes_share,
    planned_rounds,
)
from dp_pipeline_tests import loops
from dp_pipeline_tests.instruments import SILENT, curator_over
from dp_pipeline_tests.models.contract import (
    Run,
    check_budget,
    check_loss,
    check_replay,
    check_valid,
    clustering_cases,
    run,
)
from dp_pipeline_tests.models.mutants import (
    KeepsTheStartOfAnEmptyCluster,
    UnpaidDistance,
    UnpaidRecount,
)
from dp_pipeline_tests.models.tables import (
    SIDES,
    Place,
    corners_and_inside,
    in_memory,
    place_in,
    space,
    two_groups,
)
from dp_pipeline_tests.populations import NOBODY, TEN_PEOPLE, TOWN, LoopCounter, Row

ONE, QUARTER, FIVE, STRONG = Fraction(1), Fraction(1, 4), Fraction(5), Fraction(30)
BOX = TOWN.box(("x", "y"))


def lloyd(rows: tuple[Row, ...], **options: Any) -> Lloyd:
    return Lloyd(curator_over(rows, **options), ("x", "y"))


def rounds_of(done: Run) -> list[tuple[Fraction, Fraction]]:
    """ε of the sizes and of the totals, round by round."""
    spends = [spend for spend in done.spends if spend.what.startswith(("sizes", "totals"))]
    return [
        (spends[index].epsilon, spends[index + 1].epsilon) for index in range(0, len(spends), 2)
    ]


def shapes_of(done: Run) -> list[tuple[int, ...]]:
    return [draw.exact.shape for draw in done.draws]


def test_without_noise_a_round_is_the_one_of_k_means() -> None:
    centres = np.array([[1.0, 0.0], [5.0, 0.5], [7.5, 0.0]])
    means = lloyd(TEN_PEOPLE).rounds(centres[None], [SILENT])
    people = np.array([row[:2] for row in TEN_PEOPLE])
    nearest = ((people[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    expected = [people[nearest == index].mean(axis=0) for index in range(3)]
    assert means.sizes.tolist() == [np.bincount(nearest).tolist()]
    # Rounding to 2^-16 half-widths, twice, and a noise of a few units.
    assert np.allclose(means.centres[0], expected, atol=1e-3)


def test_several_rounds_end_where_k_means_stays() -> None:
    start = np.array([[[0.0, 0.0], [4.0, 0.0], [8.0, 0.0]]])
    means = lloyd(TEN_PEOPLE).rounds(start, round_budgets(SILENT, 5))
    people = np.array([row[:2] for row in TEN_PEOPLE])
    groups = [people[:4], people[4:6], people[6:]]
    assert means.sizes.tolist() == [[4, 2, 4]]
    assert np.allclose(means.centres[0], [group.mean(axis=0) for group in groups], atol=1e-3)


def test_a_distance_is_one_of_the_data_not_of_the_box() -> None:
    # 1 to the right of the person in x, 1 above in y: as far, though y is a half-width away.
    row: Row = (4.0, 0.0, "red", "no")
    for centres, nearest in (([[5.01, 0.0], [4.0, 1.0]], 1), ([[4.99, 0.0], [4.0, 1.0]], 0)):
        means = lloyd((row,)).rounds(np.array([centres]), [SILENT])
        assert means.sizes[0].argmax() == nearest


class Answers:
    name, is_releasable = "answers", False

    def __init__(self, sizes: list[int], totals: list[list[int]]) -> None:
        self._answers = iter([np.array([sizes]), np.array([totals])])

    def discrete_laplace(self, counts: np.ndarray, _: Fraction) -> np.ndarray:
        answer = next(self._answers)
        assert answer.shape == counts.shape
        return answer


@pytest.mark.parametrize("rows", [NOBODY, TEN_PEOPLE], ids=["nobody", "ten people"])
def test_a_noisy_size_below_one_leaves_the_centre(rows: tuple[Row, ...]) -> None:
    noise = Answers([0, -5, 1, 2], [[9, 9], [9, 9], [1 << 30, -(1 << 30)], [1 << 16, 0]])
    centres = np.array([[[1.0, 0.5], [2.0, -0.5], [3.0, 0.0], [5.0, 0.0]]])
    means = lloyd(rows, noise=noise).rounds(centres, [ONE])
    assert means.centres.tolist() == [[[1.0, 0.5], [2.0, -0.5], [8.0, -1.0], [6.0, 0.0]]]
    assert means.sizes.tolist() == [[0, -5, 1, 2]]


def test_a_centre_outside_the_box_that_stays_is_on_its_edge() -> None:
    outside = lloyd((), noise=Answers([0], [[0, 0]]))
    means = outside.rounds(np.array([[[9.0, -1.0000001]]]), [ONE])
    assert means.centres.tolist() == [[[8.0, -1.0]]]


@settings(max_examples=30)
@given(
    epsilon=st.fractions(Fraction(1, 10**6), 100),
    rounds=st.integers(1, 20),
    budgets=st.sampled_from(["fixed", "halving"]),
)
def test_budgets_of_rounds_add_up_exactly(epsilon: Fraction, rounds: int, budgets: str) -> None:
    shares = round_budgets(epsilon, rounds, budgets)
    assert len(shares) == rounds
    assert min(shares) > 0
    assert sum(shares) == epsilon


def test_halving_gives_every_round_half_of_what_is_left() -> None:
    halves = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 8), Fraction(1, 8)]
    assert list(round_budgets(ONE, 4, "halving")) == halves
    done = run(DpKMeans(k=3, rounds=4, budgets="halving"))
    assert [sum(costs) for costs in rounds_of(done)] == halves


def test_sizes_and_totals_of_a_round_have_the_same_noise() -> None:
    done = run(DpKMeans(k=3, rounds=5), epsilon=Fraction(1, 2))
    # The papers' (d + 1)·T/ε on everything.
    for sizes, totals in zip(done.draws[::2], done.draws[1::2], strict=True):
        assert sizes.scale == totals.scale / (1 << 16) == 30
    assert shapes_of(done) == [(1, 3), (1, 3, 2)] * 5


def test_a_start_of_subset_means_costs_one_more_round() -> None:
    done = run(IdpKMeans(k=3, rounds=4))
    assert shapes_of(done) == [(3, 1), (3, 1, 2), *[(1, 3), (1, 3, 2)] * 4]
    assert [sum(costs) for costs in rounds_of(done)] == [Fraction(1, 5)] * 5


def test_the_start_is_the_means_of_subsets_that_a_hash_makes() -> None:
    done = run(IdpKMeans(k=3, rounds=1), epsilon=SILENT)
    rng = np.random.default_rng(7)
    rng.uniform(size=(3, 2))
    salt = int(rng.integers(1 << 63))
    rule = NearestCentre.of(("x", "y"), np.array([[0.0, 0.0]]), BOX)
    places = LoopCounter(TEN_PEOPLE).places(("x", "y"))
    expected = loops.sum_by_centre(places, [rule] * 3, salt=salt)
    assert done.draws[0].exact.tolist() == expected[..., 0].tolist()
    assert done.draws[0].exact.sum() == 10
    assert done.draws[1].exact.tolist() == expected[..., 1:].tolist()


def test_a_row_stays_in_its_subset_over_the_rounds() -> None:
    done = run(DplkKMeans(k=3, subsets=4, subset_rounds=3, rounds=2))
    assert shapes_of(done) == [(4, 3), (4, 3, 2)] * 3 + [(1, 3), (1, 3, 2)] * 2
    in_subsets = [draw.exact.sum(axis=1).tolist() for draw in done.draws[:6:2]]
    assert in_subsets == [in_subsets[0]] * 3
    assert sum(in_subsets[0]) == 10
    assert [sum(costs) for costs in rounds_of(done)] == [Fraction(1, 5)] * 5


@pytest.mark.parametrize(
    ("model", "grid", "cells", "rounds"),
    [
        (DpKMeansPlusPlus(k=3, nominal_rows=1000, rounds=3), Fraction(1, 2), 7, 3),
        (HybridKMeans(k=3, nominal_rows=1000, starts=2), Fraction(1, 2), 7, 1),
        (OeptKMeans(k=3, nominal_rows=1000, density=QUARTER, rounds=2), QUARTER, 5, 2),
    ],
    ids=["dp_kmeans_pp", "hybrid_kmeans", "oept_kmeans"],
)
def test_a_noisy_grid_comes_first_and_the_rounds_share_the_rest(model, grid, cells, rounds):
    done = run(model)
    assert shapes_of(done) == [(cells, cells), *[(1, 3), (1, 3, 2)] * rounds]
    assert done.spends[0].epsilon == grid
    assert [sum(costs) for costs in rounds_of(done)] == [(1 - grid) / rounds] * rounds


def test_only_the_hybrid_keeps_its_grid() -> None:
    runs = {type(model): run(model).released for model in clustering_cases().values()}
    sized = {kind for kind, released in runs.items() if released.sizes is not None}
    assert {kind for kind in sized if runs[kind].synopsis is not None} == {HybridKMeans}


@pytest.mark.parametrize(
    ("rows", "epsilon", "k", "rounds"),
    [
        # ε_m = √(500·k³/N²·2.74³): 1.014 for a hundred centres of 100,000 rows, 0.01134 for five.
        (100_000, 0.01, 100, 2),
        (100_000, 1.0, 100, 2),
        (100_000, 3.0, 100, 2),
        (100_000, 3.1, 100, 3),
        (100_000, 0.05, 5, 4),
        (100_000, 1.0, 5, 7),
        (1, 1e6, 10_000, 2),
    ],
)
def test_rounds_are_planned_by_the_published_formula(rows, epsilon, k, rounds):
    assert planned_rounds(rows, epsilon, k=k, dimensions=2) == rounds


def test_people_with_many_rows_plan_fewer_rounds() -> None:
    # ε_m = 0.132 at 4000 rows, three times that at a third as many.
    model = DpLloyd(k=3, nominal_rows=4000)
    alone, crowd = (len(rounds_of(run(model, distance=distance))) for distance in (1, 3))
    assert (alone, crowd) == (7, 2)


def test_the_share_of_the_sizes_is_the_published_one() -> None:
    # c = (8·0.225²)^(1/3) = 0.7399 in two dimensions.
    assert float(best_sizes_share(2)) == pytest.approx(0.7399 / 2.7399, abs=1e-4)
    sizes, totals = rounds_of(run(DpLloyd(k=3, nominal_rows=1000)))[0]
    assert sizes / (sizes + totals) == best_sizes_share(2)


DIMENSIONS = [1, 3, 16]
"""One column, as many as are halved in turn by three bits, and more than any grid has."""
CASES = clustering_cases()
K = 3

every_case = pytest.mark.parametrize("case", CASES)
every_dimension = pytest.mark.parametrize("d", DIMENSIONS)


def awkward(d: int) -> dict[str, tuple[Place, ...]]:
    """Name → people of a space of d dimensions; three centres are asked of them."""
    domain = space(d)
    some = two_groups(domain)
    return {
        "nobody": (),
        "one person": some[:1],
        "one person less than centres": some[: K - 1],
        "one place for all": some[:1] * 12,
        "a constant column": tuple((2.0, *place[1:]) for place in some),
        "everybody beyond the box": tuple(tuple(x + 1e9 for x in place) for place in some),
        "everybody in two corners": (place_in(domain, 0.0), place_in(domain, 1.0)) * 6,
    }


@every_case
@every_dimension
def test_in_any_dimension_the_contract_holds(case, d):
    model, domain = CASES[case], space(d)
    people, places = two_groups(domain), corners_and_inside(domain)
    how = {"epsilon": ONE, "domain": domain}
    for distance in (1, 3):
        check_budget(model, people, distance=distance, places=places, **how)
    check_replay(model, people, elsewhere=[()], **how)
    check_replay(model, people, elsewhere=[None], epsilon=STRONG, domain=domain)
    # The empty-cluster attack, exactly: along the same noisy answers, which are possible ones
    # with and without the person, every released number is the same to the last bit.
    for others in ((), (place_in(domain, 0.1),) * 5):
        for seed in (1, 2):
            check_loss(model, others, (place_in(domain, 1.0),), distance=1, seed=seed, **how)


@every_case
@pytest.mark.parametrize("d", [1, 16])
@pytest.mark.parametrize("sides", SIDES)
def test_any_box_gives_centres_inside_it(case: str, d: int, sides: str) -> None:
    # Ten rows are planned with: at ε = 1000 a thousand would deserve 10^7 cells.
    few, domain = clustering_cases(declared=10)[case], space(d, sides)
    for model, epsilon in (
        (CASES[case], Fraction(1, 1000)),
        (CASES[case], ONE),
        (few, Fraction(1000)),
    ):
        done = run(model, two_groups(domain), epsilon=epsilon, domain=domain)
        check_valid(model, done.released, domain=domain)


@pytest.mark.chain
@every_case
@every_dimension
def test_any_people_give_centres_inside_the_box(case: str, d: int) -> None:
    domain = space(d)
    for people in awkward(d).values():
        check_valid(CASES[case], run(CASES[case], people, domain=domain).released, domain=domain)
    if d < 16:
        # At ε = 10^6 the variance of the noise is a float that is 0.
        single = clustering_cases(declared=1)[case]
        done = run(single, (), epsilon=Fraction(10**6), domain=domain)
        check_valid(single, done.released, domain=domain)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize(
    ("mutant", "place"),
    [(KeepsTheStartOfAnEmptyCluster, 1.0), (UnpaidRecount, 0.3), (UnpaidDistance, 0.3)],
)
def test_who_changes_centres_or_does_not_pay_is_caught(mutant, place, d):
    # Nothing but a tree is asked of one column.
    if d > 1 or mutant is KeepsTheStartOfAnEmptyCluster:
        domain, how = space(d), {"epsilon": ONE, "distance": 1}
        with pytest.raises(AssertionError):
            check_loss(mutant(k=K), (), (place_in(domain, place),), domain=domain, **how)


@every_case
@every_dimension
def test_the_engine_and_the_order_of_its_rows_change_nothing(case: str, d: int) -> None:
    domain = space(d)
    people = two_groups(domain, 60)
    expected = run(CASES[case], people, epsilon=FIVE, domain=domain).contents
    for order in (range(60), np.random.default_rng(d).permutation(60), range(59, -1, -1)):
        counter = in_memory([people[at] for at in order], domain)
        assert run(CASES[case], counter, epsilon=FIVE, domain=domain).contents == expected


@pytest.mark.parametrize("d", [*DIMENSIONS, 40])
def test_with_many_people_the_default_finds_two_groups(d):
    domain = space(d)
    counter = in_memory(two_groups(domain, 4000), domain)
    centres = run(HTreeKMeans(k=2), counter, domain=domain).released.centres
    expected = np.repeat([[2.0], [6.0]], d, axis=1)
    assert centres[np.argsort(centres[:, 0])] == pytest.approx(expected, abs=0.5)


GRIDS = (DpKMeansPlusPlus, DpqtKMeans, EugKMeans, HybridKMeans, OeptKMeans)


@every_case
def test_a_grid_takes_32_columns_and_others_take_more(case):
    model, is_grid = CASES[case], isinstance(CASES[case], GRIDS)
    domain, wider = (space(d) for d in (MAX_GRID_AXES, MAX_GRID_AXES + 1))
    if is_grid:
        with pytest.raises(DeclarationError, match="A clustering by this grid takes at most"):
            model.check(wider)
    domain = domain if is_grid else wider
    model.check(domain)
    people = two_groups(domain)
    check_valid(model, run(model, people, domain=domain, epsilon=STRONG).released, domain=domain)


@pytest.mark.parametrize("columns", [33, 64, 65])
def test_the_gate_refuses_a_grid_that_no_array_can_hold(columns):
    domain = space(columns)
    curator = curator_over(in_memory(two_groups(domain), domain), domain=domain)
    with pytest.raises(BoundaryViolation, match="A grid must have at most 32 axes, not "):
        curator.measure_grid(domain.names, cells=1, epsilon=ONE)
    assert curator.accountant.spends == ()
