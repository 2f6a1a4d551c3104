"""Codes become columns of the source again; what a synthetic table says and stores of its rows."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Coordinate, Levels, is_interval
from dp_pipeline.gate.checks import require_groupings
from dp_pipeline.results import synthetic_table
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable, decode_columns
from dp_pipeline_tests.populations import TOWN

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


NAMES = ("y", "colour", "smokes")
ROWS = [(0, 2, 1), (2, 0, 0), (1, 1, 0), (2, 0, 1)]
MEASURED = (
    NoisyMarginal((), np.array(4), Fraction(2)),
    NoisyMarginal(("colour", "smokes"), np.array([[1, -1], [1, 0], [0, 3]]), Fraction(8), True),
)
CLIQUES = (("y", "colour"), ("colour", "smokes"))


def table_of(
    rows: list[tuple[int, ...]], measured: tuple[NoisyMarginal, ...] = MEASURED, seed: int = 5
) -> SyntheticTable:
    codes = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return SyntheticTable(NAMES, codes, measured, CLIQUES, ((0, 1),), TOWN, seed)


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)), max_size=9),
    names=st.permutations(NAMES),
    many=st.integers(0, 3),
)
def test_counts_are_those_of_a_loop(rows: list[tuple[int, ...]], names: list[str], many: int):
    chosen = tuple(names[:many])
    expected = np.zeros(TOWN.shape(chosen), dtype=np.int64)
    for row in rows:
        expected[tuple(row[NAMES.index(name)] for name in chosen)] += 1
    table = table_of(rows)
    counts, shares = table.counts(chosen), table.probabilities(chosen)
    assert counts.dtype == np.int64
    assert np.array_equal(counts, expected)
    assert shares.sum() == pytest.approx(1)
    assert np.allclose(shares, expected / len(rows) if rows else 1 / max(1, expected.size))


def test_columns_have_the_names_and_values_of_the_source():
    tables = table_of(ROWS).tables()
    synthetic = tables["synthetic"]
    assert list(synthetic) == list(tables["codes"]) == list(NAMES)
    assert synthetic["colour"].tolist() == ["blue", "red", "green", "red"]
    assert synthetic["smokes"].tolist() == ["yes", "no", "no", "yes"]
    assert TOWN["y"].cells.encode(synthetic["y"]).tolist() == [0, 2, 1, 2]
    assert np.stack(list(tables["codes"].values()), axis=1).tolist() == [*map(list, ROWS)]


def test_every_table_is_stored_beside_the_rows():
    tables = table_of(ROWS).tables()
    stored = {
        name: {key: values.tolist() for key, values in tables[name].items()} for name in tables
    }
    assert stored["marginals"] == {
        "attribute": ["y"] * 3 + ["colour"] * 3 + ["smokes"] * 2,
        "level": [*tables["marginals"]["level"][:3].tolist(), "red", "green", "blue", "no", "yes"],
        "probability": [0.25, 0.25, 0.5, 0.5, 0.25, 0.25, 0.5, 0.5],
    }
    assert stored["cliques"] == {
        "attributes": ["y, colour", "colour, smokes"],
        "cells": [9, 6],
        "parent": [-1, 0],
        "separator": ["", "colour"],
    }
    assert stored["measured"] == {
        "marginal": ["", "colour, smokes"],
        "cells": [1, 6],
        "deviation": pytest.approx([marginal.variance**0.5 for marginal in MEASURED]),
    }
    assert stored["cells"] == {
        "marginal": [""] + ["colour, smokes"] * 6,
        "cell": [0, *range(6)],
        "noisy_count": [4, 1, -1, 1, 0, 0, 3],
    }


def test_large_tables_are_not_stored_cell_by_cell(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(synthetic_table, "MOST_CELLS_SHOWN", 6)
    tables = table_of(ROWS).tables()
    assert "cells" not in tables
    assert tables["measured"]["cells"].tolist() == [1, 6]


def test_the_seed_alone_decides_the_numbers_inside_the_bins():
    first, same, other = (table_of(ROWS, seed=seed).tables()["synthetic"] for seed in (5, 5, 6))
    assert first["y"].tolist() == same["y"].tolist() != other["y"].tolist()
    assert first["colour"].tolist() == other["colour"].tolist()


@pytest.mark.parametrize("measured", [MEASURED, ()], ids=["measured", "nothing measured"])
def test_a_table_of_no_rows_has_columns_of_their_types(measured: tuple[NoisyMarginal, ...]):
    tables, filled = (table_of(rows, measured).tables() for rows in ([], ROWS))
    assert set(tables) == set(filled)
    for name, columns in tables.items():
        for column, values in columns.items():
            expected = filled[name][column]
            assert values.dtype.kind == expected.dtype.kind
            assert len(values) == (0 if name in ("synthetic", "codes") else len(expected))
    assert tables["marginals"]["probability"].sum() == pytest.approx(3)


def test_a_missing_value_is_a_level_of_its_attribute():
    work = Attribute("work", "Work", "drop", cells=Levels(("paid", "none")), nullable=True)
    codes = np.array([[2], [0]])
    tables = SyntheticTable(("work",), codes, (), (("work",),), (), Domain((work,)), 1).tables()
    assert tables["synthetic"]["Work"].tolist() == [None, "paid"]
    assert tables["marginals"]["level"].tolist() == ["paid", "none", "missing"]


shares = st.lists(st.floats(0, 1), min_size=1, max_size=12)
least = st.sampled_from([0.0, 0.02, 0.3, 1.0, 5.0])


@given(levels=shares, least=least)
def test_groups_are_neighbours_with_the_share(levels: list[float], least: float):
    grouping = Grouping.by_share(np.array(levels), least=least)
    assert len(grouping.groups) == len(levels)
    assert grouping.groups[0] == 0
    assert set(np.diff(grouping.groups).tolist()) <= {0, 1}
    assert grouping.size == len(set(grouping.groups))
    assert grouping.group_of_level.tolist() == list(grouping.groups)
    sums = grouping.summed(np.array(levels))
    for group in range(grouping.size):
        inside = [levels[at] for at in np.flatnonzero(grouping.group_of_level == group)]
        # A level with the share is alone, and a group ends as soon as it has it.
        assert len(inside) == 1 or (max(inside) < least and sum(inside[:-1]) < least)
        if group + 1 < grouping.size:
            after = levels[grouping.groups.index(group + 1)]
            assert sums[group] >= least * (1 - 1e-12) or after >= least
    colours = Grouping.by_share(np.array((3 * levels)[:3]), least=least)
    require_groupings(Domain(TOWN.attributes), {"colour": colours})


def test_an_attribute_of_groups_keeps_name_source_and_total():
    grouping = Grouping((0, 1, 1))
    assert grouping.summed(np.array([5, -2, 4])).tolist() == [5, 2]
    coarse = grouping.apply_to(TOWN["colour"])
    assert (coarse.name, coarse.column, coarse.size) == ("colour", "colour", 2)
    assert not coarse.is_numeric
    assert not Grouping((0, 0, 1)).apply_to(TOWN["y"]).is_numeric


@given(
    steps=st.lists(st.integers(0, 1), min_size=3, max_size=3),
    drawn=st.lists(st.floats(0, 1), min_size=4, max_size=4),
    rows=st.lists(st.integers(0, 3), max_size=20),
)
def test_a_level_is_drawn_from_its_group(steps, drawn, rows):
    grouping = Grouping((0, *np.cumsum(steps).tolist()))
    codes = np.array([row % grouping.size for row in rows], dtype=np.int64)
    levels = grouping.expanded(codes, np.array(drawn), np.random.default_rng(1))
    assert levels.dtype == np.int8
    assert grouping.group_of_level[levels].tolist() == codes.tolist()


def test_levels_inside_a_group_have_their_shares():
    rng, shares = np.random.default_rng(1), np.array([0.9, 0.075, 0.025, 0.0, 0.0])
    levels = Grouping((0, 1, 1, 2, 2)).expanded(np.repeat([0, 1, 2], 1000), shares, rng)
    # Every number of rows is its expectation, rounded.
    assert np.bincount(levels).tolist() == pytest.approx([1000, 750, 250, 500, 500], abs=1)
    codes = np.array([2, 0, 1, 1, 0])
    assert Grouping((0, 1, 2)).expanded(codes, np.full(3, 1 / 3), rng).tolist() == codes.tolist()
