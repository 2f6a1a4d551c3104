"""Tables of units and of their parts, and counts of pairs of parts of one unit."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import SIZE, Domain, Parts
from dp_pipeline.config.encoding import Codes, IntArray
from dp_pipeline.results.synthetic_table import first_parts


@dataclass(frozen=True)
class UnitTables:
    """A table of units and one of their parts, from one table that has both.

    domain  attributes of the table, which declares the parts
    codes   attribute → codes of the rows, size of the unit included: one row for each part, or for
            a unit without parts; rows of one unit are together
    """

    domain: Domain
    codes: Codes

    @property
    def _declared(self) -> Parts:
        assert self.domain.parts is not None
        return self.domain.parts

    @property
    def has_order(self) -> bool:
        """Whether the parts of a unit are in order; else they are a set."""
        return bool(self._declared.order)

    @cached_property
    def _sizes(self) -> IntArray:
        return np.asarray(self.codes[SIZE], dtype=np.int64) + self._declared.fewest

    @cached_property
    def _row_counts(self) -> IntArray:
        return self._declared.row_counts(self.codes[SIZE])

    @cached_property
    def _firsts(self) -> IntArray:
        return first_parts(self._row_counts)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each row where a unit counts once: 1 / rows of the unit (rows,)."""
        return np.asarray(1 / self._row_counts)

    @property
    def units(self) -> Codes:
        """The codes of all units (units,) for each attribute of units, their size included."""
        return {
            name: codes[self._firsts]
            for name, codes in self.codes.items()
            if name not in self._declared.attributes
        }

    @property
    def parts(self) -> Codes:
        """The codes of all parts (parts,) for each attribute of parts, and of their units."""
        is_part = self._sizes > 0
        return {name: codes[is_part] for name, codes in self.codes.items()}

    def pair_counts(self, name: str) -> IntArray:
        """Return the number of pairs of parts of one unit by the unit's size and by the codes of
        both parts for an attribute (sizes, codes, codes).

        Parts in order: only successive parts are pairs, the earlier first. Else all are, each
        counted once with the smaller code first.

        >>> from dp_pipeline.config.domain import Attribute
        >>> from dp_pipeline.config.encoding import Levels
        >>> two = Levels(("1", "2"))
        >>> attributes = [Attribute(name, name, "drop", cells=two) for name in (SIZE, "sex")]
        >>> domain = Domain(tuple(attributes), parts=Parts("persons", ("sex",), 2))
        >>> rows = {SIZE: np.array([1, 1, 0]), "sex": np.array([1, 0, 1])}
        >>> UnitTables(domain, rows).pair_counts("sex").tolist()
        [[[0, 0], [0, 0]], [[0, 1], [0, 0]]]
        """
        in_order, k = self.has_order, self.domain[name].size
        rows = self._row_counts
        places = np.arange(len(rows)) - np.repeat(self._firsts, rows[self._firsts])
        sizes, codes = self.domain[SIZE].size, np.asarray(self.codes[name], dtype=np.int64)
        counts = np.zeros(sizes * k * k, dtype=np.int64)
        for lag in range(1, 2 if in_order else self._declared.at_most):
            first = np.flatnonzero(places + lag < self._sizes)
            pair = codes[first], codes[first + lag]
            low, high = pair if in_order else (np.minimum(*pair), np.maximum(*pair))
            cells = (self._sizes[first] - self._declared.fewest) * k * k + low * k + high
            counts += np.bincount(cells, minlength=len(counts))
        return counts.reshape(sizes, k, k)
