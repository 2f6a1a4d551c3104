"""A row is counted by its declared cells, whatever the types of its columns; or it is dropped.

A frame, a CSV file and a Parquet file of the same rows have the same codes and errors.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
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
from dp_pipeline.estimators.declared import declared_columns, domain_of, expand_ellipsis
from dp_pipeline.estimators.frames import features_of, numbers_of, to_arrow
from dp_pipeline.estimators.rows import PreparedRows, find_columns
from dp_pipeline.raw.prepare import discretize, normalize
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.values import texts
from dp_pipeline_tests.estimators.households import ANY_VALUE, NoClass
from dp_pipeline_tests.estimators.people import rows_of
from dp_pipeline_tests.instruments import exact_tables

NAN = float("nan")


def prepared(X: Any, domain: Any) -> PreparedRows:
    features = features_of(X)
    declared = domain_of(declared_columns(expand_ellipsis(domain, features)))
    return rows_of(declared, find_columns(features, declared.names))


def cells(X: Any, domain: Any) -> dict[str, list[int]]:
    """Rows in every cell of every column."""
    rows = prepared(X, domain)
    counter = rows.counter()
    return {name: exact_tables(counter, [(name,)])[0].tolist() for name in rows.domain.names}


def counted(values: Any, declared: Any) -> list[int]:
    return cells(pd.DataFrame({"x": values}), {"x": declared})["x"]


def codes(values: Any, declared: Any) -> list[int]:
    """The codes of one column, row by row, without the rows that do not fit."""
    return prepared(pd.DataFrame({"x": values}), {"x": declared}).codes["x"].tolist()


TEXTS = ["a", "b", "b", None, "c", " b ", ""]
TEXT_TYPES = [object, "string", "category", pd.StringDtype("pyarrow")]


@pytest.mark.parametrize("dtype", TEXT_TYPES, ids=repr)
def test_texts_of_every_type_are_counted_alike(dtype: Any):
    values = pd.Series(TEXTS, dtype=dtype)
    assert counted(values, ["a", "b"]) == [1, 3]
    assert counted(values, {"levels": ["a", "b"], "other": "b"}) == [1, 6]
    assert counted(values, {"levels": ["a", "b"], "nullable": True}) == [1, 3, 3]
    assert counted(values, {"levels": ["a", "b"], "other": "a", "nullable": True}) == [2, 3, 2]
    requested = {"levels": ["a", "b"], "nullable": True, "missing": ["c"]}
    assert counted(values, requested) == [1, 3, 3]


NUMERIC = [
    "int8", "uint64", ">i4", "float16", "float32", ">f8", "longdouble", "Int16", "Float32",
    "object", "category", "str", "int64[pyarrow]", "Sparse[int64]",
]  # fmt: skip


@pytest.mark.parametrize("dtype", NUMERIC)
def test_numbers_of_every_type_are_counted_alike(dtype: str):
    values = pd.Series([0, 1, 1, 2, 5]).astype(dtype)
    assert counted(values, 3) == [1, 2, 1]
    assert counted(values, {"bounds": [0, 4], "bins": 2}) == [3, 2]
    assert counted(values, ["0", "1", "5"]) == [1, 2, 1]


@pytest.mark.parametrize("dtype", ["float64", "Float64", "Int64", "object", "category"])
def test_a_missing_number_is_dropped_or_a_cell_of_its_own(dtype: str):
    values = pd.Series([0, NAN, 1, 1, NAN], dtype=dtype)
    assert counted(values, 2) == [1, 2]
    assert counted(values, {"size": 2, "nullable": True}) == [1, 2, 2]
    assert counted(values, {"edges": [0, 1, 4]}) == [1, 2]
    assert counted(values, {"edges": [0, 1, 4], "nullable": True}) == [1, 2, 2]


@pytest.mark.parametrize("dtype", ["bool", "boolean", "object", "category", "int64", "float64"])
@pytest.mark.parametrize("declared", [[False, True], [0, 1], 2, {"edges": [0, 0.5, 1]}], ids=str)
def test_truth_value_is_a_number_and_number_a_truth_value(dtype: str, declared: Any):
    assert counted(pd.Series([True, False, True], dtype="bool").astype(dtype), declared) == [1, 2]
    assert counted([True, False, True], ["False", "True"]) == [1, 2]


@pytest.mark.parametrize("word", ["-999.0", "1e3", "099", "-999"])
@pytest.mark.parametrize("kind", [int, float])
def test_text_among_numbers_changes_no_missing_value(word: str, kind: type):
    values = [kind(item) for item in (-999, 1000, 99, 3, 7)]
    declared = {"bounds": [0, 10], "bins": 2, "nullable": True, "missing": [word]}
    first = codes(values, declared)
    assert len(first) == len(values)
    assert first.count(2) == 1
    # The text itself is no number, and missing.
    assert codes([*values, "abc"], declared) == [*first, 2]
    assert codes([*values, word], declared) == [*first, 2]


class NoNumber(float):
    """A number that does not say which one."""

    def __float__(self) -> float:
        raise RuntimeError("a row")


class NoText(str):
    """A text that cannot be stripped."""

    def strip(self, *_: Any) -> str:
        raise RuntimeError("a row")


class OtherText(str):
    """A text that is stripped to something else."""

    def strip(self, *_: Any) -> Any:
        return [1]


@pytest.mark.parametrize("make", [lambda: None, lambda: 2.5, lambda: True, NoClass])
def test_a_value_is_what_it_holds_whatever_its_methods_say(make: Callable[[], Any]):
    other = make()
    values = pd.Series(["a", "1", NoText("a"), OtherText("a"), NoNumber(1), other], dtype=object)
    assert counted(values, ["a", "1"]) == [3, 2]


@pytest.mark.chain
@given(st.lists(ANY_VALUE, min_size=1, max_size=5), st.booleans())
@settings(max_examples=300)
def test_what_a_value_is_read_as_does_not_depend_on_the_others(values: list[Any], flag: bool):
    """Alone a value has a type of its own; beside others it may be an object."""
    column = pd.Series(values, dtype=object)
    places, words = texts(to_arrow(column))
    together = [words[place] if place >= 0 else None for place in places]
    numbers, readable = numbers_of(column)
    for index, value in enumerate(values):
        single = pd.Series([value], dtype=object if flag else None)
        (place,), (*words_alone,) = texts(to_arrow(single))
        assert (words_alone[place] if place >= 0 else None) == together[index]
        (number,), (is_readable,) = numbers_of(single)
        assert number == numbers[index] or np.isnan([number, numbers[index]]).all()
        assert is_readable == readable[index]


@pytest.mark.parametrize("values", [[], np.zeros(0), pd.Series([], dtype="category")], ids=repr)
def test_empty_column_has_empty_counts(values: Any):
    assert counted(values, ["a", "b"]) == [0, 0]
    assert counted(values, {"bounds": [0, 1], "bins": 1, "nullable": True}) == [0, 0]


ODD_TYPES: dict[str, Any] = {
    "dates": pd.Series(np.array(["2718-02-08", "NaT"], "datetime64[s]")),
    "dates of a zone": pd.Series(pd.to_datetime(["2020-01-01", None], utc=True)),
    "complex numbers": pd.Series([1j, NAN]),
    "periods": pd.Series(pd.period_range("2020", periods=2, freq="D")),
    "intervals": pd.Series(pd.interval_range(0, 2)),
    "lists": pd.Series([[1], [2]]),
    "bytes": pd.Series([b"a", b"b"]),
    "categories of dates": pd.Series(pd.to_datetime(["2020-01-01", None])).astype("category"),
    "arrow's dates": pd.Series(["2020-01-01", None]).astype("timestamp[ns][pyarrow]"),
    "arrow's lists": pd.Series([[1], None], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
    "arrow's nothing": pd.Series([None, None], dtype=pd.ArrowDtype(pa.null())),
}


@pytest.mark.parametrize("values", ODD_TYPES.values(), ids=ODD_TYPES)
def test_columns_of_odd_types_hold_nothing_that_is_declared(values: pd.Series):
    assert counted(values, 2) == [0, 0]
    assert counted(values, {"bounds": [0, 1], "bins": 2}) == [0, 0]
    assert counted(values, {"levels": ["a", "b"], "other": "b"}) == [0, 2]


ARROW: dict[str, tuple[pa.DataType, list[Any]]] = {
    "truth values": (pa.bool_(), [False, True, None]),
    "decimals": (pa.decimal128(5, 2), [Decimal(0), Decimal("1.00"), None]),
    "dictionaries": (pa.dictionary(pa.int8(), pa.string()), ["0", "1", None]),
    "small texts": (pa.string(), ["0", "1", None]),
}


@pytest.mark.parametrize(("type_", "values"), ARROW.values(), ids=ARROW)
def test_columns_of_arrows_types_are_read_as_those_of_others(type_: pa.DataType, values: list[Any]):
    column = pd.Series(pd.array(values, dtype=pd.ArrowDtype(type_)))
    assert counted(column, 2) == [1, 1]
    assert counted(column, {"size": 2, "nullable": True}) == [1, 1, 1]
    assert counted(column, {"edges": [0, 1, 4], "nullable": True}) == [1, 1, 1]


AGE = {"bounds": [0, 90], "bins": 3}
ROWS = [["f", 10], ["m", 50.5], ["m", 80], ["?", 20], ["f", None]]


@pytest.mark.parametrize(
    "X",
    [
        ROWS,
        tuple(map(tuple, ROWS)),
        np.array(ROWS, dtype=object),
        pd.DataFrame(ROWS, columns=["sex", "age"]),
        pd.DataFrame(ROWS, columns=["sex", "age"])[["age", "sex"]].assign(more=1),
    ],
    ids=["lists", "tuples", "array", "frame", "frame with more, in another order"],
)
def test_the_same_rows_are_counted_alike_by_place_and_by_name(X: Any):
    assert cells(X, {"sex": ["f", "m"], "age": AGE}) == {"sex": [1, 2], "age": [1, 1, 1]}


def test_three_dots_declare_every_other_column():
    numbers = np.array([[1, 10, 20], [0, 80, 20]])
    counts = {"ill": [1, 1], "x1": [1, 0, 1], "x2": [2, 0, 0]}
    assert cells(numbers, {"ill": 2, ...: AGE}) == counts
    frame = pd.DataFrame(numbers, columns=["a", "ill", "b"])
    assert list(cells(frame, {...: AGE, "b": 30})) == ["b", "a", "ill"]


@pytest.mark.parametrize(
    ("X", "domain", "message"),
    [
        ([[1, 2]], {"a": 3}, "columns as declared, not"),
        (np.zeros((3, 1), dtype=complex), {"a": 3}, "Complex data not supported"),
        ("rows", {"a": 3}, "two dimensions, of a frame of pandas, polars or Arrow, .*got str"),
        (pd.Series([1]), {"a": 3}, r"got Series: X\[\[name\]\] has two"),
        ([[1, 2]], {"x1": 3, ...: 3}, "the names x0, x1, … are those of the other columns of X"),
        (np.zeros((3, 0)), {...: 3}, "domain: expected a mapping"),
    ],
)
def test_wrong_table_is_refused_without_a_value(X: Any, domain: Any, message: str):
    with pytest.raises(DeclarationError, match=message):
        cells(X, domain)


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
            domain = domain_of(declared_columns({"x": {**form, **FULFILLED[declared]}}))
        assert codes_of_file(parquet, domain) == of_csv
    objects = pd.DataFrame({"x": pd.Series(column, dtype=object)})
    for frame in (table.to_pandas(), table.to_pandas(types_mapper=pd.ArrowDtype), objects):
        assert prepared(frame, {"x": form}).codes["x"].tolist() == of_csv


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
