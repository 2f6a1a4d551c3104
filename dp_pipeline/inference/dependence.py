"""How far pairs of attributes are from independence, and what measured pairs predict of the others,
from released numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names

FEWEST_OTHERS = 3
"""Fewest pairs outside a tree that show how well it predicts: with two, any correlation is 1."""


@dataclass(frozen=True)
class Dependence:
    """The pairwise dependences between d attributes, as symmetric arrays.

    names   names of the attributes
    scores  (d, d) distances of pairs from independence, ‖c_ij − c_i c_jᵀ/n‖₁ or estimates of it,
            in rows
    most    (d, d) about the distances if each attribute decided the other, in rows; 0 where that is
            not known, and no path predicts such a pair

    Along a chain a – b – c of binary attributes where a and c depend on each other through b
    alone, strengths are the |correlations|, and that of (a, c) is their product. So a pair that no
    table has is predicted by the best product along measured pairs, as far as the attributes form
    chains: ``explained``.

    >>> chain = Dependence.of(("a", "b", "c"), {("a", "b"): 80.0, ("b", "c"): 80.0},
    ...     spread=dict.fromkeys("abc", 0.5), rows=100.0)
    >>> chain.paths([("a", "b"), ("b", "c")])[0].round(2).tolist()
    [1.0, 0.8, 0.64]
    """

    names: Names
    scores: FloatArray
    most: FloatArray

    @classmethod
    def of(
        cls,
        names: Iterable[str],
        scores: Mapping[tuple[str, str], float],
        *,
        spread: Mapping[str, float],
        rows: float,
    ) -> Dependence:
        """Return the dependences between attributes from scores of some pairs; those of others are
        unknown, and 0.

        scores   pair → distance from independence, in rows
        spread   attribute → 1 − Σ p² over the shares p of its levels
        rows     number of rows, at least 1
        """
        names = tuple(names)
        place = {name: place for place, name in enumerate(names)}
        of_pairs, most = np.zeros((2, len(names), len(names)))
        for (a, b), score in scores.items():
            i, j = place[a], place[b]
            of_pairs[i, j] = of_pairs[j, i] = score
            most[i, j] = most[j, i] = 2 * rows * max(1e-9, spread[a] * spread[b]) ** 0.5
        return cls(names, of_pairs, most)

    @cached_property
    def strengths(self) -> FloatArray:
        """The strength of each pair's dependence (d, d): its score divided by ``most``, 1 at most,
        or 0 where that is unknown."""
        shares = self.scores / np.where(self.most > 0, self.most, np.inf)
        return np.asarray(np.clip(shares, 0.0, 1.0))

    def paths(self, pairs: Iterable[tuple[str, str]]) -> FloatArray:
        """Return the largest product of strengths along any path of these pairs, between any two
        attributes (d, d): 0 without a path, 1 on the diagonal."""
        place = {name: place for place, name in enumerate(self.names)}
        best = np.eye(len(self.names))
        for a, b in pairs:
            i, j = place[a], place[b]
            best[i, j] = best[j, i] = self.strengths[i, j]
        return _closure(best)

    def with_table(self, paths: FloatArray, places: Sequence[int]) -> FloatArray:
        """Return the largest products of strengths along paths (d, d) that may also use all pairs
        of one more table.

        paths    the products without the table, as ``Dependence.paths`` returns them
        places   positions of the table's attributes
        """
        cells = np.ix_(places, places)
        inside = _closure(np.maximum(self.strengths[cells], paths[cells]))
        to_table = paths[:, places]
        through = (to_table[:, :, None] * inside[None]).max(axis=1)
        best = paths.copy()
        for place in range(len(places)):
            np.maximum(best, through[:, place, None] * to_table[None, :, place], out=best)
        return best

    def unexplained(self, paths: FloatArray) -> FloatArray:
        """Return the part of every pair's score, in rows, that paths do not predict, (…, pairs).

        paths   largest products of strengths along paths, (…, d, d)
        """
        d = len(self.names)
        places = np.ravel_multi_index(np.triu_indices(d, 1), (d, d))
        strengths = self.strengths.take(places)
        part = self.explained * paths.reshape(*paths.shape[:-2], d * d).take(places, axis=-1)
        part /= np.where(strengths > 0, strengths, np.inf)
        return np.asarray(self.scores.take(places) * np.maximum(0.0, 1 - part))

    @cached_property
    def predicted_by_tree(self) -> dict[tuple[str, str], float]:
        """Pair → the score, in rows, that the tree of the strongest pairs predicts: ``most`` times
        the product of strengths along it. Only the pairs with a strength outside the tree."""
        import networkx as nx

        graph = nx.from_numpy_array(self.strengths)
        tree = nx.maximum_spanning_tree(graph)
        predicted = self.most * self.paths((self.names[i], self.names[j]) for i, j in tree.edges)
        return {
            (self.names[i], self.names[j]): float(predicted[i, j])
            for i, j in graph.edges
            if not tree.has_edge(i, j)
        }

    @cached_property
    def explained(self) -> float:
        """The share of a pair's dependence that the product along a path explains, 0 to 1, or 0.5
        where too few pairs show it.

        It is the slope of the regression of the scores outside the tree of the strongest pairs on
        what that tree predicts, times their correlation: 1 where attributes form chains, and little
        where they depend on each other otherwise or noise hides how.
        """
        # Without strengths there is no tree: a plan imports no library of graphs.
        if not self.strengths.any() or len(self.predicted_by_tree) < FEWEST_OTHERS:
            return 0.5
        place = {name: place for place, name in enumerate(self.names)}
        scores = [self.scores[place[a], place[b]] for a, b in self.predicted_by_tree]
        (of_predicted, both), (_, of_scores) = np.cov(list(self.predicted_by_tree.values()), scores)
        if min(of_predicted, of_scores, both) <= 0:
            return 0.0
        return float(min(1.0, both**2 / (of_predicted**1.5 * of_scores**0.5)))


def _closure(best: FloatArray) -> FloatArray:
    """Return the largest products along paths of any length (d, d), from those of single steps."""
    for via in range(len(best)):
        best = np.maximum(best, best[:, via, None] * best[None, via, :])
    return best
