"""Codes become columns of the source again, and encoding them gives the same codes."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Coordinate, Levels, is_interval
from dp_pipeline.results.synthetic_table import decode_columns

SEX = Attribute("sex", "Sex", "drop", cells=Levels(("f", "m")))
WORK = Attribute("work", "Work", "drop", cells=Levels(("paid", "none")), nullable=True)


def numeric(name: str, *edges: float, column: str = "", **fields: Any) -> Attribute:
    box = Coordinate(edges[0], edges[-1])
    return Attribute(name, column or name, "clip", coordinate=box, cells=Bins(edges), **fields)


AGE = numeric("age", 0.0, 18.0, 100.0, is_integer=True)
RENT = numeric("rent", 0.0, 0.5, 800.0)
SPELL = numeric("spell", 0.0, 6.0, 12.0, is_integer=True, nullable=True)
HOMES = Domain((SEX, WORK, AGE, RENT, SPELL))


def columns(domain: Domain, *rows: tuple[int, ...], seed: int = 1) -> dict[str, np.ndarray]:
    codes = np.array(rows, dtype=np.int64).reshape(len(rows), len(domain.names))
    return decode_columns(codes, domain.names, domain, np.random.default_rng(seed))


def encoded(attribute: Attribute, values: np.ndarray) -> list[int]:
    """What preparation would make of these values."""
    kind = float if isinstance(attribute.cells, Bins) else object
    return [
        attribute.missing_code
        if value is None
        else int(attribute.cells.encode(np.array([value], dtype=kind))[0])
        for value in values.tolist()
    ]


def test_every_column_comes_back_with_name_type_and_codes():
    table = columns(HOMES, (0, 0, 0, 0, 0), (1, 2, 1, 1, 2), (0, 1, 1, 0, 1))
    assert list(table) == ["Sex", "Work", "age", "rent", "spell"]
    assert table["Sex"].tolist() == ["f", "m", "f"]
    assert table["Work"].tolist() == ["paid", None, "none"]
    assert table["spell"][1] is None
    assert [column.dtype.kind for column in table.values()] == ["U", "O", "i", "f", "O"]
    assert [type(column) for column in (*table["Work"][:1], *table["spell"][:1])] == [str, int]
    assert encoded(AGE, table["age"]) == [0, 1, 1]
    assert encoded(RENT, table["rent"]) == [0, 1, 0]
    assert encoded(SPELL, table["spell"]) == [0, 2, 1]


@pytest.mark.parametrize("rows", [[(0, 0, 0, 0, 0), (1, 1, 1, 1, 1)], []])
def test_columns_without_a_missing_value_have_plain_types(rows: list[tuple[int, ...]]):
    table = columns(HOMES, *rows)
    assert [values.dtype.kind for values in table.values()] == ["U", "U", "i", "f", "i"]
    assert {len(values) for values in table.values()} == {len(rows)}


def test_columns_come_in_declared_order_with_own_names():
    codes = np.array([[1, 1], [0, 0]])
    table = decode_columns(codes, ("age", "sex"), HOMES, np.random.default_rng(1))
    assert list(table) == ["Sex", "age"]
    assert table["Sex"].tolist() == ["m", "f"]
    assert encoded(AGE, table["age"]) == [1, 0]
    coarse = numeric("coarse", 0.0, 50.0, 100.0, column="x")
    fine = numeric("fine", 0.0, 25.0, 50.0, 100.0, column="x")
    odd = numeric("odd", 0.0, 1.0, column="coarse")
    for attributes, names in (
        ((coarse, SEX, fine), ["coarse", "Sex", "fine"]),
        ((coarse, SEX), ["x", "Sex"]),
        ((coarse, fine, odd), ["coarse", "fine", "odd"]),
    ):
        assert list(columns(Domain(attributes), (0,) * len(attributes))) == names


def test_integers_of_a_bin_are_drawn_equally_often():
    """13,000 draws from 13 numbers: each is within 6 standard deviations, a false alarm rate below
    4e-8 over all.
    """
    months = numeric("months", -0.5, 3.0, 15.5, 19.0, is_integer=True)
    counts = np.bincount(columns(Domain((months,)), *[(1,)] * 13_000)["months"], minlength=16)
    assert counts[:3].sum() == 0
    assert (np.abs(counts[3:] - 1000) < 6 * math.sqrt(1000)).all()
    dice = numeric("dice", 0.0, 3.0, 6.0, is_integer=True)
    values = columns(Domain((dice,)), *[(0,), (1,)] * 200)["dice"]
    # The last bin alone reaches its upper edge.
    assert set(values[::2].tolist()) == {0, 1, 2}
    assert set(values[1::2].tolist()) == {3, 4, 5, 6}


@pytest.mark.parametrize(
    ("edges", "empty", "nearest"),
    [
        ((0.2, 0.8, 4.0), 0, 1),
        ((1.5, 1.6, 3.0), 0, 2),
        ((1.0, 2.5, 2.9), 1, 2),
        ((-3.0, 0.1, 0.9, 2.0), 1, 0),
    ],
)
def test_a_bin_without_a_whole_number_takes_the_nearest(edges, empty: int, nearest: int):
    attribute = numeric("odd", *edges, is_integer=True)
    assert columns(Domain((attribute,)), *[(empty,)] * 9)["odd"].tolist() == [nearest] * 9


def bounds() -> st.SearchStrategy[float]:
    return st.floats(-1e15, 1e15) | st.integers(-50, 50).map(float) | st.floats(-3, 3)


@st.composite
def bins(draw: st.DrawFn) -> tuple[float, ...]:
    """Edges that a declaration may have, narrow bins among them."""
    low, high = sorted((draw(bounds()), draw(bounds())))
    assume(is_interval(low, high))
    inner = draw(st.lists(st.floats(low, high) | st.just(np.nextafter(low, high)), max_size=5))
    return (low, *sorted({float(edge) for edge in inner if low < edge < high}), high)


@given(edges=bins(), nullable=st.booleans(), seed=st.integers(0, 99))
def test_numbers_are_encoded_to_the_codes_they_came_from(edges, nullable, seed):
    attribute = numeric("x", *edges, nullable=nullable)
    codes = [(code,) for code in range(attribute.size)] * 5
    values = columns(Domain((attribute,)), *codes, seed=seed)["x"]
    assert encoded(attribute, values) == [code for (code,) in codes]
    if math.ceil(edges[0]) > math.floor(edges[-1]):
        return
    integers = replace(attribute, is_integer=True)
    values = columns(Domain((integers,)), *codes, seed=seed)["x"]
    for (code,), value, back in zip(codes, values.tolist(), encoded(integers, values), strict=True):
        if code == len(edges) - 1:
            assert value is None
            continue
        low, high = edges[code], edges[code + 1]
        has_integer = math.ceil(low) < high or (code == len(edges) - 2 and math.ceil(low) == high)
        assert type(value) is int
        assert edges[0] <= value <= edges[-1]
        assert (back == code) if has_integer else not low < value < high


@given(levels=st.lists(st.text("abc 1.", max_size=3), min_size=2, unique=True), data=st.data())
def test_levels_come_back_as_their_texts(levels, data):
    nullable = data.draw(st.booleans())
    attribute = Attribute("x", "x", "drop", cells=Levels(tuple(levels)), nullable=nullable)
    codes = data.draw(st.lists(st.tuples(st.integers(0, attribute.size - 1)), min_size=1))
    values = columns(Domain((attribute,)), *codes)["x"]
    assert values.tolist() == [[*levels, None][code] for (code,) in codes]
    assert encoded(attribute, values) == [code for (code,) in codes]


def with_pieces(attribute: Attribute, *pieces: tuple[float, float]) -> np.ndarray:
    """A thousand numbers of each bin, bin by bin."""
    codes = np.repeat(np.arange(attribute.size), 1000)[:, None].tolist()
    (column,) = columns(Domain((replace(attribute, pieces=pieces),)), *codes).values()
    return column.reshape(attribute.size, 1000)


def test_numbers_are_drawn_where_the_rows_of_their_bin_are():
    low, high = with_pieces(RENT, (0.0, 100.0), (0.25, 0.0), (400.0, 30.0), (500.0, 0.0))
    assert 0 <= low.min() <= low.max() <= 0.25
    assert low.mean() == pytest.approx(0.125, abs=0.01)
    assert 400 <= high.min() <= high.max() <= 500
    # A piece across an edge belongs to both bins: half of it is 50 rows, beside 300.
    low, high = with_pieces(RENT, (0.0, 0.0), (0.4, 100.0), (0.6, 300.0))
    assert 0.4 <= low.min() <= low.max() < 0.5
    assert (high < 0.6).mean() == pytest.approx(50 / 350, abs=0.04)
    # A bin without rows is filled evenly.
    low, high = with_pieces(RENT, (0.0, 5.0), (0.5, 0.0))
    assert low.mean() == pytest.approx(0.25, abs=0.02)
    assert high.mean() == pytest.approx(400, abs=30)
    assert high.max() > 790
    pieces = (0.0, 0.0), (17.0, 5.0), (18.0, 0.0), (60.0, 5.0), (61.0, 0.0)
    assert [set(ages.tolist()) for ages in with_pieces(AGE, *pieces)] == [{17}, {60}]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9), st.integers(0, 2**20))
def test_whatever_the_pieces_numbers_keep_their_codes(rows: list[float], seed: int):
    starts = np.linspace(0, 800, len(rows) + 1)[:-1].tolist()
    attribute = replace(RENT, pieces=tuple(zip(starts, rows, strict=True)))
    codes = np.random.default_rng(seed).integers(0, 2, (200, 1))
    (column,) = columns(Domain((attribute,)), *codes.tolist(), seed=seed).values()
    assert encoded(attribute, column) == codes[:, 0].tolist()
