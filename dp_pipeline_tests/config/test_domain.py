"""Names, boxes, distance and digest of what is measured, declared and discovered."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import Discover, DiscoveredAttribute, DiscoveredDomain
from dp_pipeline.config.domain import Domain, Protection, Undeclared
from dp_pipeline.config.encoding import (
    COORDINATE_BITS,
    INVALID,
    MAX_BOUND,
    Bins,
    Coordinate,
    Levels,
    _spelling,
    is_degrees,
    is_interval,
    metres_per_unit,
    normal_text,
    one_hot,
    point_of,
)
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.models import build_model
from dp_pipeline_tests.config.declarations import loaded, with_attribute
from dp_pipeline_tests.config.mistakes import GOOD


def test_a_domain_knows_names_sizes_and_boxes(tmp_path):
    domain = loaded(tmp_path).domain
    assert domain.names == tuple(attribute.name for attribute in domain)
    assert domain.numeric == ("x", "age")
    assert domain.discrete == ("age", "colour")
    assert domain.shape(("colour", "age")) == (3, 4)
    assert (domain.cell_count(("colour", "age")), domain.cell_count(())) == (12, 1)
    assert domain.shape(()) == ()
    box = domain.box(("age", "x"))
    assert [(axis.lower, axis.upper) for axis in box] == [(0, 100), (0, 8)]
    # A missing value is the last cell and no coordinate.
    domain = loaded(tmp_path, attributes=ATTRIBUTES).domain
    assert (domain.numeric, domain.discrete) == (("x",), ("age", "colour"))
    assert (domain.shape(("age", "colour")), domain.cell_count(("age", "colour"))) == ((3, 3), 9)
    assert domain["age"].labels() == ("[0, 4)", "[4, 8]", "missing")
    assert domain["colour"].labels() == ("red", "green", "missing")
    assert [domain[name].missing_code for name in ("age", "colour")] == [2, 2]


ATTRIBUTES = (
    "attributes:\n  x: {bounds: [0, 8]}\n  age: {bounds: [0, 8], bins: 2, nullable: true}\n"
    "  colour: {levels: [red, green], nullable: true}"
)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda domain: domain["income"], "no attribute 'income': it declares x, age"),
        (lambda domain: domain.shape(("x",)), "has bounds but no cells: declare bins or edges"),
        (lambda domain: domain["x"].labels(), "has bounds but no cells: declare bins or edges"),
        (lambda domain: domain.box(("colour",)), "'colour' must be a number with"),
        (lambda domain: domain.box(("age",)), "'age' may be missing, which is not allowed"),
        (lambda domain: domain["x"].missing_code, "for missing values: declare `nullable: true`"),
    ],
)
def test_what_a_domain_does_not_have_is_refused_by_name(ask, words, tmp_path):
    with pytest.raises(DeclarationError, match=words):
        ask(loaded(tmp_path, attributes=ATTRIBUTES).domain)


@pytest.mark.parametrize(("protection", "rows"), [(Protection(), 1), (Protection("user", 20), 20)])
@pytest.mark.parametrize(("relation", "units"), [("add_remove", 1), ("replace_one", 2)])
def test_neighbours_differ_by_the_rows_of_one_or_two_units(protection, rows, relation, units):
    spec = DatasetSpec.of_domain("x", Domain(()), protection=protection, relation=relation)
    assert spec.distance == rows * units


COST = "discover: {epsilon: 0.1, delta: 0.000000001}"
PURE = "discover: {epsilon: 0.1}"


def with_odd(folder: Path, odd: str, cost: str | None = PURE, **more: str | None) -> DatasetSpec:
    """The small file with an attribute ``odd`` more."""
    return loaded(folder, attributes=with_attribute(odd), discover=cost, **more)


def odd_of(**fields) -> DiscoveredDomain:
    return DiscoveredDomain((("odd", DiscoveredAttribute(**fields)),))


@pytest.mark.parametrize(
    ("odd", "open_"),
    [
        ("{bounds: discover}", Undeclared(None, True)),
        ("{bounds: discover, unit: 0.5}", Undeclared(None, True, unit=0.5)),
        ("{bounds: discover, bins: 8}", Undeclared(None, True, bins=8)),
        ("{bounds: discover, bins: {quantiles: 8}}", Undeclared(None, True, 8)),
        ("{bounds: [0, 9], bins: {quantiles: 8}, unit: 0.1}", Undeclared(None, False, 8, unit=0.1)),
    ],
)
def test_a_number_may_leave_bounds_and_quantiles_open(tmp_path, odd, open_):
    spec = with_odd(tmp_path, odd)
    assert spec.domain["odd"].undeclared == open_
    assert spec.to_discover == ("odd",)
    assert spec.discover == Discover(epsilon="0.1", beta="0.000001")


def test_levels_may_be_left_open_and_rare_ones_go_to_other(tmp_path):
    for fields, expected in {
        "": ("other", "other", Undeclared(1000)),
        ", other: rare, at_most: 7": ("rare", "other", Undeclared(7)),
        ", on_invalid: drop": (None, "drop", Undeclared(1000)),
    }.items():
        odd = with_odd(tmp_path, f"{{levels: discover{fields}}}", COST).domain["odd"]
        assert (odd.other, odd.on_invalid, odd.undeclared) == expected


@pytest.mark.parametrize("odd", ["{levels: discover}", "{bounds: discover}"])
def test_the_cost_that_a_message_names_is_accepted(tmp_path, odd):
    with pytest.raises(DeclarationError, match="the cost of discovering odd") as refused:
        with_odd(tmp_path, odd, None)
    (cost,) = re.findall("`(discover: {.*})`", str(refused.value))
    assert with_odd(tmp_path, odd, cost).to_discover == ("odd",)


IN_LEVELS = "add 'other' to `levels`, in their file as a line"
WRONG_LEVELS = [
    (b"a\n", "", "got 1"),
    (b"a\na\n", "", "got 2 with 'a' twice"),
    (b"\xff\n", "", "expected a file of UTF-8 text"),
    (b"a\nb\n", ", other: other", IN_LEVELS),
    (b"a\nb\n", ", on_invalid: other", IN_LEVELS),
]


@pytest.mark.parametrize(("content", "odd", "words"), WRONG_LEVELS)
def test_levels_may_be_in_a_file_next_to_the_declaration(content, odd, words, tmp_path):
    (tmp_path / "levels.txt").write_bytes("\ufeffKöln\r\n Bonn \n\nother\n".encode())
    spec = with_odd(tmp_path, "{levels: {file: levels.txt}, other: other}", None)
    assert spec.domain["odd"].cells == Levels(("Köln", "Bonn", "other"))
    assert spec.to_discover == ()
    listed = with_odd(tmp_path, "{levels: [Köln, Bonn, other], other: other}", None)
    assert spec.digest == listed.digest
    (tmp_path / "levels.txt").write_bytes(content)
    with pytest.raises(DeclarationError, match=words):
        with_odd(tmp_path, f"{{levels: {{file: levels.txt}}{odd}}}", None)


def test_levels_of_a_part_may_be_in_a_file(tmp_path):
    (tmp_path / "levels.txt").write_text("f\nm\n", encoding="utf-8")
    parts = "parts: {persons: {at_most: 3, attributes: {sex: {levels: {file: levels.txt}}}}}"
    spec = loaded(tmp_path, **GOOD["units"] | {"parts": parts})
    assert spec.domain["sex"].labels() == ("f", "m", "missing")


def test_what_is_not_discovered_yet_has_no_size_and_no_box(tmp_path):
    domain = with_odd(tmp_path, "{bounds: discover, bins: {quantiles: 8}}").domain
    odd, names = domain["odd"], ("odd",)
    assert "odd" in domain.discrete
    for ask in (
        lambda: odd.size,
        odd.labels,
        lambda: domain.shape(names),
        lambda: domain.box(names),
    ):
        with pytest.raises(DeclarationError, match="'odd' are still to be discovered") as error:
            ask()
        assert "\n" not in str(error.value)


def test_the_largest_domain_has_all_discoverable_cells(tmp_path):
    independent = "models:\n  independent:"  # no axis of a clustering
    for odd, cost, size in (
        ("{bounds: discover, bins: {quantiles: 8}, nullable: false}", PURE, 8),
        ("{bounds: discover, bins: {quantiles: 8}}", PURE, 9),
        ("{bounds: [0, 1], bins: {quantiles: 8}}", PURE, 9),
        ("{bounds: discover, bins: 5}", PURE, 6),
        ("{levels: discover, at_most: 7, nullable: true}", COST, 9),
    ):
        widest = with_odd(tmp_path, odd, cost, models=independent).widest
        assert (widest.domain["odd"].size, widest.to_discover) == (size, ())
    # Models are built, and so priced, on it.
    spec, declared = with_odd(tmp_path, "{bounds: discover, bins: 5}"), loaded(tmp_path)
    for name in spec.models:
        assert build_model(spec, name) == build_model(spec.widest, name)
    assert declared.widest is declared


def test_a_discovered_domain_becomes_a_declared_one(tmp_path):
    spec = with_odd(tmp_path, "{bounds: discover, bins: {quantiles: 4}, unit: 0.5}")
    discovered = odd_of(bounds=(-4.0, 8.0), edges=(0.5, 3.0))
    full = spec.with_domain(discovered)
    odd = full.domain["odd"]
    assert (odd.coordinate, odd.cells) == (Coordinate(-4.0, 8.0), Bins((-4.0, 0.5, 3.0, 8.0)))
    assert (full.to_discover, full.discovered) == ((), discovered)
    assert full.domain.names == spec.domain.names
    for odd, cost, fields, cells in (
        ("{bounds: discover, bins: 2}", PURE, {"bounds": (0.0, 8.0)}, Bins((0.0, 4.0, 8.0))),
        ("{levels: discover}", COST, {"levels": ("a",)}, Levels(("a", "other"))),
        ("{levels: discover}", COST, {"levels": ("other", "z")}, Levels(("other", "z"))),
    ):
        full = with_odd(tmp_path, odd, cost).with_domain(odd_of(**fields))
        assert full.domain["odd"].cells == cells


def test_discovered_domains_have_digests_of_their_own(tmp_path):
    spec = with_odd(tmp_path, "{bounds: discover}")
    full = [spec.with_domain(odd_of(bounds=(0.0, top))) for top in (8.0, 16.0)]
    assert len({spec.digest, *(each.digest for each in full)}) == 3
    assert {each.rows_digest for each in full} == {spec.digest} == {spec.rows_digest}
    by_hand = with_odd(tmp_path, "{bounds: [0, 8]}", None)
    assert full[0].domain == by_hand.domain
    assert full[0].digest != by_hand.digest
    costs = (PURE, "discover: {epsilon: 0.2}", "discover: {epsilon: 0.1, beta: 0.001}")
    assert len({with_odd(tmp_path, "{bounds: discover}", cost).digest for cost in costs}) == 3
    costs = (COST, COST.replace("delta: 0.000", "delta: 0.0001"))
    assert len({with_odd(tmp_path, "{levels: discover}", cost).digest for cost in costs}) == 2
    # Pieces change what is drawn, and so the release, but no measurement.
    spec = with_odd(tmp_path, "{bounds: discover, bins: {quantiles: 4}}")
    pieces = ((0.0, 3.0), (0.2, 1.0))
    plain, drawn = (spec.with_domain(odd_of(**BOX, edges=(0.5,), pieces=p)) for p in (None, pieces))
    assert plain.domain["odd"].measured == drawn.domain["odd"].measured
    assert drawn.domain["odd"].pieces == pieces
    assert plain.digest != drawn.digest


BOX = {"bounds": (0.0, 1.0)}
PIECES = [((0.1, 5.0),), ((0.0, 5.0), (1.0, 5.0)), ((0.0, 5.0), (0.5, 1.0), (0.4, 5.0))]


@pytest.mark.parametrize(
    "fields",
    [
        *({}, {"levels": ("a", "b")}, BOX, {"bounds": (1.0, 0.0), "edges": ()}),
        *(BOX | {"edges": edges} for edges in ((0.5, 0.2), (0.0,), (0.1, 0.2, 0.3, 0.4))),
        *(BOX | {"edges": (0.1,), "pieces": pieces} for pieces in (*PIECES, ((0.0, -5.0),))),
    ],
)
def test_discoveries_that_were_not_declared_are_refused(tmp_path, fields):
    spec = with_odd(tmp_path, "{bounds: discover, bins: {quantiles: 4}}")
    with pytest.raises(DeclarationError, match="attribute 'odd'"):
        spec.with_domain(odd_of(**fields))
    with pytest.raises(DeclarationError, match="to be discovered are odd, but"):
        spec.with_domain(DiscoveredDomain((("x", DiscoveredAttribute(**BOX)),)))


numbers = st.floats(allow_nan=False, allow_infinity=False)
discoveries = st.one_of(
    st.builds(DiscoveredAttribute, bounds=st.tuples(numbers, numbers), edges=st.none()),
    st.builds(
        DiscoveredAttribute,
        bounds=st.none(),
        edges=st.lists(numbers).map(tuple),
        pieces=st.none() | st.lists(st.tuples(numbers, numbers)).map(tuple),
    ),
    st.builds(DiscoveredAttribute, levels=st.lists(st.text()).map(tuple)),
)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text(), discoveries), unique_by=lambda pair: pair[0]))
def test_facts_are_read_again_to_the_last_digit(attributes):
    domain = DiscoveredDomain(tuple(attributes))
    again = DiscoveredDomain.from_facts(json.loads(json.dumps(domain.to_facts())))
    assert again == domain
    assert again.digest == DiscoveredDomain(tuple(reversed(attributes))).digest


DAMAGED = ["", "[]", "{", '{"bounds": [1]}', '{"bounds": ["a", "b"]}', '{"more": []}']
DAMAGED += [f'{{"pieces": {pieces}}}' for pieces in ("[1]", "[[1.0]]", '[["a", 1.0]]')]


@pytest.mark.parametrize("text", [*DAMAGED, '{"levels": [1]}'])
def test_facts_that_were_not_written_are_damaged(text):
    with pytest.raises(Damaged, match="The discovered attribute 'odd' must be stored"):
        DiscoveredDomain.from_facts({"odd": text})


ONE = 1 << COORDINATE_BITS
fuzz = settings(max_examples=80)


@st.composite
def intervals(draw: st.DrawFn) -> tuple[float, float]:
    """Bounds that a declaration may have."""
    numbers = st.floats(-MAX_BOUND, MAX_BOUND) | st.integers(-100, 100).map(float)
    low, high = sorted((draw(numbers), draw(numbers)))
    assume(is_interval(low, high))
    return low, high


@st.composite
def with_values(draw: st.DrawFn) -> tuple[tuple[float, float], np.ndarray]:
    """Bounds, and values inside them in order, with both ends."""
    low, high = draw(intervals())
    inside = draw(st.lists(st.floats(low, high), max_size=8))
    return (low, high), np.array([low, *sorted(inside), high])


@st.composite
def bins(draw: st.DrawFn) -> Bins:
    """Equal or free cells between bounds."""
    low, high = draw(intervals())
    if draw(st.booleans()):
        equal = Bins.equal_width(low, high, draw(st.integers(1, 20)))
        assume(len(set(equal.edges)) == len(equal.edges))
        return equal
    inner = draw(st.lists(st.floats(low, high), max_size=6, unique=True))
    return Bins((low, *sorted(x for x in inner if low < x < high), high))


@fuzz
@given(values=st.lists(st.text(max_size=5), min_size=2, unique=True), other=st.text(max_size=5))
def test_the_code_of_a_level_is_its_position(values, other):
    # White space around a text and the way a number is spelt make no other level.
    forms = {_spelling(normal_text(value)) for value in values}
    assume(other in values or _spelling(normal_text(other)) not in forms)
    levels = Levels(tuple(values))
    codes = levels.encode(np.array([*values, other], dtype=object))
    assert codes[:-1].tolist() == list(range(levels.size))
    assert codes[-1] == (values.index(other) if other in values else INVALID)
    assert levels.encode(np.array([], dtype=object)).shape == (0,)
    assert levels.labels() == tuple(values)


@fuzz
@given(cells=bins(), shares=st.lists(st.floats(0, 1), max_size=8))
def test_a_value_has_the_code_of_its_half_open_cell(cells, shares):
    low, high = cells.edges[0], cells.edges[-1]
    values = np.array([*cells.edges, *(np.clip(low + s * (high - low), low, high) for s in shares)])
    codes = cells.encode(values)
    for value, code in zip(values, codes, strict=True):
        assert 0 <= code < cells.size
        assert cells.edges[code] <= value <= cells.edges[code + 1]
        assert value < cells.edges[code + 1] or (value == high and code == cells.size - 1)
    outside = [np.nextafter(low, -np.inf), np.nextafter(high, np.inf), -np.inf, np.inf, np.nan]
    assert (cells.encode(np.array(outside)) == INVALID).all()


@fuzz
@given(cells=bins())
def test_labels_have_edges_of_six_digits_or_exact_ones(cells):
    labels = cells.labels()
    assert len(labels) == len(set(labels)) == cells.size
    assert [label[-1] for label in labels] == [*")" * (cells.size - 1), "]"]
    ends = [label[1:-1].split(", ") for label in labels]
    assert all(float(low) < float(high) for low, high in ends)
    edges, texts = [f"{edge:g}" for edge in cells.edges], [*(low for low, _ in ends), ends[-1][1]]
    if len(set(edges)) == len(edges):
        assert texts == edges
    else:
        assert [float(text) for text in texts] == list(cells.edges)


@fuzz
@given(interval=intervals(), count=st.integers(1, 1000))
def test_bins_of_equal_width_end_exactly_at_the_bounds(interval, count):
    edges = Bins.equal_width(*interval, count).edges
    assert (edges[0], edges[-1], len(edges)) == (*interval, count + 1)
    for bounds in ((0.0, 0.0), (1.0, 0.0), (0.0, 1e16), (0.0, 1e-200), (1e15, 1e15 + 1024)):
        assert not is_interval(*bounds)


@fuzz
@given(case=with_values())
def test_coordinates_are_monotone_and_decoded_within_half_a_unit(case):
    (low, high), values = case
    coordinate = Coordinate(low, high)
    codes = coordinate.encode(values)
    assert codes.dtype == np.int64
    assert (np.diff(codes) >= 0).all()
    assert (codes[0], codes[-1]) == (-ONE, ONE)
    back = coordinate.decode(codes)
    # The last places of the value itself, where one unit is hardly more than that.
    rounding = 4 * np.spacing(max(abs(low), abs(high)))
    assert (np.abs(back - values) <= coordinate.half_width / ONE / 2 + rounding).all()
    assert ((back >= low) & (back <= high)).all()


@fuzz
@given(interval=intervals(), value=st.floats(allow_nan=False), far=st.floats(-1e9, 1e9))
def test_outside_the_box_means_on_its_edge(interval, value, far):
    low, high = interval
    coordinate = Coordinate(low, high)
    code = int(coordinate.encode(np.array([value]))[0])
    assert -ONE <= code <= ONE
    assert code == -ONE or value > low
    assert code == ONE or value < high
    assert low <= coordinate.decode(np.array([far]))[0] <= high


@fuzz
@given(codes=st.lists(st.integers(0, 6), max_size=9))
def test_a_one_hot_row_has_one_bit_at_its_code(codes):
    bits = one_hot(np.array(codes, dtype=np.int64), 7)
    assert bits.shape == (len(codes), 7)
    assert (bits.sum(axis=1) == 1).all()
    assert bits.argmax(axis=1).tolist() == codes


LON, LAT = Coordinate(8.4, 8.6), Coordinate(47.3, 47.5)


POINTS = [
    *((f"{y} {x}", (x, y)) for x, y in (("lon", "lat"), ("Longitude", "Latitude"), ("lng", "lat"))),
    *((f"{y} {x}", (x, y)) for x, y in (("x", "y"), ("easting", "northing"))),
    ("pickup_lat drop_lat drop_lon pickup_lon", ("drop_lon", "drop_lat")),
    ("lat_deg lon_deg fare", ("lon_deg", "lat_deg")),
    *((names, None) for names in ("pickup_lat drop_lon", "height width", "x1 x2")),
    *((names, None) for names in ("lat", "lat_lon lon_lat")),
]


@pytest.mark.parametrize(("names", "point"), POINTS)
def test_names_of_coordinates_say_what_runs_to_the_right(names, point):
    assert point_of(names.split()) == point
    # A declared point decides where both of it are there.
    assert point_of(["lat", "lon"], ("lat", "lon")) == ("lat", "lon")
    assert point_of(["lat", "lon"], ("easting", "northing")) == ("lon", "lat")


EARTH = (Coordinate(-180, 180), Coordinate(-90, 90))
PLACE = ("lon", "lat")
NO_METRES = [
    (("x", "y"), (LON, LAT)),
    (PLACE, (Coordinate(0, 600_000), Coordinate(0, 200_000))),
    *((PLACE, (LON, Coordinate(*bounds))) for bounds in ((80, 89), (-90, -88), (41.5, 52.5))),
]


def test_a_high_box_has_no_metres_per_degree():
    for point, box in (*NO_METRES, (PLACE, EARTH)):
        assert metres_per_unit(point, box) is None
    # One as high as one length of a degree holds has.
    for bounds in ((42, 52), (-52, -42), (79, 81), (-25, 25)):
        assert metres_per_unit(PLACE, (LON, Coordinate(*bounds))) is not None
    assert is_degrees(PLACE, EARTH)
    assert not is_degrees(PLACE, (LON, Coordinate(0, 91)))
    # A degree of longitude is shorter than one of latitude.
    metres = metres_per_unit(PLACE, (LON, LAT))
    assert metres.y == pytest.approx(111_195, abs=1)
    assert metres.x == pytest.approx(75_265, abs=1)
    assert metres.x < metres.together < metres.y
