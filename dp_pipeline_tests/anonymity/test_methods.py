"""What every method must do, and that its tables are the same in any number of batches."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.anonymity import build_method
from dp_pipeline.anonymity.bit_search import ClassPartition
from dp_pipeline.anonymity.boxes import BoxRule
from dp_pipeline.anonymity.clustering import ClusterKAnonymity
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.growth import Mondrian, Tree
from dp_pipeline.anonymity.kjig import CANDIDATES, Kjig
from dp_pipeline.anonymity.label_scores import ScoredRows
from dp_pipeline.anonymity.method import (
    BitRule,
    Method,
    Recoding,
    bit_matrix,
    cumulative_bits,
    one_hot_bits,
)
from dp_pipeline.anonymity.ranking import (
    HamdistBackward,
    HamdistForward,
    HamdistRatio,
    Impurity,
    InformationRanking,
    Rfka,
)
from dp_pipeline.releases import k_anonymous_tables as tables
from dp_pipeline.results import clusters
from dp_pipeline.results.clusters import LongColumns, Tables
from dp_pipeline_tests.anonymity.populations import (
    PATIENTS,
    SEX_AND_AGE,
    attempt,
    boxes_of,
    coded_rows,
    every_row,
    guarantees,
    is_anonymous,
    is_in,
    is_possible,
    rows_of,
)


@dataclass(frozen=True)
class CandidateMethod:
    """One candidate of kjig as a method."""

    number: int

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        return CANDIDATES[self.number].recode(ScoredRows(rows, guarantee))


FORESTS = [Rfka(trees=3), Impurity(trees=3)]
ONE_PASS: list[Method] = [*FORESTS, HamdistForward(), InformationRanking(), Kjig("columns")]
SELECTING: list[Method] = [*ONE_PASS, HamdistBackward(), HamdistRatio()]
CUTTING: list[Method] = [Mondrian(), Tree(), Tree(least=1), Tree(least=4)]
AROUND: list[Method] = [ClusterKAnonymity(), *map(CandidateMethod, range(len(CANDIDATES)))]
BOXING = CUTTING + AROUND
each_method = pytest.mark.parametrize("method", SELECTING + BOXING, ids=repr)
each_boxing = pytest.mark.parametrize("method", BOXING, ids=repr)
any_guarantee = guarantees(k=0, diversity=3, shares="0 0.2")


def bits_of(method: Method, rows: CodedRows) -> tuple:
    return cumulative_bits(rows.columns) if isinstance(method, Kjig) else one_hot_bits(rows.columns)


@pytest.mark.chain
@pytest.mark.parametrize("method", [*SELECTING, *BOXING, Kjig()], ids=repr)
@settings(max_examples=25)
@given(rows=coded_rows(), guarantee=any_guarantee)
def test_guarantee_is_kept_or_refused(method, rows, guarantee):
    recoding = attempt(method, rows, guarantee)
    assert (recoding is not None) == is_possible(rows, guarantee)
    if recoding is not None:
        released, suppressed = recoding.release(rows), int(recoding.suppressed.sum())
        assert is_anonymous(released, guarantee)
        is_boxed = isinstance(recoding.rule, BoxRule)
        assert suppressed <= (0 if is_boxed else guarantee.max_suppressed_rows(len(rows)))
        assert len(released) == len(rows) - suppressed


@pytest.mark.chain
@pytest.mark.parametrize("method", [*SELECTING, *BOXING, Kjig()], ids=repr)
@settings(max_examples=15)
@given(
    rows=coded_rows(at_least=2), guarantee=any_guarantee, random=st.randoms(use_true_random=False)
)
def test_row_order_changes_nothing(method, rows, guarantee, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    turned = rows.select(np.array(order))
    first, second = (attempt(method, table, guarantee) for table in (rows, turned))
    if first is None or second is None:
        assert first is second
        return
    assert first.suppressed[order].tolist() == second.suppressed.tolist()
    releases = first.release(rows), second.release(turned)
    assert releases[0].columns == releases[1].columns
    assert releases[0].codes.tolist() == releases[1].codes.tolist()
    assert releases[0].target.tolist() == releases[1].target.tolist()


@pytest.mark.parametrize("method", BOXING, ids=repr)
def test_seed_changes_no_box(method):
    two = KAnonymityGuarantee(2)
    first, second = (method.recode(PATIENTS, two, seed=seed).release(PATIENTS) for seed in (0, 9))
    assert (first.columns, first.codes.tolist()) == (second.columns, second.codes.tolist())


@each_method
@pytest.mark.parametrize("k", [0, 1])
def test_k_of_nought_and_one_keep_everything(method, k):
    rule = method.recode(PATIENTS, KAnonymityGuarantee(k), seed=0).rule
    if isinstance(rule, BitRule):
        assert set(rule.bits) == set(bits_of(method, PATIENTS))
    else:
        released, bits = rule.recode(PATIENTS), cumulative_bits(PATIENTS.columns)
        assert released.columns == PATIENTS.columns
        assert released.codes.tolist() == PATIENTS.codes.tolist()
        expected = bit_matrix(bits, PATIENTS.codes, PATIENTS.columns).astype(float)
        assert rule.features(PATIENTS).tolist() == expected.tolist()


@each_method
def test_too_few_rows_give_an_error(method):
    with pytest.raises(TooFewRows, match="There are fewer rows than K=11: choose a smaller K"):
        method.recode(PATIENTS, KAnonymityGuarantee(11), seed=0)
    assert len(method.recode(PATIENTS, KAnonymityGuarantee(10), seed=0).release(PATIENTS)) == 10
    rows = replace(PATIENTS, target=np.zeros(10, dtype=np.int64))
    three = KAnonymityGuarantee(3)
    assert is_anonymous(method.recode(rows, three, seed=0).release(rows), three)
    with pytest.raises(TooFewRows, match="different labels: declare a smaller `diversity`"):
        method.recode(rows, KAnonymityGuarantee(3, diversity=2), seed=0)


NO_COLUMNS = rows_of((0,), (1,), (1,), columns=())
MISSING_EVERYWHERE = rows_of(*[(i % 2, 3, i % 2) for i in range(80)], columns=SEX_AND_AGE)
IDENTICAL = rows_of(*[(1, 2, i % 2) for i in range(6)], columns=SEX_AND_AGE)


@each_method
@pytest.mark.parametrize(
    ("rows", "k", "classes"), [(NO_COLUMNS, 3, 1), (MISSING_EVERYWHERE, 3, 2), (IDENTICAL, 2, 1)]
)
def test_rows_that_hardly_differ_have_the_classes_there_are(method, rows, k, classes):
    recoding = method.recode(rows, KAnonymityGuarantee(k), seed=0)
    released = recoding.release(rows)
    assert len({tuple(codes) for codes in released.codes.tolist()}) == classes
    assert sorted(released.target.tolist()) == sorted(rows.target.tolist())
    if rows is NO_COLUMNS:
        assert recoding.rule.features(rows).shape == released.codes.shape == (3, 0)
    elif rows is IDENTICAL and isinstance(recoding.rule, BitRule):
        bits = () if isinstance(method, Kjig) else one_hot_bits(SEX_AND_AGE)
        assert set(recoding.rule.bits) == set(bits)


@each_boxing
@settings(max_examples=30)
@given(rows=coded_rows(at_least=1), guarantee=guarantees(diversity=3))
def test_every_row_has_a_box_that_holds_it(method, rows, guarantee):
    recoding = attempt(method, rows, guarantee)
    if recoding is None:
        return
    rule, others = recoding.rule, every_row(rows.columns)
    released, features = rule.recode(others), rule.features(others)
    assert released.columns == rule.columns
    assert [column.name for column in rule.columns] == [column.name for column in rows.columns]
    assert features.shape == (len(others), len(cumulative_bits(rows.columns)))
    assert np.all((features >= 0) & (features <= 1))
    by_class: dict[tuple[int, ...], list[float]] = {}
    for codes, seen in zip(released.codes.tolist(), features.tolist(), strict=True):
        assert by_class.setdefault(tuple(codes), seen) == seen
    # New rows may lie outside of a box that is drawn around the rows of its class.
    table = others if method in CUTTING else rows
    boxes = zip(table.codes.tolist(), boxes_of(rule, table), strict=True)
    assert all(is_in(tuple(codes), box) for codes, box in boxes)
    if method in CUTTING:
        for codes in others.codes.tolist():
            assert sum(is_in(tuple(codes), box) for box in rule.boxes) == 1


@pytest.mark.parametrize("method", ONE_PASS, ids=repr)
@given(rows=coded_rows(), guarantee=guarantees(k=0, shares="0 0.2"))
def test_no_bit_can_be_added_after_one_pass(method, rows, guarantee):
    recoding = attempt(method, rows, guarantee)
    if recoding is None:
        return
    partition, selected = ClassPartition(rows, bits_of(method, rows), guarantee), recoding.rule.bits
    for bit in selected:
        partition.refine(partition.bits.index(bit))
    class_count = len(np.unique(bit_matrix(selected, rows.codes, rows.columns), axis=0))
    for index, bit in enumerate(partition.bits):
        if bit in selected:
            continue
        # Kjig leaves out what is the same for all rows of each class.
        finer = BitRule(rows.columns, (*selected, bit)).recode(rows)
        is_finer = len(np.unique(finer.codes, axis=0)) > class_count
        if not guarantee.suppressed:
            assert not is_anonymous(finer, guarantee) or (isinstance(method, Kjig) and not is_finer)
        if partition.is_acceptable(index):
            assert isinstance(method, Kjig)
            assert partition.count_cut_classes(partition.split([index])).tolist() == [0]


PEOPLE = CodedRows(
    (Column("age", ("young", "grown", "old"), ordered=True), Column("sex", ("f", "m"))),
    np.array([(at % 3, at % 2) for at in range(29)]),
    np.array([at % 5 // 3 for at in range(29)]),
    ("well", "ill"),
)


def released(method: str) -> Tables:
    promise = KAnonymityGuarantee(4)
    recoded = build_method(method, {}, of="test").recode(PEOPLE, promise, seed=0)
    return tables.k_anonymous_tables(PEOPLE, recoded, promise, label="state", is_public=True)


@pytest.mark.parametrize("method", ["mondrian", "hamdist_forward"])
def test_a_table_of_many_batches_is_the_same(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = released(method)
    assert isinstance(whole["released"], dict)
    for module in (tables, clusters):
        monkeypatch.setattr(module, "ROWS_A_BATCH", 7)
    parted = released(method)
    assert isinstance(parted["released"], LongColumns)
    assert [len(part) for part in parted["released"].batches("state")] == [7, 7, 7, 7, 1]
    for table, columns in whole.items():
        assert list(columns) == list(parted[table])
        for name in columns:
            assert parted[table][name].dtype == columns[name].dtype
            np.testing.assert_array_equal(parted[table][name], columns[name])


def test_texts_are_coded_as_unique_codes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "ROWS_A_BATCH", 3)
    texts = np.array(["m", "f", "m", "zz", "a", "f", "m"])
    levels, places = tables._levels_and_codes({"sex": texts}, "sex")
    assert levels.tolist() == ["a", "f", "m", "zz"]
    assert places.tolist() == [2, 1, 2, 3, 0, 1, 2]
    assert tables._levels_and_codes({"sex": texts[:0]}, "sex")[1].tolist() == []
