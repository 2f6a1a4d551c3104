"""OpenUnits: numbers of units, of their parts, and of units that have a certain part.

A row is a part with its unit, or stands for a unit without parts. In every measured table a unit
counts 1, so each of its s parts weighs 1/s: the number of units by any attribute is a sum of these
weights, and the number of parts a sum of weights times s, which is 0 for a row that is no part.

The number of units with a part that meets a condition is no such sum. With T parts that meet it in
a unit of s parts, S1 = Σ T and S2 = Σ T(T − 1)/2 over the units of one size, it is at least S1/s,
and 2/(k + 1)·S1 − 2/(k(k + 1))·S2 for each k; at most the number of all units, S1, and
S1 − 2/s·S2. S2 is a sum of cells of the measured pairs, where one attribute decides the condition.
Where parts have an order, only successive pairs were measured: with their sum S, S1 − S is an upper
bound.
Source: Dawson and Sankoff (1967), "An inequality for probabilities"; for successive pairs Hunter
(1976), "An upper bound for the probability of a union".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dp_pipeline.answers.conditions import Condition, is_stated
from dp_pipeline.answers.estimate import Basis, Estimate, quantile_of_normal
from dp_pipeline.answers.noisy_tables import dependence_of
from dp_pipeline.answers.precision import Precision
from dp_pipeline.answers.released_rows import ReleasedRows, codes_and_labels
from dp_pipeline.answers.tables import (
    Clocks,
    Of,
    OpenTable,
    is_population,
    no_share_error,
    open_table,
    union,
)
from dp_pipeline.config.domain import SIZE
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.measurement import is_of_pairs
from dp_pipeline.results.synthetic_table import (
    PART,
    UNIT,
    first_parts,
    read_noisy_tables,
    stored_groupings,
)

if TYPE_CHECKING:
    import pandas as pd


class _Pairs(NamedTuple):
    """The noisy counts of pairs of parts that both meet a condition, for c sizes of units: (c,).

    variances     noise variances of the counts; infinite where no table has them
    is_in_order   whether only pairs of successive parts were measured
    """

    counts: FloatArray
    variances: FloatArray
    is_in_order: bool = False


@dataclass(frozen=True)
class _Sums:
    """The sums over units of each of c sizes that bound the number of units with a matching part,
    which is a part that meets the condition.

    sizes       number of parts of a unit: int (c,)
    parts       matching parts (S1): float (c,)
    all_pairs   pairs of matching parts of the released units (S2): float (c,)
    units       units that count: float (c,)
    pairs       noisy counts of pairs of matching parts
    """

    sizes: IntArray
    parts: FloatArray
    all_pairs: FloatArray
    units: FloatArray
    pairs: _Pairs

    def best_bounds(self, *, is_upper: bool, reach: float) -> FloatArray:
        """Return the factors of S1, S2 and the number of units in the bound that is likely closest,
        for each size of units: (c, 3).

        is_upper   whether upper bounds are compared, not lower ones
        reach      standard deviations by which noise widens a bound
        """
        best, is_in_order = [], self.pairs.is_in_order
        for place, variance in enumerate(self.pairs.variances.tolist()):
            sums = (self.parts[place], self.all_pairs[place], self.units[place])
            # All sums but the last are 0 over units without parts, as bounds of one part say.
            size = max(1, self.sizes[place])
            if is_upper:
                options = np.array([(1, 0, 0), (1, -1 if is_in_order else -2 / size, 0), (0, 0, 1)])
            else:
                ks = range(1, 1 if is_in_order else size + 1)
                of_pairs = [(2 / (k + 1), -2 / (k * (k + 1)), 0) for k in ks]
                options = np.array([(1 / size, 0, 0), *of_pairs])
            options = options[(options[:, 1] == 0) | np.isfinite(variance)]
            noise = np.abs(options[:, 1]) * (reach * sqrt(variance) if variance < np.inf else 0.0)
            distances = (1 if is_upper else -1) * (options @ sums) + noise
            best.append(options[np.argmin(distances)])
        return np.array(best)

    def sum_measured_pairs(self, factors: FloatArray) -> tuple[float, float]:
        """Return Σ factor · measured pairs over all sizes of units, and the variance of that sum.

        factors   one for each size: (c,)
        """
        is_used = factors != 0
        counts, variances = self.pairs.counts[is_used], self.pairs.variances[is_used]
        return float(factors[is_used] @ counts), float(factors[is_used] ** 2 @ variances)


class OpenParts(OpenTable):
    """The released parts of units, such as persons, as a table to compute numbers from."""

    _no_part = (
        "A {method} of parts takes a condition on them in `where`, not in `any_part`: move it there"
    )

    def replicates(self, number: int, *, seed: int, of: Of = "table") -> "Iterator[pd.DataFrame]":
        """Return random tables of parts that could be the true table, given the noise.

        DeclarationError for replicates of a population, which is sampled unit by unit."""
        if is_population(of):
            raise DeclarationError(
                "A population is sampled unit by unit, so parts alone have no replicates of it: "
                "use replicates of the units"
            )
        # A row that is no part makes columns hold objects, and is never drawn.
        return (frame.infer_objects() for frame in super().replicates(number, seed=seed))

    def rows_where(self, where: str) -> tuple[np.ndarray, Names]:
        rows, used = super().rows_where(where)
        return rows & (self._items > 0), union(used, (SIZE,))

    def _cells(
        self, used: Names, *, of: Of, level: float
    ) -> tuple[FloatArray, FloatArray, FloatArray, list[Basis]]:
        cells, shape = self.precision.released.cells(used)
        names = union(used, (SIZE,))
        counts = [
            self.count_rows(cells == cell, names, of=of, level=level)
            for cell in range(int(np.prod(shape)))
        ]
        ends = np.array([(count.value, count.low, count.high) for count in counts]).T
        return ends[0], ends[1], ends[2], [count.basis for count in counts]


class OpenUnits(OpenTable):
    """The released units, such as households, with their ``parts``, such as persons.

    >>> release = dp.open_release("out/households")                       # doctest: +SKIP
    >>> release.count("region == 'Vienna'")                               # doctest: +SKIP
    >>> release.count(any_part="age < 16")                                # doctest: +SKIP
    >>> release.parts.mean("age", by="region")                            # doctest: +SKIP
    """

    _no_part = (
        "A {method} takes a condition on units in `where`, not one on their parts in `any_part` "
        "(`with a part where`): leave it out, use `count` or `share` with it, or ask "
        "`parts.{method}` (`--parts`) about parts"
    )

    def __init__(self, tables: Tables, clocks: Clocks | None = None) -> None:
        codes, labels = codes_and_labels(tables)
        self._sizes = codes[SIZE] + int(labels[SIZE][0])
        rows = np.maximum(1, self._sizes)
        firsts = first_parts(rows)
        owners = np.repeat(np.arange(len(firsts)), rows[firsts])
        of_units = {
            name: values[owners] for name, values in tables["units"].items() if name != UNIT
        }
        of_parts = {
            name: _in_rows(values, self._sizes > 0)
            for name, values in tables["synthetic"].items()
            if name not in (UNIT, PART)
        }
        names = [name for name in codes if name != SIZE]
        declared = [name for name in of_units if name != SIZE]
        attributes = {SIZE: SIZE, **dict(zip((*declared, *of_parts), names, strict=True))}
        sizes = {name: len(some) for name, some in labels.items()}
        measured = read_noisy_tables(tables, sizes)
        pairs = [table for table in measured if is_of_pairs(table.attributes)]
        self._pairs = {table.attributes[1]: table for table in pairs}
        precision = Precision(
            ReleasedRows(codes, sizes, 1 / rows),
            [table for table in measured if not is_of_pairs(table.attributes)],
            stored_groupings(tables),
            dependence_of(tables),
        )
        super().__init__(of_units, precision, attributes, labels, clocks=clocks)
        self._firsts = firsts
        self._possible_sizes = np.array([int(label) for label in labels[SIZE]])
        columns, items = of_units | of_parts, self._sizes.astype(np.float64)
        self.parts = OpenParts(columns, precision, attributes, labels, items, clocks)
        """The parts, with the attributes of their units: every method counts parts."""

    def rows_where(self, where: str) -> tuple[np.ndarray, Names]:
        """Return whether each row is of a unit that meets a condition, (rows,), and the attributes
        that decide it.

        DeclarationError for a condition that names a column of parts."""
        if is_stated(where):
            columns = Condition.parse(where, self.parts.columns).columns
            of_parts = [name for name in columns if name not in self.columns]
            if of_parts:
                raise DeclarationError(
                    f"The condition names {of_parts[0]}, a column of parts, but units are counted: "
                    "count `parts` (`--parts`), or, of `count` and the `where` of `share`, name it "
                    "in `any_part` (`with a part where …`)"
                )
        return super().rows_where(where)

    def count(
        self, where: str = "", *, any_part: str = "", of: Of = "table", level: float = 0.95
    ) -> Estimate:
        """Return the estimated number of units that meet a condition.

        where      over attributes of the unit and ``size``, the number of its parts
        any_part   over attributes of parts: units with at least one part that meets it
        of         ``population`` adds the error of sampling the units
        level      of the interval

        DeclarationError for another kind of condition or an unknown column."""
        if not is_stated(any_part):
            return super().count(where, of=of, level=level)
        return self._with_a_part(where, "", any_part, of=of, level=level)

    def share(
        self,
        where: str = "",
        *,
        among: str = "",
        any_part: str = "",
        of: Of = "table",
        level: float = 0.95,
    ) -> Estimate:
        """Return the estimated share of the units that meet ``among`` that also meet ``where``,
        from 0 to 1; an empty condition is met by all units.

        With ``any_part``, at least one part of the unit must meet that too. DeclarationError where
        no released unit meets ``among``."""
        if not is_stated(any_part):
            return super().share(where, among=among, of=of, level=level)
        return self._with_a_part(where, among, any_part, of=of, level=level, is_share=True)

    def _with_a_part(
        self, where: str, among: str, any_part: str, *, of: Of, level: float, is_share: bool = False
    ) -> Estimate:
        base, used = self.rows_where(among)
        in_units, used_where = self.rows_where(where)
        in_units, used = in_units & base, union(used, used_where)
        rows, used_parts = self.parts.rows_where(any_part)
        pairs = self._matching_pairs(in_units, rows, used, used_parts)
        used, rows = union(used, used_parts), rows & in_units
        sums = self._sums(in_units, rows, pairs)
        divisor = self.precision.weight * float((base * self._mass).sum()) if is_share else 1.0
        if not divisor:
            raise no_share_error("unit", among)
        has_part = np.logical_or.reduceat(rows, self._firsts)
        value = self.precision.weight * float(has_part.sum()) / divisor
        extra = self.parts.split_variance(rows, used)
        extra += 0.0 if has_part.any() else self.precision.least_noise(used)
        reach, ends, bases = quantile_of_normal(level), [], set[Basis]()
        bounds = [sums.best_bounds(is_upper=upper, reach=reach) for upper in (False, True)]
        for of_size in bounds:
            noisy_pairs, variance = sums.sum_measured_pairs(of_size[:, 1])
            of_row = of_size[self.precision.codes[SIZE]]
            values = of_row[:, 0] * self._sizes * rows + of_row[:, 2] * in_units
            end = self.precision.weight * float((values * self._mass).sum()) + noisy_pairs
            weights = (values - end / divisor * base * is_share) / divisor
            result = self.precision.weighted_sum(weights, used)
            variance = float(result.variances[0]) + (variance + extra) / divisor**2
            variance += self._sampling(weights) if is_population(of) else 0.0
            ends.append((end / divisor, reach * sqrt(variance)))
            bases |= {*result.bases}
        is_same = bool((bounds[0] == bounds[1])[sums.units > 0].all())
        basis: Basis = "model" if "model" in bases else "bounded"
        if bases == {"measured"} and is_same:
            basis = "measured"
        low, high = ends[0][0] - ends[0][1], ends[1][0] + ends[1][1]
        most = 1.0 if is_share else self._most_items(of=of, level=level)
        return Estimate(value, low, high, level, basis).clip(0.0, most)

    def _sums(self, in_units: np.ndarray, rows: np.ndarray, pairs: _Pairs) -> _Sums:
        """Return the sums over units, by the size of the unit.

        in_units   whether each row is of a unit that counts: bool (rows,)
        rows       whether each row is a matching part of such a unit: bool (rows,)
        """
        codes = self.precision.codes[SIZE][self._firsts]

        def by_size(values: FloatArray) -> FloatArray:
            sums = np.bincount(codes, values, minlength=len(self._possible_sizes))
            return np.asarray(self.precision.weight * sums)

        parts = np.add.reduceat(rows.astype(np.float64), self._firsts)
        units = in_units[self._firsts].astype(np.float64)
        all_pairs = by_size(parts * (parts - 1) / 2)
        return _Sums(self._possible_sizes, by_size(parts), all_pairs, by_size(units), pairs)

    def _matching_pairs(
        self, in_units: np.ndarray, rows: np.ndarray, used: Names, used_parts: Names
    ) -> _Pairs:
        """Return the noisy counts of pairs of parts that both meet a condition, by size of unit.

        They are 0 with infinite variances unless the condition is decided by the levels of a single
        attribute with a table of pairs, and ``in_units`` by the size alone.

        in_units     whether each row is of a unit that counts: bool (rows,)
        rows         whether each row is a part that meets the condition: bool (rows,)
        used         attributes that decide ``in_units``
        used_parts   attributes that decide ``rows``, with the size
        """
        size, names = self._possible_sizes, [name for name in used_parts if name != SIZE]
        table = self._pairs.get(names[0]) if len(names) == 1 else None
        unknown = _Pairs(np.zeros(len(size)), np.full(len(size), np.inf))
        if table is None or not {*used} <= {SIZE}:
            return unknown
        codes = self.precision.codes[names[0]]
        is_match = np.zeros(table.table.shape[1], dtype=np.bool_)
        is_match[codes[rows]] = True
        if is_match[codes[~rows]].any():
            return unknown
        is_in_order = table.attributes[2] != names[0]
        # A pair of a set was counted once, with the smaller code first.
        is_counted = np.outer(is_match, is_match)
        is_counted = is_counted if is_in_order else np.triu(is_counted)
        number = np.maximum(0, size - 1) if is_in_order else size * (size - 1) / 2
        number = number * np.isin(size, self._sizes[in_units])
        counts = number * table.table[:, is_counted].sum(axis=1)
        return _Pairs(counts, number**2 * table.variance * is_counted.sum(), is_in_order)


def _in_rows(values: np.ndarray, is_part: np.ndarray) -> np.ndarray:
    """Return a value for each row (rows,), from those of parts (parts,): None or NaT for a row that
    is no part."""
    if is_part.all():
        return values
    is_date = values.dtype.kind == "M"
    rows = np.full(
        len(is_part), np.datetime64("NaT") if is_date else None, values.dtype if is_date else object
    )
    rows[is_part] = values
    return rows


def open_tables(tables: Tables, clocks: Clocks | None = None) -> OpenTable | OpenUnits:
    """Return a release opened from the tables of its bundle: ``OpenUnits`` for units with parts,
    else ``OpenTable``.

    clocks   column → the clock in whose format its dates are texts"""
    return OpenUnits(tables, clocks) if "units" in tables else open_table(tables, clocks)
