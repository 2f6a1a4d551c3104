"""Levels put together: neighbours in code order, none left out, and back again by their shares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.domain import Domain
from dp_pipeline.gate.checks import require_groupings
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline_tests.populations import TOWN

shares = st.lists(st.floats(0, 1), min_size=1, max_size=12)
least = st.sampled_from([0.0, 0.02, 0.3, 1.0, 5.0])


@given(levels=shares, least=least)
def test_groups_are_neighbours_with_the_share(levels: list[float], least: float):
    grouping = Grouping.by_share(np.array(levels), least=least)
    assert len(grouping.groups) == len(levels)
    assert grouping.groups[0] == 0
    assert set(np.diff(grouping.groups).tolist()) <= {0, 1}
    assert grouping.size == len(set(grouping.groups))
    assert grouping.group_of_level.tolist() == list(grouping.groups)
    sums = grouping.summed(np.array(levels))
    for group in range(grouping.size):
        inside = [levels[at] for at in np.flatnonzero(grouping.group_of_level == group)]
        # A level with the share is alone, and a group ends as soon as it has it.
        assert len(inside) == 1 or (max(inside) < least and sum(inside[:-1]) < least)
        if group + 1 < grouping.size:
            after = levels[grouping.groups.index(group + 1)]
            assert sums[group] >= least * (1 - 1e-12) or after >= least
    colours = Grouping.by_share(np.array((3 * levels)[:3]), least=least)
    require_groupings(Domain(TOWN.attributes), {"colour": colours})


def test_an_attribute_of_groups_keeps_name_source_and_total():
    grouping = Grouping((0, 1, 1))
    assert grouping.summed(np.array([5, -2, 4])).tolist() == [5, 2]
    coarse = grouping.apply_to(TOWN["colour"])
    assert (coarse.name, coarse.column, coarse.size) == ("colour", "colour", 2)
    assert not coarse.is_numeric
    assert not Grouping((0, 0, 1)).apply_to(TOWN["y"]).is_numeric


@given(
    steps=st.lists(st.integers(0, 1), min_size=3, max_size=3),
    drawn=st.lists(st.floats(0, 1), min_size=4, max_size=4),
    rows=st.lists(st.integers(0, 3), max_size=20),
)
def test_a_level_is_drawn_from_its_group(steps, drawn, rows):
    grouping = Grouping((0, *np.cumsum(steps).tolist()))
    codes = np.array([row % grouping.size for row in rows], dtype=np.int64)
    levels = grouping.expanded(codes, np.array(drawn), np.random.default_rng(1))
    assert levels.dtype == np.int8
    assert grouping.group_of_level[levels].tolist() == codes.tolist()


def test_levels_inside_a_group_have_their_shares():
    rng, shares = np.random.default_rng(1), np.array([0.9, 0.075, 0.025, 0.0, 0.0])
    levels = Grouping((0, 1, 1, 2, 2)).expanded(np.repeat([0, 1, 2], 1000), shares, rng)
    # Every number of rows is its expectation, rounded.
    assert np.bincount(levels).tolist() == pytest.approx([1000, 750, 250, 500, 500], abs=1)
    codes = np.array([2, 0, 1, 1, 0])
    assert Grouping((0, 1, 2)).expanded(codes, np.full(3, 1 / 3), rng).tolist() == codes.tolist()
