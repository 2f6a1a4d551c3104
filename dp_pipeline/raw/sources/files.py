"""CSV files, one behind the other.

Parquet: one file, or a folder of files whose rows follow in the order of their names.

A folder of Parquet files: which files are its rows, in which order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from dp_pipeline.raw.sources.csv_file import csv_columns, csv_table
from dp_pipeline.raw.sources.reading import (
    check_names,
    declared_columns,
    guarded,
    plain_columns,
    plain_types,
    refusal,
    require_readable,
)
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import DeclarationError
from dp_pipeline.spec.source import WHITESPACE


def read_csv(spec: DatasetSpec, files: Sequence[Path]) -> pa.Table:
    """The rows of every file as bytes, in the order of the declared locations."""
    source = spec.source
    one = source.delimiter
    if one != WHITESPACE and (len(one) != 1 or not one.isascii() or one in '"\r\n'):
        raise DeclarationError(
            f"{spec.name}: source.delimiter: expected one character or {WHITESPACE}, got {one!r}"
        )
    parts = [
        _read_file(replace(spec, source=source.only(location)), path)
        for location, path in zip(source.locations, files, strict=True)
    ]
    return pa.concat_tables(parts)


def _read_file(spec: DatasetSpec, path: Path) -> pa.Table:
    """The rows of a data set of one file."""
    require_readable(spec, path)
    names = guarded(
        spec,
        lambda: csv_columns(path, spec.source, total=spec.is_release),
        expected="a CSV file with a header line",
    )
    check_names(spec, names)
    return guarded(
        spec,
        lambda: csv_table(path, spec.source, declared_columns(spec), total=spec.is_release),
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


def read_parquet(spec: DatasetSpec, files: Sequence[Path]) -> pa.Table:
    """The declared columns of the one file, or of every file in the one folder.

    The footers of all files are read, and what they say is judged, before a row of any.
    """
    (path,) = files
    parts = {part: _only(spec, part) for part in _parts(spec, path)}
    schemas = [_schema(one, part) for part, one in parts.items()]
    types = plain_types(spec, schemas)
    read = zip(parts.items(), schemas, strict=True)
    return pa.concat_tables(
        plain_columns(one, _rows(one, part, schema), types) for (part, one), schema in read
    )


def _only(spec: DatasetSpec, part: Path) -> DatasetSpec:
    """The same data set, were this file its source: so that a message names the file."""
    return replace(spec, source=spec.source.only(str(part)))


def _parts(spec: DatasetSpec, path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    parts = parquet_parts(path)
    if not parts:
        raise refusal(spec, "one or more files *.parquet in the folder", "none")
    return parts


def _schema(spec: DatasetSpec, path: Path) -> pa.Schema:
    """What the footer says; SourceError where a declared column is not in it, or of a type that
    cannot go on.
    """
    require_readable(spec, path)
    with _opened(spec, path) as file:
        schema = guarded(spec, lambda: file.schema_arrow, expected=_EXPECTED)
    check_names(spec, schema.names)
    plain_types(spec, [schema])
    return schema


def _rows(spec: DatasetSpec, path: Path, schema: pa.Schema) -> pa.Table:
    """The rows of a file whose schema was judged: SourceError where it is another by now."""
    with _opened(spec, path) as file:
        if not schema.equals(guarded(spec, lambda: file.schema_arrow, expected=_EXPECTED)):
            raise refusal(spec, "a file that stays while it is read", "one that changed")
        return guarded(spec, lambda: file.read(columns=declared_columns(spec)), expected=_EXPECTED)


def _opened(spec: DatasetSpec, path: Path) -> pyarrow.parquet.ParquetFile:
    # ParquetFile and not read_table: a folder called a=b must not become a column.
    return guarded(
        spec,
        lambda: pyarrow.parquet.ParquetFile(path, page_checksum_verification=True),
        expected=_EXPECTED,
    )
