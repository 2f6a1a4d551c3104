"""A small prepared table, and every question of the Counter port as a loop over its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.schema.domain import Attribute, Domain
from dp_pipeline.schema.encoding import Bins, Coordinate, IntArray, Levels

EDGE = 1 << 16


def _numeric(name: str, bins: int) -> Attribute:
    cells = Bins.equal_width(0.0, 1.0, bins)
    return Attribute(name, name, "clip", coordinate=Coordinate(0.0, 1.0), cells=cells)


def _nominal(name: str, levels: int) -> Attribute:
    return Attribute(name, name, "drop", cells=Levels(tuple(map(str, range(levels)))))


DOMAIN = Domain(
    (
        _numeric("x", 3),
        _numeric("y", 1),
        _numeric("z", 2),
        _nominal("c", 4),
        _nominal("d", 2),
        _nominal("wide", 300),
        _nominal("huge", 60_000),
    )
)


@dataclass(frozen=True)
class Population:
    """Prepared rows: coordinates (rows, 3) of x, y, z and codes (rows, 7) of all attributes."""

    points: IntArray
    cells: IntArray

    @property
    def rows(self) -> int:
        return len(self.points)

    @property
    def coordinates(self) -> dict[str, NDArray[np.int32]]:
        columns = self.points.astype(np.int32).T
        return dict(zip(DOMAIN.numeric, columns, strict=True))

    @property
    def codes(self) -> dict[str, NDArray[Any]]:
        types = [np.min_scalar_type(DOMAIN[name].size - 1) for name in DOMAIN.discrete]
        columns = zip(DOMAIN.discrete, types, self.cells.T, strict=True)
        return {name: codes.astype(type_) for name, type_, codes in columns}

    def at(self, rows: Any) -> Population:
        """Some of the rows, or all in another order."""
        return Population(self.points[rows], self.cells[rows])

    # The loops that every engine must agree with.

    def counted(self, names: tuple[str, ...]) -> IntArray:
        table = np.zeros(DOMAIN.shape(names), dtype=np.int64)
        for row in self.cells:
            table[tuple(row[DOMAIN.discrete.index(name)] for name in names)] += 1
        return table

    def gridded(self, columns: tuple[str, ...], cells: int) -> IntArray:
        table = np.zeros((cells,) * len(columns), dtype=np.int64)
        for q in self.points.tolist():
            axes = [q[DOMAIN.numeric.index(name)] for name in columns]
            table[tuple(min(cells - 1, ((a + EDGE) * cells) >> 17) for a in axes)] += 1
        return table

    def distance(self, rule: NearestCentre, *, clip: int, shift: int) -> int:
        total = 0
        for q in self.points.tolist():
            row = [q[DOMAIN.numeric.index(name)] for name in rule.columns]
            squares = (
                sum((w * (a - b)) ** 2 for w, a, b in zip(rule.weights, row, centre, strict=True))
                for centre in rule.centres
            )
            total += min(*squares, clip) >> shift
        return total


def drawn(rows: int, seed: int = 0) -> Population:
    """Rows all over the box and on its edges."""
    rng = np.random.default_rng(seed)
    points = rng.integers(-EDGE, EDGE, size=(rows, 3), endpoint=True)
    points[rng.random((rows, 3)) < 0.2] = EDGE
    sizes = [DOMAIN[name].size for name in DOMAIN.discrete]
    return Population(points, rng.integers(0, sizes, size=(rows, len(sizes))))


POPULATIONS = {
    "no rows": drawn(0),
    "one row": drawn(1),
    "few rows": drawn(40),
    "one row many times": drawn(1).at([0] * 9),
    "every row at the upper edge": Population(
        np.full((5, 3), EDGE), np.array([[DOMAIN[n].size - 1 for n in DOMAIN.discrete]] * 5)
    ),
    "every row at the lower edge": Population(np.full((5, 3), -EDGE), np.zeros((5, 7), int)),
    "rows on both sides of the middle": Population(
        np.repeat([[-1], [0], [1]], 3, axis=1), np.zeros((3, 7), int)
    ),
    "rows beside the upper corner": Population(
        EDGE - np.arange(30).reshape(10, 3), np.ones((10, 7), int) * [1, 0, 1, 1, 1, 1, 1]
    ),
}
