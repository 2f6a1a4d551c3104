"""Distances between the marginals of a released table and those of the rows.

They are exact; for many rows they are those of a sample, with a bound on the error.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Codes, IntArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.equivalence_classes import class_ids
from dp_pipeline.metrics.marginals import MOST_COMPARED, attribute_sets
from dp_pipeline.metrics.unit_tables import UnitTables
from dp_pipeline.raw.counters.tables import exact_marginals

_DENSE_CELLS_A_ROW = 8
_MAX_DENSE_CELLS = 1 << 22  # Cells of a dense table of counts, at most, or of several at once


@dataclass(frozen=True)
class EstimatedDistance:
    """A variation distance of two tables, which may be estimated from samples of their rows.

    value   in 0..1; NaN without real rows
    error   bound on the expected difference from that of all rows; None if all were compared
    """

    value: float
    error: float | None


def estimated_distances(
    real: Codes, released: Codes, sizes: Mapping[str, int], marginals: Mapping[str, Sequence[Names]]
) -> dict[str, EstimatedDistance]:
    """Return the mean variation distance over each list of marginals, by the name of the list.

    A table of more than ``MOST_COMPARED`` rows is replaced by a seeded sample of so many.

    *Error.* Let T be all rows, S their sample and d the variation distance. |d(S, R) − d(T, R)| ≤
    d(S, T) by the triangle inequality, and likewise for a sample of the released rows R. The
    expected distance from T to a sample of half the size is at most that between the two halves A
    and B of S: d(·, B) is convex, and B is a sample of the rest. And S, which is their mean, is no
    further away than they are on average. So E d(S, T) ≤ E d(A, B), which is computed: it is small
    for tables of few cells, and large where each row has a cell of its own, of which a sample says
    little.
    """
    all_marginals = list(dict.fromkeys(m for listed in marginals.values() for m in listed))
    names = sorted({name for marginal in all_marginals for name in marginal})
    halves = [_halves(table, names) for table in (real, released)]
    real, released = (
        {name: np.concatenate([half[name] for half in pair]) for name in names} for pair in halves
    )
    distance_of = distances(real, released, sizes, all_marginals)
    half_distances = [
        distances(pair[0], pair[1], sizes, all_marginals) for pair in halves if len(pair) == 2
    ]

    def mean(of: Mapping[Names, float], listed: Sequence[Names]) -> float:
        return float(np.mean([of[marginal] for marginal in listed]))

    return {
        name: EstimatedDistance(
            mean(distance_of, listed),
            sum(mean(of, listed) for of in half_distances) if half_distances else None,
        )
        for name, listed in marginals.items()
    }


def distances_of_table(
    domain: Domain, real: Codes, released: Codes
) -> dict[Names, EstimatedDistance]:
    """Return ``(name,)`` or ``(name, other)`` → variation distance, for attributes of ``real``.

    Of more than ``MOST_PAIRS`` attributes or pairs, a seeded sample of so many is compared. Where
    units have parts, attributes and pairs of units alone are compared over units, and all others
    over parts. ``(name, name)`` is an attribute of parts over the pairs of parts of one unit.
    """
    names, parts = tuple(real), domain.parts
    listed = [*((name,) for name in names), *attribute_sets(names, 2)]
    sizes = {name: domain[name].size for name in names}
    if parts is None:
        return _each_distance(real, released, sizes, listed)
    tables = UnitTables(domain, real), UnitTables(domain, released)
    of_parts = {*parts.attributes}
    of_units = [attributes for attributes in listed if of_parts.isdisjoint(attributes)]
    others = [attributes for attributes in listed if not of_parts.isdisjoint(attributes)]
    compared = {
        **_each_distance(tables[0].units, tables[1].units, sizes, of_units),
        **_each_distance(tables[0].parts, tables[1].parts, sizes, others),
    }
    for name in (name for name in names if name in of_parts):
        c, s = (table.pair_counts(name).sum(axis=0) for table in tables)
        if not tables[0].has_order:
            # The pairs of a set count in both orders.
            c, s = c + c.T, s + s.T
        n, m = int(c.sum()), int(s.sum())
        shares = s / m if m else np.full(s.shape, 1 / s.size)
        distance = float(np.abs(c / n - shares).sum()) / 2 if n else float("nan")
        compared[name, name] = EstimatedDistance(distance, None)
    return compared


def _each_distance(
    real: Codes, released: Codes, sizes: Mapping[str, int], listed: Sequence[Names]
) -> dict[Names, EstimatedDistance]:
    groups: Mapping[str, Sequence[Names]] = {str(i): [names] for i, names in enumerate(listed)}
    distances = estimated_distances(real, released, sizes, groups)
    return dict(zip(listed, distances.values(), strict=True))


def _halves(table: Codes, names: Sequence[str]) -> tuple[Codes, ...]:
    """Return the table alone, or two halves of a seeded sample of ``MOST_COMPARED`` of its rows.

    It is alone if it has no more rows than that."""
    rows = _row_count(table, names)
    if rows <= MOST_COMPARED:
        return ({name: table[name] for name in names},)
    chosen = np.random.default_rng(0).choice(rows, size=MOST_COMPARED, replace=False)
    halves = map(np.sort, np.split(chosen, [MOST_COMPARED // 2]))
    return tuple({name: np.asarray(table[name])[half] for name in names} for half in halves)


def _row_count(table: Codes, names: Sequence[str]) -> int:
    lengths = {len(table[name]) for name in names}
    if len(lengths) != 1:
        raise DeclarationError(
            f"A variation distance needs columns of one length, but they have {len(lengths)} "
            "lengths: pass all columns of one table"
        )
    return lengths.pop()


def distances(
    real: Codes, released: Codes, sizes: Mapping[str, int], marginals: Sequence[Names]
) -> dict[Names, float]:
    """Return the variation distance ½ Σ |c/n − s/m| of two tables over each marginal.

    real       the n rows that c counts, n · m below 2^62
    released   the m rows that s counts; without rows their distribution is taken as uniform
    marginals  each of different attributes of both tables

    It is in 0..1, and 0 for equal marginals; NaN without real rows. Tables over few attributes are
    counted together, which makes one call cheaper than many. DeclarationError for columns of
    different lengths in one table.
    Source: Zhang, Cormode, Procopiuc, Srivastava, Xiao, "PrivBayes", TODS 2017, §6.

    >>> real = {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 1, 0, 1])}
    >>> released = {"a": np.array([0, 0]), "b": np.array([0, 1])}
    >>> distances(real, released, {"a": 2, "b": 2}, [("a", "b"), ("b",)])
    {('a', 'b'): 0.5, ('b',): 0.0}
    """
    names = sorted({name for marginal in marginals for name in marginal})
    n, m = _row_count(real, names), _row_count(released, names)
    if n == 0:
        return dict.fromkeys(marginals, float("nan"))
    kinds = {name: np.min_scalar_type(sizes[name] - 1) for name in names}
    first, second = (
        {name: np.asarray(table[name]).astype(kind, copy=False) for name, kind in kinds.items()}
        for table in (real, released)
    )
    cells = {marginal: math.prod(sizes[name] for name in marginal) for marginal in marginals}
    most = min(_DENSE_CELLS_A_ROW * (n + m), _MAX_DENSE_CELLS)
    dense = [marginal for marginal in cells if cells[marginal] <= most]
    ends = np.cumsum([cells[marginal] for marginal in dense])
    group_of = dict(zip(dense, ends // _MAX_DENSE_CELLS, strict=True))
    distance_of = dict.fromkeys(marginals, 0.0)
    for _, grouped in groupby(dense, group_of.__getitem__):
        group = list(grouped)
        counts = exact_marginals(first, sizes, group, rows=n)
        released_counts = exact_marginals(second, sizes, group, rows=m)
        for marginal, c, s in zip(group, counts, released_counts, strict=True):
            distance_of[marginal] = _distance(c, s, cells[marginal])
    for marginal in cells.keys() - {*dense}:
        # Only cells with a row of either table are numbered.
        columns = [np.concatenate([first[name], second[name]]) for name in marginal]
        ids, totals = class_ids(np.stack(columns).T)
        c = np.bincount(ids[:n], minlength=len(totals))
        distance_of[marginal] = _distance(c, totals - c, cells[marginal])
    return distance_of


def _distance(c: IntArray, s: IntArray, cells: int) -> float:
    """Return ½ Σ |c/n − s/m|, or ½ Σ |c/n − 1/cells| for m = 0.

    c, s   counts of the n and the m rows, without some or all of the cells that both lack
    """
    n, m = int(c.sum()), int(s.sum())
    if m:
        return int(np.abs(c * m - s * n).sum()) / (2 * n * m)
    occupied = c[c > 0]
    off = float(np.abs(occupied / n - 1 / cells).sum()) + (cells - len(occupied)) / cells
    return min(1.0, off / 2)
