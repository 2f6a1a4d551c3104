"""Sources: a declared file, folder, query, bundled set or generator → one table of its columns.

What is checked here is structure: readable, whole, columns there, types that can
be text or numbers. No cell is judged. A message names the data set and its
source and never quotes a row, so messages of pyarrow and of databases, which do, are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from dp_pipeline.raw.class_ratio_sample import sampled
from dp_pipeline.raw.sources.csv_source import read_csv
from dp_pipeline.raw.sources.named import read_bundled, read_generated
from dp_pipeline.raw.sources.parquet_source import read_parquet
from dp_pipeline.raw.sources.plain import plain_columns
from dp_pipeline.raw.sources.reading import refusal
from dp_pipeline.raw.sources.sql_source import read_sql
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.spec import DatasetSpec

__all__ = ["read_source"]


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
    sample = spec.source.sample
    if sample is not None and spec.is_release:
        raise DeclarationError(
            f"{spec.name}: source.sample: expected every row of sensitive data, got a sample"
        )
    whole = plain_columns(spec, _read(spec, files))
    if sample is None:
        return whole
    if whole.num_rows < sample.rows:
        raise refusal(spec, f"at least {sample.rows} rows to sample from", "fewer")
    return sampled(whole, sample, spec.domain)


def _read(spec: DatasetSpec, files: Sequence[Path] | None) -> pa.Table:
    if spec.source.kind == "sklearn":
        return read_bundled(spec)
    if spec.source.kind == "generator":
        return read_generated(spec)
    if spec.source.kind == "sql":
        return read_sql(spec)
    paths = [Path(one) for one in spec.source.locations] if files is None else files
    return read_csv(spec, paths) if spec.source.kind == "csv" else read_parquet(spec, paths)
