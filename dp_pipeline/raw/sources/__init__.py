"""Sources: a declared file, folder, query, bundled set or generator → one table of its columns.

What is checked here is structure: readable, whole, columns there, types that can be text or
numbers. No cell is judged. A message names the data set and its source and never quotes a row, so
messages of pyarrow and of databases, which do, are dropped.

CSV files are read one behind the other; a folder of Parquet files in the order of their names. Some
sources are a name: the sets that scikit-learn bundles, and generators. Of benchmarks a sample may
be taken in which every class has its share. Whether a row is drawn depends on the rows beside it,
which no protected row may do: data to be released is never sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import INVALID, IntArray
from dp_pipeline.config.errors import DeclarationError, one_of
from dp_pipeline.config.source import WHITESPACE, Sample
from dp_pipeline.raw.generators import GENERATORS, STREAMS
from dp_pipeline.raw.sources import reading
from dp_pipeline.raw.stages import ROWS_A_BATCH, Read
from dp_pipeline.raw.values import column_of, level_codes


def read_csv(spec: DatasetSpec, files: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows of every file as bytes, in the order of the declared locations."""
    source = spec.source
    one = source.delimiter
    if one != WHITESPACE and (len(one) != 1 or not one.isascii() or one in '"\r\n'):
        raise DeclarationError(
            f"{spec.name}: source.delimiter: expected one character or {WHITESPACE}, got {one!r}"
        )
    for location, path in zip(source.locations, files, strict=True):
        yield from _read_file(replace(spec, source=source.only(location)), path)


def _read_file(spec: DatasetSpec, path: Path) -> Iterator[pa.Table]:
    """The rows of a data set of one file."""
    reading.require_readable(spec, path)
    names = reading.guarded(
        spec,
        lambda: reading.csv_columns(path, spec.source, total=spec.is_release),
        expected="a CSV file with a header line",
    )
    reading.check_names(spec, names)
    yield from reading.guarded_each(
        spec,
        reading.csv_tables(
            path, spec.source, reading.declared_columns(spec), total=spec.is_release
        ),
        expected=f"CSV rows of {len(names)} cells",
        got="a row of another length",
    )


def parquet_parts(folder: Path) -> list[Path]:
    """Every ``*.parquet`` below a folder, by the path from there; as elsewhere, what begins with
    ``_`` or a point is an engine's own.
    """
    names = sorted(path.relative_to(folder) for path in folder.rglob("*.parquet"))
    return [folder / name for name in names if not any(map(_is_engines_own, name.parts))]


def _is_engines_own(name: str) -> bool:
    return name.startswith(("_", "."))


_EXPECTED = "a whole Parquet file"


def read_parquet(spec: DatasetSpec, files: Sequence[Path]) -> Iterator[pa.Table]:
    """The declared columns of the one file, or of every file in the one folder, as they go on.

    The footers of all files are read, and what they say is judged, before a row of any.
    """
    (path,) = files
    yield from parquet_tables(spec, _parts(spec, path))


def parquet_tables(spec: DatasetSpec, files: Sequence[Path]) -> Iterator[pa.Table]:
    """The declared columns of some Parquet files, as they go on."""
    schemas = {part: _schema(_only(spec, part), part) for part in files}
    types = reading.plain_types(spec, list(schemas.values()))
    for part, schema in schemas.items():
        one = _only(spec, part)
        for table in _rows(one, part, schema):
            yield reading.plain_columns(one, table, types)


def parquet_batches(spec: DatasetSpec, files: Sequence[Path]) -> list[Read]:
    """The same rows in batches that whoever has these files can read, at least one: of at most
    ROWS_A_BATCH rows, or one row group.
    """
    schemas = {part: _schema(_only(spec, part), part) for part in files}
    types = reading.plain_types(spec, list(schemas.values()))
    return [
        partial(_read_groups, spec, types, groups)
        for groups in _in_batches([group for part in files for group in _groups(spec, part)])
    ]


Group = tuple[Path, int | None, int]
"""A file, the number of one of its row groups, and how many rows that has; None and 0 in a file
without one.
"""


def _groups(spec: DatasetSpec, path: Path) -> list[Group]:
    with _opened(_only(spec, path), path) as file:
        about = file.metadata
        sizes = [about.row_group(at).num_rows for at in range(about.num_row_groups)]
    return [(path, at, rows) for at, rows in enumerate(sizes)] or [(path, None, 0)]


def _in_batches(groups: Sequence[Group]) -> list[list[Group]]:
    found: list[list[Group]] = []
    rows = 0
    for one in groups:
        rows += one[2]
        if not found or rows > ROWS_A_BATCH:
            found.append([])
            rows = one[2]
        found[-1].append(one)
    return found


def _read_groups(
    spec: DatasetSpec, types: dict[str, pa.DataType], groups: Sequence[Group]
) -> pa.Table:
    """The declared columns of some row groups, as they go on."""
    return pa.concat_tables(
        reading.plain_columns(_only(spec, path), _group(_only(spec, path), path, number), types)
        for path, number, _ in groups
    )


def _group(spec: DatasetSpec, path: Path, number: int | None) -> pa.Table:
    columns = reading.declared_columns(spec)
    with _opened(spec, path) as file:
        if number is None:
            return file.schema_arrow.empty_table().select(columns)
        return reading.guarded(
            spec, lambda: file.read_row_group(number, columns=columns), expected=_EXPECTED
        )


def _only(spec: DatasetSpec, part: Path) -> DatasetSpec:
    """The same data set, were this file its source: so that a message names the file."""
    return replace(spec, source=spec.source.only(str(part)))


def _parts(spec: DatasetSpec, path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / "_delta_log").is_dir() or any(path.glob("metadata/*.metadata.json")):
        # Rows that were deleted or written anew lie in its files until they are cleaned up.
        snapshot = "a folder of nothing but Parquet files (write one version of the table to one)"
        raise reading.refusal(spec, snapshot, "a table of Delta or Iceberg")
    parts = parquet_parts(path)
    if not parts:
        raise reading.refusal(spec, "one or more files *.parquet in the folder", "none")
    return parts


def _schema(spec: DatasetSpec, path: Path) -> pa.Schema:
    """What the footer says; SourceError where a declared column is not in it, or of a type that
    cannot go on.
    """
    reading.require_readable(spec, path)
    with _opened(spec, path) as file:
        schema = reading.guarded(spec, lambda: file.schema_arrow, expected=_EXPECTED)
        reading.check_names(spec, schema.names)
        reading.plain_types(spec, [schema])
        _require_bounded(spec, file.metadata)
    return schema


ROWS_A_GROUP = 1 << 26
BYTES_A_GROUP = 1 << 32
"""Of all columns, unpacked."""


def _require_bounded(spec: DatasetSpec, footer: pyarrow.parquet.FileMetaData) -> None:
    """SourceError where the footer announces more than one look at a row group can hold: a small
    file may say a thing a billion times.
    """
    # Nothing is asked of a group's columns: for a damaged footer pyarrow would end the process.
    for group in map(footer.row_group, range(footer.num_row_groups)):
        if group.num_rows > ROWS_A_GROUP or group.total_byte_size > BYTES_A_GROUP:
            raise reading.refusal(
                spec,
                f"row groups of at most {ROWS_A_GROUP:,} rows and {BYTES_A_GROUP:,} unpacked bytes",
                "a larger one: write the file with smaller row groups",
            )


def _rows(spec: DatasetSpec, path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of a file whose schema was judged, so many at a time, the first time none:
    SourceError where it is another by now.
    """
    with _opened(spec, path) as file:
        if not schema.equals(reading.guarded(spec, lambda: file.schema_arrow, expected=_EXPECTED)):
            raise reading.refusal(spec, "a file that stays while it is read", "one that changed")
        columns = reading.declared_columns(spec)
        batches = file.iter_batches(ROWS_A_BATCH, columns=columns)
        tables = chain(
            [schema.empty_table().select(columns)],
            (pa.Table.from_batches([batch]) for batch in batches),
        )
        yield from reading.guarded_each(spec, tables, expected=_EXPECTED)


def _opened(spec: DatasetSpec, path: Path) -> pyarrow.parquet.ParquetFile:
    # ParquetFile and not read_table: a folder called a=b must not become a column.
    footer = reading.guarded(spec, lambda: pyarrow.parquet.read_metadata(path), expected=_EXPECTED)
    columns = map(footer.schema.column, range(footer.num_columns))
    wanted = set(reading.declared_columns(spec))
    texts = [
        one.path for one in columns if one.path in wanted and one.logical_type.type == "STRING"
    ]
    return reading.guarded(
        spec,
        # Texts as they are stored: each once, however many rows it is repeated in.
        lambda: pyarrow.parquet.ParquetFile(
            path, metadata=footer, page_checksum_verification=True, read_dictionary=texts
        ),
        expected=_EXPECTED,
    )


BUNDLED = ("breast_cancer", "digits", "iris", "wine")
"""The sets that scikit-learn ships inside its wheel."""


def read_bundled(spec: DatasetSpec) -> pa.Table:
    """Feature columns under their own names, and ``target``: the class by name."""
    _check_listed(spec, BUNDLED)
    from sklearn import datasets

    bundle = getattr(datasets, f"load_{spec.source.location}")()
    columns = {
        str(name): pa.array(values)
        for name, values in zip(bundle.feature_names, bundle.data.T, strict=True)
    }
    classes = bundle.target_names.astype(str)[bundle.target]
    columns["target"] = pa.array(classes.tolist(), pa.string())
    reading.check_names(spec, list(columns))
    return pa.table(columns)


def read_generated(spec: DatasetSpec) -> pa.Table:
    """What the declared generator makes of its options."""
    _check_listed(spec, tuple(GENERATORS))
    unknown = sorted(set(spec.source.options) - {"seed", "rows"})
    if unknown:
        raise DeclarationError(
            f"{spec.name}: source.options: expected {one_of(('seed', 'rows'), unknown[0])}"
        )
    options = dict(spec.source.options)
    if spec.window and spec.source.location in STREAMS:
        options |= {"start": spec.cut.start(spec.window), "end": spec.cut.end(spec.window)}
    table = GENERATORS[spec.source.location](**options)
    reading.check_names(spec, table.column_names)
    return table


def _check_listed(spec: DatasetSpec, names: tuple[str, ...]) -> None:
    if spec.source.location not in names:
        raise DeclarationError(
            f"{spec.name}: source.name: expected {one_of(names, spec.source.location)}"
        )


def sampled(table: pa.Table, sample: Sample, domain: Domain) -> pa.Table:
    """The declared sample of a table with the columns of ``domain``, in the order of the table.

    Two spellings of a level are one class. A text that is no level is of one more class, so that
    a sample has the share of invalid rows that its source has.
    """
    attribute = domain[sample.by]
    classes = level_codes(attribute, column_of(attribute, table)) - INVALID
    return table.take(class_ratio_sample(classes, rows=sample.rows, seed=sample.seed))


def class_ratio_sample(classes: IntArray, *, rows: int, seed: int) -> IntArray:
    """Numbers of the rows drawn (rows,), ascending.

    classes   (n,) whole numbers of at least 0, n ≥ rows

    A class of n_c rows has rows·n_c/n of the sample, rounded by largest remainders, where ties go
    to the lower class. Every row has a key, and of each class those with the least are drawn.

    >>> class_ratio_sample(np.array([0, 0, 1, 0, 0, 1]), rows=3, seed=7)
    array([2, 3, 4])
    """
    # Raw words of a bit generator stay what they are in every version of NumPy.
    keys = np.random.PCG64(seed).random_raw(len(classes))
    order = np.lexsort((keys, classes))
    sizes = np.bincount(classes)
    starts = np.cumsum(sizes) - sizes
    places = np.arange(len(classes)) - np.repeat(starts, sizes)
    return np.sort(order[places < np.repeat(_quotas(sizes, rows), sizes)])


def _quotas(sizes: IntArray, rows: int) -> IntArray:
    """Rows to draw of each class (classes,), ``rows`` in all: never more than it has."""
    quotas, remainders = np.divmod(rows * sizes, sizes.sum())
    left = rows - int(quotas.sum())
    quotas[np.argsort(-remainders, kind="stable")[:left]] += 1
    return quotas


__all__ = ["read_source", "source_tables"]


def read_source(spec: DatasetSpec, files: Sequence[Path] | None = None) -> pa.Table:
    """Read every declared column, in the order declared, rows in the order of the source: all of
    them, or those of the declared sample. The rows of a query come in any order.

    files   where the files of the declared locations lie, if elsewhere: downloads

    Text columns arrive as ``string``: every CSV cell is text, an empty one is ``""``
    and none is null. Numbers of Parquet, of PostgreSQL, of bundled sets and of generators keep
    their type. A column that two attributes share arrives once. No rows is a table too.

    Raises SourceError, one line without a value of a row, when the source is
    absent, damaged or ragged, lacks a column, has a column name twice or a column
    that is neither text nor numbers, or fewer rows than the sample; DeclarationError
    for a bundled set, a generator, an option or a delimiter that does not exist,
    and for a sample of sensitive rows.
    """
    return pa.concat_tables(source_tables(spec, files))


def source_tables(spec: DatasetSpec, files: Sequence[Path] | None = None) -> Iterator[pa.Table]:
    """The same as tables of one schema, at least one, in order: files of sensitive rows and of
    Parquet, and queries, are never in memory as a whole.
    """
    sample = spec.source.sample
    if sample is None:
        yield from _plain(spec, files)
        return
    if spec.is_release:
        raise DeclarationError(
            f"{spec.name}: source.sample: expected every row of sensitive data, got a sample"
        )
    whole = pa.concat_tables(_plain(spec, files))
    if whole.num_rows < sample.rows:
        raise reading.refusal(spec, f"at least {sample.rows} rows to sample from", "fewer")
    yield sampled(whole, sample, spec.domain)


def _plain(spec: DatasetSpec, files: Sequence[Path] | None) -> Iterator[pa.Table]:
    """The declared columns as they go on."""
    if spec.source.kind == "parquet":
        yield from read_parquet(spec, _paths(spec, files))
        return
    for table in _read(spec, files):
        yield reading.plain_columns(spec, table)


def _read(spec: DatasetSpec, files: Sequence[Path] | None) -> Iterable[pa.Table]:
    match spec.source.kind:
        case "sklearn":
            return [read_bundled(spec)]
        case "generator":
            return [read_generated(spec)]
        case "sql":
            # Else whoever reads a file waits for SQLAlchemy.
            from dp_pipeline.raw.sources.sql import read_sql

            return read_sql(spec)
        case _:
            return read_csv(spec, _paths(spec, files))


def _paths(spec: DatasetSpec, files: Sequence[Path] | None) -> Sequence[Path]:
    return [Path(one) for one in spec.source.locations] if files is None else files
