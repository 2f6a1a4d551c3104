"""What every method must do, and what the oracle finds that searches a whole lattice."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.anonymity.boxes import BoxRecoding
from dp_pipeline.anonymity.clustering import ClusterKAnonymity
from dp_pipeline.anonymity.hamdist import HamdistBackward, HamdistForward, HamdistRatio
from dp_pipeline.anonymity.kjig import Kjig
from dp_pipeline.anonymity.method import Bit, Method, bit_matrix, cumulative_bits, one_hot_bits
from dp_pipeline.anonymity.mondrian import Mondrian, Tree
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.ranking import Impurity, InformationRanking, Rfka
from dp_pipeline_tests.anonymity.boxes import tried
from dp_pipeline_tests.anonymity.mingen import (
    Node,
    generalised,
    halving,
    kept_by,
    kept_or_not,
    minimal_generalisations,
)
from dp_pipeline_tests.anonymity.populations import TEN, WARD, coded_rows, flags, rows_of

ONE_PASS: list[Method] = [
    Rfka(trees=3),
    Impurity(trees=3),
    HamdistForward(),
    InformationRanking(),
    Kjig("columns"),
]
OTHERS: list[Method] = [
    HamdistBackward(),
    HamdistRatio(),
    Mondrian(),
    Tree(),
    Tree(least=1),
    Tree(least=4),
    ClusterKAnonymity(),
]
promises = st.builds(KAnonymityGuarantee, k=st.integers(2, 5), diversity=st.integers(1, 2))
each_method = pytest.mark.parametrize("method", ONE_PASS + OTHERS, ids=repr)


@each_method
@settings(max_examples=40, deadline=None)
@given(
    rows=coded_rows(),
    promise=st.builds(
        KAnonymityGuarantee,
        k=st.integers(0, 5),
        diversity=st.integers(1, 3),
        suppressed=st.sampled_from([Fraction("0.0"), Fraction("0.2")]),
    ),
)
def test_the_promise_is_kept_or_refused(method, rows, promise):
    found = tried(method, rows, promise)
    possible = len(rows) >= promise.k and len(set(rows.target.tolist())) >= promise.diversity
    assert (found is not None) == (promise.is_empty or possible)
    if found is not None:
        released, left_out = found.release(rows), int(found.suppressed.sum())
        assert kept_by(released, promise)
        is_boxed = isinstance(found.recoding, BoxRecoding)
        assert left_out <= (0 if is_boxed else promise.most_suppressed(len(rows)))
        assert len(released) == len(rows) - left_out


@each_method
def test_less_rows_than_k_give_an_error_and_no_recoding(method):
    with pytest.raises(TooFewRows, match="expected at least K=11 rows, got fewer"):
        method.recode(TEN, KAnonymityGuarantee(11), seed=0)
    assert len(method.recode(TEN, KAnonymityGuarantee(10), seed=0).release(TEN)) == 10


@each_method
def test_a_constant_label_is_refused_under_two_diversity(method):
    rows, promise = replace(TEN, target=np.zeros(10, dtype=np.int64)), KAnonymityGuarantee(3)
    assert kept_by(method.recode(rows, promise, seed=0).release(rows), promise)
    with pytest.raises(TooFewRows, match="expected at least 2 different labels, got fewer"):
        method.recode(rows, KAnonymityGuarantee(3, diversity=2), seed=0)


@each_method
def test_without_quasi_identifiers_all_rows_are_one_class(method):
    rows = rows_of((0,), (1,), (1,), columns=())
    found = method.recode(rows, KAnonymityGuarantee(3), seed=0)
    released = found.release(rows)
    assert found.recoding.features(rows).shape == released.codes.shape == (3, 0)
    assert sorted(released.target.tolist()) == [0, 1, 1]


@each_method
def test_missing_everywhere_is_one_level_like_any_other(method):
    rows = rows_of(*[(at % 2, 3, at % 2) for at in range(80)], columns=WARD)
    released = method.recode(rows, KAnonymityGuarantee(3), seed=0).release(rows)
    assert len({tuple(codes) for codes in released.codes.tolist()}) == 2


def bits_of(method: Method, rows: CodedRows) -> tuple[Bit, ...]:
    return cumulative_bits(rows.columns) if isinstance(method, Kjig) else one_hot_bits(rows.columns)


def as_bits(rows: CodedRows, bits: tuple[Bit, ...]) -> CodedRows:
    """A table with one column a bit: leaving columns out of it is what a selection does."""
    matrix = bit_matrix(bits, rows.codes, rows.columns).astype(np.int64)
    return CodedRows(flags(len(bits)), matrix, rows.target, rows.target_levels)


def minimal_selections(rows: CodedRows, promise: KAnonymityGuarantee) -> set[Node]:
    """Of a table of bits: 0 for a column that is kept, 1 for one that is left out."""
    return minimal_generalisations(rows, [kept_or_not(one) for one in rows.columns], promise)


@pytest.mark.parametrize("method", ONE_PASS, ids=repr)
@settings(max_examples=25, deadline=None)
@given(rows=coded_rows(most=16), promise=promises)
def test_what_a_one_pass_search_keeps_is_minimal(method, rows, promise):
    bits = bits_of(method, rows)
    if len(bits) > 7:
        return
    found = tried(method, rows, promise)
    if found is None:
        return
    kept = found.recoding.bits
    if isinstance(method, Kjig):
        kept = with_what_says_nothing_new(rows, bits, kept)
    node = tuple(int(bit not in kept) for bit in bits)
    assert node in minimal_selections(as_bits(rows, bits), promise)


def with_what_says_nothing_new(rows, bits, kept):
    """Kept bits, and those that are the same for all rows of each class of theirs."""
    classes = [tuple(row) for row in bit_matrix(kept, rows.codes, rows.columns).tolist()]

    def is_settled(bit):
        answers = bit.of(rows.codes, rows.columns).tolist()
        return len(set(zip(classes, answers, strict=True))) == len(set(classes))

    return {bit for bit in bits if bit in kept or is_settled(bit)}


def test_a_search_that_stops_at_the_first_refusal_is_caught():
    # The first flag singles one row out, the second parts the others in halves. A head of the
    # order ends before the first, though the second could be kept.
    rows = rows_of((1, 0, 0), *[(0, 0, 0)] * 3, *[(0, 1, 0)] * 4, columns=flags(2))
    kept = HamdistBackward().recode(rows, KAnonymityGuarantee(2), seed=1).recoding.bits
    assert kept == ()
    minimal = minimal_selections(as_bits(rows, one_hot_bits(rows.columns)), KAnonymityGuarantee(2))
    assert minimal == {(1, 1, 0, 0)}


def test_the_oracle_finds_the_minimal_nodes_by_hand():
    # Sex has heights 0, 1 and age 0, 1, 2: {young, middle} and {old, missing} at height 1.
    # (0, 0) leaves a middle-aged man alone. Both nodes above it have classes of two and more:
    # (1, 0) leaves the missing age alone, (0, 1) has women 3 + 2, men 2 + 3.
    hierarchies = [halving(column) for column in WARD]
    assert hierarchies[1] == ((0, 1, 2, 3), (0, 0, 1, 1), (0, 0, 0, 0))
    assert minimal_generalisations(TEN, hierarchies, KAnonymityGuarantee(2)) == {(0, 1)}
    # Five women and five men; or eight young and middle, of whom two are men, so not.
    assert minimal_generalisations(TEN, hierarchies, KAnonymityGuarantee(4)) == {(0, 2)}
    assert minimal_generalisations(TEN, hierarchies, KAnonymityGuarantee(6)) == {(1, 2)}
    assert minimal_generalisations(TEN, hierarchies, KAnonymityGuarantee(11)) == set()


def test_the_oracle_counts_labels_where_the_promise_does():
    rows = rows_of((0, 0), (0, 0), (1, 0), (1, 1), columns=flags(1))
    hierarchies = [halving(rows.columns[0])]
    assert minimal_generalisations(rows, hierarchies, KAnonymityGuarantee(2)) == {(0,)}
    assert minimal_generalisations(rows, hierarchies, KAnonymityGuarantee(2, diversity=2)) == {(1,)}


@settings(max_examples=40, deadline=None)
@given(rows=coded_rows(most=12, at_least=2), k=st.integers(2, 4))
def test_what_lies_above_a_good_node_is_good(rows, k):
    hierarchies = [halving(column) for column in rows.columns]
    for node in minimal_generalisations(rows, hierarchies, KAnonymityGuarantee(k)):
        for at, hierarchy in enumerate(hierarchies):
            above = (*node[:at], min(node[at] + 1, len(hierarchy) - 1), *node[at + 1 :])
            records = generalised(rows, hierarchies, above)
            assert all(records.count(record) >= k for record in records)


def test_a_class_of_one_row_less_than_k_is_seen():
    rows = rows_of((0, 0), (0, 1), (0, 1), (1, 0), (1, 1), columns=flags(1))
    assert kept_by(rows, KAnonymityGuarantee(2))
    assert not kept_by(rows, KAnonymityGuarantee(3))
