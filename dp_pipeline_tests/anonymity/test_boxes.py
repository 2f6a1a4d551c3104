"""Rules that release boxes: their texts, levels and features."""

import numpy as np

from dp_pipeline.anonymity.boxes import BoxRule, BoxTree, Fork, text_of
from dp_pipeline.anonymity.clustering import CentreRule
from dp_pipeline.anonymity.coded_rows import Column, KAnonymityGuarantee
from dp_pipeline.anonymity.method import Recoding
from dp_pipeline_tests.anonymity.populations import (
    PATIENTS,
    SEX_AND_AGE,
    boxes_of,
    every_row,
    is_anonymous,
    is_in,
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


def test_a_box_of_too_few_rows_or_labels_is_caught():
    recoding = Recoding(THREE_BOXES, np.zeros(10, dtype=np.bool_))
    assert is_anonymous(recoding.release(PATIENTS), KAnonymityGuarantee(2))
    assert not is_anonymous(recoding.release(PATIENTS), KAnonymityGuarantee(3))
    assert not is_anonymous(recoding.release(PATIENTS), KAnonymityGuarantee(2, diversity=2))
