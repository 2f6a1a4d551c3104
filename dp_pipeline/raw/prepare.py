"""Preparation of rows as coordinates, cell codes and bits, by declared bounds and levels alone.

Every row becomes at most one row, and no value is an error. The result of a row depends on that row
alone, except for the bounding of persons, which reads the rows of one person. The stages have the
same rows in the same order:

normalized   coordinate of numeric attribute ``x`` as int32 in column ``x``; where ``x`` has bins
             also its clipped float in ``x.clipped``; a nominal attribute as its level text;
             a missing value of a nullable attribute as null
discretized  smallest unsigned code of every attribute with cells; missing is the last one
one_hot      one 0/1 column ``attribute=label`` a cell, written in parts, because bits are many

Beside ``normalized``, the table ``left_out`` has the number of rows that were left out though their
person is known: of one person so many as, with her rows in the stage, are at most ``at_most``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_pipeline.config.constraints import Constraint
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import INVALID, Bins, IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.files import temporary_folder
from dp_pipeline.raw.clusters import workers_of
from dp_pipeline.raw.contributions import (
    PersonKeys,
    SplitFile,
    count_omitted_rows,
    group_readers,
    keep_at_most,
    person_codes,
    split_by_person,
)
from dp_pipeline.raw.ingest import ingested_batch_readers
from dp_pipeline.raw.snapshot import (
    Snapshot,
    forget_preparation,
    has_stage,
    mark_stage,
    require_prepared,
    require_stage,
    require_validated,
    stages_of,
)
from dp_pipeline.raw.stages import (
    LEFT_OUT,
    BatchReader,
    prepared_codes,
    stage_batches,
    store_parts,
)
from dp_pipeline.raw.units import WITHOUT_PARTS, units_of_parts
from dp_pipeline.raw.values import (
    breaking_rows,
    cell_codes,
    column_of,
    in_window,
    level_codes,
    levels_of,
    mend_constraints,
    missing_cells,
    numbers,
    valid_numbers,
)
from dp_pipeline.raw.workers import ParallelMap, map_to_tables

# Suffix of the column with the clipped float of an attribute, from which bins are cut, as a
# fixed-point coordinate may have been rounded across an edge.
CLIPPED = ".clipped"
_COUNT = b"left out"  # The key of the number of rows left out, in the schema of a worker's table
_INPUT_STAGE = {"discretized": "normalized", "one_hot": "discretized"}
_ONE_HOT_ROWS = 1 << 16  # Rows of one part of the stage ``one_hot``


def prepare(spec: DatasetSpec, snapshot: Snapshot, engine: str = "") -> None:
    """Store the tables of all stages of preparation.

    It raises what ``prepare_stage`` does."""
    for stage in stages_of(spec):
        prepare_stage(spec, snapshot, stage, engine)


def prepare_stage(
    spec: DatasetSpec, snapshot: Snapshot, stage: str, engine: str = "", *, again: bool = True
) -> None:
    """Store the table of one stage of preparation, and mark it in the manifest, under a lock.

    engine   engine whose workers do the work, see ``split_engine``
    again    whether to replace a stage that was stored under this declaration

    The first stage drops rows that break the declaration before persons are bounded, so that
    invalid rows do not use up a person's share. It also stores the number of rows left out, and
    removes the marks of all stages. The person column is not stored. NotPrepared unless the
    snapshot was validated and not refused, and the stage before this one was stored under this
    declaration; DeclarationError for a stage that the data set does not need.
    """
    with snapshot.locked():
        if not again and has_stage(spec, snapshot, stage):
            return
        if stage not in stages_of(spec):
            stages = ", ".join(stages_of(spec))
            raise DeclarationError(
                f"{spec.name}: the rows can be prepared as {stages}, not as {stage!r}: correct "
                "the name of the stage"
            )
        parallel_map = workers_of(engine)
        is_first = stage == stages_of(spec)[0]
        if is_first:
            require_validated(spec, snapshot)
            forget_preparation(snapshot)
        else:
            require_stage(spec, snapshot, _INPUT_STAGE[stage])
        with temporary_folder(snapshot.folder / stage) as scratch:
            if is_first:
                _store_first(spec, snapshot, stage, parallel_map, scratch)
            else:
                tables = _encoded_tables(spec, snapshot, stage, parallel_map, scratch)
                is_wide = stage == "one_hot"
                store = partial(store_parts, rows=_ONE_HOT_ROWS) if is_wide else store_parts
                store(snapshot, stage, tables)
        mark_stage(spec, snapshot, stage)


def _store_first(
    spec: DatasetSpec, snapshot: Snapshot, stage: str, parallel_map: ParallelMap, scratch: Path
) -> None:
    left_out = 0

    def counted() -> Iterator[pa.Table]:
        nonlocal left_out
        for table in _normalized_tables(spec, snapshot, parallel_map, scratch):
            left_out += rows_left_out(table)
            yield table.replace_schema_metadata(None)

    store_parts(snapshot, stage, counted())
    store_parts(snapshot, LEFT_OUT, [pa.table({"rows": pa.array([left_out], pa.int64())})])


def _normalized_tables(
    spec: DatasetSpec, snapshot: Snapshot, parallel_map: ParallelMap, scratch: Path
) -> Iterator[pa.Table]:
    """Yield the tables of the first stage, each with all rows of its persons."""
    keys = PersonKeys.of(spec.columns, spec.protection.column, snapshot.key)
    with ingested_batch_readers(spec, snapshot) as batches:
        readers = batches
        if keys is not None and len(batches) > 1:
            split = partial(_split_batch, spec, keys, scratch)
            readers = group_readers(list(parallel_map(split, list(enumerate(batches)))))
        # Workers do not have the population's key.
        yield from map_to_tables(parallel_map, partial(_normalize, spec, keys), readers, scratch)


def _split_batch(
    spec: DatasetSpec, keys: PersonKeys, scratch: Path, numbered_batch: tuple[int, BatchReader]
) -> SplitFile:
    number, read = numbered_batch
    return split_by_person(_used_rows(spec, read()), keys, scratch / f"split {number}.arrow")


def _normalize(spec: DatasetSpec, keys: PersonKeys | None, read: BatchReader) -> list[pa.Table]:
    rows = _used_rows(spec, read())
    is_declared = pa.array(rows_as_declared(spec.domain, rows))
    at_most, invalid = spec.protection.at_most, rows.filter(pc.invert(is_declared))
    valid = keep_at_most(rows.filter(is_declared), at_most=at_most, keys=keys)
    left_out = count_omitted_rows(invalid, valid, at_most=at_most, keys=keys)
    return [_first_stage(spec, valid).replace_schema_metadata({_COUNT: str(left_out)})]


def _used_rows(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    marks = [WITHOUT_PARTS] if WITHOUT_PARTS in table.column_names else []
    return rows_of_window(spec, table.select([*dict.fromkeys(spec.columns), *marks]))


def normalize(spec: DatasetSpec, table: pa.Table, key: bytes) -> pa.Table:
    """Return a source's rows as the table of the first stage of preparation, bounded by person.

    table   as ``read_source`` gives it
    key     the population's secret key, by which the used rows of each person are chosen
    """
    keys = PersonKeys.of(spec.columns, spec.protection.column, key)
    (stage,) = _normalize(spec, keys, lambda: table)
    return stage


def rows_left_out(stage: pa.Table) -> int:
    """Return the ``count_omitted_rows`` of a table by ``normalize``, which its schema holds."""
    return int(stage.schema.metadata[_COUNT])


def rows_of_window(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    """Return the rows with a time in ``spec.window``; all rows if no window is chosen."""
    if spec.windows is None or not spec.window:
        return table
    return table.filter(pa.array(in_window(spec.windows, spec.window, table)))


def rows_as_declared(domain: Domain, table: pa.Table) -> NDArray[np.bool_]:
    """Return a mask of the rows (n,) that preparation keeps: valid and without contradiction.

    An invalid value costs the row unless its attribute keeps rows, and so does a constraint that is
    broken unless a missing value mends it."""
    is_kept = np.ones(table.num_rows, dtype=np.bool_)
    for attribute in domain:
        column = column_of(attribute, table)
        if attribute.keeps_rows:
            continue
        if attribute.is_numeric:
            is_missing = missing_cells(attribute, column)
            is_kept &= is_missing | ~np.isnan(valid_numbers(attribute, column))
        else:
            is_kept &= level_codes(attribute, column) != INVALID
    domain = replace(domain, constraints=domain.row_constraints)
    if domain.constraints:
        is_kept &= mend_constraints(domain, _constrained_codes(domain.constraints, domain, table))
    return is_kept


def rows_breaking(constraint: Constraint, domain: Domain, table: pa.Table) -> NDArray[np.bool_]:
    """Return a mask of the rows (n,) that break a constraint; no row with an invalid value does."""
    return breaking_rows(constraint, domain, _constrained_codes([constraint], domain, table))


def _constrained_codes(
    constraints: Iterable[Constraint], domain: Domain, table: pa.Table
) -> dict[str, IntArray]:
    names = dict.fromkeys(name for each in constraints for name in each.attributes)
    return {name: cell_codes(domain[name], column_of(domain[name], table)) for name in names}


def _first_stage(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    rows = _normalized(spec, table)
    if spec.domain.parts is None:
        return rows
    assert spec.protection.column is not None
    codes = {name: _codes(spec.domain[name], rows) for name in spec.domain.discrete}
    order, has_marks = spec.domain.parts.order, WITHOUT_PARTS in table.column_names
    units = units_of_parts(
        spec.domain,
        codes,
        person_codes(table, spec.protection.column),
        numbers(rows.column(order + CLIPPED)) if order else None,
        table.column(WITHOUT_PARTS).to_numpy() if has_marks else None,
    )
    return _stage_table(
        {
            name: pa.array(column.astype(np.min_scalar_type(size - 1)))
            for name, (column, size) in units.items()
        }
    )


def _normalized(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    nullable: set[str] = set()
    domain = replace(spec.domain, constraints=spec.domain.row_constraints)
    mended = _constrained_codes(domain.constraints, domain, table)
    if mended:
        mend_constraints(domain, mended)
    for attribute in spec.domain:
        column = column_of(attribute, table)
        if attribute.nullable and attribute.name in mended:
            is_missing = mended[attribute.name] == attribute.missing_code
            column = pc.if_else(pa.array(is_missing), pa.scalar(None, column.type), column)
        stored = _normalized_columns(attribute, column)
        columns |= stored
        nullable |= stored.keys() if attribute.nullable else set()
    return _stage_table(columns, nullable)


def _normalized_columns(attribute: Attribute, column: pa.ChunkedArray) -> dict[str, pa.Array]:
    name = attribute.name
    if attribute.coordinate is None:
        codes, levels = level_codes(attribute, column), levels_of(attribute)
        indices = pa.array(codes.astype(np.int32), mask=codes == levels.size)
        return {name: pa.DictionaryArray.from_arrays(indices, pa.array(levels.values, pa.string()))}
    values = valid_numbers(attribute, column)
    is_missing = np.isnan(values)
    lower = attribute.coordinate.lower
    coordinates = attribute.coordinate.encode(np.where(is_missing, lower, values))
    columns = {name: pa.array(coordinates.astype(np.int32), mask=is_missing)}
    if attribute.cells is not None:
        columns[name + CLIPPED] = pa.array(values, mask=is_missing)
    return columns


def _stage_table(columns: Mapping[str, pa.Array], nullable: Collection[str] = ()) -> pa.Table:
    """Return the table of a stage, whose schema marks columns without missing values.

    Otherwise every query would check each value, which takes longer than reading it."""
    fields = [pa.field(name, column.type, name in nullable) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _encoded_tables(
    spec: DatasetSpec, snapshot: Snapshot, stage: str, parallel_map: ParallelMap, scratch: Path
) -> Iterator[pa.Table]:
    work = _discretize_batch if stage == "discretized" else _one_hot_batch
    with stage_batches(snapshot, _INPUT_STAGE[stage]) as batches:
        yield from map_to_tables(parallel_map, partial(work, spec), batches, scratch)


def _discretize_batch(spec: DatasetSpec, read: BatchReader) -> Iterator[pa.Table]:
    yield discretize(spec, read())


def discretize(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    """Return the table of the stage ``discretized``: the codes of all attributes with cells.

    table   of the stage ``normalized``
    """
    columns: dict[str, pa.Array] = {}
    for name in spec.domain.discrete:
        attribute = spec.domain[name]
        codes = _codes(attribute, table)
        columns[name] = pa.array(codes.astype(np.min_scalar_type(attribute.size - 1)))
    return _stage_table(columns)


def _codes(attribute: Attribute, table: pa.Table) -> IntArray:
    if not isinstance(attribute.cells, Bins):
        return level_codes(attribute, table.column(attribute.name))
    codes = attribute.cells.encode(numbers(table.column(attribute.name + CLIPPED)))
    if attribute.nullable:
        # Every number is clipped, so values without a bin are missing.
        codes[codes == INVALID] = attribute.missing_code
    return codes


def bit_names(attribute: Attribute) -> tuple[str, ...]:
    """Return the name ``attribute=label`` of every cell, in code order.

    >>> from dp_pipeline.config.encoding import Levels
    >>> bit_names(Attribute("sex", "sex", "drop", cells=Levels(("f", "m"))))
    ('sex=f', 'sex=m')
    """
    return tuple(f"{attribute.name}={label}" for label in attribute.labels())


def _one_hot_batch(spec: DatasetSpec, read: BatchReader) -> Iterator[pa.Table]:
    attributes = [spec.domain[name] for name in spec.domain.discrete]
    schema = pa.schema([(bit, pa.uint8()) for a in attributes for bit in bit_names(a)])
    codes = read()
    for start in range(0, max(1, codes.num_rows), _ONE_HOT_ROWS):
        part = codes.slice(start, _ONE_HOT_ROWS)
        columns = [(part.column(a.name).to_numpy(), a.size) for a in attributes]
        bits = [pa.array((c == code).astype(np.uint8)) for c, n in columns for code in range(n)]
        yield pa.Table.from_arrays(bits, schema=schema)


def require_codes(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Raise NotPrepared for an unprepared snapshot, DeclarationError if no attribute has cells."""
    require_prepared(spec, snapshot)
    if not spec.domain.discrete:
        raise DeclarationError(
            f"{spec.name}: an attribute must have cells, but none has levels, bins or edges: "
            "declare some"
        )


def exact_codes(spec: DatasetSpec, snapshot: Snapshot, names: Sequence[str]) -> NDArray[np.integer]:
    """Return the exact codes of prepared rows (n, len(names)), for methods that are not private.

    A missing value is the last code of its attribute. It raises what ``require_codes`` does, and
    Damaged if the rows are not as they were stored.
    """
    require_codes(spec, snapshot)
    codes = prepared_codes(spec, snapshot, names)
    return np.stack([codes[name] for name in names]).T
