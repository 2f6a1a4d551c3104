"""The two frames that expectations are tested on: the stored schema as one row, and the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_pipeline.raw.cells import level_words, missing_cells
from dp_pipeline.raw.expectations import PERSON, frame_column, source_columns
from dp_pipeline.raw.ingest import read_stage
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.values import WHOLE, Kind, kind_of, numbers, texts
from dp_pipeline.schema.domain import Attribute
from dp_pipeline.schema.encoding import FloatArray, IntArray
from dp_pipeline.schema.spec import DatasetSpec

_SAMPLES: dict[Kind, pd.Series] = {
    "text": pd.Series(["text"], dtype=object),
    "number": pd.Series([0.0]),
    "other": pd.Series([False]),
}


def schema_frame(spec: DatasetSpec, snapshot: Snapshot) -> pd.DataFrame:
    """One made-up row with a column for every declared column that the stored file has once.

    It depends on the file's schema alone, so whatever is concluded from it does too.
    """
    schema = pq.read_schema(snapshot.checked_path("ingested"))
    columns = {}
    for name, column in source_columns(spec).items():
        places = schema.get_all_field_indices(column)
        if len(places) == 1:
            columns[name] = _SAMPLES[_kind_of_column(name, schema.field(places[0]).type)]
    return pd.DataFrame(columns, index=[0])


def _kind_of_column(name: str, type_: pa.DataType) -> Kind:
    """What a stored column is; floating numbers are no persons."""
    kind = kind_of(type_)
    return "other" if name == PERSON and kind == "number" and type_ not in WHOLE else kind


def row_frame(spec: DatasetSpec, snapshot: Snapshot) -> pd.DataFrame:
    """The rows as preparation will read them: numbers as floats, levels as stripped texts.

    A missing value, a text where a number is declared and a blank person id are null.
    In a nullable number such a text is infinite instead, beyond every bound: only
    what is missing is null there.
    """
    table = read_stage(snapshot, "ingested")
    columns: dict[str, pd.Series | pd.Categorical] = {}
    for attribute in spec.domain:
        column = table.column(attribute.column)
        if attribute.is_numeric:
            columns[attribute.name] = pd.Series(_numbers(attribute, column))
        else:
            columns[attribute.name] = _categories(*level_words(attribute, column))
    person = spec.protection.column
    if person is not None:
        places, words = texts(table.column(person))
        words[words == ""] = None
        columns[PERSON] = _categories(places, words)
    for name in _named(spec):
        # Some of the library's expectations fail at categories.
        columns[name] = pd.Series(columns[name]).astype(object)
    return pd.DataFrame(columns)


def _named(spec: DatasetSpec) -> set[str]:
    """The columns of texts that declared expectations name."""
    named = {frame_column(spec, one) for e in spec.expectations for one in e.columns.values()}
    return {one for one in named if one == PERSON or not spec.domain[one].is_numeric}


def _numbers(attribute: Attribute, column: pa.ChunkedArray) -> FloatArray:
    values = numbers(column)
    if not attribute.nullable:
        return values
    nothing = missing_cells(attribute, column)
    return np.where(nothing, np.nan, np.where(np.isnan(values), np.inf, values))


def _categories(places: IntArray, words: NDArray[np.object_]) -> pd.Categorical:
    # Stripping can make two texts one, and categories must differ. A None gets the code −1.
    merged, unique = pd.factorize(words)
    codes = np.append(merged, -1)[places]
    return pd.Categorical.from_codes(codes, categories=pd.Index(unique, dtype=object))
