"""Counts, shares, means and quantiles of a released table, each with an interval."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod, sqrt
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from dp_pipeline.answers.conditions import Columns, Condition, is_stated, require_column
from dp_pipeline.answers.estimate import Basis, Estimate, quantile_of_normal, require_number
from dp_pipeline.answers.noisy_tables import dependence_of, without_last_levels
from dp_pipeline.answers.precision import Precision, Sums
from dp_pipeline.answers.released_rows import ReleasedRows, codes_and_labels
from dp_pipeline.config.clock import Clock
from dp_pipeline.config.domain import MISSING
from dp_pipeline.config.encoding import FloatArray, Names, number_of
from dp_pipeline.config.errors import Damaged, DeclarationError, one_of, require_integer
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.synthetic_table import read_noisy_tables, stored_groupings

if TYPE_CHECKING:
    import pandas as pd

Clocks = Mapping[str, Clock]

Of = Literal["table", "population"]
"""Whose numbers are estimated: of the true rows, or of the population that they are a sample of."""

MOST_CELLS = 10_000  # cells of one table of estimates, at most
POPULATION = 10  # rows of a replicate of the population for each row of a table

INSIDE_A_BIN = 1 / 12
"""Difference between the true mean inside a bin and that of uniform values, in widths of the bin:
that of a density that rises linearly from nothing to twice its mean is 1/12 of the width."""


def is_population(of: object) -> bool:
    """Return whether numbers are of the population; DeclarationError for no value of ``Of``."""
    if not isinstance(of, str) or of not in get_args(Of):
        got = repr(of[:40]) if isinstance(of, str) else f"a value of type {type(of).__name__}"
        raise DeclarationError(f"of: expected {' or '.join(get_args(Of))}, got {got}")
    return of == "population"


class OpenTable:
    """A synthetic table, with the noisy tables from which it was made.

    columns      column → its values (rows,); as a property, their names
    precision    variances of its numbers
    attributes   column → the attribute that it is drawn from
    labels       attribute → texts of its levels
    items        number of items, such as parts of a unit, that a row represents for each 1 that it
                 adds to a measured table: (rows,); None: 1
    clocks       column → the clock in whose format its dates are texts, which conditions and means
                 take as dates

    A number equals that of the synthetic rows, scaled to the estimated number of true rows.
    Conditions compare columns with values (see ``count``).
    """

    _no_part = "A {method} of rows without parts takes no `any_part`: leave it out"

    def __init__(
        self,
        columns: Columns,
        precision: Precision,
        attributes: Mapping[str, str],
        labels: Mapping[str, Sequence[str]],
        items: FloatArray | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        self._released, self.precision = columns, precision
        self._clocks, self._dates = clocks or {}, dict[str, np.ndarray]()
        self._attributes, self._labels = attributes, labels
        self._items = np.ones(precision.rows) if items is None else items
        self._mass = precision.released.weigh(self._items)
        self._firsts = np.arange(precision.rows)
        """The first row of each item that replicates draw."""

    @property
    def columns(self) -> Names:
        """The names of the columns, as conditions use them."""
        return tuple(self._released)

    def _values(self, column: str) -> np.ndarray:
        """Return the values of a column (rows,), as dates where they are texts in a format.

        These are read at first use, as a million different ones take half a minute. Damaged where
        they are not in the format."""
        if column not in self._clocks:
            return self._released[column]
        if column not in self._dates:
            clock = self._clocks[column]
            try:
                self._dates[column] = clock.read_release_values(self._released[column])
            except (ValueError, TypeError):
                raise Damaged(
                    f"The column {column} must hold dates as {clock.format}, but one is not: fetch "
                    "the export again"
                ) from None
        return self._dates[column]

    def value_of(self, column: str, number: float) -> float | str:
        """Return a number of a column as its value: a date or time in ISO 8601, or the number."""
        dtype = self._values(column).dtype
        return str(np.int64(round(number)).astype(dtype)) if dtype.kind == "M" else number

    def __repr__(self) -> str:
        rows = f"about {self.precision.total:,.0f} rows"
        return f"OpenTable({len(self.columns)} columns, {rows})"

    def count(
        self, where: str = "", *, any_part: str = "", of: Of = "table", level: float = 0.95
    ) -> Estimate:
        """Return the estimated number of rows that meet a condition.

        where   comparisons of columns with values, joined by ``and``, ``or``, ``not``; a name that
                is no identifier stands between backticks; all rows when empty. As in SQL, a missing
                value meets no comparison and no negation of one, but ``x = 'missing'``
        of      ``population`` adds the error of sampling the rows
        level   of the interval

        DeclarationError for another kind of condition, an unknown column, and for ``any_part``,
        here and in the methods below: only units have parts.
        """
        self._require_no_part("count", any_part)
        rows, used = self.rows_where(where)
        return self.count_rows(rows, used, of=of, level=level)

    def share(
        self,
        where: str = "",
        *,
        among: str = "",
        any_part: str = "",
        of: Of = "table",
        level: float = 0.95,
    ) -> Estimate:
        """Return the estimated share of the rows that meet ``among`` that also meet ``where``, from
        0 to 1; ``among`` is all rows when empty.

        DeclarationError where no released row meets ``among``."""
        self._require_no_part("share", any_part)
        rows, used = self.rows_where(where)
        base, used_base = self.rows_where(among)
        if not base.any():
            raise no_share_error("row", among)
        return self._ratio(
            rows & base, base, union(used, used_base), of=of, level=level, bounds=(0.0, 1.0)
        )

    def mean(
        self,
        column: str,
        *,
        where: str = "",
        any_part: str = "",
        by: str = "",
        of: Of = "table",
        level: float = 0.95,
    ) -> Estimate | dict[str, Estimate]:
        """Return the estimated mean of a numeric column, in its unit, or of dates or times in days
        or seconds since 1970; with ``by``, a mapping from each level of that column to the mean of
        its rows.

        Missing values are left out, and so are levels without a released row that has a value.
        DeclarationError for a column of texts, or where no released row that has a value meets the
        condition."""
        self._require_no_part("mean", any_part)
        rows, used = self.rows_where(where)
        if not is_stated(by):
            return self._mean(column, rows, used, where, of=of, level=level)
        attribute = self._attributes[self._require_column(by)]
        rows = rows & self._numbers(column)[1]
        if not rows.any():
            raise _no_value(column, where, "mean")
        codes, used = self.precision.codes[attribute], union(used, (attribute,))
        return {
            label: self._mean(
                column,
                rows & (codes == code),
                used,
                " and ".join(filter(is_stated, (where, f"{by} = {label!r}"))),
                of=of,
                level=level,
            )
            for code, label in enumerate(self._labels[attribute])
            if (rows & (codes == code)).any()
        }

    def _mean(
        self, column: str, rows: np.ndarray, used: Names, where: str, *, of: Of, level: float
    ) -> Estimate:
        values, present = self._numbers(column)
        rows = rows & present
        if not rows.any():
            raise _no_value(column, where, "mean")
        inside = self._width_of_bins(column)
        shares = rows * self._mass / max(1.0, float((rows * self._mass).sum()))
        return self._ratio(
            np.where(rows, values, 0.0),
            rows,
            union(used, (self._attributes[column],)),
            of=of,
            level=level,
            extra=float((shares * inside).sum()) * INSIDE_A_BIN,
            bounds=self._bounds_of(column),
        )

    def quantile(
        self,
        column: str,
        probability: float,
        *,
        where: str = "",
        any_part: str = "",
        of: Of = "table",
        level: float = 0.95,
    ) -> Estimate:
        """Return the estimated quantile of a numeric column, in the unit of ``mean``.

        The interval holds the values whose cumulative share is within its own error of
        ``probability``. Missing values are left out. DeclarationError for a column of texts, a
        probability outside 0 to 1, or where no released row that has a value meets the condition.
        """
        self._require_no_part("quantile", any_part)
        require_number(probability, of="probability of a quantile")
        if not 0 <= probability <= 1:
            raise DeclarationError(
                f"The probability of a quantile must be a number from 0 to 1, not {probability}"
            )
        rows, used = self.rows_where(where)
        values, present = self._numbers(column)
        rows = rows & present
        if not rows.any():
            raise _no_value(column, where, "quantile")
        value = self._value_at(probability, values, rows)
        share = self._ratio(
            (values <= value) & rows,
            rows,
            union(used, (self._attributes[column],)),
            of=of,
            level=level,
            bounds=(0.0, 1.0),
        )
        low, high = (
            self._value_at(probability + end - share.value, values, rows)
            for end in (share.low, share.high)
        )
        inside = float(self._width_of_bins(column).max()) * INSIDE_A_BIN
        estimate = Estimate(value, low - inside, high + inside, level, share.basis)
        return estimate.clip(*self._bounds_of(column))

    def _bounds_of(self, column: str) -> tuple[float, float]:
        """Return the least and the greatest number in the texts of a column's levels or bins.

        They are infinite for dates, and where no text is a number."""
        if self._values(column).dtype.kind == "M":
            return -np.inf, np.inf
        texts = [text.strip("[)]").split(", ") for text in self._labels[self._attributes[column]]]
        numbers = [number_of(text) for ends in texts for text in ends]
        ends = [number for number in numbers if number is not None]
        return (float(min(ends)), float(max(ends))) if ends else (-np.inf, np.inf)

    def _value_at(self, probability: float, values: FloatArray, rows: np.ndarray) -> float:
        """Return the weighted quantile of some rows' values, linear between neighbouring values."""
        order = np.argsort(values[rows], kind="stable")
        mass = self._mass[rows][order]
        places = np.cumsum(mass) - mass / 2
        places = (places - places[0]) / ((places[-1] - places[0]) or 1.0)
        return float(np.interp(probability, places, values[rows][order]))

    def table(self, *columns: str, of: Of = "table", level: float = 0.95) -> "pd.DataFrame":
        """Return a frame with a line for each combination of levels of some columns, also of levels
        that no released row has together; numbers stand by their bins.

        Its further columns are ``count``, ``low``, ``high`` and ``basis``.

        DeclarationError for no column, an unknown or a repeated one, and for more than 10,000
        combinations."""
        import pandas as pd

        used = tuple(self._attributes[self._require_column(column)] for column in columns)
        if not columns:
            raise DeclarationError("A table needs one or more columns, not none: name a column")
        if len(set(columns)) < len(columns):
            raise DeclarationError(
                f"A table needs each column once, not {', '.join(columns)}: leave repeated ones out"
            )
        many = prod(self.precision.sizes[name] for name in used)
        if many > MOST_CELLS:
            raise DeclarationError(
                f"A table must have at most {MOST_CELLS:,} combinations of values, not {many:,}: "
                "name fewer columns"
            )
        labels = [self._labels[name] for name in used]
        frame = pd.MultiIndex.from_product(labels, names=columns).to_frame(index=False)
        parts = self._cells(used, of=of, level=level)
        frame["count"], frame["low"], frame["high"], frame["basis"] = parts
        return frame

    def _cells(
        self, used: Names, *, of: Of, level: float
    ) -> tuple[FloatArray, FloatArray, FloatArray, list[Basis]]:
        """Return counts, low ends, high ends and bases of cells: (cells,) each."""
        cells = self.precision.cell_counts(used)
        return cells.values, *self._ends(cells, cells.values, of=of, level=level), cells.bases

    def replicates(self, number: int, *, seed: int, of: Of = "table") -> "Iterator[pd.DataFrame]":
        """Return random tables that could be the true table, given the noise of the release.

        number   of tables, at least one
        seed     of their draws, of at least 0; the same seed gives the same tables
        of       ``population`` yields populations that the true table could be a sample of: another
                 sample of each table, in which every row stands ten times, so that an analysis
                 reports almost no sampling error: the differences between the tables hold it

        ``combine`` makes one estimate, of the table or of the population, from an estimate of each.
        DeclarationError for a number or a seed that is too small or no integer.
        """
        number = require_integer(number, of="number", least=1)
        seed = require_integer(seed, of="seed", least=0)
        return self._draw_replicates(number, seed, is_population=is_population(of))

    def _draw_replicates(
        self, number: int, seed: int, *, is_population: bool
    ) -> "Iterator[pd.DataFrame]":
        import pandas as pd

        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(dict(self._released)).iloc[self._firsts]
        for _ in range(number):
            weights = self.precision.draw_weights(rng) * self._items
            weights = np.add.reduceat(weights, self._firsts)
            if is_population:
                rows = POPULATION * rng.poisson(weights)
            else:
                # Systematic sampling in random order: each row as often as its weight says.
                order = rng.permutation(len(weights))
                ends = np.floor(np.cumsum(weights[order]) + rng.random())
                rows = np.empty(len(weights), dtype=np.int64)
                rows[order] = np.diff(ends, prepend=0.0)
            yield frame.iloc[np.repeat(np.arange(len(rows)), rows)].reset_index(drop=True)

    def rows_where(self, where: str) -> tuple[np.ndarray, Names]:
        """Return whether each row meets the condition, (rows,), and the attributes that decide it;
        all rows, and no attribute, for an empty condition.

        DeclarationError for another kind of condition, or an unknown column or level."""
        if not is_stated(where):
            return np.ones(self.precision.rows, dtype=np.bool_), ()
        condition = Condition.parse(where, self.columns)
        used = tuple(self._attributes[column] for column in condition.columns)
        levels: dict[str, dict[str, np.ndarray]] = {}
        for column, text in condition.texts():
            attribute, kind = self._attributes[column], self._values(column).dtype.kind
            labels = self._labels[attribute]
            # A misspelt level would be counted as none; numbers are compared by value.
            if kind in "UO" and text not in labels:
                raise DeclarationError(
                    f"The value of {column} in a condition {one_of(labels, text)}"
                )
            if kind == "M" and text in labels:
                codes = self.precision.codes[attribute]
                levels.setdefault(column, {})[text] = codes == labels.index(text)
        columns = {column: self._values(column) for column in condition.columns}
        return condition.rows(columns, levels), used

    def count_rows(
        self, rows: np.ndarray, used: Names, *, of: Of = "table", level: float = 0.95
    ) -> Estimate:
        """Return the estimated number of true rows that some released rows represent.

        rows   whether each released row counts: bool (rows,)
        used   attributes that decide it
        """
        weights = rows * self._items
        result = self.precision.weighted_sum(weights, used)
        extra = self.split_variance(rows, used)
        if not rows.any():
            # The true number may be as large as the noise of one cell.
            extra += self.precision.least_noise(used)
        result = replace(result, noise=result.noise + extra)
        low, high = self._ends(result, self._sampling(weights), of=of, level=level)
        value = float(result.values[0])
        return Estimate(value, float(low[0]), float(high[0]), level, result.bases[0])

    def _sampling(self, weights: FloatArray) -> float:
        """Return the variance that sampling of rows adds to a sum over rows.

        The items of a unit are sampled together: the square of their mean is at most that of
        their squares.
        """
        return self.precision.weight * float(self.precision.released.weigh(weights**2).sum())

    def _ends(
        self, counts: Sums, sampling: FloatArray | float, *, of: Of, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the low and high ends of intervals for counts: (cells,) each.

        A count near 0 may have been below 0 before the fit, which a normal interval around 0 does
        not show: its high end is at least the quantile of the noisy count given that the true count
        is not negative, if all such counts are equally likely before."""
        from scipy.special import ndtr, ndtri

        variances = counts.variances
        if is_population(of):
            variances = variances + sampling
        values, reach = counts.values, quantile_of_normal(level) * np.sqrt(variances)
        low, high = values - reach, values + reach
        deviations = np.where(np.isfinite(counts.direct_variance), counts.direct_variance, 0) ** 0.5
        near_zero = np.flatnonzero(values < deviations)
        noisy, deviation = counts.direct[near_zero], deviations[near_zero]
        upper_ends = noisy - deviation * ndtri((1 - level) / 2 * ndtr(noisy / deviation))
        high[near_zero] = np.maximum(high[near_zero], upper_ends)
        high = np.minimum(high, self._most_items(of=of, level=level))
        return np.minimum(np.maximum(low, 0.0), values), np.maximum(high, values)

    def _most_items(self, *, of: Of, level: float) -> float:
        """Return the upper end of the interval for the number of all items."""
        variance = float(self._all_items.variances[0])
        variance += self._sampling(self._items) if is_population(of) else 0.0
        return float(self._all_items.values[0]) + quantile_of_normal(level) * sqrt(variance)

    @cached_property
    def _all_items(self) -> Sums:
        return self.precision.weighted_sum(self._items, ())

    def split_variance(self, rows: np.ndarray, used: Names) -> float:
        """Return the variance that bins cut by a condition add to a count, in rows².

        Rows are drawn uniformly inside a bin. Of c rows in a bin cut at the part f, densities that
        rise or fall linearly, by random slopes, have f·c ± f(1 − f)·c/√3.

        rows   whether each released row counts: bool (rows,)
        used   attributes that decide it
        """
        columns = [self._values(name) for name, owner in self._attributes.items() if owner in used]
        if all(column.dtype.kind == "U" for column in columns):
            return 0.0
        released = self.precision.released
        means, cells = released.means_of_cells(rows.astype(np.float64), used)
        items = self.precision.weight * np.bincount(cells, self._mass, minlength=len(means))
        return float(((items * means * (1 - means)) ** 2).sum()) / 3

    def _ratio(
        self,
        part: np.ndarray,
        base: np.ndarray,
        used: Names,
        *,
        of: Of,
        level: float,
        bounds: tuple[float, float],
        extra: float = 0.0,
    ) -> Estimate:
        """Return the estimate of Σ part / Σ base over rows, clipped to ``bounds``.

        used    attributes that decide part and base
        extra   half width that is added to the interval

        Its error is linearised: that of the sum of (part − ratio · base) / Σ base. DeclarationError
        where the base weighs nothing."""
        many = float((base * self._mass).sum())
        if many == 0:
            raise DeclarationError(
                "The released rows asked about weigh nothing together, so they have no mean and "
                "no share: use a wider condition"
            )
        ratio = float((part * self._mass).sum()) / many
        weights = self._items * (part - ratio * base) / (many * self.precision.weight)
        result = self.precision.weighted_sum(weights, used)
        variance = float(result.variances[0])
        if part.dtype == np.bool_:
            split = self.split_variance(part, used)
            variance += split / (many * self.precision.weight) ** 2
        if is_population(of):
            variance += self._sampling(weights)
        deviation = sqrt(variance) + extra / quantile_of_normal(level)
        least, most = bounds
        return Estimate.within(
            ratio, deviation, level=level, basis=result.bases[0], least=least, most=most
        )

    def _numbers(self, column: str) -> tuple[FloatArray, np.ndarray]:
        """Return a column as numbers, 0 if missing, and whether each is present: (rows,) each.

        DeclarationError for a column of texts."""
        values = self._values(self._require_column(column))
        present = np.ones(len(values), dtype=np.bool_)
        if values.dtype.kind == "O":
            present = np.array([value is not None for value in values.tolist()], dtype=np.bool_)
            values = np.where(present, values, 0)
        elif values.dtype.kind == "M":
            present = ~np.isnat(values)
        try:
            return np.where(present, values.astype(np.float64), 0.0), present
        except (ValueError, TypeError):
            raise DeclarationError(
                f"The column {column} holds texts, but this question needs numbers: choose "
                "another column"
            ) from None

    def _width_of_bins(self, column: str) -> FloatArray:
        """Return the range of the released numbers in each row's bin: (rows,), 0 if missing."""
        values, present = self._numbers(column)
        codes = self.precision.codes[self._attributes[column]]
        size = self.precision.sizes[self._attributes[column]]
        low, high = np.full(size, np.inf), np.full(size, -np.inf)
        np.minimum.at(low, codes[present], values[present])
        np.maximum.at(high, codes[present], values[present])
        widths = np.where(high > low, high - low, 0.0)
        return np.asarray(np.where(present, widths[codes], 0.0))

    def _require_no_part(self, method: str, any_part: str) -> None:
        if is_stated(any_part):
            raise DeclarationError(self._no_part.format(method=method))

    def _require_column(self, column: str) -> str:
        return require_column(column, self.columns, is_compared=False)


def open_table(tables: Tables, clocks: Clocks | None = None) -> OpenTable:
    """Return a release of rows, not of units with parts, opened from the tables of its bundle.

    clocks   column → the clock in whose format its dates are texts"""
    codes, labels = codes_and_labels(tables)
    synthetic = dict(tables["synthetic"])
    attributes = dict(zip(synthetic, codes, strict=True))
    sizes = {name: len(some) for name, some in labels.items()}
    groupings, measured = stored_groupings(tables), read_noisy_tables(tables, sizes)
    # Where no released row misses a value, the table's count of missing values is noise alone.
    complete = {
        name
        for name, column in codes.items()
        if len(column) and labels[name][-1] == MISSING and column.max() < sizes[name] - 1
    }
    measured = [without_last_levels(table, complete, groupings) for table in measured]
    precision = Precision(ReleasedRows(codes, sizes), measured, groupings, dependence_of(tables))
    return OpenTable(synthetic, precision, attributes, labels, clocks=clocks)


def union(first: Names, second: Names) -> Names:
    return tuple(dict.fromkeys((*first, *second)))


def no_share_error(item: str, among: str) -> DeclarationError:
    """Return the error that says that no released ``item`` (row or unit) meets the condition
    ``among`` of a share; without a condition, that there is none at all."""
    if not is_stated(among):
        return DeclarationError(
            f"The release has no {item}, so there is no share: open another one"
        )
    return DeclarationError(
        f"No released {item} meets the condition {among!r}, so there is no share: use a wider one"
    )


def _no_value(column: str, where: str, number: str) -> DeclarationError:
    among = f" that meets the condition {where!r}" if is_stated(where) else ""
    remedy = "use a wider condition or another column" if among else "choose another column"
    return DeclarationError(
        f"No released row{among} has a value of {column}, so there is no {number}: {remedy}"
    )
