"""The digest changes with every declaration that changes a measurement, and with no other."""

from datetime import date, timedelta

import pytest

from dp_pipeline.config.clock import Clock, ClockBins
from dp_pipeline.config.parser import load_spec
from dp_pipeline_tests.config.declarations import FIELDS, declaration, loaded, written
from dp_pipeline_tests.raw.written import written_spec

EVALUATION = "evaluation: {epsilon: 0.01}"
TARGETS = "targets: {colour: {positive: [red]}}"
CLOSED = "blue, nullable: false}"
EXPECTATION = "{type: expect_column_values_to_match_regex, column: colour, regex: r}"
ROOM = "ceiling: {total: 9}"
MISSING = ("['?', '-']", "['-', '?', '-']")

MEASURED = [
    *(("[0, 8]", more) for more in ("[0, 9]", "[0, 8], on_invalid: drop", "[0, 8], column: lon")),
    *(("bins: 4", more) for more in ("bins: 5", "edges: [30]")),
    ("bins: 4, nullable: false", "bins: 4, nullable: true"),
    *(("green", "grey"), ("red, green", "green, red"), ("other: blue", "other: red")),
    (CLOSED, "blue, nullable: false, aliases: {rot: red}}"),
    *((CLOSED, more) for more in ("blue}", "blue, missing: ['?']}", "blue, missing: ['?', '-']}")),
    (CLOSED, f"{CLOSED}\n  odd: {{levels: [a, b]}}"),
    *(("at_most: 3", "at_most: 4"), ("column: person", "column: rider")),
]
"""Text of the declaration → another text."""

MEASURED_FIELDS = [
    {"protection": "protection: {unit: one_row}"},
    {"relation": "relation: replace_one"},
    {"label": "label: colour", "evaluation": EVALUATION},
    {"evaluation": EVALUATION, "ceiling": ROOM, "targets": TARGETS},
    *({"delta": f"delta: {delta}"} for delta in ("1e-9", "1e-8")),
    {"rule": "on_invalid: drop"},
]
NOT_MEASURED = [
    {"title": "title: Others", "description": "description: Others."},
    {"partitions": "partitions: [0.1, 0.5, 1]", "ceiling": ROOM},
    {"models": "models: {eug_kmeans: {k: 3}}"},
    {"publish": "publish: {model: independent, epsilon: 1}", "refresh": "refresh: weekly"},
    {"evaluation": EVALUATION},
    {"label": "label: colour"},
    {"targets": TARGETS},
    {"one_hot": "one_hot: true", "point": "point: [x, age]"},
    {"source": "source: {kind: csv, path: moved.csv}"},
    {"attributes": FIELDS["attributes"].replace("bins: 4", "bins: 4, integer: true")},
    {"ceiling": "ceiling: {total: 9, per_month: 2}"},
    {"updates": "updates: public", "owners": "owners: ['team:privacy']"},
    {"usable": "usable: 0.9"},
    {"expectations": f"expectations: [{EXPECTATION}]"},
]


def test_every_change_of_a_measurement_has_its_own_digest(tmp_path):
    texts = [declaration().replace(*change) for change in MEASURED]
    texts += [declaration(**fields) for fields in MEASURED_FIELDS]
    digests = [load_spec(written(tmp_path, text)).digest for text in (declaration(), *texts)]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("fields", NOT_MEASURED, ids=" ".join)
def test_no_other_declaration_changes_the_digest(fields, tmp_path):
    changed = loaded(tmp_path, **fields)
    assert changed != loaded(tmp_path)
    assert changed.digest == loaded(tmp_path).digest


def test_the_digest_has_its_spelling_from_the_value(tmp_path):
    texts = [declaration().replace(CLOSED, f"blue, missing: {words}}}") for words in MISSING]
    assert len({load_spec(written(tmp_path, text)).digest for text in texts}) == 1
    assert loaded(tmp_path, rule="on_invalid: keep").digest == loaded(tmp_path).digest
    assert "on_invalid" not in declaration()
    deltas = ("delta: 0.000000001", "delta: 1e-9")
    assert len({loaded(tmp_path, delta=delta).digest for delta in deltas}) == 1
    # A k-anonymous release changes no digest and no cost.
    fields = {"protection": "protection: {unit: one_row}", "label": "label: colour"}
    section = "k_anonymity: {methods: {kjig: }, diversity: 2}"
    plain = loaded(tmp_path, **fields)
    more = loaded(tmp_path, **fields, allow="allow_not_dp: true", k_anonymity=section)
    assert (plain.digest, plain.cost_of_everything) == (more.digest, more.cost_of_everything)
    # Checks on rows have a digest of their own.
    expecting = {"expectations": f"expectations: [{EXPECTATION}]"}
    checks = [{}, {"usable": "usable: 1"}, {"usable": "usable: 0.9"}, expecting]
    plain, same, *others = (loaded(tmp_path, **each).checks_digest for each in checks)
    assert plain == same == ""
    assert len({plain, *others}) == 3


OCTOBER = "type: timestamp, bounds: [2026-10-01, 2026-10-31]"


PLAIN = "x: {bounds: [0, 9], bins: 3}, t: {levels: [a, b]}"


def test_how_cells_are_read_is_part_of_what_is_measured(tmp_path):
    def digest_of(attributes, more=""):
        return written_spec(tmp_path, f"{{{attributes}}}", more=more).digest

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
    assert len({digest_of(*pair) for pair in pairs}) == len(pairs)
    # To say what is done anyway is none.
    again = digest_of(PLAIN, 'reading: {decimal: ".", missing: [""], zone: UTC}')
    assert again == digest_of(PLAIN)


def test_a_date_as_upper_bound_is_all_of_its_day(tmp_path):
    spec = written_spec(tmp_path, f"{{t: {{{OCTOBER}, bins: 31, nullable: false}}}}")
    assert spec.domain["t"].range == ("2026-10-01", "2026-10-31T23:59:59")
    assert spec.domain["t"].labels()[0] == "[2026-10-01, 2026-10-02)"
    assert spec.domain["t"].labels()[-1] == "[2026-10-31, 2026-10-31T23:59:59]"
    # Bins of different clocks are not equal.
    clocks = (Clock("timestamp", "Europe/Zurich"), Clock("timestamp"))
    zurich, utc = (ClockBins.equal(clock, 0, 9, 2) for clock in clocks)
    assert zurich.edges == utc.edges
    assert zurich != utc


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
    assert bins.edges[:-1] == tuple((day - epoch).days for day in begin)
    assert (last - epoch).days < bins.edges[-1] < (last - epoch).days + 1
