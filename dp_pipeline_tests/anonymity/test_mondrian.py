"""Strict Mondrian: where it cuts, how far, and what it must not look at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.anonymity import growth
from dp_pipeline.anonymity.boxes import BoxRecoding
from dp_pipeline.anonymity.method import bit_matrix, cumulative_bits
from dp_pipeline.anonymity.mondrian import Mondrian, _Widths
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline_tests.anonymity.boxes import tried
from dp_pipeline_tests.anonymity.mingen import kept_by
from dp_pipeline_tests.anonymity.populations import TEN, coded_rows, rows_of

EIGHT = tuple(str(level) for level in range(8))
NUMBER = Column("number", EIGHT, ordered=True)
OTHER = Column("other", EIGHT, ordered=True)


def boxed(rows: CodedRows, promise: KAnonymityGuarantee) -> BoxRecoding:
    found = Mondrian().recode(rows, promise, seed=0).recoding
    assert isinstance(found, BoxRecoding)
    return found


def levels_of(rows: CodedRows, k: int) -> list[tuple[str, ...]]:
    """The released levels of every column."""
    return [column.levels for column in boxed(rows, KAnonymityGuarantee(k)).columns]


def cuts_left(
    recoding: BoxRecoding, rows: CodedRows, promise: KAnonymityGuarantee
) -> list[tuple[int, str]]:
    """Boxes that a bit would cut in two that both keep the promise: the definition, by masks."""
    bits, places = cumulative_bits(rows.columns), recoding.finder.places(rows.codes)
    answers = bit_matrix(bits, rows.codes, rows.columns)
    left = []
    for box in range(len(recoding.boxes)):
        for at, bit in enumerate(bits):
            sides = [(places == box) & (answers[:, at] == side) for side in (False, True)]
            labels = [len(set(rows.target[side].tolist())) for side in sides]
            if all(side.sum() >= max(1, promise.k) for side in sides) and all(
                many >= promise.diversity for many in labels
            ):
                left.append((box, bit.name(rows.columns)))
    return left


@settings(max_examples=40, deadline=None)
@given(
    rows=coded_rows(at_least=1),
    promise=st.builds(KAnonymityGuarantee, k=st.integers(2, 5), diversity=st.integers(1, 2)),
)
def test_no_box_can_be_cut_again(rows, promise):
    if tried(Mondrian(), rows, promise) is not None:
        assert cuts_left(boxed(rows, promise), rows, promise) == []


def test_boxes_of_a_stricter_promise_are_seen_to_have_cuts_left():
    assert cuts_left(boxed(TEN, KAnonymityGuarantee(5)), TEN, KAnonymityGuarantee(5)) == []
    assert cuts_left(boxed(TEN, KAnonymityGuarantee(5)), TEN, KAnonymityGuarantee(2)) != []


@settings(max_examples=40, deadline=None)
@given(rows=coded_rows(at_least=2), k=st.integers(2, 4), shift=st.integers(1, 2))
def test_without_diversity_the_label_is_not_looked_at(rows, k, shift):
    if len(rows) >= k:
        other = replace(rows, target=(rows.target + shift) % len(rows.target_levels))
        shuffled = replace(rows, target=np.sort(rows.target))
        assert (
            boxed(rows, KAnonymityGuarantee(k))
            == boxed(other, KAnonymityGuarantee(k))
            == boxed(shuffled, KAnonymityGuarantee(k))
        )


def test_the_widest_column_is_cut_at_its_median():
    # Numbers from 0 to 7, others from 3 to 4 only: 2 of 8 levels.
    rows = rows_of(*[(at, 3 + at % 2, 0) for at in range(8)], columns=(NUMBER, OTHER))
    root = boxed(rows, KAnonymityGuarantee(4)).finder.nodes[0]
    assert root.bit.name(rows.columns) == "number>=4"
    assert levels_of(rows, 4) == [("0 to 3", "4 to 7"), ("any",)]


def first_cut(*records: tuple[int, ...], columns: tuple[Column, ...]) -> str:
    """The bit that all rows are cut by where both sides have two rows."""
    root = boxed(rows_of(*records, columns=columns), KAnonymityGuarantee(2)).finder.nodes[0]
    return root.bit.name(columns)


def test_a_wider_column_is_cut_before_one_with_a_more_even_cut():
    # `number` parts four and four, `other` three and five, but over all of its levels.
    records = [(3 + at % 2, 0 if at < 3 else 7, 0) for at in range(8)]
    assert first_cut(*records, columns=(NUMBER, OTHER)) == "other>=1"


def test_width_is_a_share_of_the_levels_that_a_column_has():
    # Four of eight numbers are less than both of two sexes.
    sex = Column("sex", ("f", "m"))
    records = [(at % 4, int(at > 2), 0) for at in range(8)]
    assert first_cut(*records, columns=(NUMBER, sex)) == "sex=m"


def test_an_ordered_column_is_as_wide_as_its_ends_are_apart():
    # Three of eight jobs, and only two of eight numbers: but those are the lowest and highest.
    jobs = Column("job", EIGHT)
    records = [(at % 3, 0 if at < 2 else 7, 0) for at in range(9)]
    assert first_cut(*records, columns=(jobs, NUMBER)) == "number>=1"


def test_missing_values_make_a_column_one_level_wider():
    # Ages 0, 1 and missing are three of nine levels, jobs two of nine and cut more evenly.
    ages = Column("age", (*EIGHT, "?"), ordered=True, missing=8)
    jobs = Column("job", (*EIGHT, "none"))
    records = [(at % 2, (1, 8, 8, 0, 0, 0, 0, 1)[at], 0) for at in range(8)]
    assert first_cut(*records, columns=(jobs, ages)) == "age>=1"


def test_widths_side_by_side_are_those_of_each_column():
    ages = Column("age", (*EIGHT, "?"), ordered=True, missing=8)
    jobs, sex = Column("job", EIGHT), Column("sex", ("f", "m"))
    present = [[1, 0, 0, 1, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0, 1, 1], [0, 1]]
    other = [[0, 1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 0], [1, 1]]
    of_boxes = np.array([np.concatenate(box) for box in (present, other)]).astype(bool)
    # Ages 0 to 3 and missing, five of nine; three jobs of eight, which have no order; one sex.
    widths = [[4 / 8, 2 / 7, 0.0], [0.0, 1 / 7, 1.0]]
    assert _Widths.of((ages, jobs, sex)).spanned(of_boxes).tolist() == widths


def test_where_the_median_is_not_allowed_the_nearest_is_cut():
    # Six of nine rows are 2: below 2 is one row, below 3 are seven, below 4 eight.
    rows = rows_of(*[(value, 0) for value in (0, 2, 2, 2, 2, 2, 2, 3, 7)], columns=(NUMBER,))
    assert levels_of(rows, 2) == [("0 to 2", "3 to 7")]
    assert levels_of(rows, 3) == [("any",)]


def test_where_the_widest_column_has_no_cut_the_next_is_cut():
    # One row of eight reaches the far end of `number`; all others are equal there.
    records = [(0, 2 + at % 2, 0) for at in range(7)] + [(7, 2, 0)]
    rows = rows_of(*records, columns=(NUMBER, OTHER))
    assert levels_of(rows, 3) == [("any",), ("0 to 2", "3 to 7")]


def test_of_equally_wide_columns_the_most_even_is_cut():
    # Both reach from 0 to 7. `number` has two rows above 0, `other` four.
    records = [(0, 0, 0)] * 4 + [(0, 7, 0)] * 2 + [(7, 7, 0)] * 2
    assert first_cut(*records, columns=(NUMBER, OTHER)) == "other>=1"


def test_an_unordered_column_is_cut_into_one_and_the_others():
    jobs = Column("job", ("baker", "cook", "smith", "weaver"))
    rows = rows_of(*[(0, 0)] * 2, *[(1, 0)] * 4, *[(2, 0)] * 2, columns=(jobs,))
    assert levels_of(rows, 4) == [("not cook", "cook")]
    # A job that nobody has stays where it was left.
    assert levels_of(rows, 2) == [("baker", "cook", "{smith, weaver}")]


def test_missing_values_go_with_the_lower_side_or_alone():
    ages = Column("age", ("young", "middle", "old", "?"), ordered=True, missing=3)
    some = rows_of(*[(0, 0)] * 3, *[(2, 0)] * 3, (3, 0), columns=(ages,))
    assert levels_of(some, 3) == [("young or ?", "middle to old")]
    many = rows_of(*[(0, 0)] * 3, *[(2, 0)] * 3, *[(3, 0)] * 3, columns=(ages,))
    assert levels_of(many, 3) == [("young", "middle to old", "?")]


def test_a_row_that_nobody_was_like_finds_the_box_of_its_side():
    rows = rows_of(*[(0, 0)] * 3, *[(7, 0)] * 3, columns=(NUMBER,))
    recoding = boxed(rows, KAnonymityGuarantee(3))
    asked = rows_of((3, 0), (6, 0), columns=(NUMBER,))
    texts = [recoding.columns[0].levels[code] for code in recoding.released(asked).codes[:, 0]]
    # All thresholds between 0 and 7 cut in halves, and the first is taken.
    assert texts == ["1 to 7", "1 to 7"]


def ignores_k(cuts, counts, rows):  # noqa: ARG001
    return rows >= 1


def ignores_labels(cuts, counts, rows):  # noqa: ARG001
    return rows >= max(1, cuts.promise.k)


@pytest.mark.parametrize("mutant", [ignores_k, ignores_labels], ids=lambda one: one.__name__)
def test_a_cut_that_breaks_the_promise_is_caught(mutant, monkeypatch: pytest.MonkeyPatch):
    promise = KAnonymityGuarantee(2, diversity=2)
    assert kept_by(Mondrian().recode(TEN, promise, seed=0).release(TEN), promise)
    monkeypatch.setattr(growth.Cuts, "_keeps", mutant)
    assert not kept_by(Mondrian().recode(TEN, promise, seed=0).release(TEN), promise)
