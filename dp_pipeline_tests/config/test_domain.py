"""Names, boxes, distance and digest of what is measured, declared and discovered."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import Discover, DiscoveredAttribute, DiscoveredDomain
from dp_pipeline.config.domain import Domain, OneRow, RowsOfPerson, Undeclared
from dp_pipeline.config.encoding import Bins, Coordinate, Levels
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.models import build_model
from dp_pipeline_tests.config.declarations import loaded, with_attribute


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


@pytest.mark.parametrize(("protection", "rows"), [(OneRow(), 1), (RowsOfPerson("user", 20), 20)])
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
    """A discovered domain of that attribute alone."""
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
    assert spec.discover == Discover(Fraction(1, 10), None, Fraction(1, 10**6))


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
