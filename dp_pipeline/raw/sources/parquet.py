"""Reading one Parquet file, or all files of a folder in the order of their names, as one table.

The footers of all files are checked before the first row is read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.raw.sources import reading
from dp_pipeline.raw.stages import ROWS_A_BATCH, BatchReader

MAX_GROUP_ROWS = 1 << 26
MAX_GROUP_BYTES = 1 << 32  # Bytes of all columns of a row group, unpacked, at most
_EXPECTED = "a whole Parquet file"
NO_PARTS = "none (those that begin with _ or a point do not count): name the folder that has them"


def parquet_parts(folder: Path) -> list[Path]:
    """Return the paths of all ``*.parquet`` files below a folder, sorted; Spark's folders of that
    name count by their files.

    Engines' own files, whose names or folders begin with ``_`` or a point, are left out."""
    paths = filter(Path.is_file, folder.rglob("*.parquet"))
    names = sorted(path.relative_to(folder) for path in paths)
    return [folder / n for n in names if not any(p.startswith(("_", ".")) for p in n.parts)]


def folder_parts(spec: DatasetSpec, path: Path) -> list[Path]:
    """Return the path itself if it is no folder, else the Parquet files of the folder, sorted.

    SourceError for a folder without such files, and for a table of Delta or Iceberg."""
    if not path.is_dir():
        return [path]
    for name, marks in {"Delta": "_delta_log/", "Iceberg": "metadata/*.metadata.json"}.items():
        if any(path.glob(marks)):
            # Its files keep deleted and rewritten rows until they are cleaned up.
            got = f"a table of {name}: write one version of the table to another folder"
            raise reading.refusal(spec, "a folder of nothing but Parquet files", got)
    parts = parquet_parts(path)
    if not parts:
        raise reading.refusal(spec, "one or more files *.parquet in the folder", NO_PARTS)
    return parts


def parquet_tables(spec: DatasetSpec, files: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield tables of the declared columns of Parquet files, all of one schema.

    The first table of a file has no rows. SourceError if a file is damaged, lacks a column, or has
    one of an unsuitable type."""
    schemas = {path: _checked_schema(_of_file(spec, path), path) for path in files}
    types = reading.fulfillable_types(spec, list(schemas.values()))
    for path, schema in schemas.items():
        file_spec = _of_file(spec, path)
        with _open(file_spec, path) as file:
            current = reading.guarded(file_spec, lambda: file.schema_arrow, expected=_EXPECTED)
            if not schema.equals(current):
                expected = "an unchanged file while it is read"
                raise reading.refusal(file_spec, expected, "a changed file: run again")
            columns = reading.declared_columns(file_spec)
            batches = file.iter_batches(ROWS_A_BATCH, columns=columns)
            tables = chain(
                [schema.empty_table().select(columns)],
                (pa.Table.from_batches([batch]) for batch in batches),
            )
            for table in reading.guarded_each(file_spec, tables, expected=_EXPECTED):
                yield reading.plain_columns(file_spec, table, types)


def source_types(spec: DatasetSpec, path: Path) -> dict[str, str]:
    """Return column → name of its Arrow type, for declared columns of one type in all files.

    path   a file, or a folder of files

    A dictionary is `categories`, without its values: they may be of rows.
    """
    schemas = [pyarrow.parquet.read_schema(part) for part in folder_parts(spec, path)]
    types = {}
    for name in reading.declared_columns(spec):
        type_, *other_types = {schema.field(name).type for schema in schemas}
        if pa.types.is_dictionary(type_):
            type_ = "ordered categories" if type_.ordered else "categories"
        if not other_types:
            types[name] = str(type_)
    return types


class RowGroup(NamedTuple):
    """A row group of a file, with its rows.

    numbers   its single number; none for a file without rows
    """

    path: Path
    numbers: tuple[int, ...]
    rows: int


def parquet_batches(spec: DatasetSpec, files: Sequence[Path]) -> list[BatchReader]:
    """Return functions that each read one batch of the files' rows; they can be pickled.

    A batch has the declared columns of at most ROWS_A_BATCH rows, or of one row group. It raises
    what ``parquet_tables`` does."""
    schemas = [_checked_schema(_of_file(spec, path), path) for path in files]
    types = reading.fulfillable_types(spec, schemas)
    groups: list[RowGroup] = []
    for path in files:
        with _open(_of_file(spec, path), path) as file:
            footer = file.metadata
            sizes = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
        of_file = [RowGroup(path, (number,), rows) for number, rows in enumerate(sizes)]
        groups += of_file or [RowGroup(path, (), 0)]
    batches: list[list[RowGroup]] = []
    rows = 0
    for group in groups:
        rows += group.rows
        if not batches or rows > ROWS_A_BATCH:
            batches.append([])
            rows = group.rows
        batches[-1].append(group)
    return [partial(_read_groups, spec, types, batch) for batch in batches]


def _read_groups(
    spec: DatasetSpec, types: dict[str, pa.DataType], groups: Sequence[RowGroup]
) -> pa.Table:
    tables, columns = [], reading.declared_columns(spec)
    for path, numbers, _ in groups:
        file_spec = _of_file(spec, path)
        with _open(file_spec, path) as file:
            read = partial(file.read_row_groups, numbers, columns=columns)
            table = reading.guarded(file_spec, read, expected=_EXPECTED)
        tables.append(reading.plain_columns(file_spec, table, types))
    return pa.concat_tables(tables)


def _of_file(spec: DatasetSpec, path: Path) -> DatasetSpec:
    return replace(spec, source=spec.source.single_file(str(path)))


def _checked_schema(spec: DatasetSpec, path: Path) -> pa.Schema:
    """Return the schema of a file, after checking it.

    SourceError if it is damaged, lacks a declared column or has one of a type that cannot be read,
    or if a row group is too large."""
    reading.require_readable(spec, path)
    with _open(spec, path) as file:
        schema = reading.guarded(spec, lambda: file.schema_arrow, expected=_EXPECTED)
        reading.check_names(spec, schema.names)
        reading.plain_types(spec, [schema])
        footer = file.metadata
    # A small file may repeat a value a billion times. The columns of a group are not inspected,
    # because a damaged footer could crash pyarrow.
    for group in map(footer.row_group, range(footer.num_row_groups)):
        if group.num_rows > MAX_GROUP_ROWS or group.total_byte_size > MAX_GROUP_BYTES:
            raise reading.refusal(
                spec,
                f"row groups of at most {MAX_GROUP_ROWS:,} rows and {MAX_GROUP_BYTES:,} unpacked "
                "bytes",
                "a larger group: write the file with smaller row groups",
            )
    return schema


def _open(spec: DatasetSpec, path: Path) -> pyarrow.parquet.ParquetFile:
    footer = reading.guarded(spec, lambda: pyarrow.parquet.read_metadata(path), expected=_EXPECTED)
    declared = set(reading.declared_columns(spec))
    columns = map(footer.schema.column, range(footer.num_columns))
    texts = [c.path for c in columns if c.path in declared and c.logical_type.type == "STRING"]
    return reading.guarded(
        spec,
        # ParquetFile, because read_table would turn a folder called a=b into a column. Texts stay
        # dictionaries, to hold repeated ones once.
        lambda: pyarrow.parquet.ParquetFile(
            path, metadata=footer, page_checksum_verification=True, read_dictionary=texts
        ),
        expected=_EXPECTED,
    )
