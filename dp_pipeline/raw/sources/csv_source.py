"""CSV files, one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from dp_pipeline.raw.csv_file import csv_columns, csv_table
from dp_pipeline.raw.sources.reading import (
    check_names,
    declared_columns,
    guarded,
    require_readable,
)
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.source import WHITESPACE
from dp_pipeline.schema.spec import DatasetSpec


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
