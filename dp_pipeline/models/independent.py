"""independent: one-way marginals and their product, the baseline of every table model."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.models.parameters import integer, names
from dp_pipeline.release.budget import root_weights, split
from dp_pipeline.release.product import ProductTable, estimated_rows, sample_product
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import DeclarationError

MOST_ESTIMATED_ROWS = 2_000_000


@dataclass(frozen=True)
class Independent:
    """One noisy table an attribute; synthetic rows draw every attribute by itself.

    attributes       discrete attributes; all when empty
    synthetic_rows   rows to draw; a noisy estimate of their number when None, which
                     is free: every table's total estimates it (at most 2,000,000: at a
                     tiny ε the estimate is noise)

    Attribute i gets ε_i ∝ √|Ω_i|, which minimises the total noise.

    *Proof.* One row is in one cell of each table, so table i has Δ1 = 1 under
    add/remove, times the reach, and costs ε_i; Σ ε_i = ε, exactly. Projection
    to the simplex and sampling are post-processing. ∎
    """

    summary: ClassVar[str] = "noisy one-way marginals and synthetic rows of independent attributes"

    attributes: tuple[str, ...] = names()
    synthetic_rows: int | None = integer(None, at_least=0, at_most=10**9)

    def check(self, domain: Domain) -> None:
        """Raise DeclarationError unless there are attributes and all of them have cells."""
        if not self._chosen(domain):
            raise DeclarationError("independent: expected attributes with cells, got none")
        if len(set(self.attributes)) != len(self.attributes):
            raise DeclarationError("independent: expected each attribute once, got one twice")
        domain.shape(self._chosen(domain))

    def _chosen(self, domain: Domain) -> tuple[str, ...]:
        return self.attributes or domain.discrete

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> ProductTable:
        """Marginals and synthetic rows; spends exactly ``epsilon``."""
        attributes = self._chosen(curator.domain)
        shares = split(epsilon, root_weights(curator.domain.shape(attributes)))
        marginals = tuple(
            curator.measure((name,), epsilon=share)
            for name, share in zip(attributes, shares, strict=True)
        )
        estimate = min(estimated_rows(marginals), MOST_ESTIMATED_ROWS)
        rows = estimate if self.synthetic_rows is None else self.synthetic_rows
        return ProductTable(marginals, sample_product(marginals, rows, rng), curator.domain)
