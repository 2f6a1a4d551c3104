"""Sources: a declared CSV, Parquet file, bundled set or generator → one table of its columns.

What is checked here is structure: readable, whole, columns there, types that can
be text or numbers. No cell is judged. A message names the data set and its
source and never quotes a row, so pyarrow's own messages, which do, are dropped.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet

from dp_pipeline.raw.class_ratio_sample import sampled
from dp_pipeline.raw.csv_file import NoHeader, csv_columns, csv_table
from dp_pipeline.raw.generators import GENERATORS
from dp_pipeline.schema.errors import DeclarationError, SourceError
from dp_pipeline.schema.spec import DatasetSpec

Result = TypeVar("Result")

BUNDLED = ("breast_cancer", "digits", "iris", "wine")
"""The sets that scikit-learn ships inside its wheel."""


def read_source(spec: DatasetSpec) -> pa.Table:
    """Read every declared column, in the order declared, rows in the order of the source: all of
    them, or those of the declared sample.

    Text columns arrive as ``string``: every CSV cell is text, an empty one is ``""``
    and none is null. Numbers of Parquet, of bundled sets and of generators keep
    their type. A column that two attributes share arrives once. No rows is a table too.

    Raises SourceError, one line without a value of a row, when the source is
    absent, damaged or ragged, lacks a column, has a column name twice or a column
    that is neither text nor numbers, or fewer rows than the sample; DeclarationError
    for a bundled set, a generator, an option or a delimiter that does not exist,
    and for a sample of sensitive rows.
    """
    sample = spec.source.sample
    if sample is not None and spec.is_release:
        raise DeclarationError(
            f"{spec.name}: source.sample: expected every row of sensitive data, got a sample"
        )
    table = _READERS[spec.source.kind](spec)
    columns = {name: _plain(spec, name, table.column(name)) for name in _columns(spec)}
    whole = pa.table(columns)
    if sample is None:
        return whole
    if whole.num_rows < sample.rows:
        raise _refusal(spec, f"at least {sample.rows} rows to sample from", "fewer")
    return sampled(whole, sample, spec.domain)


def _columns(spec: DatasetSpec) -> list[str]:
    return list(dict.fromkeys(spec.columns))


def _refusal(spec: DatasetSpec, expected: str, got: str) -> SourceError:
    return SourceError(f"{spec.name}: {spec.source.identity}: expected {expected}, got {got}")


def _guarded(
    spec: DatasetSpec, read: Callable[[], Result], *, expected: str, got: str = "a damaged one"
) -> Result:
    """``read()``, or a SourceError that is not even chained to the error that quotes rows."""
    try:
        return read()
    except OSError:
        got = "a damaged or truncated one"
    except (pa.ArrowException, UnicodeError, csv.Error, NoHeader):
        pass
    # Raised outside of the handler, so that no __context__ carries the quoted row along.
    raise _refusal(spec, expected, got)


def _readable_path(spec: DatasetSpec) -> Path:
    """The declared path, once it was opened and holds a byte, or needs none to have columns."""
    path = Path(spec.source.location)
    try:
        with path.open("rb") as file:
            is_empty = not file.read(1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "a path that cannot be"
        raise _refusal(spec, "a file that can be read", reason) from None
    if is_empty and not spec.source.header:
        raise _refusal(spec, "a file with columns", "one of 0 bytes")
    return path


def _check_names(spec: DatasetSpec, names: Sequence[str]) -> None:
    """Every declared column is there and no name stands twice.

    Names of the source are counted, not quoted: without a header line they are a row.
    """
    if len(set(names)) != len(names):
        raise _refusal(spec, "a name of its own for each column", "a name that stands twice")
    for name in _columns(spec):
        if name not in names:
            raise _refusal(spec, f"a column {name!r}", f"{len(names)} columns without it")


def _read_csv(spec: DatasetSpec) -> pa.Table:
    source = spec.source
    if len(source.delimiter) != 1 or not source.delimiter.isascii() or source.delimiter in '"\r\n':
        raise DeclarationError(
            f"{spec.name}: source.delimiter: expected one character, got {source.delimiter!r}"
        )
    files = [replace(spec, source=source.only(location)) for location in source.locations]
    return pa.concat_tables([_read_csv_file(file) for file in files])


def _read_csv_file(spec: DatasetSpec) -> pa.Table:
    """The rows of a data set of one file."""
    path, source = _readable_path(spec), spec.source
    names = _guarded(
        spec, lambda: csv_columns(path, source), expected="a CSV file with a header line"
    )
    _check_names(spec, names)
    return _guarded(
        spec,
        lambda: csv_table(path, source, _columns(spec), total=spec.is_release),
        expected=f"CSV rows of {len(names)} cells",
        got="a row of another length",
    )


def _read_parquet(spec: DatasetSpec) -> pa.Table:
    path, expected = _readable_path(spec), "a whole Parquet file"
    # ParquetFile and not read_table: a folder called a=b must not become a column.
    file = _guarded(
        spec,
        lambda: pyarrow.parquet.ParquetFile(path, page_checksum_verification=True),
        expected=expected,
    )
    with file:
        names = _guarded(spec, lambda: file.schema_arrow.names, expected=expected)
        _check_names(spec, names)
        return _guarded(spec, lambda: file.read(columns=_columns(spec)), expected=expected)


def _plain(spec: DatasetSpec, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as ``string``, numbers as they are; a SourceError for anything else."""
    kind = column.type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if spec.source.kind == "csv" or any(is_text(kind) for is_text in texts):
        return _text(spec, name, column)
    if pa.types.is_dictionary(kind):
        return _plain(spec, name, column.cast(kind.value_type))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column
    # A column without one value has no type in Parquet: one row more must not refuse the file.
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column.cast(pa.string())
    short = str(kind).partition("<")[0].partition("[")[0]
    raise _refusal(spec, f"text or numbers in column {name!r}", f"the type {short}")


def _text(spec: DatasetSpec, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cells as UTF-8 text. Bytes that are none are an error of public data. On sensitive data they
    spoil their own cell: replaced in an attribute, and no person at all in the person's
    column, where a replacement would make one person of two.
    """
    cells = column.cast(pa.binary())
    if not spec.is_release:
        return _guarded(
            spec,
            lambda: cells.cast(pa.string()),
            expected="UTF-8 text in every column",
            got="bytes that are not",
        )
    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        is_person = name == spec.protection.column
        texts = [_decoded(cell, is_person=is_person) for cell in cells.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


def _decoded(cell: bytes | None, *, is_person: bool) -> str | None:
    if cell is None:
        return None
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None if is_person else cell.decode(errors="replace")


def _read_bundled(spec: DatasetSpec) -> pa.Table:
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
    _check_names(spec, list(columns))
    return pa.table(columns)


def _read_generated(spec: DatasetSpec) -> pa.Table:
    _check_listed(spec, tuple(GENERATORS))
    unknown = sorted(set(spec.source.options) - {"seed", "rows"})
    if unknown:
        raise DeclarationError(
            f"{spec.name}: source.options: expected seed and rows, got {unknown[0]!r}"
        )
    table = GENERATORS[spec.source.location](**spec.source.options)
    _check_names(spec, table.column_names)
    return table


def _check_listed(spec: DatasetSpec, names: tuple[str, ...]) -> None:
    if spec.source.location not in names:
        raise DeclarationError(
            f"{spec.name}: source.name: expected one of {', '.join(names)}, "
            f"got {spec.source.location[:60]!r}"
        )


_READERS: dict[str, Callable[[DatasetSpec], pa.Table]] = {
    "csv": _read_csv,
    "parquet": _read_parquet,
    "sklearn": _read_bundled,
    "generator": _read_generated,
}
