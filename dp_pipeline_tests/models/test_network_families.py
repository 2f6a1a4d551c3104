"""Families of a network: every maximal set of parents, or a fair sample, and what is measured."""

from itertools import chain, combinations, islice
from math import comb, prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.inference.clique_join import overlap_links
from dp_pipeline.models.tables.privbayes import (
    Family,
    candidate_families,
    covering_sets,
    maximal_sets,
    random_maximal_set,
)

SMALL_SIZES = st.lists(st.integers(1, 5), max_size=6).map(
    lambda sizes: {f"a{at}": size for at, size in enumerate(sizes)}
)
BITS = {f"b{at}": 2 for at in range(8)}


def every_maximal_set(sizes: dict[str, int], cells: int) -> set[tuple[str, ...]]:
    """By trying all sets."""
    everything = chain.from_iterable(combinations(sizes, m) for m in range(len(sizes) + 1))
    held = {names: prod(sizes[name] for name in names) for names in everything}
    return {
        names
        for names, product in held.items()
        if product <= cells
        and all(product * sizes[name] > cells for name in sizes if name not in names)
    }


@given(sizes=SMALL_SIZES, cells=st.integers(1, 200))
def test_every_maximal_set_is_found_once(sizes: dict[str, int], cells: int) -> None:
    found = list(maximal_sets(sizes, cells))
    assert len(set(found)) == len(found)
    assert set(found) == every_maximal_set(sizes, cells)


@settings(max_examples=50)
@given(sizes=SMALL_SIZES, cells=st.integers(1, 200), seed=st.integers(0, 99))
def test_a_drawn_set_is_a_maximal_one(sizes: dict[str, int], cells: int, seed: int) -> None:
    drawn = random_maximal_set(sizes, cells, np.random.default_rng(seed))
    assert drawn in every_maximal_set(sizes, cells)


def test_the_first_of_astronomically_many_sets_are_found_at_once() -> None:
    # About 10^22 sets: a search that tried those that are not maximal would not end.
    wide = {f"a{index}": 2 + index % 9 for index in range(86)}
    found = list(islice(maximal_sets(wide, 10**12), 1000))
    assert len(set(found)) == 1000


def test_where_there_are_few_families_all_of_them_are_candidates() -> None:
    sizes = {"a": 2, "b": 3, "c": 4, "d": 30}
    families = candidate_families(
        sizes, ["a", "b"], most_cells=12, most=200, rng=np.random.default_rng(0)
    )
    # c with a has 8 cells, with b 12, with both 24; d has no room for a parent.
    assert set(families) == {Family("c", ("a",)), Family("c", ("b",))}


def test_of_many_families_a_seeded_sample_is_drawn() -> None:
    placed = list(BITS)[:5]
    assert 3 * comb(5, 2) == 30
    every = candidate_families(BITS, placed, most_cells=8, most=30, rng=np.random.default_rng(1))
    assert len(every) == 30
    some, again, other = (
        candidate_families(BITS, placed, most_cells=8, most=20, rng=np.random.default_rng(seed))
        for seed in (1, 1, 2)
    )
    assert len(set(some)) == 20
    assert set(some) < set(every)
    assert some == again != other


def test_in_a_sample_every_child_is_as_likely_as_another() -> None:
    # "wide" has 10 families and "narrow" 10 of more: 500 of 1000 draws, deviation 16; 7 of them
    # in 10^-11.
    sizes = {**dict.fromkeys(list(BITS)[:5], 2), "wide": 4, "narrow": 2}
    drawn = [
        one.child
        for seed in range(1000)
        for one in candidate_families(
            sizes, list(sizes)[:5], most_cells=8, most=1, rng=np.random.default_rng(seed)
        )
    ]
    assert abs(drawn.count("wide") - 500) < 7 * 16


def test_without_room_for_a_parent_there_is_no_candidate() -> None:
    sizes = {"a": 4, "b": 4}
    assert not candidate_families(sizes, ["a"], most_cells=15, most=9, rng=np.random.default_rng(0))
    assert not candidate_families(sizes, ["a"], most_cells=0, most=9, rng=np.random.default_rng(0))


def test_a_network_of_degree_k_is_measured_by_d_less_k_tables() -> None:
    for degree in range(8):
        names = list(BITS)
        network = [
            Family(name, tuple(names[max(0, index - degree) : index]))
            for index, name in enumerate(names)
        ]
        sets = covering_sets(network)
        assert len(sets) == 8 - degree
        assert {len(one) for one in sets} == {degree + 1}


def test_sets_are_linked_to_the_one_they_share_most_with() -> None:
    sets = (("a",), ("b", "c"), ("d", "c", "b"), ("e", "d"), ("f",))
    assert overlap_links(sets) == ((0, 1), (1, 2), (2, 3), (0, 4))
