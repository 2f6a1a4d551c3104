"""Mondrian and the classification tree: where they cut, how far, and what they must not look at."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.anonymity.boxes import BoxRule
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.growth import Mondrian, Tree, spanned_shares
from dp_pipeline.anonymity.method import bit_matrix, cumulative_bits
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import from_text
from dp_pipeline_tests.anonymity.populations import (
    PATIENTS,
    attempt,
    coded_rows,
    flags,
    guarantees,
    rows_of,
)

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


def test_a_box_that_no_cut_makes_purer_is_cut_in_halves():
    # One flag against the other: each alone says nothing, both together everything.
    contrary = rows_of(*[(a, b, a ^ b) for a in (0, 1) for b in (0, 1)] * 3, columns=flags(2))
    assert len(boxed(contrary, 3, method=Tree(least=1)).boxes) == 4
    one_label = rows_of(*[(int(i > 5), i % 2, 0) for i in range(8)], columns=flags(2))
    assert boxed(one_label, 2, method=Tree(least=1)).finder.nodes[0].column == 1


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
