"""What the clustering models share: which columns, how many centres, clustering a synopsis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_pipeline.models.base import clustering_columns
from dp_pipeline.models.parameters import integer, names
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.quadtree import Synopsis
from dp_pipeline.release.weighted_kmeans import cluster_synopsis
from dp_pipeline.schema.domain import Domain


@dataclass(frozen=True)
class Clustering:
    """A model that releases k centres in some numeric columns."""

    k: int = integer(8, at_least=1, at_most=10_000, measuring=True)
    columns: tuple[str, ...] = names()

    def check(self, domain: Domain) -> None:
        """Raise DeclarationError unless the columns are numeric attributes."""
        clustering_columns(self.columns, domain)


@dataclass(frozen=True)
class SynopsisClustering(Clustering):
    """A model that counts boxes and clusters them: k and starts are post-processing."""

    k: int = integer(8, at_least=1, at_most=10_000)
    starts: int = integer(10, at_least=1, at_most=1000)

    def clusters(self, synopsis: Synopsis, rng: np.random.Generator) -> Clusters:
        """The best of ``starts`` weighted k-means on the synopsis, and the synopsis."""
        centres = cluster_synopsis(synopsis, k=self.k, starts=self.starts, rng=rng)
        return Clusters(synopsis.columns, centres, synopsis)
