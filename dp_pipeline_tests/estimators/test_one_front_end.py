"""A frame, a CSV file and a Parquet file of the same rows have the same codes and errors."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dp_pipeline.config.attribute_parser import attribute_section
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.fields import field_errors
from dp_pipeline.config.source import Source
from dp_pipeline.estimators.declared import declared_columns, domain_of
from dp_pipeline.estimators.frames import features_of
from dp_pipeline.estimators.rows import find_columns
from dp_pipeline.raw.prepare import discretize, normalize
from dp_pipeline.raw.sources import read_source
from dp_pipeline_tests.estimators.people import rows_of

FLAGS = st.sampled_from([{}, {"nullable": True}, {"nullable": False}])
LEVELS = st.sampled_from([[0, 1, 2], ["0", "1", "b"], [0.5, 7, -1], ["a", "b"]])
FORMS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "levels": st.builds(lambda flags, levels: {"levels": levels, **flags}, FLAGS, LEVELS),
    "bins": st.builds(
        lambda flags, extra: {"bounds": [-2, 6.5], **extra, **flags},
        FLAGS,
        st.sampled_from([{"bins": 4}, {"edges": [0, 1]}, {"bins": 3, "on_invalid": "drop"}]),
    ),
}
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole numbers": (pa.int64(), st.integers(-3, 8) | st.integers(-(2**62), 2**62)),
    "numbers": (pa.float64(), st.floats() | st.sampled_from([0.0, 1.0, 0.5, -2.0, 6.5])),
    "texts": (pa.string(), st.text("ab01 .-e7", min_size=1, max_size=4).filter(str.strip)),
}

FULFILLED: dict[str, dict[str, Any]] = {
    "bins": {"thousands": "'"},
    "levels": {"levels": ["a", 2**62 + 1]},
}
"""What lets the same column of Parquet be read, and changes no code."""


def codes_of_frame(frame: pd.DataFrame, domain: Domain) -> list[int]:
    """The codes that an estimator counts, of the rows that it keeps."""
    rows = rows_of(domain, find_columns(features_of(frame), domain.names))
    return [int(code) for code in rows.codes["x"]]


def codes_of_file(path: Path, domain: Domain) -> list[int]:
    """The codes that the pipeline counts, of the rows that it keeps."""
    kind: Any = path.suffix.removeprefix(".")
    spec = DatasetSpec.of_domain("rows", domain, source=Source(kind, str(path)))
    table = discretize(spec, normalize(spec, read_source(spec), b"key"))
    return [int(code) for code in table.column("x").to_pylist()]


def word(value: Any) -> str:
    """As a file says it: a whole number has no point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return value if isinstance(value, str) else repr(value)


@pytest.mark.parametrize("declared", FORMS)
@pytest.mark.parametrize("content", VALUES)
@settings(max_examples=25)
@given(data=st.data())
def test_a_frame_and_its_files_have_the_same_codes(declared: str, content: str, data: Any) -> None:
    type_, values = VALUES[content]
    column = data.draw(st.lists(st.none() | values, min_size=1, max_size=6))
    form = data.draw(FORMS[declared])
    domain = domain_of(declared_columns({"x": form}))
    table = pa.table({"x": pa.array(column, type_)})
    with TemporaryDirectory() as folder:
        csv, parquet = Path(folder, "rows.csv"), Path(folder, "rows.parquet")
        # A line of one empty cell would be no line.
        lines = ["x,y", *(f"{word(value)},1" for value in column)]
        csv.write_text("\n".join(lines) + "\n", encoding="utf-8")
        pq.write_table(table, parquet)
        of_csv = codes_of_file(csv, domain)
        # A file's type is public. A frame's is made from its values: none is refused for it.
        if declared == "bins" if content == "texts" else form.get("levels") == ["a", "b"]:
            with pytest.raises(SourceError, match=f"column 'x'.* the type {type_}:"):
                codes_of_file(parquet, domain)
            form = {**form, **FULFILLED[declared]}
        assert codes_of_file(parquet, domain_of(declared_columns({"x": form}))) == of_csv
    objects = pd.DataFrame({"x": pd.Series(column, dtype=object)})
    for frame in (table.to_pandas(), table.to_pandas(types_mapper=pd.ArrowDtype), objects):
        assert codes_of_frame(frame, domain) == of_csv


NO_DATE = {"bounds": ["2026-01-01", "2026-13-01"], "every": "day"}
MISSING = {"levels": ["a", "b"], "missing": ["a"]}
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "upside down": ({"bounds": [3, 1], "bins": 2}, {"bounds": ["3", "1"], "bins": "2"}),
    "no bins": ({"bounds": [0, 1], "bins": 0}, {"bounds": ["0", "1"], "bins": "0"}),
    "a misspelt field": ({"levels": [1, 2], "othr": 1}, {"levels": ["1", "2"], "othr": "1"}),
    "another other": ({"levels": [1, 2], "other": 3}, {"levels": ["1", "2"], "other": "3"}),
    "a missing level": ({**MISSING, "nullable": True}, {**MISSING, "nullable": "true"}),
    "no date": (NO_DATE, {"type": "date", **NO_DATE}),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_declaration_is_refused_as_in_a_file(case: str) -> None:
    of_frame, of_file = WRONG[case]
    with pytest.raises(ValidationError) as refused:
        attribute_section(of_file)
    (first, *_) = field_errors(refused.value)
    with pytest.raises(DeclarationError) as caught:
        declared_columns({"x": of_frame})
    message = str(caught.value)
    assert message.startswith(f"domain: column 'x': expected {first.expected}")
    assert message.endswith(f"got {first.got}{first.hint}")
