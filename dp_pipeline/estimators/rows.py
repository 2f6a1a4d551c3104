"""The rows of a frame as codes of declared cells, and the counter over them. Rows live here.

A missing declared column is refused, but no column type: pandas makes types from the values, so
that one more value can turn numbers into objects. The codes of a row depend on that row alone, and
are those that ``raw.prepare`` makes of it in a file.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import INVALID, IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.frames import Features, features_of, stored_column
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.values import cell_codes, valid_numbers

_BLOCK_ROWS = 1 << 16
"""Rows that are floats at a time."""


def declared_values(features: Features, names: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values of each declared column, of a frame by name, else by place.

    Raises DeclarationError for a column that is missing, and for another number of them.
    """
    if features.labels is not None:
        by_label = dict(zip(features.labels, features.columns, strict=True))
        for name in names:
            if name not in by_label:
                raise DeclarationError(f"X: expected a column {name!r} as declared, got none")
        return tuple(by_label[name] for name in names)
    if len(features.columns) != len(names):
        raise DeclarationError(
            f"X: expected {len(names)} columns as declared, got {len(features.columns)}"
        )
    if any(values.dtype.kind == "c" for values in features.columns):
        raise DeclarationError(
            "X: expected numbers or text, got complex numbers: Complex data not supported"
        )
    return features.columns


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The rows that fit a domain, 1 or 2 bytes a code.

    codes         column with cells → codes (row_count,)
    coordinates   column of numbers that are never missing → fixed-point coordinates (row_count,)
    """

    domain: Domain
    codes: dict[str, NDArray[Any]]
    coordinates: dict[str, NDArray[Any]]
    row_count: int

    def counter(self) -> MemoryCounter:
        """Return the counter over the rows."""
        return MemoryCounter(
            self.domain, coordinates=self.coordinates, codes=self.codes, rows=self.row_count
        )

    def fingerprint(self, secret: bytes) -> str:
        """Return a keyed digest, equal for rows that are counted alike in any order."""
        packed = self._packed()
        order = np.lexsort(packed) if len(packed) > 1 else np.argsort(packed[0])
        sizes = [(attribute.name, attribute.size) for attribute in self.domain]
        digest = hmac.new(secret, f"{sizes} {self.row_count} ".encode(), "sha256")
        for cells in packed:
            digest.update(cells[order].astype("<u8").tobytes())
        return digest.hexdigest()

    def _packed(self) -> list[NDArray[np.uint64]]:
        """Return the codes, as many columns packed into each 64-bit number as fit."""
        packed: list[NDArray[np.uint64]] = []
        packed_size = 0
        for attribute in self.domain:
            codes, size = self.codes[attribute.name].astype(np.uint64), attribute.size
            if packed and packed_size * size <= 1 << 64:
                packed[-1] = packed[-1] * np.uint64(size) + codes
                packed_size *= size
            else:
                packed.append(codes)
                packed_size = size
        return packed


def prepared_rows(domain: Domain, values: Sequence[Any], *, refuse: bool = False) -> PreparedRows:
    """Return the rows whose values fit a domain and keep its constraints.

    values   values (n,) of each declared column
    refuse   raise DeclarationError with the column's name where a row does not fit, instead of
             dropping it; that tells about a row
    """
    rows, written = len(values[0]), 0
    codes = {
        name: np.empty(rows, dtype=np.min_scalar_type(domain[name].size - 1))
        for name in domain.discrete
    }
    coordinates = {name: np.empty(rows, dtype=np.int32) for name in domain.numeric}
    # A warning about a cast would say something about a row.
    with np.errstate(all="ignore"):
        for start in range(0, max(1, rows), _BLOCK_ROWS):
            block_rows = slice(start, start + _BLOCK_ROWS)
            block = [
                series.iloc[block_rows] if hasattr(series, "iloc") else series[block_rows]
                for series in values
            ]
            keep, *block_columns = _prepare_block(domain, block, refuse=refuse)
            stop = written + int(keep.sum())
            for columns, parts in zip((codes, coordinates), block_columns, strict=True):
                for name, part in parts.items():
                    columns[name][written:stop] = part[keep]
            written = stop
    return PreparedRows(
        domain,
        {name: column[:written] for name, column in codes.items()},
        {name: column[:written] for name, column in coordinates.items()},
        written,
    )


def _prepare_block(
    domain: Domain, values: Sequence[Any], *, refuse: bool
) -> tuple[NDArray[np.bool_], dict[str, IntArray], dict[str, IntArray]]:
    """Return which rows fit (n,), and codes and coordinates of all, arbitrary where they do not."""
    codes: dict[str, IntArray] = {}
    coordinates: dict[str, IntArray] = {}
    keep = np.ones(len(values[0]), dtype=np.bool_)
    for attribute, series in zip(domain, values, strict=True):
        name, column, fits = attribute.name, stored_column(attribute, series), keep
        if attribute.has_cells:
            codes[name] = cell_codes(attribute, column)
            fits = codes[name] != INVALID
        if attribute.is_axis and attribute.coordinate is not None:
            numbers = valid_numbers(attribute, column)
            fits = ~np.isnan(numbers)
            numbers[~fits] = attribute.coordinate.lower
            coordinates[name] = attribute.coordinate.encode(numbers)
        if refuse and not fits.all():
            raise DeclarationError(
                f"X: column {name!r}: expected declared values, got undeclared ones"
            )
        keep = keep & fits
    for allowed in domain.allowed(domain.discrete):
        constrained = {name: np.where(keep, codes[name], 0) for name in allowed.names}
        broken = keep & ~allowed.holds(constrained)
        if refuse and broken.any():
            among = " and ".join(allowed.names)
            raise DeclarationError(
                f"X: expected rows that keep the constraints of {among}, got some that break them"
            )
        keep &= ~broken
    return keep, codes, coordinates


def public_rows(prior: Any, domain: Domain, names: Sequence[Any]) -> PublicTable:
    """Return public rows of others as codes of the declared cells, without those that do not fit.

    Raises DeclarationError as for ``X``, and where no row remains, as these rows are public.
    """
    try:
        values = declared_values(features_of(prior, typed=False), names)
    except DeclarationError as error:
        raise DeclarationError(f"prior: {str(error).removeprefix('X: ')}") from None
    rows = prepared_rows(domain, values)
    if not rows.row_count:
        raise DeclarationError(
            "prior: expected at least one public row with declared values, got none"
        )
    return PublicTable(rows.codes, {attribute.name: attribute.size for attribute in domain})
