"""Rows → coordinates, cell codes and bits, from declared bounds and levels only. Never min/max.

Preparation is total: one row in, at most one row out, and no value of any row
is an error. What becomes of a row depends on that row alone; only the bounding
of persons looks at several rows, and only at those of the same person.

normalized   coordinate of numeric attribute ``x`` as int32 in column ``x``; where ``x`` has bins
             also its clipped float in ``x.clipped``; a nominal attribute as its level text;
             a missing value of a nullable attribute as null
discretized  smallest unsigned code of every attribute with cells; missing is the last one
one_hot      one 0/1 column ``attribute=label`` a cell

All stages have the same rows in the same order.

Cell codes as bits: one 0/1 column a cell, written in parts, because bits are many.

Exact codes of prepared rows, for what reads rows as they are: nothing here is private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, wraps
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.files import temporary_folder
from dp_pipeline.raw.contributions import keep_at_most, parts_by_person
from dp_pipeline.raw.ingest import ingested_tables
from dp_pipeline.raw.snapshot import (
    Snapshot,
    forget_preparation,
    mark_stage,
    prepared_as,
    require_prepared,
    require_stage,
    require_validated,
)
from dp_pipeline.raw.stages import each, read_stage, stage_tables, store_parts
from dp_pipeline.raw.values import (
    cell_codes,
    column_of,
    in_window,
    level_codes,
    levels_of,
    missing_cells,
    numbers,
    valid_numbers,
)
from dp_pipeline.spec.constraints import AllowedCells, Constraint
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.domain import Attribute, Domain
from dp_pipeline.spec.encoding import INVALID, Bins, IntArray
from dp_pipeline.spec.errors import DeclarationError

_ROWS_A_PART = 1 << 16


def bit_names(attribute: Attribute) -> tuple[str, ...]:
    """``attribute=label`` of every cell, in code order.

    >>> from dp_pipeline.spec.encoding import Levels
    >>> bit_names(Attribute("sex", "sex", "drop", cells=Levels(("f", "m"))))
    ('sex=f', 'sex=m')
    """
    return tuple(f"{attribute.name}={label}" for label in attribute.labels())


def store_one_hot(domain: Domain, snapshot: Snapshot, codes: Iterable[pa.Table]) -> None:
    """Store the stage ``one_hot`` of tables of codes."""
    names = [name for a in domain.discrete for name in bit_names(domain[a])]
    schema = pa.schema([(name, pa.uint8()) for name in names])
    parts = (part for table in codes for part in _parts(domain, table, schema))
    store_parts(snapshot, "one_hot", chain([schema.empty_table()], parts), rows=_ROWS_A_PART)


def _parts(domain: Domain, codes: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    for start in range(0, codes.num_rows, _ROWS_A_PART):
        part = codes.slice(start, _ROWS_A_PART)
        bits = []
        for name in domain.discrete:
            column = part.column(name).to_numpy()
            bits += [
                pa.array((column == code).astype(np.uint8)) for code in range(domain[name].size)
            ]
        yield pa.Table.from_arrays(bits, schema=schema)


Step = Callable[[DatasetSpec, Snapshot], None]

CLIPPED = ".clipped"
"""Ending of the column that holds the clipped float of an attribute with bins: bins are cut from
it, because a fixed-point coordinate next to an edge may have been rounded across that edge.
"""


def stages_of(spec: DatasetSpec) -> tuple[str, ...]:
    """The stages that this data set needs, in order."""
    stages = ["normalized"]
    if spec.domain.discrete:
        stages.append("discretized")
        if spec.one_hot:
            stages.append("one_hot")
    return tuple(stages)


def _alone(step: Step) -> Step:
    """A stage's table and its mark belong together: no other run comes between the two."""

    @wraps(step)
    def alone(spec: DatasetSpec, snapshot: Snapshot) -> None:
        with snapshot.alone():
            step(spec, snapshot)

    return alone


@_alone
def normalize(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Drop, clip and rename by ``on_invalid``; bound persons' rows; store coordinates and levels.

    NotPrepared unless the snapshot was validated and not refused. Rows that
    break the declaration go first and persons are bounded after: else invalid
    rows would use up a person's places. The person column is not stored.
    """
    require_validated(spec, snapshot)
    forget_preparation(snapshot)
    with temporary_folder(snapshot.folder / "persons") as scratch:
        tables = each(partial(_kept, spec), ingested_tables(spec, snapshot))
        bounded = _bounded_tables(spec, tables, snapshot.key, scratch)
        store_parts(snapshot, "normalized", each(partial(_encoded, spec), bounded))
    mark_stage(spec, snapshot, "normalized")


def _bounded_tables(
    spec: DatasetSpec, tables: Iterator[pa.Table], key: bytes, scratch: Path
) -> Iterator[pa.Table]:
    """The same rows, or those that are kept of every person. Where there are several tables the
    rows of one person are put together first, in files of a folder.
    """
    person = spec.protection.column
    if person is None:
        yield from tables
        return
    first, second = next(tables), next(tables, None)
    if second is None:
        yield _bounded(spec, first, key)
        return
    yield _bounded(spec, first.slice(0, 0), key)
    for part in parts_by_person(chain([first, second], tables), person, key, scratch):
        yield _bounded(spec, part, key)


def normalized(spec: DatasetSpec, table: pa.Table, key: bytes) -> pa.Table:
    """The stage ``normalized`` of the rows of a source, as ``read_source`` gives them.

    key   the population's secret key
    """
    return _encoded(spec, _bounded(spec, _kept(spec, table), key))


def _kept(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    """The rows of a source that keep a value in every attribute, and every constraint."""
    table = of_window(spec, table.select(list(dict.fromkeys(spec.columns))))
    return table.filter(pa.array(kept_rows(spec.domain, table)))


def _encoded(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for attribute in spec.domain:
        columns |= _normalized(attribute, column_of(attribute, table))
    return pa.table(columns)


def of_window(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    """The rows of the window that a declaration is about; all of them where rows are not cut. What
    is ingested of a window also has the rows without a valid time, for checks alone.
    """
    if spec.windows is None or not spec.window:
        return table
    return table.filter(pa.array(in_window(spec.windows, spec.window, table)))


def kept_rows(domain: Domain, table: pa.Table) -> NDArray[np.bool_]:
    """Which rows keep a value in every attribute, and every constraint (n,)."""
    keep = np.ones(table.num_rows, dtype=np.bool_)
    for attribute in domain:
        column = column_of(attribute, table)
        if attribute.is_numeric:
            is_missing = missing_cells(attribute, column)
            keep &= is_missing | ~np.isnan(valid_numbers(attribute, column))
        else:
            keep &= level_codes(attribute, column) != INVALID
    for one in domain.constraints:
        keep &= ~broken_rows(one, domain, table)
    return keep


def broken_rows(constraint: Constraint, domain: Domain, table: pa.Table) -> NDArray[np.bool_]:
    """Which rows (n,) break a constraint; not those that have no cell in one of its attributes,
    which are left out without it.
    """
    attributes = [domain[name] for name in constraint.attributes]
    codes = {one.name: cell_codes(one, column_of(one, table)) for one in attributes}
    known: NDArray[np.bool_] = np.logical_and.reduce([one != INVALID for one in codes.values()])
    there = {name: np.where(known, column, 0) for name, column in codes.items()}
    mask = constraint.mask(domain.shape(constraint.attributes))
    return known & ~AllowedCells(constraint.attributes, mask).holds(there)


def _bounded(spec: DatasetSpec, table: pa.Table, key: bytes) -> pa.Table:
    person = spec.protection.column
    if person is None:
        return table
    return keep_at_most(table, column=person, at_most=spec.protection.rows, key=key)


def _normalized(attribute: Attribute, column: pa.ChunkedArray) -> dict[str, pa.Array]:
    """Stored columns of one attribute, for rows that survived; a missing value is null."""
    name = attribute.name
    if attribute.coordinate is None:
        codes, levels = level_codes(attribute, column), levels_of(attribute)
        places = pa.array(codes.astype(np.int32), mask=codes == levels.size)
        return {name: pa.DictionaryArray.from_arrays(places, pa.array(levels.values, pa.string()))}
    values = valid_numbers(attribute, column)
    gaps = np.isnan(values)
    coordinates = attribute.coordinate.encode(np.where(gaps, attribute.coordinate.lower, values))
    columns = {name: pa.array(coordinates.astype(np.int32), mask=gaps)}
    if attribute.cells is not None:
        columns[name + CLIPPED] = pa.array(values, mask=gaps)
    return columns


@_alone
def discretize(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Store the cell code of every attribute that has cells, from the stage ``normalized``.

    NotPrepared unless that stage was stored under this declaration.
    """
    _require_needed(spec, "discretized")
    require_stage(spec, snapshot, "normalized")
    tables = each(partial(discretized, spec), stage_tables(snapshot, "normalized"))
    store_parts(snapshot, "discretized", tables)
    mark_stage(spec, snapshot, "discretized")


def discretized(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    """The stage ``discretized`` of the stage ``normalized``."""
    columns = {}
    for name in spec.domain.discrete:
        attribute = spec.domain[name]
        codes = _codes(attribute, table)
        columns[name] = pa.array(codes.astype(np.min_scalar_type(attribute.size - 1)))
    return pa.table(columns)


def _codes(attribute: Attribute, table: pa.Table) -> IntArray:
    if not isinstance(attribute.cells, Bins):
        return level_codes(attribute, table.column(attribute.name))
    codes = attribute.cells.encode(numbers(table.column(attribute.name + CLIPPED)))
    # Every number was clipped, so what has no bin is missing.
    return (
        np.where(codes == INVALID, attribute.missing_code, codes) if attribute.nullable else codes
    )


@_alone
def encode_one_hot(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Store the bits of every cell, from the stage ``discretized``: uint8, one 1 an attribute.

    NotPrepared unless that stage was stored under this declaration.
    """
    _require_needed(spec, "one_hot")
    require_stage(spec, snapshot, "discretized")
    store_one_hot(spec.domain, snapshot, stage_tables(snapshot, "discretized"))
    mark_stage(spec, snapshot, "one_hot")


def _require_needed(spec: DatasetSpec, stage: str) -> None:
    if stage not in stages_of(spec):
        stages = ", ".join(stages_of(spec))
        raise DeclarationError(f"{spec.name}: expected a stage of {stages}, got {stage}")


@_alone
def mark_prepared(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Note in the manifest that every stage stands: ``prepared: {digest, stages}``.

    NotPrepared while a stage is missing or was made for another declaration.
    """
    require_validated(spec, snapshot)
    for stage in stages_of(spec):
        require_stage(spec, snapshot, stage)
    snapshot.record(prepared={"digest": prepared_as(spec), "stages": list(stages_of(spec))})


def prepare(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Every stage that the data set needs, in order, and the mark."""
    steps = {"normalized": normalize, "discretized": discretize, "one_hot": encode_one_hot}
    for stage in stages_of(spec):
        steps[stage](spec, snapshot)
    mark_prepared(spec, snapshot)


STAGE = "discretized"


def require_codes(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """NotPrepared unless the snapshot is prepared, DeclarationError for a data set without cells.

    Reads the manifest alone.
    """
    require_prepared(spec, snapshot)
    if STAGE not in stages_of(spec):
        raise DeclarationError(f"{spec.name}: expected attributes with cells, got none")


def exact_codes(spec: DatasetSpec, snapshot: Snapshot, names: Sequence[str]) -> NDArray[np.integer]:
    """Cell codes of some discrete attributes (n, len(names)), in the order of the prepared rows.

    A missing value of a nullable attribute is its last code. Raises what ``require_codes`` does,
    and Damaged when the rows are not as they were stored.
    """
    require_codes(spec, snapshot)
    table = read_stage(snapshot, STAGE)
    codes = np.empty((table.num_rows, len(names)), dtype=_smallest(spec, names), order="F")
    for at, name in enumerate(names):
        codes[:, at] = table.column(name).to_numpy()
    return codes


def _smallest(spec: DatasetSpec, names: Sequence[str]) -> np.dtype[np.integer]:
    """The smallest unsigned type that holds every code."""
    most = max((spec.domain[name].size for name in names), default=1)
    return np.min_scalar_type(most - 1)
