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
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import INVALID, IntArray
from dp_pipeline.config.errors import DeclarationError, did_you_mean
from dp_pipeline.estimators.frames import Features, stored_column, stored_persons
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.raw.contributions import PersonKeys, count_omitted_rows, keep_at_most
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.generators.declared import draw_declared_rows
from dp_pipeline.raw.prepare import normalized
from dp_pipeline.raw.units import OF_UNIT, join_parts, unit_keys
from dp_pipeline.raw.values import breaking_rows, cell_codes, mend_constraints, valid_numbers
from dp_pipeline.results.synthetic_table import decode_columns

_BLOCK_ROWS = 1 << 16
"""Most rows whose numbers are in memory as floats at a time."""

_PLACE = "\0place"
"""The column of places in a table whose rows are chosen; no key of a row depends on it."""


def declared_values(features: Features, names: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values of each declared column, found by name in a frame, else by position.

    Raises DeclarationError for a column that is missing, and for another number of them.
    """
    if features.labels is not None:
        by_label = dict(zip(features.labels, features.columns, strict=True))
        for name in names:
            if name not in by_label:
                labels = [str(label) for label in features.labels]
                listed = ", ".join(label[:60] for label in labels[:12]) or "none"
                near = did_you_mean(str(name), labels)
                raise DeclarationError(
                    f"X: expected a column {name!r} as declared, got the columns {listed}{near}"
                )
        return tuple(by_label[name] for name in names)
    if len(features.columns) != len(names):
        raise DeclarationError(
            f"X: the table must have {len(names)} columns as declared, not {len(features.columns)}"
        )
    if any(values.dtype.kind == "c" for values in features.columns):
        raise DeclarationError(
            "X: the columns must be numbers or texts, but one is complex: Complex data not "
            "supported"
        )
    return features.columns


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The rows that fit a domain, as codes of 1 or 2 bytes.

    codes         column with cells → codes (row_count,)
    coordinates   column of numbers that are never missing → fixed-point coordinates (row_count,)
    left_out      number of other rows of known persons; together with the counted ones, those of
                  a person are at most ``protection.rows``
    """

    domain: Domain
    codes: dict[str, NDArray[Any]]
    coordinates: dict[str, NDArray[Any]]
    row_count: int
    left_out: int

    def counter(self) -> MemoryCounter:
        """Return the counter over the rows."""
        return MemoryCounter(
            self.domain,
            coordinates=self.coordinates,
            codes=self.codes,
            rows=self.row_count,
            left_out=self.left_out,
        )

    def fingerprint(self, secret: bytes) -> str:
        """Return a keyed digest that does not depend on the order of the rows."""
        packed = self._packed()
        order = np.lexsort(packed) if len(packed) > 1 else np.argsort(packed[0])
        sizes = [(attribute.name, attribute.size) for attribute in self.domain]
        digest = hmac.new(secret, f"{sizes} {self.row_count} ".encode(), "sha256")
        for cells in packed:
            digest.update(cells[order].astype("<u8").tobytes())
        return digest.hexdigest()

    def _packed(self) -> list[NDArray[np.uint64]]:
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


def stored_table(domain: Domain, values: Sequence[Any], person: Any = None) -> pa.Table:
    """Return a table in the form of a source, with the declared columns and persons if any.

    values   values (n,) of each declared column, then of the person's
    person   the name of the person's column, or None
    """
    pairs = zip(domain, values, strict=False)
    columns = {attribute.column: stored_column(attribute, series) for attribute, series in pairs}
    return pa.table(columns if person is None else {**columns, person: stored_persons(values[-1])})


def draw_table(spec: DatasetSpec, public: PublicTable | None, rows: int) -> pa.Table:
    """Return artificial rows for a rehearsal: like the public rows, if any, else as declared."""
    columns = None
    if public is not None:
        codes = np.stack([public.codes[name] for name in spec.domain.names], axis=1)
        columns = decode_columns(codes, spec.domain.names, spec.domain, np.random.default_rng(0))
    return draw_declared_rows(spec, rows, seed=0, columns=columns)


def prepared_rows(
    spec: DatasetSpec, table: pa.Table, key: bytes = b"", *, refuse: bool = False
) -> PreparedRows:
    """Return the rows that fit a declaration, which are those that ``raw.prepare`` would keep.

    table    as ``stored_table`` has it; of units with parts as ``DeclaredRows.stored`` has it
    key      the secret that chooses the rows of a person; empty where a row is a person
    refuse   raise where a row does not fit, in place of leaving it out: DeclarationError
             with the column's name, which tells about a row
    """
    if spec.domain.parts is not None:
        with np.errstate(all="ignore"):
            if OF_UNIT in table.column_names:
                table = join_parts(table, unit_keys(spec, key)).table
            units = normalized(spec, table, key)
        cells = {name: units.column(name).to_numpy() for name in units.column_names}
        return PreparedRows(spec.counted_domain, cells, {}, units.num_rows, 0)
    domain, rows, written = spec.domain, table.num_rows, 0
    codes = {
        name: np.empty(rows, dtype=np.min_scalar_type(domain[name].size - 1))
        for name in domain.discrete
    }
    coordinates = {name: np.empty(rows, dtype=np.int32) for name in domain.numeric}
    is_kept = np.zeros(rows, dtype=np.bool_)
    # A warning about a cast would say something about a row.
    with np.errstate(all="ignore"):
        for start in range(0, max(1, rows), _BLOCK_ROWS):
            block = table.slice(start, _BLOCK_ROWS)
            keep, *block_columns = _prepare_block(domain, block, refuse=refuse)
            is_kept[start : start + _BLOCK_ROWS] = keep
            stop = written + int(keep.sum())
            for columns, parts in zip((codes, coordinates), block_columns, strict=True):
                for name, part in parts.items():
                    columns[name][written:stop] = part[keep]
            written = stop
    chosen, left_out = _bounded(spec, table, is_kept, key)
    return PreparedRows(
        domain,
        {name: column[:written][chosen] for name, column in codes.items()},
        {name: column[:written][chosen] for name, column in coordinates.items()},
        written if isinstance(chosen, slice) else len(chosen),
        left_out,
    )


def _bounded(
    spec: DatasetSpec, table: pa.Table, is_kept: NDArray[np.bool_], key: bytes
) -> tuple[IntArray | slice, int]:
    """Return the places (m,) of rows within each person's limit, and ``left_out`` of PreparedRows.

    Places are among the kept rows; without persons, a slice of all.
    """
    keys = PersonKeys.of(spec.columns, spec.protection.column, key)
    if keys is None:
        return slice(None), int((~is_kept).sum())
    places = table.append_column(_PLACE, pa.array(np.cumsum(is_kept) - 1))
    at_most, invalid_rows = spec.protection.rows, table.filter(pa.array(~is_kept))
    bounded = keep_at_most(places.filter(pa.array(is_kept)), at_most=at_most, keys=keys)
    left_out = count_omitted_rows(invalid_rows, bounded, at_most=at_most, keys=keys)
    return np.asarray(bounded.column(_PLACE).to_numpy()), left_out


def _prepare_block(
    domain: Domain, table: pa.Table, *, refuse: bool
) -> tuple[NDArray[np.bool_], dict[str, IntArray], dict[str, IntArray]]:
    """Return a mask (n,) of fitting rows, and codes and coordinates (n,), arbitrary for others."""
    codes: dict[str, IntArray] = {}
    coordinates: dict[str, IntArray] = {}
    keep = np.ones(table.num_rows, dtype=np.bool_)
    for attribute in domain:
        name, column, fits = attribute.name, table.column(attribute.column), keep
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
                f"X: the column {name!r} must hold declared values, but some are not: declare "
                "them, or fit with on_unknown='drop'"
            )
        keep = keep & fits
    for constraint in domain.constraints if refuse else ():
        if (keep & breaking_rows(constraint, domain, codes)).any():
            among = " and ".join(constraint.attributes)
            raise DeclarationError(
                f"X: the rows must keep the constraints of {among}, but some break them: correct "
                "the constraints, or fit with on_unknown='drop'"
            )
    if domain.constraints:
        keep = keep & mend_constraints(domain, codes)
    return keep, codes, coordinates
