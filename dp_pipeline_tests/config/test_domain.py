"""Names, sizes, boxes, distance and the digest of what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from dp_pipeline.config.domain import OneRow, RowsOfPerson, distance
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline_tests.config.declarations import loaded


def test_a_domain_knows_names_sizes_and_boxes(tmp_path: Path) -> None:
    domain = loaded(tmp_path).domain
    assert domain.names == tuple(attribute.name for attribute in domain)
    assert domain.numeric == ("x", "age")
    assert domain.discrete == ("age", "colour")
    assert domain.shape(("colour", "age")) == (3, 4)
    assert (domain.cell_count(("colour", "age")), domain.cell_count(())) == (12, 1)
    assert domain.shape(()) == ()
    assert [(coordinate.lower, coordinate.upper) for coordinate in domain.box(("age", "x"))] == [
        (0, 100),
        (0, 8),
    ]


def test_what_a_domain_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    domain = loaded(tmp_path).domain
    with pytest.raises(
        DeclarationError, match="The data set has no attribute 'income': it declares x, age"
    ):
        domain["income"]
    with pytest.raises(
        DeclarationError, match="has bounds but no cells: declare bins or edges for it"
    ):
        domain.shape(("x",))
    with pytest.raises(DeclarationError, match="'colour' must be a number with"):
        domain.box(("colour",))


@pytest.mark.parametrize(
    ("protection", "relation", "rows"),
    [
        (OneRow(), "add_remove", 1),
        (OneRow(), "replace_one", 2),
        (RowsOfPerson("user", 20), "add_remove", 20),
        (RowsOfPerson("user", 20), "replace_one", 40),
    ],
)
def test_neighbours_differ_by_the_rows_of_one_or_two_units(protection, relation, rows: int) -> None:
    assert distance(protection, relation) == rows


def test_a_missing_value_is_the_last_cell_and_no_coordinate(tmp_path: Path) -> None:
    lines = (
        "attributes:\n  x: {bounds: [0, 8]}\n  age: {bounds: [0, 8], bins: 2, nullable: true}\n"
        "  colour: {levels: [red, green], nullable: true}"
    )
    domain = loaded(tmp_path, attributes=lines).domain
    assert (domain.numeric, domain.discrete) == (("x",), ("age", "colour"))
    assert (domain.shape(("age", "colour")), domain.cell_count(("age", "colour"))) == ((3, 3), 9)
    assert domain["age"].labels() == ("[0, 4)", "[4, 8]", "missing")
    assert domain["colour"].labels() == ("red", "green", "missing")
    assert [domain[name].missing_code for name in ("age", "colour")] == [2, 2]
    with pytest.raises(
        DeclarationError, match="The attribute 'age' may be missing, which is not allowed"
    ):
        domain.box(("age",))
    with pytest.raises(
        DeclarationError, match="has no code for missing values: declare `nullable: true`"
    ):
        _ = domain["x"].missing_code
    with pytest.raises(
        DeclarationError, match="has bounds but no cells: declare bins or edges for it"
    ):
        domain["x"].labels()
