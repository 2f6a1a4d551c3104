"""Small prepared tables, and the loops over their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Coordinate, IntArray, Levels
from dp_pipeline_tests.populations import TOWN, LoopCounter, Row

EDGE = 1 << 16


def _numeric(name: str, bins: int) -> Attribute:
    cells = Bins.equal_width(0.0, 1.0, bins)
    return Attribute(name, name, "clip", coordinate=Coordinate(0.0, 1.0), cells=cells)


def _nominal(name: str, levels: int) -> Attribute:
    return Attribute(name, name, "drop", cells=Levels(tuple(map(str, range(levels)))))


DOMAIN = Domain(
    (
        *(_numeric(name, bins) for name, bins in (("x", 3), ("y", 1), ("z", 2))),
        *(_nominal(name, levels) for name, levels in (("c", 4), ("d", 2))),
        *(_nominal(name, levels) for name, levels in (("wide", 300), ("huge", 60_000))),
        Attribute("w", "w", "clip", coordinate=Coordinate(0.0, 1.0)),
    )
)


@dataclass(frozen=True)
class Population:
    """Prepared rows: coordinates (rows, 4) of x, y, z, w and codes (rows, 7) of all but w."""

    points: IntArray
    cells: IntArray
    domain: Domain = DOMAIN

    @property
    def rows(self) -> int:
        return len(self.points)

    @property
    def coordinates(self) -> dict[str, NDArray[np.int32]]:
        columns = self.points.astype(np.int32).T
        return dict(zip(self.domain.numeric, columns, strict=True))

    @property
    def codes(self) -> dict[str, NDArray[Any]]:
        types = [np.min_scalar_type(self.domain[name].size - 1) for name in self.domain.discrete]
        columns = zip(self.domain.discrete, types, self.cells.T, strict=True)
        return {name: codes.astype(type_) for name, type_, codes in columns}

    def at(self, rows: Any) -> Population:
        """Some of the rows, or all in another order."""
        return Population(self.points[rows], self.cells[rows], self.domain)

    @property
    def loop(self) -> LoopCounter:
        """The counter that every engine must agree with."""
        places = [dict(zip(self.domain.numeric, row, strict=True)) for row in self.points.tolist()]
        codes = [dict(zip(self.domain.discrete, row, strict=True)) for row in self.cells.tolist()]
        return PreparedLoopCounter(list(zip(places, codes, strict=True)), self.domain)


class PreparedLoopCounter(LoopCounter):
    """Loops over rows that are (coordinates, codes), each by its name."""

    def code(self, row: Any, name: str) -> int:
        return row[1][name]

    def coordinate(self, row: Any, name: str) -> int:
        return row[0][name]


def of_people(rows: Sequence[Row]) -> Population:
    """People of the town as preparation would write them."""
    people = LoopCounter(rows)
    points = np.array(people.places(TOWN.numeric), dtype=np.int64).reshape(-1, 2)
    codes = [[people.code(row, name) for name in TOWN.discrete] for row in rows]
    return Population(points, np.array(codes, dtype=np.int64).reshape(-1, 3), TOWN)


def drawn(rows: int, seed: int = 0) -> Population:
    """Rows all over the box and on its edges."""
    rng = np.random.default_rng(seed)
    points = rng.integers(-EDGE, EDGE, size=(rows, 4), endpoint=True)
    points[rng.random((rows, 4)) < 0.2] = EDGE
    sizes = [DOMAIN[name].size for name in DOMAIN.discrete]
    return Population(points, rng.integers(0, sizes, size=(rows, len(sizes))))


POPULATIONS = {
    "no rows": drawn(0),
    "one row": drawn(1),
    "few rows": drawn(40),
    "one row many times": drawn(1).at([0] * 9),
    "every row at the upper edge": Population(
        np.full((5, 4), EDGE), np.array([[DOMAIN[n].size - 1 for n in DOMAIN.discrete]] * 5)
    ),
    "every row at the lower edge": Population(np.full((5, 4), -EDGE), np.zeros((5, 7), int)),
    "rows on both sides of the middle": Population(
        np.repeat([[-1], [0], [1]], 4, axis=1), np.zeros((3, 7), int)
    ),
    "rows on few places": Population(
        np.array([*product((-1, 0, 1), repeat=4)] * 2),
        np.ones((162, 7), int) * [0, 0, 1, 3, 1, 9, 7],
    ),
    "rows beside the upper corner": Population(
        EDGE - np.arange(40).reshape(10, 4), np.ones((10, 7), int) * [1, 0, 1, 1, 1, 1, 1]
    ),
}
