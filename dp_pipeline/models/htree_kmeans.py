"""htree_kmeans: the default. A tree that spends ε along each path, deep where rows are dense."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.models.base import clustering_columns
from dp_pipeline.models.clustering import Clustering
from dp_pipeline.models.residual_step import move_by_residuals
from dp_pipeline.models.tree_growth import grow
from dp_pipeline.release.bit_tree import BitTree
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.measurement import variance
from dp_pipeline.release.synopsis import Synopsis
from dp_pipeline.release.weighted_kmeans import cluster_synopsis
from dp_pipeline.schema.parameters import integer

ENOUGH = 50.0
"""Rows a cluster, in units of the noise's scale, from which on centres are moved."""


@dataclass(frozen=True)
class HTreeKMeans(Clustering):
    """Count boxes of a tree, deeper where noisy counts are large, and cluster its leaves.

    k           number of centres that the tree is planned for
    columns     numeric attributes, d of them; all when empty
    recluster   number of centres to release instead of k, k when None: from the same tree,
                at no cost
    starts      starts of the weighted k-means

    With three columns or more, a share φ = min(0.4, d/16) of ε is kept from the tree.
    Where the tree shows a strong signal it moves the k centres (``residual_step``); else
    it counts the leaves once more.

    *Proof.* One tree session at (1 − φ)ε: ``gate.tree_session`` proves that the counts along
    every root-to-leaf path cost exactly that, and that siblings are disjoint. Which node is
    counted next, with how many shares and how far below, is a function of earlier noisy
    counts, of ε, k, d and the reach (``tree_growth``); no number of rows enters. What φε
    is used for is a function of noisy counts; leaves are disjoint, Δ1 = 1, and the
    residuals have their own proof. The centres that these are of depend on answers and
    measuring parameters alone. Agreement between levels and k-means are post-processing. ∎

    Source: our own; sharing ε along paths instead of levels, a budget that grows towards the
    leaves (Cormode, Procopiuc, Srivastava, Shen, Yu, ICDE 2012), inverse-variance
    consistency (Hay, Rastogi, Miklau, Suciu, VLDB 2010).
    """

    summary: ClassVar[str] = "k-means on a noisy tree that is deep where rows are dense"

    recluster: int | None = integer(None, at_least=1, at_most=10_000)
    starts: int = integer(10, at_least=1, at_most=1000, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: np.random.Generator) -> Clusters:
        """Centres (k, d) and the tree's leaves as synopsis; spends exactly ``epsilon``."""
        columns = clustering_columns(self.columns, curator.domain)
        kept = _kept_share(len(columns)) * epsilon
        synopsis, signal = self._tree(curator, columns, epsilon - kept, kept)
        clusters = self._clusters(synopsis, self.k, _generator(synopsis))
        if kept and signal >= ENOUGH:
            moved = move_by_residuals(curator, clusters.centres, synopsis, epsilon=kept)
            clusters = Clusters(columns, moved, synopsis)
        return clusters if self.recluster is None else self._clusters(synopsis, self.recluster, rng)

    def _tree(
        self, curator: Curator, columns: tuple[str, ...], epsilon: Fraction, kept: Fraction
    ) -> tuple[Synopsis, float]:
        """The noisy leaves, and the signal a cluster; spends ``kept`` too if that is weak."""
        box = curator.domain.box(columns)
        tree = BitTree.over(columns, box)
        session = curator.open_tree(tree, epsilon=epsilon)
        grown = grow(session, tree, clusters=self.k, rate=float(epsilon) / curator.reach)
        session.close()
        if kept and grown.plan.signal < ENOUGH:
            positions, nodes = grown.noisy.leaves
            again = curator.measure_boxes(tree, nodes, epsilon=kept)
            spread = np.full(len(nodes), variance(again.scale))
            grown.noisy.count_again(positions, again.table, spread)
        nodes, weights = grown.counts()
        return Synopsis(columns, *tree.boxes(nodes, box), weights), grown.plan.signal

    def _clusters(self, synopsis: Synopsis, k: int, rng: np.random.Generator) -> Clusters:
        centres = cluster_synopsis(synopsis.refined(), k=k, starts=self.starts, rng=rng)
        return Clusters(synopsis.columns, centres, synopsis)


def _kept_share(dimensions: int) -> Fraction:
    """φ: the share of ε that is not the tree's."""
    return Fraction(0) if dimensions < 3 else min(Fraction(2, 5), Fraction(dimensions, 16))


def _generator(synopsis: Synopsis) -> np.random.Generator:
    """Starts of k-means as a function of the noisy answers: a later question depends on the
    centres, so no other generator may choose them.
    """
    digest = hashlib.sha256(synopsis.weights.tobytes()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16]))
