"""Counts of the parts of units, in which every unit has the same weight.

Rows are whole units: the attributes of a unit with its size s, and those of its parts side by side.
Each of the s parts weighs ⌊2^16/s⌋, and each of the n pairs of parts ⌊2^16/n⌋: a unit weighs at
most 2^16 in any table, whatever its size. One without parts, where there are such units, has one
part for this, all of whose attributes are missing.

*Proof.* Add one unit with s parts, 1 ≤ s ≤ c. In a table over attributes of the unit alone it adds
2^16 to one cell. In a table with attributes of a part it adds s times ⌊2^16/s⌋, each to one cell;
in one of pairs, n times ⌊2^16/n⌋; where n = 0 it adds nothing, or, of a set, 2^16 for the pair of
its part with itself. So no cell falls, the sum rises by at most 2^16, and Δ1 ≤ 2^16. All may fall
into one cell, so Δ2 is 2^16 as well; a unit of one part, or of two equal ones, reaches both.
Folding a pair onto a triangle, or levels onto groups, moves a count to another cell. ∎

Unweighted counts would have Δ1 = Δ2 = c for parts, c(c − 1)/2 for all pairs and c − 1 for
successive ones, with c = ``at_most``. A fit takes tables given the size s, and there the noise of a
weighted count is s/c of that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, Self

import numpy as np

from dp_pipeline.config.domain import SIZE, UNIT_WEIGHT, Domain, Parts, pair_count
from dp_pipeline.config.encoding import IntArray, Names
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import checks
from dp_pipeline.gate.counter import Counter, Sealed
from dp_pipeline.results.derived_attribute import DerivedAttribute


@dataclass(frozen=True)
class PartsCounter:
    """A counter of the parts of units and of pairs of parts, from the counts of whole units.

    Its counts are weighted, so that a unit adds at most ``UNIT_WEIGHT`` to any table.

    units       counts rows over ``domain.parts.of_units(domain)``, each a unit with its parts
    domain      the attributes of a part and of its unit
    groupings   groups of the levels of some attributes in the tables
    """

    units: Counter
    domain: Domain
    groupings: Mapping[str, DerivedAttribute] = field(default_factory=dict)

    @property
    def _parts(self) -> Parts:
        assert self.domain.parts is not None
        return self.domain.parts

    def count(self, marginals: Sequence[Names]) -> list[Sealed]:
        """Return the weighted table of each marginal, in order: a unit weighs at most 2^16.

        The table of () is the number of units times 2^16.
        """
        sizeless = [tuple(name for name in names if name != SIZE) for names in marginals]
        questions = [(names, self._placements(names)) for names in sizeless]
        sealed = []
        for names, (other, placements), table in zip(
            marginals, questions, self._tables(questions), strict=True
        ):
            items = (lambda size: size) if len(placements) > 1 else (lambda _: 1)
            weighted = _weigh(table, items, self._parts.fewest)
            total = weighted if SIZE in names else weighted.sum(axis=0)
            axes = (SIZE, *other) if SIZE in names else other
            total = total.transpose([axes.index(name) for name in names])
            sealed.append(Sealed(self._in_groups(names, total)))
        return sealed

    def pairs(self, attributes: Sequence[str]) -> list[Sealed]:
        """Return, for each attribute, the weighted table (c, k, k) of pairs of parts, by unit size.

        attributes   those of a part; one of k levels has a table of k × k for each of c sizes

        Parts in order: the axes are the earlier and the later of two successive parts. Else a pair
        is counted with the smaller code first, and the part of a unit of one as a pair with itself:
        half of both margins is then the weighted table of the size and the attribute.
        """
        parts, in_order = self._parts, bool(self._parts.order)
        places = [
            (i, j) for j in range(parts.at_most) for i in range(j) if not in_order or j == i + 1
        ]
        questions: list[tuple[Names, list[Names]]] = [
            (
                (name, name),
                [(parts.name_in_unit(name, i), parts.name_in_unit(name, j)) for i, j in places],
            )
            for name in attributes
        ]
        if not in_order:
            questions += [((name,), [(parts.name_in_unit(name, 0),)]) for name in attributes]
        exact = self._tables(questions)
        tables, firsts = exact[: len(attributes)], exact[len(attributes) :]
        for table, first in zip(tables, firsts, strict=False):
            for place in range(2 - parts.fewest):
                np.fill_diagonal(table[place], first[place])
        tables = [
            _weigh(table, lambda size: pair_count(size, in_order=in_order), parts.fewest)
            for table in tables
        ]
        if not in_order:
            # The upper triangle gets the sum of both orders of each pair.
            tables = [np.triu(table) + np.triu(table.swapaxes(1, 2), 1) for table in tables]
        return [Sealed(table) for table in tables]

    def recoded(
        self,
        derived: Mapping[str, DerivedAttribute],
        domain: Domain,  # noqa: ARG002
    ) -> Self:
        """Return a counter of the same units, with levels of its tables merged into groups.

        BoundaryViolation if levels are merged already, and for an attribute that is derived from
        others, since no proof covers it.
        """
        if any(each.attributes != (name,) for name, each in derived.items()):
            raise BoundaryViolation(
                "Units with parts can be counted in tables of declared attributes alone, not of "
                "derived ones"
            )
        if self.groupings:
            raise BoundaryViolation(
                "Levels of units with parts can be merged into groups once, but here they are "
                "merged again"
            )
        return replace(self, groupings=derived)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise BoundaryViolation(f"Units with parts can be counted in tables alone, not by `{name}`")

    def _placements(self, names: Names) -> list[Names]:
        """Return, for each position of a part, ``names`` as the unit's attributes at that position;
        ``names`` alone if they name no attribute of a part."""
        parts = self._parts
        is_of_parts = not {*names}.isdisjoint(parts.attributes)
        return [
            tuple(
                parts.name_in_unit(name, i) if name in parts.attributes else name for name in names
            )
            for i in range(parts.at_most if is_of_parts else 1)
        ]

    def _tables(self, questions: Sequence[tuple[Names, list[Names]]]) -> list[IntArray]:
        """Return each question's exact table over unit size and attributes, summed over placements.

        questions   attributes, and for each placement the unit's attributes that hold them

        A placement does not count a unit that has no part at one of its positions.
        """
        for names, _ in questions:
            axes = (SIZE, *names)
            checks.require_size(self.domain.cell_count(axes), of=f"a table of {', '.join(axes)}")
        queries = [(SIZE, *names) for _, placements in questions for names in placements]
        counted, tables = iter(self.units.count(queries)), []
        for names, placements in questions:
            present = tuple(slice(size) for size in self.domain.shape((SIZE, *names)))
            total = np.zeros(self.domain.shape((SIZE, *names)), dtype=np.int64)
            for _ in placements:
                total += next(counted).open_at_the_gate()[present]
            tables.append(total)
        return tables

    def _in_groups(self, names: Names, table: IntArray) -> IntArray:
        for axis, name in enumerate(names):
            if name in self.groupings:
                # Groups are of neighbours, in the order of the levels.
                starts = np.flatnonzero(np.diff(self.groupings[name].groups, prepend=-1))
                table = np.add.reduceat(table, starts, axis=axis)
        return np.array(table, order="C")


def _weigh(table: IntArray, items: Callable[[int], int], fewest: int) -> IntArray:
    """Return counts by unit size (first axis), each times ⌊``UNIT_WEIGHT`` / items of that size⌋.

    items    size of a unit → number of its parts or pairs
    fewest   unit size of the first entry
    """
    weights = [UNIT_WEIGHT // max(1, items(fewest + i)) for i in range(len(table))]
    return table * np.array(weights, dtype=np.int64).reshape(-1, *(1,) * (table.ndim - 1))
