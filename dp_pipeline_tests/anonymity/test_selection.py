"""What every method that keeps bits must do, whatever its order."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.hamdist import HamdistBackward, HamdistRatio, hamming_distances
from dp_pipeline.anonymity.kjig import Kjig, told_together
from dp_pipeline.anonymity.method import (
    BitRecoding,
    Method,
    Ranking,
    Recoded,
    bit_matrix,
    cumulative_bits,
    one_hot_bits,
)
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.ranking import (
    Impurity,
    RankedSearch,
    Rfka,
    Started,
    fill,
    fitted_forest,
    kept_in_order,
    permutation_importance,
)
from dp_pipeline_tests.anonymity.boxes import tried
from dp_pipeline_tests.anonymity.mingen import kept_by
from dp_pipeline_tests.anonymity.populations import TEN, WARD, coded_rows, flags, rows_of

WITH = {Rfka: {"trees": 5}, Impurity: {"trees": 5}, Kjig: {"shape": "columns"}}
"""What makes them quick, and kjig a method that keeps bits whatever the rows."""
SELECTING = [
    METHODS[name]
    for name in (
        "rfka",
        "impurity",
        "hamdist_backward",
        "hamdist_forward",
        "hamdist_ratio",
        "mutual_information",
        "kjig",
    )
]
each_method = pytest.mark.parametrize("kind", SELECTING, ids=lambda kind: kind.__name__)
promises = st.builds(
    KAnonymityGuarantee,
    k=st.integers(0, 5),
    diversity=st.integers(1, 2),
    suppressed=st.sampled_from([Fraction("0.0"), Fraction("0.2")]),
)


def built(kind: type[Method]) -> Method:
    return kind(**WITH.get(kind, {}))


@each_method
@settings(max_examples=20, deadline=None)
@given(rows=coded_rows())
def test_k_of_nought_and_one_keep_every_bit(kind, rows):
    bits = cumulative_bits(rows.columns) if kind is Kjig else one_hot_bits(rows.columns)
    for k in (0, 1):
        found = built(kind).recode(rows, KAnonymityGuarantee(k), seed=0)
        assert sorted(map(str, found.recoding.bits)) == sorted(map(str, bits))
        assert not found.suppressed.any()


@each_method
@settings(max_examples=20, deadline=None)
@given(rows=coded_rows(at_least=2), promise=promises, random=st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_nothing(kind, rows, promise, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    first, other = (tried(built(kind), one, promise) for one in (rows, rows.some(np.array(order))))
    if first is None or other is None:
        assert first is other
        return
    assert first.recoding == other.recoding
    assert first.suppressed[order].tolist() == other.suppressed.tolist()


@each_method
@settings(max_examples=20, deadline=None)
@given(rows=coded_rows(at_least=2), promise=promises)
def test_released_rows_do_not_lie_as_they_did_in_the_source(kind, rows, promise):
    backwards = rows.some(np.arange(len(rows))[::-1])
    found, turned = (tried(built(kind), one, promise) for one in (rows, backwards))
    if found is None or turned is None:
        return
    one, other = found.release(rows), turned.release(backwards)
    assert one.codes.tolist() == other.codes.tolist()
    assert one.target.tolist() == other.target.tolist()


@pytest.mark.parametrize(
    "kind",
    [kind for kind in SELECTING if kind not in (HamdistBackward, HamdistRatio)],
    ids=lambda kind: kind.__name__,
)
@settings(max_examples=25, deadline=None)
@given(rows=coded_rows(), promise=promises)
def test_no_bit_that_tells_rows_apart_can_be_added(kind, rows, promise):
    found = tried(built(kind), rows, promise)
    if found is None:
        return
    bits = cumulative_bits(rows.columns) if kind is Kjig else one_hot_bits(rows.columns)
    started = Started.of(rows, bits, promise)
    partition, rare = started.partition, started.rare.rows
    kept = [bits.index(bit) for bit in found.recoding.bits]
    for place in kept:
        partition.refine(rare[place])
    others = [at for at in range(len(bits)) if at not in kept and partition.takes(rare[at])]
    assert kind is Kjig or not others
    for at in others:
        assert partition.cut(partition.split([rare[at]])).tolist() == [0]


@settings(max_examples=20, deadline=None)
@given(rows=coded_rows(at_least=1), k=st.integers(2, 4))
def test_every_part_of_a_k_anonymous_set_of_bits_is_k_anonymous(rows, k):
    if len(rows) < k:
        return
    bits = one_hot_bits(rows.columns)
    found = kept_in_order(rows, bits, range(len(bits)), KAnonymityGuarantee(k))
    for many in range(len(found.recoding.bits) + 1):
        for some in list(combinations(found.recoding.bits, many))[:20]:
            assert kept_by(BitRecoding(rows.columns, some).released(rows), KAnonymityGuarantee(k))


def printed_lines_6_to_8(
    rows: CodedRows, order: list[int], promise: KAnonymityGuarantee
) -> list[int]:
    """RFKA's loop as it is printed: add a bit, and *if* the privacy test is passed remove it."""
    bits, kept = one_hot_bits(rows.columns), list[int]()
    for place in order:
        kept.append(place)
        recoding = BitRecoding(rows.columns, tuple(bits[one] for one in kept))
        if kept_by(recoding.released(rows), promise):
            kept.pop()
    return kept


def test_the_printed_condition_keeps_just_what_exposes():
    order, promise = [2, 0, 3, 1, 4, 5], KAnonymityGuarantee(k=3)
    bits = one_hot_bits(WARD)
    printed = printed_lines_6_to_8(TEN, order, promise)
    assert printed, "the printed loop keeps something"
    as_printed = BitRecoding(WARD, tuple(bits[place] for place in printed))
    assert not kept_by(as_printed.released(TEN), promise)
    ours = kept_in_order(TEN, bits, order, promise)
    assert kept_by(ours.release(TEN), promise)
    assert ours.recoding.bits


def test_a_larger_k_may_keep_another_bit():
    # K = 2 takes the first bit (2 of 8 rows), beside which the second would leave single rows.
    # K = 3 refuses the first, and so has room for the second.
    pairs = [(1, 1), (1, 0), (0, 1), (0, 1), (0, 0), (0, 0), (0, 0), (0, 0)]
    rows = rows_of(*((*pair, 0) for pair in pairs), columns=flags(2))
    first, second = (bit for bit in one_hot_bits(rows.columns) if bit.code == 1)
    by_two, by_three = (
        kept_in_order(rows, (first, second), (0, 1), KAnonymityGuarantee(k)) for k in (2, 3)
    )
    assert by_two.recoding.bits == (first,)
    assert by_three.recoding.bits == (second,)


def test_the_rankings_result_depends_on_order_and_classes_alone():
    other = replace(TEN, target=1 - TEN.target)
    order = (5, 4, 3, 2, 1, 0)
    one, two = (
        kept_in_order(rows, one_hot_bits(WARD), order, KAnonymityGuarantee(2)).recoding
        for rows in (TEN, other)
    )
    assert one == two


@settings(max_examples=20, deadline=None)
@given(rows=coded_rows())
def test_hamdist_in_closed_form_is_the_sum_over_all_pairs(rows):
    bits = one_hot_bits(rows.columns)
    matrix, total = bit_matrix(bits, rows.codes, rows.columns), np.zeros(len(bits), dtype=np.int64)
    for one, other in combinations(range(len(rows)), 2):
        if rows.target[one] != rows.target[other]:
            total += matrix[one] != matrix[other]
    assert hamming_distances(rows, bits).tolist() == total.tolist()


def test_hamdist_backward_drops_the_lowest_until_it_is_kept():
    rows, promise = TEN, KAnonymityGuarantee(3)
    bits = one_hot_bits(WARD)
    order = HamdistBackward().ranking(rows, seed=0).places
    kept = list(order)
    while not kept_by(BitRecoding(WARD, tuple(bits[at] for at in kept)).released(rows), promise):
        kept.pop()
    found = HamdistBackward().recode(rows, promise, seed=0)
    assert set(found.recoding.bits) == {bits[at] for at in kept}
    assert 0 < len(kept) < len(bits)


def test_hamdist_ratio_drops_what_frees_most_rows():
    found = HamdistRatio().recode(TEN, KAnonymityGuarantee(3), seed=0)
    names = {bit.name(WARD) for bit in found.recoding.bits}
    assert kept_by(found.release(TEN), KAnonymityGuarantee(3))
    # The one missing age exposes its row, and all bits that single it out have to go.
    assert "age=missing" not in names
    assert names


@each_method
def test_identical_rows_keep_every_bit_and_kjig_none(kind):
    rows = rows_of(*[(1, 2, 0)] * 4, columns=WARD)
    found = built(kind).recode(rows, KAnonymityGuarantee(4), seed=0)
    assert len(found.recoding.bits) == (0 if kind is Kjig else len(one_hot_bits(WARD)))
    assert len(found.release(rows)) == 4


def test_kjig_takes_bits_that_tell_together_first():
    # The label is a contrary of two flags, four rows of each kind; a third flag tells nothing.
    records = [(a, b, c, a ^ b) for a in (0, 1) for b in (0, 1) for c in (0, 1)] * 8
    records += [(1, 1, 0, 0)] * 8
    rows = rows_of(*records, columns=flags(3))
    started = Started.of(rows, cumulative_bits(rows.columns), KAnonymityGuarantee(8), by_label=True)
    taken = told_together(started.partition, started.rare)
    assert {started.bits[place].column for place in taken[:2]} == {0, 1}


@each_method
def test_no_bit_is_taken_for_a_row_that_is_left_out(kind):
    # One row alone has the first flag, which tells its label best; the second cuts in halves.
    records = [(1, 0, 1), *[(0, half, label) for half in (0, 1) for label in (0, 1)] * 10]
    rows = rows_of(*records, columns=flags(2))
    found = built(kind).recode(rows, KAnonymityGuarantee(5, suppressed=Fraction("0.1")), seed=0)
    assert {bit.column for bit in found.recoding.bits} == {1}
    assert not found.suppressed.any()


class TakesAllButTheLast(RankedSearch):
    """A search with a mistake: the last bit of the order is taken unseen."""

    def worth(self, rows, bits, *, seed):  # noqa: ARG002
        return np.arange(len(bits), 0, -1).astype(np.float64)

    def recode_by(self, ranking: Ranking, rows: CodedRows, promise: KAnonymityGuarantee) -> Recoded:
        bits = self.bits(rows.columns)
        started = Started.of(rows, bits, promise)
        kept = [*fill(started.partition, started.rare, ranking.places[:-1]), ranking.places[-1]]
        return started.result(kept)


def test_a_search_that_takes_one_bit_unseen_is_caught():
    found = TakesAllButTheLast().recode(TEN, KAnonymityGuarantee(2), seed=0)
    assert not kept_by(found.release(TEN), KAnonymityGuarantee(2))


def test_bits_say_what_they_ask():
    names = [bit.name(WARD) for bit in cumulative_bits(WARD)]
    assert names == ["sex=m", "age>=middle", "age>=old", "age=missing"]
    matrix = bit_matrix(cumulative_bits(WARD), np.array([[1, 2], [0, 3]]), WARD)
    assert matrix.tolist() == [[True, True, True, False], [False, False, False, True]]
    one_level = (Column("x", ("only",)),)
    assert [bit.name(one_level) for bit in cumulative_bits(one_level)] == ["x=only"]


def test_importance_is_judged_by_rows_that_a_tree_has_not_seen():
    bits = np.random.default_rng(1).integers(0, 2, (200, 6)).astype(np.float32)
    forest = fitted_forest(bits, bits[:, 0].astype(int), trees=3, seed=1)
    seen = SimpleNamespace(estimators_=forest.estimators_, estimators_samples_=[np.arange(200)] * 3)
    found = [
        permutation_importance(one, bits, bits[:, 0].astype(int), rng=np.random.default_rng(1))
        for one in (forest, seen)
    ]
    # A third of 200 rows is outside of a bag, and half of them change with the bit.
    assert 10 < found[0][0] < 60
    assert not found[1].any()
