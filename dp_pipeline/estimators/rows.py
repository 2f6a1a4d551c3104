"""The rows of a data frame as codes of declared cells, and the counter over them. Rows live here.

What is refused is the form of ``X``: a declared column that is missing. Types of columns are no
errors: pandas makes them from the values, so that one value more can turn numbers into objects.
What becomes of a row depends on that row alone, as it does in ``raw.prepare``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.estimators.declared import DeclaredColumn, domain_of
from dp_pipeline.estimators.frames import Features, features_of, numbered, stored, stored_times
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.values import level_codes, missing_cells, valid_numbers
from dp_pipeline.spec.constraints import Constraint
from dp_pipeline.spec.domain import Attribute, Domain
from dp_pipeline.spec.encoding import INVALID, Bins, IntArray
from dp_pipeline.spec.errors import DeclarationError

Columns = tuple[DeclaredColumn, ...]


def every_column(domain: Any, features: Features) -> Any:
    """A declaration in which ``...`` is replaced by the columns of X that it does not name, in
    their order: of a frame by their names; of an array, whose first columns are those that are
    named, by ``x`` and their place. What has no ``...`` is returned as it is.

    DeclarationError where a column would have the name of another one.
    """
    if not isinstance(domain, Mapping) or ... not in domain:
        return domain
    named = {name: form for name, form in domain.items() if name is not ...}
    others: Sequence[Any]
    if features.labels is None:
        others = numbered(len(named), len(features.columns))
        if not set(named).isdisjoint(others):
            raise DeclarationError("domain: expected no name that a later column of X has, got one")
    else:
        others = [name for name in features.labels if name not in named]
    return {**named, **dict.fromkeys(others, domain[...])}


def declared_values(features: Features, columns: Columns) -> list[Any]:
    """The values of each declared column: of a frame by name, columns without a declaration left
    out; else the d columns of X are the declared ones in their order.

    Raises DeclarationError for a column that is missing, and for another number of them.
    """
    if features.labels is not None:
        there = dict(zip(features.labels, features.columns, strict=True))
        for column in columns:
            if column.name not in there:
                raise DeclarationError(
                    f"X: expected a column {column.name!r} as declared, got none"
                )
        return [there[column.name] for column in columns]
    if len(features.columns) != len(columns):
        raise DeclarationError(
            f"X: expected {len(columns)} columns as declared, got {len(features.columns)}"
        )
    if any(values.dtype.kind == "c" for values in features.columns):
        raise DeclarationError(
            "X: expected numbers or text, got others: Complex data not supported"
        )
    return list(features.columns)


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The rows that fit a domain, 1 or 2 bytes a code.

    codes         column → codes (number,)
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
        if len(packed) > 1:
            order = np.lexsort(packed)
            packed = [cells[order] for cells in packed]
        else:
            packed = [np.sort(cells) for cells in packed]
        sizes = [(one.name, one.size) for one in self.domain]
        digest = hmac.new(secret, f"{sizes} {self.number} ".encode(), "sha256")
        for cells in packed:
            digest.update(cells.astype("<u8").tobytes())
        return digest.hexdigest()

    def _packed(self) -> list[NDArray[np.uint64]]:
        """The codes of as many columns as fit 64 bits in one number, as sorting takes as long for
        one column as for all of these.
        """
        packed: list[NDArray[np.uint64]] = []
        room = 0
        for one in self.domain:
            codes = self.codes[one.name].astype(np.uint64)
            if packed and room * one.size <= 1 << 64:
                packed[-1] = packed[-1] * np.uint64(one.size) + codes
                room *= one.size
            else:
                packed.append(codes)
                room = one.size
        return packed


def prepared_rows(
    values: list[Any], columns: Columns, *, refuse: bool, constraints: tuple[Constraint, ...] = ()
) -> PreparedRows:
    """The rows whose values fit, and keep constraints.

    values   one list of values (n,) a declared column
    refuse   raise where a row does not fit, in place of leaving it out: DeclarationError
             with the column's name, which tells about a row
    """
    keep = np.ones(len(values[0]), dtype=np.bool_)
    codes: dict[str, NDArray[Any]] = {}
    coordinates: dict[str, NDArray[Any]] = {}
    # A warning about a cast would say something about a row.
    with np.errstate(all="ignore"):
        for column, given in zip(columns, values, strict=True):
            attribute = column.attribute
            places, numbers = _coded(attribute, given)
            if refuse and (places == INVALID).any():
                raise DeclarationError(
                    f"X: column {column.name!r}: expected declared values, got others"
                )
            keep &= places != INVALID
            codes[attribute.name] = places.astype(np.min_scalar_type(attribute.size - 1))
            if numbers is not None:
                coordinates[attribute.name] = numbers
    domain = Domain(domain_of(columns).attributes, constraints)
    for allowed in domain.allowed(domain.names):
        there = {name: np.where(keep, codes[name], 0) for name in allowed.names}
        broken = keep & ~allowed.holds(there)
        if refuse and broken.any():
            among = " and ".join(allowed.names)
            raise DeclarationError(f"X: expected rows that keep constraints of {among}, got others")
        keep &= ~broken
    return PreparedRows(
        domain,
        {name: column[keep] for name, column in codes.items()},
        {name: column[keep] for name, column in coordinates.items()},
        int(keep.sum()),
    )


def public_rows(
    prior: Any, columns: Columns, *, constraints: tuple[Constraint, ...] = ()
) -> PublicTable:
    """Rows of others that anybody may see, as codes of the declared cells; those that do not fit,
    or break constraints, are left out.

    Raises DeclarationError as for ``X``, and where no row is left: public rows may be told of.
    """
    try:
        values = declared_values(features_of(prior, typed=False), columns)
    except DeclarationError as error:
        raise DeclarationError(f"prior: {str(error).removeprefix('X: ')}") from None
    rows = prepared_rows(values, columns, refuse=False, constraints=constraints)
    if not rows.number:
        raise DeclarationError("prior: expected public rows with declared values, got none")
    return PublicTable(rows.codes, {one.name: one.size for one in rows.domain})


def _coded(attribute: Attribute, values: Any) -> tuple[IntArray, NDArray[Any] | None]:
    """Codes (n,), INVALID for a row that does not fit; of a number that is never missing also
    its coordinates, any number where it does not fit.
    """
    if attribute.clock is not None:
        column = stored_times(values)
    else:
        column = stored(values, truth_is_number=attribute.is_numeric)
    if not isinstance(attribute.cells, Bins) or attribute.coordinate is None:
        return level_codes(attribute, column), None
    numbers = valid_numbers(attribute, column)
    codes = attribute.cells.encode(numbers)
    if attribute.nullable:
        codes[missing_cells(attribute, column)] = attribute.missing_code
        return codes, None
    numbers[np.isnan(numbers)] = attribute.coordinate.lower
    return codes, attribute.coordinate.encode(numbers).astype(np.int32)
