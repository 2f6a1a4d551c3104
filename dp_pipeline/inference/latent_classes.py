"""LatentClasses: rows as a mixture of a few classes, each with independent attributes.

A first guess of a distribution that knows of dependence: noisy tables are fitted nearer to it than
to independent attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np

from dp_pipeline.files import one_thread
from dp_pipeline.inference.clique_join import join_cliques
from dp_pipeline.inference.consistency import Noisy
from dp_pipeline.inference.graphical_model import SMALLEST_SHARE, GraphicalModel, doubt, fit_tree
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.spec.encoding import FloatArray, IntArray, Names

CLASSES = 6
STEPS = 20
"""Of expectation and maximisation: classes change little after so many."""

SURE = 0.9
"""How far a row belongs to the class that it begins in."""

OF_ALL = 1e-3
"""Rows that have the shares of all rows are added to every class, so that none is empty."""

SMALLEST_CELL = 1e-12
"""No cell is ruled out: its log-potential has to be finite."""


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """P(x) = Σ_c w_c Π_j P(x_j | c).

    weights   of the classes, (k,), of sum 1
    shares    attribute → (levels, k): of its levels in every class, columns of sum 1

    Source: latent structure analysis, Lazarsfeld and Henry, 1968.
    """

    weights: FloatArray
    shares: Mapping[str, FloatArray]

    @classmethod
    @one_thread()
    def of(
        cls, codes: IntArray, sizes: Mapping[str, int], *, classes: int = CLASSES
    ) -> LatentClasses:
        """The classes that make these rows likely, by expectation and maximisation (Dempster,
        Laird, Rubin 1977) from equal parts of the rows along their first principal component.

        codes   (rows, attributes), at least one row; columns in the order of ``sizes``

        >>> codes = np.repeat([[0, 0, 0], [1, 1, 1]], 50, axis=0)
        >>> found = LatentClasses.of(codes, {"a": 2, "b": 2, "c": 2}, classes=2)
        >>> found.table(("a", "c")).round(2).tolist()
        [[0.5, 0.0], [0.0, 0.5]]
        """
        has = _indicators(codes, list(sizes.values()))
        turned, all_shares = has.T.tocsr(), np.asarray(has.mean(axis=0)).ravel()
        belongs = _begun(has, all_shares, classes)
        for step in range(STEPS + 1):
            rows = belongs.sum(axis=0)
            shares = (turned @ belongs + OF_ALL * all_shares[:, None]) / (rows + OF_ALL)
            if step < STEPS:
                likely = has @ np.log(np.maximum(shares, SMALLEST_SHARE))
                likely += np.log(np.maximum(rows, SMALLEST_SHARE))
                belongs = np.exp(likely - likely.max(axis=1, keepdims=True))
                belongs /= belongs.sum(axis=1, keepdims=True)
        ends = np.cumsum(list(sizes.values()))[:-1]
        parts = [one / one.sum(axis=0) for one in np.split(shares, ends)]
        return cls(rows / rows.sum(), dict(zip(sizes, parts, strict=True)))

    def table(self, names: Names) -> FloatArray:
        """Probabilities of all cells over some attributes, axes in this order."""
        cells = self.weights[None, :]
        for name in names:
            shares = self.shares[name]
            cells = (cells[:, None, :] * shares[None, :, :]).reshape(-1, len(self.weights))
        return np.asarray(cells.sum(axis=1).reshape([len(self.shares[name]) for name in names]))


def _indicators(codes: IntArray, sizes: Sequence[int]) -> Any:
    """1 where a row has a level, a sparse matrix (rows, all levels)."""
    from scipy.sparse import csr_array

    rows, many = codes.shape
    levels = codes.astype(np.int64) + np.cumsum([0, *sizes[:-1]])
    at = (np.repeat(np.arange(rows), many), levels.ravel())
    return csr_array((np.ones(rows * many), at), shape=(rows, sum(sizes)))


def _begun(has: Any, shares: FloatArray, classes: int) -> FloatArray:
    """How far every row belongs to every class at first, (rows, classes)."""
    rows = has.shape[0]
    scale = 1 / np.sqrt(np.maximum(shares, 1 / rows))
    together = (has.T @ has).toarray() / rows - np.outer(shares, shares)
    along = np.linalg.eigh(together * np.outer(scale, scale))[1][:, -1]
    # Its sign is the library's choice, and rows that are alike are parted by their order.
    large = np.flatnonzero(np.abs(along) >= np.abs(along).max() / 2)
    score = has @ (along * np.sign(along[large[0]]) * scale)
    place = np.empty(rows, dtype=np.int64)
    place[np.argsort(score, kind="stable")] = np.arange(rows)
    belongs = np.full((rows, classes), (1 - SURE) / classes)
    belongs[np.arange(rows), place * classes // rows] += SURE
    return belongs


LEAST_DOUBT = 0.3
"""Of ``graphical_model.doubt``: with less, tables tell so much for their noise that what they are
fitted near to hardly matters."""

FIRST_STEPS = 50
ROWS = 1 << 14
"""Of the first fit, from which classes are learned: they need no more."""

ENTROPY = 0.8
"""Weight of the entropy beside classes, more than beside independent attributes."""


def fit_all_pairs(
    tree: JunctionTree,
    model: GraphicalModel,
    measured: Sequence[Noisy],
    *,
    start: Mapping[str, FloatArray],
    beside: Sequence[FloatArray],
) -> list[FloatArray]:
    """``fit_tree``; where several tables tell all pairs of attributes and noise is much of what
    they tell, twice: the second time near to the latent classes of the first fit, in place of
    independent attributes. One table a node of the model.

    Post-processing: it reads noisy tables alone.
    """
    if not _helps(model, measured, start):
        return fit_tree(model, measured, start=start, beside=beside)
    first = fit_tree(model, measured, start=start, beside=beside, iterations=FIRST_STEPS)
    # Always drawn alike: the fit must not depend on the seed of the rows that are released.
    rng, sizes = np.random.default_rng(0), model.sizes
    codes = join_cliques(tree, model.by_clique(first), ROWS, rng, sizes)
    names = model.nodes[0].names
    cells = LatentClasses.of(codes, sizes).table(names)
    levels = [np.maximum(start[name], SMALLEST_SHARE) for name in names]
    near = np.log(np.maximum(cells, SMALLEST_CELL)) - np.log(reduce(np.multiply.outer, levels))
    near = near + beside[0] if beside else near
    return fit_tree(model, measured, start=start, beside=[near], entropy=ENTROPY)


def _helps(
    model: GraphicalModel, measured: Sequence[Noisy], start: Mapping[str, FloatArray]
) -> bool:
    """Whether several tables tell all pairs, with much noise: one clique has all attributes."""
    tables = [set(one.attributes) for one in measured]
    if any(len(one) == len(model.sizes) for one in tables):
        return False
    told = all(any(set(pair) <= one for one in tables) for pair in combinations(model.sizes, 2))
    return told and doubt(measured, start) >= LEAST_DOUBT
