"""Codes → the columns of the source: levels as text, numbers drawn inside their bins."""

from __future__ import annotations

import numpy as np

from dp_pipeline.schema.domain import Attribute, Domain
from dp_pipeline.schema.encoding import Bins, FloatArray, IntArray


def decoded(
    codes: IntArray, attributes: tuple[str, ...], domain: Domain, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Synthetic columns (rows,) in declared order, under their names in the source.

    codes        int64 (rows, attributes), each 0..size−1 of its attribute
    attributes   names of the columns of ``codes``, in any order
    rng          draws the numbers: the same state gives the same columns

    A level is its text and a number is drawn uniformly inside its bin: float64, or
    int64 from the whole numbers of the bin where the attribute is ``whole``. Either has the
    code it came from, but for a bin without a whole number: its values are the
    nearest one inside the bounds. A column with a missing value is an object array
    with None there; without one, or if not nullable, it has the plain type.
    Attributes that share a source column go by their own names.
    """
    declared = [name for name in domain.names if name in attributes]
    names = _column_names([domain[name] for name in declared])
    columns = {}
    for name, column in zip(declared, names, strict=True):
        columns[column] = _column(domain[name], codes[:, attributes.index(name)], rng)
    return columns


def _column_names(attributes: list[Attribute]) -> list[str]:
    """A name each: the source's, or the attribute's own where the source's is not its alone."""
    columns = [one.column for one in attributes]
    names = [one.name if columns.count(one.column) > 1 else one.column for one in attributes]
    # The name of one attribute may be the column of another.
    return names if len(set(names)) == len(names) else [one.name for one in attributes]


def _column(attribute: Attribute, codes: IntArray, rng: np.random.Generator) -> np.ndarray:
    if not attribute.nullable:
        return _values(attribute, codes, rng)
    missing = codes == attribute.missing_code
    # A missing value gets a number as well: every row takes one draw.
    values = _values(attribute, np.where(missing, 0, codes), rng)
    if not missing.any():
        return values
    objects = values.astype(object)
    objects[missing] = None
    return objects


def _values(attribute: Attribute, codes: IntArray, rng: np.random.Generator) -> np.ndarray:
    if isinstance(attribute.cells, Bins):
        draw = _whole_numbers if attribute.whole else _numbers
        return draw(attribute.cells, codes, rng)
    return np.array(attribute.labels(), dtype=np.str_)[codes]


def _numbers(bins: Bins, codes: IntArray, rng: np.random.Generator) -> FloatArray:
    """Uniform in [edge, next edge): a sum that was rounded up to the next edge is taken back."""
    edges = np.asarray(bins.edges)
    low, high = edges[:-1], edges[1:]
    last = np.append(np.nextafter(high[:-1], -np.inf), high[-1])
    drawn = low[codes] + rng.random(len(codes)) * (high - low)[codes]
    return np.asarray(np.minimum(drawn, last[codes]))


def _whole_numbers(bins: Bins, codes: IntArray, rng: np.random.Generator) -> IntArray:
    """Uniform over the whole numbers of [edge, next edge), the last bin with its upper edge."""
    first, last = _whole_ends(bins)
    return rng.integers(first[codes], last[codes], endpoint=True, dtype=np.int64)


def _whole_ends(bins: Bins) -> tuple[IntArray, IntArray]:
    """The first and last whole number of every bin; twice the nearest one where it has none."""
    edges = np.asarray(bins.edges)
    low, high = edges[:-1], edges[1:]
    first = np.ceil(low)
    last = np.ceil(high) - 1
    last[-1] = np.floor(high[-1])
    inside = np.clip(np.rint((low + high) / 2), np.ceil(edges[0]), np.floor(edges[-1]))
    is_empty = first > last
    first, last = np.where(is_empty, inside, first), np.where(is_empty, inside, last)
    return first.astype(np.int64), last.astype(np.int64)
