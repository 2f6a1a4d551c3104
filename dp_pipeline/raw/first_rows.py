"""Counts of the first rows of a source that are as declared, for the data custodian's terminal.

The counts are exact, and never stored, released or logged; no value is shown.
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
    """Counts of all rows by how one attribute parses.

    good      rows with a declared value
    missing   rows with an empty cell, or a word for a missing value
    unread    rows with a text that is no number or no date
    outside   rows with a number outside the bounds, or no declared level
    """

    attribute: str
    good: int
    missing: int
    unread: int
    outside: int


@dataclass(frozen=True)
class ParsedRows:
    """Counts of the first rows of a source by how they parse.

    rows       number of rows
    columns    counts of each attribute
    broken     text of a constraint → rows that break it, in declared order
    timeless   rows without a time, which are in no window; None without windows
    """

    rows: int
    columns: tuple[ParsedColumn, ...]
    broken: dict[str, int]
    timeless: int | None = None


def parse_first_rows(spec: DatasetSpec, rows: int) -> ParsedRows:
    """Count how at most ``rows`` first rows of a source parse, attribute by attribute.

    It reads the source and stores nothing; it raises what ``read_source`` does.
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
        # Before a discovery of bounds no number is outside.
        is_inside = True if box is None else (values >= box.lower) & (values <= box.upper)
        is_outside = ~(is_missing | is_unread | is_inside)
    else:
        places, words = level_words(attribute, column)
        is_level = np.array([word is not None for word in words], dtype=np.bool_)
        # Before a discovery of levels any text may be one.
        if attribute.undeclared is None:
            is_level = levels_of(attribute).encode(words) != INVALID
        is_empty = np.array([word is None or not word for word in words], dtype=np.bool_)
        # The last entry is for missing values, whose place is −1.
        is_missing = np.append(is_empty & ~is_level, True)[places]
        is_outside = ~is_missing & ~np.append(is_level, True)[places]
        is_unread = np.zeros(len(column), dtype=np.bool_)
    counts = [int(rows.sum()) for rows in (is_missing, is_unread, is_outside)]
    return ParsedColumn(attribute.name, len(column) - sum(counts), *counts)
