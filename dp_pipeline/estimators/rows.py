"""The rows of a frame as codes of declared cells, and the counter over them. Rows live here.

What is refused is the form of ``X``: a declared column that is missing. Types of columns are no
errors: pandas makes them from the values, so that one value more can turn numbers into objects.
What becomes of a row depends on that row alone, and is what ``raw.prepare`` makes of it in a file.
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
    """The values of each declared column: of a frame by name, columns without a declaration left
    out; else the d columns of X are the declared ones in their order.

    Raises DeclarationError for a column that is missing, and for another number of them.
    """
    if features.labels is not None:
        there = dict(zip(features.labels, features.columns, strict=True))
        for name in names:
            if name not in there:
                raise DeclarationError(f"X: expected a column {name!r} as declared, got none")
        return tuple(there[name] for name in names)
    if len(features.columns) != len(names):
        raise DeclarationError(
            f"X: expected {len(names)} columns as declared, got {len(features.columns)}"
        )
    if any(values.dtype.kind == "c" for values in features.columns):
        raise DeclarationError(
            "X: expected numbers or text, got others: Complex data not supported"
        )
    return features.columns


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The rows that fit a domain, 1 or 2 bytes a code.

    codes         column with cells → codes (number,)
    coordinates   column of numbers that are never missing → fixed-point coordinates (number,)
    """

    domain: Domain
    codes: dict[str, NDArray[Any]]
    coordinates: dict[str, NDArray[Any]]
    number: int

    def counter(self) -> MemoryCounter:
        """The engine over them."""
        return MemoryCounter(
            self.domain, coordinates=self.coordinates, codes=self.codes, rows=self.number
        )

    def fingerprint(self, secret: bytes) -> str:
        """Keyed digest: of rows that are counted alike, in whatever order, the same one."""
        packed = self._packed()
        order = np.lexsort(packed) if len(packed) > 1 else np.argsort(packed[0])
        sizes = [(attribute.name, attribute.size) for attribute in self.domain]
        digest = hmac.new(secret, f"{sizes} {self.number} ".encode(), "sha256")
        for cells in packed:
            digest.update(cells[order].astype("<u8").tobytes())
        return digest.hexdigest()

    def _packed(self) -> list[NDArray[np.uint64]]:
        """The codes of as many columns as fit 64 bits in one number, as sorting takes as long for
        one column as for all of these.
        """
        packed: list[NDArray[np.uint64]] = []
        room = 0
        for attribute in self.domain:
            codes, size = self.codes[attribute.name].astype(np.uint64), attribute.size
            if packed and room * size <= 1 << 64:
                packed[-1] = packed[-1] * np.uint64(size) + codes
                room *= size
            else:
                packed.append(codes)
                room = size
        return packed


def prepared_rows(domain: Domain, values: Sequence[Any], *, refuse: bool = False) -> PreparedRows:
    """The rows whose values fit a domain, and keep its constraints.

    values   one column (n,) of X a declared one
    refuse   raise where a row does not fit, in place of leaving it out: DeclarationError
             with the column's name, which tells about a row
    """
    rows, kept = len(values[0]), 0
    codes = {
        name: np.empty(rows, dtype=np.min_scalar_type(domain[name].size - 1))
        for name in domain.discrete
    }
    coordinates = {name: np.empty(rows, dtype=np.int32) for name in domain.numeric}
    # A warning about a cast would say something about a row.
    with np.errstate(all="ignore"):
        for start in range(0, max(1, rows), _BLOCK_ROWS):
            here = slice(start, start + _BLOCK_ROWS)
            block = [one.iloc[here] if hasattr(one, "iloc") else one[here] for one in values]
            keep, *stored = _prepared_block(domain, block, refuse=refuse)
            stop = kept + int(keep.sum())
            for columns, parts in zip((codes, coordinates), stored, strict=True):
                for name, part in parts.items():
                    columns[name][kept:stop] = part[keep]
            kept = stop
    return PreparedRows(
        domain,
        {name: column[:kept] for name, column in codes.items()},
        {name: column[:kept] for name, column in coordinates.items()},
        kept,
    )


def _prepared_block(
    domain: Domain, values: Sequence[Any], *, refuse: bool
) -> tuple[NDArray[np.bool_], dict[str, IntArray], dict[str, IntArray]]:
    """Which rows are kept (n,), and codes and coordinates of all of them, any where none fits."""
    codes: dict[str, IntArray] = {}
    coordinates: dict[str, IntArray] = {}
    keep = np.ones(len(values[0]), dtype=np.bool_)
    for attribute, given in zip(domain, values, strict=True):
        name, column, fits = attribute.name, stored_column(attribute, given), keep
        if attribute.has_cells:
            codes[name] = cell_codes(attribute, column)
            fits = codes[name] != INVALID
        if attribute.is_axis and attribute.coordinate is not None:
            numbers = valid_numbers(attribute, column)
            fits = ~np.isnan(numbers)
            numbers[~fits] = attribute.coordinate.lower
            coordinates[name] = attribute.coordinate.encode(numbers)
        if refuse and not fits.all():
            raise DeclarationError(f"X: column {name!r}: expected declared values, got others")
        keep = keep & fits
    for allowed in domain.allowed(domain.discrete):
        there = {name: np.where(keep, codes[name], 0) for name in allowed.names}
        broken = keep & ~allowed.holds(there)
        if refuse and broken.any():
            among = " and ".join(allowed.names)
            raise DeclarationError(f"X: expected rows that keep constraints of {among}, got others")
        keep &= ~broken
    return keep, codes, coordinates


def public_rows(prior: Any, domain: Domain, names: Sequence[Any]) -> PublicTable:
    """Rows of others that anybody may see, as codes of the declared cells; those that do not fit,
    or break constraints, are left out.

    Raises DeclarationError as for ``X``, and where no row is left: public rows may be told of.
    """
    try:
        values = declared_values(features_of(prior, typed=False), names)
    except DeclarationError as error:
        raise DeclarationError(f"prior: {str(error).removeprefix('X: ')}") from None
    rows = prepared_rows(domain, values)
    if not rows.number:
        raise DeclarationError("prior: expected public rows with declared values, got none")
    return PublicTable(rows.codes, {attribute.name: attribute.size for attribute in domain})
