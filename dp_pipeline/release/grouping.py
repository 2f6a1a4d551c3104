"""Grouping: levels of one attribute put together, by what was released about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_pipeline.release.clique_join import drawn_cells
from dp_pipeline.schema.domain import Attribute
from dp_pipeline.schema.encoding import FloatArray, IntArray, Levels


@dataclass(frozen=True)
class Grouping:
    """The group of every level: whole numbers 0, 1, …, in ascending order, none left out.

    >>> Grouping.by_share(np.array([0.5, 0.01, 0.015, 0.475]), least=0.02).groups
    (0, 1, 1, 2)
    """

    groups: tuple[int, ...]

    @classmethod
    def by_share(cls, shares: FloatArray, *, least: float) -> Grouping:
        """A level with at least that share stays alone; others join their neighbours in the order
        of the codes until the group has it.
        """
        groups, held, group = [], 0.0, 0
        for at, share in enumerate(shares.tolist()):
            if at and (held >= least or share >= least):
                group, held = group + 1, 0.0
            groups.append(group)
            held += share
        return cls(tuple(groups))

    @property
    def size(self) -> int:
        """Number of groups."""
        return self.groups[-1] + 1

    @cached_property
    def labels(self) -> IntArray:
        """The groups as an array (levels,)."""
        return np.array(self.groups, dtype=np.int64)

    def summed(self, values: FloatArray | IntArray) -> FloatArray:
        """One sum a group, of one value a level."""
        sums = np.bincount(self.labels, weights=values, minlength=self.size)
        return sums.astype(np.float64)

    def of(self, attribute: Attribute) -> Attribute:
        """The attribute with groups as levels."""
        levels = Levels(tuple(f"group {group}" for group in range(self.size)))
        return Attribute(attribute.name, attribute.column, attribute.on_invalid, cells=levels)

    def expanded(self, codes: IntArray, shares: FloatArray, rng: np.random.Generator) -> IntArray:
        """A level for every group in ``codes``, by the shares of the levels inside it."""
        table = np.zeros((self.size, len(self.groups)))
        table[self.labels, np.arange(len(self.groups))] = shares
        empty = table.sum(axis=1) <= 0
        table[empty] = self.labels == np.flatnonzero(empty)[:, None]
        cells, rows = drawn_cells(table, codes, rng)
        levels = np.empty(len(codes), dtype=np.int64)
        levels[rows] = cells
        return levels
