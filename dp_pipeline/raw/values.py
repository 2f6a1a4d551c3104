"""Reading of stored columns as numbers, times, texts or codes, each cell independently.

No cell is an error, and none depends on others: a parser that chose a type for a whole column would
let one row change others. Preparation, checks, proposals and estimators all read cells here.
"""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_pipeline.config.clock import DAY, FIRST_SECOND, LAST_SECOND, Clock, part_of_time
from dp_pipeline.config.constraints import AllowedCells, Constraint
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import (
    INVALID,
    Bins,
    FloatArray,
    IntArray,
    Levels,
    normal_text,
    number_of,
)
from dp_pipeline.config.reading import SECONDS_OF_UNIT, SPACES, Derived, Signs
from dp_pipeline.config.windows import Windows

Kind = Literal["text", "number", "time", "other"]
TEXT = frozenset({pa.string(), pa.large_string()})
WHOLE = frozenset(
    {
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    }
)
REAL = frozenset({pa.float32(), pa.float64()})
"""Types of columns that are read as texts, integers and reals; no other type is."""

# Such a text of at most 40 characters is below 1e140 in size, so that pyarrow's cast cannot
# overflow, whose error would quote the text. It rounds correctly, as float does.
_PLAIN_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,2})?$"
_PLAIN_LENGTH = 40


def kind_of(type_: pa.DataType) -> Kind:
    """Return the kind of a stored type; ``other`` for a type that cannot be read."""
    if pa.types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if type_ in TEXT:
        return "text"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "time"
    return "number" if type_ in WHOLE | REAL else "other"


def type_word(type_: pa.DataType) -> str:
    """Return the name of a type for messages, without the names of its fields.

    >>> type_word(pa.list_(pa.int64())), type_word(pa.timestamp("s"))
    ('list', 'timestamp')
    """
    return str(type_).partition("<")[0].partition("[")[0]


PLAIN = Signs()  # The default signs of numbers: a decimal point


def numbers(column: pa.ChunkedArray, signs: Signs = PLAIN) -> FloatArray:
    """Return the numbers in a text or number column (n,); NaN for null and other texts.

    They may be infinite. Words for missing values, such as −999, are numbers here.

    signs   decimal and thousands signs of texts
    """
    column = _plain(column)
    if kind_of(column.type) == "number":
        return _floats(pc.cast(column, pa.float64(), safe=False))
    text = pc.utf8_trim_whitespace(column)
    if signs != PLAIN:
        text = _with_point(text, signs)
    is_plain = pc.and_(
        pc.match_substring_regex(text, _PLAIN_NUMBER),
        pc.less_equal(pc.utf8_length(text), _PLAIN_LENGTH),
    )
    values = _floats(pc.cast(pc.if_else(is_plain, text, None), pa.float64()))
    unusual = np.flatnonzero(pc.fill_null(pc.invert(is_plain), False).to_numpy())
    for row, word in zip(unusual, text.take(pa.array(unusual)).to_pylist(), strict=True):
        # Infinity or a very long number; NaN stays where it is none.
        with suppress(ValueError):
            values[row] = math.nan if "_" in word else float(word)
    return values


def _with_point(text: pa.ChunkedArray, signs: Signs) -> pa.ChunkedArray:
    """Return texts of numbers rewritten with a decimal point; null for all other texts."""
    groups = SPACES if signs.thousands == " " else signs.thousands
    decimal_sign, thousands_sign = re.escape(signs.decimal), f"[{groups}]"
    integer_form = (
        rf"[0-9]+|[0-9]{{1,3}}({thousands_sign}[0-9]{{3}})+" if signs.thousands else "[0-9]+"
    )
    digits = rf"({integer_form})({decimal_sign}[0-9]*)?|{decimal_sign}[0-9]+"
    form = rf"^[-+]?(({digits})([eE][-+]?[0-9]+)?|(?i:inf(inity)?))$"
    fits = pc.match_substring_regex(text, form)
    if signs.thousands:
        text = pc.replace_substring_regex(text, thousands_sign, "")
    if signs.decimal != ".":
        text = pc.replace_substring(text, signs.decimal, ".")
    return pc.if_else(fits, text, None)


def times(column: pa.ChunkedArray, clock: Clock) -> FloatArray:
    """Return the dates or times in a text or time column (n,); NaN for missing or invalid values.

    They are days or seconds since 1970, by the kind of the clock. Its format applies to texts
    alone. A time without an offset is local time in the clock's zone.
    """
    column = _plain(column)
    if kind_of(column.type) == "time":
        return _stored_times(column, clock)
    places, words = texts(column)
    read = (clock.number(word) if isinstance(word, str) else None for word in words)
    values = [math.nan if number is None else number for number in read]
    # The last entry is for missing values, whose place is −1.
    return np.array([*values, math.nan])[places]


def in_window(windows: Windows, name: str, table: pa.Table) -> NDArray[np.bool_]:
    """Return a mask of the rows (n,) whose time is in the window of this name."""
    seconds = times(table.column(windows.column), windows.clock)
    # NaN, for no time, compares as false.
    return np.asarray((seconds >= windows.start(name)) & (seconds < windows.end(name)))


def have_time(windows: Windows, table: pa.Table) -> NDArray[np.bool_]:
    """Return a mask of the rows (n,) with a valid time."""
    return ~np.isnan(times(table.column(windows.column), windows.clock))


_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _stored_times(column: pa.ChunkedArray, clock: Clock) -> FloatArray:
    kind = column.type
    integers = pc.cast(column, pa.int32() if kind == pa.date32() else pa.int64())
    integers = pc.fill_null(integers, 0).to_numpy().astype(np.int64)
    if pa.types.is_timestamp(kind):
        seconds = integers // _A_SECOND[kind.unit]
    else:
        seconds = integers * DAY if kind == pa.date32() else integers // 10**3
    is_there = pc.is_valid(column).to_numpy() & (seconds >= FIRST_SECOND) & (seconds <= LAST_SECOND)
    seconds = np.where(is_there, seconds, 0)
    is_utc = pa.types.is_timestamp(kind) and kind.tz is not None
    if clock.kind == "date" and (not is_utc or clock.zone == "UTC"):
        values = seconds // DAY
    elif clock.kind == "timestamp" and (is_utc or clock.zone == "UTC"):
        values = seconds
    else:
        distinct, places = np.unique(seconds, return_inverse=True)
        clock_numbers = [clock.number_at(moment, is_utc=is_utc) for moment in distinct.tolist()]
        values = np.array(clock_numbers, dtype=np.int64)[places]
    return np.where(is_there, values, np.nan)


def numbers_in(attribute: Attribute, column: pa.ChunkedArray) -> FloatArray:
    """Return the numbers or times (n,) in an attribute's column, read as declared.

    It is NaN where ``numbers`` or ``times`` is; bounds and words for missing values do not count.
    """
    if attribute.clock is not None:
        return times(column, attribute.clock)
    if attribute.aliases and kind_of(column.type) == "text":
        text = pc.utf8_trim_whitespace(_plain(column))
        for alias, number in attribute.aliases:
            text = pc.if_else(pc.equal(text, alias), attribute.signs.localise(number), text)
        column = text
    return numbers(column, attribute.signs)


Read = Callable[[pa.ChunkedArray], FloatArray]


def find_missing(
    column: pa.ChunkedArray, words: tuple[str, ...], read: Read = numbers
) -> NDArray[np.bool_]:
    """Return a mask (n,) of the values of a column that are null, NaN, blank or one of ``words``.

    words   texts that mean a missing value, as do equal numbers: −999.0 where −999 does
    read    column → its numbers
    """
    column = _plain(column)
    equal_numbers = read(pa.chunked_array([pa.array(words, pa.string())]))
    equal_numbers = equal_numbers[~np.isnan(equal_numbers)]
    if kind_of(column.type) != "text":
        values = read(column)
        return np.isnan(values) | np.isin(values, equal_numbers)
    text = pc.utf8_trim_whitespace(column)
    is_word = pc.is_in(text, value_set=pa.array(["", *words], text.type))
    is_missing = np.asarray(pc.or_(pc.is_null(text), is_word).to_numpy(), dtype=np.bool_)
    return is_missing | np.isin(read(column), equal_numbers) if len(equal_numbers) else is_missing


def _floats(column: pa.ChunkedArray) -> FloatArray:
    # Null becomes NaN; a copy, which may be written to.
    return np.array(column.to_numpy(), dtype=np.float64)


def texts(column: pa.ChunkedArray) -> tuple[IntArray, NDArray[np.object_]]:
    """Return the index (n,) of each row's text in a list of stripped texts, and this list.

    The index is −1 for null, the text None for NaN; texts may be repeated. 1.0 is the text 1, since
    a missing number may turn a file's integers into floats.
    """
    if not len(column):
        # Some versions of pyarrow fail to combine no chunks of large texts.
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=object)
    coded = _plain(column).dictionary_encode().combine_chunks()
    places = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    values = coded.dictionary.to_pylist()
    if coded.dictionary.type == pa.float32():
        # Of 0.1 the text is 0.1, not that of the 64 bits nearest to its 32.
        values = [float(str(value)) for value in coded.dictionary.to_numpy()]
    words = np.empty(len(values), dtype=object)
    words[:] = [_word(value) for value in values]
    return places, words


def _word(value: str | float) -> str | None:
    if isinstance(value, str):
        return normal_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return str(int(value)) if value == int(value) else repr(value)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return pc.cast(column, column.type.value_type)
    return column


def missing_cells(attribute: Attribute, column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return a mask (n,) of a numeric column's missing values, all False unless it is nullable."""
    if not attribute.nullable:
        return np.zeros(len(column), dtype=np.bool_)
    return find_missing(column, attribute.missing, partial(numbers_in, attribute))


def valid_numbers(attribute: Attribute, column: pa.ChunkedArray) -> FloatArray:
    """Return the column's numbers (n,), clipped to the attribute's bounds; NaN for other values.

    With ``on_invalid`` keep or drop, a number outside becomes NaN instead."""
    box = attribute.coordinate
    assert box is not None
    values = _numbers_or_nan(attribute, column)
    if attribute.on_invalid in ("keep", "drop"):
        return np.where((values >= box.lower) & (values <= box.upper), values, np.nan)
    # Infinity is clipped like any large number; NaN stays NaN.
    return np.clip(values, box.lower, box.upper)


def finite_numbers(attribute: Attribute, column: pa.ChunkedArray) -> FloatArray:
    """Return the finite numbers (n,) of an attribute without bounds; NaN for all other values."""
    values = _numbers_or_nan(attribute, column)
    return np.where(np.isfinite(values), values, np.nan)


def _numbers_or_nan(attribute: Attribute, column: pa.ChunkedArray) -> FloatArray:
    """Return a column's numbers (n,), in or out of bounds; NaN for missing and other values."""
    values = numbers_in(attribute, column)
    if not attribute.nullable and not attribute.missing:
        return values
    # A missing value is no number, even without a cell for it.
    is_missing = find_missing(column, attribute.missing, partial(numbers_in, attribute))
    return np.where(is_missing, np.nan, values)


def level_codes(attribute: Attribute, column: pa.ChunkedArray) -> IntArray:
    """Return the codes (n,) of a nominal attribute's column, with INVALID for rows to drop."""
    levels = levels_of(attribute)
    places, words = level_words(attribute, column)
    # The last entry is for missing values, whose place is −1.
    codes = np.append(levels.encode(words), INVALID)
    if attribute.nullable:
        codes[[*(word is None for word in words), True]] = attribute.missing_code
    if attribute.on_invalid == "other":
        codes[codes == INVALID] = levels.values.index(str(attribute.other))
    return _replace_invalid(attribute, codes)[places]


def cell_codes(attribute: Attribute, column: pa.ChunkedArray) -> IntArray:
    """Return the codes (n,) of the bins or levels in a column, with INVALID for rows to drop."""
    if not isinstance(attribute.cells, Bins):
        return level_codes(attribute, column)
    codes = attribute.cells.encode(valid_numbers(attribute, column))
    if attribute.nullable and not attribute.keeps_rows:
        codes[missing_cells(attribute, column)] = attribute.missing_code
    return _replace_invalid(attribute, codes)


def _replace_invalid(attribute: Attribute, codes: IntArray) -> IntArray:
    """Return the codes, with INVALID replaced in place by the missing code if rows are kept."""
    if attribute.keeps_rows and attribute.nullable:
        codes[codes == INVALID] = attribute.missing_code
    return codes


def breaking_rows(
    constraint: Constraint, domain: Domain, codes: Mapping[str, IntArray]
) -> NDArray[np.bool_]:
    """Return a mask of the rows (n,) that break a constraint; no row with an invalid value does.

    codes   attribute → codes (n,) of the constrained attributes
    """
    constrained = {name: codes[name] for name in constraint.attributes}
    is_complete: NDArray[np.bool_] = np.logical_and.reduce(
        [column != INVALID for column in constrained.values()]
    )
    complete_codes = {name: np.where(is_complete, c, 0) for name, c in constrained.items()}
    mask = constraint.mask(domain.shape(constraint.attributes))
    return is_complete & ~AllowedCells(constraint.attributes, mask).holds(complete_codes)


def mend_constraints(domain: Domain, codes: dict[str, IntArray]) -> NDArray[np.bool_]:
    """Replace values of rows that break a constraint by the missing code; return a mask (n,).

    codes   attribute → codes (n,) of every constrained attribute, changed in place: those of each
            constraint's last attribute that keeps rows and has a level of missing values

    The mask is of the rows that break no constraint afterwards. A row is mended by itself, in the
    declared order of the constraints.
    """
    for constraint in domain.constraints:
        attributes = [domain[name] for name in constraint.attributes]
        mendable = [each for each in attributes if each.nullable and each.keeps_rows]
        if mendable:
            is_broken = breaking_rows(constraint, domain, codes)
            name, missing_code = mendable[-1].name, mendable[-1].missing_code
            codes[name] = np.where(is_broken, missing_code, codes[name])
    broken = [breaking_rows(constraint, domain, codes) for constraint in domain.constraints]
    is_kept: NDArray[np.bool_] = ~np.logical_or.reduce(broken)
    return is_kept


def level_words(
    attribute: Attribute, column: pa.ChunkedArray
) -> tuple[IntArray, NDArray[np.object_]]:
    """Return the index (n,) of each row's text in a list of texts, and this list, as ``texts``.

    Texts are those of a nominal attribute: levels for aliases, and None for missing values."""
    places, words = texts(column)
    aliases = dict(attribute.aliases)
    if kind_of(column.type) == "number" and isinstance(attribute.cells, Levels):
        # A number has one text: the levels 01 and 1.10 are met by 1 and 1.1.
        levels = attribute.cells.values
        numbers = {str(number_of(level)): level for level in reversed(levels)}
        aliases = {**numbers, **dict(zip(levels, levels, strict=True)), **aliases}
    words[:] = [aliases.get(word, word) for word in words]
    if attribute.nullable or attribute.missing:
        levels = attribute.cells.values if isinstance(attribute.cells, Levels) else ()
        missing_words = {"", *attribute.missing} - set(levels)
        words[:] = [None if word in missing_words else word for word in words]
    return places, words


def levels_of(attribute: Attribute) -> Levels:
    assert isinstance(attribute.cells, Levels)
    return attribute.cells


def column_of(attribute: Attribute, table: pa.Table) -> pa.ChunkedArray:
    """Return the column from which an attribute is read, of the source or derived."""
    if attribute.derived is None:
        return table.column(attribute.column)
    return derive_column(
        attribute.derived, [table.column(name) for name in attribute.derived.inputs]
    )


def derive_column(rule: Derived, inputs: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return a derived column of texts or numbers (n,), null where an input is missing.

    A number that is not finite is null too. The size of a unit is the text 1 in every row."""
    if rule.function == "size":
        # Every row by itself is a unit of one part; preparation counts those of each unit.
        return pa.chunked_array([pa.array(["1"] * len(inputs[0]), pa.string())])
    if rule.is_text:
        places, words = texts(inputs[0])
        missing_words = {None, "", *rule.missing}
        words[:] = [None if word in missing_words else word[: rule.letters] for word in words]
        cells = [words[place] if place >= 0 else None for place in places]
        return pa.chunked_array([pa.array(cells, pa.string())])
    read: Read = partial(numbers, signs=rule.signs)
    if rule.clock:
        read = partial(times, clock=rule.clock)
    with np.errstate(all="ignore"):
        present = [
            np.where(find_missing(column, rule.missing, read), np.nan, read(column))
            for column in inputs
        ]
        values = _value(rule, present)
    return pa.chunked_array([pa.array(values, mask=~np.isfinite(values))])


def _value(rule: Derived, inputs: list[FloatArray]) -> FloatArray:
    first = inputs[0]
    if rule.function == "product":
        return first * rule.factor
    if rule.function == "difference":
        return (first - inputs[1]) / SECONDS_OF_UNIT.get(rule.unit, 1)
    is_there = ~np.isnan(first)
    assert rule.clock is not None
    parts = part_of_time(rule.function, rule.clock.wall_times(np.where(is_there, first, 0)))
    return np.where(is_there, parts, np.nan)
