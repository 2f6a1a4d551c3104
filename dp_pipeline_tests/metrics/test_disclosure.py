"""Measures of disclosure of a ward of nine rows by hand, and of any table by slow loops."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics import disclosure, equivalence_classes
from dp_pipeline.metrics.disclosure import containment_k, disclosure_report, recursive_c
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses, class_ids

Row = tuple[tuple[int, ...], int]

FLU, COLD, HIV, LABELS = 0, 1, 2, 4
"""Of four declared labels one does not occur."""

YOUNG_WOMEN = [((0, 0), FLU), ((0, 0), FLU), ((0, 0), COLD), ((0, 0), HIV)]
YOUNG_MEN = [((0, 1), FLU), ((0, 1), FLU)]
OLD_MEN = [((1, 1), COLD), ((1, 1), COLD), ((1, 1), HIV)]
WARD: list[Row] = [*YOUNG_WOMEN, *YOUNG_MEN, *OLD_MEN]


def arrays(rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
    codes = np.array([codes for codes, _ in rows], dtype=np.int64).reshape(len(rows), -1)
    return codes, np.array([label for _, label in rows], dtype=np.int64)


def measures_by_loops(
    rows: Sequence[Row], *, labels: int, ordered: bool, k: int
) -> dict[str, float]:
    """Every definition as it is written, in exact fractions until the end; at least one row."""
    classes = {codes: [label for other, label in rows if other == codes] for codes, _ in rows}
    p = _shares([label for _, label in rows], labels)
    qs = {codes: _shares(labels_, labels) for codes, labels_ in classes.items()}
    occurring = [label for label in range(labels) if p[label]]
    logs = {
        codes: [abs(math.log(q[s] / p[s])) if q[s] else math.inf for s in occurring]
        for codes, q in qs.items()
    }
    binary = {code for codes, _ in rows for code in codes} <= {0, 1}
    measures = {
        "rows": len(rows),
        "classes": len(classes),
        "promised_k": k,
        "k": min(len(labels_) for labels_ in classes.values()),
        "rows_in_small_classes": sum(len(classes[codes]) < k for codes, _ in rows),
        "highest_risk": max(Fraction(1, len(classes[codes])) for codes, _ in rows),
        "mean_risk": sum(Fraction(1, len(classes[codes])) for codes, _ in rows) / len(rows),
        "alpha": max(max(q) for q in qs.values()),
        "distinct_l": min(len(set(labels_)) for labels_ in classes.values()),
        "entropy_l": min(math.exp(-sum(x * math.log(x) for x in q if x)) for q in qs.values()),
        "recursive_c": max(recursive_by_loops(labels_, 2) for labels_ in classes.values()),
        "homogeneous_rows": sum(len(set(classes[codes])) == 1 for codes, _ in rows),
        "t_closeness": max(_half_of_differences(q, p) for q in qs.values()),
        "ordered_t_closeness": max(_earth_moved(q, p) for q in qs.values())
        if ordered
        else math.nan,
        "delta_disclosure": max(max(log) for log in logs.values()),
        "present_delta_disclosure": max(x for log in logs.values() for x in log if x < math.inf),
        "beta_likeness": max((q[s] - p[s]) / p[s] for q in qs.values() for s in occurring),
        "containment_k": containment_by_loops([codes for codes, _ in rows]) if binary else math.nan,
    }
    return {name: float(value) for name, value in measures.items()}


def recursive_by_loops(labels: Sequence[int], diversity: int) -> float:
    """r_1/(r_l + … + r_m) of one class."""
    counts = sorted((labels.count(label) for label in set(labels)), reverse=True)
    remaining = sum(counts[diversity - 1 :])
    return counts[0] / remaining if remaining else math.inf


def containment_by_loops(table: Sequence[tuple[int, ...]]) -> int:
    """Fewest rows that have all the ones of some row."""
    numbers = [{index for index, bit in enumerate(row) if bit} for row in table]
    return min(sum(number <= other for other in numbers) for number in numbers)


def _shares(labels_: Sequence[int], labels: int) -> list[Fraction]:
    return [Fraction(list(labels_).count(label), len(labels_)) for label in range(labels)]


def _half_of_differences(q: Sequence[Fraction], p: Sequence[Fraction]) -> Fraction:
    return sum((abs(x - y) for x, y in zip(q, p, strict=True)), Fraction(0)) / 2


def _earth_moved(q: Sequence[Fraction], p: Sequence[Fraction]) -> Fraction:
    carried = [abs(sum(q[: index + 1]) - sum(p[: index + 1])) for index in range(len(p))]
    return sum(carried, Fraction(0)) / max(1, len(p) - 1)


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


tables = st.integers(0, 4).flatmap(
    lambda columns: st.lists(st.tuples(*[st.integers(0, 3)] * columns), min_size=1, max_size=30)
)
HUGE = (1 << 32) - 1


def array(rows: list[tuple[int, ...]], dtype: type = np.int64) -> np.ndarray:
    return np.array(rows, dtype=dtype).reshape(len(rows), -1)


@pytest.fixture(params=["as it is", "every table is sparse", "no key has room"])
def reference_classes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways to number the classes, on tables that are too small to need them."""
    if request.param != "as it is":
        monkeypatch.setattr(equivalence_classes, "_DENSE_CELLS_A_ROW", 0)
    if request.param == "no key has room":
        monkeypatch.setattr(equivalence_classes, "_MOST_KEYS", 1)


@pytest.mark.usefixtures("reference_classes")
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=tables)
def test_classes_are_the_different_rows_in_their_order(dtype: type, rows) -> None:
    ids, sizes = class_ids(array(rows, dtype))
    different = sorted(set(rows))
    assert [different[index] for index in ids.tolist()] == rows
    assert sizes.tolist() == [rows.count(row) for row in different]


@pytest.mark.usefixtures("reference_classes")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=tables, seed=st.integers(0, 99))
def test_the_entries_are_the_labels_that_occur_in_each_class(rows, seed: int) -> None:
    target = np.random.default_rng(seed).integers(0, 4, len(rows))
    classes = EquivalenceClasses.of(array(rows), target, labels=5)
    counts = Counter(zip(class_ids(array(rows))[0].tolist(), target.tolist(), strict=True))
    entries = np.stack([classes.groups, classes.labels, classes.counts], axis=1)
    assert entries.tolist() == sorted([*entry, count] for entry, count in counts.items())
    assert classes.groups[classes.starts].tolist() == list(range(len(classes)))
    assert classes.totals.tolist() == [target.tolist().count(label) for label in range(5)]


WIDE = array([(0, 0, 0), (1, 0, 0), (HUGE, HUGE, HUGE)])


def test_many_columns_still_separate_rows() -> None:
    assert class_ids(WIDE)[0].tolist() == [0, 1, 2]
    largest = np.array([[(1 << 64) - 1], [0], [(1 << 64) - 1]], dtype=np.uint64)
    assert class_ids(largest)[0].tolist() == [1, 0, 1]
    many = np.eye(300, dtype=np.bool_)
    assert class_ids(np.vstack([many, many]))[1].tolist() == [2] * 300


def test_keys_that_wrap_around_would_claim_too_much(monkeypatch) -> None:
    monkeypatch.setattr(equivalence_classes, "_MOST_KEYS", 1 << 200)
    assert class_ids(WIDE)[1].max() == 2


def test_no_columns_are_one_class_and_no_rows_are_none() -> None:
    for empty in (np.zeros((3, 0)), np.zeros((3, 0), dtype=np.uint8)):
        assert [class_id.tolist() for class_id in class_ids(empty)] == [[0, 0, 0], [3]]
    for shape in ((0, 2), (0, 0)):
        assert [class_id.tolist() for class_id in class_ids(np.zeros(shape))] == [[], []]
        classes = EquivalenceClasses.of(np.zeros(shape), np.zeros(0), labels=2)
        assert (len(classes), classes.rows, classes.totals.tolist()) == (0, 0, [0, 0])


@pytest.mark.parametrize("codes", [[0, 1], [[0], [-1]], [[0.0], [np.nan]], [["a"]], [[None]]])
def test_what_is_no_table_of_codes_is_refused(codes: list) -> None:
    with pytest.raises(DeclarationError, match="The codes of rows must be a"):
        class_ids(np.array(codes))


@pytest.mark.parametrize(
    "target", [[0], [0, 1, 1], [[0, 1]], [0, 2], [0, -1], [0.0, np.nan]], ids=str
)
def test_labels_that_do_not_fit_are_refused(target: list) -> None:
    with pytest.raises(DeclarationError, match="rows must") as refused:
        EquivalenceClasses.of(np.array([[0], [1]]), np.array(target), labels=2)
    assert "-1" not in str(refused.value)
