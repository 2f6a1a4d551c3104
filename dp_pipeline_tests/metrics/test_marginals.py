from collections import Counter
from itertools import chain, combinations

import pytest

from dp_pipeline.metrics.marginals import MOST_PAIRS, MOST_TRIPLES, MOST_WAYS, attribute_sets


def test_all_sets_are_compared_where_they_are_few():
    names = tuple("abcde")
    assert attribute_sets(names, 2) == tuple(combinations(names, 2))
    assert attribute_sets(names, 5) == (names,)
    assert attribute_sets(names, 6) == ()


@pytest.mark.parametrize(("k", "most"), [(2, MOST_PAIRS), (3, MOST_TRIPLES), (6, MOST_WAYS)])
def test_sample_of_sets_depends_on_names_only(k, most):
    names = tuple(f"x{position}" for position in range(86))
    chosen = attribute_sets(names, k)
    assert chosen == attribute_sets(names, k)
    assert len(chosen) == len(set(chosen)) == most
    for attributes in chosen:
        assert attributes == tuple(sorted(set(attributes), key=names.index))
        assert len(attributes) == k
    assert chosen != attribute_sets(names[::-1], k)


def test_a_sample_takes_every_attribute_about_as_often():
    # Each of 40 attributes is in 3·500/40 = 37.5 of the sets, deviation 5.9: six of those.
    names = tuple(f"x{index}" for index in range(40))
    times = Counter(chain.from_iterable(attribute_sets(names, 3)))
    assert set(times) == set(names)
    assert min(times.values()) > 2
    assert max(times.values()) < 73
