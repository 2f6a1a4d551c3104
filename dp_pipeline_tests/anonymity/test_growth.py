"""Groups of rows, cuts of boxes of one depth, and trees that are grown of them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.anonymity import groups
from dp_pipeline.anonymity.coded_rows import CodedRows, KAnonymityGuarantee
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.growth import NO_CUT, Cuts, LevelLine, cut_into_boxes, grow
from dp_pipeline.anonymity.kjig import CANDIDATES
from dp_pipeline.anonymity.label_scores import ScoredRows
from dp_pipeline.anonymity.method import bit_matrix, cumulative_bits
from dp_pipeline.config.encoding import IntArray
from dp_pipeline_tests.anonymity.populations import (
    PATIENTS,
    coded_rows,
    flags,
    guarantees,
    is_anonymous,
    is_in,
    is_possible,
    rows_of,
)


def two_groups(rows: CodedRows, seed: int) -> Groups:
    """Some of the rows, in two groups and in any order."""
    rng = np.random.default_rng(seed)
    members = rng.permutation(len(rows))[: rng.integers(0, len(rows) + 1)]
    return Groups(members, np.sort(rng.integers(0, 2, len(members))), 2)


def lists(groups: Groups) -> list[list[int]]:
    """The members of each group."""
    return [groups.members[groups.keys == group].tolist() for group in range(groups.size)]


@given(sides=st.lists(st.integers(0, 4), max_size=12), chosen=st.sets(st.integers(0, 4)))
def test_groups_are_split_and_some_sides_remain(sides, chosen):
    split = Groups.single(len(sides)).regroup(np.array(sides, dtype=np.int64), 5)
    parts = [[i for i, side in enumerate(sides) if side == part] for part in range(5)]
    assert lists(split) == parts
    mask = np.array([side in chosen for side in range(5)])
    assert lists(split.select(mask)) == [parts[side] for side in sorted(chosen)]


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_groups_some_at_a_time_are_all_of_them_in_order(at_once: int, monkeypatch):
    monkeypatch.setattr(groups, "MAX_CELLS_AT_ONCE", 10 * at_once)
    whole = Groups(np.array([4, 2, 7, 1]), np.array([0, 2, 2, 3]), 5)
    parts = list(whole.parts(10))
    assert [group for part in parts for group in lists(part)] == [[4], [], [2, 7], [1], []]
    assert max(part.size for part in parts) <= at_once
    assert whole.sum_by_group(np.array([1, 2, 3, 4])).tolist() == [1, 0, 5, 4, 0]


@given(rows=coded_rows(at_least=1), guarantee=guarantees(), seed=st.integers(0, 1000))
def test_cuts_are_counted_as_by_masks(rows, guarantee, seed):
    boxes, bits = two_groups(rows, seed), cumulative_bits(rows.columns)
    if not bits:
        return
    counts_of_row = 1 + np.arange(len(rows)) % 3
    cuts = Cuts(LevelLine(rows, counts_of_row), boxes, guarantee)
    numbers, answers = np.arange(len(rows)) * 3.0, bit_matrix(bits, rows.codes, rows.columns)
    for (box, members), bit in product(enumerate(lists(boxes)), range(len(bits))):
        sides = {True: [], False: []}
        for row in members:
            sides[bool(answers[row, bit])] += [row] * counts_of_row[row]
        for side, counts in ((True, cuts.yes_counts), (False, cuts.no_counts)):
            labels = rows.target[sides[side]].tolist()
            assert counts[:, box, bit].tolist() == [*map(labels.count, range(len(counts)))]
        assert cuts.evenness[box, bit] == min(len(side) for side in sides.values())
        assert cuts.sum_by_bit(numbers)[box, bit] == numbers[list(set(sides[True]))].sum()
        assert cuts.is_allowed[box, bit] == all(
            len(side) >= guarantee.k and len(set(rows.target[side])) >= guarantee.diversity
            for side in sides.values()
        )


@given(rows=coded_rows(at_least=1), guarantee=guarantees(), seed=st.integers(0, 1000))
def test_the_best_cut_is_an_allowed_one(rows, guarantee, seed):
    if cumulative_bits(rows.columns):
        line = LevelLine(rows, np.ones(len(rows), dtype=np.int64))
        cuts = Cuts(line, two_groups(rows, seed), guarantee)
        worth = np.random.default_rng(seed).integers(0, 3, cuts.is_allowed.shape)
        for numbers in (worth, np.zeros_like(worth)):
            best = cuts.best(numbers).tolist()
            for box, allowed in enumerate(cuts.is_allowed):
                most = numbers[box, allowed].max(initial=0)
                assert not allowed.any() or (allowed[best[box]] and numbers[box, best[box]] == most)


def any_bit(at: int, cuts: Cuts) -> IntArray:
    """A bit that does not depend on what is allowed."""
    return np.full(cuts.boxes.size, at % cuts.is_allowed.shape[1])


@given(rows=coded_rows(at_least=1), guarantee=guarantees(), at=st.integers(0, 20))
def test_a_cut_that_breaks_the_guarantee_is_not_made(rows, guarantee, at):
    if is_possible(rows, guarantee):
        recoding = cut_into_boxes(rows, guarantee, lambda cuts: any_bit(at, cuts))
        assert is_anonymous(recoding.release(rows), guarantee)


def test_a_box_without_a_cut_stays_whole():
    # By the first flag first, then by the second, but only where the first is no.
    rows = rows_of(*[(*codes, 0) for codes in product((0, 1), (0, 1))] * 3, columns=flags(2))

    def chosen(cuts: Cuts) -> IntArray:
        is_root = cuts.boxes.size == 1
        return np.array([0] if is_root else [1, NO_CUT])

    tree = grow(*rows.kinds(), KAnonymityGuarantee(2), chosen)
    assert tree.boxes(rows.columns) == (((1,), (0, 1)), ((0,), (0,)), ((0,), (1,)))
    assert tree.box_numbers(rows.codes).tolist() == [1, 2, 0, 0] * 3


def test_a_row_goes_to_the_box_that_holds_it_at_any_depth():
    records = [(*(int(i > step) for step in range(6)), 0) for i in range(7)]
    stairs = rows_of(*records * 2, columns=flags(6))
    guarantee = KAnonymityGuarantee(2)
    tree = grow(*stairs.kinds(), guarantee, lambda cuts: cuts.best(-cuts.evenness + 100))
    boxes = tree.boxes(stairs.columns)
    assert len(boxes) == 7
    numbers = tree.box_numbers(stairs.codes)
    assert all(is_in(tuple(row), boxes[i]) for row, i in zip(stairs.codes, numbers, strict=True))


@pytest.mark.parametrize("candidate", CANDIDATES)
def test_classes_counted_few_at_a_time_are_the_same(candidate, monkeypatch):
    def recode():
        return candidate.recode(ScoredRows(PATIENTS, KAnonymityGuarantee(2))).release(PATIENTS)

    together = recode()
    monkeypatch.setattr(groups, "MAX_CELLS_AT_ONCE", 1)
    parted = recode()
    assert parted.columns == together.columns
    assert parted.codes.tolist() == together.codes.tolist()
