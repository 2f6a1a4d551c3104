"""How many of the first rows of a source are as declared, for the steward's eyes: no value.

The numbers are exact. They are for a terminal, and never stored, released or logged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import INVALID, FloatArray
from dp_pipeline.raw.prepare import broken_rows
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.values import column_of, have_time, level_words, levels_of, missing, numbers_in


@dataclass(frozen=True)
class ParsedColumn:
    """Rows of one attribute, which add up to those that were looked at.

    missing   nothing stands there, or a word for nothing
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
    """What the first rows of a source are.

    rows     how many there were
    parsed   how they parse, attribute by attribute
    broken   words of a constraint → rows that break it, in declared order
    timeless   rows that do not say when they are from, so are in no window; None where rows are
               not cut into windows
    """

    rows: int
    parsed: tuple[ParsedColumn, ...]
    broken: dict[str, int]
    timeless: int | None = None


def parse_first_rows(spec: DatasetSpec, rows: int) -> ParsedRows:
    """What the first rows of a source are, at most ``rows`` of them.

    Reads the source and stores nothing. Raises what ``read_source`` does.
    """
    table, domain = read_source(spec).slice(0, rows), spec.domain
    parsed = tuple(_parsed(one, column_of(one, table)) for one in domain)
    broken = {one.words: int(broken_rows(one, domain, table).sum()) for one in domain.constraints}
    windows = spec.windows
    timeless = None if windows is None else int((~have_time(windows, table)).sum())
    return ParsedRows(table.num_rows, parsed, broken, timeless)


def _parsed(attribute: Attribute, column: pa.ChunkedArray) -> ParsedColumn:
    if attribute.is_numeric:
        values = numbers_in(attribute, column)
        nothing = missing(column, attribute.missing, lambda one: numbers_in(attribute, one))
        unread = np.isnan(values) & ~nothing
        outside = ~nothing & ~unread & _beyond(attribute, values)
    else:
        places, words = level_words(attribute, column)
        # Of levels that are to be discovered every text may be one.
        is_open = attribute.undeclared is not None
        known = np.array([word is not None for word in words], dtype=np.bool_)
        if not is_open:
            known = levels_of(attribute).encode(words) != INVALID
        empty = np.array([word is None or not word for word in words], dtype=np.bool_) & ~known
        # The last place is for missing values, whose place is −1.
        nothing = np.append(empty, True)[places]
        outside = ~nothing & ~np.append(known, True)[places]
        unread = np.zeros(len(column), dtype=np.bool_)
    counts = [int(one.sum()) for one in (nothing, unread, outside)]
    return ParsedColumn(attribute.name, len(column) - sum(counts), *counts)


def _beyond(attribute: Attribute, values: FloatArray) -> NDArray[np.bool_]:
    """Which numbers lie outside of the declared bounds; none where those are to be discovered."""
    box = attribute.coordinate
    if box is None:
        return np.zeros(len(values), dtype=np.bool_)
    return ~((values >= box.lower) & (values <= box.upper))
