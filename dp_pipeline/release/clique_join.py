"""Rows from the tables of a junction tree: Clique-Join with counts instead of single draws."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dp_pipeline.release.junction_tree import JunctionTree, cell_count
from dp_pipeline.schema.encoding import FloatArray, IntArray
from dp_pipeline.schema.errors import BoundaryViolation

Names = tuple[str, ...]

GOLDEN = (math.sqrt(5) - 1) / 2
"""The step along which numbers mod 1 fill the unit interval most evenly."""


def join_cliques(
    tree: JunctionTree,
    tables: Mapping[Names, FloatArray],
    rows: int,
    rng: np.random.Generator,
    sizes: Mapping[str, int],
) -> IntArray:
    """Synthetic codes (rows, attributes), columns in the order of ``sizes``, rows in no order.

    tables   clique of the tree → cells ≥ 0 of any total; axes in the clique's order
    sizes    cells of every attribute that some clique has

    The root's cells are ∝ its table, then every clique's other attributes are drawn given its
    separator (Clique-Join: Zhang et al., J. Computer Research and Development 55(12), 2018).
    A slice of nothing is replaced by the table's marginal over those attributes, that by equal
    cells. Every number of rows is its expectation, rounded up or down without bias
    (:func:`rounded_counts`), so tables of rows lie closer to ``tables`` than independent draws.
    BoundaryViolation for attributes of ``sizes`` that no clique has, or the reverse.

    >>> tree = JunctionTree((("a", "b"),), ())
    >>> tables = {("a", "b"): np.array([[1.0, 0.0], [1.0, 2.0]])}
    >>> codes = join_cliques(tree, tables, 8, np.random.default_rng(0), {"b": 2, "a": 2})
    >>> np.unique(codes, axis=0, return_counts=True)[1].tolist()
    [2, 2, 4]
    """
    _require_covered(tree, sizes)
    places = {name: at for at, name in enumerate(sizes)}
    codes = np.zeros((len(sizes), rows), dtype=np.int64)
    known: set[str] = set()
    for at in tree.order:
        clique = tree.cliques[at]
        given = tuple(name for name in clique if name in known)
        new = tuple(name for name in clique if name not in known)
        if not new:
            continue
        axes = [clique.index(name) for name in (*given, *new)]
        table = tables[clique].transpose(axes).reshape(cell_count(given, sizes), -1)
        groups = _keys(codes, [(places[name], sizes[name]) for name in given])
        cells, where = drawn_cells(table, groups, rng)
        levels = np.unravel_index(np.arange(table.shape[1]), [sizes[name] for name in new])
        for name, level in zip(new, levels, strict=True):
            codes[places[name], where] = level[cells]
        known.update(new)
    return codes.T


def rounded_counts(table: FloatArray, totals: IntArray, rng: np.random.Generator) -> IntArray:
    """Whole counts (g, m) with the row sums ``totals`` (g,), every row ∝ its row of ``table``.

    table   (g, m), cells ≥ 0; a row of nothing counts as the sum of all rows, or as equal cells

    Systematic sampling (Madow, Annals of Mathematical Statistics 20, 1949): the expectations of
    a row are laid end to end and the points u, u + 1, u + 2, … counted, so every count is its
    expectation rounded up or down, and its mean over u is the expectation. The u of the rows are
    golden steps from one uniform number: each is uniform, and over many rows that hold few
    points each, the sums over rows are near their expectations too.

    >>> half = np.array([[1.0, 1.0], [0.0, 3.0]])
    >>> rounded_counts(half, np.array([4, 5]), np.random.default_rng(0)).tolist()
    [[2, 2], [0, 5]]
    """
    everywhere = table.sum(axis=0) if table.any() else np.ones(table.shape[1])
    upto = np.cumsum(np.where(table.any(axis=1, keepdims=True), table, everywhere), axis=1)
    # The steps are counted over the rows that hold points: the others must not use any up.
    starts = (rng.random() + GOLDEN * np.cumsum(totals > 0)) % 1
    # Divided by the row's own last sum, so that cells of nothing at its end get nothing.
    ticks = np.floor(upto / upto[:, -1:] * totals[:, None] + starts[:, None]).astype(np.int64)
    ticks = np.minimum(ticks, totals[:, None])
    ticks[:, -1] = totals
    return np.asarray(np.diff(ticks, axis=1, prepend=0))


def drawn_cells(
    table: FloatArray, groups: IntArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """New cells (rows,) and the rows that they are for; ``groups`` says every row's slice of
    ``table``.
    """
    where = rng.permutation(len(groups))
    # Random inside its group: cells depend on nothing else that the rows already have.
    shuffled = groups.astype(np.min_scalar_type(len(table) - 1))[where]
    counts = rounded_counts(table, np.bincount(groups, minlength=len(table)), rng)
    cells = np.repeat(np.tile(np.arange(table.shape[1]), len(table)), counts.ravel())
    return cells, where[np.argsort(shuffled, kind="stable")]


def _keys(codes: IntArray, given: list[tuple[int, int]]) -> IntArray:
    """The cell of every row in the table over some attributes, (place, size) each."""
    keys = np.zeros(codes.shape[1], dtype=np.int64)
    for place, size in given:
        keys = keys * size + codes[place]
    return keys


def _require_covered(tree: JunctionTree, sizes: Mapping[str, int]) -> None:
    covered = {name for clique in tree.cliques for name in clique}
    if covered != set(sizes):
        raise BoundaryViolation(
            f"clique join: expected cliques over {', '.join(sizes)}, "
            f"got {', '.join(sorted(covered)) or 'none'}"
        )
