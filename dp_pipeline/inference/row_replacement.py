"""Rows replaced by copies of other rows, so that pairs of attributes have the counts of a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names

MOST_ROW_LEVELS = 1 << 25
"""Most rows, times all levels, that are drawn attribute by attribute or replaced: a limit of time.
300,000 rows of Adult, just above it, would take 12 s at ε = 3 if drawn attribute by attribute."""

MOST_LEVELS = 1 << 9
"""Most levels of all attributes together with which rows are replaced: a limit of time."""

ROWS_A_ROUND = 1 << 12
ROUND_PRODUCTS = 1 << 28
"""Most rows of which a round replaces some by others, and most of them times squared levels: limits
of time."""

ROUNDS = 200
"""Most rounds: a limit of time."""

PART_OF_NOISE = 1 / 4
"""Part of the noise's sum of squares to which that of rounding falls, so that it adds an eighth to
the error at most: a limit of time."""

PARTS_OF_A_ROW = 8
"""Numerical: goals are rounded to eighths of a row, so that sums of them are exact and every
computer that replays a release replaces the same rows."""


def replace_rows(
    codes: IntArray,
    sizes: Mapping[str, int],
    goals: Callable[[], Mapping[Names, FloatArray]],
    variance: float,
    rng: np.random.Generator,
) -> IntArray:
    """Return the rows (rows, attributes) with some replaced by copies of others, so that counts of
    pairs are nearer to their goals, until noise outweighs what is left.

    sizes      levels of every attribute, in the order of the columns
    goals      return two attributes → their expected counts, of any total; called once, if ever
    variance   of the noise in a cell of the goals, in squared rows of ``codes``

    Rows that are drawn from a distribution have its counts but for rounding, which outweighs noise
    where there are few rows or ε is large. Each round replaces rows whose pairs are too many by
    rows whose pairs are too few, if that lowers the sum of squared differences. Rows are returned
    as they are if rows or levels are too many (``MOST_ROW_LEVELS``, ``MOST_LEVELS``).

    >>> goals = {("a", "b"): np.array([[2.0, 0.0], [0.0, 2.0]])}
    >>> codes, rng = np.array([[0, 0], [0, 0], [0, 0], [1, 1]]), np.random.default_rng(0)
    >>> sorted(replace_rows(codes, {"a": 2, "b": 2}, lambda: goals, 0.0, rng).tolist())
    [[0, 0], [0, 0], [1, 1], [1, 1]]
    """
    rows, levels = len(codes), sum(sizes.values())
    if rows < 2 or levels > MOST_LEVELS or rows * levels > MOST_ROW_LEVELS:
        return codes
    search = _RowSearch.of(codes, sizes, goals())
    most_squares = PART_OF_NOISE * variance * search.has_goal.sum() / 2
    count = min(rows, ROWS_A_ROUND, ROUND_PRODUCTS // levels**2)
    most = 1 + count // 16
    for _ in range(ROUNDS):
        if search.squares <= most_squares:
            break
        # Replacements of a round are judged each by itself, so too many may undo each other.
        is_better = search.replace(count, most, rng)
        most = min(2 * most, count) if is_better else 1 + most // 4
    return search.codes


@dataclass
class _RowSearch:
    """A local search for rows to replace.

    codes         (rows, attributes)
    starts        (attributes,) position of each attribute's first level among all levels
    has_goal      (levels, levels) 1 for levels of two attributes with a goal, else 0
    differences   (levels, levels) of counts from goals, in both orders; 0 where there is no goal
    """

    codes: IntArray
    starts: IntArray
    has_goal: FloatArray
    differences: FloatArray

    @classmethod
    def of(
        cls, codes: IntArray, sizes: Mapping[str, int], goals: Mapping[Names, FloatArray]
    ) -> _RowSearch:
        ends = np.cumsum([*sizes.values()])
        places = {
            name: range(end - sizes[name], end) for name, end in zip(sizes, ends, strict=True)
        }
        starts = np.array([levels.start for levels in places.values()])
        has_goal, counts = np.zeros((ends[-1], ends[-1])), np.zeros((ends[-1], ends[-1]))
        for (first, second), table in goals.items():
            # Up from .618: equal levels hit halves, where the last bit of a float would decide.
            parts = table * (len(codes) * PARTS_OF_A_ROW / table.sum())
            goal = np.floor(parts + 0.382) / PARTS_OF_A_ROW
            block = np.ix_(places[first], places[second])
            counts[block], has_goal[block] = goal, 1
        has_goal, counts = has_goal + has_goal.T, counts + counts.T
        search = cls(codes.copy(), starts, has_goal, -counts)
        for start in range(0, len(codes), ROWS_A_ROUND):
            cells = search._indicators(codes[start : start + ROWS_A_ROUND])
            search.differences += has_goal * (cells.T @ cells)
        return search

    @property
    def squares(self) -> float:
        """The sum of squared differences, every pair once."""
        return float((self.differences**2).sum() / 2)

    def _indicators(self, codes: IntArray) -> FloatArray:
        """Return 1 for the levels that rows (rows, attributes) have, else 0: (rows, levels)."""
        cells = np.zeros((len(codes), len(self.has_goal)))
        cells[np.arange(len(codes))[:, None], self.starts + codes] = 1
        return cells

    def replace(self, count: int, most: int, rng: np.random.Generator) -> bool:
        """Replace at most ``most`` of so many random rows by copies of others, and return True;
        return False and leave all rows as they are where that does not lower the sum of squares."""
        rows = rng.choice(len(self.codes), count, replace=False)
        codes = self.codes[rows]
        cells = self._indicators(codes)
        # For each row, the sum of the differences of its pairs.
        excess = ((cells @ self.differences) * cells).sum(axis=1) / 2
        order = np.argsort(excess, kind="stable")
        copied, replaced = order[: len(order) // 2], order[::-1][: len(order) // 2]
        # Squares change by the pairs that one of both rows has and the other has not, too.
        pairs = self.has_goal[np.ix_(self.starts, self.starts)]
        is_equal = (codes[copied] == codes[replaced]) * 1.0
        distances = pairs.sum() - ((is_equal @ pairs) * is_equal).sum(axis=1)
        changes = 2 * (excess[copied] - excess[replaced]) + distances
        best = np.argsort(changes, kind="stable")[:most]
        best = best[changes[best] < 0]
        copied, replaced = copied[best], replaced[best]
        moved = cells[copied].T @ cells[copied] - cells[replaced].T @ cells[replaced]
        differences = self.differences + moved * self.has_goal
        if (differences**2).sum() >= (self.differences**2).sum():
            return False
        self.codes[rows[replaced]] = codes[copied]
        self.differences = differences
        return True
