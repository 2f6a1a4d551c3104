"""What clustering models share: columns, the number of centres, a grid to begin with, noisy rounds
of Lloyd's algorithm, and clustering a synopsis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import integer, names
from dp_pipeline.gate.counter import MOST_GRID_CELLS
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.rules import NearestCentre
from dp_pipeline.inference.kmeans import cluster_synopsis
from dp_pipeline.models.base import Model, clustering_columns
from dp_pipeline.results.accountant import split
from dp_pipeline.results.clusters import Clusters, Synopsis
from dp_pipeline.results.measurement import variance
from dp_pipeline.results.trees import CountedBoxes


@dataclass(frozen=True)
class Clustering(Model):
    """A model that releases k centres in some numeric columns.

    most_columns   None where the method has no grid
    """

    most_columns: ClassVar[int | None] = None
    uncounted: ClassVar[str] = "centres alone"

    k: int = integer(8, at_least=1, at_most=10_000, measuring=True)
    columns: tuple[str, ...] = names()

    def check(self, domain: Domain) -> None:
        """Raise DeclarationError unless the columns are numeric attributes, and not too many."""
        found = len(clustering_columns(self.columns, domain))
        if self.most_columns is not None and found > self.most_columns:
            raise DeclarationError(
                f"clustering: expected at most {self.most_columns} columns for a grid, got {found}"
            )


@dataclass(frozen=True)
class SynopsisClustering(Clustering):
    """A model that counts boxes and clusters them: k and starts are post-processing."""

    k: int = integer(8, at_least=1, at_most=10_000)
    starts: int = integer(10, at_least=1, at_most=1000)

    def clusters(self, synopsis: Synopsis, rng: np.random.Generator) -> Clusters:
        """The best of ``starts`` weighted k-means on the synopsis, and the synopsis."""
        centres = cluster_synopsis(synopsis, k=self.k, starts=self.starts, rng=rng)
        return Clusters(synopsis.columns, centres, synopsis)


def noisy_grid(
    curator: Curator, columns: tuple[str, ...], *, units: float, epsilon: Fraction
) -> Synopsis:
    """Boxes of a grid with as many cells as ``units`` rows at this ε deserve.

    *Proof.* All cells of the declared box are measured, empty ones included; one row is
    in one cell, so Δ1 = 1 under add/remove, times the distance: it costs ε. ∎
    """
    cells = cells_per_axis(units, float(epsilon), len(columns))
    grid = curator.measure_grid(columns, cells=cells, epsilon=epsilon)
    synopsis = Synopsis.of_grid(grid.table.astype(np.float64), columns, curator.domain.box(columns))
    many = len(synopsis.weights)
    counted = CountedBoxes(
        columns,
        grid.table.shape,
        np.arange(many),
        synopsis.lower,
        synopsis.upper,
        synopsis.weights,
        np.full(many, variance(grid.scale)),
    )
    return replace(synopsis, counted=counted)


def cells_per_axis(units: float, epsilon: float, dimensions: int) -> int:
    """⌊M^{1/d}⌋ with M = (units·ε/10)^{2d/(2+d)}; at least 1, within the gate's cap.

    >>> cells_per_axis(100_000, 1.0, 2)
    100
    """
    wanted = (units * epsilon / 10) ** (2 / (2 + dimensions))
    most = MOST_GRID_CELLS ** (1 / dimensions)
    # A root that floats put a hair below a whole number is that number.
    return max(1, int(min(wanted, most) + 1e-9))


@dataclass(frozen=True)
class NoisyMeans:
    """Clusters of m subsets after a noisy round.

    centres   float (m, k, d), data units, inside the box
    sizes     float (m, k), noisy rows; may be negative
    """

    columns: tuple[str, ...]
    centres: FloatArray
    sizes: FloatArray

    def clusters(self) -> Clusters:
        """The clusters of the only subset."""
        return Clusters(self.columns, self.centres[0], sizes=self.sizes[0])


def lloyd_round(
    curator: Curator,
    columns: tuple[str, ...],
    centres: FloatArray,
    *,
    epsilon: Fraction,
    sizes_share: Fraction | None = None,
    salt: int = 0,
) -> NoisyMeans:
    """Every centre becomes the noisy total of its rows over their noisy number.

    centres       (m, k, d) in data units, one set a subset of the rows; rounded to fixed
                  point, and to the box, before rows are sought
    sizes_share   share of ε for the sizes; the totals get the rest. None: that which gives a size,
                  in rows, and a total, in half-widths, the same noise: 1/(d + 1)

    *Proof.* One row is in one subset and nearest to one centre. Sizes: Δ1 = 1.
    Totals of fixed-point coordinates: Δ1 = d·2^16. Two units, so two measures,
    and their ε add up to ``epsilon``. A centre whose **noisy** size is below 1 stays
    where it was sought; the true size is never looked at. ∎
    """
    box = curator.domain.box(columns)
    of_sizes = epsilon * (Fraction(1, len(columns) + 1) if sizes_share is None else sizes_share)
    rules = [NearestCentre.of(columns, one, box) for one in centres]
    noisy = curator.measure_clusters(
        rules,
        sizes_epsilon=of_sizes,
        totals_epsilon=epsilon - of_sizes,
        salt=salt,
    )
    means = noisy.totals / np.maximum(noisy.sizes, 1)[..., None]
    moved = np.stack([one.decode(means[..., axis]) for axis, one in enumerate(box)], axis=-1)
    asked = np.stack([rule.centres_in(box) for rule in rules])
    stays = (noisy.sizes < 1)[..., None]
    sizes = noisy.sizes.astype(np.float64)
    return NoisyMeans(columns, np.where(stays, asked, moved), sizes)


def lloyd_rounds(
    curator: Curator,
    columns: tuple[str, ...],
    centres: FloatArray,
    *,
    epsilons: Sequence[Fraction],
    sizes_share: Fraction | None = None,
    salt: int = 0,
) -> NoisyMeans:
    """One round after another, as many as there are ``epsilons``, at least one."""
    means = NoisyMeans(columns, centres, np.zeros(centres.shape[:2]))
    for epsilon in epsilons:
        means = lloyd_round(
            curator, columns, means.centres, epsilon=epsilon, sizes_share=sizes_share, salt=salt
        )
    return means


def round_budgets(epsilon: Fraction, rounds: int, budgets: str) -> tuple[Fraction, ...]:
    """ε of every round. ``fixed``: equal shares; ``halving``: ε/2, ε/4, …, the last gets the rest.

    >>> [str(one) for one in round_budgets(Fraction(1), 3, "halving")]
    ['1/2', '1/4', '1/4']
    """
    halved = [1 << (rounds - 1 - at) for at in range(1, rounds)] + [1]
    return split(epsilon, halved if budgets == "halving" else [1] * rounds)
