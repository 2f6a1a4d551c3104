"""Synthetic rows drawn along a junction tree or a Bayesian network, by counts of whole groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from dp_pipeline.config.encoding import FloatArray, IntArray, Names, code_type
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.inference.consistency import (
    ROUNDS,
    average_tables,
    make_consistent,
    project_to_simplex,
)
from dp_pipeline.inference.junction_tree import JunctionTree, cell_count
from dp_pipeline.results.derived_attribute import (
    count_group_rows,
    deal_cells,
    rounded_counts,
    sample_cells,
    shuffled_rows,
)
from dp_pipeline.results.measurement import NoisyMarginal


def join_cliques(
    tree: JunctionTree,
    tables: Mapping[Names, FloatArray],
    rows: int,
    rng: np.random.Generator,
    sizes: Mapping[str, int],
) -> IntArray:
    """Return synthetic codes (rows, attributes) drawn along a junction tree.

    Rows are in random order, columns in the order of ``sizes`` and contiguous, of the smallest
    integer type that holds all codes.

    tables   clique of the tree → cells ≥ 0 of any total; axes in the clique's order
    rows     number of rows to draw
    sizes    levels of every attribute that some clique has

    The root's cells are ∝ its table, then every clique's other attributes are drawn given its
    separator (Clique-Join: Zhang et al., J. Computer Research and Development 55(12), 2018).
    Where a slice of a table is all 0, its marginal over those attributes is used, and equal cells
    where that is 0 too. Every number of rows is its expectation, rounded up or down without bias
    (:func:`rounded_counts`), so tables of the rows lie closer to ``tables`` than those of
    independent draws.
    BoundaryViolation for attributes of ``sizes`` that no clique has, or the reverse.

    >>> tree = JunctionTree((("a", "b"),), ())
    >>> tables = {("a", "b"): np.array([[1.0, 0.0], [1.0, 2.0]])}
    >>> codes = join_cliques(tree, tables, 8, np.random.default_rng(0), {"b": 2, "a": 2})
    >>> np.unique(codes, axis=0, return_counts=True)[1].tolist()
    [2, 2, 4]
    """
    covered = {name for clique in tree.cliques for name in clique}
    if covered != set(sizes):
        raise BoundaryViolation(
            f"The joined tables must cover the attributes {', '.join(sizes) or 'none'}, not "
            f"{', '.join(sorted(covered)) or 'none'}"
        )
    places = {name: index for index, name in enumerate(sizes)}
    codes = np.zeros((len(sizes), rows), dtype=code_type(sizes.values()))
    known: set[str] = set()
    for clique in tree.cliques:
        given = tuple(name for name in clique if name in known)
        new = tuple(name for name in clique if name not in known)
        if not new:
            continue
        axes = [clique.index(name) for name in (*given, *new)]
        table = tables[clique].transpose(axes).reshape(cell_count(given, sizes), -1)
        groups = _keys(codes, [(places[name], sizes[name]) for name in given])
        cells, where = sample_cells(table, groups, rng)
        levels = np.unravel_index(np.arange(table.shape[1]), [sizes[name] for name in new])
        for name, level in zip(new, levels, strict=True):
            codes[places[name], where] = level.astype(codes.dtype)[cells]
        known.update(new)
    return codes.T


def _keys(codes: IntArray, given: list[tuple[int, int]]) -> IntArray:
    """Return the position of every row's cell (rows,) in the flat table over some attributes.

    codes   (attributes, rows)
    given   (position in ``codes``, size) of each attribute of the table
    """
    # One more: with a single attribute its size is a factor too.
    cells = prod(size for _, size in given) + 1
    keys = np.zeros(codes.shape[1], dtype=code_type([cells]))
    for place, size in given:
        keys *= size
        keys += codes[place].astype(keys.dtype, copy=False)
    return keys


def clique_counts(
    measured: Sequence[NoisyMarginal], *, total: float | None = None
) -> dict[Names, FloatArray]:
    """Return attributes → cells ≥ 0 in rows, one table for each measured set of attributes.

    Tables have the same total and nearly equal marginals over what they share. They are made
    consistent, weighted by their noise, and projected to cells ≥ 0, in turn.

    measured   at least one table; those over the same attributes are averaged first
    total      of every table; None: what the tables estimate, at least 1

    >>> from fractions import Fraction
    >>> tall = NoisyMarginal(("a", "b"), np.array([[9, 0], [1, -2]]), Fraction(2))
    >>> one_way = NoisyMarginal(("a",), np.array([10, 0]), Fraction(1))
    >>> counts = clique_counts([tall, one_way])
    >>> [table.round(1).tolist() for table in counts.values()]
    [[[9.2, 0.3], [0.2, 0.0]], [9.7, 0.1]]
    """
    averages = average_tables(measured)
    tables: Mapping[Names, FloatArray] = {names: mean for names, (mean, _) in averages.items()}
    variances = {names: variance for names, (_, variance) in averages.items()}
    for _ in range(ROUNDS):
        tables = make_consistent(tables, variances=variances)
        if total is None:
            total = max(1.0, float(next(iter(tables.values())).sum()))
        tables = {names: project_to_simplex(table, total) for names, table in tables.items()}
    return dict(tables)


@dataclass(frozen=True)
class Conditional:
    """The conditional distribution by which one attribute is drawn, given earlier ones.

    parents   drawn before it; () for an attribute that is drawn by itself
    table     float64 ≥ 0 of any total, one axis a parent and the child's as the last
    """

    child: str
    parents: tuple[str, ...]
    table: FloatArray


def sample_network(
    network: Sequence[Conditional], rows: int, rng: np.random.Generator, sizes: Mapping[str, int]
) -> IntArray:
    """Return synthetic codes (rows, attributes) drawn along a Bayesian network.

    Rows are in random order, columns in the order of ``sizes``.

    network   every attribute of ``sizes`` once, after its parents
    sizes     levels of every attribute

    In every cell of its parents a child is ∝ that slice of its table. Where the slice is all 0, the
    table's marginal over the child is used, and equal levels where that is 0 too. Numbers of rows
    are their expectations, rounded up or down without bias (``rounded_counts``).
    Source: PrivBayes (TODS 2017), §3, which draws every row by itself.

    >>> coin = Conditional("a", (), np.array([1.0, 1.0]))
    >>> same = Conditional("b", ("a",), np.eye(2))
    >>> codes = sample_network([coin, same], 6, np.random.default_rng(0), {"a": 2, "b": 2})
    >>> codes.sum(axis=0).tolist(), bool((codes[:, 0] == codes[:, 1]).all())
    ([3, 3], True)
    """
    places = {name: index for index, name in enumerate(sizes)}
    codes = np.zeros((len(sizes), rows), dtype=code_type(sizes.values()))
    for conditional in network:
        keys = _keys(codes, [(places[name], sizes[name]) for name in conditional.parents])
        table = conditional.table.reshape(-1, sizes[conditional.child])
        counts = rounded_counts(table, count_group_rows(keys, len(table)), rng)
        cells, where = deal_cells(counts, keys, shuffled_rows(rows, rng))
        codes[places[conditional.child], where] = cells
    return codes.T


def overlap_links(sets: Sequence[tuple[str, ...]]) -> tuple[tuple[int, int], ...]:
    """Return links (parent, child), positions of ``sets``: the parent of every set but the first is
    the earlier set that shares most attributes with it, on a tie the first.

    >>> overlap_links((("b", "a"), ("c", "b"), ("d", "b", "a")))
    ((0, 1), (0, 2))
    """
    shared = [
        [len({*names} & {*other}) for other in sets[:index]] for index, names in enumerate(sets)
    ]
    return tuple(
        (overlaps.index(max(overlaps)), index) for index, overlaps in enumerate(shared) if index
    )
