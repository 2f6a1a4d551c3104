"""Bands of rows of like score: where they are cut, and what their rule may tell."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.anonymity import label_bands
from dp_pipeline.anonymity.boxes import BoxRecoding
from dp_pipeline.anonymity.label_bands import (
    BANDS,
    BANDS_IN_BOXES,
    BOXES_IN_BANDS,
    ScoreLevels,
    Stage,
)
from dp_pipeline.anonymity.label_lines import LinedRows
from dp_pipeline.anonymity.method import Recoded
from dp_pipeline.anonymity.mondrian import Mondrian
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.protocols import evaluate
from dp_pipeline_tests.anonymity.boxes import boxes_of, every_row, is_in
from dp_pipeline_tests.anonymity.populations import coded_rows, flags, rows_of

STAGES = [BANDS, BANDS_IN_BOXES, BOXES_IN_BANDS]
NUMBERS = tuple(
    Column(f"number{at}", tuple(str(level) for level in range(9)), ordered=True) for at in range(8)
)


def lined(rows: CodedRows, k: int = 2) -> LinedRows:
    return LinedRows(rows, KAnonymityGuarantee(k))


def banded(rows: CodedRows, k: int, stages: tuple[Stage, ...]) -> BoxRecoding:
    found = label_bands.label_bands(LinedRows(rows, KAnonymityGuarantee(k)), stages)
    assert isinstance(found.recoding, BoxRecoding)
    return found.recoding


def adding_up(records: int, numbers: int = 3) -> CodedRows:
    """Numbers whose sum says how likely the label is."""
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 9, (records, numbers))
    return CodedRows(
        NUMBERS[:numbers],
        codes,
        (codes.sum(axis=1) + rng.normal(0, 2, records) > 4 * numbers) * 1,
        ("no", "yes"),
    )


def test_bands_along_the_line_part_rows_by_their_score():
    rows = adding_up(300)
    places = banded(rows, 20, BANDS).finder.places(rows.codes)
    scores = lined(rows).scores[:, 0]
    ends = sorted((scores[places == at].min(), scores[places == at].max()) for at in set(places))
    assert 8 <= len(ends) <= 15
    assert all(before[1] < after[0] for before, after in pairwise(ends))


class InBands:
    """A method that is nothing but bands."""

    summary = "bands"

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:  # noqa: ARG002
        return label_bands.label_bands(LinedRows(rows, promise), BANDS)


def test_where_columns_add_up_bands_tell_more_than_boxes():
    bands, boxes = (
        evaluate(adding_up(400, 8), method, KAnonymityGuarantee(20), folds=3).aucs["logistic"]
        for method in (InBands(), Mondrian())
    )
    assert bands > boxes + 0.15


@pytest.mark.parametrize("stages", STAGES)
@settings(max_examples=40, deadline=None)
@given(rows=coded_rows(at_least=4), k=st.integers(2, 4))
def test_a_row_lies_in_its_box_and_new_rows_have_one(stages, rows, k):
    recoding = banded(rows, k, stages)
    pairs = zip(rows.codes.tolist(), boxes_of(recoding, rows), strict=True)
    assert all(is_in(row, box) for row, box in pairs)
    others = every_row(rows.columns)
    assert len(recoding.features(others)) == len(recoding.released(others)) == len(others)


def test_boxes_come_first_while_both_sides_have_three_times_k():
    rows = adding_up(300)
    recoding = banded(rows, 20, BANDS_IN_BOXES)
    tree, places = recoding.finder.tree, recoding.finder.places(rows.codes)
    assert {fork.bit.column >= 3 for fork in tree.nodes if fork is not None} == {False, True}
    for fork in tree.nodes:
        if fork is not None and fork.bit.column >= 3:
            below = [tree.nodes[side] for side in (fork.no, fork.yes)]
            assert all(node is None or node.bit.column >= 3 for node in below)
    sides_of_columns = [
        np.count_nonzero(under(tree, side)[places])
        for fork in tree.nodes
        if fork is not None and fork.bit.column < 3
        for side in (fork.no, fork.yes)
    ]
    assert min(sides_of_columns) >= 60


def under(tree, place: int) -> np.ndarray:
    """Which boxes lie under a node."""
    boxes = np.cumsum([node is None for node in tree.nodes]) - 1
    found, waiting = np.zeros(boxes[-1] + 1, dtype=bool), [place]
    while waiting:
        node = waiting.pop()
        fork = tree.nodes[node]
        if fork is None:
            found[boxes[node]] = True
        else:
            waiting += [fork.no, fork.yes]
    return found


def test_bands_come_first_and_are_cut_along_columns_last():
    rows = adding_up(300)
    recoding = banded(rows, 20, BOXES_IN_BANDS)
    tree, places = recoding.finder.tree, recoding.finder.places(rows.codes)
    for fork in tree.nodes:
        if fork is not None and fork.bit.column >= 3:
            sides = [np.count_nonzero(under(tree, side)[places]) for side in (fork.no, fork.yes)]
            is_last_resort = sum(sides) < 2 * 40
            assert min(sides) >= (20 if is_last_resort else 40)


def test_the_last_cuts_make_boxes_differ():
    # Six flags add up: the boxes around a few bands are all flags, whatever the band.
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (200, 6))
    rows = CodedRows(
        flags(6), codes, (codes.sum(axis=1) + rng.normal(0, 1, 200) > 3) * 1, ("no", "yes")
    )
    assert len(set(banded(rows, 60, BANDS).boxes)) == 1
    assert len(set(banded(rows, 60, BOXES_IN_BANDS).boxes)) > 1


def test_where_no_column_can_be_cut_a_line_is_cut_once_more():
    rng = np.random.default_rng(3)
    codes = (rng.random((300, 10)) < 0.2).astype(np.int64)
    rows = CodedRows(flags(10), codes, (codes.sum(axis=1) > 1) * 1, ("no", "yes"))
    bands = [len(banded(rows, 20, stages).boxes) for stages in (BOXES_IN_BANDS, BOXES_IN_BANDS[:2])]
    assert bands[0] > bands[1]


def test_cuts_part_scores_and_are_the_roundest_that_do():
    scores = lined(adding_up(500)).scores[:, 0]
    cuts = ScoreLevels.of(lined(adding_up(500))).cuts[0]
    assert 40 <= len(cuts) <= 63
    for cut in cuts.tolist():
        low, high = scores[scores < cut].max(), scores[scores >= cut].min()
        twos = cut & -cut
        assert low < cut <= high
        assert not any(low < one <= high for one in (cut - twos, cut + twos) if one & -one > twos)
    # Scores lie far apart, so a cut at one of them would be chance.
    assert np.isin(cuts, scores).mean() < 0.1


def test_cuts_at_the_scores_of_rows_would_be_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(label_bands, "_roundest", lambda _, high: high)
    scores = lined(adding_up(500)).scores[:, 0]
    assert np.isin(ScoreLevels.of(lined(adding_up(500))).cuts[0], scores).all()


@pytest.mark.parametrize("stages", STAGES)
def test_the_rule_has_the_cuts_that_a_fork_asks_for_and_no_other(stages):
    rows = adding_up(300)
    finder = banded(rows, 40, stages).finder
    asked = {fork.bit.code for fork in finder.tree.nodes if fork and fork.bit.column == 3}
    assert set(finder.levels.codes[0].tolist()) == {0, *asked}
    assert len(finder.levels.cuts[0]) == len(asked) < 8
    whole = ScoreLevels.of(lined(rows, 40))
    codes = np.column_stack([rows.codes, whole.levels(lined(rows, 40).scores)])
    assert finder.tree.places(codes).tolist() == finder.places(rows.codes).tolist()


def test_a_level_that_few_rows_have_adds_nothing():
    # Nobody else has the third job: its weight would tell that person's label.
    jobs = Column("job", ("baker", "cook", "smith"))
    records = [(at % 2, at % 2) for at in range(20)] + [(2, 1)]
    one = lined(rows_of(*records, columns=(jobs,)), 5).lines.of_levels[0][:, 0]
    well = lined(rows_of(*records[:-1], (2, 0), columns=(jobs,)), 5).lines.of_levels[0][:, 0]
    assert one[0] != one[1]
    assert one[2] == well[2] == 0
    # Two labels on both sides of a level are asked for like rows.
    diverse = LinedRows(rows_of(*records, columns=(jobs,)), KAnonymityGuarantee(5, 2))
    assert not diverse.scores.any()


def test_levels_are_the_cuts_that_a_score_reaches():
    rows = adding_up(100)
    levels, scores = ScoreLevels.of(lined(rows)), lined(rows).scores
    reached = [int((levels.cuts[0] <= score).sum()) for score in scores[:, 0]]
    assert levels.levels(scores)[:, 0].tolist() == reached
    assert levels.columns[0].size == len(levels.cuts[0]) + 1


@pytest.mark.parametrize("stages", STAGES)
def test_bands_without_columns_still_keep_the_promise(stages):
    nobody_differs = rows_of(*[(0,)] * 3, (1,), columns=())
    assert banded(nobody_differs, 2, stages).boxes == ((),)
    one_label = rows_of(*[(at % 2, 0) for at in range(8)], columns=flags(1))
    assert len(banded(one_label, 2, stages).boxes) == (2 if stages == BOXES_IN_BANDS else 1)


def test_three_labels_have_three_lines():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 9, (300, 3))
    rows = CodedRows(NUMBERS[:3], codes, codes.argmax(axis=1), ("a", "b", "c"))
    assert len(ScoreLevels.of(lined(rows)).cuts) == 3
    places = banded(rows, 10, BANDS).finder.places(rows.codes)
    assert np.bincount(places).min() >= 10


def test_lines_of_many_labels_share_their_levels():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 9, (600, 6))
    for labels, most in ((2, 64), (3, 21), (6, 16)):
        rows = CodedRows(
            NUMBERS[:6], codes, codes[:, :labels].argmax(axis=1), tuple("abcdef"[:labels])
        )
        assert max(map(len, ScoreLevels.of(lined(rows)).cuts)) == most - 1


def test_two_scores_are_parted_by_one_cut():
    rows = rows_of(*[(at % 2, at % 2) for at in range(20)], columns=flags(1))
    assert len(ScoreLevels.of(lined(rows)).cuts[0]) == 1
    assert len(banded(rows, 5, BANDS).boxes) == 2


def test_a_line_that_no_fork_asks_for_has_no_weights_in_the_rule():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 9, (300, 3))
    rows = CodedRows(NUMBERS[:3], codes, codes.argmax(axis=1), ("a", "b", "c"))
    finder = banded(rows, 100, BANDS).finder
    asked = [len(cuts) > 0 for cuts in finder.levels.cuts]
    weighs = [
        any(table[:, line].any() for table in finder.levels.lines.of_levels) for line in range(3)
    ]
    assert any(asked)
    assert not all(asked)
    assert weighs == asked
