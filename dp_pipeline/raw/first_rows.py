"""How many of the first rows of a source are as declared, for the custodian's terminal: no value.

The numbers are exact. They are never stored, released or logged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import INVALID
from dp_pipeline.raw.prepare import rows_breaking
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.values import column_of, have_time, level_words, levels_of, missing, numbers_in


@dataclass(frozen=True)
class ParsedColumn:
    """Rows of one attribute by how they parse; together they are all rows.

    missing   an empty cell, or a word for a missing value
    unread    a text that is no number, or no date, as declared
    outside   beyond the bounds, or no declared level
    """

    attribute: str
    good: int
    missing: int
    unread: int
    outside: int


@dataclass(frozen=True)
class ParsedRows:
    """How the first rows of a source parse.

    rows       how many there were
    columns    how they parse, attribute by attribute
    broken     words of a constraint → rows that break it, in declared order
    timeless   rows without a time, which are in no window; None where rows have no windows
    """

    rows: int
    columns: tuple[ParsedColumn, ...]
    broken: dict[str, int]
    timeless: int | None = None


def parse_first_rows(spec: DatasetSpec, rows: int) -> ParsedRows:
    """Return how the first rows of a source parse, at most ``rows`` of them.

    Reads the source and stores nothing. Raises what ``read_source`` does.
    """
    table, domain = read_source(spec).slice(0, rows), spec.domain
    columns = tuple(_parse(attribute, column_of(attribute, table)) for attribute in domain)
    broken = {c.words: int(rows_breaking(c, domain, table).sum()) for c in domain.constraints}
    windows = spec.windows
    timeless = None if windows is None else int((~have_time(windows, table)).sum())
    return ParsedRows(table.num_rows, columns, broken, timeless)


def _parse(attribute: Attribute, column: pa.ChunkedArray) -> ParsedColumn:
    if attribute.is_numeric:
        values = numbers_in(attribute, column)
        is_missing = missing(column, attribute.missing, lambda cells: numbers_in(attribute, cells))
        is_unread = np.isnan(values) & ~is_missing
        box = attribute.coordinate
        # No number lies outside of bounds that are still to be discovered.
        is_inside = True if box is None else (values >= box.lower) & (values <= box.upper)
        is_outside = ~(is_missing | is_unread | is_inside)
    else:
        places, words = level_words(attribute, column)
        is_level = np.array([word is not None for word in words], dtype=np.bool_)
        # Every text may be one of levels that are still to be discovered.
        if attribute.undeclared is None:
            is_level = levels_of(attribute).encode(words) != INVALID
        is_empty = np.array([word is None or not word for word in words], dtype=np.bool_)
        # The last one is for missing values, whose place is −1.
        is_missing = np.append(is_empty & ~is_level, True)[places]
        is_outside = ~is_missing & ~np.append(is_level, True)[places]
        is_unread = np.zeros(len(column), dtype=np.bool_)
    counts = [int(rows.sum()) for rows in (is_missing, is_unread, is_outside)]
    return ParsedColumn(attribute.name, len(column) - sum(counts), *counts)
