"""Overlapping tables (views): designs in which every two attributes share a view, and marginals and
Bayesian networks of maximum entropy from them.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.inference.clique_join import Conditional
from dp_pipeline.inference.consistency import agree_by_ripple, ratio, spread
from dp_pipeline.results.measurement import NoisyMarginal, marginal_of


def view_tables(measured: Sequence[NoisyMarginal]) -> dict[Names, FloatArray]:
    """Return attributes → cells ≥ 0 of every measured table, nearly consistent and of one total;
    all 0 if that would not be above 0.

    measured   tables with noise of one scale, at least one

    >>> from fractions import Fraction
    >>> tall = NoisyMarginal(("a", "b"), np.array([[9, 0], [1, -2]]), Fraction(2))
    >>> wide = NoisyMarginal(("b", "c"), np.array([[6, 4], [-2, 0]]), Fraction(2))
    >>> [round(float(table.min()), 3) for table in view_tables([tall, wide]).values()]
    [0.0, 0.0]
    """
    tables = {view.attributes: view.table.astype(np.float64) for view in measured}
    return agree_by_ripple(tables, deviation=measured[0].mean_noise)


ENTROPY_SWEEPS = 500
"""Most sweeps of the fit; consistent views settle in far fewer, others not at all."""

ENTROPY_SETTLED = 1e-9
"""Change of a cell in one sweep, as a share of the total, below which the fit ends."""


def max_entropy(
    attributes: Names,
    views: Mapping[Names, FloatArray],
    sizes: Mapping[str, int],
    *,
    sweeps: int = ENTROPY_SWEEPS,
) -> FloatArray:
    """Return the cells over ``attributes``, in their order, with the largest entropy among those
    that have the marginals of the views.

    views   attributes → cells ≥ 0 that agree on what they share, one axis an attribute
    sizes   levels of every attribute
    sweeps  most sweeps over the views

    Iterative proportional fitting from equal cells: it is scaled to what each view says about
    ``attributes``, again and again, and among all tables that fit ends at the one of largest
    entropy (PriView: Qardaji, Yang, Li, SIGMOD 2014; Csiszár, Annals of Probability 3(1), 1975).
    The total is the mean of the views' totals, or 1 without views. Where no view has two of the
    attributes together they come out independent.

    >>> views = {("a", "b"): np.diag([2.0, 2.0]), ("b", "c"): np.diag([2.0, 2.0])}
    >>> max_entropy(("a", "c"), views, {"a": 2, "b": 2, "c": 2}).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    # What views say about ``attributes``; the sets that others contain follow from those.
    shared: dict[Names, list[FloatArray]] = {}
    for names, view in views.items():
        inside = tuple(name for name in attributes if name in names)
        shared.setdefault(inside, []).append(marginal_of(view, names, inside))
    targets = {
        names: np.asarray(np.mean(tables, axis=0))
        for names, tables in shared.items()
        if not any(set(names) < set(other) for other in shared)
    }
    total = float(np.mean([view.sum() for view in views.values()])) if views else 1.0
    shape = tuple(sizes[name] for name in attributes)
    table = np.full(shape, total / np.prod(shape, dtype=np.float64))
    for _ in range(sweeps):
        before = table
        for names, target in targets.items():
            now = marginal_of(table, attributes, names)
            table = table * spread(ratio(target, now), names, attributes)
        if np.abs(table - before).max() <= ENTROPY_SETTLED * total:
            break
    return np.asarray(table)


NETWORK_SWEEPS = 30
"""Sweeps of the fit of one family: its error after them is far below the noise of any view."""


def view_network(
    views: Mapping[Names, FloatArray], sizes: Mapping[str, int], *, most_cells: int
) -> tuple[Conditional, ...]:
    """Return a Bayesian network with every attribute of ``sizes`` once, after its parents.

    views        attributes → cells ≥ 0, nearly consistent
    most_cells   of the table of an attribute and its parents, unless it alone has more

    First comes the attribute that depends most on all others, then always the one that depends
    most on one that is placed. Its parents are the placed attributes that it depends on most,
    as many as fit; the table over them is the one of largest entropy that agrees with the
    views. Two attributes depend on each other by half the L1 distance of their table from
    independence.

    >>> same = {("a", "b"): np.diag([2.0, 2.0]), ("b", "c"): np.diag([2.0, 2.0])}
    >>> every = same | {("a", "c"): np.diag([2.0, 2.0])}
    >>> [family.parents for family in view_network(every, {"a": 2, "b": 2, "c": 2}, most_cells=4)]
    [(), ('a',), ('a',)]
    """
    names = tuple(sizes)
    dependence = _dependence(views, names)
    network_order = [int(np.argmax(dependence.sum(axis=0)))]
    families: list[Names] = [()]
    while len(network_order) < len(names):
        strongest = dependence[network_order].max(axis=0)
        strongest[network_order] = -1
        child = int(np.argmax(strongest))
        order = sorted(network_order, key=lambda index: -dependence[child, index])
        parents: list[str] = []
        cells = sizes[names[child]]
        for name in (names[index] for index in order):
            if cells * sizes[name] <= most_cells:
                parents.append(name)
                cells *= sizes[name]
        families.append(tuple(parents))
        network_order.append(child)
    return tuple(
        Conditional(
            names[index],
            parents,
            max_entropy((*parents, names[index]), views, sizes, sweeps=NETWORK_SWEEPS),
        )
        for index, parents in zip(network_order, families, strict=True)
    )


def _dependence(views: Mapping[Names, FloatArray], names: Names) -> FloatArray:
    """Return half the L1 distance of each pair from independence, in rows (d, d); 0 for a pair that
    no view has."""
    places = {name: index for index, name in enumerate(names)}
    distances = np.zeros((len(names), len(names)))
    for view, table in views.items():
        for pair in combinations(view, 2):
            cells = marginal_of(table, view, pair)
            product = np.outer(cells.sum(axis=1), cells.sum(axis=0)) / max(1e-9, cells.sum())
            index = places[pair[0]], places[pair[1]]
            distances[index] = distances[index[::-1]] = np.abs(cells - product).sum() / 2
    return distances


SEED = 1
"""Seed of the random choice among equal attributes: a design is a public value."""

TRIES = 8
"""Views that are built for each one that is taken."""


def covering_design(
    sizes: Mapping[str, int], *, most_cells: int, most_attributes: int
) -> tuple[tuple[str, ...], ...]:
    """Return sets of attributes (views) such that every pair of attributes is in one of them, with
    names in the order of ``sizes``.

    sizes            levels of every attribute; one alone is a view by itself
    most_cells       of a view with more than two attributes
    most_attributes  of a view, at least 2

    Greedy: a view starts with a pair that is in none yet and takes the attribute that brings most
    such pairs, of those the one that is in most of them outside, as long as one brings any; of
    ``TRIES`` views the one that covers most is taken. (PriView: Qardaji, Yang, Li, SIGMOD 2014,
    takes the best designs known: 6 views of 8 attributes for 16, as here.)

    >>> covering_design({"a": 2, "b": 2, "c": 2, "d": 9}, most_cells=18, most_attributes=3)
    (('a', 'b', 'c'), ('b', 'd'), ('c', 'd'), ('a', 'd'))
    """
    return _cached_covering_design(tuple(sizes.items()), most_cells, most_attributes)


@cache
def _cached_covering_design(
    sizes: tuple[tuple[str, int], ...], most_cells: int, most_attributes: int
) -> tuple[tuple[str, ...], ...]:
    names = tuple(name for name, _ in sizes)
    if len(names) == 1:
        return (names,)
    cells = np.array([size for _, size in sizes], dtype=np.float64)
    uncovered = ~np.eye(len(names), dtype=np.bool_)
    rng = np.random.default_rng(SEED)
    views = []
    while uncovered.any():
        tried = [
            _build_view(uncovered, cells, most_cells, most_attributes, rng) for _ in range(TRIES)
        ]
        view = max(tried, key=lambda view: int(uncovered[np.ix_(view, view)].sum()))
        uncovered[np.ix_(view, view)] = False
        views.append(tuple(names[index] for index in sorted(view)))
    return tuple(views)


def _build_view(
    uncovered: NDArray[np.bool_],
    cells: NDArray[np.float64],
    most_cells: int,
    most_attributes: int,
    rng: np.random.Generator,
) -> list[int]:
    """Return the positions of the attributes of a new view with at least one uncovered pair.

    uncovered   (d, d) whether a pair is in no view yet
    cells       (d,) levels of every attribute
    """
    uncovered_pairs = uncovered.sum(axis=1)
    view = [_best(uncovered_pairs, uncovered_pairs, rng)]
    gains, product = uncovered[view[0]] * 1, cells[view[0]]
    view.append(_best(gains, uncovered_pairs, rng))
    while len(view) < most_attributes:
        gains += uncovered[view[-1]]
        product *= cells[view[-1]]
        gains[cells * product > most_cells] = 0
        gains[view] = 0
        if not gains.any():
            break
        view.append(_best(gains, uncovered_pairs, rng))
    return view


def _best(gains: NDArray[np.int64], pairs: NDArray[np.int64], rng: np.random.Generator) -> int:
    """Return the position with the largest gain, then the most uncovered pairs, then by chance."""
    both = gains * len(pairs) + pairs
    best = np.flatnonzero(both == both.max())
    return int(best[rng.integers(len(best))])
