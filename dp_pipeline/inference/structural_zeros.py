"""Cells that constraints declare to be empty: their noise is left out of every sum, and no fitted
distribution has mass there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from dp_pipeline.config.constraints import AllowedCells, Mask, constrained_pairs
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.consistency import NoisyTable, TableEstimate, ratio, spread
from dp_pipeline.inference.graphical_model import GraphicalModel
from dp_pipeline.inference.junction_tree import JunctionTree, cell_count, triangulated_cliques
from dp_pipeline.results.derived_attribute import Grouping

NOTHING = -1e6
"""Log-potential of a cell without mass: finite, so that no sum is undefined, and so low that its
probability is exactly 0 next to that of any allowed cell."""

DRAWS = 64
"""Most draws to replace rows that break a constraint: a fitted tree gives none, a network may."""

SWEEPS = 200
CLOSE = 1e-9
"""Most sweeps of proportional fitting, and the distance of shares from a margin that ends it."""


@dataclass(frozen=True)
class StructuralZeros:
    """The constraints of a table, stored as the cells that they allow.

    allowed   one entry a set of constrained attributes; () without constraints

    >>> smokes = AllowedCells(("age", "smokes"), np.array([[True, False], [True, True]]))
    >>> zeros = StructuralZeros((smokes,))
    >>> zeros.predict_shares(("age", "smokes"), np.array([0.5, 0.5]), np.array([0.7, 0.3])).round(2)
    array([[0.5, 0. ],
           [0.2, 0.3]])
    """

    allowed: tuple[AllowedCells, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.allowed)

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of attributes that are in a constraint together: as edges of a graph they put
        every constraint inside a clique."""
        return constrained_pairs(self.allowed)

    def holds(self, codes: Mapping[str, IntArray]) -> Mask:
        """Return a mask (rows,) of the rows that meet all constraints.

        codes   attribute → codes (rows,): all constrained attributes, and at least one attribute
                even without constraints
        """
        rows = np.ones(len(next(iter(codes.values()))), dtype=np.bool_)
        return reduce(np.logical_and, (entry.holds(codes) for entry in self.allowed), rows)

    def potentials(self, model: GraphicalModel) -> list[FloatArray]:
        """Return log-potentials, one table for each node of the model, that remove all mass from
        forbidden cells.

        Every constraint must be inside a clique of the model."""
        tables = model.zeros()
        for entry in self.allowed:
            index = model.smallest_node_with(entry.names)
            mask = spread(entry.mask, entry.names, model.nodes[index].names)
            tables[index] += np.where(mask, 0.0, NOTHING)
        return tables

    def draw_valid_rows(self, draw: Callable[[int], IntArray], rows: int, names: Names) -> IntArray:
        """Return codes (rows, attributes) of drawn rows that meet the constraints.

        draw   from a number of rows to their codes, attributes in the order of ``names``

        Rows that break a constraint are drawn again, up to ``DRAWS`` times; then the valid ones are
        repeated. No row is returned if none is valid."""
        if not self.allowed:
            return draw(rows)
        batches, missing = list[IntArray](), rows
        for _ in range(1 + DRAWS):
            codes = draw(missing)
            batches.append(codes[self.holds(dict(zip(names, codes.T, strict=True)))])
            missing -= len(batches[-1])
            if not missing:
                break
        valid = np.concatenate(batches)
        return np.resize(valid, (rows if len(valid) else 0, len(names)))

    def clear_forbidden_cells(self, measured: Iterable[NoisyTable]) -> tuple[NoisyTable, ...]:
        """Return the noisy tables, in their order, with 0 in each cell that must be empty.

        The variance of a table stays; a table without empty cells is returned as it is.
        """
        tables = list[NoisyTable]()
        for noisy in measured:
            names = noisy.attributes
            table, parts = noisy.table.astype(np.float64), self._within(names)
            for part in parts:
                table = np.where(spread(part.mask, part.names, names), table, 0.0)
            tables.append(TableEstimate(names, table, noisy.variance) if parts else noisy)
        return tuple(tables)

    def _within(self, names: Names) -> list[AllowedCells]:
        """Return the projections of the constraints onto these attributes, without those that
        allow every cell."""
        masks = []
        for entry in self.allowed:
            inside = tuple(name for name in entry.names if name in names)
            outside = tuple(axis for axis, name in enumerate(entry.names) if name not in names)
            mask = np.asarray(entry.mask.any(axis=outside))
            if inside and not mask.all():
                masks.append(AllowedCells(inside, mask))
        return masks

    def kinds(self, name: str) -> IntArray | None:
        """Return numbers (levels,) that are equal for the levels of an attribute that constraints
        treat alike; None without a constraint about it.

        Two levels are alike if each constraint allows both with the same levels of its other
        attributes. Only such levels are grouped."""
        about = [
            (entry.mask, entry.names.index(name)) for entry in self.allowed if name in entry.names
        ]
        if not about:
            return None
        rows = [np.moveaxis(mask, axis, 0).reshape(mask.shape[axis], -1) for mask, axis in about]
        _, kinds = np.unique(np.concatenate(rows, axis=1), axis=0, return_inverse=True)
        return np.asarray(kinds, dtype=np.int64).ravel()

    def grouped(self, groupings: Mapping[str, Grouping]) -> StructuralZeros:
        """Return the constraints over groups of levels, where constraints treat the levels of each
        group alike."""
        grouped_entries = []
        for entry in self.allowed:
            mask = entry.mask
            for axis, name in enumerate(entry.names):
                if name in groupings:
                    labels = groupings[name].group_of_level
                    # A group is allowed if its first level is.
                    mask = mask.take(np.unique(labels, return_index=True)[1], axis=axis)
            grouped_entries.append(replace(entry, mask=mask))
        return StructuralZeros(tuple(grouped_entries))

    def predict_shares(
        self, pair: tuple[str, str], left: FloatArray, right: FloatArray
    ) -> FloatArray:
        """Return the shares of a pair's cells (left, right) that follow from the shares of both
        attributes.

        They are the product or, with empty cells, the table nearest to it that has these shares as
        marginals, as nearly as can be (iterative proportional fitting, Deming, Stephan 1940).
        """
        table = np.outer(left, right)
        parts = [part for part in self._within(pair) if len(part.names) == 2]
        masks = [spread(part.mask, part.names, pair) for part in parts]
        if not masks:
            return table
        table = table * reduce(np.logical_and, masks)
        for _ in range(SWEEPS):
            rows = table.sum(axis=1)
            if np.abs(rows - left).sum() < CLOSE:
                break
            table = table * ratio(left, rows)[:, None]
            table = table * ratio(right, table.sum(axis=0))
        return np.asarray(table)

    def cliques(self, sizes: Mapping[str, int]) -> tuple[Names, ...]:
        """Return cliques of the constrained attributes, so that each constraint is inside one.

        sizes   levels of every attribute
        """
        names = {name for entry in self.allowed for name in entry.names}
        within = {name: size for name, size in sizes.items() if name in names}
        return triangulated_cliques(self.pairs, within)

    def most_cells(self, sizes: Mapping[str, int]) -> int:
        """Return the number of cells of the largest of ``cliques``; 1 without constraints."""
        return max((cell_count(clique, sizes) for clique in self.cliques(sizes)), default=1)

    def is_contradictory(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the constraints together allow no row at all."""
        if not self.allowed:
            return False
        model = GraphicalModel(JunctionTree.of(self.cliques(sizes), sizes), sizes)
        return model.marginals(self.potentials(model))[1] < NOTHING / 2

    def without_twins(self) -> tuple[StructuralZeros, tuple[Twin, ...]]:
        """Return (the constraints without attributes that repeat another one, those attributes in
        the order in which they can be put back)."""
        entries, twins = self.allowed, tuple[Twin, ...]()
        while entry := next((entry for entry in entries if entry.twin is not None), None):
            assert entry.twin is not None
            twin = Twin(entry.names[1], entry.names[0], entry.twin)
            renamed = [_replace_twin(other, twin) for other in entries if other is not entry]
            # One constraint for each set of attributes, without those that allow everything.
            merged: dict[frozenset[str], AllowedCells] = {}
            for constraint in renamed:
                names = frozenset(constraint.names)
                same = merged.setdefault(names, constraint)
                mask = same.mask & spread(constraint.mask, constraint.names, same.names)
                merged[names] = AllowedCells(same.names, mask)
            entries = tuple(entry for entry in merged.values() if not entry.mask.all())
            twins = (twin, *twins)
        return StructuralZeros(entries), twins


NONE = StructuralZeros()


@dataclass(frozen=True, eq=False)
class Twin:
    """An attribute whose levels correspond one to one to those of another attribute, ``other``.

    levels   its code for every code of ``other``, (levels,)
    """

    name: str
    other: str
    levels: IntArray


def _replace_twin(entry: AllowedCells, twin: Twin) -> AllowedCells:
    """Return a constraint about a twin attribute as one about the other attribute; return it
    unchanged if it is not about the twin."""
    names = entry.names
    if twin.name not in names:
        return entry
    index = names.index(twin.name)
    mask = entry.mask.take(twin.levels, axis=index)
    if twin.other not in names:
        return AllowedCells((*names[:index], twin.other, *names[index + 1 :]), mask)
    # Both are in it: only cells with matching levels can be.
    mask = np.diagonal(mask, axis1=names.index(twin.other), axis2=index)
    return AllowedCells((*(n for n in names if n not in (twin.name, twin.other)), twin.other), mask)
