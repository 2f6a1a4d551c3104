"""Released centres and classifiers as integer rules about rows, which every engine counts alike."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import COORDINATE_BITS, Coordinate, FloatArray, IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.metrics.classification import LinearClassifier

MAX_TOTAL_A_ROW = 1 << 26
"""Bound on one row's part of a total, so that less than 2^37 rows stay below 2^63."""

MAX_DISTANCE = 1 << 53
"""Bound on squared distances, below which floats compute them exactly."""

MAX_RADIUS = 1 << 47
"""Bound on radii, so that a radius times 2^16 is an int64."""

_MAX_COORDINATE = 1 << COORDINATE_BITS


@dataclass(frozen=True)
class NearestCentre:
    """A rule that assigns every row to its nearest released centre.

    columns   numeric attributes, d of them
    centres   fixed-point coordinates: k tuples of d integers in [−2^16, 2^16]
    weights   d public integers from 0: the columns' half-widths relative to the largest, so that
              distances are in proportion to those in data units
    """

    columns: tuple[str, ...]
    centres: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]

    @classmethod
    def of(cls, columns: tuple[str, ...], centres: FloatArray, box: Sequence[Coordinate]) -> Self:
        """Return the rule for centres (k, d) in data units; those outside the box are moved into
        it.

        box   declared interval of each column

        >>> rule = NearestCentre.of(("x",), np.array([[7.5]]), [Coordinate(0, 10)])
        >>> rule.centres, rule.weights
        (((32768,),), (1,))
        """
        coordinates = [interval.encode(centres[:, axis]) for axis, interval in enumerate(box)]
        fixed_point = tuple(zip(*(column.tolist() for column in coordinates), strict=True))
        return cls(columns, fixed_point, _weights(box))

    def centres_in(self, box: Sequence[Coordinate]) -> FloatArray:
        """Return the centres in data units, (k, d), for the declared interval of each column."""
        columns = np.array(self.centres, dtype=np.int64).T
        return np.stack(
            [interval.decode(q) for interval, q in zip(box, columns, strict=True)], axis=1
        )

    def unit_in(self, box: Sequence[Coordinate]) -> float:
        """Return the length, in data units, of a weighted coordinate difference of 1."""
        widest = max(interval.half_width for interval in box)
        return widest / max(self.weights) / _MAX_COORDINATE

    def require_exact(self, *, clip: int = 0, shift: int = 0) -> None:
        """Raise BoundaryViolation unless this rule is valid and its sums are exact.

        clip, shift   of a total of distances; 0 for other questions
        """
        self._require_integers()
        if clip < 0 or not 0 <= shift < 63:
            raise BoundaryViolation(
                "The arguments clip and shift of a distance must be at least 0, and shift "
                f"below 63, not {clip} and {shift}"
            )
        largest = largest_distance(self.weights)
        if largest >= MAX_DISTANCE:
            raise BoundaryViolation(
                "The largest distance, Σ(weight·2^17)², must be below 2^53, not "
                f"2^{largest.bit_length() - 1}: use smaller weights"
            )
        if min(clip, largest) >> shift >= MAX_TOTAL_A_ROW:
            raise BoundaryViolation(
                f"A distance, clipped at {clip} and divided by 2^{shift}, must be below 2^26, but "
                f"it can be {min(clip, largest) >> shift}: lower clip or raise shift"
            )

    def require_radii(self, radii: tuple[int, ...]) -> None:
        self.require_exact()
        if len(radii) != len(self.centres):
            raise BoundaryViolation(
                f"Each of {len(self.centres)} centres must have one radius, but there are "
                f"{len(radii)}"
            )
        if not all(isinstance(radius, int) and 1 <= radius < MAX_RADIUS for radius in radii):
            raise BoundaryViolation(
                f"The radii must be integers from 1 to 2^47 − 1, not {radii!r:.60}"
            )

    def _require_integers(self) -> None:
        d = len(self.columns)
        if not 1 <= d == len(self.weights):
            raise BoundaryViolation(
                f"A rule needs columns and a weight for each, not {d} columns and "
                f"{len(self.weights)} weights"
            )
        if len(set(self.columns)) < d:
            raise BoundaryViolation(
                "The columns of a rule must be different, but one is repeated: name each once"
            )
        lengths = ", ".join(sorted({str(len(centre)) for centre in self.centres}))
        if lengths != str(d):
            raise BoundaryViolation(
                f"A rule of {d} columns needs one or more centres of {d} numbers each, but it has "
                f"{f'centres of {lengths}' if lengths else 'none'}"
            )
        # A fraction or a NaN would pass every comparison, and the answers would not be integers.
        if not all(type(number) is int for number in chain(self.weights, *self.centres)):
            raise BoundaryViolation(
                "The centres and weights of a rule must be integers, but one is not"
            )
        if any(abs(c) > _MAX_COORDINATE for centre in self.centres for c in centre):
            raise BoundaryViolation(
                "The coordinates of centres must be from −2^16 to 2^16, but one is not"
            )
        if min(self.weights) < 0:
            raise BoundaryViolation("The weights of a rule must be at least 0, but one is not")


def largest_distance(weights: Sequence[int]) -> int:
    """Return the largest weighted squared distance that any row can have: Σ (weight · 2^17)².

    No sum or product of x² − 2xc + c² is larger."""
    return sum((weight * 2 * _MAX_COORDINATE) ** 2 for weight in weights)


def _weights(box: Sequence[Coordinate]) -> tuple[int, ...]:
    """Return half-widths as integer parts of the widest, without their common factor.

    They are as fine as MAX_DISTANCE allows."""
    widest = max(interval.half_width for interval in box)
    for parts in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        weights = [max(1, round(parts * interval.half_width / widest)) for interval in box]
        if largest_distance(weights) < MAX_DISTANCE:
            break
    factor = math.gcd(*weights)
    return tuple(weight // factor for weight in weights)


MAX_WEIGHT = 1 << 40
"""Bound on a classifier's weights, so that no row's sum over less than 2^16 columns overflows."""

_MAX_COLUMNS = 1 << 16


@dataclass(frozen=True)
class PredictedLabel:
    """A rule that predicts a row as positive where Σ_j weights[j][code_j] + intercept > 0.

    target      attribute that is predicted
    positive    codes of ``target`` that count as positive
    columns     attributes with levels or bins; none for the same prediction for every row
    weights     for every column, one integer for each code
    """

    target: str
    positive: tuple[int, ...]
    columns: tuple[str, ...]
    weights: tuple[tuple[int, ...], ...]
    intercept: int

    @classmethod
    def of(cls, classifier: LinearClassifier, *, target: str, positive: tuple[int, ...]) -> Self:
        columns, weights = classifier.columns, classifier.weights
        return cls(target, positive, columns, weights, classifier.intercept)

    def require_exact(self, domain: Domain) -> None:
        parts = (self.positive, self.columns, self.weights, *self.weights)
        # A list could be changed between the charge and the count.
        if not all(type(part) is tuple for part in parts):
            raise BoundaryViolation(
                "The positive codes, columns and weights of predicted labels must be tuples, but "
                "one is not"
            )
        if len(set(self.columns)) < len(self.columns):
            raise BoundaryViolation(
                "The columns of a rule of predicted labels must be different, but one is repeated: "
                "name each once"
            )
        if len(self.columns) >= _MAX_COLUMNS:
            raise BoundaryViolation(
                "A rule of predicted labels must have fewer than 2^16 columns, not "
                f"{len(self.columns)}"
            )
        cells = tuple(len(column_weights) for column_weights in self.weights)
        if cells != domain.shape(self.columns):
            raise BoundaryViolation(
                f"A predicted label needs {domain.shape(self.columns)!s:.60} weights, one for each "
                f"cell of its columns, not {cells!s:.60}"
            )
        levels, weights = domain[self.target].size, (*chain(*self.weights), self.intercept)
        if not all(type(number) is int for number in (*weights, *self.positive)):
            raise BoundaryViolation(
                "The weights and codes of predicted labels must be integers, but one is not"
            )
        if max(map(abs, weights)) > MAX_WEIGHT:
            raise BoundaryViolation(
                "The weights of predicted labels must lie within ±2^40, but one does not"
            )
        if not set(self.positive) <= set(range(levels)):
            raise BoundaryViolation(
                f"The predicted codes of {self.target} must lie in 0..{levels - 1}, but one does "
                "not"
            )


_GOLDEN = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def subset_of(columns: Sequence[NDArray[Any]], salt: int, subsets: int) -> IntArray:
    """Return the number of the subset of every row, (rows,), 0 to subsets − 1, from a hash of its
    coordinates and a salt.

    So one row more moves no other row to another subset.

    columns   fixed-point coordinates (rows,), in the order of the rule's columns
    salt      public, 0 … 2^63 − 1

    >>> subset_of([np.array([5, 5, 6]), np.array([1, 1, 1])], 7, 1000).tolist()
    [113, 113, 133]
    """
    return (hash_of(columns, salt) % np.uint64(subsets)).astype(np.int64)


def hash_of(columns: Sequence[NDArray[Any]], salt: int) -> NDArray[np.uint64]:
    """Return a 64-bit hash of every row, (rows,), from its coordinates and a salt.

    columns   coordinates (rows,) of each column, at least one

    It is the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), once a column.
    """
    state = np.full(len(columns[0]), salt, dtype=np.uint64)
    for column in columns:
        state += column.astype(np.int64).view(np.uint64)
        state += np.uint64(_GOLDEN)
        for shift, factor in _MIX:
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        state ^= state >> np.uint64(31)
    return state
