"""Short sessions with Great Expectations: expectations and frames in, booleans or its pages out.

Every result format but BOOLEAN_ONLY puts offending values into the result: none is asked for.

The two frames that expectations are tested on: the stored schema as one row, and the rows.

Great Expectations' own suite and pages of a snapshot, for the steward, beside its rows.

What they say of rows is no more than whether each expectation is fulfilled; of sensitive rows even
that is the steward's alone. So they are written into the snapshot's folder, which only its owner
can enter, and are deleted with its rows.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.config.database import has_driver
from dp_pipeline.config.dataset import Argument, DatasetSpec
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import FloatArray, IntArray, Levels
from dp_pipeline.config.errors import PipelineError
from dp_pipeline.files import temporary_folder
from dp_pipeline.raw.expectations import (
    PERSON,
    TIME,
    Expectation,
    Rule,
    expectations_of,
    frame_column,
    kept_column,
    source_columns,
)
from dp_pipeline.raw.ingest import ingested_schema, ingested_tables
from dp_pipeline.raw.prepare import broken_rows
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.stages import Read
from dp_pipeline.raw.values import (
    WHOLE,
    Kind,
    column_of,
    have_time,
    kind_of,
    level_words,
    missing_cells,
    numbers_in,
    texts,
)
from dp_pipeline.raw.workers import Each

_TYPES: dict[Rule, str] = {
    "exists": "expect_column_to_exist",
    "type": "expect_column_values_to_be_in_type_list",
    "rows": "expect_table_row_count_to_be_between",
    "present": "expect_column_values_to_not_be_null",
    "levels": "expect_column_values_to_be_in_set",
    "bounds": "expect_column_values_to_be_between",
    "kept": "expect_column_values_to_be_in_set",
}
"""Rule → the library's name of it; one that is declared has its own."""


_FORMAT = "BOOLEAN_ONLY"
_COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0}
"""Whole numbers, and an empty list where values would be."""

Part = tuple[str, tuple[Expectation, ...], pd.DataFrame]
"""Name of a suite, its expectations, and what they are about."""


def passed(
    spec: DatasetSpec, declared: tuple[Expectation, ...], frame: pd.DataFrame
) -> dict[str, bool]:
    """Name of each declared expectation → whether ``frame`` fulfils it.

    Raises PipelineError when an expectation has no result: the library drops
    what it does not know, and a suite without expectations passes.
    """
    return {
        name: bool(one.success) for name, one in _results(spec, declared, frame, _FORMAT).items()
    }


def passed_together(
    spec: DatasetSpec, declared: tuple[Expectation, ...], batches: Sequence[Read], each: Each
) -> dict[str, bool]:
    """The same of rows in several batches together: every one of them judges a row by itself, or
    wants any row at all, so numbers of rows add up.
    """
    if len(batches) == 1:
        return passed(spec, declared, row_frame(spec, batches[0]()))
    tallies = {one.name: _Tally() for one in declared}
    for found in each(partial(_judged, spec, declared), batches):
        tallies = {name: one.with_rows(found[name]) for name, one in tallies.items()}
    return {one.name: tallies[one.name].is_fulfilled(one) for one in declared}


def _judged(spec: DatasetSpec, declared: tuple[Expectation, ...], read: Read) -> dict[str, _Tally]:
    """What the library finds in one batch: numbers alone."""
    results = _results(spec, declared, row_frame(spec, read()), _COUNTS)
    found = {name: _Tally.of(result) for name, result in results.items()}
    del results
    # The library's objects hold each other and the frame, which is large.
    gc.collect()
    return found


class _Tally(NamedTuple):
    """How many rows an expectation judged, and how many of them it found otherwise.

    failed   whether the library could not judge some of them
    """

    judged: int = 0
    unexpected: int = 0
    failed: bool = False

    @classmethod
    def of(cls, result: Any) -> _Tally:
        # Whole numbers alone are taken: what the library says of an exception may quote rows.
        found = result.result
        if "observed_value" in found:
            return cls(judged=int(found["observed_value"]))
        if "unexpected_count" not in found:
            return cls(failed=True)
        judged = int(found["element_count"]) - int(found.get("missing_count") or 0)
        return cls(judged, int(found["unexpected_count"]))

    def with_rows(self, other: _Tally) -> _Tally:
        """Of other rows too."""
        failed = self.failed or other.failed
        return _Tally(self.judged + other.judged, self.unexpected + other.unexpected, failed)

    def is_fulfilled(self, expectation: Expectation) -> bool:
        if expectation.rule == "rows":
            return self.judged > 0
        if self.failed or not self.judged:
            return not self.failed
        # As the library compares a share.
        return (self.judged - self.unexpected) / self.judged >= float(expectation.share)


def _results(
    spec: DatasetSpec, declared: tuple[Expectation, ...], frame: pd.DataFrame, form: Any
) -> dict[str, Any]:
    """Name of each expectation → the library's result, of which little may be looked at."""
    suite = [_translated(spec, expectation) for expectation in declared]
    results = _batch(frame).validate(_suite(spec.name, suite), result_format=form).results
    named = {str(one.expectation_config.meta["name"]): one for one in results}
    if len(results) != len(declared) or set(named) != {e.name for e in declared}:
        raise PipelineError(
            f"{spec.name}: expected {len(declared)} verdicts of Great Expectations, "
            f"got {len(results)}"
        )
    return named


def _library() -> Any:
    # Read by the library when it is imported: nothing about a data set may be sent anywhere.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    if not has_driver():
        # The library looks for one of its own accord, and takes a broken one for an error.
        sys.modules["psycopg2"] = None  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            # PySpark says of pandas what nobody who validates a table can do anything about.
            warnings.simplefilter("ignore", FutureWarning)
            import great_expectations
    except SystemExit:
        # The library imports PySpark where it is there, and PySpark without Spark Connect ends the
        # process that looks for it, with exit code 0.
        raise PipelineError(
            "Great Expectations: expected PySpark with Spark Connect or none, got PySpark alone: "
            "`pip install 'pyspark[connect]'`, or remove pyspark"
        ) from None
    return great_expectations


def _batch(frame: pd.DataFrame) -> Any:
    return _definition(_context(), "frame").get_batch(batch_parameters={"dataframe": frame})


def _context() -> Any:
    """A project of the library in memory, which writes nothing and shows nothing."""
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = _library().get_context(mode="ephemeral")
    bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    context.variables.progress_bars = bars
    return context


def _definition(context: Any, name: str) -> Any:
    asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
    return asset.add_batch_definition_whole_dataframe("all")


def write_pages(spec: DatasetSpec, parts: Sequence[Part], folder: Path) -> None:
    """Write each suite into ``folder`` as JSON, NAME.json, and the library's pages about all of
    them into ``folder/data_docs``. They say whether each expectation is fulfilled.
    """
    context = _context()
    context.add_data_docs_site("steward", _site(folder / "data_docs"))
    for name, declared, frame in parts:
        translated = [_translated(spec, expectation) for expectation in declared]
        suite = context.suites.add(_suite(name, translated))
        text = json.dumps(suite.to_json_dict(), indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        validation = context.validation_definitions.add(
            _library().ValidationDefinition(name=name, data=_definition(context, name), suite=suite)
        )
        validation.run(batch_parameters={"dataframe": frame}, result_format=_FORMAT)
    context.build_data_docs(site_names=["steward"])


def _site(folder: Path) -> dict[str, Any]:
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(folder),
        },
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }


def _suite(name: str, expectations: list[Any]) -> Any:
    return _library().ExpectationSuite(name=name, expectations=expectations)


def _translated(spec: DatasetSpec, expectation: Expectation) -> Any:
    """The library's expectation for ours, or for one of the data set file."""
    arguments: dict[str, Any] = {}
    if expectation.attribute is not None:
        arguments["column"] = expectation.attribute
    match expectation.rule:
        case "type":
            arguments["type_list"] = ["str", "float64"]
        case "rows":
            arguments["min_value"] = 1
        case "levels":
            arguments["value_set"] = list(_levels(spec, str(expectation.attribute)))
        case "kept":
            arguments["value_set"] = [True]
        case "bounds":
            box = spec.domain[str(expectation.attribute)].coordinate
            assert box is not None
            arguments |= {"min_value": box.lower, "max_value": box.upper}
    type_ = _TYPES.get(expectation.rule, "")
    if expectation.declared is not None:
        type_ = expectation.declared.type
        columns = expectation.declared.columns.items()
        arguments = {key: frame_column(spec, one) for key, one in columns}
        arguments |= {key: _listed(one) for key, one in expectation.declared.arguments.items()}
    if "_values_" in type_ or "_value_" in type_:
        arguments["mostly"] = float(expectation.share)
    kind = getattr(_library().expectations, _class_name(type_))
    severity = "critical" if expectation.blocking else "warning"
    return kind(**arguments, severity=severity, meta={"name": expectation.name})


def _class_name(type_: str) -> str:
    """The library's class of a type.

    >>> _class_name("expect_column_pair_values_a_to_be_greater_than_b")
    'ExpectColumnPairValuesAToBeGreaterThanB'
    """
    return "".join(word.capitalize() for word in type_.split("_"))


def _listed(value: Argument) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _levels(spec: DatasetSpec, attribute: str) -> tuple[str, ...]:
    cells = spec.domain[attribute].cells
    return cells.values if isinstance(cells, Levels) else ()


_SAMPLES: dict[Kind, pd.Series] = {
    "text": pd.Series(["text"], dtype=object),
    "number": pd.Series([0.0]),
    "time": pd.Series(["text"], dtype=object),
    "other": pd.Series([False]),
}


def schema_frame(spec: DatasetSpec, snapshot: Snapshot) -> pd.DataFrame:
    """One made-up row with a column for every declared column that the stored file has once.

    It depends on the file's schema alone, so whatever is concluded from it does too.
    """
    schema = ingested_schema(spec, snapshot)
    columns = {}
    for name, column in source_columns(spec).items():
        places = schema.get_all_field_indices(column)
        if len(places) == 1:
            type_ = schema.field(places[0]).type
            columns[name] = _SAMPLES[_kind_of_column(spec, name, column, type_)]
    return pd.DataFrame(columns, index=[0])


def _kind_of_column(spec: DatasetSpec, name: str, column: str, type_: pa.DataType) -> Kind:
    """What a stored column is; floating numbers are no persons, and times are nothing but times."""
    kind = kind_of(type_)
    if name == PERSON:
        is_id = kind == "text" or type_ in WHOLE
        return kind if is_id else "other"
    is_timed = column in spec.times
    return kind if kind == "text" or (kind == "time") == is_timed else "other"


def row_frame(spec: DatasetSpec, table: pa.Table) -> pd.DataFrame:
    """Some rows as preparation will read them: numbers as floats, levels as stripped texts.

    A missing value, a text where a number is declared and a blank person id are null.
    In a nullable number such a text is infinite instead, beyond every bound: only
    what is missing is null there. A column more for every constraint says whether the row keeps it,
    and one whether it says when it is from, where rows are cut by their time.
    """
    columns: dict[str, pd.Series | pd.Categorical] = {}
    for attribute in spec.domain:
        column = column_of(attribute, table)
        if attribute.is_numeric:
            columns[attribute.name] = pd.Series(_numbers(attribute, column))
        else:
            columns[attribute.name] = _categories(*level_words(attribute, column))
    person = spec.protection.column
    if person is not None:
        places, words = texts(table.column(person))
        words[words == ""] = None
        columns[PERSON] = _categories(places, words)
    if spec.windows is not None:
        columns[TIME] = pd.Series(have_time(spec.windows, table))
    for place, one in enumerate(spec.domain.constraints, start=1):
        columns[kept_column(place)] = pd.Series(~broken_rows(one, spec.domain, table))
    for name in _named(spec):
        # Some of the library's expectations fail at categories.
        columns[name] = pd.Series(columns[name]).astype(object)
    return pd.DataFrame(columns)


def _named(spec: DatasetSpec) -> set[str]:
    """The columns of texts that declared expectations name."""
    named = {frame_column(spec, one) for e in spec.expectations for one in e.columns.values()}
    return {one for one in named if one == PERSON or not spec.domain[one].is_numeric}


def _numbers(attribute: Attribute, column: pa.ChunkedArray) -> FloatArray:
    values = numbers_in(attribute, column)
    if not attribute.nullable:
        return values
    nothing = missing_cells(attribute, column)
    return np.where(nothing, np.nan, np.where(np.isnan(values), np.inf, values))


def _categories(places: IntArray, words: NDArray[np.object_]) -> pd.Categorical:
    # Stripping can make two texts one, and categories must differ. A None gets the code −1.
    merged, unique = pd.factorize(words)
    codes = np.append(merged, -1)[places]
    return pd.Categorical.from_codes(codes, categories=pd.Index(unique, dtype=object))


FOLDER = "great_expectations"
INDEX = Path("data_docs", "index.html")
"""The page to begin with, inside of the folder."""

_NOTHING_FROM_ELSEWHERE = (
    b'<meta http-equiv="Content-Security-Policy" '
    b"content=\"default-src 'unsafe-inline' file: data:\">"
)
"""The library's pages ask other people's servers for their styles and scripts."""

_HIDDEN = b"<style>footer, .navbar-brand { display: none; }</style>"
"""A request to subscribe, which lies over the last line, and a logo that is not fetched."""


def write_data_docs(spec: DatasetSpec, snapshot: Snapshot) -> Path:
    """Write the suites as JSON and the pages, in place of those of before; their folder.

    Rows are looked at only where the stored schema is as declared. Nothing is noted in the
    manifest: this validates nothing. NotPrepared where there are no rows, Damaged where they are
    not as they were stored.
    """
    with snapshot.locked():
        parts = _parts(spec, snapshot)
        folder = snapshot.folder / FOLDER
        with temporary_folder(folder) as made:
            write_pages(spec, parts, made)
            _make_private(made)
            if folder.exists():
                shutil.rmtree(folder)
            made.rename(folder)
    return folder


def _parts(spec: DatasetSpec, snapshot: Snapshot) -> list[Part]:
    declared = expectations_of(spec)
    structural = tuple(one for one in declared if one.structural)
    schema = schema_frame(spec, snapshot)
    parts: list[Part] = [(f"{spec.name}_schema", structural, schema)]
    if all(passed(spec, structural, schema).values()):
        rows = tuple(one for one in declared if not one.structural)
        # The library's pages are about one frame: of many rows it needs as much memory.
        tables = map(_each_text_once, ingested_tables(spec, snapshot))
        frame = row_frame(spec, pa.concat_tables(tables))
        parts.append((f"{spec.name}_rows", rows, frame))
    return parts


def _each_text_once(table: pa.Table) -> pa.Table:
    """The same rows, of columns of texts a place a row and every different text."""
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            table = table.set_column(at, field.name, table.column(at).dictionary_encode())
    return table


def _make_private(folder: Path) -> None:
    """Nobody else may enter or read, and no page asks another server for anything. A page says its
    language, to those who hear it.
    """
    for path in folder.rglob("*"):
        if path.suffix == ".html":
            text = path.read_bytes().replace(b"<html>", b'<html lang="en">', 1)
            head = b"<head>" + _NOTHING_FROM_ELSEWHERE + _HIDDEN
            path.write_bytes(text.replace(b"<head>", head, 1))
        path.chmod(0o700 if path.is_dir() else 0o600)
