"""Counts of the first rows of a source that are as declared, for the data custodian's terminal.

The counts are exact, and never stored, released or logged; no value is shown.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import INVALID
from dp_pipeline.raw.contributions import person_codes
from dp_pipeline.raw.prepare import rows_as_declared, rows_breaking
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.sources.csv_files import count_odd_lines, unreadable_lines
from dp_pipeline.raw.units import join_parts, unit_keys
from dp_pipeline.raw.values import (
    column_of,
    find_missing,
    have_time,
    level_words,
    levels_of,
    numbers_in,
)


@dataclass(frozen=True)
class ParsedColumn:
    """The numbers of rows whose value of an attribute is valid, missing or invalid.

    good      rows with a declared value
    missing   rows with an empty cell, or a word for a missing value
    unread    rows with a text that is no number or no date
    outside   rows with a number outside the bounds, or a text that is no declared level
    """

    attribute: str
    good: int
    missing: int
    unread: int
    outside: int


@dataclass(frozen=True)
class ParsedRows:
    """The numbers of first rows of a source that can be read and used.

    rows         number of rows
    columns      counts of each attribute
    broken       text of a constraint → number of rows that break it, in declared order
    timeless     rows without a time, which are in no window; None without windows
    left_out     rows that a release would leave out, of these, before persons are bounded
    reasons      attribute, column of the person, or words about parts and units that do not belong
                 together → number of rows left out because of it, above 0
    unreadable   why lines of the whole file are no rows → how many; empty but for sensitive CSV
    multiline    the value of `multiline` that would leave the fewest lines unreadable, and their
                 number; None where more than declared would not help, and for parts in another file
    odd_lines    number of lines of whole sensitive CSV files with bytes that are no text in their
                 encoding, and number of such files and of spreadsheets that seem to have a footer
    """

    rows: int
    columns: tuple[ParsedColumn, ...]
    broken: dict[str, int]
    timeless: int | None = None
    left_out: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    unreadable: Mapping[str, int] = field(default_factory=dict)
    multiline: tuple[int, int] | None = None
    odd_lines: tuple[int, int] = (0, 0)


def parse_first_rows(spec: DatasetSpec, rows: int) -> ParsedRows:
    """Read a source, and count how the values of its first rows are read, at most ``rows`` of them.

    Nothing is stored. It raises what ``read_source`` does.
    """
    table, domain, unjoined = read_source(spec), spec.domain, dict[str, int]()
    footers = int(_has_footer(spec, table))
    if spec.source.parts is not None:
        # What is counted does not depend on the key.
        pairs = join_parts(table, unit_keys(spec, bytes(32)))
        table = pairs.table
        unjoined = {
            "parts without a unit": pairs.orphans,
            "copies of units, or units without a key": pairs.copies,
        }
    table = table.slice(0, rows)
    columns = tuple(_parse(attribute, column_of(attribute, table)) for attribute in domain)
    broken = {c.words: int(rows_breaking(c, domain, table).sum()) for c in domain.row_constraints}
    windows = spec.windows
    timeless = None if windows is None else int((~have_time(windows, table)).sum())
    unreadable, multiline = _unreadable(spec)
    left_out, reasons = _count_omitted_rows(spec, table)
    odd_lines = [
        count_odd_lines(each)
        for each in spec.source_specs
        if each.source.kind == "csv" and spec.is_release
    ]
    return ParsedRows(
        table.num_rows + sum(unjoined.values()),
        columns,
        broken,
        timeless,
        left_out + sum(unjoined.values()),
        reasons | {words: count for words, count in unjoined.items() if count},
        unreadable,
        multiline,
        (sum(texts for texts, _ in odd_lines), footers + sum(ends for _, ends in odd_lines)),
    )


def _has_footer(spec: DatasetSpec, table: pa.Table) -> bool:
    """Return whether at most one of three or more cells is filled in a spreadsheet's last row."""
    if spec.source.kind != "xlsx" or spec.source.footer or table.num_columns < 3:
        return False
    return any(sum(map(bool, row.values())) < 2 for row in table[-1:].to_pylist())


def _count_omitted_rows(spec: DatasetSpec, table: pa.Table) -> tuple[int, dict[str, int]]:
    """Return how many rows a release would leave out, and column → how many because of it."""
    domain = spec.domain
    attributes = [each for each in domain if each.undeclared is None]
    is_kept = rows_as_declared(Domain(tuple(attributes), domain.constraints), table)
    reasons = {
        each.name: int((~rows_as_declared(Domain((each,)), table)).sum())
        for each in attributes
        if not each.keeps_rows
    }
    person = spec.protection.column
    if person is not None:
        is_known = person_codes(table, person) >= 0
        reasons[person] = int((~is_known).sum())
        is_kept &= is_known
    return int((~is_kept).sum()), {name: rows for name, rows in reasons.items() if rows}


MAX_PROPOSED_LINES = 20


def _unreadable(spec: DatasetSpec) -> tuple[Counter[str], tuple[int, int] | None]:
    """Return, by reason, the number of lines that are not rows, and the best `multiline`.

    That is a value with the number that it would leave; None where none would leave fewer."""
    if spec.source.parts is not None:
        both = [_unreadable(each)[0] for each in spec.source_specs]
        return both[0] + both[1], None
    if spec.source.kind != "csv" or not spec.is_release:
        return Counter(), None
    now = unreadable_lines(spec)

    def count(lines: int) -> int:
        source = replace(spec.source, multiline=lines)
        return unreadable_lines(replace(spec, source=source)).total()

    fewest = count(MAX_PROPOSED_LINES) if now else 0
    if fewest >= now.total():
        return now, None
    larger_limits = range(spec.source.multiline + 1, MAX_PROPOSED_LINES + 1)
    return now, next((lines, fewest) for lines in larger_limits if count(lines) == fewest)


def _parse(attribute: Attribute, column: pa.ChunkedArray) -> ParsedColumn:
    if attribute.is_numeric:
        values = numbers_in(attribute, column)
        is_missing = find_missing(
            column, attribute.missing, lambda cells: numbers_in(attribute, cells)
        )
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
