"""Windows cut time without gaps, and a data set file says them in a few words."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.calendar import Period
from dp_pipeline.config.clock import DAY, Clock
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.sections import Publication
from dp_pipeline.config.windows import PERIODS, Windows
from dp_pipeline.releases.run_options import parse_request
from dp_pipeline_tests.config.declarations import loaded
from dp_pipeline_tests.config.mistakes import GOOD

# With an hour left out or shown twice at midnight, and a day that never was.
ZONES = ("UTC", "Europe/Zurich", "America/Havana", "America/Santiago", "Pacific/Apia", "Asia/Kabul")
FIRSTS = {"hour": "1990-01-01T00Z", "day": "1990-01-01", "week": "1990-W01"}
FIRSTS |= {"month": "1990-01", "quarter": "1990-Q1", "year": "1990"}


def cut(every: Period, zone: str = "UTC", first: str = "", grace: int = 0) -> Windows:
    return Windows("at", every, Clock("timestamp", zone), first or FIRSTS[every], grace)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


moments = st.integers(at("1990-02-01"), at("2049-12-01"))


@settings(max_examples=150)
@given(every=st.sampled_from(PERIODS), zone=st.sampled_from(ZONES), moment=moments)
@example(every="day", zone="Pacific/Apia", moment=at("2011-12-30T11:00"))
@example(every="day", zone="America/Santiago", moment=at("2026-09-06T04:00"))
@example(every="week", zone="America/Havana", moment=at("2026-11-01T05:30"))
def test_every_moment_lies_in_one_window_and_windows_touch(every, zone, moment):
    windows = cut(every, "UTC" if every == "hour" else zone)
    name = windows.name_at(moment)
    assert windows.start(name) <= moment < windows.end(name)
    assert windows.require(name) == name
    following = windows.following(name)
    assert windows.end(name) == windows.start(following)
    assert windows.preceding(following) == name


@pytest.mark.parametrize(
    ("every", "name", "start", "end"),
    [
        ("week", "2026-W53", "2026-12-28T00:00", "2027-01-04T00:00"),
        ("week", "2027-W01", "2027-01-04T00:00", "2027-01-11T00:00"),
        ("quarter", "2026-Q4", "2026-10-01T00:00", "2027-01-01T00:00"),
        ("month", "2028-02", "2028-02-01T00:00", "2028-03-01T00:00"),
        ("year", "2028", "2028-01-01T00:00", "2029-01-01T00:00"),
        ("hour", "2026-03-29T01Z", "2026-03-29T01:00", "2026-03-29T02:00"),
    ],
)
def test_a_window_is_half_open_between_two_dates_of_the_calendar(every, name, start, end):
    assert (cut(every).start(name), cut(every).end(name)) == (at(start), at(end))


def test_a_day_has_23_or_25_hours_when_clocks_change():
    days = cut("day", "Europe/Zurich")
    names = [*days.between("2026-03-28", "2026-03-30"), "2026-10-25"]
    assert [(days.end(name) - days.start(name)) // 3600 for name in names] == [24, 23, 24, 25]


@pytest.mark.parametrize(
    ("every", "name"),
    [
        *(("week", name) for name in ("2027-W53", "2026-W00", "2026-10-05")),
        *(("month", name) for name in ("2026-13", "2026-1")),
        *(("day", name) for name in ("2026-02-29", "٢٠٢٦-01-01")),
        *(("quarter", "2026-Q5"), ("hour", "2026-01-01T24Z"), ("year", "0000"), ("year", "../etc")),
    ],
)
def test_what_the_calendar_does_not_have_is_no_window(every, name):
    with pytest.raises(DeclarationError, match=f"window: expected a {every} such as"):
        cut(every).require(name)


def test_no_window_is_before_the_first_or_after_the_last():
    weeks = cut("week", first="2026-W05")
    assert weeks.require("2026-W05") == "2026-W05"
    assert weeks.preceding("2026-W05") is None
    with pytest.raises(DeclarationError, match="2026-W05, the first, or a later one, got 2026-W04"):
        weeks.parse_range("2026-W04..2026-W06")
    weeks = replace(cut("week", first="2026-W01"), last="2026-W03")
    assert weeks.closed(at("2027-01-01")) == ("2026-W01", "2026-W02", "2026-W03")
    assert weeks.closed(at("2027-01-01"), after="2026-W02") == ("2026-W03",)
    assert weeks.closed(at("2027-01-01"), after="2026-W03") == ()
    assert weeks.closed(at("2026-01-06")) == ("2026-W01",)
    assert weeks.parse_range("2026-W02..2026-W03") == ("2026-W02", "2026-W03")
    with pytest.raises(DeclarationError, match=r"2026-W03, the last, or .*, got 2026-W04"):
        weeks.parse_range("2026-W02..2026-W04")


def test_a_range_has_both_of_its_ends():
    assert cut("week").parse_range("2026-W52..2027-W01") == ("2026-W52", "2026-W53", "2027-W01")
    assert cut("week").parse_range("2026-W52") == ("2026-W52",)
    with pytest.raises(DeclarationError, match="from an earlier to a later one"):
        cut("week").parse_range("2026-W10..2026-W09")
    with pytest.raises(DeclarationError, match="at most 100,000"):
        cut("hour").parse_range("1990-01-01T00Z..2010-01-01T00Z")
    weeks = cut("week", first="2026-W52")
    assert weeks.ending_with("2027-W01", 3) == ("2026-W52", "2026-W53", "2027-W01")
    assert weeks.ending_with("2026-W52", 1) == ("2026-W52",)
    with pytest.raises(DeclarationError, match=r"4 windows up to 2027-W01 .* before 2026-W52"):
        weeks.ending_with("2027-W01", 4)
    with pytest.raises(DeclarationError, match="the first, or a later one"):
        weeks.ending_with("2026-W51", 1)


def test_a_window_is_closed_once_it_has_ended_and_its_grace_too():
    weeks = cut("week", first="2026-W01", grace=2 * DAY)
    closes = weeks.closing_time("2026-W02")
    assert closes == at("2026-01-14T00:00")
    assert weeks.closed(closes - 1) == ("2026-W01",)
    assert weeks.closed(closes) == ("2026-W01", "2026-W02")
    assert weeks.closed(closes, after="2026-W01") == ("2026-W02",)
    assert weeks.closed(closes, after="2026-W02") == ()
    assert weeks.closed(at("2020-01-01")) == ()


@pytest.mark.parametrize("windows", ["", "2126-W01", "2126-W01..2126-W02"])
def test_open_window_is_refused_with_the_time_of_its_reading(tmp_path, windows):
    later = WHOLE["windows"].replace("2026-W01", "2126-W01")
    spec, day = loaded(tmp_path, **{**WHOLE, "windows": later}), "2126-01-[0-9 :]+ UTC"
    last = windows[-8:] or "2126-W01"
    with pytest.raises(DeclarationError, match=f"{last} must be over, .* released from {day} on"):
        parse_request(spec, windows=windows)


@pytest.mark.parametrize("every", PERIODS)
def test_windows_of_a_year_stay_below_the_stated_number(every):
    """2026 has 53 weeks that begin in it or are counted to it, 2028 a leap day."""
    windows, many = cut(every), []
    for year in ("2026", "2027", "2028"):
        ends = [at(f"{number}-01-01") for number in (year, int(year) + 1)]
        names = windows.between(windows.name_at(ends[0]), windows.name_at(ends[1] - 1))
        many.append(sum(name.startswith(year) for name in names))
    assert max(many) == windows.max_per_year


WHOLE = {name: GOOD["windows"][name] for name in ("windows", "protection", "publish", "ceiling")}


def test_a_file_declares_windows_with_a_limit_of_each(tmp_path):
    spec = loaded(tmp_path, **WHOLE)
    clock = Clock("timestamp", "Europe/Zurich")
    assert spec.windows == Windows("ended", "week", clock, "2026-W01", 36 * 3600)
    assert spec.within == "window"
    assert (spec.ceiling, spec.each_window) == (None, Fraction(2))
    assert spec.publications == (
        Publication(model="dpqt_kmeans", epsilon="0.5"),
        Publication(model="independent", epsilon="1"),
    )
    assert spec.cost_of_everything == Fraction(3, 2)
    assert "ended" in spec.columns
    assert "ended" in spec.time_columns
    assert str(spec.protection) == "at most 3 rows of a person in each week, column person"
    span = WHOLE["publish"].replace("1}", "1, span: 3}")
    several = loaded(tmp_path, **WHOLE | {"publish": span, "ceiling": "ceiling: {each_window: 4}"})
    assert [publication.span for publication in several.publications] == [1, 3]
    spans = (several.span_of("independent"), several.span_of("dpqt_kmeans"), several.max_span)
    assert spans == (3, 1, 3)
    assert several.cost_of_everything == Fraction(1, 2) + 3
    assert several.first_complete_window == "2026-W03"
    assert several.digest == spec.digest


def test_a_declaration_about_a_window_has_the_same_digest(tmp_path):
    spec = loaded(tmp_path, **WHOLE)
    week = spec.at_window("2026-W07")
    assert week.digest == spec.digest
    assert (week.blocks, spec.blocks) == (("2026-W07",), ())
    assert week.of_all_windows() == spec
    assert week.at_window("2026-W08").blocks == ("2026-W08",)
    with pytest.raises(DeclarationError, match="toy is read in windows, so --window must name"):
        spec.require_window()
    with pytest.raises(DeclarationError, match="expected a week such as"):
        spec.at_window("2026-10")


def test_the_partition_into_windows_is_in_the_digest(tmp_path):
    def digest(*changes):
        windows = WHOLE["windows"]
        for change in changes:
            windows = windows.replace(*change)
        return loaded(tmp_path, **WHOLE | {"windows": windows}).digest

    changed = [("ended", "began"), ("week", "week, format: '%d.%m.%Y'"), ("Europe/Zurich", "UTC")]
    digests = {digest(), *map(digest, changed)}
    assert len(digests) == 4
    assert digest(("2026-W01", "2026-W09"), ("36 hours", "5 days")) in digests


def test_a_source_has_a_file_or_a_query_for_each_window(tmp_path):
    files = loaded(tmp_path, **WHOLE, source="source: {kind: csv, path: 'weeks/{window}.csv'}")
    week = files.at_window("2026-W07").source
    assert week.location == str(tmp_path / "weeks" / "2026-W07.csv")
    assert week.identities == files.source.identities == (f"file:{tmp_path / 'weeks'}",)
    parts = loaded(tmp_path, **WHOLE, source="source: {kind: parquet, path: 'rides/week={window}'}")
    assert parts.source.identities == (f"file:{tmp_path / 'rides'}",)
    query = "SELECT x, started::end FROM rides WHERE at >= :start AND at < :end"
    source = f"source:\n  kind: sql\n  database: sqlite:///rides.db\n  query: {query}"
    sql = loaded(tmp_path, **WHOLE, source=source)
    zurich = sql.time_windows
    assert sql.at_window("2026-W07").source.query == (
        f"SELECT x, started::end FROM rides WHERE at >= {zurich.start('2026-W07')} "
        f"AND at < {zurich.end('2026-W07')}"
    )
