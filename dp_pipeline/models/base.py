"""What a private model is: public parameters, a check of them, and ``fit`` on a Curator."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.product import ProductTable
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import DeclarationError

Released = Clusters | ProductTable

ROWS_SHARE = Fraction(2, 100)
"""Share of ε that buys a noisy number of rows where none is declared."""


class Model(Protocol):
    """A frozen dataclass whose fields are public parameters (see ``parameters``).

    summary   one sentence for lists and the Dagster page
    """

    summary: ClassVar[str]

    def check(self, domain: Domain) -> None:
        """Raise DeclarationError when the parameters do not fit the declared attributes."""
        ...

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Released:
        """Spend exactly ``epsilon`` through the curator; ``rng`` is for post-processing only."""
        ...


def clustering_columns(columns: tuple[str, ...], domain: Domain) -> tuple[str, ...]:
    """The numeric attributes to cluster: those named, or all; DeclarationError when none fit."""
    chosen = columns or domain.numeric
    if not chosen:
        raise DeclarationError("clustering: expected numeric attributes with bounds, got none")
    if len(set(chosen)) != len(chosen):
        raise DeclarationError("clustering: expected each column once, got one twice")
    domain.box(chosen)
    return chosen


def planning_units(
    curator: Curator, nominal_rows: int | None, epsilon: Fraction
) -> tuple[float, Fraction]:
    """A number of protected units to plan with, and the ε that is left.

    Published formulas take the number of rows N where a person is one row. A
    person with up to L rows needs noise L times as large, so N rows at reach L
    carry the signal of N/L rows at reach 1. N is the declared ``nominal_rows``,
    or a noisy count that costs 2 % of ε; never the number of rows itself.
    """
    if nominal_rows is not None:
        return nominal_rows / curator.reach, epsilon
    noisy = curator.measure((), epsilon=epsilon * ROWS_SHARE)
    return max(1.0, float(noisy.table)) / curator.reach, epsilon * (1 - ROWS_SHARE)
