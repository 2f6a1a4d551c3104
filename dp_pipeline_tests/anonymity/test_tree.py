"""The classification tree whose leaves keep the promise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.anonymity import mondrian
from dp_pipeline.anonymity.boxes import BoxRecoding
from dp_pipeline.anonymity.method import bit_matrix, cumulative_bits
from dp_pipeline.anonymity.mondrian import Tree
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import from_text
from dp_pipeline_tests.anonymity.boxes import tried
from dp_pipeline_tests.anonymity.populations import TEN, coded_rows, flags, rows_of

promises = st.builds(KAnonymityGuarantee, k=st.integers(2, 5), diversity=st.integers(1, 2))


def grown(rows: CodedRows, promise: KAnonymityGuarantee, *, least: int = 1) -> BoxRecoding:
    found = Tree(least=least).recode(rows, promise, seed=0).recoding
    assert isinstance(found, BoxRecoding)
    return found


def impurity(rows: CodedRows, sides: list[np.ndarray]) -> Fraction:
    """Rows times Gini impurity, summed over the sides of a cut, exactly."""
    total = Fraction(0)
    for side in sides:
        labels = rows.target[side].tolist()
        squares = sum(labels.count(label) ** 2 for label in set(labels))
        total += len(labels) - Fraction(squares, max(1, len(labels)))
    return total


def allowed_cuts(rows: CodedRows, promise: KAnonymityGuarantee) -> dict[int, list[np.ndarray]]:
    answers = bit_matrix(cumulative_bits(rows.columns), rows.codes, rows.columns)
    cuts = {at: [~answers[:, at], answers[:, at]] for at in range(answers.shape[1])}
    return {
        at: sides
        for at, sides in cuts.items()
        if all(side.sum() >= promise.k for side in sides)
        and all(len(set(rows.target[side].tolist())) >= promise.diversity for side in sides)
    }


@settings(max_examples=50, deadline=None)
@given(rows=coded_rows(at_least=1), promise=promises)
def test_the_first_cut_is_the_purest_or_the_most_even(rows, promise):
    if tried(Tree(least=1), rows, promise) is None:
        return
    root, cuts = grown(rows, promise).finder.nodes[0], allowed_cuts(rows, promise)
    assert (root is None) == (not cuts)
    if root is None:
        return
    chosen = cumulative_bits(rows.columns).index(root.bit)
    purest = min(impurity(rows, sides) for sides in cuts.values())
    if purest < impurity(rows, [np.ones(len(rows), dtype=bool)]):
        assert impurity(rows, cuts[chosen]) == purest
    else:
        even = {at: min(side.sum() for side in sides) for at, sides in cuts.items()}
        assert chosen == min(at for at in cuts if even[at] == max(even.values()))


def test_what_tells_the_label_is_cut_before_what_does_not():
    # The second flag is the label but for one row; the first is half and half.
    records = [(at % 2, at // 4, at // 4) for at in range(8)] + [(0, 1, 0)]
    recoding = grown(rows_of(*records, columns=flags(2)), KAnonymityGuarantee(4))
    assert recoding.finder.nodes[0].bit.column == 1
    assert [column.levels for column in recoding.columns] == [("any",), ("no", "yes")]


def test_a_box_that_no_cut_makes_purer_is_cut_in_halves():
    # One flag against the other: each alone tells nothing, both together everything.
    records = [(a, b, a ^ b) for a in (0, 1) for b in (0, 1)] * 3
    released = Tree(least=1).recode(
        rows_of(*records, columns=flags(2)), KAnonymityGuarantee(3), seed=0
    )
    assert len(released.recoding.boxes) == 4


def test_a_box_of_one_label_is_cut_in_halves_too():
    rows = rows_of(*[(int(at > 5), at % 2, 0) for at in range(8)], columns=flags(2))
    assert grown(rows, KAnonymityGuarantee(2)).finder.nodes[0].bit.column == 1


def test_leaves_have_the_least_rows_or_k():
    records = [(at // 16, at // 8 % 2, at // 4 % 2, at % 2) for at in range(32)]
    rows = rows_of(*records, columns=flags(3))
    sizes = {
        (k, least): np.bincount(
            grown(rows, KAnonymityGuarantee(k), least=least).finder.places(rows.codes)
        ).tolist()
        for k, least in ((2, 8), (8, 2), (2, 16), (2, 4))
    }
    assert sizes[2, 8] == sizes[8, 2] == [8] * 4
    assert sizes[2, 16] == [16] * 2
    assert sizes[2, 4] == [4] * 8


def test_less_rows_than_a_leaf_has_are_one_box_and_no_error():
    recoding = Tree().recode(TEN, KAnonymityGuarantee(2), seed=0).recoding
    assert len(recoding.boxes) == 1
    assert recoding.released(TEN).columns[0].levels == ("any",)


def test_the_least_rows_are_read_from_text_and_refused_below_one():
    assert from_text(Tree, {"least": "40"}, of="clinic.yaml: tree") == Tree(least=40)
    with pytest.raises(DeclarationError, match="tree: least: expected an integer"):
        from_text(Tree, {"least": "0"}, of="clinic.yaml: tree")


def test_a_tree_that_takes_the_least_pure_cut_is_caught(monkeypatch):
    promise = KAnonymityGuarantee(2)
    cuts = allowed_cuts(TEN, promise)
    monkeypatch.setattr(mondrian, "_purity", lambda counts: 1 / (1 + (counts**2).sum(axis=0)))
    root = grown(TEN, promise).finder.nodes[0]
    chosen = cumulative_bits(TEN.columns).index(root.bit)
    assert impurity(TEN, cuts[chosen]) > min(impurity(TEN, sides) for sides in cuts.values())
