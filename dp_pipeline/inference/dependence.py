"""Dependence: how far pairs of attributes are from independence, and what measured pairs tell of
the others.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names

Gaps = Mapping[tuple[str, str], float]

FEWEST_OTHERS = 3
"""Pairs outside a tree from which it can be seen what the tree tells."""
UNSEEN = 0.5
"""What is taken for it where there are fewer."""


@dataclass(frozen=True)
class Dependence:
    """Symmetric arrays over d attributes.

    names   of the attributes
    gaps    (d, d): rows by which a pair is off from independence, ‖c_ij − c_i c_jᵀ/n‖₁, about
    most    (d, d): rows by which they would be if they told each other; 0 where that is not known,
            and no path tells such a pair anything

    Along a chain a – b – c of binary attributes where a and c depend on each other through b
    alone, strengths are the |correlations|, and that of (a, c) is their product. So a pair that no
    table has is told by the best product along measured pairs, as far as the table at hand is made
    of chains: ``told``.

    >>> chain = Dependence.of(("a", "b", "c"), {("a", "b"): 80.0, ("b", "c"): 80.0},
    ...     spread=dict.fromkeys("abc", 0.5), rows=100.0)
    >>> chain.paths([("a", "b"), ("b", "c")])[0].round(2).tolist()
    [1.0, 0.8, 0.64]
    """

    names: Names
    gaps: FloatArray
    most: FloatArray

    @classmethod
    def of(
        cls,
        names: Iterable[str],
        gaps: Gaps,
        *,
        spread: Mapping[str, float] | None = None,
        rows: float = 1.0,
    ) -> Dependence:
        """From pairs of names.

        spread   attribute → 1 − Σ p², of its shares; None where no strength is known
        rows     number of rows, at least 1
        """
        names = tuple(names)
        place = {name: at for at, name in enumerate(names)}
        of_pairs, most = np.zeros((2, len(names), len(names)))
        for (a, b), gap in gaps.items():
            i, j = place[a], place[b]
            of_pairs[i, j] = of_pairs[j, i] = gap
            if spread is not None:
                most[i, j] = most[j, i] = 2 * rows * max(1e-9, spread[a] * spread[b]) ** 0.5
        return cls(names, of_pairs, most)

    @cached_property
    def place(self) -> dict[str, int]:
        """Attribute → its place in the arrays."""
        return {name: at for at, name in enumerate(self.names)}

    @cached_property
    def strengths(self) -> FloatArray:
        """(d, d): gaps as shares of what they are of attributes that tell each other, 0 to 1; 0
        where that is not known.
        """
        shares = self.gaps / np.where(self.most > 0, self.most, np.inf)
        return np.asarray(np.clip(shares, 0.0, 1.0))

    def paths(self, pairs: Iterable[tuple[str, str]]) -> FloatArray:
        """(d, d): the best product of strengths along these pairs; 1 on the diagonal."""
        best = np.eye(len(self.names))
        for a, b in pairs:
            i, j = self.place[a], self.place[b]
            best[i, j] = best[j, i] = self.strengths[i, j]
        for via in range(len(best)):
            best = np.maximum(best, best[:, via, None] * best[None, via, :])
        return best

    def with_pairs(self, paths: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
        """(pairs, d, d): the same with one pair more, each by itself."""
        strength = self.strengths[first, second][:, None, None]
        through = paths[first][:, :, None] * strength * paths[second][:, None, :]
        return np.maximum(paths, np.maximum(through, through.transpose(0, 2, 1)))

    def untold(self, paths: FloatArray) -> FloatArray:
        """Rows of every gap that paths do not tell; of the same shape as ``paths``."""
        known = np.where(self.strengths > 0, self.strengths, 1.0)
        part = np.where(self.strengths > 0, self.told * paths / known, 0.0)
        return np.asarray(self.gaps * np.maximum(0.0, 1 - part))

    @cached_property
    def by_tree(self) -> dict[tuple[str, str], float]:
        """Pair outside the tree of the strongest pairs → rows of its gap by the product of
        strengths along that tree; pairs without a strength left out.
        """
        import networkx as nx

        graph = nx.from_numpy_array(self.strengths)
        tree = nx.maximum_spanning_tree(graph)
        said = self.most * self.paths((self.names[i], self.names[j]) for i, j in tree.edges)
        return {
            (self.names[i], self.names[j]): float(said[i, j])
            for i, j in graph.edges
            if not tree.has_edge(i, j)
        }

    @cached_property
    def told(self) -> float:
        """How much of a path's product is taken for told, 0 to 1.

        By regression of the gaps outside the tree of the strongest pairs on what that tree says of
        them, its slope times their correlation: in a table of chains 1, and little where
        attributes depend on each other otherwise or noise hides how.
        """
        if len(self.by_tree) < FEWEST_OTHERS:
            return UNSEEN
        gaps = [self.gaps[self.place[a], self.place[b]] for a, b in self.by_tree]
        (of_said, both), (_, of_gaps) = np.cov(list(self.by_tree.values()), gaps)
        if min(of_said, of_gaps, both) <= 0:
            return 0.0
        return float(min(1.0, both**2 / (of_said**1.5 * of_gaps**0.5)))
