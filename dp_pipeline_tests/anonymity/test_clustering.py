"""Rules that release boxes, and boxes around clusters of like rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.anonymity import groups
from dp_pipeline.anonymity.boxes import BoxRule, BoxTree, Fork, text_of
from dp_pipeline.anonymity.clustering import CentreRule, ClusterKAnonymity, Gower, _Clustering
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.groups import Groups
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

THREE_BOXES = BoxRule(
    SEX_AND_AGE,
    (((0,), (0, 1, 2, 3)), ((1,), (0, 1)), ((1,), (2, 3))),
    BoxTree((Fork(0, 1, 2, no=1, yes=2), None, Fork(1, 2, 3, no=3, yes=4), None, None)),
)
"""Women; men; and old men, wrongly said to hold the men whose age is missing."""


def test_levels_are_the_sets_of_codes_of_boxes():
    sex, age = THREE_BOXES.columns
    assert (sex.name, sex.levels) == ("sex", ("f", "m"))
    assert (age.name, age.levels) == ("age", ("young to middle", "any", "old or missing"))
    assert not age.ordered
    assert THREE_BOXES.recode(PATIENTS).codes[[0, 5, 7]].tolist() == [[0, 1], [1, 0], [1, 2]]


def test_a_side_of_missing_values_only_is_the_missing_level():
    centres = CentreRule(SEX_AND_AGE, ((0, 0), (0, 3)))
    rule = BoxRule(SEX_AND_AGE, (((0, 1), (0, 1, 2)), ((0, 1), (3,))), centres)
    assert rule.columns[1] == Column("age", ("young to old", "missing"), missing=1)
    assert rule.columns[0].missing is None


def test_features_are_shares_where_bits_are_true():
    seen = THREE_BOXES.features(PATIENTS)
    assert seen[0].tolist() == [0.0, 0.5, 0.25, 0.25]
    assert seen[5].tolist() == [1.0, 0.5, 0.0, 0.0]
    assert seen[7].tolist() == [1.0, 0.5, 0.5, 0.5]


def test_sets_of_levels_read_as_a_person_would_say_them():
    jobs = Column("job", ("baker", "cook", "smith", "weaver"))
    texts = [text_of(codes, jobs) for codes in ((0,), (0, 2), (0, 2, 3), (0, 1, 2, 3))]
    assert texts == ["baker", "{baker, smith}", "not cook", "any"]
    hours = Column("hours", ("[0, 35)", "[35, 41)", "[41, 99]"), ordered=True)
    texts = [text_of(codes, hours) for codes in ((0, 1), (1, 2), (0, 2))]
    assert texts == ["[0, 41)", "[35, 99]", "{[0, 35), [41, 99]}"]


def test_a_box_that_does_not_hold_its_rows_is_caught():
    rows = every_row(SEX_AND_AGE)
    boxes = zip(rows.codes.tolist(), boxes_of(THREE_BOXES, rows), strict=True)
    # The cut sends a missing age to the lower side, and the boxes say otherwise.
    assert [tuple(codes) for codes, box in boxes if not is_in(tuple(codes), box)] == [(1, 3)]
    assert THREE_BOXES.finder.boxes(SEX_AND_AGE)[1:] == (((1,), (0, 1, 3)), ((1,), (2,)))


NUMBER = Column("number", tuple(str(level) for level in range(9)), ordered=True)


def clustered(rows: CodedRows, k: int, diversity: int = 1) -> BoxRule:
    return ClusterKAnonymity().recode(rows, KAnonymityGuarantee(k, diversity), seed=0).rule


def split_centres(rows: CodedRows, guarantee: KAnonymityGuarantee) -> list[list[int]]:
    clusters = _Clustering(rows, guarantee)
    return clusters.split_centres().tolist()


def distance(first: list[int], second: list[int], columns: tuple[Column, ...]) -> int:
    """Gower's distance in 1024ths of a column, rounded up: the definition, column by column."""
    total = 0
    for code, other, column in zip(first, second, columns, strict=True):
        is_value = max(code, other) < column.value_count
        steps = column.value_count - 1 if column.ordered and is_value else 0
        if code != other:
            total += -(-abs(code - other) * 1024 // steps) if steps else 1024
    return total


@given(rows=coded_rows(at_least=1), seed=st.integers(0, 1000))
def test_distances_and_nearest_centres_are_those_of_a_loop(rows, seed):
    gower, rng = Gower(rows.columns), np.random.default_rng(seed)
    centres = rows.codes[rng.integers(0, len(rows), 3)]
    table = [
        [distance(row, centre, rows.columns) for centre in centres.tolist()]
        for row in rows.codes.tolist()
    ]
    others = np.repeat(centres[1:2], len(rows), axis=0)
    assert gower.between(rows.codes, others).tolist() == [row[1] for row in table]
    nearest = gower.nearest(rows.codes, gower.from_centres(centres))
    assert nearest.tolist() == [row.index(min(row)) for row in table]


@settings(max_examples=30)
@given(rows=coded_rows(at_least=1, most=12), seed=st.integers(0, 1000))
def test_middles_have_the_least_total_distance(rows, seed):
    rng = np.random.default_rng(seed)
    weights, keys = rng.integers(1, 4, len(rows)), np.sort(rng.integers(0, 2, len(rows)))
    two = Groups(rng.permutation(len(rows)), keys, 2)
    for group, middle in enumerate(Gower(rows.columns).middles(rows.codes, weights, two).tolist()):
        members = two.members[keys == group]

        def total(centre: list[int], members: np.ndarray = members) -> int:
            codes = rows.codes[members].tolist()
            return int(
                np.dot([distance(row, centre, rows.columns) for row in codes], weights[members])
            )

        assert total(middle) == min(map(total, every_row(rows.columns).codes.tolist()))


def test_two_clumps_are_two_boxes_around_their_rows():
    rows = rows_of(*[(value, 0) for value in (0, 0, 1, 6, 7, 8)], columns=(NUMBER,))
    rule = clustered(rows, 2)
    assert rule.columns[0].levels == ("0 to 1", "6 to 8")
    # New rows go to the nearest centre, 0 or 7, even where its box does not reach.
    new = rows_of((3, 0), (4, 0), (5, 0), columns=(NUMBER,))
    assert rule.finder.centres == ((0,), (7,))
    assert rule.recode(new).codes[:, 0].tolist() == [0, 1, 1]


def test_a_row_far_from_all_others_joins_the_nearest_cluster():
    rows = rows_of(*[(0, 0)] * 4, *[(4, 0)] * 4, (8, 0), columns=(NUMBER,))
    assert clustered(rows, 3).columns[0].levels == ("0", "4 to 8")


def split_one_by_one(rows: CodedRows, guarantee: KAnonymityGuarantee) -> list[list[int]]:
    """The centres of ``_split``, by a loop over one cluster after the other."""
    kinds = np.unique(rows.codes, axis=0).tolist()
    of_kind = [np.flatnonzero((rows.codes == kind).all(axis=1)) for kind in kinds]

    def far(kind: int, centre: list[int]) -> int:
        return distance(kinds[kind], centre, rows.columns)

    def middle(members: list[int]) -> list[int]:
        codes = np.repeat([kinds[i] for i in members], [len(of_kind[i]) for i in members], 0)
        all_rows = Groups.single(len(codes))
        return Gower(rows.columns).middles(codes, np.ones(len(codes)), all_rows)[0].tolist()

    def split(members: list[int]) -> set[tuple[int, ...]]:
        row_count = sum(len(of_kind[i]) for i in members)
        if row_count <= 2 * max(guarantee.k, guarantee.diversity) or len(members) == 1:
            return {tuple(middle(members))}
        centres = [middle(members)]
        for _ in range(2):
            centres.append(kinds[max(members, key=lambda i: far(i, centres[-1]))])
        centres = centres[1:]
        for _ in range(5):
            is_nearer = [far(i, centres[0]) > far(i, centres[1]) for i in members]
            sides = [
                [i for i, is_second in zip(members, is_nearer, strict=True) if is_second == side]
                for side in (False, True)
            ]
            if not all(sides):
                break
            halves, centres = sides, [middle(side) for side in sides]
        large = [half for half in halves if keeps(half)]
        return set().union(*map(split, large)) or {tuple(middle(members))}

    def keeps(members: list[int]) -> bool:
        labels = rows.target[np.concatenate([of_kind[i] for i in members])].tolist()
        return len(labels) >= guarantee.k and len(set(labels)) >= guarantee.diversity

    return [list(centre) for centre in sorted(split([*range(len(kinds))]))]


@given(rows=coded_rows(at_least=4), guarantee=guarantees(), at_once=st.sampled_from([1, 1 << 22]))
def test_clusters_split_together_are_those_split_in_turn(rows, guarantee, at_once):
    if not is_possible(rows, guarantee):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "MAX_CELLS_AT_ONCE", at_once)
        centres = split_centres(rows, guarantee)
    assert centres == split_one_by_one(rows, guarantee)


def test_clusters_of_one_label_are_merged_for_diversity():
    rows = rows_of(*[(0, 0)] * 4, *[(1, 1)] * 4, *[(8, 0), (8, 1)] * 2, columns=(NUMBER,))
    assert clustered(rows, 2).columns[0].levels == ("0", "1", "8")
    assert clustered(rows, 2, 2).columns[0].levels == ("0 to 1", "8")


@given(rows=coded_rows(at_least=1), guarantee=guarantees())
def test_boxes_reach_no_farther_than_their_rows(rows, guarantee):
    recoding = attempt(ClusterKAnonymity(), rows, guarantee)
    if recoding is None:
        return
    numbers = recoding.rule.finder.box_numbers(rows.codes)
    assert set(numbers.tolist()) == set(range(len(recoding.rule.boxes)))
    for number, box in zip(numbers, boxes_of(recoding.rule, rows), strict=True):
        members = rows.codes[numbers == number]
        for i, (column, codes) in enumerate(zip(rows.columns, box, strict=True)):
            seen = set(members[:, i].tolist())
            ends = [code for code in seen if code != column.missing] if column.ordered else []
            between = set(range(min(ends), max(ends) + 1)) if ends else set()
            assert set(codes) == seen | between


def test_clusters_that_are_not_merged_are_caught(monkeypatch: pytest.MonkeyPatch):
    guarantee = KAnonymityGuarantee(3, diversity=2)
    # Each different row is a centre.
    monkeypatch.setattr(_Clustering, "split_centres", lambda self: self.codes)
    released = ClusterKAnonymity().recode(PATIENTS, guarantee, seed=0).release(PATIENTS)
    assert is_anonymous(released, guarantee)
    monkeypatch.setattr(_Clustering, "merge_centres", lambda _, centres: centres)
    released = ClusterKAnonymity().recode(PATIENTS, guarantee, seed=0).release(PATIENTS)
    assert not is_anonymous(released, guarantee)
