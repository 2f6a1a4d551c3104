"""Parquet: one file, or a folder of files whose rows follow in the order of their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from dp_pipeline.raw.sources.parquet_folder import parquet_parts
from dp_pipeline.raw.sources.plain import plain_columns, plain_types
from dp_pipeline.raw.sources.reading import (
    check_names,
    declared_columns,
    guarded,
    refusal,
    require_readable,
)
from dp_pipeline.schema.spec import DatasetSpec

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
