import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics import disclosure
from dp_pipeline.metrics.disclosure import (
    DisclosureReport,
    containment_k,
    delta_disclosure,
    disclosure_report,
    distinct_labels,
    entropy_labels,
    largest_share,
    recursive_c,
)
from dp_pipeline.metrics.equivalence_classes import EquivalenceClasses
from dp_pipeline_tests.metrics.ward import (
    COLD,
    FLU,
    HIV,
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
    assert measured(WARD).facts() == same(
        {
            "rows": 9,
            "classes": 3,
            "promised_k": 3,
            "k": 2,
            "rows_in_small_classes": 2,
            "highest_risk": 1 / 2,
            "mean_risk": 3 / 9,
            "alpha": 1,
            "distinct_l": 1,
            "entropy_l": 1,
            "recursive_c": math.inf,
            "homogeneous_rows": 2,
            # Of young men: all have the flu, which four of nine have.
            "t_closeness": 5 / 9,
            "ordered_t_closeness": (5 / 9 + 2 / 9) / 3,
            "delta_disclosure": math.inf,
            "present_delta_disclosure": math.log(9 / 4),
            "beta_likeness": 5 / 4,
            # Old men only contain themselves; everybody contains young women, who have no bit.
            "containment_k": 3,
        }
    )


def test_without_the_homogeneous_class_the_old_men_are_the_worst() -> None:
    classes = EquivalenceClasses.of(*arrays([*YOUNG_WOMEN, *OLD_MEN]), labels=LABELS)
    assert largest_share(classes) == pytest.approx(2 / 3)
    assert distinct_labels(classes) == 2
    assert entropy_labels(classes) == pytest.approx(math.exp(math.log(3) - 2 / 3 * math.log(2)))
    assert recursive_c(classes, diversity=1) == pytest.approx(2 / 3)
    assert recursive_c(classes, diversity=2) == 2
    assert recursive_c(classes, diversity=3) == math.inf


@settings(deadline=None)
@given(rows=populations, ordered=st.booleans(), k=st.integers(0, 5))
def test_every_measure_is_that_of_loops_over_the_rows(
    rows: list[Row], ordered: bool, k: int
) -> None:
    expected = measures_by_loops(rows, labels=6, ordered=ordered, k=k)
    assert measured(rows, labels=6, ordered=ordered, k=k).facts() == same(expected)


@settings(deadline=None)
@given(rows=populations, diversity=st.integers(1, 6))
def test_the_c_of_every_l_is_that_of_loops(rows: list[Row], diversity: int) -> None:
    classes = EquivalenceClasses.of(*arrays(rows), labels=5)
    groups = [[label for other, label in rows if other == codes] for codes, _ in rows]
    expected = max(recursive_by_loops(group, diversity) for group in groups)
    assert recursive_c(classes, diversity=diversity) == pytest.approx(expected)


@settings(deadline=None)
@given(rows=populations, seed=st.integers(0, 999))
def test_permuted_rows_give_the_same_measures(rows: list[Row], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(rows))
    permuted = [rows[index] for index in order]
    assert measured(permuted, labels=5).facts() == same(measured(rows, labels=5).facts())


@settings(deadline=None)
@given(rows=populations, seed=st.integers(0, 999))
def test_names_change_nothing_but_the_ordered_distance(rows: list[Row], seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels, labels = rng.permutation(4) + 2, rng.permutation(5)
    renamed = [
        (tuple(int(levels[code]) for code in codes), int(labels[label])) for codes, label in rows
    ]
    actual, expected = (measured(row, labels=5, ordered=False) for row in (renamed, rows))
    # Containment is of bits that are called 0 and 1.
    assert {**actual.facts(), "containment_k": 0} == same({**expected.facts(), "containment_k": 0})


def test_ordered_distance_is_symmetric() -> None:
    reversed_rows = [(codes, LABELS - 1 - label) for codes, label in WARD]
    assert measured(reversed_rows).ordered_t_closeness == pytest.approx(
        measured(WARD).ordered_t_closeness
    )
    apart = [((0,), 0), ((1,), LABELS - 1)]
    assert measured(apart).ordered_t_closeness == 0.5


def another_row(codes: np.ndarray, target: np.ndarray, *, labels: int) -> EquivalenceClasses:
    """Labels looked up by something else than the place of the row."""
    return EquivalenceClasses.of(codes, np.roll(target, 1), labels=labels)


def without_level_two(codes: np.ndarray, target: np.ndarray, *, labels: int) -> EquivalenceClasses:
    remaining = (codes != 2).all(axis=1)
    return EquivalenceClasses.of(codes[remaining], target[remaining], labels=labels)


def rarest_over_the_rest(classes: EquivalenceClasses, *, diversity: int) -> float:
    """Frequencies in the wrong order, as a published checker has them."""
    groups = [classes.counts[classes.groups == group] for group in range(len(classes))]
    return max(min(counts) / max(1, sum(sorted(counts)[diversity - 1 :])) for counts in groups)


def losses_too(classes: EquivalenceClasses) -> float:
    overall = classes.overall[classes.labels]
    return float((np.abs(classes.shares - overall) / overall).max())


def likelier_only(classes: EquivalenceClasses, *, include_absent: bool = True) -> float:
    if include_absent:
        return delta_disclosure(classes)
    return float(np.log(classes.shares / classes.overall[classes.labels]).max())


def classes_not_rows(classes: EquivalenceClasses) -> int:
    return int((classes.labels_of_class == 1).sum())


MUTANTS: list[tuple[str, Callable[..., Any]]] = [
    ("EquivalenceClasses.of", another_row),
    ("EquivalenceClasses.of", without_level_two),
    ("smallest_class", lambda sizes: int(sizes.max())),
    ("rows_in_small_classes", lambda sizes, *, k: int(sizes[sizes <= k].sum())),
    ("recursive_c", rarest_over_the_rest),
    ("homogeneous_rows", classes_not_rows),
    ("t_closeness", disclosure.ordered_t_closeness),
    ("ordered_t_closeness", disclosure.t_closeness),
    ("delta_disclosure", likelier_only),
    ("beta_likeness", losses_too),
    ("containment_k", lambda bits: containment_k(1 - bits)),
]

AWKWARD: list[list[Row]] = [
    WARD,
    [*WARD, ((2, 1), HIV)],
    [((0,), FLU), ((0,), FLU), ((0,), FLU), ((0,), COLD), ((1,), COLD), ((1,), FLU)],
    [*[((0,), FLU)] * 9, ((0,), COLD), *[((1,), FLU)] * 17, *[((1,), COLD)] * 13],
]


@pytest.mark.parametrize(
    ("name", "mutant"), MUTANTS, ids=[f"{name} {index}" for index, (name, _) in enumerate(MUTANTS)]
)
def test_a_wrong_measure_is_caught_by_the_loops(
    name: str, mutant: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def caught() -> list[bool]:
        expected = [measures_by_loops(rows, labels=LABELS, ordered=True, k=3) for rows in AWKWARD]
        pairs = zip(AWKWARD, expected, strict=True)
        return [measured(rows).facts() != same(counts) for rows, counts in pairs]

    assert not any(caught())
    if "." in name:

        class Mutant:
            of = staticmethod(mutant)

        monkeypatch.setattr(disclosure, "EquivalenceClasses", Mutant)
    else:
        monkeypatch.setattr(disclosure, name, mutant)
    assert any(caught())


def test_no_rows_are_no_number_and_nothing_that_counts() -> None:
    report = disclosure_report(np.zeros((0, 2)), np.zeros(0), labels=3, ordered=True, k=5)
    empty = {name for name, value in report.facts().items() if value == 0}
    assert empty == {
        "rows",
        "classes",
        "k",
        "rows_in_small_classes",
        "distinct_l",
        "homogeneous_rows",
        "containment_k",
    }
    assert {name for name, value in report.facts().items() if math.isnan(value)} == (
        set(report.facts()) - empty - {"promised_k"}
    )


def test_no_columns_are_one_class_that_is_like_the_table() -> None:
    report = measured([((), label) for _, label in WARD], k=10)
    assert (report.classes, report.k, report.rows_in_small_classes) == (1, 9, 9)
    assert (report.t_closeness, report.beta_likeness, report.delta_disclosure) == (0, 0, 0)
    assert report.ordered_t_closeness == pytest.approx(0, abs=1e-15)
    assert report.containment_k == 9


def test_a_constant_label_is_homogeneous_and_like_the_table() -> None:
    report = disclosure_report(np.array([[0], [0], [1]]), np.zeros(3, int), labels=1, k=1)
    assert (report.homogeneous_rows, report.alpha, report.entropy_l) == (3, 1, 1)
    assert (report.t_closeness, report.delta_disclosure, report.beta_likeness) == (0, 0, 0)
    assert report.recursive_c == math.inf


def test_a_missing_value_is_a_level_that_keeps_its_row_apart() -> None:
    missing = 2
    report = measured([*WARD, ((0, missing), FLU)])
    assert (report.rows, report.k, report.highest_risk) == (10, 1, 1)
    all_missing = measured([((missing, missing), label) for _, label in WARD])
    assert (all_missing.classes, all_missing.k) == (1, 9)


def test_rare_labels_of_a_long_order_keep_their_digits() -> None:
    """Two hundred labels, two of which a class has: the steps between them count as well."""
    labels = 200
    rows: list[Row] = [((0,), 3), ((0,), 197), ((1,), 3), ((1,), 50)]
    expected = measures_by_loops(rows, labels=labels, ordered=True, k=2)
    assert measured(rows, labels=labels, k=2).facts() == same(expected)


def test_the_facts_have_the_same_names_whatever_was_measured() -> None:
    names = list(DisclosureReport.__dataclass_fields__)
    empty = disclosure_report(np.zeros((0, 2)), np.zeros(0), labels=3, k=5)
    for report in (measured(WARD), measured(WARD, ordered=False), empty):
        facts = report.facts()
        assert list(facts) == names
        assert all(type(value) is float for value in facts.values())


def test_an_l_below_one_is_refused() -> None:
    classes = EquivalenceClasses.of(*arrays(WARD), labels=LABELS)
    with pytest.raises(
        DeclarationError, match="The l of recursive diversity must be at least 1, not 0"
    ):
        recursive_c(classes, diversity=0)


bit_tables = st.integers(0, 4).flatmap(
    lambda bits: st.lists(st.tuples(*[st.integers(0, 1)] * bits), min_size=1, max_size=20)
)


@settings(deadline=None)
@given(table=bit_tables)
def test_containment_is_that_of_sets_of_ones_and_never_below_k(table: list) -> None:
    bits = np.array(table, dtype=np.uint8).reshape(len(table), -1)
    assert containment_k(bits) == containment_by_loops(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dp_pipeline.metrics.disclosure._CELLS_A_BLOCK", 3)
        assert containment_k(bits.astype(np.bool_)) == containment_by_loops(table)
    assert containment_k(bits) >= disclosure_report(bits, bits[:, :0].sum(1), labels=1, k=1).k


def test_containment_promises_less_than_k_anonymity() -> None:
    """A staircase: every row but the last is contained in others, and every row is alone."""
    steps = np.tri(6, dtype=np.uint8)[[0, 1, 2, 3, 4, 5, 5, 5, 5, 5]]
    report = disclosure_report(steps, np.zeros(10, int), labels=1, k=5)
    assert (report.containment_k, report.k, report.rows_in_small_classes) == (5, 1, 5)


def test_containment_needs_bits() -> None:
    """Two boxes of ages: one is not contained in the other because its code is smaller."""
    boxes, target = np.array([[0], [0], [1]]), np.zeros(3, int)
    answers = disclosure_report(boxes, target, labels=1, k=2)
    alternatives = disclosure_report(boxes, target, labels=1, k=2, bits=False)
    assert answers.containment_k == 1
    assert np.isnan(alternatives.containment_k)
    same = {**answers.facts(), "containment_k": 0.0}
    assert str({**alternatives.facts(), "containment_k": 0.0}) == str(same)


def test_containment_is_of_bits_and_of_few_different_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for other in (np.array([[2]]), np.array([[0.5]]), np.array([0, 1])):
        with pytest.raises(DeclarationError, match="A containment needs"):
            containment_k(other)
    assert containment_k(np.zeros((0, 3), dtype=np.uint8)) == 0
    monkeypatch.setattr(disclosure, "MOST_DIFFERENT_ROWS", 2)
    assert math.isnan(measured(WARD).containment_k)
    monkeypatch.setattr(disclosure, "MOST_DIFFERENT_ROWS", 3)
    assert measured(WARD).containment_k == 3
