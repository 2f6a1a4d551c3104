import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics import disclosure
from dp_pipeline.metrics.disclosure import containment_k, disclosure_report, recursive_c
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses
from dp_pipeline_tests.metrics.ward import (
    COLD,
    FLU,
    LABELS,
    OLD_MEN,
    WARD,
    YOUNG_WOMEN,
    Row,
    arrays,
    containment_by_loops,
    measures_by_loops,
    recursive_by_loops,
)

populations = st.tuples(st.integers(0, 3), st.integers(1, 3)).flatmap(
    lambda shape: st.lists(
        st.tuples(st.tuples(*[st.integers(0, shape[1])] * shape[0]), st.integers(0, 4)),
        min_size=1,
        max_size=40,
    )
)


def measured(rows: list[Row], *, labels: int = LABELS, ordered: bool = True, k: int = 3) -> Any:
    return disclosure_report(*arrays(rows), labels=labels, ordered=ordered, k=k)


def same(facts: dict[str, float]) -> Any:
    return pytest.approx(facts, abs=1e-12, nan_ok=True)


def test_patients_have_the_measures_counted_by_hand() -> None:
    expected = {
        "rows": 9, "classes": 3, "promised_k": 3, "k": 2, "rows_in_small_classes": 2,
        "highest_risk": 1 / 2, "mean_risk": 3 / 9, "alpha": 1, "homogeneous_rows": 2,
        "distinct_l": 1, "entropy_l": 1, "recursive_c": math.inf,
        # Of young men: all have the flu, which four of nine have.
        "t_closeness": 5 / 9, "ordered_t_closeness": (5 / 9 + 2 / 9) / 3, "beta_likeness": 5 / 4,
        "delta_disclosure": math.inf, "present_delta_disclosure": math.log(9 / 4),
        # Old men only contain themselves; everybody contains young women, who have no bit.
        "containment_k": 3,
    }  # fmt: skip
    assert measured(WARD).facts() == same(expected)


def test_without_the_homogeneous_class_the_old_men_are_the_worst() -> None:
    report = measured([*YOUNG_WOMEN, *OLD_MEN])
    assert (report.alpha, report.distinct_l, report.recursive_c) == (pytest.approx(2 / 3), 2, 2)
    assert report.entropy_l == pytest.approx(math.exp(math.log(3) - 2 / 3 * math.log(2)))


RARE_COLD = [*[((0,), FLU)] * 9, ((0,), COLD), *[((1,), FLU)] * 17, *[((1,), COLD)] * 13]
"""A class makes colds rarer by a larger share than it makes the flu likelier."""


@example(rows=RARE_COLD, ordered=True, k=3)
@given(rows=populations, ordered=st.booleans(), k=st.integers(0, 5))
def test_every_measure_is_that_of_loops_over_the_rows(rows, ordered: bool, k: int) -> None:
    expected = measures_by_loops(rows, labels=6, ordered=ordered, k=k)
    assert measured(rows, labels=6, ordered=ordered, k=k).facts() == same(expected)


@given(rows=populations, diversity=st.integers(1, 6))
def test_the_c_of_every_l_is_that_of_loops(rows: list[Row], diversity: int) -> None:
    classes = EquivalenceClasses.of(*arrays(rows), labels=5)
    groups = [[label for other, label in rows if other == codes] for codes, _ in rows]
    expected = max(recursive_by_loops(group, diversity) for group in groups)
    assert recursive_c(classes, diversity=diversity) == pytest.approx(expected)


def test_no_rows_are_no_number_and_nothing_that_counts() -> None:
    report = disclosure_report(np.zeros((0, 2)), np.zeros(0), labels=3, ordered=True, k=5)
    counts = "rows classes k rows_in_small_classes distinct_l homogeneous_rows containment_k"
    expected = dict.fromkeys(report.facts(), math.nan) | dict.fromkeys(counts.split(), 0)
    assert report.facts() == same({**expected, "promised_k": 5})


def test_a_constant_label_is_homogeneous_and_like_the_table() -> None:
    report = disclosure_report(np.array([[0], [0], [1]]), np.zeros(3, int), labels=1, k=1)
    assert (report.homogeneous_rows, report.alpha, report.entropy_l) == (3, 1, 1)
    assert (report.t_closeness, report.delta_disclosure, report.beta_likeness) == (0, 0, 0)
    assert report.recursive_c == math.inf


def test_rare_labels_of_a_long_order_keep_their_digits() -> None:
    """Two hundred labels, two of which a class has: the steps between them count as well."""
    labels = 200
    rows: list[Row] = [((0,), 3), ((0,), 197), ((1,), 3), ((1,), 50)]
    expected = measures_by_loops(rows, labels=labels, ordered=True, k=2)
    assert measured(rows, labels=labels, k=2).facts() == same(expected)


def test_the_facts_have_the_same_names_whatever_was_measured() -> None:
    names = [*measured(WARD).__dataclass_fields__]
    empty = disclosure_report(np.zeros((0, 2)), np.zeros(0), labels=3, k=5)
    for report in (measured(WARD), measured(WARD, ordered=False), empty):
        facts = report.facts()
        assert list(facts) == names
        assert all(type(value) is float for value in facts.values())


def test_an_l_below_one_is_refused() -> None:
    classes = EquivalenceClasses.of(*arrays(WARD), labels=LABELS)
    message = "The l of recursive diversity must be at least 1, not 0"
    with pytest.raises(DeclarationError, match=message):
        recursive_c(classes, diversity=0)


bit_tables = st.integers(0, 4).flatmap(
    lambda bits: st.lists(st.tuples(*[st.integers(0, 1)] * bits), min_size=1, max_size=20)
)


@given(table=bit_tables)
def test_containment_is_that_of_sets_of_ones_and_never_below_k(table: list) -> None:
    bits = np.array(table, dtype=np.uint8).reshape(len(table), -1)
    assert containment_k(bits) == containment_by_loops(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dp_pipeline.metrics.disclosure._CELLS_A_BLOCK", 3)
        assert containment_k(bits.astype(np.bool_)) == containment_by_loops(table)
    assert containment_k(bits) >= disclosure_report(bits, bits[:, :0].sum(1), labels=1, k=1).k


def test_containment_needs_bits() -> None:
    """Two boxes of ages: one is not contained in the other because its code is smaller."""
    boxes, target = np.array([[0], [0], [1]]), np.zeros(3, int)
    of_bits = disclosure_report(boxes, target, labels=1, k=2)
    of_codes = disclosure_report(boxes, target, labels=1, k=2, bits=False)
    assert of_bits.containment_k == 1
    assert of_codes.facts() == same({**of_bits.facts(), "containment_k": math.nan})


def test_containment_is_of_bits_and_of_few_different_rows(monkeypatch) -> None:
    for other in (np.array([[2]]), np.array([[0.5]]), np.array([0, 1])):
        with pytest.raises(DeclarationError, match="A containment needs"):
            containment_k(other)
    assert containment_k(np.zeros((0, 3), dtype=np.uint8)) == 0
    monkeypatch.setattr(disclosure, "MOST_DIFFERENT_ROWS", 2)
    assert math.isnan(measured(WARD).containment_k)
    monkeypatch.setattr(disclosure, "MOST_DIFFERENT_ROWS", 3)
    assert measured(WARD).containment_k == 3
