"""Promise: what every equivalence class of a release has to have. Syntactic, not differential."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.schema.errors import DeclarationError, PipelineError


class TooFewRows(PipelineError):
    """There are fewer rows than one equivalence class must have; nothing was released."""


@dataclass(frozen=True)
class Promise:
    """Every class that is released has at least ``k`` rows and ``diversity`` different labels.

    k            0 and 1 promise nothing
    diversity    1 promises nothing
    suppressed   most rows that may be left out of the release to keep it, as an exact share

    DeclarationError for negative numbers and for a share of one or more.
    """

    k: int
    diversity: int = 1
    suppressed: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.k < 0 or self.diversity < 1 or not 0 <= self.suppressed < 1:
            raise DeclarationError(
                "promise: expected k ≥ 0, diversity ≥ 1 and a share 0 ≤ suppressed < 1, "
                f"got {self.k}, {self.diversity}, {self.suppressed}"
            )

    @property
    def is_empty(self) -> bool:
        """Whether every table keeps it."""
        return self.k <= 1 and self.diversity <= 1

    def most_suppressed(self, rows: int) -> int:
        """Whole rows that may be left out of so many.

        >>> Promise(5, suppressed=Fraction("0.29")).most_suppressed(100)
        29
        """
        return int(self.suppressed * rows)

    def require_possible(self, rows: int, labels: int) -> None:
        """TooFewRows unless all rows together, as one class, keep the promise.

        rows, labels   of the table: how many rows, and how many different labels they have
        """
        if self.is_empty:
            return
        if rows < self.k:
            raise TooFewRows(f"k-anonymity: expected at least K={self.k} rows, got fewer")
        if labels < self.diversity:
            raise TooFewRows(
                f"diversity: expected at least {self.diversity} different labels, got fewer"
            )
