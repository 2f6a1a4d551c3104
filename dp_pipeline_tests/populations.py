"""Populations small enough to count on fingers, and the counter that every engine must equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import COORDINATE_BITS, Bins, Coordinate, Levels
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.results.derived_attribute import DerivedAttribute
from dp_pipeline.results.trees import BitTree, Prefixes
from dp_pipeline_tests import loops

Row = tuple[float, float, str, str]
"""x, y, colour and smokes of one person."""

TOWN = Domain(
    (
        Attribute("x", "x", "clip", coordinate=Coordinate(0.0, 8.0)),
        Attribute(
            "y", "y", "clip", coordinate=Coordinate(-1.0, 1.0), cells=Bins((-1.0, -0.5, 0.0, 1.0))
        ),
        Attribute("colour", "colour", "drop", cells=Levels(("red", "green", "blue"))),
        Attribute("smokes", "smokes", "drop", cells=Levels(("no", "yes"))),
    )
)
"""Two coordinates, one of them with three unequal bins, and two nominal attributes."""

NOBODY: tuple[Row, ...] = ()
ONE_PERSON: tuple[Row, ...] = ((1.0, 0.25, "red", "no"),)
TEN_PEOPLE: tuple[Row, ...] = (
    (0.5, -0.9, "red", "no"),
    (0.75, -0.8, "red", "no"),
    (1.0, -0.7, "red", "yes"),
    (1.25, -0.75, "green", "no"),
    (3.9, 0.1, "green", "no"),
    (4.1, 0.2, "green", "yes"),
    (6.0, 0.6, "blue", "no"),
    (6.5, 0.7, "blue", "no"),
    (7.0, 0.8, "blue", "yes"),
    (8.0, 1.0, "red", "yes"),
)
AWKWARD: dict[str, tuple[Row, ...]] = {
    "nobody": NOBODY,
    "one person": ONE_PERSON,
    "two people": TEN_PEOPLE[4:6],
    "one place for all": tuple((2.0, y, "blue", "no") for _, y, _, _ in TEN_PEOPLE),
    "everybody on the edge": tuple(
        (x, y, "red", "yes") for x in (0.0, 8.0) for y in (-1.0, 1.0) for _ in range(5)
    ),
    "the same person a hundred times": ONE_PERSON * 100,
    "ten people": TEN_PEOPLE,
}
"""Name → population; more people than the models of the tests have centres only in some."""


@dataclass(frozen=True)
class LoopCounter:
    """``Counter`` by loops over rows: slow, and plain enough to be believed."""

    rows: Sequence[Row]
    domain: Domain = TOWN
    others: ClassVar[int] = 3
    """Rows that were left out."""

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        return [self._table(attributes) for attributes in marginals]

    def _table(self, attributes: tuple[str, ...]) -> Sealed:
        table = np.zeros(self.domain.shape(attributes), dtype=np.int64)
        for row in self.rows:
            table[tuple(self.code(row, name) for name in attributes)] += 1
        return Sealed(table)

    def count_left_out(self) -> Sealed:
        return Sealed(np.array(self.others, dtype=np.int64))

    def recoded(
        self, derived: Mapping[str, DerivedAttribute], domain: Domain
    ) -> DerivingLoopCounter:
        return DerivingLoopCounter(self.rows, domain, self, derived)

    def occupied(self, attributes: tuple[str, ...]) -> Sealed:
        counts: dict[int, int] = {}
        for row in self.rows:
            key = 0
            for name in attributes:
                key = key * self.domain[name].size + self.code(row, name)
            counts[key] = counts.get(key, 0) + 1
        return Sealed(np.array(sorted(counts.items()), dtype=np.int64).reshape(-1, 2))

    def grid(self, columns: tuple[str, ...], cells: int) -> Sealed:
        table = np.zeros((cells,) * len(columns), dtype=np.int64)
        for row in self.rows:
            table[tuple(self._interval(row, name, cells) for name in columns)] += 1
        return Sealed(table)

    def distance_total(self, rule: NearestCentre, *, clip: int, shift: int) -> Sealed:
        total = 0
        for place in self.places(rule.columns):
            exact = min(loops.distance(rule, place, centre) for centre in rule.centres)
            total += min(exact, clip) >> shift
        return Sealed(np.array(total, dtype=np.int64))

    def children(self, tree: BitTree, asked: Sequence[tuple[Prefixes, int]]) -> list[Sealed]:
        places = self.places(tree.columns)
        return [Sealed(loops.children(places, tree, nodes, bits)) for nodes, bits in asked]

    def sum_by_centre(self, rules: Sequence[NearestCentre], *, salt: int) -> Sealed:
        return Sealed(loops.sum_by_centre(self.places(rules[0].columns), rules, salt=salt))

    def residuals(self, rule: NearestCentre, radii: tuple[int, ...]) -> Sealed:
        return Sealed(loops.residuals(self.places(rule.columns), rule, radii))

    def classify(self, rule: NearestCentre, attribute: str) -> Sealed:
        codes, levels = [self.code(row, attribute) for row in self.rows], self.domain[attribute]
        return Sealed(loops.classify(self.places(rule.columns), codes, rule, levels.size))

    def mistakes(self, rule: PredictedLabel) -> Sealed:
        names = self.domain.discrete
        rows = [{name: self.code(row, name) for name in names} for row in self.rows]
        return Sealed(loops.mistakes(rows, rule))

    def bounds(self, columns: tuple[str, ...]) -> Sealed:
        axes = list(zip(*self.places(columns), strict=True)) or [(-loops.EDGE, loops.EDGE)] * len(
            columns
        )
        return Sealed(np.array([[min(q) for q in axes], [max(q) for q in axes]], dtype=np.int64))

    def records(self, columns: tuple[str, ...], many: int, salt: int) -> Sealed:
        places = sorted(self.places(columns), key=lambda q: (loops.hash_of(q, salt), q))
        middles = [(0,) * len(columns)] * many
        return Sealed(np.array([*places, *middles][:many], dtype=np.int64))

    def places(self, columns: tuple[str, ...]) -> list[loops.Place]:
        return [tuple(self.coordinate(row, name) for name in columns) for row in self.rows]

    def _value(self, row: Row, name: str) -> float | str:
        return row[self.domain.names.index(name)]

    def code(self, row: Row, name: str) -> int:
        """Cell of one attribute of a row."""
        cells = self.domain[name].cells
        assert cells is not None
        return _encoded(cells, self._value(row, name))

    def coordinate(self, row: Row, name: str) -> int:
        (interval,) = self.domain.box((name,))
        return _encoded(interval, self._value(row, name))

    def _interval(self, row: Row, name: str, cells: int) -> int:
        one = 1 << COORDINATE_BITS
        return min(cells - 1, ((self.coordinate(row, name) + one) * cells) >> 17)


@lru_cache(maxsize=1 << 16, typed=True)
def _encoded(cells: Levels | Bins | Coordinate, value: float | str) -> int:
    """One value as the library encodes it; the same few are asked for all the time."""
    kind = object if isinstance(cells, Levels) else float
    return int(cells.encode(np.array([value], dtype=kind))[0])


@dataclass(frozen=True)
class DerivingLoopCounter(LoopCounter):
    """The same, with attributes that cells of given ones decide: their groups, or others.

    given     counts the given attributes
    derived   attribute → those that decide it, and the group of each of their cells
    """

    given: LoopCounter = field(default_factory=lambda: LoopCounter(NOBODY))
    derived: Mapping[str, DerivedAttribute] = field(default_factory=dict)

    def code(self, row: Row, name: str) -> int:
        if name not in self.derived:
            return self.given.code(row, name)
        cell = 0
        for attribute in self.derived[name].attributes:
            cell = cell * self.given.domain[attribute].size + self.given.code(row, attribute)
        return self.derived[name].groups[cell]

    def coordinate(self, row: Row, name: str) -> int:
        return self.given.coordinate(row, name)
