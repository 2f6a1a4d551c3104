"""One attribute's column against its declaration: valid numbers, cell codes, missing values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.raw.values import missing, numbers, texts
from dp_pipeline.schema.domain import Attribute
from dp_pipeline.schema.encoding import INVALID, FloatArray, IntArray, Levels


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
        absent = {"", *attribute.missing} - set(levels_of(attribute).values)
        words[:] = [None if word in absent else word for word in words]
    return places, words


def levels_of(attribute: Attribute) -> Levels:
    """The levels of a nominal attribute."""
    assert isinstance(attribute.cells, Levels)
    return attribute.cells
