"""Mixtures of a few classes with independent attributes, near to which noisy tables are fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.clique_join import join_cliques
from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.tree_fit import SMALLEST_SHARE, TreeFit, product_potentials
from dp_pipeline.threads import one_thread

CLASSES = 6
"""Tuned: number of latent classes."""

STEPS = 20
"""Steps of expectation and maximisation: a limit of time, as classes then change little."""

LANCZOS_STEPS = 60
"""Most steps of Lanczos: numerical, as a component that tells classes apart needs far fewer."""

SMALLEST_STEP = 1e-10
"""Numerical: length of a Lanczos step below which no direction is left; eigenvalues are about 1."""

OF_ALL = 1e-3
"""Numerical: rows like all rows together that are added to every class, so that none is empty."""

SMALLEST_CELL = 1e-12
"""Numerical: least probability of a cell, so that its log-potential is finite."""


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """A mixture of classes with independent attributes inside each class: P(x) = Σ_c w_c Π_j P(x_j
    | c).

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
        """Return latent classes that are fitted to rows by ``STEPS`` of expectation maximisation,
        starting from equal parts of the rows along their first principal component.

        codes   (rows, attributes), at least one row; columns in the order of ``sizes``
        sizes   levels of every attribute

        Source: Dempster, Laird, Rubin 1977.

        >>> codes = np.repeat([[0, 0, 0], [1, 1, 1]], 50, axis=0)
        >>> found = LatentClasses.of(codes, {"a": 2, "b": 2, "c": 2}, classes=2)
        >>> found.table(("a", "c")).round(2).tolist()
        [[0.5, 0.0], [0.0, 0.5]]
        """
        from scipy.sparse import csr_array

        ends = np.cumsum([0, *sizes.values()])
        positions = np.repeat(np.arange(len(codes)), len(sizes)), (codes + ends[:-1]).ravel()
        # A 1 where a row has a level: (rows, all levels).
        has = csr_array((np.ones(codes.size), positions), shape=(len(codes), int(ends[-1])))
        by_level, all_shares = has.T.tocsr(), np.asarray(has.mean(axis=0)).ravel()
        belongs = _first_memberships(has, all_shares, classes)
        for step in range(STEPS + 1):
            rows = belongs.sum(axis=0)
            shares = (by_level @ belongs + OF_ALL * all_shares[:, None]) / (rows + OF_ALL)
            if step < STEPS:
                likely = has @ np.log(np.maximum(shares, SMALLEST_SHARE))
                likely += np.log(np.maximum(rows, SMALLEST_SHARE))
                belongs = np.exp(likely - likely.max(axis=1, keepdims=True))
                belongs /= belongs.sum(axis=1, keepdims=True)
        parts = [part / part.sum(axis=0) for part in np.split(shares, ends[1:-1])]
        return cls(rows / rows.sum(), dict(zip(sizes, parts, strict=True)))

    def table(self, names: Names) -> FloatArray:
        """Return the probabilities of the mixture over some attributes, one axis a name."""
        cells = self.weights[None, :]
        for name in names:
            shares = self.shares[name]
            cells = (cells[:, None, :] * shares[None, :, :]).reshape(-1, len(self.weights))
        return np.asarray(cells.sum(axis=1).reshape([len(self.shares[name]) for name in names]))


def _first_memberships(has: Any, shares: FloatArray, classes: int) -> FloatArray:
    """Return the initial memberships (rows, classes): 1 for a row's class, 0 for the others."""
    rows = has.shape[0]
    scale = 1 / np.sqrt(np.maximum(shares, 1 / rows))
    along = _first_component(has, shares, scale)
    # Its sign is the library's choice, and rows that are alike are parted by their order.
    large = np.flatnonzero(np.abs(along) >= np.abs(along).max() / 2)
    score = has @ (along * np.sign(along[large[0]]) * scale)
    place = np.empty(rows, dtype=np.int64)
    place[np.argsort(score, kind="stable")] = np.arange(rows)
    belongs = np.zeros((rows, classes))
    belongs[np.arange(rows), place * classes // rows] = 1.0
    return belongs


def _first_component(has: Any, shares: FloatArray, scale: FloatArray) -> FloatArray:
    """Return approximately the first principal component of scaled indicators, (levels,).

    It is the best direction among those that Lanczos steps reach from a fixed start. Source:
    Lanczos, 1950."""

    def covariance(direction: FloatArray) -> FloatArray:
        scaled = scale * direction
        return np.asarray(
            scale * (has.T @ (has @ scaled) / has.shape[0] - shares * (shares @ scaled))
        )

    direction = np.random.default_rng(0).standard_normal(len(shares))
    steps = min(LANCZOS_STEPS, len(shares))
    basis = np.empty((steps, len(shares)))
    images = np.empty_like(basis)
    for step in range(steps):
        basis[step] = direction / np.linalg.norm(direction)
        images[step] = direction = covariance(basis[step])
        # Twice, as one subtraction loses digits where little is left.
        for _ in range(2):
            direction = direction - (basis[: step + 1] @ direction) @ basis[: step + 1]
        if np.linalg.norm(direction) <= SMALLEST_STEP:
            break
    reached = basis[: step + 1]
    return np.asarray(np.linalg.eigh(reached @ images[: step + 1].T)[1][:, -1] @ reached)


MOST_MISSED = 0.3
"""Tuned: largest part of the tables' dependence beyond noise that classes may miss; a chain, for
one, is not made of a few classes."""

FIRST_STEPS = 25
"""Most steps of the first fit: a limit of time, as more change next to nothing."""

ROWS = 1 << 13
"""Rows that are drawn from the first fit to learn classes from: a limit of time."""


@one_thread()
def fit_near_classes(fit: TreeFit, extra_potentials: Sequence[FloatArray]) -> list[FloatArray]:
    """Return the probabilities of each clique's cells, one table for each node of the model, that
    fit noisy tables best, near to latent classes where these have most of the tables' dependence.

    extra_potentials   see ``TreeFit.run``

    A first fit stays near to independent attributes. Latent classes are fitted to rows drawn from
    it; if they have that dependence, a second fit stays near to them and is returned, otherwise
    a plain one. That is the only one if no table has two attributes, or one has all.
    """
    model, tables = fit.model, [set(names) for names in fit.tables]
    # One table of several attributes at least, and none of all of them.
    if set(model.sizes) in tables or not any(len(names) > 1 for names in tables):
        return fit.run(extra_potentials)
    first = fit.run(extra_potentials, iterations=FIRST_STEPS)
    # Always drawn alike: the fit must not depend on the seed of the rows that are released.
    rng = np.random.default_rng(0)
    codes = join_cliques(model.tree, model.by_clique(first), ROWS, rng, model.sizes)
    classes = LatentClasses.of(codes, model.sizes)
    if missed_dependence_share(classes, fit) > MOST_MISSED:
        return fit.run(extra_potentials)
    near = _potentials(model, classes, fit.start)
    if extra_potentials:
        near = [table + extra for table, extra in zip(near, extra_potentials, strict=True)]
    # The plainest weight: a nat away from classes counts as one deviation of noise.
    return fit.run(near, entropy=1.0)


def missed_dependence_share(classes: LatentClasses, fit: TreeFit) -> float:
    """Return the share of the tables' dependence beyond noise that the classes miss; at most 0
    where they fit within noise, and 1 if the tables have no dependence."""
    by_none = LatentClasses(np.ones(1), {n: shares[:, None] for n, shares in fit.start.items()})
    beyond = [
        sum(
            float(((table - fit.rows * model.table(names)) ** 2).sum()) / fit.variances[names]
            - table.size
            for names, table in fit.tables.items()
            if len(names) > 1
        )
        for model in (classes, by_none)
    ]
    return beyond[0] / beyond[1] if beyond[1] > 0 else 1.0


def _potentials(
    model: GraphicalModel, classes: LatentClasses, start: Mapping[str, FloatArray]
) -> list[FloatArray]:
    """Return log-potentials, one table for each node, to add to those of independent attributes
    for the distribution that the classes have on the junction tree."""
    near = []
    for node, product in zip(model.nodes, product_potentials(model, start), strict=True):
        cells = np.log(np.maximum(classes.table(node.names), SMALLEST_CELL))
        above = np.log(np.maximum(classes.table(node.names[: node.separator]), SMALLEST_CELL))
        near.append(cells - above.reshape(above.shape + (1,) * (cells.ndim - above.ndim)) - product)
    return near
