"""The frames that expectations are tested on: the stored schema as one row, and the rows."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.raw import expectations
from dp_pipeline.raw.ingest import ingested_schema
from dp_pipeline.raw.prepare import rows_breaking
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.units import WITHOUT_PARTS
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

_SAMPLES: dict[Kind, pd.Series] = {
    "text": pd.Series(["text"], dtype=object),
    "number": pd.Series([0.0]),
    "time": pd.Series(["text"], dtype=object),
    "other": pd.Series([False]),
}
"""Kind of a column → an invented cell."""


def schema_frame(spec: DatasetSpec, snapshot: Snapshot) -> pd.DataFrame:
    """Return one invented row, in the types of those declared columns that the file has once.

    It depends on the schema of the ingested file alone, and so does all that is concluded from it.
    """
    schema = ingested_schema(spec, snapshot)
    columns = {}
    for name, column in expectations.source_columns(spec).items():
        indices = schema.get_all_field_indices(column)
        if len(indices) == 1:
            type_ = schema.field(indices[0]).type
            kind = kind_of(type_)
            if name == expectations.PERSON:
                can_fit = kind == "text" or type_ in WHOLE
            else:
                can_fit = kind == "text" or (kind == "time") == (column in spec.time_columns)
            columns[name] = _SAMPLES[kind if can_fit else "other"]
    return pd.DataFrame(columns, index=[0])


def row_frame(spec: DatasetSpec, table: pa.Table) -> pd.DataFrame:
    """Return rows as preparation reads them: numbers as floats, levels as stripped texts.

    A missing value, a text in place of a number and a blank person id are null; in a nullable
    number such a text is infinite, outside all bounds. A boolean column for each constraint tells
    whether a row meets it, and for time windows another one whether it has a time. Of units with
    parts of another source the rows are those of parts.
    """
    if WITHOUT_PARTS in table.column_names:
        table = table.filter(pc.invert(table.column(WITHOUT_PARTS)))
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
        columns[expectations.PERSON] = _categories(places, words)
    if spec.windows is not None:
        columns[expectations.TIME] = pd.Series(have_time(spec.windows, table))
    for number, constraint in enumerate(spec.domain.row_constraints, start=1):
        is_kept = ~rows_breaking(constraint, spec.domain, table)
        columns[expectations.constraint_column(number)] = pd.Series(is_kept)
    declared = {
        expectations.frame_column(spec, c) for e in spec.expectations for c in e.columns.values()
    }
    for name in declared:
        if name == expectations.PERSON or not spec.domain[name].is_numeric:
            # Some of the library's expectations fail on categories.
            columns[name] = pd.Series(columns[name]).astype(object)
    return pd.DataFrame(columns)


def _numbers(attribute: Attribute, column: pa.ChunkedArray) -> FloatArray:
    values = numbers_in(attribute, column)
    if not attribute.nullable:
        return values
    is_missing = missing_cells(attribute, column)
    return np.where(is_missing, np.nan, np.where(np.isnan(values), np.inf, values))


def _categories(places: IntArray, words: NDArray[np.object_]) -> pd.Categorical:
    # Stripping can make two texts equal, but categories must differ. None gets the code −1.
    merged, unique = pd.factorize(words)
    codes = np.append(merged, -1)[places]
    return pd.Categorical.from_codes(codes, categories=pd.Index(unique, dtype=object))
