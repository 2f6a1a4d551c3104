"""The base of clustering models: columns, a noisy grid, noisy rounds of Lloyd's algorithm, and
clustering of a synopsis.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Coordinate, FloatArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import integer, names
from dp_pipeline.gate.counter import MAX_GRID_CELLS
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

    k         number of centres
    columns   numeric attributes, d of them; all when empty

    most_columns   most columns that the method's grid can have; None where it has no grid
    """

    most_columns: ClassVar[int | None] = None
    uncounted: ClassVar[str] = "centres alone"

    k: int = integer(8, at_least=1, at_most=10_000, measuring=True)
    columns: tuple[str, ...] = names()

    def check(self, domain: Domain) -> None:
        """Raise DeclarationError unless the columns are numeric attributes, and not too many."""
        count = len(clustering_columns(self.columns, domain))
        if self.most_columns is not None and count > self.most_columns:
            raise DeclarationError(
                f"A clustering by this grid takes at most {self.most_columns} columns, not "
                f"{count}: name fewer in `columns`, pass fewer in X, or choose another method"
            )

    def lloyd(self, curator: Curator) -> "Lloyd":
        """Return the queries of k-means in the model's columns; nothing is measured yet."""
        return Lloyd(curator, clustering_columns(self.columns, curator.domain))


@dataclass(frozen=True)
class SynopsisClustering(Clustering):
    """A clustering model that measures noisy boxes once and then clusters them for no further ε.

    starts   starts of the weighted k-means
    """

    k: int = integer(8, at_least=1, at_most=10_000)
    starts: int = integer(10, at_least=1, at_most=1000)

    def clusters(self, synopsis: Synopsis, rng: Generator) -> Clusters:
        """Return the best centres of ``starts`` runs of weighted k-means on a synopsis, with the
        synopsis."""
        centres = cluster_synopsis(synopsis, k=self.k, starts=self.starts, rng=rng)
        return Clusters(synopsis.columns, centres, synopsis)


def cells_per_axis(units: float, epsilon: float, dimensions: int) -> int:
    """Return the cells on each axis of a grid, ⌊M^{1/d}⌋ with M = (units·ε/10)^{2d/(2+d)}; at least
    1, and at most ``MAX_GRID_CELLS`` cells in all.

    >>> cells_per_axis(100_000, 1.0, 2)
    100
    """
    cells = (units * epsilon / 10) ** (2 / (2 + dimensions))
    most = MAX_GRID_CELLS ** (1 / dimensions)
    # A root that floats put a hair below an integer is that integer.
    return max(1, int(min(cells, most) + 1e-9))


@dataclass(frozen=True)
class NoisyMeans:
    """The noisy means of clusters in m subsets of the rows.

    centres   float (m, k, d), data units, inside the box
    sizes     float (m, k), noisy rows; may be negative
    """

    columns: tuple[str, ...]
    centres: FloatArray
    sizes: FloatArray

    def clusters(self) -> Clusters:
        """Return centres and sizes of the first subset, which is all rows if it is the only one."""
        return Clusters(self.columns, self.centres[0], sizes=self.sizes[0])


@dataclass(frozen=True)
class Lloyd:
    """The private queries of k-means in some columns: a noisy grid, and noisy rounds of Lloyd's
    algorithm."""

    curator: Curator
    columns: tuple[str, ...]

    @property
    def box(self) -> tuple[Coordinate, ...]:
        return self.curator.domain.box(self.columns)

    def grid(self, *, units: float, epsilon: Fraction) -> Synopsis:
        """Measure the cells of a grid, as many as suit the rows at this ε; return them as noisy
        boxes.

        units   number of rows, divided by the most rows of a person

        *Proof.* All cells of the declared box are measured, empty ones included; one row is
        in one cell, so Δ1 = 1 under add/remove, times the distance: it costs ε. ∎
        """
        columns, cells = self.columns, cells_per_axis(units, float(epsilon), len(self.columns))
        grid = self.curator.measure_grid(columns, cells=cells, epsilon=epsilon)
        synopsis = Synopsis.of_grid(grid.table.astype(np.float64), columns, self.box)
        boxes, weights = (synopsis.lower, synopsis.upper), synopsis.weights
        variances = np.full(len(weights), variance(grid.scale))
        positions = np.arange(len(weights))
        shape = grid.table.shape
        counted = CountedBoxes(columns, shape, positions, *boxes, weights, variances)
        return replace(synopsis, deviations=np.sqrt(variances), counted=counted)

    def rounds(
        self,
        centres: FloatArray,
        epsilons: Sequence[Fraction],
        *,
        sizes_share: Fraction | None = None,
        salt: int = 0,
    ) -> NoisyMeans:
        """Measure, at each of ``epsilons``, the rows nearest to each centre of the round before;
        return the noisy means of the last round, which are noisy totals over noisy sizes.

        centres       (m, k, d) in data units, k for each of m subsets of the rows; rounded to
                      fixed point, and to the box, before rows are assigned to them. Without any ε,
                      they are returned with sizes of 0
        sizes_share   share of ε for the sizes; the totals get the rest. None: 1/(d + 1), at which a
                      size, in rows, and a total, in half-widths of the box, have the same noise
        salt          seed of the hash that divides rows into subsets

        *Proof.* One row is in one subset and nearest to one centre. Sizes: Δ1 = 1.
        Totals of fixed-point coordinates: Δ1 = d·2^16. Two units, so two measures,
        and their ε add up to that of the round. A centre whose **noisy** size is below 1 stays
        at its rounded place; the true size is never looked at. ∎
        """
        share = Fraction(1, len(self.columns) + 1) if sizes_share is None else sizes_share
        means = NoisyMeans(self.columns, centres, np.zeros(centres.shape[:2]))
        for epsilon in epsilons:
            rules = [NearestCentre.of(self.columns, subset, self.box) for subset in means.centres]
            noisy = self.curator.measure_clusters(
                rules,
                sizes_epsilon=epsilon * share,
                totals_epsilon=epsilon * (1 - share),
                salt=salt,
            )
            of_rows = noisy.totals / np.maximum(noisy.sizes, 1)[..., None]
            axes = [side.decode(of_rows[..., axis]) for axis, side in enumerate(self.box)]
            sought = np.stack([rule.centres_in(self.box) for rule in rules])
            stays = (noisy.sizes < 1)[..., None]
            moved = np.where(stays, sought, np.stack(axes, axis=-1))
            means = NoisyMeans(self.columns, moved, noisy.sizes.astype(np.float64))
        return means


def round_budgets(epsilon: Fraction, rounds: int, budgets: str = "fixed") -> tuple[Fraction, ...]:
    """Return the ε of every round, which add up to ``epsilon``.

    ``fixed``: equal shares; ``halving``: ε/2, ε/4, …, the last gets the rest.

    >>> [str(share) for share in round_budgets(Fraction(1), 3, "halving")]
    ['1/2', '1/4', '1/4']
    """
    halved = [1 << (rounds - 1 - i) for i in range(1, rounds)] + [1]
    return split(epsilon, halved if budgets == "halving" else [1] * rounds)
