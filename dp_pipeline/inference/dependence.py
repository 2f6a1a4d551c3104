"""Dependence: how far pairs of attributes are from independence, and what measured pairs tell of
the others.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_pipeline.spec.encoding import FloatArray, IntArray, Names

Gaps = Mapping[tuple[str, str], float]

FEWEST_OTHERS = 3
"""Pairs outside a tree from which it can be seen what the tree tells."""
UNSEEN = 0.5
"""What is taken for it where there are fewer."""


STEPS = 128
"""Of what a gap may be, where its mean is computed."""

LEAST_MEAN = 1e-3
"""Of the gaps before they are looked at, in reaches of their noise."""


def likely_gaps(
    noisy: FloatArray,
    beside: FloatArray,
    *,
    reach: float,
    density: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """What gaps are likely to be, by their noisy values.

    noisy     (pairs,): √(g² + b²) and noise, for gaps of g rows
    beside    (pairs,): b, the rows that the noise of one-way marginals puts there
    reach     rows beyond which there is next to no noise
    density   of the noise, but for a factor

    The mean of g given its noisy value, where g is exponential with the mean that they have
    together.

    >>> noisy, none = np.array([-9.0, 1.0, 50.0]), np.zeros(3)
    >>> likely_gaps(noisy, none, reach=5.0, density=np.ones_like).round(1).tolist()
    [0.0, 2.8, 49.4]
    """
    square = max(0.0, float(noisy.mean())) ** 2 - float((beside**2).mean())
    mean = max(square, 0.0) ** 0.5 + LEAST_MEAN * reach
    low = np.sqrt(np.maximum(0.0, np.maximum(0.0, noisy - reach) ** 2 - beside**2))
    width = np.maximum(0.0, noisy + reach - low)
    steps = (np.arange(STEPS) + 0.5) / STEPS
    # Squares of steps: denser where an exponential distribution has its mass.
    above = width[:, None] * steps**2
    off = noisy[:, None] - np.hypot(low[:, None] + above, beside[:, None])
    weights = density(off) * np.exp(-above / mean) * steps
    total = weights.sum(axis=1)
    within = (weights * above).sum(axis=1) / np.where(total > 0, total, 1.0)
    return np.asarray(low + within)


@dataclass(frozen=True)
class Dependence:
    """Symmetric arrays over d attributes.

    names       of the attributes
    gaps        (d, d): rows by which a pair is off from independence, ‖c_ij − c_i c_jᵀ/n‖₁, about
    strengths   (d, d): that as a share of what two attributes have that tell each other, 0 to 1;
                0 where that is not known, and no path tells such a pair anything

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
    strengths: FloatArray

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
        of_pairs, strengths = np.zeros((2, len(names), len(names)))
        for (a, b), gap in gaps.items():
            i, j = place[a], place[b]
            of_pairs[i, j] = of_pairs[j, i] = gap
            if spread is not None:
                most = 2 * rows * max(1e-9, spread[a] * spread[b]) ** 0.5
                strengths[i, j] = strengths[j, i] = min(1.0, max(0.0, gap) / most)
        return cls(names, of_pairs, strengths)

    @cached_property
    def place(self) -> dict[str, int]:
        """Attribute → its place in the arrays."""
        return {name: at for at, name in enumerate(self.names)}

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
    def told(self) -> float:
        """How much of a path's product is taken for told, 0 to 1.

        By regression of the gaps outside the tree of the strongest pairs on what that tree says of
        them, its slope times their correlation: in a table of chains 1, and little where
        attributes depend on each other otherwise or noise hides how.
        """
        import networkx as nx

        graph = nx.from_numpy_array(self.strengths)
        tree = nx.maximum_spanning_tree(graph)
        paths = self.paths((self.names[i], self.names[j]) for i, j in tree.edges)
        others = [pair for pair in graph.edges if not tree.has_edge(*pair) and pair[0] != pair[1]]
        if len(others) < FEWEST_OTHERS:
            return UNSEEN
        i, j = np.array(others).T
        gaps = self.gaps[i, j]
        said = paths[i, j] * gaps / self.strengths[i, j]
        (of_said, both), (_, of_gaps) = np.cov(said, gaps)
        if min(of_said, of_gaps, both) <= 0:
            return 0.0
        return float(min(1.0, both**2 / (of_said**1.5 * of_gaps**0.5)))
