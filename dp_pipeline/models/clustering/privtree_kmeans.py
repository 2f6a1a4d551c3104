"""privtree_kmeans: k-means on the leaves of a PrivTree, the honest yardstick among trees."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.parameters import integer, share
from dp_pipeline.gate.curator import Curator
from dp_pipeline.models.base import clustering_columns
from dp_pipeline.models.clustering.base import SynopsisClustering
from dp_pipeline.models.clustering.htree_kmeans import MOST_NODES
from dp_pipeline.results.clusters import Clusters, Synopsis
from dp_pipeline.results.measurement import variance
from dp_pipeline.results.trees import BitTree, CountedBoxes, Prefixes


@dataclass(frozen=True)
class PrivTreeKMeans(SynopsisClustering):
    """k-means on the noisy leaves of a PrivTree, whose noise does not grow with its depth.

    shape    share of ε for the splits (paper: 0.5)
    levels   most splits from the whole box to a leaf

    A box is halved on min(d, 4) axes at once, the longest sides first. Splitting ends
    where boxes are as fine as the coordinates, at ``levels``, or at 400,000 boxes.

    *Proof.* The splits cost shape·ε (``gate.trees``). The leaves are disjoint, so
    one measure of them at (1 − shape)·ε has Δ1 = 1 under add/remove, times the distance. The
    cap is a function of the splits. k-means is post-processing. ∎

    Source: Zhang, Xiao, Xie, "PrivTree", SIGMOD 2016, with θ = 0; fresh leaf counts.
    """

    summary: ClassVar[str] = "k-means on the noisy leaves of a PrivTree over the declared box"

    shape: Fraction = share(Fraction(1, 2))
    levels: int = integer(40, at_least=1, at_most=40, measuring=True)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> Clusters:
        """Return centres (k, d) and noisy leaves as synopsis; ``rng`` draws starts of k-means.

        k-means reads leaves with a positive count in equal parts, if there are few of them.
        """
        columns = clustering_columns(self.columns, curator.domain)
        box = curator.domain.box(columns)
        tree, bits = BitTree.over(columns, box), min(len(columns), 4)
        session = curator.open_splits(tree, bits=bits, epsilon=epsilon * self.shape)
        deepest = min(tree.depth, bits * self.levels)
        live, unsplit, nodes = Prefixes.root(), [], 1
        while len(live):
            is_split = (
                session.decide_splits(live) & (live.depths + bits <= deepest) & (nodes < MOST_NODES)
            )
            unsplit.append(live.where(~is_split))
            live = live.where(is_split).children(bits)
            nodes += len(live)
        leaves = Prefixes.concatenate(unsplit)
        noisy = curator.measure_boxes(tree, leaves, epsilon=epsilon * (1 - self.shape))
        weights = noisy.table.astype(np.float64)
        counted = CountedBoxes.of_tree(tree, leaves, box, weights, variance(noisy.scale))
        deviations = np.sqrt(counted.variances)
        boxes = tree.boxes(leaves, box)
        synopsis = Synopsis(columns, *boxes, weights, deviations, counted)
        # Cut like htree's boxes: a yardstick should not lose by what costs nothing.
        clusters = self.clusters(synopsis.refined(), rng)
        return replace(clusters, synopsis=synopsis)
