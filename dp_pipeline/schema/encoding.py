"""Value ↔ cell code and value ↔ fixed-point coordinate, from declared levels and bounds only.

There is no ``fit`` here: an encoding that looked at the rows would release them.
Invalid values are marked, never raised: whether a row that breaks the
declaration is clipped, renamed or dropped is decided in ``raw.prepare``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

COORDINATE_BITS = 16
"""Coordinates are integers in [−2^16, 2^16]; one unit is half-width / 2^16."""

INVALID = -1
"""The code of a value that the declaration does not know."""


@dataclass(frozen=True)
class Levels:
    """The declared values of a nominal attribute; the code of a value is its position.

    >>> Levels(("no", "yes")).encode(np.array(["yes", "maybe"], dtype=object))
    array([ 1, -1])
    """

    values: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.values)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values)}

    def encode(self, texts: NDArray[np.object_]) -> IntArray:
        """Codes of ``texts`` (n,), ``INVALID`` where a text is not a declared level."""
        codes = (self._codes.get(text, INVALID) for text in texts)
        return np.fromiter(codes, dtype=np.int64, count=len(texts))

    def labels(self) -> tuple[str, ...]:
        """One name a cell, in code order."""
        return self.values


@dataclass(frozen=True)
class Bins:
    """Half-open cells [edge_i, edge_i+1); the last one holds its upper edge too.

    edges   strictly increasing, first and last are the declared bounds
    """

    edges: tuple[float, ...]

    @classmethod
    def equal_width(cls, lower: float, upper: float, count: int) -> Bins:
        """``count`` cells of one width between the declared bounds.

        >>> Bins.equal_width(0.0, 1.0, 4).edges
        (0.0, 0.25, 0.5, 0.75, 1.0)
        """
        return cls(tuple(float(edge) for edge in np.linspace(lower, upper, count + 1)))

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.edges) - 1

    def encode(self, values: FloatArray) -> IntArray:
        """Codes of ``values`` (n,), ``INVALID`` outside the bounds and for NaN."""
        codes = np.searchsorted(np.asarray(self.edges), values, side="right") - 1
        codes = np.where(values == self.edges[-1], self.size - 1, codes)
        inside = (values >= self.edges[0]) & (values <= self.edges[-1])
        return np.where(inside, codes, INVALID).astype(np.int64)

    def labels(self) -> tuple[str, ...]:
        """One name a cell, in code order, all different: edges in six digits, or exactly where
        six do not tell them apart.

        >>> Bins((0.0, 1 / 3, 1.0)).labels()
        ('[0, 0.333333)', '[0.333333, 1]')
        >>> Bins((20200100.0, 20200101.0, 20200102.5)).labels()
        ('[20200100.0, 20200101.0)', '[20200101.0, 20200102.5]')
        """
        edges = [f"{edge:g}" for edge in self.edges]
        if len(set(edges)) < len(edges):
            edges = [repr(float(edge)) for edge in self.edges]
        cells = [f"[{low}, {high})" for low, high in pairwise(edges)]
        return (*cells[:-1], cells[-1][:-1] + "]")


@dataclass(frozen=True)
class Coordinate:
    """A bounded number as a fixed-point integer: clip to the box, centre, scale, round.

    q = clamp(rint((x − mid) / half_width · 2^16), −2^16, 2^16)
    """

    lower: float
    upper: float

    @property
    def middle(self) -> float:
        """Centre of the declared interval, in data units."""
        return self.lower + (self.upper - self.lower) / 2

    @property
    def half_width(self) -> float:
        """Half the declared width, in data units: the unit of every sum."""
        return (self.upper - self.lower) / 2

    def encode(self, values: FloatArray) -> IntArray:
        """Integers in [−2^16, 2^16] of finite ``values``; outside the box means on its edge.

        >>> Coordinate(0.0, 10.0).encode(np.array([0.0, 5.0, 7.5, 99.0]))
        array([-65536,      0,  32768,  65536])
        """
        one = float(1 << COORDINATE_BITS)
        clipped = np.clip(values, self.lower, self.upper)
        scaled = np.rint((clipped - self.middle) / self.half_width * one)
        return np.clip(scaled, -one, one).astype(np.int64)

    def decode(self, coordinates: NDArray[np.float64] | IntArray) -> FloatArray:
        """Data units of fixed-point ``coordinates``, inside the declared interval."""
        values = self.middle + coordinates / float(1 << COORDINATE_BITS) * self.half_width
        return np.clip(values, self.lower, self.upper)


def one_hot(codes: IntArray, size: int) -> NDArray[np.uint8]:
    """Bit matrix (n, size) of codes 0..size−1: one 1 in every row.

    >>> one_hot(np.array([1, 0]), 2).tolist()
    [[0, 1], [1, 0]]
    """
    bits = np.zeros((len(codes), size), dtype=np.uint8)
    bits[np.arange(len(codes)), codes] = 1
    return bits
