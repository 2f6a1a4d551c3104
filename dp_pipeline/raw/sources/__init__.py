"""Reading the declared columns of a source: file, folder, query, bundled set or generator.

Only the structure is checked: complete files, all columns, types of text or numbers, and no cell.
Messages name the data set and its source and never quote a row, as those of pyarrow and databases
do. Benchmarks may be sampled, with every class in proportion; release data never, since whether a
row is sampled depends on other rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from dp_pipeline.config.database import DUCKDB
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.encoding import INVALID, IntArray
from dp_pipeline.config.errors import DeclarationError, one_of
from dp_pipeline.config.source import BUNDLED
from dp_pipeline.raw.generators import GENERATORS, STREAMS
from dp_pipeline.raw.sources import reading
from dp_pipeline.raw.sources.csv_files import read_csv
from dp_pipeline.raw.sources.parquet import folder_parts, parquet_tables, source_types
from dp_pipeline.raw.sources.spreadsheets import read_xlsx
from dp_pipeline.raw.units import OF_UNIT
from dp_pipeline.raw.values import column_of, level_codes


def read_source(spec: DatasetSpec, files: Sequence[Path] | None = None) -> pa.Table:
    """Read a source, and return its declared columns, in declared order.

    files   downloaded files of the declared locations; None: the locations themselves

    Rows are all, or the declared sample, in the order of the source; those of a query in any order.
    Text columns have the type ``string``; cells of CSV and .xlsx are all text, empty ones ``""``,
    not null. Integers, floats and truth values of other sources keep their type; decimals become
    int64 or float64; declared dates and times are date32 or timestamps. A column of two attributes
    is read once. With parts come the rows of units, then those of parts, with the column
    ``OF_UNIT``. The table may have no rows.

    Of sensitive rows, irregular lines of CSV are left out, texts that are not UTF-8 are null, and
    too long ones are cut, or null as a person's id. In public rows each of these is an error.

    SourceError, without quoting a row, if the source is absent or damaged, lacks or repeats a
    column, has a column that is neither text, numbers, truth values nor declared times, or fewer
    rows than the sample; DeclarationError for an unknown bundled set, generator, option or
    delimiter, and for a sample of sensitive rows.
    """
    return pa.concat_tables(source_tables(spec, files))


def stored_types(spec: DatasetSpec, files: Sequence[Path] | None = None) -> dict[str, str]:
    """Return the name of the Arrow type of each declared column of Parquet files.

    files   as for ``read_source``

    {} for other sources. A column whose files have several types is left out.
    """
    if spec.source.parts is not None:
        units, parts = spec.source_specs
        return {**stored_types(parts), **stored_types(units, files)}
    if spec.source.kind != "parquet":
        return {}
    (path,) = [Path(location) for location in spec.source.locations] if files is None else files
    return source_types(spec, path)


def source_tables(spec: DatasetSpec, files: Sequence[Path] | None = None) -> Iterator[pa.Table]:
    """Yield the rows of ``read_source`` as tables of one schema, at least one.

    Files of sensitive rows and of Parquet, and queries, are never in memory as a whole. It raises
    what ``read_source`` does."""
    if spec.source.parts is not None:
        yield from _tables_of_both(spec, files)
        return
    sample = spec.source.sample
    if sample is None:
        yield from _declared_tables(spec, files)
        return
    if spec.is_release:
        raise DeclarationError(
            f"{spec.name}: source.sample: sensitive data must be read in every row, not in a "
            "sample: leave `sample` out"
        )
    table = pa.concat_tables(_declared_tables(spec, files))
    if table.num_rows < sample.rows:
        raise reading.refusal(
            spec,
            f"at least {sample.rows} rows to sample from",
            f"{table.num_rows}: lower `sample.rows`",
        )
    # Two spellings of a level are one class; texts that are no level are one more class, so that
    # invalid rows are sampled in proportion too.
    attribute = spec.domain[sample.by]
    classes = level_codes(attribute, column_of(attribute, table)) - INVALID
    yield table.take(sample_by_class(classes, rows=sample.rows, seed=sample.seed))


def _tables_of_both(spec: DatasetSpec, files: Sequence[Path] | None) -> Iterator[pa.Table]:
    """Yield the rows of units, then of their parts, with null in columns of the other source.

    ``OF_UNIT`` says whether a row is of a unit; the parts' key has the name of the units'.
    """
    both = spec.source_specs
    tables = [source_tables(both[0], files), source_tables(both[1])]
    firsts = [next(each) for each in tables]
    widened = [_widened(spec, *pair) for pair in zip(both, firsts, strict=True)]
    types = reading.plain_types(spec, [table.schema for table in widened])
    for own, first, later_tables in zip(both, firsts, tables, strict=True):
        for table in chain([first], later_tables):
            plain = reading.plain_columns(spec, _widened(spec, own, table), types)
            yield plain.append_column(OF_UNIT, pa.array(np.full(table.num_rows, own is both[0])))


def _widened(spec: DatasetSpec, own: DatasetSpec, table: pa.Table) -> pa.Table:
    columns = dict(zip(table.column_names, table.columns, strict=True))
    columns[spec.protection.column] = columns.pop(own.protection.column)
    null = pa.nulls(table.num_rows)
    return pa.table({name: columns.get(name, null) for name in reading.declared_columns(spec)})


def _declared_tables(spec: DatasetSpec, files: Sequence[Path] | None) -> Iterator[pa.Table]:
    paths = [Path(location) for location in spec.source.locations] if files is None else files
    if spec.source.kind == "parquet":
        (path,) = paths
        yield from parquet_tables(spec, folder_parts(spec, path))
        return
    for table in _read_tables(spec, paths):
        yield reading.plain_columns(spec, table)


def _read_tables(spec: DatasetSpec, paths: Sequence[Path]) -> Iterable[pa.Table]:
    match spec.source.kind:
        case "sklearn":
            return [_read_bundled(spec)]
        case "generator":
            return [_generate(spec)]
        case "sql" if spec.source.location.startswith(DUCKDB):
            from dp_pipeline.raw.sources.duckdb_files import read_duckdb

            return read_duckdb(spec)
        case "sql":
            # Imported late: reading a file need not wait for SQLAlchemy.
            from dp_pipeline.raw.sources.sql import read_sql

            return read_sql(spec)
        case "xlsx":
            (path,) = paths
            return read_xlsx(spec, path)
        case _:
            return read_csv(spec, paths)


def _read_bundled(spec: DatasetSpec) -> pa.Table:
    _require_listed(spec, BUNDLED)
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


def _generate(spec: DatasetSpec) -> pa.Table:
    _require_listed(spec, tuple(GENERATORS))
    unknown = sorted(set(spec.source.options) - {"seed", "rows"})
    if unknown:
        raise DeclarationError(
            f"{spec.name}: an option of `source` {one_of(('seed', 'rows'), unknown[0])}"
        )
    options = dict(spec.source.options)
    if spec.window and spec.source.location in STREAMS:
        options |= {
            "start": spec.time_windows.start(spec.window),
            "end": spec.time_windows.end(spec.window),
        }
    table = GENERATORS[spec.source.location](**options)
    reading.check_names(spec, table.column_names)
    return table


def _require_listed(spec: DatasetSpec, names: tuple[str, ...]) -> None:
    if spec.source.location not in names:
        raise DeclarationError(f"{spec.name}: `source.name` {one_of(names, spec.source.location)}")


def sample_by_class(classes: IntArray, *, rows: int, seed: int) -> IntArray:
    """Return the row indices (rows,), ascending, of a seeded sample with all classes in proportion.

    classes   class of each row (n,), integers of at least 0, n ≥ rows

    A class of n_c rows gets rows·n_c/n of the sample, rounded by largest remainders, ties to the
    lower class. Every row has a random key, and in each class the smallest keys are sampled.

    >>> sample_by_class(np.array([0, 0, 1, 0, 0, 1]), rows=3, seed=7)
    array([2, 3, 4])
    """
    # Raw words of a bit generator are the same in every version of NumPy.
    keys = np.random.PCG64(seed).random_raw(len(classes))
    order = np.lexsort((keys, classes))
    sizes = np.bincount(classes)
    quotas, remainders = np.divmod(rows * sizes, sizes.sum())
    rounded_up = np.argsort(-remainders, kind="stable")[: rows - int(quotas.sum())]
    quotas[rounded_up] += 1
    starts = np.cumsum(sizes) - sizes
    ranks = np.arange(len(classes)) - np.repeat(starts, sizes)
    return np.sort(order[ranks < np.repeat(quotas, sizes)])
