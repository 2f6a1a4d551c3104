"""PredictedLabel: a released classifier as a rule about rows, and when that rule is exact."""

from __future__ import annotations

from dataclasses import dataclass

from dp_pipeline.metrics.classification import LinearClassifier
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import BoundaryViolation

MOST_WEIGHT = 1 << 40
"""Weights stay within this and columns below 2^16, so that no row's total overflows."""

_MOST_COLUMNS = 1 << 16


@dataclass(frozen=True)
class PredictedLabel:
    """A row is said to be positive where Σ_j weights[j][code_j] + intercept > 0, and is positive
    where the code of ``target`` is one of ``positive``.

    columns     attributes with cells that are looked at; none for the same answer to every row
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
        """The rule of a classifier that was learned from released rows."""
        columns, weights = classifier.columns, classifier.weights
        return cls(target, positive, columns, weights, classifier.intercept)

    def require_exact(self, domain: Domain) -> None:
        """BoundaryViolation unless whole numbers decide, one a declared cell, in tuples that never
        change; DeclarationError for attributes that are not declared, or have no cells.
        """
        parts = (self.positive, self.columns, self.weights, *self.weights)
        # A list could be changed between the charge and the look.
        if not all(type(part) is tuple for part in parts):
            raise BoundaryViolation("predicted label: expected tuples of numbers, got another")
        if len(set(self.columns)) < len(self.columns) or len(self.columns) >= _MOST_COLUMNS:
            raise BoundaryViolation(
                f"predicted label: expected different columns, less than 2^16, "
                f"got {len(self.columns)}"
            )
        cells = tuple(len(one) for one in self.weights)
        if cells != domain.shape(self.columns):
            raise BoundaryViolation(
                f"predicted label: expected a weight for every cell of {len(self.columns)} "
                f"columns, got {sum(cells)}"
            )
        self._require_numbers(domain[self.target].size)

    def _require_numbers(self, levels: int) -> None:
        weights = [weight for one in self.weights for weight in one] + [self.intercept]
        if not all(type(number) is int for number in (*weights, *self.positive)):
            raise BoundaryViolation("predicted label: expected whole numbers, got others")
        if max(map(abs, weights)) > MOST_WEIGHT:
            raise BoundaryViolation("predicted label: expected weights within 2^40, got others")
        if not set(self.positive) <= set(range(levels)):
            raise BoundaryViolation(
                f"predicted label: expected codes of {self.target} in 0..{levels - 1}, got others"
            )
