"""Units with parts by one_shot: one round over the parts of units, and tables of their pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dp_pipeline.config.domain import SIZE, UNIT_WEIGHT, Domain, Parts, pair_count
from dp_pipeline.config.encoding import IntArray, Names
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.conditional_rows import sample_conditionally
from dp_pipeline.inference.fitted_tree import FittedRows
from dp_pipeline.inference.likely_pairs import likely_pairs
from dp_pipeline.inference.pair_swaps import PairGoal, SyntheticUnits, spread_parts, swap_parts
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.results.accountant import split
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import first_parts

PAIRS_SHARE = Fraction(3, 10)
"""Tuned: share of the amount that buys pairs of parts of one unit (docs/design/households.md)."""


@dataclass(frozen=True)
class UnitRelease:
    """The measured tables of a release of units with parts.

    fitted   noisy tables of a part with its unit, in which each unit weighs ``UNIT_WEIGHT``
    pairs    noisy pairs of parts, one table for each attribute of a part
    """

    domain: Domain
    fitted: FittedRows
    pairs: tuple[NoisyMarginal, ...]

    @property
    def parts(self) -> Parts:
        assert self.domain.parts is not None
        return self.domain.parts

    def draw_rows(
        self, names: Names, rows_to_draw: int | None, rng: np.random.Generator
    ) -> IntArray:
        """Return synthetic codes (rows, attributes) of parts with their units, unit by unit.

        names          attributes of the columns; one that was not modelled has the code 0
        rows_to_draw   number of units to draw; None: as many as the tables estimate

        Units with their sizes are drawn first, then the parts of each given its unit. Units that
        break a constraint are left out, so there may be fewer.
        """
        marginals = self.fitted.one_way_marginals
        count = round(marginals.rows / UNIT_WEIGHT) if rows_to_draw is None else rows_to_draw
        fitted = self.fitted.fit_tree()
        groups = dict(zip(fitted.model.sizes, fitted.draw_codes(count, rng).T, strict=True))
        groupings = self.fitted.all_groupings

        def expand(name: str, codes: IntArray) -> IntArray:
            return groupings[name].expanded(codes, marginals.shares[name], rng).astype(np.int64)

        of_units = [name for name in groups if name not in self.parts.attributes]
        units = {name: expand(name, groups[name]) for name in of_units}
        sizes = self.parts.row_counts(units[SIZE])
        owners = np.repeat(np.arange(count), sizes)
        evidence = {name: groups[name][owners].astype(np.int64) for name in of_units}
        tables = fitted.model.by_clique(list(fitted.tables))
        sampled = sample_conditionally(fitted.model.tree, tables, evidence, rng)
        parts = {name: expand(name, codes) for name, codes in sampled.items()}
        columns = {name: codes[owners] for name, codes in units.items()} | parts
        paired = range(2, self.parts.at_most + 1) if self.pairs else ()
        rows_of = {size: np.flatnonzero(sizes[owners] == size) for size in paired}
        goals = {table.attributes[1]: self._goals(table, columns, rows_of) for table in self.pairs}
        for position, (size, rows_of_size) in enumerate(rows_of.items()):
            of_size = {name: goal[position] for name, goal in goals.items()}
            self._pair_up(columns, rows_of_size, size, of_size, rng)
        absent = np.zeros(len(owners), dtype=np.int64)
        return self._without_broken(
            np.stack([columns.get(name, absent) for name in names]).T, names
        )

    def _pair_up(
        self,
        columns: dict[str, IntArray],
        rows: IntArray,
        size: int,
        goals: Mapping[str, PairGoal],
        rng: np.random.Generator,
    ) -> None:
        """Exchange parts among units of one size, in place, so that pairs within units come nearer
        to the goals.

        columns   attribute → codes (rows,) of all parts, which change
        rows      positions of the parts of these units
        size      number of parts of each unit
        """
        of_parts = {name: columns[name][rows].reshape(-1, size) for name in goals}
        of_units = {
            name: column[rows][::size]
            for name, column in columns.items()
            if name not in self.parts.attributes and name != SIZE
        }
        units = SyntheticUnits(size, of_units, of_parts)
        variance = self.pairs[0].variance / UNIT_WEIGHT**2 if self.pairs else 0.0
        single = [(name, codes) for name, codes in self.parts.single if name in of_parts]
        units = spread_parts(units, single, rng)
        units = swap_parts(units, goals, variance, in_order=bool(self.parts.order), rng=rng)
        for name, codes in spread_parts(units, single, rng).parts.items():
            columns[name][rows] = codes.ravel()

    def _goals(
        self, table: NoisyMarginal, columns: Mapping[str, IntArray], rows_of: Mapping[int, IntArray]
    ) -> list[PairGoal]:
        """Return the likely number of pairs of parts by the codes of one attribute, for each size
        of units.

        table     noisy pairs by that attribute
        columns   attribute → synthetic codes (rows,) of all parts
        rows_of   size, at least 2 → positions of the parts of units of this size
        """
        name, in_order = table.attributes[1], bool(self.parts.order)
        numbers = np.array([pair_count(size, in_order=in_order) for size in rows_of])
        weights = numbers[:, None, None] / UNIT_WEIGHT
        noisy = table.table[2 - self.parts.fewest :] * weights
        variances = np.broadcast_to(table.variance * weights**2, noisy.shape)
        if not in_order:
            # Each pair was counted in one order; a pair of two equal codes is both.
            noisy = np.triu(noisy) + np.triu(noisy).swapaxes(1, 2)
            variances = variances * (1 + 3 * np.eye(noisy.shape[1]))
        for attribute, single in self.parts.single:
            if attribute == name and not in_order:
                # Known to be empty: the rest is noise.
                noisy[np.ix_(range(len(noisy)), single, single)] = 0
        levels = noisy.shape[1]
        # A part of a set is in s − 1 pairs; one in order in two, or at an end in one.
        margins = [
            np.bincount(columns[name][rows], minlength=levels)
            * ((size - 1) / (size if in_order else 1))
            for size, rows in rows_of.items()
        ]
        likely = likely_pairs(noisy, variances, np.array(margins), in_order=in_order)
        return [
            PairGoal(counts, float(of_size.min()))
            for counts, of_size in zip(likely, variances, strict=True)
        ]

    def _without_broken(self, codes: IntArray, names: Names) -> IntArray:
        zeros = StructuralZeros(self.domain.allowed(names))
        if not zeros and not self.parts.single:
            return codes
        is_kept = zeros.holds(dict(zip(names, codes.T, strict=True)))
        sizes = self.parts.row_counts(codes[:, names.index(SIZE)])
        firsts = first_parts(sizes)
        broken = np.zeros(len(firsts), dtype=np.bool_)
        owners = np.repeat(np.arange(len(firsts)), sizes[firsts])
        broken[owners[~is_kept]] = True
        for name, single in self.parts.single:
            if name in names:
                have = np.isin(codes[:, names.index(name)], single)
                broken |= np.bincount(owners[have], minlength=len(firsts)) > 1
        return codes[~broken[owners]]


def with_parts_of_pairs(fitted: FittedRows, pairs: Sequence[NoisyMarginal]) -> FittedRows:
    """Return the fit with more tables, over the size of a unit and an attribute of its parts, which
    are sums of the tables of pairs; return it as it is if a clique would exceed its cap.

    Each of s parts is in s − 1 of the s(s − 1)/2 pairs, which weigh one unit together: half of both
    margins is a table in which it weighs 1/s, with the noise of a cell and of k − 1 half ones. It
    is fitted where it is as far from independence as twice its noise, since others would bring more
    noise than they say.
    """
    tables = []
    for noisy in pairs:
        counts, names = np.triu(noisy.table), (SIZE, noisy.attributes[1])
        table = (counts.sum(axis=1) + counts.sum(axis=2)) / 2
        variance = noisy.variance * (table.shape[1] + 3) / 4
        for axis, name in enumerate(names):
            if name in fitted.groupings:
                grouping, levels = fitted.groupings[name], table.shape[axis]
                table = np.apply_along_axis(grouping.summed, axis, table)
                variance *= levels / grouping.size
        product = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(float(table.sum()), 1.0)
        freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
        if ((table - product) ** 2).sum() > 2 * freedom * variance:
            integers = np.rint(table).astype(np.int64)
            tables.append(NoisyMarginal(names, integers, Fraction(variance), gaussian=True))
    larger = replace(fitted, measured=(*fitted.measured, *tables))
    return larger if larger.largest_clique_cells <= fitted.cap else fitted


def measure_pairs(curator: Curator, sizes: Mapping[str, int]) -> tuple[NoisyMarginal, ...]:
    """Measure, for each attribute of parts in ``sizes``, the pairs of parts within one unit, with
    30 % of the remaining budget, shared in proportion to k; return
    one noisy table (unit sizes, k, k) for each attribute.

    sizes   attribute → number of its levels, k; attributes of units are ignored, and () is returned
            if there are no others
    """
    parts = curator.domain.parts
    assert parts is not None
    names = [name for name in parts.attributes if name in sizes]
    if not names:
        return ()
    # The error of k² cells is about k²/ε, and its sum over all tables least for ε as k.
    shares = [sizes[name] for name in names]
    amounts = split(curator.accountant.remaining * PAIRS_SHARE, shares)
    return curator.measure_pairs(dict(zip(names, amounts, strict=True)))
