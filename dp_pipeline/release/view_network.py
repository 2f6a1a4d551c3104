"""A Bayesian network from overlapping views: every family by maximum entropy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from dp_pipeline.release.ancestral_sampling import Conditional
from dp_pipeline.release.consistency import marginal_of
from dp_pipeline.release.max_entropy import max_entropy
from dp_pipeline.schema.encoding import FloatArray

Names = tuple[str, ...]

SWEEPS = 30
"""Of the fit of one family: what is left after them is far below the noise of any view."""


def view_network(
    views: Mapping[Names, FloatArray], sizes: Mapping[str, int], *, most_cells: int
) -> tuple[Conditional, ...]:
    """Every attribute of ``sizes`` once, after its parents: what ``sample_network`` draws from.

    views        attributes → cells ≥ 0, nearly consistent; every two attributes are in one
    most_cells   of a family's table, unless the attribute alone has more

    First comes the attribute that depends most on all others, then always the one that depends
    most on one that is placed. Its parents are the placed attributes that it depends on most,
    as many as fit; the table over them is the one of largest entropy that agrees with the
    views. Two attributes depend on each other by half the L1 distance of their table from
    independence.

    >>> same = {("a", "b"): np.diag([2.0, 2.0]), ("b", "c"): np.diag([2.0, 2.0])}
    >>> every = same | {("a", "c"): np.diag([2.0, 2.0])}
    >>> [one.parents for one in view_network(every, {"a": 2, "b": 2, "c": 2}, most_cells=4)]
    [(), ('a',), ('a',)]
    """
    names = tuple(sizes)
    dependence = _dependence(views, names)
    placed = [int(np.argmax(dependence.sum(axis=0)))]
    families: list[Names] = [()]
    while len(placed) < len(names):
        strongest = dependence[placed].max(axis=0)
        strongest[placed] = -1
        child = int(np.argmax(strongest))
        order = sorted(placed, key=lambda at: -dependence[child, at])
        families.append(_parents([names[at] for at in order], names[child], sizes, most_cells))
        placed.append(child)
    return tuple(
        Conditional(
            names[at], parents, max_entropy((*parents, names[at]), views, sizes, sweeps=SWEEPS)
        )
        for at, parents in zip(placed, families, strict=True)
    )


def _parents(
    ordered: Sequence[str], child: str, sizes: Mapping[str, int], most_cells: int
) -> Names:
    """The first of ``ordered`` that fit beside the child."""
    parents: list[str] = []
    cells = sizes[child]
    for name in ordered:
        if cells * sizes[name] <= most_cells:
            parents.append(name)
            cells *= sizes[name]
    return tuple(parents)


def _dependence(views: Mapping[Names, FloatArray], names: Names) -> FloatArray:
    """Distance of every pair from independence, (d, d), in rows; 0 on the diagonal."""
    places = {name: at for at, name in enumerate(names)}
    found = np.zeros((len(names), len(names)))
    for view, table in views.items():
        for pair in combinations(view, 2):
            cells = marginal_of(table, view, pair)
            product = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / max(1e-9, cells.sum())
            at = places[pair[0]], places[pair[1]]
            found[at] = found[at[::-1]] = np.abs(cells - product).sum() / 2
    return found
