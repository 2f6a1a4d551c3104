from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics import equivalence_classes
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses, class_ids

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
