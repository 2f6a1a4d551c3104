"""The rows of a frame as codes of declared cells, and the counter over them. Rows live here.

A missing declared column is refused, but no column type: pandas makes types from the values, so
that one more value can turn numbers into objects. The codes of a row depend on that row alone, and
are those that ``raw.prepare`` makes of it in a file.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import DeclarationError, did_you_mean
from dp_pipeline.estimators.frames import Features, column_to_arrow, persons_to_arrow
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.generators.declared import draw_declared_rows
from dp_pipeline.raw.prepare import (
    discretize,
    normalize,
    rows_as_declared,
    rows_breaking,
    rows_left_out,
)
from dp_pipeline.raw.units import OF_UNIT, join_parts, unit_keys
from dp_pipeline.results.synthetic_table import decode_columns

_BLOCK_ROWS = 1 << 16
"""Most rows whose numbers are in memory as floats at a time, unless rows are of persons."""

Arrays = dict[str, NDArray[Any]]


def find_columns(features: Features, names: Sequence[Any]) -> tuple[Any, ...]:
    """Return the column of X for each name: by name from a frame, by position from an array.

    DeclarationError for a name that the frame lacks, and for an array of complex numbers or with
    another number of columns.
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
            "X: the array must hold numbers or texts, but its type is complex: pass X.real "
            "(Complex data not supported)"
        )
    return features.columns


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The rows that fit a domain, as codes of 1 or 2 bytes.

    codes         column with cells → codes (row_count,)
    coordinates   column of numbers that are never missing → fixed-point coordinates (row_count,)
    left_out      number of rows of known persons that do not fit; a person has at most
                  ``protection.rows`` of these and the fitting ones together
    """

    domain: Domain
    codes: Arrays
    coordinates: Arrays
    row_count: int
    left_out: int

    def counter(self) -> MemoryCounter:
        return MemoryCounter(
            self.domain,
            coordinates=self.coordinates,
            codes=self.codes,
            rows=self.row_count,
            left_out=self.left_out,
        )

    def fingerprint(self, secret: bytes) -> str:
        """Return a keyed digest (HMAC) of the rows' codes, whatever the order of the rows."""
        # Codes of as many columns as fit are one number of 64 bits.
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
        order = np.lexsort(packed) if len(packed) > 1 else np.argsort(packed[0])
        sizes = [(attribute.name, attribute.size) for attribute in self.domain]
        digest = hmac.new(secret, f"{sizes} {self.row_count} ".encode(), "sha256")
        for cells in packed:
            digest.update(cells[order].astype("<u8").tobytes())
        return digest.hexdigest()


def table_to_arrow(domain: Domain, values: Sequence[Any], person: Any = None) -> pa.Table:
    """Return columns of X as an Arrow table, such as a file gives, with persons' ids if any.

    values   the values (n,) of each column of the domain, then those of the person's column
    person   name of the person's column, or None
    """
    pairs = zip(domain, values, strict=False)
    columns = {attribute.column: column_to_arrow(attribute, series) for attribute, series in pairs}
    return pa.table(
        columns if person is None else {**columns, person: persons_to_arrow(values[-1])}
    )


def draw_table(spec: DatasetSpec, public: PublicTable | None, rows: int) -> pa.Table:
    """Return artificial rows for a rehearsal: like the public rows, if any, else as declared."""
    columns = None
    if public is not None:
        codes = np.stack([public.codes[name] for name in spec.domain.names], axis=1)
        columns = decode_columns(codes, spec.domain.names, spec.domain, np.random.default_rng(0))
    return draw_declared_rows(spec, rows, seed=0, columns=columns)


def prepare_rows(
    spec: DatasetSpec, table: pa.Table, key: bytes = b"", *, refuse: bool = False
) -> PreparedRows:
    """Return the rows of a table that fit a declaration, as codes; ``raw.prepare`` keeps the same.

    table    as ``table_to_arrow`` has it; of units with parts as ``DeclaredRows.to_arrow`` has it
    key      the secret that chooses which rows of a person count; empty where a row is a person
    refuse   whether a row that does not fit raises DeclarationError, which reveals that there is
             one, in place of being left out
    """
    # A warning about a cast would say something about a row.
    with np.errstate(all="ignore"):
        if refuse:
            _require_declared(spec.domain, table)
        if OF_UNIT in table.column_names:
            table = join_parts(table, unit_keys(spec, key)).table
        # All rows of a person are bounded together.
        size = _BLOCK_ROWS if spec.protection.column is None else max(1, table.num_rows)
        starts = range(0, max(1, table.num_rows), size)
        blocks = [_prepared_block(spec, table.slice(start, size), key) for start in starts]

    def joined(parts: list[Arrays]) -> Arrays:
        # Each column of the blocks is given up as soon as it is copied.
        return {name: np.concatenate([part.pop(name) for part in parts]) for name in [*parts[0]]}

    return PreparedRows(
        spec.counted_domain,
        joined([block.codes for block in blocks]),
        joined([block.coordinates for block in blocks]),
        sum(block.row_count for block in blocks),
        sum(block.left_out for block in blocks),
    )


def _prepared_block(spec: DatasetSpec, table: pa.Table, key: bytes) -> PreparedRows:
    domain, stage = spec.counted_domain, normalize(spec, table, key)
    cells = discretize(spec, stage) if spec.domain.parts is None else stage
    codes, coordinates = (
        {name: rows.column(name).to_numpy() for name in names}
        for rows, names in ((cells, domain.discrete), (stage, domain.numeric))
    )
    return PreparedRows(domain, codes, coordinates, stage.num_rows, rows_left_out(stage))


def _require_declared(domain: Domain, table: pa.Table) -> None:
    for attribute in domain:
        if not rows_as_declared(Domain((attribute,)), table).all():
            raise DeclarationError(
                f"X: the column {attribute.name!r} must hold declared values, but some are "
                "missing or not declared: declare them (`'nullable': True` for missing ones), or "
                "fit with on_unknown='drop'"
            )
    for constraint in domain.constraints:
        if rows_breaking(constraint, domain, table).any():
            among = " and ".join(constraint.attributes)
            raise DeclarationError(
                f"X: the rows must keep the constraints of {among}, but some break them: correct "
                "the constraints, or fit with on_unknown='drop'"
            )
