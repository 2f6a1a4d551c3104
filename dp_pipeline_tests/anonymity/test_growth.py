"""Groups of rows, cuts of boxes, and the trees that Mondrian and classification grow of them."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.anonymity import groups
from dp_pipeline.anonymity.boxes import BoxRule
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.growth import (
    NO_CUT,
    Cuts,
    LevelLine,
    Mondrian,
    Tree,
    cut_into_boxes,
    grow,
    spanned_shares,
)
from dp_pipeline.anonymity.kjig import CANDIDATES
from dp_pipeline.anonymity.label_scores import ScoredRows
from dp_pipeline.anonymity.method import bit_matrix, cumulative_bits
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import from_text
from dp_pipeline_tests.anonymity.populations import (
    PATIENTS,
    attempt,
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


EIGHT = tuple(str(level) for level in range(8))
NUMBER = Column("number", EIGHT, ordered=True)
OTHER = Column("other", EIGHT, ordered=True)
SEX = Column("sex", ("f", "m"))


def boxed(rows: CodedRows, k: int, diversity: int = 1, method=None) -> BoxRule:
    guarantee = KAnonymityGuarantee(k, diversity)
    return (method or Mondrian()).recode(rows, guarantee, seed=0).rule


def root_bit(rule: BoxRule) -> int:
    """The bit that all rows are cut by."""
    root, columns = rule.finder.nodes[0], rule.source
    cuts = [(bit.column, *bit.code_range(columns)) for bit in cumulative_bits(columns)]
    return cuts.index((root.column, root.first, root.end))


def allowed_cuts(rows: CodedRows, guarantee, inside: np.ndarray) -> dict[int, list[np.ndarray]]:
    """The bits whose sides both keep the guarantee: the definition, by masks."""
    answers = bit_matrix(cumulative_bits(rows.columns), rows.codes, rows.columns)
    cuts = {i: [inside & ~answers[:, i], inside & answers[:, i]] for i in range(answers.shape[1])}
    return {
        i: sides
        for i, sides in cuts.items()
        if all(side.sum() >= max(1, guarantee.k) for side in sides)
        and all(len(set(rows.target[side].tolist())) >= guarantee.diversity for side in sides)
    }


def uncut_boxes(rule: BoxRule, rows: CodedRows, guarantee: KAnonymityGuarantee) -> list[int]:
    numbers = rule.finder.box_numbers(rows.codes)
    return [i for i in range(len(rule.boxes)) if allowed_cuts(rows, guarantee, numbers == i)]


@given(rows=coded_rows(at_least=1), guarantee=guarantees())
def test_no_box_can_be_cut_again(rows, guarantee):
    for method in (Mondrian(), Tree(least=1)):
        recoding = attempt(method, rows, guarantee)
        assert recoding is None or uncut_boxes(recoding.rule, rows, guarantee) == []
    # Boxes of a stricter guarantee are seen to have cuts left.
    assert uncut_boxes(boxed(PATIENTS, 5), PATIENTS, KAnonymityGuarantee(2))


@given(rows=coded_rows(at_least=4), k=st.integers(2, 4), shift=st.integers(1, 2))
def test_mondrian_reads_no_label_without_diversity(rows, k, shift):
    other = replace(rows, target=(rows.target + shift) % len(rows.target_levels))
    shuffled = replace(rows, target=np.sort(rows.target))
    assert boxed(rows, k) == boxed(other, k) == boxed(shuffled, k)


AGES = Column("age", (*EIGHT, "?"), ordered=True, missing=8)
JOBS, MORE_JOBS = Column("job", EIGHT), Column("job", (*EIGHT, "none"))


@pytest.mark.parametrize(
    ("columns", "pairs", "bit"),
    [
        # Numbers from 0 to 7, others from 3 to 4 only: the widest at its median.
        ((NUMBER, OTHER), [(i, 3 + i % 2) for i in range(8)], "number>=4"),
        # `number` parts four and four, `other` three and five, but over all of its levels.
        ((NUMBER, OTHER), [(3 + i % 2, 0 if i < 3 else 7) for i in range(8)], "other>=1"),
        # Four of eight numbers are less than both of two sexes.
        ((NUMBER, SEX), [(i % 4, int(i > 2)) for i in range(8)], "sex=m"),
        # Three of eight jobs, and only two of eight numbers: but the lowest and the highest.
        ((JOBS, NUMBER), [(i % 3, 0 if i < 2 else 7) for i in range(9)], "number>=1"),
        # Ages 0, 1 and missing are three of nine levels, jobs two of nine and cut more evenly.
        ((MORE_JOBS, AGES), [(i % 2, (1, 8, 8, 0, 0, 0, 0, 1)[i]) for i in range(8)], "age>=1"),
        # Both reach from 0 to 7; `number` has two rows above 0, `other` four.
        ((NUMBER, OTHER), [(0, 0)] * 4 + [(0, 7)] * 2 + [(7, 7)] * 2, "other>=1"),
    ],
)
def test_the_widest_column_is_cut_most_evenly(columns, pairs, bit):
    rule = boxed(rows_of(*((*pair, 0) for pair in pairs), columns=columns), 2)
    assert cumulative_bits(columns)[root_bit(rule)].name(columns) == bit


def test_widths_side_by_side_are_those_of_each_column():
    present = [[1, 0, 0, 1, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0, 1, 1], [0, 1]]
    other = [[0, 1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0], [1, 1]]
    of_boxes = np.array([np.concatenate(box) for box in (present, other)]).astype(bool)
    # Ages 0 to 3 and missing, five of nine; three jobs of eight, which have no order; one sex.
    widths = [[4 / 8, 2 / 7, 0.0], [0.0, 1 / 7, 1.0]]
    assert spanned_shares(of_boxes, (AGES, JOBS, SEX)).tolist() == widths


JOB = (Column("job", ("baker", "cook", "smith", "weaver")),)
AGE = (Column("age", ("young", "middle", "old", "?"), ordered=True, missing=3),)
TWOS = [(number,) for number in (0, 2, 2, 2, 2, 2, 2, 3, 7)]
COOKS = [(0,)] * 2 + [(1,)] * 4 + [(2,)] * 2
NO_MIDDLE = [(0,)] * 3 + [(2,)] * 3


@pytest.mark.parametrize(
    ("columns", "codes", "k", "levels"),
    [
        # Six of nine rows are 2: below 2 is one row, below 3 are seven, below 4 eight.
        ((NUMBER,), TWOS, 2, [("0 to 2", "3 to 7")]),
        ((NUMBER,), TWOS, 3, [("any",)]),
        # One row of eight reaches the far end of `number`: the next column is cut.
        (
            (NUMBER, OTHER),
            [*((0, 2 + i % 2) for i in range(7)), (7, 2)],
            3,
            [("any",), ("0 to 2", "3 to 7")],
        ),
        # A column without an order is cut into one and the others.
        (JOB, COOKS, 4, [("not cook", "cook")]),
        # A job that no row has stays where it was left.
        (JOB, COOKS, 2, [("baker", "cook", "{smith, weaver}")]),
        # Missing values join the lower side, or have their own.
        (AGE, [*NO_MIDDLE, (3,)], 3, [("young or ?", "middle to old")]),
        (AGE, [*NO_MIDDLE, (3,), (3,), (3,)], 3, [("young", "middle to old", "?")]),
    ],
)
def test_the_nearest_allowed_cut_is_taken(columns, codes, k, levels):
    rule = boxed(rows_of(*((*row, 0) for row in codes), columns=columns), k)
    assert [column.levels for column in rule.columns] == levels


def test_a_new_row_finds_the_box_of_its_side():
    rule = boxed(rows_of(*[(0, 0)] * 3, *[(7, 0)] * 3, columns=(NUMBER,)), 3)
    codes = rule.recode(rows_of((3, 0), (6, 0), columns=(NUMBER,))).codes[:, 0]
    # All thresholds between 0 and 7 cut in halves, and the first is taken.
    assert [rule.columns[0].levels[code] for code in codes] == ["1 to 7", "1 to 7"]


def impurity(rows: CodedRows, sides: list[np.ndarray]) -> Fraction:
    """Rows times Gini impurity, summed over the sides of a cut, exactly."""
    total = Fraction(0)
    for side in sides:
        labels = rows.target[side].tolist()
        squares = sum(labels.count(label) ** 2 for label in set(labels))
        total += len(labels) - Fraction(squares, max(1, len(labels)))
    return total


@given(rows=coded_rows(at_least=1), guarantee=guarantees())
def test_the_trees_first_cut_is_the_purest_or_most_even(rows, guarantee):
    recoding = attempt(Tree(least=1), rows, guarantee)
    if recoding is None:
        return
    everything = np.ones(len(rows), dtype=bool)
    cuts = allowed_cuts(rows, guarantee, everything)
    assert (recoding.rule.finder.nodes[0] is None) == (not cuts)
    if not cuts:
        return
    chosen, purest = root_bit(recoding.rule), min(impurity(rows, sides) for sides in cuts.values())
    if purest < impurity(rows, [everything]):
        assert impurity(rows, cuts[chosen]) == purest
    else:
        even = {i: min(side.sum() for side in sides) for i, sides in cuts.items()}
        assert chosen == min(i for i in cuts if even[i] == max(even.values()))


@pytest.mark.parametrize(("k", "least", "size"), [(2, 8, 8), (8, 2, 8), (2, 16, 16), (2, 4, 4)])
def test_leaves_have_the_least_rows_or_k(k, least, size):
    records = [(i // 16, i // 8 % 2, i // 4 % 2, i % 2) for i in range(32)]
    rows = rows_of(*records, columns=flags(3))
    numbers = boxed(rows, k, method=Tree(least=least)).finder.box_numbers(rows.codes)
    assert np.bincount(numbers).tolist() == [size] * (32 // size)
    # Fewer rows than a leaf has are one box and no error.
    assert len(boxed(PATIENTS, 2, method=Tree()).boxes) == 1


def test_the_least_rows_are_read_from_text():
    assert from_text(Tree, {"least": "40"}, of="clinic.yaml: tree") == Tree(least=40)
    with pytest.raises(DeclarationError, match="tree: least: expected an integer"):
        from_text(Tree, {"least": "0"}, of="clinic.yaml: tree")
