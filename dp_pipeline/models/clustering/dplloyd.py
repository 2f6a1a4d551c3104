"""DPLloyd: noisy k-means with planned rounds and budgets (Su, Cao, Li, Bertino, Jin, 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.parameters import integer
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.kmeans import pack_spheres
from dp_pipeline.models.base import planning_units
from dp_pipeline.models.clustering.base import Clustering, round_budgets
from dp_pipeline.results.clusters import Clusters

FEWEST_ROUNDS, MOST_ROUNDS = 2, 7
_RHO = 0.225
"""ρ, the paper's constant."""


@dataclass(frozen=True)
class DpLloyd(Clustering):
    """Noisy k-means from packed spheres, with as many rounds as their noise allows.

    k              number of centres
    columns        numeric attributes, d of them; all when empty
    nominal_rows   declared number of rows N; a paid noisy count when None

    T = ε/ε_m rounds, in 2..7, with ε_m = √(500·k³/N²·(d + c)³) and c = (4dρ²)^{1/3},
    ρ = 0.225. In a round c/(d + c) of its ε goes to the sizes.

    *Proof.* T is a function of k, d, ε and N, which is declared or paid for. A round at
    e = ε/T is two measures of disjoint clusters, under add/remove, times the distance:
    sizes with Δ1 = 1 and sums of fixed-point coordinates with Δ1 = d·2^16, at shares
    of e that add up to e. The start reads the box alone. Sum: ε. ∎
    As published it is not ε-DP: the box is the data's own and T reads the exact N.

    Source: Su et al. 2016, DPLloyd.
    """

    summary: ClassVar[str] = "k-means by noisy rounds, as many as their noise allows"

    nominal_rows: int | None = integer(None, at_least=1, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy sizes of the last round; spend exactly ``epsilon``."""
        lloyd = self.lloyd(curator)
        dimensions = len(lloyd.columns)
        units, remaining = planning_units(curator, self.nominal_rows, epsilon)
        start = pack_spheres(self.k, lloyd.box, rng)
        rounds = planned_rounds(units, float(remaining), k=self.k, dimensions=dimensions)
        budgets, share = round_budgets(remaining, rounds), least_error(dimensions)
        return lloyd.rounds(start[None], budgets, sizes_share=share).clusters()


def planned_rounds(units: float, epsilon: float, *, k: int, dimensions: int) -> int:
    """Return the number of rounds ⌊ε/ε_m⌋, at least 2 and at most 7.

    >>> planned_rounds(100_000, 1.0, k=5, dimensions=2)
    7
    """
    d = dimensions
    least = sqrt(500 * k**3 / units**2 * (d + float(_sizes_weight(d))) ** 3)
    return max(FEWEST_ROUNDS, min(MOST_ROUNDS, int(epsilon / least)))


def least_error(dimensions: int) -> Fraction:
    """Return the share of ε for sizes that minimises the error of a centre: c/(d + c)."""
    weight = _sizes_weight(dimensions)
    return weight / (dimensions + weight)


def _sizes_weight(dimensions: int) -> Fraction:
    """Return the weight c = (4dρ²)^{1/3} of sizes against coordinates, rounded to thousandths."""
    return Fraction(round(1000 * (4 * dimensions * _RHO**2) ** (1 / 3)), 1000)
