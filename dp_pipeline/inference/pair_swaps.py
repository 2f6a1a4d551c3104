"""Parts of synthetic units, exchanged between units of one size until their pairs are right, which
leaves the table of the parts' attributes and the size of the unit as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import FloatArray, IntArray

ROUNDS = 400
"""Rounds of swaps; nearly twice as many leave the same error of pairs (eusilc, ε = 2)."""

UNITS_A_SWAP = (32, 512)
"""Units for each swap, in the first round and in the last: few swap at once, as each is judged
without the others, and fewer the nearer the goals are."""


@dataclass(frozen=True)
class SyntheticUnits:
    """Synthetic units of one size, with their parts.

    size     number of parts of each
    units    attribute of the unit → codes (n,)
    parts    attribute of the part → codes (n, size)
    """

    size: int
    units: Mapping[str, IntArray]
    parts: Mapping[str, IntArray]

    def __len__(self) -> int:
        return len(next(iter(self.parts.values())))


@dataclass(frozen=True)
class PairGoal:
    """The counts that the pairs of parts in units of one size should have, for one attribute.

    counts     float (k, k), by the codes of both parts: of successive parts in order, else of all
               pairs, each in both orders
    variance   of the noise in a cell of the table that the counts are from
    """

    counts: FloatArray
    variance: float


def swap_parts(
    units: SyntheticUnits,
    goals: Mapping[str, PairGoal],
    variance: float,
    *,
    in_order: bool,
    rng: np.random.Generator,
) -> SyntheticUnits:
    """Return the units with parts exchanged among them, so that pairs of parts of one unit are
    nearer to the goals; the same units where there is nothing to exchange.

    goals      attribute of the part → counts that its pairs should have
    variance   of the noise in a count of units
    in_order   whether parts are in order, so that only successive ones are pairs

    A swap is made if it lowers a sum of squares: of the differences from the goals, and of the
    changes of tables of a unit's and a part's attribute, each divided by its variance.
    """
    if len(units) < 2 or units.size < 2:
        return units
    search = _Search.of(units, goals, variance, in_order=in_order)
    for units_a_swap in np.geomspace(*UNITS_A_SWAP, ROUNDS):
        search.swap(max(1, round(len(units) / units_a_swap)), rng)
    return SyntheticUnits(units.size, units.units, search.parts)


def spread_parts(
    units: SyntheticUnits, single: Sequence[tuple[str, Sequence[int]]], rng: np.random.Generator
) -> SyntheticUnits:
    """Return the units with parts exchanged among them, so that few units have two parts with codes
    that at most one part may have.

    single   (attribute of the part, codes that at most one part of a unit may have)

    A part too many changes places with a part of a unit that has none with these codes, while there
    is such a unit. A later entry may undo some of what an earlier one did.
    """
    parts = {name: codes.copy() for name, codes in units.parts.items()}
    for name, codes in single:
        have = np.isin(parts[name], list(codes))
        # In each unit one part with such a code stays.
        extra = rng.permutation(np.argwhere(have & (have.cumsum(axis=1) > 1)))
        free = rng.permutation(np.flatnonzero(~have.any(axis=1)))[: len(extra)]
        rows, places = extra[: len(free)].T
        columns = rng.integers(0, units.size, len(free))
        for column in parts.values():
            column[rows, places], column[free, columns] = (
                column[free, columns],
                column[rows, places],
            )
    return replace(units, parts=parts)


@dataclass
class _Search:
    """A local search for swaps of parts, which updates the residuals of all tables.

    parts      attribute of the part → codes (n, size)
    partners   (size, m) positions of the parts that each part makes pairs with
    is_later   (size, m) whether a part comes after its partner
    is_pair    (size, m) whether there is a partner
    of_pairs   attribute → residuals (k, k) and the weight of their squares
    of_units   (attribute of the unit, of the part) → residuals, whose squares all have the weight
               ``unit_weight``
    """

    units: Mapping[str, IntArray]
    parts: dict[str, IntArray]
    partners: IntArray
    is_later: NDArray[np.bool_]
    is_pair: NDArray[np.bool_]
    is_symmetric: bool
    of_pairs: dict[str, tuple[FloatArray, float]]
    of_units: dict[tuple[str, str], FloatArray]
    unit_weight: float

    @classmethod
    def of(
        cls,
        units: SyntheticUnits,
        goals: Mapping[str, PairGoal],
        variance: float,
        *,
        in_order: bool,
    ) -> _Search:
        size = units.size
        positions = np.arange(size)
        if in_order:
            partners = np.stack([positions - 1, positions + 1], axis=1)
        else:
            partners = np.array([np.delete(positions, i) for i in positions])
        is_pair = (partners >= 0) & (partners < size)
        partners = np.where(is_pair, partners, 0)
        search = cls(
            units.units,
            {name: codes.copy() for name, codes in units.parts.items()},
            partners,
            partners < positions[:, None],
            is_pair,
            not in_order,
            {},
            {},
            1 / max(variance * size**2, 1.0),
        )
        part, place = np.nonzero(is_pair & (search.is_symmetric | search.is_later))
        for name, goal in goals.items():
            counts, codes = np.zeros_like(goal.counts), units.parts[name]
            np.add.at(counts, (codes[:, partners[part, place]], codes[:, part]), 1)
            search.of_pairs[name] = (counts - goal.counts, 1 / max(goal.variance, 1.0))
            for unit, levels in units.units.items():
                shape = (int(levels.max()) + 1, len(counts))
                search.of_units[unit, name] = np.zeros(shape)
        return search

    def swap(self, most: int, rng: np.random.Generator) -> None:
        """Draw random couples of units and a random part of each unit, and exchange the parts of at
        most ``most`` couples: of those that lower the sum of squares the most."""
        count, size = next(iter(self.parts.values())).shape
        chosen = rng.permutation(count)[: count // 2 * 2].reshape(2, -1)
        positions = rng.integers(0, size, chosen.shape)
        changes = self._change(chosen, positions)
        # Stable: processors sort equal changes differently, and a release is drawn again later.
        best = np.argsort(changes, kind="stable")[:most]
        best = best[changes[best] < 0]
        chosen, positions = chosen[:, best], positions[:, best]
        for name, (residuals, _) in self.of_pairs.items():
            own, partners, is_pair = self._cells(name, chosen, positions)
            for codes, step in ((own, -1.0), (own[::-1], 1.0)):
                first, second = self._pair_cells(codes, partners, positions)
                np.add.at(residuals, (first[is_pair], second[is_pair]), step)
                if self.is_symmetric:
                    np.add.at(residuals, (second[is_pair], first[is_pair]), step)
        for (unit, name), residuals in self.of_units.items():
            units, own = self.units[unit][chosen], self.parts[name][chosen, positions]
            np.add.at(residuals, (units, own), -1.0)
            np.add.at(residuals, (units, own[::-1]), 1.0)
        for codes in self.parts.values():
            codes[chosen, positions] = codes[chosen, positions][::-1]

    def _cells(
        self, name: str, chosen: IntArray, positions: IntArray
    ) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
        """Return (codes of the parts that would be swapped (2, b), codes of their partners
        (2, b, m), whether there is each partner (2, b, m))."""
        codes = self.parts[name]
        own = codes[chosen, positions]
        return own, codes[chosen[..., None], self.partners[positions]], self.is_pair[positions]

    def _pair_cells(
        self, own: IntArray, partners: IntArray, positions: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Return (codes of the first part, codes of the second part) of pairs, (2, b, m) each; the
        first part is the earlier one if parts are in order."""
        own = np.broadcast_to(own[..., None], partners.shape)
        if self.is_symmetric:
            return own, partners
        is_later = self.is_later[positions]
        return np.where(is_later, partners, own), np.where(is_later, own, partners)

    def _change(self, chosen: IntArray, positions: IntArray) -> FloatArray:
        """Return how much each of b swaps changes the weighted sum of squared residuals (b,).

        chosen      (2, b) positions of the two units
        positions   (2, b) of the part in each unit
        """
        change = np.zeros(chosen.shape[1])
        for name, (residuals, weight) in self.of_pairs.items():
            own, partners, is_pair = self._cells(name, chosen, positions)
            before = residuals[self._pair_cells(own, partners, positions)]
            after = residuals[self._pair_cells(own[::-1], partners, positions)]
            moved = ((2 * (after - before) + 2) * is_pair).sum(axis=(0, 2))
            change += weight * (1 + self.is_symmetric) * moved * (own[0] != own[1])
        for (unit, name), residuals in self.of_units.items():
            units, own = self.units[unit][chosen], self.parts[name][chosen, positions]
            moved = (residuals[units, own[::-1]] - residuals[units, own]).sum(axis=0)
            is_moved = (units[0] != units[1]) & (own[0] != own[1])
            change += self.unit_weight * (2 * moved + 4) * is_moved
        return change
