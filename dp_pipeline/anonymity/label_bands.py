"""Bands: rows of like score along the lines of labels, released as the boxes around them.

ScoreLevels: where a row lies along each line, as a code of an ordered column.

A box that is cut along columns tells of a row what those few columns tell. A band tells what all of
them do together, so a few classes tell much where columns add up, the more so the larger K is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.boxes import BoxRecoding, BoxTree, boxes_around
from dp_pipeline.anonymity.groups import Groups
from dp_pipeline.anonymity.growth import Cuts, grow
from dp_pipeline.anonymity.label_lines import LabelScores, LinedRows
from dp_pipeline.anonymity.method import Recoded, cumulative_bits, kept_whole
from dp_pipeline.anonymity.partition import Column
from dp_pipeline.anonymity.telling_boxes import Telling, Worth
from dp_pipeline.config.encoding import FloatArray, IntArray

_MOST_LEVELS = 64
"""Of all lines together, and at least sixteen of each. More tell hardly more and take time in
proportion.
"""


@dataclass(frozen=True, eq=False)
class ScoreLevels:
    """A rule from rows to an ordered column for each line.

    cuts    for each line ascending whole numbers
    codes   for each line the code of a score that reaches no cut, the first, the second, … (cuts
            + 1,)
    """

    lines: LabelScores
    cuts: tuple[IntArray, ...]
    codes: tuple[IntArray, ...]

    @classmethod
    def of(cls, lined: LinedRows) -> ScoreLevels:
        """Cuts that part the rows into about equally many."""
        most = max(16, _MOST_LEVELS // max(1, lined.scores.shape[1]))
        cuts = tuple(_cuts(scores.astype(np.int64), most) for scores in lined.scores.T)
        return cls(lined.lines, cuts, tuple(np.arange(len(one) + 1) for one in cuts))

    @property
    def columns(self) -> tuple[Column, ...]:
        """One a line."""
        levels = [tuple(map(str, codes.tolist())) for codes in self.codes]
        return tuple(Column(f"line {at}", some, ordered=True) for at, some in enumerate(levels))

    def levels(self, scores: FloatArray) -> IntArray:
        """Codes (n, lines) of scores (n, lines)."""
        found = np.zeros(scores.shape, dtype=np.int64)
        for at, (cuts, codes) in enumerate(zip(self.cuts, self.codes, strict=True)):
            found[:, at] = codes[np.searchsorted(cuts, scores[:, at], side="right")]
        return found

    def asked_by(self, tree: BoxTree, columns: int) -> ScoreLevels:
        """The same to a tree over so many columns and these, without cuts that no fork asks for and
        without lines that have none left: they would tell of rows for nothing.
        """
        cuts, codes = [], []
        for at, before in enumerate(self.cuts):
            forks = [fork for fork in tree.nodes if fork and fork.bit.column == columns + at]
            asked = np.array(sorted({fork.bit.code for fork in forks}), dtype=np.int64)
            cuts.append(before[asked - 1])
            codes.append(np.append(0, asked))
        lines = self.lines.only(np.array([len(one) > 0 for one in cuts], dtype=np.bool_))
        return replace(self, lines=lines, cuts=tuple(cuts), codes=tuple(codes))


def _cuts(scores: IntArray, most: int) -> IntArray:
    different, many = np.unique(scores, return_counts=True)
    ranks = np.arange(1, most) * len(scores) // most
    above = np.unique(np.searchsorted(np.cumsum(many), ranks, side="right"))
    above = above[above > 0]
    return _roundest(different[above - 1], different[above])


def _roundest(low: IntArray, high: IntArray) -> IntArray:
    """Of the whole numbers above ``low`` and up to ``high`` those that most twos divide.

    It parts the rows of the one score from those of the other, and is seldom one of them.

    >>> _roundest(np.array([5, 16, -3]), np.array([9, 23, 1])).tolist()
    [8, 20, 0]
    """
    found = high.copy()
    for bit in range(1, 63):
        rounder = (high >> bit) << bit
        found = np.where(rounder > low, rounder, found)
    return found


@dataclass(frozen=True, eq=False)
class _BandFinder:
    """Which band a row is in: the cuts are of its own columns and of its levels along lines."""

    levels: ScoreLevels
    tree: BoxTree

    def places(self, codes: NDArray[np.integer]) -> IntArray:
        """The number of the box of every row (n,), of codes (n, d)."""
        levels = self.levels.levels(self.levels.lines.scores(codes))
        return self.tree.places(np.column_stack([codes, levels]))


Stage = tuple[Literal["lines", "columns"], int]
"""Cuts along lines or along columns, and how many times K rows both sides have after them; or as
many times the labels that each class is to have, where those are more.
"""

BANDS: tuple[Stage, ...] = (("lines", 1),)
"""Along lines alone."""

BANDS_IN_BOXES: tuple[Stage, ...] = (("columns", 3), ("lines", 1))
"""Boxes first: where one column decides what another tells, they have bands of their own."""

BOXES_IN_BANDS: tuple[Stage, ...] = (("lines", 2), ("columns", 1), ("lines", 1))
"""Bands first: the last cuts are along columns, which makes boxes that differ where few levels
would make the boxes around bands alike.
"""


@dataclass(frozen=True, eq=False)
class _Staged:
    """In the first stage that has an allowed cut, the one that parts the scores of rows most.

    columns   how many of the bits, which come first, ask about columns
    """

    telling: Telling
    columns: int
    stages: tuple[Stage, ...]

    def chosen(self, cuts: Cuts) -> IntArray:
        of_columns = np.arange(cuts.allowed.shape[1]) < self.columns
        asked = np.zeros(cuts.allowed.shape, dtype=np.bool_)
        for kind, times in reversed(self.stages):
            enough = cuts.evenness >= times * max(cuts.promise.k, cuts.promise.diversity)
            some = cuts.allowed & enough & (of_columns if kind == "columns" else ~of_columns)
            asked = np.where(some.any(axis=1, keepdims=True), some, asked)
        return self.telling.chosen(cuts, asked)


def label_bands(lined: LinedRows, stages: tuple[Stage, ...]) -> Recoded:
    """Bands under which the rows keep their promise, cut until no stage allows a cut.

    Of the cuts of a stage, that is made which parts the scores of rows most. A row is released as
    the box around the rows of its band, as those of clusters are: an interval of an ordered column,
    a set of levels of others. Boxes overlap. The rule is made of what levels add to scores, of
    cuts along lines, each the roundest number that parts two neighbouring scores, and of cuts
    along columns. It was learned from the rows, and its weights tell of them: what is published
    is the boxes.

    It depends on how many rows there are of each kind, not on their order. Nothing is left out.
    TooFewRows as ``Method.recode``.
    """
    rows = lined.rows
    if (kept := kept_whole(rows, lined.promise)) is not None:
        return kept
    levels = ScoreLevels.of(lined)
    codes = np.column_stack([rows.codes, levels.levels(lined.scores)])
    placed = replace(rows, columns=(*rows.columns, *levels.columns), codes=codes)
    telling = Telling(lined, Worth(label=False, line=True))
    choose = _Staged(telling, len(cumulative_bits(rows.columns)), stages).chosen
    tree = grow(placed, lined.promise, choose)
    bands = Groups.of(tree.places(codes), tree.nodes.count(None))
    boxes = boxes_around(rows.codes.astype(np.int64), rows.columns, bands)
    finder = _BandFinder(levels.asked_by(tree, len(rows.columns)), tree)
    return Recoded(BoxRecoding(rows.columns, boxes, finder), np.zeros(len(rows), dtype=np.bool_))
