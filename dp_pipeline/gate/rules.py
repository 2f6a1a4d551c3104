"""Released centres and classifiers as rules about rows, and when such a rule is exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import COORDINATE_BITS, Coordinate, FloatArray, IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.metrics.classification import LinearClassifier

MAX_TOTAL_A_ROW = 1 << 26
"""One row's part of a total stays below this, so that no table of less than 2^37 rows overflows."""

MAX_RADIUS = 1 << 47
"""Radii stay below this, so that a radius times 2^16 is an int64."""

_MAX_COORDINATE = 1 << COORDINATE_BITS
_MAX_COLUMN_WEIGHT = 1024


@dataclass(frozen=True)
class NearestCentre:
    """Released centres as a rule that gives every row the nearest one.

    columns   numeric attributes, d of them
    centres   fixed-point coordinates, k rows of d whole numbers in [−2^16, 2^16]
    weights   d public whole numbers in 0..1024: half-widths relative to the largest,
              so that distances are those of the data's own units
    """

    columns: tuple[str, ...]
    centres: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]

    @classmethod
    def of(
        cls, columns: tuple[str, ...], centres: FloatArray, box: Sequence[Coordinate]
    ) -> NearestCentre:
        """Return the rule of centres (k, d) in data units, those outside the box moved to its edge.

        Weights are half-widths in whole parts of the widest, the finest parts that keep
        floats exact, with their common factor taken out.

        >>> rule = NearestCentre.of(("x",), np.array([[7.5]]), [Coordinate(0, 10)])
        >>> rule.centres, rule.weights
        (((32768,),), (1,))
        """
        coordinates = [interval.encode(centres[:, axis]) for axis, interval in enumerate(box)]
        fixed_point = tuple(zip(*(column.tolist() for column in coordinates), strict=True))
        parts = _MAX_COLUMN_WEIGHT
        while parts > 1 and not cls(columns, fixed_point, _weights(box, parts)).fits_floats:
            parts //= 2
        rule = cls(columns, fixed_point, _weights(box, parts))
        return replace(rule, weights=rule.reduced_weights)

    def centres_in(self, box: Sequence[Coordinate]) -> FloatArray:
        """Return the centres in data units, (k, d)."""
        columns = np.array(self.centres, dtype=np.int64).T
        return np.stack(
            [interval.decode(q) for interval, q in zip(box, columns, strict=True)], axis=1
        )

    def unit_in(self, box: Sequence[Coordinate]) -> float:
        """Return data units of one weighted step, that is of 1 in weight · (q − c)."""
        widest = max(interval.half_width for interval in box)
        return widest / max(self.weights) / _MAX_COORDINATE

    @property
    def reduced_weights(self) -> tuple[int, ...]:
        """The weights without their common factor: every row has the same nearest centre."""
        factor = math.gcd(*self.weights) or 1
        return tuple(weight // factor for weight in self.weights)

    @property
    def fits_floats(self) -> bool:
        """Whether x² − 2xc + c² under the reduced weights never leaves the whole numbers below
        2^53: its sums and products are at most 4 · Σ (weight · 2^16)².
        """
        return 4 * sum((w * _MAX_COORDINATE) ** 2 for w in self.reduced_weights) < 1 << 53

    @property
    def largest_distance(self) -> int:
        """The largest D that any row could have: Σ (weight · 2^17)²."""
        return sum((weight * 2 * _MAX_COORDINATE) ** 2 for weight in self.weights)

    def require_exact(self, *, clip: int = 0, shift: int = 0) -> None:
        """Raise BoundaryViolation for what would not be exact; from public numbers only.

        clip, shift   of a total of distances; other questions have none
        """
        self._require_integers()
        if clip < 0 or not 0 <= shift < 63:
            raise BoundaryViolation(
                f"distance: expected clip ≥ 0 and shift < 63, got {clip}, {shift}"
            )
        if self.largest_distance >= 1 << 63:
            raise BoundaryViolation(
                f"distance: expected Σ(weight·2^17)² < 2^63, got {len(self.columns)} columns"
            )
        if min(clip, self.largest_distance) >> shift >= MAX_TOTAL_A_ROW:
            raise BoundaryViolation(
                f"distance: expected clip >> shift below 2^26, got clip {clip}, shift {shift}"
            )

    def require_radii(self, radii: tuple[int, ...]) -> None:
        """Raise BoundaryViolation unless residuals clipped to the centres' ``radii`` are exact."""
        self.require_exact()
        if len(radii) != len(self.centres):
            raise BoundaryViolation(
                f"radii: expected {len(self.centres)}, one a centre, got {len(radii)}"
            )
        if not all(isinstance(radius, int) and 1 <= radius < MAX_RADIUS for radius in radii):
            raise BoundaryViolation("radii: expected whole numbers in 1..2^47 − 1, got others")

    def _require_integers(self) -> None:
        d = len(self.columns)
        if not 1 <= d == len(set(self.columns)) == len(self.weights):
            raise BoundaryViolation(f"centres: expected {d} different columns and as many weights")
        if not self.centres or any(len(centre) != d for centre in self.centres):
            raise BoundaryViolation(f"centres: expected at least one, each of {d} numbers")
        # A fraction or a NaN would pass every comparison and make answers that are not whole.
        if not all(type(number) is int for number in chain(self.weights, *self.centres)):
            raise BoundaryViolation("centres: expected whole numbers as centres and weights")
        if any(abs(c) > _MAX_COORDINATE for centre in self.centres for c in centre):
            raise BoundaryViolation("centres: expected fixed-point numbers in [−2^16, 2^16]")
        if any(not 0 <= weight <= _MAX_COLUMN_WEIGHT for weight in self.weights):
            raise BoundaryViolation(f"weights: expected whole numbers in 0..{_MAX_COLUMN_WEIGHT}")


def _weights(box: Sequence[Coordinate], parts: int) -> tuple[int, ...]:
    widest = max(interval.half_width for interval in box)
    return tuple(max(1, round(parts * interval.half_width / widest)) for interval in box)


MAX_WEIGHT = 1 << 40
"""Weights stay within this and columns below 2^16, so that no row's total overflows."""

_MAX_COLUMNS = 1 << 16


@dataclass(frozen=True)
class PredictedLabel:
    """A row is said to be positive where Σ_j weights[j][code_j] + intercept > 0, and is positive
    where the code of ``target`` is one of ``positive``.

    columns     attributes with cells that decide; none for the same answer to every row
    weights     for every column one whole number a code
    """

    target: str
    positive: tuple[int, ...]
    columns: tuple[str, ...]
    weights: tuple[tuple[int, ...], ...]
    intercept: int

    @classmethod
    def of(
        cls, classifier: LinearClassifier, *, target: str, positive: tuple[int, ...]
    ) -> PredictedLabel:
        """Return the rule of a classifier that was learned from released rows."""
        columns, weights = classifier.columns, classifier.weights
        return cls(target, positive, columns, weights, classifier.intercept)

    def require_exact(self, domain: Domain) -> None:
        """Raise BoundaryViolation unless whole numbers decide, one a declared cell, in tuples that
        never change; DeclarationError for attributes that are not declared, or have no cells.
        """
        parts = (self.positive, self.columns, self.weights, *self.weights)
        # A list could be changed between the charge and the count.
        if not all(type(part) is tuple for part in parts):
            raise BoundaryViolation("predicted label: expected tuples of numbers, got another")
        if len(set(self.columns)) < len(self.columns) or len(self.columns) >= _MAX_COLUMNS:
            raise BoundaryViolation(
                f"predicted label: expected different columns, less than 2^16, "
                f"got {len(self.columns)}"
            )
        cells = tuple(len(column_weights) for column_weights in self.weights)
        if cells != domain.shape(self.columns):
            raise BoundaryViolation(
                f"predicted label: expected a weight for every cell of {len(self.columns)} "
                f"columns, got {sum(cells)}"
            )
        self._require_numbers(domain[self.target].size)

    def _require_numbers(self, levels: int) -> None:
        weights = [weight for column_weights in self.weights for weight in column_weights] + [
            self.intercept
        ]
        if not all(type(number) is int for number in (*weights, *self.positive)):
            raise BoundaryViolation("predicted label: expected whole numbers, got others")
        if max(map(abs, weights)) > MAX_WEIGHT:
            raise BoundaryViolation("predicted label: expected weights within 2^40, got others")
        if not set(self.positive) <= set(range(levels)):
            raise BoundaryViolation(
                f"predicted label: expected codes of {self.target} in 0..{levels - 1}, got others"
            )


_GOLDEN = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def subset_of(columns: Sequence[NDArray[Any]], salt: int, subsets: int) -> IntArray:
    """Return the subset 0..subsets − 1 of every row, from its coordinates and the salt alone.

    So adding a row moves no other. By position, deleting the first of 1000 rows would change all.

    columns   fixed-point coordinates (rows,), in the order of the rule's
    salt      public, 0 … 2^63 − 1

    >>> subset_of([np.array([5, 5, 6]), np.array([1, 1, 1])], 7, 1000).tolist()
    [113, 113, 133]
    """
    return (hash_of(columns, salt) % np.uint64(subsets)).astype(np.int64)


def hash_of(columns: Sequence[NDArray[Any]], salt: int) -> NDArray[np.uint64]:
    """Return 64 bits of every row, (rows,), from its coordinates and the salt alone.

    The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), once a column.
    """
    state = np.full(len(columns[0]), salt, dtype=np.uint64)
    for column in columns:
        state += column.astype(np.int64).view(np.uint64)
        state += np.uint64(_GOLDEN)
        for shift, factor in _MIX:
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        state ^= state >> np.uint64(31)
    return state
