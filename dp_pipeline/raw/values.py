"""A stored column as numbers or as texts: each value by itself, never raising, never shown.

What one value becomes does not depend on the other values of its column: a
parser that chose one type for a whole column would let one row change others.

One attribute's column against its declaration: valid numbers, cell codes, missing values.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_pipeline.spec.domain import Attribute
from dp_pipeline.spec.encoding import INVALID, FloatArray, IntArray, Levels

Kind = Literal["text", "number", "other"]

TEXT = frozenset({pa.string(), pa.large_string()})
WHOLE = frozenset(
    {
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    }
)
REAL = frozenset({pa.float32(), pa.float64()})
"""The types of columns that are read here, each by name: what is not listed is not read."""

# Such a text of at most 40 characters is below 1e140 in size, so that pyarrow's cast, which
# would raise with the text in its message, cannot overflow. It rounds correctly, as float does.
_PLAIN_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,2})?$"
_PLAIN_LENGTH = 40


def kind_of(type_: pa.DataType) -> Kind:
    """What a stored type is to us: ``other`` where it is none of those listed."""
    if pa.types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if type_ in TEXT:
        return "text"
    return "number" if type_ in WHOLE | REAL else "other"


def type_word(type_: pa.DataType) -> str:
    """The type's own name for messages, without the names of fields inside of it.

    >>> type_word(pa.list_(pa.int64())), type_word(pa.timestamp("s"))
    ('list', 'timestamp')
    """
    return str(type_).partition("<")[0].partition("[")[0]


def numbers(column: pa.ChunkedArray) -> FloatArray:
    """The numbers of a text or number column (n,); NaN where a value is missing or is none."""
    column = _plain(column)
    if kind_of(column.type) == "number":
        return _floats(pc.cast(column, pa.float64(), safe=False))
    text = pc.utf8_trim_whitespace(column)
    is_plain = pc.and_(
        pc.match_substring_regex(text, _PLAIN_NUMBER),
        pc.less_equal(pc.utf8_length(text), _PLAIN_LENGTH),
    )
    values = _floats(pc.cast(pc.if_else(is_plain, text, None), pa.float64()))
    unusual = np.flatnonzero(pc.fill_null(pc.invert(is_plain), False).to_numpy())
    for row, word in zip(unusual, text.take(pa.array(unusual)).to_pylist(), strict=True):
        values[row] = _unusual_number(word)
    return values


def missing(column: pa.ChunkedArray, words: tuple[str, ...]) -> NDArray[np.bool_]:
    """Where a text or number column has no value (n,): null, NaN as a number, nothing but white
    space, one of ``words``, or a number that is the same as one of them: −999 is missing where
    −999.0 is, in a column of numbers and of texts.
    """
    column = _plain(column)
    same = [number for number in map(_unusual_number, words) if not math.isnan(number)]
    if kind_of(column.type) == "number":
        values = numbers(column)
        return np.isnan(values) | np.isin(values, same)
    text = pc.utf8_trim_whitespace(column)
    is_word = pc.is_in(text, value_set=pa.array(["", *words], text.type))
    nothing = np.asarray(pc.or_(pc.is_null(text), is_word).to_numpy(), dtype=np.bool_)
    return nothing | np.isin(numbers(column), same) if same else nothing


def _floats(column: pa.ChunkedArray) -> FloatArray:
    # A missing value becomes NaN; the copy is ours to write to.
    return np.array(column.to_numpy(), dtype=np.float64)


def _unusual_number(text: str) -> float:
    """Infinity, very long numbers and no numbers at all; Python alone would read 1_0 as ten."""
    try:
        return float(text) if "_" not in text else float("nan")
    except ValueError:
        return float("nan")


def texts(column: pa.ChunkedArray) -> tuple[IntArray, NDArray[np.object_]]:
    """The stripped texts of a text or number column, as places (n,) in an array of texts.

    The place is −1 where a value is missing, the text is None for NaN. Two
    places may hold the same text. A whole number has no point: 1 and 1.0 are
    both the text 1, because one missing number turns a file's integers into floats.
    """
    if not len(column):
        # Some versions of pyarrow join no chunks of large texts to no array.
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=object)
    coded = _plain(column).dictionary_encode().combine_chunks()
    places = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    words = np.empty(len(coded.dictionary), dtype=object)
    words[:] = [_word(value) for value in coded.dictionary.to_pylist()]
    return places, words


def _word(value: str | float) -> str | None:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return str(int(value)) if value == int(value) else repr(value)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without a dictionary."""
    if pa.types.is_dictionary(column.type):
        return pc.cast(column, column.type.value_type)
    return column


def missing_cells(attribute: Attribute, column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Where a numeric attribute has a missing value that is a cell of its own (n,)."""
    if not attribute.nullable:
        return np.zeros(len(column), dtype=np.bool_)
    return missing(column, attribute.missing)


def valid_numbers(attribute: Attribute, column: pa.ChunkedArray) -> FloatArray:
    """Numbers inside the bounds (n,); NaN marks a row to drop, or a missing value."""
    box = attribute.coordinate
    assert box is not None
    values = np.where(missing_cells(attribute, column), np.nan, numbers(column))
    if attribute.on_invalid == "drop":
        return np.where((values >= box.lower) & (values <= box.upper), values, np.nan)
    # Infinity is only a number too large: it is clipped like any other. NaN stays NaN.
    return np.clip(values, box.lower, box.upper)


def finite_numbers(attribute: Attribute, column: pa.ChunkedArray) -> FloatArray:
    """Numbers of an attribute without bounds (n,); NaN where a value is missing or is none."""
    values = np.where(missing_cells(attribute, column), np.nan, numbers(column))
    return np.where(np.isfinite(values), values, np.nan)


def level_codes(attribute: Attribute, column: pa.ChunkedArray) -> IntArray:
    """Codes of a nominal column (n,); INVALID marks a row to drop.

    A text is looked up without the white space around it.
    """
    levels = levels_of(attribute)
    places, words = level_words(attribute, column)
    # The last place is for missing values, whose place is −1.
    known = np.append(levels.encode(words), INVALID)
    if attribute.nullable:
        known[[*(word is None for word in words), True]] = attribute.missing_code
    if attribute.on_invalid == "other":
        known[known == INVALID] = levels.values.index(str(attribute.other))
    return known[places]


def level_words(
    attribute: Attribute, column: pa.ChunkedArray
) -> tuple[IntArray, NDArray[np.object_]]:
    """The texts of a nominal column as places (n,) in an array of texts: an alias is its level,
    and what the attribute calls missing is None, or has the place −1.
    """
    places, words = texts(column)
    aliases = dict(attribute.aliases)
    words[:] = [aliases.get(word, word) for word in words]
    if attribute.nullable:
        known = attribute.cells.values if isinstance(attribute.cells, Levels) else ()
        absent = {"", *attribute.missing} - set(known)
        words[:] = [None if word in absent else word for word in words]
    return places, words


def levels_of(attribute: Attribute) -> Levels:
    """The levels of a nominal attribute."""
    assert isinstance(attribute.cells, Levels)
    return attribute.cells
