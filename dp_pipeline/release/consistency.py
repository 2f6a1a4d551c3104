"""Mutual consistency of noisy tables: what two of them share, they agree on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from dp_pipeline.schema.encoding import FloatArray, IntArray

Names = tuple[str, ...]


def make_consistent(
    tables: Mapping[Names, FloatArray | IntArray],
    *,
    variances: Mapping[Names, float] | None = None,
) -> dict[Names, FloatArray]:
    """Tables of which every two have the same marginal over the attributes that they share.

    tables      attributes → cells, of any sign; one axis an attribute
    variances   of one cell of each table; alike in all when None

    For every shared set I, small to large, the tables over C_l ⊇ I agree on
    ccnt_I = Σ w_l Tab_l / Σ w_l, w_l = 1/∏_{j ∈ C_l∖I} |Ω_j|, divided by the variance of a cell
    (the inverse variances of their marginals), and each spreads its difference evenly over its
    cells (Zhang et al., J. Computer Research and Development 55(12), 2018, Equations 14 and 15,
    for equal variances; Qardaji et al., SIGMOD 2014). The empty set is shared by all, so totals
    agree too. Cells may be negative afterwards.

    >>> tables = {("a",): np.array([2.0, 4.0]), ("a", "b"): np.array([[1.0, 1.0], [5.0, 1.0]])}
    >>> {names: table.round(2).tolist() for names, table in make_consistent(tables).items()}
    {('a',): [2.0, 4.67], ('a', 'b'): [[1.0, 1.0], [4.33, 0.33]]}
    """
    agreed = {names: table.astype(np.float64) for names, table in tables.items()}
    noise = dict.fromkeys(agreed, 1.0) if variances is None else variances
    for shared in shared_sets(tables):
        holding = [names for names in agreed if shared <= set(names)]
        if len(holding) < 2:
            continue
        order = tuple(name for name in holding[0] if name in shared)
        marginals = np.stack([marginal_of(agreed[names], names, order) for names in holding])
        # Cells of each table in one cell of its marginal: they share its difference alike.
        others = np.array([agreed[names].size for names in holding]) / marginals[0].size
        weights = 1 / (others * [noise[names] for names in holding])
        average = np.average(marginals, axis=0, weights=weights)
        for names, marginal, cells in zip(holding, marginals, others, strict=True):
            agreed[names] = agreed[names] + spread((average - marginal) / cells, order, names)
    return agreed


def shared_sets(cliques: Iterable[Names]) -> tuple[frozenset[str], ...]:
    """All intersections of two or more cliques and the empty set, small to large.

    The sets are closed under intersection and every one comes after its subsets (a linear
    extension of ⊆, read off the Hasse diagram level by level), so no step of
    :func:`make_consistent` undoes an earlier one: tables that meet in I differ from their new
    marginal over J by what they disagree on over I ∩ J, and that was settled before.

    >>> [sorted(shared) for shared in shared_sets([("a", "b", "c"), ("b", "c", "d"), ("c", "e")])]
    [[], ['c'], ['b', 'c']]
    """
    seen: set[frozenset[str]] = set()
    closed: set[frozenset[str]] = {frozenset()}
    for clique in map(frozenset, cliques):
        # What meets an earlier clique or an earlier intersection, and each of those once.
        closed |= {clique & other for other in seen | closed}
        seen.add(clique)
    return tuple(sorted(closed, key=lambda shared: (len(shared), sorted(shared))))


def marginal_of(table: FloatArray, names: Names, onto: Collection[str]) -> FloatArray:
    """Sums of a table with axes ``names`` over what is not in ``onto``, axes in its order.

    >>> marginal_of(np.array([[1.0, 2.0], [3.0, 4.0]]), ("a", "b"), ("b",)).tolist()
    [4.0, 6.0]
    """
    left = [name for name in names if name in onto]
    summed = table.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in onto))
    return np.asarray(summed).transpose([left.index(name) for name in onto])


def spread(table: FloatArray, names: Names, over: Names) -> FloatArray:
    """A table with axes ``names`` in the shape that broadcasts over the axes ``over``.

    >>> spread(np.ones((2, 3)), ("a", "b"), ("b", "c", "a")).shape
    (3, 1, 2)
    """
    inside = table.transpose([names.index(name) for name in over if name in names])
    sizes = iter(inside.shape)
    return inside.reshape([next(sizes) if name in names else 1 for name in over])
