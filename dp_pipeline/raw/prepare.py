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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.config.constraints import AllowedCells, Constraint
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import INVALID, Bins, IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.files import temporary_folder
from dp_pipeline.raw.clusters import workers_of
from dp_pipeline.raw.contributions import Parts, PersonKeys, deal, kept_at_most, rows_of_part
from dp_pipeline.raw.ingest import ingested_batches
from dp_pipeline.raw.snapshot import (
    Snapshot,
    forget_preparation,
    has_stage,
    mark_stage,
    require_prepared,
    require_stage,
    require_validated,
)
from dp_pipeline.raw.stages import Read, read_stage, stage_batches, store_parts
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
from dp_pipeline.raw.workers import Each, tables_made

_ROWS_A_PART = 1 << 16


def bit_names(attribute: Attribute) -> tuple[str, ...]:
    """``attribute=label`` of every cell, in code order.

    >>> from dp_pipeline.config.encoding import Levels
    >>> bit_names(Attribute("sex", "sex", "drop", cells=Levels(("f", "m"))))
    ('sex=f', 'sex=m')
    """
    return tuple(f"{attribute.name}={label}" for label in attribute.labels())


def _bits_of_batch(domain: Domain, read: Read) -> Iterator[pa.Table]:
    """The bits of a batch of the stage ``discretized``, in one part or more."""
    names = [name for a in domain.discrete for name in bit_names(domain[a])]
    schema = pa.schema([(name, pa.uint8()) for name in names])
    codes = read()
    for start in range(0, max(1, codes.num_rows), _ROWS_A_PART):
        part = codes.slice(start, _ROWS_A_PART)
        bits = []
        for name in domain.discrete:
            column = part.column(name).to_numpy()
            bits += [
                pa.array((column == code).astype(np.uint8)) for code in range(domain[name].size)
            ]
        yield pa.Table.from_arrays(bits, schema=schema)


class StageWriter(Protocol):
    """Stores one stage; ``engine``, as ``engine_of`` reads it, does the work on its batches."""

    def __call__(
        self, spec: DatasetSpec, snapshot: Snapshot, engine: str = "", *, again: bool = True
    ) -> None:
        """NotPrepared unless all before it was done.

        again   False: a stage that is stored under this declaration stays as it is
        """


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


def _stage(name: str) -> Callable[[Callable[[DatasetSpec, Snapshot, str], None]], StageWriter]:
    """A stage's table and its mark belong together: no other run comes between the two."""

    def alone(make: Callable[[DatasetSpec, Snapshot, str], None]) -> StageWriter:
        @wraps(make)
        def step(
            spec: DatasetSpec, snapshot: Snapshot, engine: str = "", *, again: bool = True
        ) -> None:
            with snapshot.locked():
                if again or not has_stage(spec, snapshot, name):
                    make(spec, snapshot, engine)

        return step

    return alone


@_stage("normalized")
def normalize(spec: DatasetSpec, snapshot: Snapshot, engine: str = "") -> None:
    """Drop, clip and rename by ``on_invalid``; bound persons' rows; store coordinates and levels.

    NotPrepared unless the snapshot was validated and not refused. Rows that
    break the declaration go first and persons are bounded after: else invalid
    rows would use up a person's places. The person column is not stored.
    """
    require_validated(spec, snapshot)
    forget_preparation(snapshot)
    each, keys = workers_of(engine), _person_keys(spec, snapshot.key)
    with temporary_folder(snapshot.folder / "normalized") as scratch:
        tables = _normalized_tables(_Normalizing(spec, keys, scratch), snapshot, each)
        store_parts(snapshot, "normalized", tables)
    mark_stage(spec, snapshot, "normalized")


def _person_keys(spec: DatasetSpec, key: bytes) -> PersonKeys | None:
    person = spec.protection.column
    return None if person is None else PersonKeys.of(dict.fromkeys(spec.columns), person, key)


@dataclass(frozen=True)
class _Normalizing:
    """What workers do, each by itself; they do not hold the population's key.

    keys      None where rows are not of persons
    scratch   the folder for what they hand on
    """

    spec: DatasetSpec
    keys: PersonKeys | None
    scratch: Path

    def batch(self, read: Read) -> list[pa.Table]:
        """The stage of a batch that has all rows of everyone in it."""
        return [self._of_kept(_kept(self.spec, read()))]

    def dealt(self, task: tuple[int, Read]) -> Parts:
        """Put the rows that a batch keeps together with others of the same persons."""
        number, read = task
        assert self.keys is not None
        return deal(_kept(self.spec, read()), self.keys, self._path(number))

    def part(self, task: tuple[int, tuple[tuple[int, Parts], ...]]) -> list[pa.Table]:
        """The stage of a part of the persons."""
        part, dealt = task
        files = [(self._path(number), parts) for number, parts in dealt]
        return [self._of_kept(rows_of_part(files, part))]

    def _of_kept(self, table: pa.Table) -> pa.Table:
        return _encoded(self.spec, _bounded(self.spec, table, self.keys))

    def _path(self, number: int) -> Path:
        return self.scratch / f"dealt {number}.arrow"


def _normalized_tables(work: _Normalizing, snapshot: Snapshot, each: Each) -> Iterator[pa.Table]:
    """The stage in one table or more. Where there are several batches the rows of one person are
    put together first; parts come in the order in which batches have them.
    """
    with ingested_batches(work.spec, snapshot) as batches:
        if work.keys is None or len(batches) == 1:
            yield from tables_made(each, work.batch, batches, work.scratch)
            return
        dealt = tuple(enumerate(each(work.dealt, list(enumerate(batches)))))
        order = dict.fromkeys(part for _, parts in dealt for part in parts)
        if not order:
            # Nobody has an id: the columns alone.
            yield from work.batch(batches[0])
            return
        tasks = [(part, dealt) for part in order]
        yield from tables_made(each, work.part, tasks, work.scratch)


def normalized(spec: DatasetSpec, table: pa.Table, key: bytes) -> pa.Table:
    """The stage ``normalized`` of the rows of a source, as ``read_source`` gives them.

    key   the population's secret key
    """
    keys = _person_keys(spec, key)
    return _encoded(spec, _bounded(spec, _kept(spec, table), keys))


def _kept(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    """The rows of a source that keep a value in every attribute, and every constraint."""
    table = of_window(spec, table.select(list(dict.fromkeys(spec.columns))))
    return table.filter(pa.array(kept_rows(spec.domain, table)))


def _encoded(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    nullable: set[str] = set()
    for attribute in spec.domain:
        found = _normalized(attribute, column_of(attribute, table))
        columns |= found
        nullable |= found.keys() if attribute.nullable else set()
    return _table(columns, nullable)


def _table(columns: Mapping[str, pa.Array], nullable: Collection[str] = ()) -> pa.Table:
    """The columns of a stage; of those that are not ``nullable`` no value is missing. That is said,
    for else every look asks it of every value, which takes longer than to read a code.
    """
    fields = [pa.field(name, one.type, name in nullable) for name, one in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


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


def _bounded(spec: DatasetSpec, table: pa.Table, keys: PersonKeys | None) -> pa.Table:
    """Of every person, the rows that are kept; all rows where they are not of persons."""
    if keys is None:
        return table
    return kept_at_most(table, at_most=spec.protection.rows, keys=keys)


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


@_stage("discretized")
def discretize(spec: DatasetSpec, snapshot: Snapshot, engine: str = "") -> None:
    """Store the cell code of every attribute that has cells, from the stage ``normalized``.

    NotPrepared unless that stage was stored under this declaration.
    """
    _require_needed(spec, "discretized")
    require_stage(spec, snapshot, "normalized")
    make = partial(_discretized_batch, spec)
    _store_each(snapshot, "discretized", make, of="normalized", engine=engine)
    mark_stage(spec, snapshot, "discretized")


def _store_each(
    snapshot: Snapshot,
    stage: str,
    make: Callable[[Read], Iterable[pa.Table]],
    *,
    of: str,
    engine: str,
    store: Callable[..., object] = store_parts,
) -> None:
    """Store a stage that is made of every batch of another one by itself."""
    each = workers_of(engine)

    def tables(scratch: Path) -> Iterator[pa.Table]:
        with stage_batches(snapshot, of) as batches:
            yield from tables_made(each, make, batches, scratch)

    with temporary_folder(snapshot.folder / stage) as scratch:
        store(snapshot, stage, tables(scratch))


def _discretized_batch(spec: DatasetSpec, read: Read) -> list[pa.Table]:
    return [discretized(spec, read())]


def discretized(spec: DatasetSpec, table: pa.Table) -> pa.Table:
    """The stage ``discretized`` of the stage ``normalized``."""
    columns: dict[str, pa.Array] = {}
    for name in spec.domain.discrete:
        attribute = spec.domain[name]
        codes = _codes(attribute, table)
        columns[name] = pa.array(codes.astype(np.min_scalar_type(attribute.size - 1)))
    return _table(columns)


def _codes(attribute: Attribute, table: pa.Table) -> IntArray:
    if not isinstance(attribute.cells, Bins):
        return level_codes(attribute, table.column(attribute.name))
    codes = attribute.cells.encode(numbers(table.column(attribute.name + CLIPPED)))
    # Every number was clipped, so what has no bin is missing.
    return (
        np.where(codes == INVALID, attribute.missing_code, codes) if attribute.nullable else codes
    )


@_stage("one_hot")
def encode_one_hot(spec: DatasetSpec, snapshot: Snapshot, engine: str = "") -> None:
    """Store the bits of every cell, from the stage ``discretized``: uint8, one 1 an attribute.

    NotPrepared unless that stage was stored under this declaration.
    """
    _require_needed(spec, "one_hot")
    require_stage(spec, snapshot, "discretized")
    make, store = partial(_bits_of_batch, spec.domain), partial(store_parts, rows=_ROWS_A_PART)
    _store_each(snapshot, "one_hot", make, of="discretized", engine=engine, store=store)
    mark_stage(spec, snapshot, "one_hot")


def _require_needed(spec: DatasetSpec, stage: str) -> None:
    if stage not in stages_of(spec):
        stages = ", ".join(stages_of(spec))
        raise DeclarationError(f"{spec.name}: expected a stage of {stages}, got {stage}")


def mark_prepared(spec: DatasetSpec, snapshot: Snapshot) -> None:
    """Note in the manifest that every stage stands: ``prepared: {digest, stages}``.

    NotPrepared while a stage is missing or was made for another declaration.
    """
    with snapshot.locked():
        require_validated(spec, snapshot)
        for stage in stages_of(spec):
            require_stage(spec, snapshot, stage)
        snapshot.record(prepared={"digest": spec.digest, "stages": list(stages_of(spec))})


def prepare(spec: DatasetSpec, snapshot: Snapshot, engine: str = "") -> None:
    """Every stage that the data set needs, in order, and the mark."""
    steps: dict[str, StageWriter] = {
        "normalized": normalize,
        "discretized": discretize,
        "one_hot": encode_one_hot,
    }
    for stage in stages_of(spec):
        steps[stage](spec, snapshot, engine)
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
    table = read_stage(snapshot, STAGE, names)
    codes = np.empty((table.num_rows, len(names)), dtype=_smallest(spec, names), order="F")
    for at, name in enumerate(names):
        codes[:, at] = table.column(name).to_numpy()
    return codes


def _smallest(spec: DatasetSpec, names: Sequence[str]) -> np.dtype[np.integer]:
    """The smallest unsigned type that holds every code."""
    most = max((spec.domain[name].size for name in names), default=1)
    return np.min_scalar_type(most - 1)
