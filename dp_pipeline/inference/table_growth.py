"""TableGrowth: tables put together while the error of all pairs falls, where few gaps are known.

Post-processing: everything here is public or was released.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from dp_pipeline.config.constraints import Mask
from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.inference.shared_noise import SharedNoise, Telling
from dp_pipeline.inference.table_sets import TableSearch

MAX_CELLS = 256
"""Of a table."""

MOST_PAIRS = 512
"""That a search begins with: those of the largest gaps beside their cells."""

AT_ONCE = 48
"""Candidates whose errors are computed together, and of the best of which gains are computed again
after each choice."""

STEPS, FIRST_STEPS = 5, 12
"""Steps on the shares of the amount: from what tables had without a candidate, and of what is
chosen."""

OF_A_NEW_TABLE, MOVED = 0.5, 0.75
"""The share of a candidate before the first step: in average shares, and of what its one-way
marginals have."""

HOPELESS = 1e-3
"""A candidate that would add so much to the error, as a part of it, is not tried again."""

DIGITS = 9
"""Of a gain, as a part of the error: gains that are alike but for rounding are equal, so that
another computer, which replays a release, chooses the same tables."""


@dataclass(frozen=True, eq=False)
class _Known:
    """What some tables and all one-way marginals tell, of several candidates c at once.

    ways     (c, tables, d): as in ``Telling``
    pairs    (c, tables, pairs): squared noise of a table in a pair beside its margins, in squares
             of the noise of a cell; without end where it has not both attributes
    shares   (c, tables + d) of the amount, what is added to one-way marginals last
    """

    ways: FloatArray
    pairs: FloatArray
    shares: FloatArray

    @cached_property
    def telling(self) -> Telling:
        """Of each pair by the table that tells most of it."""
        if not self.pairs.shape[1]:
            none = (len(self.pairs), self.pairs.shape[2])
            return Telling(self.ways, np.zeros(none, dtype=np.int64), np.full(none, np.inf))
        holder = np.asarray(self.pairs.argmin(axis=1))
        noise = np.take_along_axis(self.pairs, holder[:, None], axis=1)[:, 0]
        return Telling(self.ways, holder, noise)

    def one(self, at: int, kept: Mask) -> _Known:
        """One candidate by itself, with these of its tables."""
        shares = np.append(kept, np.ones(self.ways.shape[2], dtype=bool))
        some = slice(at, at + 1)
        return _Known(self.ways[some, kept], self.pairs[some, kept], self.shares[some, shares])


@dataclass(frozen=True, eq=False)
class TableGrowth:
    """A search for tables that begins with one-way marginals alone.

    search   sizes and gaps, and what fits a tree
    noise    the error of all pairs as far as amounts decide it; its ``untold`` is that of no table
    amount   for all tables and for better one-way marginals

    Two tables, a table and an attribute, or two attributes become one table, that first with which
    the error falls most, as long as it falls. A table of several attributes that do not depend on
    each other may be worth it too: their one-way marginals have less noise in it than apart. What
    pairs tell of others along paths is not counted: that needs the gaps of all of them.
    """

    search: TableSearch
    noise: SharedNoise
    amount: float

    def run(self) -> tuple[Names, ...]:
        """Tables of several attributes, none inside another, in the order of their attributes."""
        tables, known, error = list[Names](), self._alone, self._error(self._alone)
        gains = self._gains(tables, known, error, self._pairs)
        while gains:
            best = sorted(gains, key=lambda table: (-gains[table], table))[:AT_ONCE]
            gains |= self._gains(tables, known, error, best)
            table = min(best, key=lambda one: (-gains[one], one))
            if gains.pop(table) <= 0:
                break
            after = self._with(tables, table)
            if not self.search.fits(after):
                continue
            known, error = self._chosen(tables, known, table)
            tables = after
            new = [one for one in self._joined(tables) if one not in gains]
            gains |= self._gains(tables, known, error, new)
            gains = {
                one: gain
                for one, gain in gains.items()
                if gain > -HOPELESS and not self._is_inside(one, tables)
            }
        place = self.search.place
        return tuple(sorted(tables, key=lambda table: [place[name] for name in table]))

    @property
    def _names(self) -> Names:
        return tuple(self.search.sizes)

    @property
    def _pairs(self) -> list[Names]:
        """To begin with."""
        place, gaps = self.search.place, self.noise.untold

        def worth(pair: Names) -> tuple[float, int]:
            one, other = (place[name] for name in pair)
            cells = self.search.cells(pair)
            return -float(gaps[one, other]) / cells**0.5, cells

        pairs: Iterable[Names] = combinations(self._names, 2)
        return sorted(filter(self._is_small, pairs), key=worth)[:MOST_PAIRS]

    def _is_small(self, table: Names) -> bool:
        return self.search.cells(table) <= MAX_CELLS

    def _is_inside(self, table: Names, tables: Sequence[Names]) -> bool:
        return any(set(table) <= set(one) for one in tables)

    def _with(self, tables: Sequence[Names], table: Names) -> list[Names]:
        """What is chosen when ``table`` takes the place of what is inside it."""
        return [*(one for one in tables if not set(one) <= set(table)), table]

    def _joined(self, tables: Sequence[Names]) -> list[Names]:
        """The last table with each other one, and with each attribute."""
        others = (*tables[:-1], *((name,) for name in self._names))
        joined = {self.search.ordered({*one, *tables[-1]}) for one in others}
        fresh = (one for one in joined if self._is_small(one) and one != tables[-1])
        return sorted(fresh)

    def _gains(
        self, tables: Sequence[Names], known: _Known, error: float, candidates: Sequence[Names]
    ) -> dict[Names, float]:
        """By how much the error would fall with each candidate, as a part of it."""
        found: dict[Names, float] = {}
        for start in range(0, len(candidates), AT_ONCE):
            some = candidates[start : start + AT_ONCE]
            tried, _ = self._tried(tables, known, some)
            errors, _ = self._settled(tried, STEPS)
            gains = np.round(1 - errors / error, DIGITS)
            found |= dict(zip(some, gains.tolist(), strict=True))
        return found

    def _chosen(self, tables: Sequence[Names], known: _Known, table: Names) -> tuple[_Known, float]:
        """What is known with a table more, and the error."""
        tried, gone = self._tried(tables, known, [table])
        errors, shares = self._settled(tried, FIRST_STEPS)
        after = _Known(tried.ways, tried.pairs, shares).one(0, np.append(~gone[0], True))
        return after, float(errors[0])

    def _tried(
        self, tables: Sequence[Names], known: _Known, candidates: Sequence[Names]
    ) -> tuple[_Known, Mask]:
        """What would be known with each candidate, as the last of its tables, and which of the
        others are inside it (c, tables).
        """
        many, most = len(candidates), len(tables)
        gone = np.array([[set(one) <= set(new) for one in tables] for new in candidates])
        gone = gone.reshape(many, most).astype(bool)
        ways, pairs = zip(*map(self.noise.of_table, candidates), strict=True)
        of_tables = np.broadcast_to(known.shares[0, :most], (many, most))
        # What a table tells of one-way marginals need not be paid for them.
        singles, moved = known.shares[0, most:], MOVED * (np.array(ways) > 0)
        of_new = (gone * of_tables).sum(axis=1) + (moved * singles).sum(axis=1)
        of_new += OF_A_NEW_TABLE * float(known.shares[0].mean())
        of_singles = singles * (1 - moved)
        shares = np.hstack([np.where(gone, 0.0, of_tables), of_new[:, None], of_singles])
        left = gone[:, :, None]
        tried = _Known(
            np.concatenate([np.where(left, 0.0, known.ways), np.array(ways)[:, None]], axis=1),
            np.concatenate([np.where(left, np.inf, known.pairs), np.array(pairs)[:, None]], axis=1),
            shares / shares.sum(axis=1, keepdims=True),
        )
        return tried, gone

    @cached_property
    def _alone(self) -> _Known:
        """No table."""
        of_none = np.zeros((1, 0, len(self._names))), np.zeros((1, 0, len(self.noise.first)))
        shares = np.sqrt(self.noise.levels)[None]
        known = _Known(*of_none, shares / shares.sum())
        return _Known(*of_none, self._settled(known, FIRST_STEPS)[1])

    def _error(self, known: _Known) -> float:
        return float(self._settled(known, 0)[0][0])

    def _settled(self, known: _Known, steps: int) -> tuple[FloatArray, FloatArray]:
        """The error of all pairs (c,) and shares, after so many gradient steps on them."""
        return self.noise.settled(known.telling, known.shares, self.amount, steps)
