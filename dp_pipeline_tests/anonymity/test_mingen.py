"""Every method beside the oracle that searches a whole lattice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.anonymity.clustering import ClusterKAnonymity
from dp_pipeline.anonymity.hamdist import HamdistBackward, HamdistForward, HamdistRatio
from dp_pipeline.anonymity.kjig import Kjig
from dp_pipeline.anonymity.method import Bit, Method, bit_matrix, cumulative_bits, one_hot_bits
from dp_pipeline.anonymity.mondrian import Mondrian, Tree
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.ranking import Impurity, InformationRanking, Rfka
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
    ClusterKAnonymity(),
]
promises = st.builds(KAnonymityGuarantee, k=st.integers(2, 5), diversity=st.integers(1, 2))


def named(method: Method) -> str:
    return repr(method)


def bits_of(method: Method, rows: CodedRows) -> tuple[Bit, ...]:
    return cumulative_bits(rows.columns) if isinstance(method, Kjig) else one_hot_bits(rows.columns)


def as_bits(rows: CodedRows, bits: tuple[Bit, ...]) -> CodedRows:
    """A table with one column a bit: leaving columns out of it is what a selection does."""
    matrix = bit_matrix(bits, rows.codes, rows.columns).astype(np.int64)
    return CodedRows(flags(len(bits)), matrix, rows.target, rows.target_levels)


def minimal_selections(rows: CodedRows, promise: KAnonymityGuarantee) -> set[Node]:
    """Of a table of bits: 0 for a column that is kept, 1 for one that is left out."""
    return minimal_generalisations(rows, [kept_or_not(one) for one in rows.columns], promise)


@pytest.mark.parametrize("method", ONE_PASS + OTHERS, ids=named)
@settings(max_examples=40, deadline=None)
@given(rows=coded_rows(most=20), promise=promises)
def test_the_oracle_finds_the_promise_kept_by_every_method(method, rows, promise):
    try:
        released = method.recode(rows, promise, seed=1).release(rows)
    except TooFewRows:
        return
    assert kept_by(released, promise)
    assert len(released) == len(rows)


@pytest.mark.parametrize("method", ONE_PASS, ids=named)
@settings(max_examples=25, deadline=None)
@given(rows=coded_rows(most=16), promise=promises)
def test_what_a_one_pass_search_keeps_is_minimal_in_the_lattice_of_its_bits(method, rows, promise):
    bits = bits_of(method, rows)
    if len(bits) > 7:
        return
    try:
        kept = method.recode(rows, promise, seed=1).recoding.bits
    except TooFewRows:
        return
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


def test_the_oracle_finds_all_minimal_nodes_of_a_lattice_that_is_drawn_by_hand():
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
def test_whatever_lies_above_a_node_that_keeps_the_promise_keeps_it_too(rows, k):
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
