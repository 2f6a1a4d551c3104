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
from dp_pipeline.anonymity.method import Recoded, bit_matrix, cumulative_bits, kept_whole
from dp_pipeline.anonymity.partition import Column, KAnonymityGuarantee
from dp_pipeline.anonymity.telling_boxes import Telling, Worth
from dp_pipeline.spec.encoding import FloatArray, IntArray

_GRID = 1 << 10
"""Steps from the least score that a row could have to the largest. Cuts lie on them: a cut at the
score of a row would tell that score, and the score often the row.
"""

_MOST_LEVELS = 64
"""Of a line. More tell hardly more and take time in proportion."""


@dataclass(frozen=True, eq=False)
class ScoreLevels:
    """A rule from rows to an ordered column for each line. It holds no row.

    cuts   for each line ascending scores; a row's code is how many of them it reaches
    """

    lines: LabelScores
    cuts: tuple[FloatArray, ...]

    @classmethod
    def of(cls, lined: LinedRows) -> ScoreLevels:
        """Cuts on the grid that part the rows into about equally many."""
        return cls(lined.lines, tuple(map(_cuts, lined.scores.T, *_reach(lined.lines))))

    @property
    def columns(self) -> tuple[Column, ...]:
        """One a line."""
        levels = [tuple(map(str, range(len(cuts) + 1))) for cuts in self.cuts]
        return tuple(Column(f"line {at}", some, ordered=True) for at, some in enumerate(levels))

    def levels(self, codes: NDArray[np.integer]) -> IntArray:
        """Codes (n, lines) of codes of the rows' own columns (n, d)."""
        scores, found = self.lines.scores(codes), np.zeros((len(codes), len(self.cuts)), np.int64)
        for at, cuts in enumerate(self.cuts):
            found[:, at] = np.searchsorted(cuts, scores[:, at], side="right")
        return found


def _reach(lines: LabelScores) -> tuple[FloatArray, FloatArray]:
    """The least and the largest score that a row could have, along each line."""
    low, high = np.zeros((2, lines.weights.shape[1]))
    of_bits = np.array([bit.column for bit in lines.bits])
    for at, column in enumerate(lines.columns):
        codes = np.zeros((column.size, len(lines.columns)), dtype=np.int64)
        codes[:, at] = np.arange(column.size)
        own = np.flatnonzero(of_bits == at)
        answers = bit_matrix([lines.bits[bit] for bit in own], codes, lines.columns)
        of_levels = answers @ lines.weights[own]
        low, high = low + of_levels.min(axis=0), high + of_levels.max(axis=0)
    return low, high


def _cuts(scores: FloatArray, low: float, high: float) -> FloatArray:
    # Below a score or at it: rows of that score reach the cut, and those of the one below do not.
    step = max(1.0, np.ceil((high - low) / _GRID))
    ranks = np.arange(1, _MOST_LEVELS) * len(scores) // _MOST_LEVELS
    return np.unique(low + np.floor((np.sort(scores)[ranks] - low) / step) * step)


@dataclass(frozen=True, eq=False)
class _BandFinder:
    """Which band a row is in: the cuts are of its own columns and of its levels along lines."""

    levels: ScoreLevels
    tree: BoxTree

    def places(self, codes: NDArray[np.integer]) -> IntArray:
        """The number of the box of every row (n,), of codes (n, d)."""
        return self.tree.places(np.column_stack([codes, self.levels.levels(codes)]))


Stage = tuple[Literal["lines", "columns"], int]
"""Cuts along lines or along columns, and how many times K rows both sides have after them."""

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


def label_bands(
    lined: LinedRows, promise: KAnonymityGuarantee, stages: tuple[Stage, ...]
) -> Recoded:
    """Bands under which the rows keep the promise, cut until no stage allows a cut.

    Of the cuts of a stage, that is made which parts the scores of rows most. A row is released as
    the box around the rows of its band, as those of clusters are: an interval of an ordered column,
    a set of levels of others. Boxes overlap. The rule is made of the weights of the lines, of cuts
    along them and of cuts along columns.

    It depends on how many rows there are of each kind, not on their order. Nothing is left out.
    TooFewRows as ``Method.recode``.
    """
    rows = lined.rows
    if (kept := kept_whole(rows, promise)) is not None:
        return kept
    levels = ScoreLevels.of(lined)
    codes = np.column_stack([rows.codes, levels.levels(rows.codes)])
    placed = replace(rows, columns=(*rows.columns, *levels.columns), codes=codes)
    telling = Telling(lined, Worth(label=False, line=True))
    choose = _Staged(telling, len(cumulative_bits(rows.columns)), stages).chosen
    tree = grow(placed, promise, choose)
    bands = Groups.of(tree.places(codes), tree.nodes.count(None))
    boxes = boxes_around(rows.codes.astype(np.int64), rows.columns, bands)
    finder = _BandFinder(levels, tree)
    return Recoded(BoxRecoding(rows.columns, boxes, finder), np.zeros(len(rows), dtype=np.bool_))
