"""Parquet: one file, or a folder of files whose rows follow in the order of their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from dp_pipeline.raw.sources.parquet_folder import parquet_parts
from dp_pipeline.raw.sources.plain import plain_columns, same_types
from dp_pipeline.raw.sources.reading import (
    check_names,
    declared_columns,
    guarded,
    refusal,
    require_readable,
)
from dp_pipeline.schema.spec import DatasetSpec


def read_parquet(spec: DatasetSpec, files: Sequence[Path]) -> pa.Table:
    """The declared columns of the one file, or of every file in the one folder."""
    (path,) = files
    if not path.is_dir():
        return _read_file(spec, path)
    parts = [
        _read_part(replace(spec, source=spec.source.only(str(part))), part)
        for part in _parts(spec, path)
    ]
    return same_types(parts)


def _parts(spec: DatasetSpec, folder: Path) -> list[Path]:
    parts = parquet_parts(folder)
    if not parts:
        raise refusal(spec, "one or more files *.parquet in the folder", "none")
    return parts


def _read_part(spec: DatasetSpec, path: Path) -> pa.Table:
    return plain_columns(spec, _read_file(spec, path))


def _read_file(spec: DatasetSpec, path: Path) -> pa.Table:
    require_readable(spec, path)
    expected = "a whole Parquet file"
    # ParquetFile and not read_table: a folder called a=b must not become a column.
    file = guarded(
        spec,
        lambda: pyarrow.parquet.ParquetFile(path, page_checksum_verification=True),
        expected=expected,
    )
    with file:
        names = guarded(spec, lambda: file.schema_arrow.names, expected=expected)
        check_names(spec, names)
        return guarded(spec, lambda: file.read(columns=declared_columns(spec)), expected=expected)
