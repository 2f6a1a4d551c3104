"""Boxes and bands: classes that are cut along columns and along the lines of labels, in stages.

A box that is cut along columns says of a row what those few columns say. A band holds rows of like
score along a line, which says what all columns do together: so a few classes say much where columns
add up, the more so the larger K is. Bands are released as the boxes around their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import BoxRule, BoxTree, Fork, boxes_around
from dp_pipeline.anonymity.coded_rows import Column
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.growth import Cuts, grow
from dp_pipeline.anonymity.label_scores import SCORE_UNIT, ScoredRows, ScoreRule
from dp_pipeline.anonymity.method import Recoding, unchanged_if_possible
from dp_pipeline.config.encoding import FloatArray, IntArray

MAX_LEVELS = 64
"""Most levels of all lines together, but at least sixteen of each: more hardly help, and take time
in proportion.
"""

LEAST_GAIN = 1e-9
"""Least gain of a cut, in nats: smaller ones are within rounding."""

NO_END = 1 << 62
"""Number above every score."""

Stage = tuple[Literal["lines", "columns"], int]
"""Cuts along lines or along columns, and the least rows of both sides, in multiples of K; of the
labels that each class must have, where those are more.
"""

BOXES: tuple[Stage, ...] = (("columns", 1),)
"""Boxes alone: where a label is decided by some columns in some rows and by others in others."""

BANDS: tuple[Stage, ...] = (("lines", 1),)
"""Bands alone: where columns add up."""

BANDS_IN_BOXES: tuple[Stage, ...] = (("columns", 3), ("lines", 1))
"""Boxes first: where one column decides what another says, they have bands of their own."""

BOXES_IN_BANDS: tuple[Stage, ...] = (("lines", 2), ("columns", 1), ("lines", 1))
"""Bands first: the last cuts are along columns, which makes boxes that differ where few levels
would make the boxes around bands alike.
"""


def recode_in_stages(scored_rows: ScoredRows, stages: tuple[Stage, ...]) -> Recoding:
    """Return the recoding by classes that are cut, stage by stage, until no stage allows a cut.

    Of the cuts of the first stage that allows any, the one is made that most separates the scores
    of rows; where none does, the one nearest to halves. A row is released as the box around the
    rows of its class: an interval of an ordered column, a set of levels of others. Boxes overlap.
    The rule consists of the scores of levels, of cuts along lines, each at the roundest number
    between two neighbouring scores, and of cuts along columns. It was learned from the rows, and
    its weights reveal something of them, so only the boxes are published.

    It depends on how many rows there are of each kind, not on their order. Nothing is left out.
    TooFewRows as ``Method.recode``.
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
    """Return the ascending thresholds on each score line that divide rows into about equal parts.

    scores   (kinds, scores) of different rows
    counts   (kinds,) rows of each
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
    """Return the integers above ``low`` and up to ``high`` that are divisible by the highest power
    of two.

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
    """A rule that assigns rows to classes by their columns and label scores.

    It has only the thresholds and lines that some fork uses: others would reveal something of the
    rows for nothing.
    """

    rule: ScoreRule
    tree: BoxTree

    @classmethod
    def of(cls, tree: BoxTree, thresholds: tuple[IntArray, ...], rule: ScoreRule) -> BandRule:
        """Return the rule of a tree whose forks refer to score thresholds or columns."""
        column_count, is_used = len(rule.level_scores), np.zeros(len(thresholds), dtype=np.bool_)
        nodes = list(tree.nodes)
        for i, fork in enumerate(nodes):
            if fork is not None and fork.column >= column_count:
                line = fork.column - column_count
                is_used[line] = True
                first = int(thresholds[line][fork.first - 1])
                nodes[i] = Fork(fork.column, first, NO_END, fork.no, fork.yes)
        return cls(rule.keep_lines(is_used), BoxTree(tuple(nodes)))

    def box_numbers(self, codes: NDArray[np.integer]) -> IntArray:
        return self.tree.box_numbers(np.column_stack([codes, self.rule.scores(codes)]))


def _choose(cuts: Cuts, stages: tuple[Stage, ...], scored_rows: ScoredRows) -> IntArray:
    """Return the cut of each box that separates scores most, from the first stage that allows
    one."""
    is_along_column = cuts.line.columns < len(scored_rows.rows.columns)
    offered = np.zeros(cuts.allowed.shape, dtype=np.bool_)
    for kind, times in reversed(stages):
        is_large = cuts.evenness >= times * max(cuts.guarantee.k, cuts.guarantee.diversity)
        is_kind = is_along_column if kind == "columns" else ~is_along_column
        is_allowed = cuts.allowed & is_large & is_kind
        offered = np.where(is_allowed.any(axis=1, keepdims=True), is_allowed, offered)
    gains = score_gains(cuts, scored_rows.scores)
    best = cuts.best(gains, offered)
    is_gain = gains[np.arange(len(best)), best] >= LEAST_GAIN
    return np.where(is_gain, best, cuts.best(cuts.evenness, offered))


def score_gains(cuts: Cuts, scores: IntArray) -> FloatArray:
    """Return the gain in nats of every cut (boxes, bits): the decrease of the summed squared
    differences of scores from their mean."""
    # Floats: a product of three numbers of rows is beyond 2^63 from some million rows on.
    gains, yes = np.zeros(cuts.allowed.shape), cuts.yes.sum(axis=0).astype(np.float64)
    rows = np.maximum(1, cuts.box_counts.sum(axis=0))
    for line in (scores * cuts.line.counts[:, None]).T.astype(np.float64):
        total = cuts.boxes.total(line[cuts.boxes.members])[:, None]
        # n₁·n₂/n times the squared difference of the two means.
        difference = cuts.totals(line) * rows - total * yes
        gains += difference**2 / (np.maximum(1.0, yes * (rows - yes)) * rows)
    return gains / SCORE_UNIT**2
