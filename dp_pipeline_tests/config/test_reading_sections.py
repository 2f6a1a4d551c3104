"""What a file may say of decimal signs, dates, zones and derived columns, and what it may not."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from dp_pipeline.config.clock import Clock, Every, Spans
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline_tests.raw.written import written_spec

HOUR = "derive: {hour: {hour: at}}"
OF_HOURS = "hour: {levels: 0..23}"
OCTOBER = "type: timestamp, bounds: [2026-10-01, 2026-10-31]"

MISTAKES = {
    "another decimal sign": ("x: {bounds: [0, 1], decimal: ;}", "", "attributes.x.decimal"),
    "two signs that are one": (
        'x: {bounds: [0, 1], decimal: ",", thousands: ","}',
        "",
        "attributes.x.thousands",
    ),
    "a point in both places": ('x: {bounds: [0, 1], thousands: "."}', "", "x.thousands"),
    "two signs of one column": (
        'x: {bounds: [0, 1], decimal: ","}, y: {bounds: [0, 1], column: x}',
        "",
        "attributes: expected one decimal sign of the column 'x'",
    ),
    "a sign of levels": ('x: {levels: [a, b], decimal: ","}', "", "attributes.x.decimal"),
    "a zone that is none": ("x: {levels: [a, b]}", "reading: {zone: Zurich}", "reading.zone"),
    "a zone outside of all": ("x: {levels: [a, b]}", "reading: {zone: ../x}", "reading.zone"),
    "an unknown key": ("x: {levels: [a, b]}", "reading: {comma: 1}", "reading.comma"),
    "bounds that are no dates": ("t: {type: date, bounds: [0, 1]}", "", "attributes.t.bounds"),
    "an impossible bound": ("t: {type: date, bounds: [2026-02-30, 2027-01-01]}", "", "t.bounds"),
    "bounds the wrong way": ("t: {type: date, bounds: [2027-01-01, 2026-01-01]}", "", "t.bounds"),
    "one day alone": ("t: {type: date, bounds: [2026-01-01, 2026-01-01]}", "", "t.bounds"),
    "three bounds": (f"t: {{{OCTOBER.replace('[', '[2026-01-01, ')}}}", "", "t.bounds"),
    "bounds to be decided": ("t: {type: date, bounds: [TODO, TODO]}", "", "t.bounds"),
    "another type": ("t: {type: time, bounds: [2026-01-01, 2027-01-01]}", "", "attributes.t.type"),
    "bins and every": (f"t: {{{OCTOBER}, bins: 3, every: day}}", "", "attributes.t.every"),
    "too many cells": (
        "t: {type: timestamp, bounds: [1900-01-01, 2026-10-31], every: hour}",
        "",
        "attributes.t.every",
    ),
    "more bins than days": (
        "t: {type: date, bounds: [2026-10-01, 2026-10-03], bins: 4}",
        "",
        "attributes.t.bins",
    ),
    "edges outside": (f"t: {{{OCTOBER}, edges: [2026-11-05]}}", "", "attributes.t.edges"),
    "an edge that is the lower bound": (f"t: {{{OCTOBER}, edges: [2026-10-01]}}", "", "t.edges"),
    "hours of dates": (
        "t: {type: date, bounds: [2026-10-01, 2026-10-31], every: hour}",
        "",
        "attributes.t.every",
    ),
    "a format without a year": (f't: {{{OCTOBER}, format: "%d.%m."}}', "", "attributes.t.format"),
    "a format with two years": (
        f't: {{{OCTOBER}, format: "%Y-%m-%d %Y"}}',
        "",
        "attributes.t.format",
    ),
    "a format with a name of a zone": (
        f't: {{{OCTOBER}, format: "%Y-%m-%d %H %Z"}}',
        "",
        "attributes.t.format",
    ),
    "a format of a place": (f't: {{{OCTOBER}, format: "%x"}}', "", "attributes.t.format"),
    "nullable without cells": (f"t: {{{OCTOBER}, nullable: true}}", "", "attributes.t.nullable"),
    "no function": (OF_HOURS, "derive: {hour: {zone: UTC}}", "derive.hour"),
    "two functions": (OF_HOURS, "derive: {hour: {hour: at, month: at}}", "derive.hour"),
    "a function that is none": (OF_HOURS, "derive: {hour: {minute: at}}", "derive.hour.minute"),
    "nobody reads it": ("x: {levels: [a, b]}", HOUR, "derive.hour"),
    "of a derived one": (
        f"{OF_HOURS}, x: {{bounds: [0, 1]}}",
        "derive: {hour: {hour: at}, x: {product: [hour, 2]}}",
        "derive.x",
    ),
    "a date of a derived one": (f"hour: {{{OCTOBER}}}", HOUR, "attributes.hour.type"),
    "a unit of a product": (
        "x: {bounds: [0, 1]}",
        "derive: {x: {product: [y, 2], unit: days}}",
        "derive.x.unit",
    ),
    "a zone of numbers": (
        "x: {bounds: [0, 1]}",
        "derive: {x: {difference: [y, z], zone: UTC}}",
        "derive.x.zone",
    ),
    "a factor that is none": ("x: {bounds: [0, 1]}", "derive: {x: {product: [y, z]}}", "derive.x"),
    "no letters": ("x: {levels: [a, b]}", "derive: {x: {prefix: [y, 0]}}", "derive.x"),
    "one column": ("x: {bounds: [0, 1]}", "derive: {x: {difference: [y]}}", "derive.x.difference"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_refused_in_one_line_with_its_field(case: str, tmp_path: Path) -> None:
    attributes, more, field = MISTAKES[case]
    with pytest.raises(DeclarationError) as refused:
        written_spec(tmp_path, f"{{{attributes}}}", more=more)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    assert field in message
    assert "expected" in message


def test_the_persons_column_cannot_be_derived_from(tmp_path: Path) -> None:
    more = "derive: {x: {prefix: [rider, 2]}}"
    persons = "{unit: rows_of_person, column: rider, at_most: 2}"
    with pytest.raises(DeclarationError, match="no attribute on the person's column 'rider'"):
        written_spec(tmp_path, "{x: {levels: [a, b]}}", more=more, protection=persons)


PLAIN = "x: {bounds: [0, 9], bins: 3}, t: {levels: [a, b]}"


def digest(folder: Path, attributes: str, more: str = "") -> str:
    spec: DatasetSpec = written_spec(folder, f"{{{attributes}}}", more=more)
    return spec.digest


def test_how_cells_are_read_is_part_of_what_is_measured(tmp_path: Path) -> None:
    """Each of them is another release."""
    said = [
        (PLAIN, ""),
        (PLAIN, 'reading: {decimal: ","}'),
        (PLAIN, 'reading: {thousands: ","}'),
        (PLAIN, "reading: {missing: [N/A]}"),
        (f"{PLAIN}, s: {{{OCTOBER}}}", ""),
        (f"{PLAIN}, s: {{{OCTOBER}}}", "reading: {zone: Europe/Zurich}"),
        (f"{PLAIN}, s: {{{OCTOBER}, every: day}}", ""),
        (f"{PLAIN}, s: {{{OCTOBER}, bins: 31}}", ""),
        (f'{PLAIN}, s: {{{OCTOBER}, format: "%d.%m.%Y"}}', ""),
        (PLAIN, "derive: {x: {product: [y, 2]}}"),
        (PLAIN, "derive: {x: {product: [y, 3]}}"),
        (PLAIN, "derive: {t: {prefix: [y, 3]}}"),
    ]
    assert len({digest(tmp_path, *one) for one in said}) == len(said)


def test_saying_what_is_done_anyway_is_not_another_release(tmp_path: Path) -> None:
    again = digest(tmp_path, PLAIN, 'reading: {decimal: ".", missing: [""], zone: UTC}')
    assert again == digest(tmp_path, PLAIN)


def test_a_date_as_upper_bound_is_all_of_its_day(tmp_path: Path) -> None:
    spec = written_spec(tmp_path, f"{{t: {{{OCTOBER}, bins: 31}}}}")
    assert spec.domain["t"].range == ("2026-10-01", "2026-10-31T23:59:59")
    assert spec.domain["t"].labels()[0] == "[2026-10-01, 2026-10-02)"
    assert spec.domain["t"].labels()[-1] == "[2026-10-31, 2026-10-31T23:59:59]"


@pytest.mark.parametrize(
    ("every", "first", "last", "many"),
    [
        ("year", "2024", "2027", 4),
        ("month", "2024-12", "2027-01", 26),
        ("week", "2025-W01", "2026-W53", 105),
        ("day", "2024-12-31", "2027-01-01", 732),
        ("hour", "2024-12-31T00", "2027-01-01T23", 732 * 24 - 2),
    ],
)
def test_cells_are_called_what_a_calendar_calls_them(
    every: str, first: str, last: str, many: int, tmp_path: Path
) -> None:
    """In Zurich one hour of each autumn is on the clocks twice, and one of each spring never."""
    form = f"type: timestamp, bounds: [2024-12-31, 2027-01-01], every: {every}"
    spec = written_spec(tmp_path, f"{{t: {{{form}, zone: Europe/Zurich}}}}")
    labels = spec.domain["t"].labels()
    assert (labels[0], labels[-1], len(labels)) == (first, last, many)
    assert len(set(labels)) == many


BEGINS = {
    "year": lambda day: (day.month, day.day) == (1, 1),
    "month": lambda day: day.day == 1,
    "week": lambda day: day.isoweekday() == 1,
    "day": lambda _: True,
}


@pytest.mark.parametrize("every", BEGINS)
def test_a_cell_begins_with_the_first_day_of_what_it_is_called(every: Every) -> None:
    first, last = date(2024, 12, 25), date(2026, 2, 2)
    days = [first + timedelta(days=at) for at in range((last - first).days + 1)]
    begin = [day for day in days if day == first or BEGINS[every](day)]
    epoch = date(1970, 1, 1)
    spans = Spans.periods(Clock("date"), (first - epoch).days, (last - epoch).days, every)
    assert spans is not None
    assert spans.edges[:-1] == tuple((day - epoch).days for day in begin)
    assert (last - epoch).days < spans.edges[-1] < (last - epoch).days + 1


def test_cells_that_differ_in_their_clock_alone_are_no_equals() -> None:
    clocks = (Clock("timestamp", "Europe/Zurich"), Clock("timestamp"))
    zurich, utc = (Spans.equal(one, 0, 9, 2) for one in clocks)
    assert zurich.edges == utc.edges
    assert zurich != utc
