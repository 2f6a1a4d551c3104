"""What a file may say of decimal signs, dates, zones and derived columns, and what it may not."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from dp_pipeline.config.clock import Clock, ClockBins
from dp_pipeline_tests.raw.written import written_spec

OCTOBER = "type: timestamp, bounds: [2026-10-01, 2026-10-31]"


PLAIN = "x: {bounds: [0, 9], bins: 3}, t: {levels: [a, b]}"


def digest(folder: Path, attributes: str, more: str = "") -> str:
    return written_spec(folder, f"{{{attributes}}}", more=more).digest


def test_how_cells_are_read_is_part_of_what_is_measured(tmp_path):
    """Each of them is another release."""
    readings = ['{decimal: ","}', '{thousands: ","}', "{missing: [N/A]}"]
    functions = ["{x: {product: [y, 2]}}", "{x: {product: [y, 3]}}", "{t: {prefix: [y, 3]}}"]
    options = ["", ", every: day", ", bins: 31, nullable: false", ', format: "%d.%m.%Y"']
    pairs = [
        (PLAIN, ""),
        *((PLAIN, f"reading: {reading}") for reading in readings),
        *((PLAIN, f"derive: {function}") for function in functions),
        *((f"{PLAIN}, s: {{{OCTOBER}{more}}}", "") for more in options),
        (f"{PLAIN}, s: {{{OCTOBER}}}", "reading: {zone: Europe/Zurich}"),
    ]
    assert len({digest(tmp_path, *pair) for pair in pairs}) == len(pairs)


def test_saying_what_is_done_anyway_is_not_another_release(tmp_path):
    again = digest(tmp_path, PLAIN, 'reading: {decimal: ".", missing: [""], zone: UTC}')
    assert again == digest(tmp_path, PLAIN)


def test_a_date_as_upper_bound_is_all_of_its_day(tmp_path):
    spec = written_spec(tmp_path, f"{{t: {{{OCTOBER}, bins: 31, nullable: false}}}}")
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
def test_cells_are_called_what_a_calendar_calls_them(every, first, last, many, tmp_path):
    """In Zurich one hour of each autumn is on the clocks twice, and one of each spring never."""
    form = f"type: timestamp, bounds: [2024-12-31, 2027-01-01], every: {every}"
    spec = written_spec(tmp_path, f"{{t: {{{form}, zone: Europe/Zurich, nullable: false}}}}")
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
def test_a_calendar_bin_starts_on_its_first_day(every):
    first, last = date(2024, 12, 25), date(2026, 2, 2)
    days = [first + timedelta(days=index) for index in range((last - first).days + 1)]
    begin = [day for day in days if day == first or BEGINS[every](day)]
    epoch = date(1970, 1, 1)
    bins = ClockBins.periods(Clock("date"), (first - epoch).days, (last - epoch).days, every)
    assert bins is not None
    assert bins.edges[:-1] == tuple((day - epoch).days for day in begin)
    assert (last - epoch).days < bins.edges[-1] < (last - epoch).days + 1


def test_bins_with_different_clocks_are_not_equal():
    clocks = (Clock("timestamp", "Europe/Zurich"), Clock("timestamp"))
    zurich, utc = (ClockBins.equal(clock, 0, 9, 2) for clock in clocks)
    assert zurich.edges == utc.edges
    assert zurich != utc
