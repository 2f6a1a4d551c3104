"""htree_kmeans: the default. A tree that spends ε along each path, deep where rows are dense."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.models.base import clustering_columns
from dp_pipeline.models.clustering import Clustering
from dp_pipeline.models.parameters import integer
from dp_pipeline.models.tree_growth import grow
from dp_pipeline.release.bit_tree import BitTree
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.quadtree import Synopsis
from dp_pipeline.release.weighted_kmeans import cluster_synopsis


@dataclass(frozen=True)
class HTreeKMeans(Clustering):
    """Count boxes of a tree, deeper where noisy counts are large, and cluster its leaves.

    k           number of centres that the tree is planned for
    columns     numeric attributes, d of them; all when empty
    recluster   number of centres to release instead of k, k when None: from the same tree,
                at no cost
    starts      starts of the weighted k-means

    *Proof.* One tree session at ε: ``gate.tree_session`` proves that the counts along every
    root-to-leaf path cost exactly ε, and that siblings are disjoint. Which node is counted
    next, with how many shares and how far below, is a function of earlier noisy counts, of
    ε, k, d and the reach (``tree_growth``); no number of rows enters. Agreement between
    levels and k-means are post-processing. ∎

    Source: our own; sharing ε along paths instead of levels, a budget that grows towards the
    leaves (Cormode, Procopiuc, Srivastava, Shen, Yu, ICDE 2012), inverse-variance
    consistency (Hay, Rastogi, Miklau, Suciu, VLDB 2010).
    """

    summary: ClassVar[str] = "k-means on a noisy tree that is deep where rows are dense"

    recluster: int | None = integer(None, at_least=1, at_most=10_000)
    starts: int = integer(10, at_least=1, at_most=1000)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        """Centres (k, d) and the tree's leaves as synopsis; spends exactly ``epsilon``."""
        columns = clustering_columns(self.columns, curator.domain)
        box = curator.domain.box(columns)
        tree = BitTree.over(columns, box)
        session = curator.open_tree(tree, epsilon=epsilon)
        rate = float(epsilon) / curator.reach
        nodes, weights = grow(session, tree, clusters=self.k, rate=rate)
        session.close()
        synopsis = Synopsis(columns, *tree.boxes(nodes, box), weights)
        k = self.recluster or self.k
        centres = cluster_synopsis(synopsis.refined(), k=k, starts=self.starts, rng=rng)
        return Clusters(columns, centres, synopsis)
