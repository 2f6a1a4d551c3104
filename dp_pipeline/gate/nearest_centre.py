"""NearestCentre: released centres as a rule about rows, and when that rule is exact."""

from __future__ import annotations

from dataclasses import dataclass

from dp_pipeline.schema.encoding import COORDINATE_BITS
from dp_pipeline.schema.errors import BoundaryViolation

MOST_A_ROW = 1 << 32
"""One row's part of a total stays below this, so that no table of less than 2^31 rows overflows."""

_EDGE = 1 << COORDINATE_BITS
_HEAVIEST = 1024


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

    @property
    def largest_distance(self) -> int:
        """The largest D that any row could have: Σ (weight · 2^17)²."""
        return sum((weight * 2 * _EDGE) ** 2 for weight in self.weights)

    def require_exact(self, *, clip: int, shift: int) -> None:
        """BoundaryViolation for what would not be exact; from public numbers only."""
        d = len(self.columns)
        if not 1 <= d == len(set(self.columns)) == len(self.weights):
            raise BoundaryViolation(f"centres: expected {d} different columns and as many weights")
        if not self.centres or any(len(centre) != d for centre in self.centres):
            raise BoundaryViolation(f"centres: expected at least one, each of {d} numbers")
        if any(abs(c) > _EDGE for centre in self.centres for c in centre):
            raise BoundaryViolation("centres: expected fixed-point numbers in [−2^16, 2^16]")
        if any(not 0 <= weight <= _HEAVIEST for weight in self.weights):
            raise BoundaryViolation(f"weights: expected whole numbers in 0..{_HEAVIEST}")
        if clip < 0 or not 0 <= shift < 63:
            raise BoundaryViolation(
                f"distance: expected clip ≥ 0 and shift < 63, got {clip}, {shift}"
            )
        if self.largest_distance >= 1 << 63:
            raise BoundaryViolation(f"distance: expected Σ(weight·2^17)² < 2^63, got {d} columns")
        if min(clip, self.largest_distance) >> shift >= MOST_A_ROW:
            raise BoundaryViolation(
                f"distance: expected clip >> shift below 2^32, got clip {clip}, shift {shift}"
            )
