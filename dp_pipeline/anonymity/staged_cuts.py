"""Classes that are cut in stages: along columns, and along lines, which are the scores of labels.

A box is a class cut along columns. A band is a class cut along a line: its rows have like scores,
to which all columns add.
"""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import BoxRule, BoxTree, Fork, boxes_around
from dp_pipeline.anonymity.coded_rows import Column
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.growth import Cuts, grow
from dp_pipeline.anonymity.label_scores import SCORE_UNIT, ScoredRows, ScoreRule
from dp_pipeline.anonymity.method import Recoding, unchanged_if_possible
from dp_pipeline.config.encoding import FloatArray, IntArray

MAX_LEVELS = 64  # of all lines together, but 16 for each: more hardly help, and take time
LEAST_GAIN = 1e-9  # of a cut in nats: smaller ones are within rounding
NO_END = 1 << 62  # above every score

Stage = tuple[Literal["lines", "columns"], int]
"""The kind of the cuts, and the least rows of both sides in multiples of K, or of the guaranteed
labels if these are more.
"""

# Boxes are for labels that some columns decide in some rows and others in others, bands for columns
# that add up. A last cut along columns makes boxes differ where those around bands would be alike.
BOXES: tuple[Stage, ...] = (("columns", 1),)
BANDS: tuple[Stage, ...] = (("lines", 1),)
BANDS_IN_BOXES: tuple[Stage, ...] = (("columns", 3), ("lines", 1))
BOXES_IN_BANDS: tuple[Stage, ...] = (("lines", 2), ("columns", 1), ("lines", 1))


def recode_in_stages(scored_rows: ScoredRows, stages: tuple[Stage, ...]) -> Recoding:
    """Return the recoding by classes that are cut until no stage allows a cut; no row is left out.

    stages   pairs of the kind of cut, along ``columns`` or along ``lines``, which are scores, and
             the fewest rows of both sides in multiples of K, or of the diversity if it is more

    It changes no row if the guarantee is empty. Of the cuts of the first stage that allows any, the
    one is made that most separates the scores of rows; where none does, the one nearest to halves.
    A row is released as the box around the
    rows of its class. Boxes overlap. The rule was learned from the rows, and its weights reveal
    something of them, so only the boxes are published.

    It does not depend on the order of the rows. TooFewRows as ``Method.recode``.
    """
    rows, guarantee = scored_rows.rows, scored_rows.guarantee
    if (unchanged := unchanged_if_possible(rows, guarantee)) is not None:
        return unchanged
    kinds, counts = scored_rows.kinds
    thresholds = score_thresholds(scored_rows.scores, counts)
    lines = tuple(
        Column(f"line {i}", tuple(map(str, range(len(cuts) + 1))), ordered=True)
        for i, cuts in enumerate(thresholds)
    )
    by_line = zip(thresholds, scored_rows.scores.T, strict=True)
    levels = [np.searchsorted(cuts, scores, side="right") for cuts, scores in by_line]
    codes = np.column_stack([kinds.codes, *levels])
    with_lines = replace(kinds, columns=(*rows.columns, *lines), codes=codes)
    tree = grow(with_lines, counts, guarantee, lambda cuts: _choose(cuts, stages, scored_rows))
    classes = Groups.of(tree.box_numbers(codes), tree.nodes.count(None))
    boxes = boxes_around(kinds.codes, rows.columns, classes)
    rule = BandRule.of(tree, thresholds, scored_rows.rule)
    return Recoding.of_all(BoxRule(rows.columns, boxes, rule), rows)


def score_thresholds(scores: IntArray, counts: IntArray) -> tuple[IntArray, ...]:
    """Return for each score ascending thresholds that divide the rows into about equal parts.

    scores   (kinds, scores) of distinct rows
    counts   (kinds,) number of rows equal to each

    A threshold is the roundest integer above one score and up to the next. There are fewer than 64,
    or than 16 to 64 for several scores: see ``MAX_LEVELS``.
    """
    most = max(MAX_LEVELS // 4, MAX_LEVELS // max(1, scores.shape[1]))
    thresholds = []
    for line in scores.T:
        distinct, positions = np.unique(line, return_inverse=True)
        passed = np.cumsum(np.bincount(positions, counts, minlength=len(distinct)))
        ranks = np.arange(1, most) * int(counts.sum()) // most
        above = np.unique(np.searchsorted(passed, ranks, side="right"))
        above = above[above > 0]
        thresholds.append(_roundest(distinct[above - 1], distinct[above]))
    return tuple(thresholds)


def _roundest(low: IntArray, high: IntArray) -> IntArray:
    """Return, place by place, the integer above ``low`` and up to ``high`` that is divisible by the
    highest power of two.

    >>> _roundest(np.array([5, 16, -3]), np.array([9, 23, 1])).tolist()
    [8, 20, 0]
    """
    roundest = high.copy()
    for bit in range(1, 63):
        rounder = (high >> bit) << bit
        roundest = np.where(rounder > low, rounder, roundest)
    return roundest


@dataclass(frozen=True, eq=False)
class BandRule:
    """A rule that assigns rows to numbered classes by their columns and by scores of labels.

    It has only the thresholds and lines that some fork uses: others would reveal something of the
    rows for nothing.
    """

    rule: ScoreRule
    tree: BoxTree

    @classmethod
    def of(cls, tree: BoxTree, thresholds: tuple[IntArray, ...], rule: ScoreRule) -> Self:
        """Return the rule of a tree whose last columns are scores, coded by the thresholds between
        which they lie.

        The rule compares the scores themselves with thresholds; scores that no fork reads are 0.
        """
        column_count, is_used = len(rule.level_scores), np.zeros(len(thresholds), dtype=np.bool_)
        nodes = list(tree.nodes)
        for i, fork in enumerate(nodes):
            if fork is not None and fork.column >= column_count:
                line = fork.column - column_count
                is_used[line] = True
                first = int(thresholds[line][fork.first - 1])
                nodes[i] = Fork(fork.column, first, NO_END, fork.no, fork.yes)
        return cls(rule.keep_scores(is_used), BoxTree(tuple(nodes)))

    def box_numbers(self, codes: NDArray[np.integer]) -> IntArray:
        return self.tree.box_numbers(np.column_stack([codes, self.rule.scores(codes)]))


def _choose(cuts: Cuts, stages: tuple[Stage, ...], scored_rows: ScoredRows) -> IntArray:
    """Return the bit that cuts each box so that scores are separated most, or most evenly if none
    separates them, among the cuts of the first stage that allows one; else NO_CUT (boxes,)."""
    is_along_column = cuts.line.columns < len(scored_rows.rows.columns)
    offered = np.zeros(cuts.is_allowed.shape, dtype=np.bool_)
    for kind, times in reversed(stages):
        is_large = cuts.evenness >= times * max(cuts.guarantee.k, cuts.guarantee.diversity)
        is_kind = is_along_column if kind == "columns" else ~is_along_column
        is_allowed = cuts.is_allowed & is_large & is_kind
        offered = np.where(is_allowed.any(axis=1, keepdims=True), is_allowed, offered)
    gains = score_gains(cuts, scored_rows.scores)
    best = cuts.best(gains, offered)
    is_gain = gains[np.arange(len(best)), best] >= LEAST_GAIN
    return np.where(is_gain, best, cuts.best(cuts.evenness, offered))


def score_gains(cuts: Cuts, scores: IntArray) -> FloatArray:
    """Return the gain in nats of every cut (boxes, bits): the decrease of the summed squared
    differences of scores from the mean of their box.

    scores   (kinds, scores) of distinct rows
    """
    # Floats: a product of three numbers of rows is beyond 2^63 from some million rows on.
    gains, yes = np.zeros(cuts.is_allowed.shape), cuts.yes_counts.sum(axis=0).astype(np.float64)
    rows = np.maximum(1, cuts.box_counts.sum(axis=0))
    for line in (scores * cuts.line.counts[:, None]).T.astype(np.float64):
        total = cuts.boxes.sum_by_group(line[cuts.boxes.members])[:, None]
        # n₁·n₂/n times the squared difference of the two means.
        difference = cuts.sum_by_bit(line) * rows - total * yes
        gains += difference**2 / (np.maximum(1.0, yes * (rows - yes)) * rows)
    return gains / SCORE_UNIT**2
