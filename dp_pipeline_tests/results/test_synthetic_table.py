"""A synthetic table: what its rows say, and the tables that are stored of it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.results import synthetic_table
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.populations import TOWN

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
