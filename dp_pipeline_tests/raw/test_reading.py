"""Decimal commas, dates, zones and derived columns: each cell by itself, as it is declared."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import SourceError
from dp_pipeline.config.reading import Signs
from dp_pipeline.export.arrow_tables import read_parquet
from dp_pipeline.raw.prepare import discretize, normalize
from dp_pipeline.raw.sources import read_source
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.raw.validation_frames import row_frame
from dp_pipeline.raw.values import column_of, numbers, numbers_in
from dp_pipeline.releases.store import _write_table
from dp_pipeline.results.bundle import table_digest
from dp_pipeline.results.synthetic_table import decode_columns
from dp_pipeline_tests.raw.written import KEY, ingested, written_spec


def codes(spec: DatasetSpec, columns: dict[str, object] | pa.Table) -> dict[str, list[int]]:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    return discretize(spec, normalize(spec, table, KEY)).to_pydict()


def texts(*words: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(words, pa.string())])


def read(signs: Signs, *words: str | None) -> list[float | None]:
    return [None if np.isnan(x) else x for x in numbers(texts(*words), signs).tolist()]


NUMBERS = [
    (
        Signs(","),
        ["6,38", " -0,5 ", ",5", "7", "1,5e2", "6.38", "1,2,3", "", None, "x"],
        [6.38, -0.5, 0.5, 7.0, 150.0, *[None] * 5],
    ),
    (Signs(), ["6,38", "1.234,56", "6.38"], [None, None, 6.38]),
    (Signs(",", "."), ["1.234.567,89", "1234567"], [1234567.89, 1234567.0]),
    (Signs(".", ","), ["1,234,567.89", "1234567"], [1234567.89, 1234567.0]),
    (Signs(".", "'"), ["1'234'567.89", "1234567"], [1234567.89, 1234567.0]),
    (Signs(",", " "), ["1 234\u00a0567,89", "1\u202f234\u202f567,89"], [1234567.89] * 2),
    (Signs(",", "."), ["12.34", "1234.567", "1.2345", "1.234.5", ".234", "1..234"], [None] * 6),
    (Signs(","), ["inf", "-Infinity", "nan", "1e999"], [np.inf, -np.inf, None, np.inf]),
    (Signs(","), ["0," + "3" * 50], [pytest.approx(1 / 3)]),
]


@pytest.mark.parametrize(("signs", "words", "expected"), NUMBERS)
def test_numbers_are_read_by_their_declared_signs(signs, words, expected):
    assert read(signs, *words) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_written_by_the_signs_is_read_by_them(number):
    signs = Signs(",")
    assert read(signs, signs.localise(repr(number))) == [number]


MONTHS = "{day: {type: date, bounds: [2026-01-01, 2026-12-31], every: month, on_invalid: drop}}"
DAYS = ["2026-01-01", " 2026-01-31", "2026-02-01", "2026-12-31", "2026-02-29", "2025-12-31"]
DAYS += ["31/10/2026 25:61", "20261005", "2026-W41", "", None, "2026-00-10", "\u0662026-01-01"]
# At three o'clock the clocks are put back to two: that hour is one cell.
AUTUMN = ["2026-10-24T22:00Z", "2026-10-25T00:30", "2026-10-25T02:30+02:00"]
AUTUMN += ["2026-10-25T02:30+01:00", "2026-10-25 03:00:00", "2026-10-25T23:59:59.9", "2026-10-26"]
GAPS = ["2026-01-02", "", "never", None, "1900-01-01", "2026-01-32", "2026-01-03", "2027-01-01"]
ROWS = {
    "at": ["2026-10-05T14:30Z", "2026-10-32", ""],
    "since": ["2026-10-05", "2026-10-05", "2026-10-05"],
    "x": ["6,5", "-8", "6.5"],
    "y": ["1", "?", "1"],
    "code": [" CH-8001", "D", "  "],
}
HOURS = (
    "{hour: {levels: 0..23, nullable: true}, late: {column: hour, bounds: [0, 23], bins: 2, "
    "nullable: true}, land: {levels: [CH, D], nullable: true}}"
)
HOUR_CODES = {"hour": [14, 24, 24], "late": [1, 2, 2], "land": [0, 1, 2]}
CODES = {
    **{
        f"a number is one whatever sign is declared {cells}": (
            '{fare: {bounds: [0, 50], bins: 5, decimal: ","}}', "",
            {"fare": cells}, {"fare": [0, 4]},
        )
        for cells in ([6.38, 44.0], ["6,38", "44,0"])
    },
    "signs of the file hold for each column": (
        '{a: {bounds: [0, 9], bins: 9}, b: {bounds: [0, 9], bins: 9, decimal: "."}}',
        'reading: {decimal: ",", missing: ["-999"]}',
        {"a": ["6,5", "6.5"], "b": ["7.5", "7.5"]}, {"a": [6], "b": [7]},
    ),
    "a word for nothing drops a row in place of clipping it": (
        "{a: {bounds: [0, 9], bins: 9}, "
        "b: {bounds: [0, 9], bins: 2, nullable: true, on_invalid: drop}}",
        'reading: {missing: ["-999", N/A]}',
        {"a": ["-999", "5", "N/A", "5", "-8"], "b": ["1", "-999.0", "1", "N/A", "x"]},
        {"a": [5, 5], "b": [2, 2]},
    ),
    "a level that means missing elsewhere stays": (
        "{kind: {levels: [a, N/A], nullable: true}, other: {levels: [b, c], other: c}}",
        "reading: {missing: [N/A]}",
        {"kind": ["N/A", "", "a"], "other": ["N/A", "b", "b"]},
        {"kind": [1, 2, 0], "other": [1, 0, 0]},
    ),
    "dates fall into their months": (MONTHS, "", {"day": DAYS}, {"day": [0, 0, 1, 11]}),
    "a format is read and another is not": (
        MONTHS.replace("every", 'format: "%d.%m.%Y", every'), "",
        {"day": ["1.2.2026", "31.12.2026", "31.2.2026", "2026-02-01", "01.02.26"]},
        {"day": [1, 11]},
    ),
    "an offset in the text is honoured and else the zone is": (
        "{at: {type: timestamp, bounds: [2026-10-25, 2026-10-25], every: hour, "
        "zone: Europe/Zurich, on_invalid: drop}}", "",
        {"at": AUTUMN}, {"at": [0, 0, 2, 2, 3, 23]},
    ),
    # A step of a coordinate of a century is seven hours; a second before midnight is yesterday.
    "cells are cut exactly where coordinates are rounded": (
        "{at: {type: timestamp, bounds: [1950-01-01, 2049-12-31], every: day}}", "",
        {"at": ["2026-10-04T23:59:59.999999", "2026-10-05"]}, {"at": [28035, 28036]},
    ),
    "a missing date is a cell": (
        "{day: {type: date, bounds: [2026-01-01, 2026-01-04], bins: 2, nullable: true, "
        "missing: [1900-01-01, never]}}", "",
        {"day": GAPS}, {"day": [0, 2, 2, 2, 2, 2, 1, 2]},
    ),
    **{
        f"derived columns keep missing cells {rows}": (
            HOURS, "derive: {hour: {hour: at}, land: {prefix: [code, 2]}}",
            {name: cells[rows] for name, cells in ROWS.items()},
            {name: cells[rows] for name, cells in HOUR_CODES.items()},
        )
        for rows in (slice(0, 3), slice(0, 1), slice(1, 2), slice(2, 3))
    },
}  # fmt: skip
"""Attributes, further declarations, cells and their codes."""


@pytest.mark.parametrize("name", CODES)
def test_cells_are_read_as_they_are_declared(name, tmp_path):
    attributes, more, cells, expected = CODES[name]
    spec = written_spec(tmp_path, attributes, more=more)
    assert codes(spec, cells) == expected


STORED = {
    "days": pa.array([date(2026, 2, 28), None, date(2026, 3, 1)], pa.date32()),
    "milliseconds": pa.array([1772236800000, None, 1772323200000], pa.date64()),
    "seconds": pa.array([datetime(2026, 2, 28), None, datetime(2026, 3, 1)], pa.timestamp("s")),
    "parts": pa.array([datetime(2026, 2, 28, 23), None, datetime(2026, 3, 1)], pa.timestamp("ns")),
    "placed": pa.array(
        [datetime(2026, 2, 28, 22, tzinfo=UTC), None, datetime(2026, 2, 28, 23, tzinfo=UTC)],
        pa.timestamp("us", "UTC"),
    ),
    "endless": pa.array([1772236800000, 2**62, 1772323200000], pa.timestamp("ms")),
}


@pytest.mark.parametrize("kind", STORED)
@pytest.mark.parametrize("declared", ["date", "timestamp"])
def test_stored_dates_and_times_are_read_by_their_type(kind, declared, tmp_path):
    attributes = MONTHS.replace("date", f"{declared}, zone: Europe/Zurich", 1)
    spec = written_spec(tmp_path, attributes, source="{kind: parquet, path: rows.parquet}")
    pq.write_table(pa.table({"day": STORED[kind]}), tmp_path / "rows.parquet")
    assert codes(spec, read_source(spec)) == {"day": [1, 2]}


DAY_TYPE = r"the type date32.*declare `type: date`"
REFUSED = [
    *((f"{{day: {{{form}}}}}", "days", DAY_TYPE) for form in ("levels: [a, b]", "bounds: [0, 1]")),
    (MONTHS, "numbers", r"text, dates or times in column 'day'.*int64: declare the `format`"),
]


@pytest.mark.parametrize(("attributes", "column", "reason"), REFUSED)
def test_stored_types_are_refused_where_another_is_declared(attributes, column, reason, tmp_path):
    columns = {**STORED, "numbers": pa.array([1], pa.int64())}
    (tmp_path / "rows").mkdir()
    for parts, spec_of_parts, words in (
        ([column], attributes, reason),
        (["seconds", "placed"], MONTHS, "times with a zone in all parts"),
    ):
        spec = written_spec(tmp_path, spec_of_parts, source="{kind: parquet, path: rows}")
        for number, part in enumerate(parts):
            table = pa.table({"day": columns[part][:0]})
            pq.write_table(table, tmp_path / "rows" / f"{number}.parquet")
        with pytest.raises(SourceError, match=words):
            read_source(spec)


def test_checks_see_the_same_numbers_as_preparation(tmp_path):
    attributes = (
        '{fare: {bounds: [0, 50], decimal: ","}, '
        "day: {type: date, bounds: [2026-01-01, 2026-12-31]}, part: {bounds: [0, 23]}}"
    )
    spec = written_spec(tmp_path, attributes, more="derive: {part: {hour: at}}")
    rows = {"fare": ["6,38", "6.38"], "day": ["2026-10-05", "x"], "at": ["2026-10-05T14:30", "?"]}
    frame = row_frame(spec, read_stage(ingested(tmp_path, rows), "ingested"))
    assert frame["fare"].tolist()[0] == 6.38
    assert frame["day"].tolist()[0] == numbers_in(spec.domain["day"], texts("2026-10-05"))[0]
    assert frame["part"].tolist()[0] == 14
    assert frame.iloc[1].isna().all()


DERIVED = {
    "{hour: at}": [14.0, None, None],
    "{hour: at, zone: Europe/Zurich}": [16.0, None, None],
    "{weekday: at}": [1.0, None, None],
    "{month: at}": [10.0, None, None],
    "{year: at}": [2026.0, None, None],
    "{difference: [at, since], unit: hours}": [14.5, None, None],
    "{difference: [x, y]}": [5.5, None, None],
    '{product: [x, "0.5"]}': [3.25, -4.0, None],
    "{product: [z, 2]}": [13.0, None, None],
    "{prefix: [code, 2]}": ["CH", "D", None],
    "{prefix: [z, 1]}": ["6", None, None],
}
"""Of a word for nothing, as they are in z, nothing is derived."""


@pytest.mark.parametrize("function", DERIVED)
def test_a_derived_column_is_a_function_of_one_row(function, tmp_path):
    form = (
        "{levels: [CH, '6'], nullable: true}" if "prefix" in function else "{bounds: [-99, 2999]}"
    )
    more = f"derive: {{made: {function}}}\nreading: {{decimal: ',', missing: ['?', ' n/a ', '-9']}}"
    spec = written_spec(tmp_path, f"{{made: {form}}}", more=more)
    table = pa.table(ROWS | {"z": ["6,5", "-9", "n/a"]})
    assert column_of(spec.domain["made"], table).to_pylist() == DERIVED[function]


def decoded(spec: DatasetSpec, name: str, drawn: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(0)
    return decode_columns(drawn[:, None], (name,), spec.domain, rng)[name]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Zurich"])
@pytest.mark.parametrize("format_", ["", "%d.%m.%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S %z"])
def test_synthetic_times_have_the_code_they_were_drawn_from(zone, format_, tmp_path):
    """Of a summer: in autumn one hour stands on a clock twice."""
    form = f'format: "{format_}", ' if format_ else ""
    attributes = (
        f"{{at: {{type: timestamp, bounds: [2026-06-01, 2026-06-30], {form}zone: {zone}, "
        "every: day, nullable: true}}"
    )
    spec = written_spec(tmp_path, attributes)
    drawn = np.repeat(np.arange(31), 20)
    times = decoded(spec, "at", drawn)
    again = codes(spec, pa.table({"at": times.tolist() if format_ else pa.array(times)}))
    assert again["at"] == drawn.tolist()
    assert format_ or times.dtype == np.dtype("datetime64[s]")


def test_synthetic_dates_are_days_inside_the_bounds(tmp_path):
    attributes = "{day: {type: date, bounds: [2026-01-01, 2026-02-01], every: month}}"
    dates = decoded(written_spec(tmp_path, attributes), "day", np.repeat([0, 1], 200))
    assert dates.dtype == np.dtype("datetime64[D]")
    days = {date(2026, 1, 1) + timedelta(days=index) for index in range(31)}
    assert set(dates[:200].tolist()) == days
    assert set(dates[200:].tolist()) == {date(2026, 2, 1)}


ENDS = ["0001-01-01T00:00Z", "9999-12-31T23:59Z", "9999-12-31", "0001-01-01T00:00+14:00"]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_the_ends_of_the_calendar_are_no_error_in_any_zone(zone, tmp_path):
    attributes = (
        "{at: {type: timestamp, bounds: [2000-01-01, 2030-12-31], bins: 2, nullable: true}, "
        "day: {type: date, column: at, bounds: [2000-01-01, 2030-12-31], bins: 2, nullable: true}, "
        "hour: {levels: 0..23, nullable: true}}"
    )
    more = f"derive: {{hour: {{hour: at}}}}\nreading: {{zone: {zone}}}"
    spec = written_spec(tmp_path, attributes, more=more)
    assert spec.columns == ("at", "at", "at")
    assert set(codes(spec, {"at": [*ENDS, "2026-10-05"]})["at"]) == {1, 2}


@given(st.text(max_size=30))
def test_no_text_is_an_error(text):
    for clock in (Clock("date"), Clock("timestamp", "Europe/Zurich", "%d.%m.%Y %H:%M:%S.%f %z")):
        assert isinstance(clock.number(text), int | None)


def test_missing_dates_of_a_release_are_stored_and_read_again(tmp_path):
    columns = {
        "day": np.array(["2026-10-05", "NaT"], dtype="datetime64[D]"),
        "at": np.array(["2026-10-05T14:30", "NaT"], dtype="datetime64[s]"),
        "all": np.array(["2026-10-05T14:30", "2026-10-06"], dtype="datetime64[s]"),
    }
    _write_table(tmp_path / "a.parquet", columns)
    again = read_parquet((tmp_path / "a.parquet").read_bytes())
    assert table_digest(again) == table_digest(columns)
    for name, column in columns.items():
        assert again[name].dtype == column.dtype
    types = [str(field.type) for field in pq.read_schema(tmp_path / "a.parquet")]
    assert types == ["date32[day]", "timestamp[ms]", "timestamp[ms]"]
