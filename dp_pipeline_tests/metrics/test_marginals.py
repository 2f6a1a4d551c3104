from __future__ import annotations

from itertools import combinations

import pytest

from dp_pipeline.metrics.marginals import (
    MOST_PAIRS,
    MOST_TRIPLES,
    MOST_WAYS,
    ways_of,
)


def test_all_sets_are_compared_where_they_are_few():
    names = tuple("abcde")
    assert ways_of(names, 2) == tuple(combinations(names, 2))
    assert ways_of(names, 5) == (names,)
    assert ways_of(names, 6) == ()


@pytest.mark.parametrize(("k", "most"), [(2, MOST_PAIRS), (3, MOST_TRIPLES), (6, MOST_WAYS)])
def test_a_sample_of_sets_is_that_of_the_names_alone(k, most):
    names = tuple(f"x{at}" for at in range(86))
    chosen = ways_of(names, k)
    assert chosen == ways_of(names, k)
    assert len(chosen) == len(set(chosen)) == most
    assert all(way == tuple(sorted(set(way), key=names.index)) for way in chosen)
    assert {len(way) for way in chosen} == {k}
    assert chosen != ways_of(names[::-1], k)


def test_a_sample_takes_every_attribute_about_as_often():
    # Each of 40 attributes is in 3·500/40 = 37.5 of the sets, deviation 5.9: six of those.
    names = tuple(f"x{at}" for at in range(40))
    times = [sum(name in way for way in ways_of(names, 3)) for name in names]
    assert min(times) > 2
    assert max(times) < 73
