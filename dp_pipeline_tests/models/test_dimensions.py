"""The clustering models keep their promises in one dimension, in sixteen, and in any box."""

from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.models.clustering.htree_kmeans import HTreeKMeans
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
from dp_pipeline_tests.models.spaces import (
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
def test_in_any_dimension_the_scales_prove_the_epsilon(case: str, d: int) -> None:
    domain = space(d)
    for distance in (1, 3):
        check_budget(
            CASES[case],
            two_groups(domain),
            epsilon=ONE,
            distance=distance,
            domain=domain,
            places=corners_and_inside(domain),
        )


@every_case
@every_dimension
def test_in_any_dimension_a_replay_gives_the_same_bytes(case: str, d: int) -> None:
    domain = space(d)
    people = two_groups(domain)
    for epsilon, elsewhere in ((ONE, ()), (STRONG, None)):
        check_replay(CASES[case], people, elsewhere=[elsewhere], epsilon=epsilon, domain=domain)


@every_case
@every_dimension
def test_in_any_dimension_a_person_moves_only_counts(case: str, d: int) -> None:
    # The empty-cluster attack, exactly: along the same noisy answers, which are possible ones
    # with and without the person, every released number is the same to the last bit.
    domain = space(d)
    far = (place_in(domain, 1.0),)
    for people in ((), (place_in(domain, 0.1),) * 5):
        for seed in (1, 2):
            check_loss(CASES[case], people, far, epsilon=ONE, distance=1, seed=seed, domain=domain)


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
def test_a_person_who_changes_centres_is_caught(d: int) -> None:
    domain = space(d)
    with pytest.raises(AssertionError):
        check_loss(
            KeepsTheStartOfAnEmptyCluster(k=K),
            (),
            (place_in(domain, 1.0),),
            epsilon=ONE,
            distance=1,
            domain=domain,
        )


@pytest.mark.parametrize("d", [3, 16])
@pytest.mark.parametrize("mutant", [UnpaidRecount, UnpaidDistance])
def test_unpaid_leaves_or_distances_are_caught(mutant: type[HTreeKMeans], d: int) -> None:
    domain = space(d)
    with pytest.raises(AssertionError):
        check_loss(
            mutant(k=K), (), (place_in(domain, 0.3),), epsilon=ONE, distance=1, domain=domain
        )


@every_case
@every_dimension
def test_the_engine_and_the_order_of_its_rows_change_nothing(case: str, d: int) -> None:
    domain = space(d)
    people = two_groups(domain, 60)
    expected = run(CASES[case], people, epsilon=FIVE, domain=domain).contents
    for order in (range(60), np.random.default_rng(d).permutation(60), range(59, -1, -1)):
        counter = in_memory([people[at] for at in order], domain)
        assert run(CASES[case], counter, epsilon=FIVE, domain=domain).contents == expected


@pytest.mark.parametrize("d", DIMENSIONS)
def test_with_many_people_the_default_finds_two_groups(d: int) -> None:
    domain = space(d)
    counter = in_memory(two_groups(domain, 4000), domain)
    centres = run(HTreeKMeans(k=2), counter, domain=domain).released.centres
    found = centres[np.argsort(centres[:, 0])]
    assert found == pytest.approx(np.repeat([[2.0], [6.0]], d, axis=1), abs=0.5)
