"""PublicTable: rows of other persons that anybody may see, over the same attributes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dp_pipeline.release.derived_attribute import Grouping
from dp_pipeline.spec.encoding import FloatArray, IntArray, Names

ROUNDS = 10
"""Of proportional fitting: tables differ little from what they are fitted to."""


@dataclass(frozen=True, eq=False)
class PublicTable:
    """Public rows, counted as exactly as anybody likes: nothing is paid for them.

    codes       attribute → (rows,) codes, each below its size
    sizes       attribute → number of its levels
    groupings   attribute → groups of its levels in tables of several attributes
    """

    codes: Mapping[str, IntArray]
    sizes: Mapping[str, int]
    groupings: Mapping[str, Grouping] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(next(iter(self.codes.values()), ()))

    @property
    def digest(self) -> str:
        """Of all codes, in their order: which rows they are, for whoever uses them again."""
        told = hashlib.sha256()
        for name, column in self.codes.items():
            told.update(f"{name} {len(column)} ".encode() + column.astype("<i8").tobytes())
        return told.hexdigest()[:32]

    def shares(self, names: Names) -> FloatArray:
        """Shares of the cells over these attributes: of levels of one, of groups of several."""
        cells = np.zeros(self.rows, dtype=np.int64)
        shape = []
        for name in names:
            grouping = self.groupings.get(name) if len(names) > 1 else None
            codes, size = self.codes[name].astype(np.int64), self.sizes[name]
            if grouping is not None:
                codes, size = grouping.labels[codes], grouping.size
            cells = cells * size + codes
            shape.append(size)
        counts = np.bincount(cells, minlength=int(np.prod(shape, dtype=np.int64)))
        # Half a row a table: what nobody has is not impossible.
        likely = counts + 0.5 / len(counts)
        return np.asarray((likely / likely.sum()).reshape(shape))

    def with_margins(self, names: Names, margins: Mapping[str, FloatArray]) -> FloatArray:
        """The same of several attributes, with these shares of each in place of its own: how they
        depend on each other stays as it is (iterative proportional fitting).

        margins   attribute → shares of its levels, or groups
        """
        shares = self.shares(names)
        for _ in range(ROUNDS):
            for axis, name in enumerate(names):
                others = tuple(one for one in range(len(names)) if one != axis)
                now = shares.sum(axis=others)
                wanted = np.maximum(margins[name], 1e-12)
                shape = tuple(-1 if one == axis else 1 for one in range(len(names)))
                shares = shares * (wanted / np.maximum(now, 1e-12)).reshape(shape)
        return np.asarray(shares / shares.sum())
