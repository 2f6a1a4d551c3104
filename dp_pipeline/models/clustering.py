"""What the clustering models share: which columns, how many centres, clustering a synopsis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dp_pipeline.models.base import clustering_columns
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.synopsis import Synopsis
from dp_pipeline.release.weighted_kmeans import cluster_synopsis
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.parameters import integer, names


@dataclass(frozen=True)
class Clustering:
    """A model that releases k centres in some numeric columns.

    most_columns   None where the method has no grid
    """

    most_columns: ClassVar[int | None] = None

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
