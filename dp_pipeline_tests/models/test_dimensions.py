"""The clustering models keep their promises in one dimension, in sixteen, and in any box."""

from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.config.errors import BoundaryViolation, DeclarationError
from dp_pipeline.gate.counter import MAX_GRID_AXES
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.models.clustering.grid_kmeans import (
    DpKMeansPlusPlus,
    EugKMeans,
    HybridKMeans,
    OeptKMeans,
)
from dp_pipeline.models.clustering.htree_kmeans import HTreeKMeans
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.models.contract import (
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

ONE, FIVE, STRONG = Fraction(1), Fraction(5), Fraction(30)
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
        one = clustering_cases(declared=1)[case]
        done = run(one, (), epsilon=Fraction(10**6), domain=domain)
        check_valid(one, done.released, domain=domain)


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
