"""Scores along the lines of labels, and classes that are cut along them and along columns."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.anonymity import staged_cuts
from dp_pipeline.anonymity.boxes import BoxRule
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.growth import Cuts, LevelLine
from dp_pipeline.anonymity.label_scores import SCORE_UNIT, ScoredRows, ScoreRule
from dp_pipeline.anonymity.staged_cuts import (
    BANDS,
    BANDS_IN_BOXES,
    BOXES,
    BOXES_IN_BANDS,
    Stage,
    recode_in_stages,
    score_gains,
    score_thresholds,
)
from dp_pipeline.config.encoding import IntArray
from dp_pipeline_tests.anonymity.populations import coded_rows, flagged, flags, rows_of

each_staging = pytest.mark.parametrize("stages", [BOXES, BANDS, BANDS_IN_BOXES, BOXES_IN_BANDS])
NINE = tuple("abcdefghi")
NUMBERS = tuple(Column(f"number{i}", NINE, ordered=True) for i in range(8))


def scored(rows: CodedRows, k: int = 2, diversity: int = 1) -> ScoredRows:
    return ScoredRows(rows, KAnonymityGuarantee(k, diversity))


def scores_of(rows: CodedRows, k: int = 2) -> IntArray:
    return scored(rows, k).rule.scores(rows.codes)


def thresholds_of(scores: IntArray) -> tuple[IntArray, ...]:
    return score_thresholds(scores, np.ones(len(scores), dtype=np.int64))


def staged(rows: CodedRows, k: int, stages: tuple[Stage, ...]) -> BoxRule:
    return recode_in_stages(scored(rows, k), stages).rule


def adding_up(records: int, numbers: int = 3) -> CodedRows:
    """Numbers whose sum says how likely the label is."""
    rng = np.random.default_rng(8)
    codes = rng.integers(0, 9, (records, numbers))
    target = (codes.sum(axis=1) + rng.normal(0, 2, records) > 4 * numbers) * 1
    return CodedRows(NUMBERS[:numbers], codes, target, ("no", "yes"))


def of_labels(labels: int, records: int = 300, numbers: int = 3) -> CodedRows:
    """As many labels as the first numbers, of which the largest is the label."""
    codes = np.random.default_rng(1).integers(0, 9, (records, numbers))
    target = codes[:, :labels].argmax(axis=1)
    return CodedRows(NUMBERS[:numbers], codes, target, tuple("abcdef"[:labels]))


def test_scores_part_the_labels_of_what_they_go_with():
    codes = np.random.default_rng(2).integers(0, 2, (500, 2))
    rows = flagged(codes, codes[:, 0])
    scores = scores_of(rows, 1)
    assert scores.shape == (500, 1)
    high, low = scores[codes[:, 0] == 1, 0], scores[codes[:, 0] == 0, 0]
    assert abs(high.mean() - low.mean()) > 20 * max(high.std(), low.std())
    assert scores_of(replace(rows, target=np.zeros(500, dtype=np.int64)), 1).shape == (500, 0)


@pytest.mark.parametrize("column", [Column("step", NINE, ordered=True), Column("kind", NINE)])
def test_a_level_that_few_rows_have_weighs_as_others(column):
    # Twenty rows of each level, a few more of which are ill from one level to the next; but of the
    # fifth level one row.
    codes = np.delete(np.repeat(np.arange(9), 20), np.arange(81, 100))
    nth = np.concatenate([np.arange(1 if level == 4 else 20) for level in range(9)])
    rows = CodedRows((column,), codes[:, None], (nth < 2 * codes) * 1, ("well", "ill"))
    (alone,), (merged,) = (scored(rows, k).rule.level_scores for k in (1, 10))
    assert len(np.unique(alone)) > len(np.unique(merged)) > 2
    assert (np.delete(merged, 4, axis=0) == merged[4]).any()


def test_a_level_of_one_row_adds_nothing():
    # No other row has the third job: its weight would reveal that person's label.
    jobs = Column("job", ("baker", "cook", "smith"))
    records = [(i % 2, i % 2) for i in range(20)] + [(2, 1)]
    ill = scored(rows_of(*records, columns=(jobs,)), 5).rule.level_scores[0][:, 0]
    well = scored(rows_of(*records[:-1], (2, 0), columns=(jobs,)), 5).rule.level_scores[0][:, 0]
    assert ill[0] != ill[1]
    assert ill[2] == well[2] == 0
    # Two labels on both sides of a level are asked for like rows.
    assert not scored(rows_of(*records, columns=(jobs,)), 5, 2).scores.any()


@given(rows=coded_rows(at_least=8), k=st.integers(2, 4), diversity=st.integers(1, 2))
def test_levels_of_one_weight_are_as_many_as_a_class(rows, k, diversity):
    rule = ScoreRule.learn(rows, KAnonymityGuarantee(k, diversity))
    for i, weights in enumerate(rule.level_scores):
        if weights.any():
            groups = np.unique(weights, axis=0, return_inverse=True)[1][rows.codes[:, i]]
            assert np.bincount(groups).min() >= k
            assert all(len(set(rows.target[groups == group])) >= diversity for group in set(groups))


def test_merged_levels_leave_the_most_informative_step():
    # Ten rows of each level: with the step at the fourth there would be no room for the fifth's.
    codes = np.repeat(np.arange(9), 10)
    rows = CodedRows(NUMBERS[:1], codes[:, None], (codes >= 5) * 1, ("no", "yes"))
    (weights,) = scored(rows, 20).rule.level_scores
    assert weights[4, 0] != weights[5, 0]
    assert weights[3, 0] == weights[4, 0]


@pytest.mark.parametrize(("labels", "most"), [(2, 64), (3, 21), (6, 16)])
def test_lines_of_many_labels_share_their_levels(labels, most):
    thresholds = thresholds_of(scores_of(of_labels(labels, 600, 6)))
    assert len(thresholds) == (labels if labels > 2 else 1)
    assert max(map(len, thresholds)) == most - 1


def test_thresholds_are_the_roundest_that_part_scores(monkeypatch):
    rows = adding_up(500)
    scores = scores_of(rows)
    (thresholds,) = thresholds_of(scores)
    kinds = scored(rows)
    assert score_thresholds(kinds.scores, kinds.kinds[1])[0].tolist() == thresholds.tolist()
    assert 40 <= len(thresholds) <= 63
    for cut in thresholds.tolist():
        low, high = scores[scores < cut].max(), scores[scores >= cut].min()
        twos = cut & -cut
        assert low < cut <= high
        rounder = [near for near in (cut - twos, cut + twos) if near & -near > twos]
        assert not any(low < near <= high for near in rounder)
    # Scores lie far apart, so a threshold at one of them would be chance.
    assert np.isin(thresholds, scores).mean() < 0.1
    monkeypatch.setattr(staged_cuts, "_roundest", lambda _, high: high)
    assert np.isin(thresholds_of(scores)[0], scores).all()


def test_a_gain_is_the_fall_of_squares_of_scores():
    # The first flag says more of the label a row, in few rows; the second in half of them.
    records = [(1, 1, 1)] * 2 + [(0, 1, 1)] * 9 + [(0, 1, 0)] * 3 + [(0, 0, 1)] * 3
    rows = rows_of(*records, *[(0, 0, 0)] * 9, columns=flags(2))
    kinds, counts = rows.kinds()
    cuts = Cuts(LevelLine(kinds, counts), Groups.single(len(kinds)), KAnonymityGuarantee(2))
    line = scores_of(rows)[:, 0] / SCORE_UNIT
    for bit, gain in enumerate(score_gains(cuts, scored(rows).scores)[0]):
        sides = [line[rows.codes[:, bit] == side] for side in (0, 1)]
        within = sum(((side - side.mean()) ** 2).sum() for side in sides)
        assert gain == pytest.approx(((line - line.mean()) ** 2).sum() - within)


def test_bands_part_rows_by_their_score():
    rows = adding_up(300)
    numbers = staged(rows, 20, BANDS).finder.box_numbers(rows.codes)
    scores = scores_of(rows)[:, 0]
    ends = sorted((scores[numbers == i].min(), scores[numbers == i].max()) for i in set(numbers))
    assert 8 <= len(ends) <= 15
    assert all(before[1] < after[0] for before, after in pairwise(ends))


def sides_of(rule: BoxRule, rows: CodedRows) -> list[tuple[bool, list[int], list[bool]]]:
    """Of every fork whether it is along a line, the rows on its sides, and whether those that are
    cut again are cut along a line.
    """
    nodes, columns = rule.finder.tree.nodes, len(rows.columns)
    sizes = np.bincount(rule.finder.box_numbers(rows.codes), minlength=len(rule.boxes))
    box_of = np.cumsum([node is None for node in nodes]) - 1

    def size(node: int) -> int:
        fork = nodes[node]
        return int(sizes[box_of[node]]) if fork is None else size(fork.no) + size(fork.yes)

    forks = []
    for fork in filter(None, nodes):
        below = [nodes[i].column >= columns for i in (fork.no, fork.yes) if nodes[i]]
        forks.append((fork.column >= columns, [size(fork.no), size(fork.yes)], below))
    return forks


def test_boxes_come_first_while_sides_have_three_times_k():
    rows = adding_up(300)
    forks = sides_of(staged(rows, 20, BANDS_IN_BOXES), rows)
    assert {is_line for is_line, _, _ in forks} == {False, True}
    assert all(all(below) for is_line, _, below in forks if is_line)
    assert min(min(sizes) for is_line, sizes, _ in forks if not is_line) >= 60


def test_bands_come_first_while_sides_have_twice_k():
    rows = adding_up(300)
    for is_line, sizes, _ in sides_of(staged(rows, 20, BOXES_IN_BANDS), rows):
        is_last_resort = sum(sizes) < 2 * 40
        assert not is_line or min(sizes) >= (20 if is_last_resort else 40)


def test_the_last_cuts_make_boxes_differ():
    # Six flags add up: the boxes around a few bands are all flags, whatever the band.
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, (200, 6))
    rows = flagged(codes, codes.sum(axis=1) + rng.normal(0, 1, 200) > 3)
    assert len(set(staged(rows, 60, BANDS).boxes)) == 1
    assert len(set(staged(rows, 60, BOXES_IN_BANDS).boxes)) > 1
    # Where no column can be cut, a line is cut once more.
    codes = (np.random.default_rng(3).random((300, 10)) < 0.2).astype(np.int64)
    rows = flagged(codes, codes.sum(axis=1) > 1)
    without_last = staged(rows, 20, BOXES_IN_BANDS[:2])
    assert len(staged(rows, 20, BOXES_IN_BANDS).boxes) > len(without_last.boxes)


@each_staging
def test_without_scores_rows_are_cut_in_halves(stages):
    assert staged(rows_of(*[(0,)] * 3, (1,), columns=()), 2, stages).boxes == ((),)
    one_label = rows_of(*[(i % 2, 0) for i in range(8)], columns=flags(1))
    has_columns = stages in (BOXES, BOXES_IN_BANDS)
    assert len(staged(one_label, 2, stages).boxes) == (2 if has_columns else 1)


@each_staging
def test_the_rule_knows_no_threshold_that_no_fork_needs(stages):
    rows = of_labels(3)
    rule, thresholds = staged(rows, 60, stages).finder, thresholds_of(scores_of(rows, 60))
    lines = [fork for fork in rule.tree.nodes if fork and fork.column >= 3]
    weighs = [any(table[:, i].any() for table in rule.rule.level_scores) for i in range(3)]
    assert weighs == [i in {fork.column - 3 for fork in lines} for i in range(3)]
    assert all(fork.first in thresholds[fork.column - 3] for fork in lines)
    assert np.bincount(rule.box_numbers(rows.codes)).min() >= 60
