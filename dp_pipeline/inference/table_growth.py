"""A search for tables to measure that lowers the expected error of all pairs of attributes, from
public and released numbers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import inf

import numpy as np

from dp_pipeline.config.constraints import Mask
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.expected_error import STEPS, ExpectedError, TableInformation, least_noise
from dp_pipeline.inference.junction_tree import cell_count, triangulated_cliques
from dp_pipeline.inference.views import covering_design

MAX_TABLE_CELLS = 1024
"""Most cells of a table that is measured: a limit of time and memory."""

FIRST_PAIRS = 256
"""Most pairs that a search begins with, the most dependent for their cells, and most candidates
that find no room in the tree until it ends: a limit of time."""

BATCH = 24
"""Candidates whose errors are computed together; after each choice, the gains of so many of the
best are computed again: a limit of time."""

TRIAL_STEPS = 3
"""Gradient steps on the shares with a candidate, from the shares without it: a limit of time."""

COVERING_GAIN = 0.8
"""Tuned: part of the tree's expected error that a covering design has to be below. A tree says more
of the pairs that it lacks than paths do: mushroom at ε = 5 was 1.3 times as wrong with a design of
.91 times the expected error."""

GAIN_DIGITS = 9
"""Numerical: decimals of gains and errors, relative to an error, so that those which differ by
rounding are equal, and another computer that replays a release chooses the same tables."""


@dataclass(frozen=True, eq=False)
class TableGrowth:
    """A greedy search for tables to measure, which begins with one-way marginals alone.

    error        the expected error that it minimises
    amount       budget (ε or ρ) for all tables and for better one-way marginals
    cap          most cells of a clique of the junction tree of all tables; all cliques together,
                 and all tables together, may have twice as many
    edges        pairs that are in a clique of that tree whatever is measured
    needs_tree   whether rows can be drawn along such a tree alone

    Two tables, a table and an attribute, or two attributes become one table, always those with
    which the error falls most, as long as it falls. A table of several attributes that do not
    depend on each other may pay too: their one-way marginals have less noise in it than apart.

    Where noise is next to nothing, pairs that do not fit into the tree leave most of the error.
    Then a covering design takes the place of all tables, unless rows need a tree.
    """

    error: ExpectedError
    amount: float
    cap: int
    edges: tuple[tuple[str, str], ...] = ()
    needs_tree: bool = True

    def run(self) -> tuple[Names, ...]:
        """Return the attributes of the tables to measure, none inside another, sorted by the order
        of the attributes; every table has two attributes or more."""
        choice, is_full = self._grow(self._empty, self._first_pairs, joins=False)
        views = self._covering(COVERING_GAIN * choice.error) if is_full else ()
        if not views:
            unions = {
                union
                for place in range(len(choice.tables))
                for union in self._unions(choice.tables, place)
            }
            pairs = [pair for pair in self._first_pairs if not choice.holds(pair)]
            choice, _ = self._grow(choice, sorted({*unions, *pairs}), joins=True)
        place = self.error.place
        return tuple(
            sorted(views or choice.tables, key=lambda table: [place[name] for name in table])
        )

    def _covering(self, most_error: float) -> tuple[Names, ...]:
        """Return the covering design with the least expected error; () where no design has less
        than ``most_error`` rows, or where rows need a tree."""
        if self.needs_tree:
            return ()
        sizes, most = dict(self.error.grouped), min(MAX_TABLE_CELLS, self.cap)
        designs = {
            covering_design(sizes, most_cells=1 << bits, most_attributes=len(sizes))
            for bits in range(2, most.bit_length())
        }
        # A design holds a pair of more cells as it is.
        fitting = [
            views
            for views in sorted(designs)
            if self._are_small(views) and max(map(self._cells, views)) <= most
        ]
        errors = [self.error.least_error(views, self.amount) for views in fitting]
        if min(errors, default=inf) >= most_error:
            return ()
        parts = np.round(np.array(errors) / min(errors), GAIN_DIGITS)
        return fitting[int(np.argmin(parts))]

    def _grow(
        self, choice: _Choice, candidates: Sequence[Names], *, joins: bool
    ) -> tuple[_Choice, bool]:
        """Return the choice with candidates added while the error falls, and whether the tree had
        no room for some; with ``joins``, also unions of chosen tables with others and with
        attributes."""
        gains = self._gains(choice, candidates)
        current, refused = set(gains), list[set[str]]()
        while gains and len(refused) < FIRST_PAIRS:
            best = sorted(gains, key=lambda table: (-gains[table], table))[:BATCH]
            # Gains from before the last choice are only near to what they are now.
            gains |= self._gains(choice, [table for table in best if table not in current])
            current.update(best)
            table = min(best, key=lambda table: (-gains[table], table))
            if gains.pop(table) <= 0:
                break
            if not self.fits(choice.tables_with(table)):
                # A table that has its attributes needs a tree that is larger still.
                refused.append(set(table))
                gains = {
                    union: gain for union, gain in gains.items() if not set(table) <= set(union)
                }
                continue
            choice, current = self._choose(choice, table), set()
            if joins:
                unions = self._unions(choice.tables, len(choice.tables) - 1)
                unions = [u for u in unions if not any(less <= set(u) for less in refused)]
                gains |= self._gains(choice, [union for union in unions if union not in gains])
                current.update(unions)
            gains = {t: gain for t, gain in gains.items() if gain > 0 and not set(t) <= set(table)}
        return choice, bool(refused)

    def fits(self, tables: Sequence[Names]) -> bool:
        """Return whether the tables, at least one, and the cliques of their junction tree have at
        most ``cap`` cells each, and twice as many in all."""
        if not self._are_small(tables):
            return False
        edges = chain(self.edges, *(combinations(table, 2) for table in tables))
        return self._are_small(triangulated_cliques(edges, self.error.grouped))

    def _are_small(self, tables: Sequence[Names]) -> bool:
        cells = [self._cells(table) for table in tables]
        return max(cells) <= self.cap and sum(cells) <= 2 * self.cap

    def _cells(self, table: Names) -> int:
        return cell_count(table, self.error.grouped)

    @property
    def _first_pairs(self) -> list[Names]:
        place, dependence = self.error.place, self.error.dependence.scores

        def rank(pair: Names) -> tuple[float, int]:
            cells = self._cells(pair)
            return -float(dependence[place[pair[0]], place[pair[1]]]) / cells**0.5, cells

        pairs: list[Names] = [*combinations(self.error.sizes, 2)]
        small = [pair for pair in pairs if self._cells(pair) <= MAX_TABLE_CELLS]
        return sorted(small, key=rank)[:FIRST_PAIRS]

    def _unions(self, tables: Sequence[Names], place: int) -> list[Names]:
        """Return the unions of the table at ``place`` with each table that overlaps it and with
        each attribute, sorted, if they have at most ``MAX_TABLE_CELLS`` cells."""
        table = tables[place]
        partners = (*tables, *((name,) for name in self.error.sizes))
        unions = {
            tuple(name for name in self.error.sizes if name in {*partner, *table})
            for partner in partners
            if len(partner) == 1 or set(partner) & set(table)
        }
        return sorted(t for t in unions if self._cells(t) <= MAX_TABLE_CELLS and t != table)

    def _gains(self, choice: _Choice, candidates: Sequence[Names]) -> dict[Names, float]:
        """Return candidate → decrease of the error with it, as a share of the choice's error."""
        gains: dict[Names, float] = {}
        for start in range(0, len(candidates), BATCH):
            batch = candidates[start : start + BATCH]
            trial = self._try_candidates(choice, batch)
            errors, _ = self.error.minimise(
                trial.information, trial.shares, self.amount, TRIAL_STEPS
            )
            parts = np.round(1 - errors / choice.error, GAIN_DIGITS)
            gains |= dict(zip(batch, parts.tolist(), strict=True))
        return gains

    def _choose(self, choice: _Choice, table: Names) -> _Choice:
        trial = self._try_candidates(choice, [table])
        errors, shares = self.error.minimise(trial.information, trial.shares, self.amount, STEPS)
        retained = np.append(~trial.inside[0], True)
        return _Choice(
            choice.tables_with(table),
            trial.information.precision[0, retained],
            np.concatenate([choice.noise, trial.noise])[retained],
            shares[0, np.append(retained, np.ones(len(self.error.sizes), dtype=bool))],
            trial.paths[0],
            float(errors[0]),
        )

    def _try_candidates(self, choice: _Choice, candidates: Sequence[Names]) -> _Trial:
        """Return the results of adding each candidate alone, as the last table of the choice."""
        count, most = len(candidates), len(choice.tables)
        tables = [set(table) for table in choice.tables]
        inside = np.array(
            [[table.issubset(new) for table in tables] for new in candidates], dtype=bool
        ).reshape(count, most)
        new = [self.error.table_information(table) for table in candidates]
        precision, noise = (np.array(arrays) for arrays in zip(*new, strict=True))
        of_tables = np.broadcast_to(choice.shares[:most], (count, most))
        # The steps begin at an average share, and half of those of its one-way marginals.
        singles, moved = choice.shares[most:], (precision > 0) / 2
        of_new = (inside * of_tables).sum(axis=1) + (moved * singles).sum(axis=1)
        of_new += float(choice.shares.mean())
        shares = np.hstack(
            [np.where(inside, 0.0, of_tables), of_new[:, None], singles * (1 - moved)]
        )
        precisions = [np.where(inside[:, :, None], 0.0, choice.precision), precision[:, None]]
        best, least = choice.best_without(inside)
        is_better = noise < least
        place, dependence = self.error.place, self.error.dependence
        paths = np.stack(
            [dependence.with_table(choice.paths, [place[n] for n in table]) for table in candidates]
        )
        information = TableInformation(
            np.concatenate(precisions, axis=1),
            np.where(is_better, most, best),
            np.where(is_better, noise, least),
            dependence.unexplained(paths),
        )
        return _Trial(information, noise, shares / shares.sum(axis=1, keepdims=True), inside, paths)

    @property
    def _empty(self) -> _Choice:
        d, start = len(self.error.sizes), self.error.start(())
        errors, shares = self.error.minimise(self.error.information(()), start, self.amount, STEPS)
        none = np.zeros((0, d)), np.zeros((0, len(self.error.first)))
        return _Choice([], *none, shares[0], np.eye(d), float(errors[0]))


@dataclass(frozen=True, eq=False)
class _Choice:
    """The tables chosen so far, with their noise and information.

    precision   (tables, d), as in ``TableInformation``
    noise       (tables, pairs) squared noise of each table in each pair
    shares      (tables + d,) shares of the amount with which the error is least
    paths       (d, d) largest products of strengths along paths of measured pairs
    error       expected error of all pairs, in rows
    """

    tables: list[Names]
    precision: FloatArray
    noise: FloatArray
    shares: FloatArray
    paths: FloatArray
    error: float

    def tables_with(self, table: Names) -> list[Names]:
        """Return the tables with one more, without those inside it."""
        return [*(other for other in self.tables if not set(other) <= set(table)), table]

    @cached_property
    def _best(self) -> tuple[IntArray, FloatArray]:
        return least_noise(self.noise[None])

    def best_without(self, inside: Mask) -> tuple[IntArray, FloatArray]:
        """Return (position of the table with the least squared noise in each pair, that noise),
        (c, pairs) each, for c candidates, among the tables that are not inside the candidate.

        inside   (c, tables) whether a table is inside the candidate
        """
        best = np.repeat(self._best[0], len(inside), axis=0)
        least = np.repeat(self._best[1], len(inside), axis=0)
        # Another table is best only in the few pairs whose best one is inside.
        held = np.flatnonzero(np.isfinite(self._best[1]))
        rows, lost = np.nonzero(inside[:, self._best[0][0, held]])
        if len(rows):
            pairs = held[lost]
            remaining = np.where(inside[rows].T, np.inf, self.noise[:, pairs])
            best[rows, pairs] = remaining.argmin(axis=0)
            least[rows, pairs] = remaining.min(axis=0)
        return best, least

    def holds(self, table: Names) -> bool:
        return any(set(table) <= set(other) for other in self.tables)


@dataclass(frozen=True, eq=False)
class _Trial:
    """The results of adding each of c candidates to a choice.

    information   of the tables with each candidate as the last one
    noise         (c, pairs) squared noise of the candidate in each pair
    shares        (c, tables + 1 + d) of the amount, from which the steps begin
    inside        (c, tables) whether a table is inside the candidate, which takes its place
    paths         (c, d, d) largest products of strengths along paths of measured pairs
    """

    information: TableInformation
    noise: FloatArray
    shares: FloatArray
    inside: Mask
    paths: FloatArray
