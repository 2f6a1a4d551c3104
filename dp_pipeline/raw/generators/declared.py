"""Artificial rows, drawn from a declaration or from the rows of an earlier release."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.config.clock import DAY
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.reading import Derived
from dp_pipeline.config.windows import now
from dp_pipeline.raw.generators import random_numbers
from dp_pipeline.raw.prepare import rows_breaking

MISSING_SHARE = 0.02  # The share of missing values of a column that may have some
EXAMPLE_LEVELS = 4  # Levels of a column whose levels are to be discovered
EXAMPLE_SPREAD = 100  # Units of the numbers of a column whose bounds are to be discovered
_DECADE = 10 * 365
_MOST_ROUNDS = 50  # Draws of ``rows`` rows, at most, to replace those that break constraints


def draw_declared_rows(
    spec: DatasetSpec, rows: int, *, seed: int, columns: Mapping[str, NDArray[Any]] | None = None
) -> pa.Table:
    """Return artificial rows that fit the declaration, at most ``rows``; no real row is read.

    Every value is uniform over what is declared, or missing in a small share of the rows if it may
    be. Rows that break constraints are drawn again, at most _MOST_ROUNDS times. Every person has
    the largest number of rows that may count, or one unit of 1 to ``at_most`` parts, which share
    its values. Times are in the closed windows.

    columns   column of the source → values (n,) of an earlier release, from whose rows the values
              of these columns are drawn together; None: all columns are drawn

    >>> from dp_pipeline.config.catalogue import find_spec
    >>> draw_declared_rows(find_spec("census"), 5, seed=1).num_rows
    5
    """
    rng = random_numbers(seed)
    tables: list[pa.Table] = []
    while sum(table.num_rows for table in tables) < rows and len(tables) < _MOST_ROUNDS:
        tables.append(_draw(spec, rows, rng, columns or {}))
    table = pa.concat_tables(tables).slice(0, rows)
    person = spec.protection.column
    if person is None:
        return table
    ids = np.arange(table.num_rows) // spec.protection.at_most
    parts = spec.domain.parts
    if parts is not None:
        sizes = rng.integers(1, parts.at_most + 1, table.num_rows)
        ids = np.repeat(np.arange(table.num_rows), sizes)[: table.num_rows]
        firsts = pa.array(np.searchsorted(ids, ids))
        of_units = [each for each in spec.domain if each.name not in parts.attributes]
        for name in {name for each in of_units for name in each.inputs}:
            place = table.column_names.index(name)
            table = table.set_column(place, name, table.column(name).take(firsts))
    if person in table.column_names:
        table = table.drop_columns([person])
    return table.append_column(person, pa.array([f"person {number + 1}" for number in ids]))


def _draw(
    spec: DatasetSpec, rows: int, rng: np.random.Generator, released: Mapping[str, NDArray[Any]]
) -> pa.Table:
    """Draw ``rows`` artificial rows, and return those that break no constraint."""
    columns_of_rows: dict[str, pa.Array] = {}
    if released:
        places = rng.integers(0, len(next(iter(released.values()))), rows)
        columns_of_rows |= {name: pa.array(values[places]) for name, values in released.items()}
    for attribute in spec.domain:
        for name in attribute.inputs:
            if name not in columns_of_rows:
                values = _uniform_values(attribute, rows, rng)
                is_missing = rng.random(rows) < MISSING_SHARE if attribute.nullable else None
                columns_of_rows[name] = pa.array(values, mask=is_missing)
    if spec.windows is not None:
        # The windows that a release of the newest closed window may read.
        windows = spec.time_windows
        closed = list(windows.closed(now()))[-max(1, spec.max_span) :] or [windows.first]
        seconds = rng.uniform(windows.start(closed[0]), windows.end(closed[-1]), rows)
        unit = 1 if windows.clock.kind == "timestamp" else DAY
        times = windows.clock.release_values(np.floor(np.floor(seconds) / unit))
        columns_of_rows[windows.column] = pa.array(times)
    table = pa.table(columns_of_rows)
    for constraint in spec.domain.row_constraints:
        table = table.filter(pa.array(~rows_breaking(constraint, spec.widest.domain, table)))
    return table


def _uniform_values(attribute: Attribute, rows: int, rng: np.random.Generator) -> NDArray[Any]:
    if attribute.derived is not None:
        return _inputs(attribute.derived, rows, rng)
    cells, box, undeclared = attribute.cells, attribute.coordinate, attribute.undeclared
    if isinstance(cells, Levels):
        return np.array(cells.values, dtype=object)[rng.integers(0, cells.size, rows)]
    if undeclared is not None and not undeclared.is_number:
        return np.array([f"level {code}" for code in rng.integers(0, EXAMPLE_LEVELS, rows)])
    if box is None:
        unit = 1.0 if undeclared is None else undeclared.unit
        return np.floor(rng.uniform(0, EXAMPLE_SPREAD, rows)) * unit
    values = rng.uniform(box.lower, box.upper, rows)
    if attribute.is_integer or attribute.clock is not None:
        values = np.clip(np.floor(values), np.ceil(box.lower), np.floor(box.upper))
    return values if attribute.clock is None else attribute.clock.release_values(values)


def _inputs(derived: Derived, rows: int, rng: np.random.Generator) -> NDArray[Any]:
    if derived.is_text:
        letters = np.array([*"ABCDEFGH"])[rng.integers(0, 8, (rows, derived.letters + 2))]
        return np.array(["".join(text) for text in letters], dtype=object)
    if derived.clock is None:
        return np.floor(rng.uniform(0, EXAMPLE_SPREAD, rows))
    days = rng.uniform(0, _DECADE, rows)
    age = days if derived.clock.kind == "date" else days * DAY
    last = derived.clock.number_of(datetime(2026, 1, 1, tzinfo=UTC))
    return derived.clock.release_values(np.floor(last - age))
