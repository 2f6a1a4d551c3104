"""Columns of many rows, some rows at a time: the same values, digests and files as at once."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.export import arrow_tables
from dp_pipeline.export.arrow_tables import read_parquet, write_parquet
from dp_pipeline.export.tables import has_missing, types_of, write_table
from dp_pipeline.inference.clique_join import Conditional, join_cliques, sample_network
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.results import clusters, derived_attribute, synthetic_table
from dp_pipeline.results.bundle import table_digest
from dp_pipeline.results.clusters import Columns, LongColumns
from dp_pipeline.results.synthetic_table import SyntheticTable, decode_columns
from dp_pipeline_tests.export.samples import read_back
from dp_pipeline_tests.results.test_decoding import numeric


def level(name: str, *levels: str, **fields: Any) -> Attribute:
    return Attribute(name, name, "drop", cells=Levels(levels), **fields)


FORM = Domain(
    (
        level("sex", "f", "m", nullable=True),
        level("town", "", "Ål", "Wien"),
        numeric("height", 0.0, 1.0, 9.0, column="h", nullable=True),
        numeric("age", 0.0, 30.0, 90.0, is_integer=True, nullable=True),
        numeric("shoe", 0.0, 30.0, 50.0, is_integer=True),
        numeric("born", 0.0, 3.0, 9.0, clock=Clock("date"), nullable=True),
        numeric("weight", 0.0, 1.0, 9.0),
    )
)
EVERY_MODULE = (clusters, synthetic_table, arrow_tables)


@pytest.fixture(params=[1, 3, 7])
def _few(request: pytest.FixtureRequest) -> Iterator[None]:
    """A batch is of few rows, everywhere."""
    with pytest.MonkeyPatch.context() as patch:
        in_batches_of(request.param, patch)
        yield


def in_batches_of(rows: int, patch: pytest.MonkeyPatch) -> None:
    for module in EVERY_MODULE:
        patch.setattr(module, "ROWS_A_BATCH", rows)


def form(rows: int, seed: int = 0) -> np.ndarray:
    """Codes of a filled form each."""
    return np.random.default_rng(seed).integers(0, FORM.shape(FORM.names), (rows, len(FORM.names)))


def columns(codes: np.ndarray) -> tuple[Columns, float]:
    """The columns of the forms, and what the generator draws next."""
    rng = np.random.default_rng(5)
    return decode_columns(codes, FORM.names, FORM, rng), rng.random()


@given(rows=st.integers(0, 25), seed=st.integers(0, 9), size=st.integers(1, 30))
def test_columns_in_batches_have_the_same_values(rows: int, seed: int, size: int):
    at_once, drawn_next = columns(form(rows, seed))
    digest = table_digest(at_once)
    with pytest.MonkeyPatch.context() as patch:
        in_batches_of(size, patch)
        some, then = columns(form(rows, seed))
        assert isinstance(some, LongColumns) == (rows > size)
        assert then == drawn_next
        for name in (*at_once, *at_once):
            assert some[name].dtype.kind == at_once[name].dtype.kind
            assert repr(some[name].tolist()) == repr(at_once[name].tolist())
        assert table_digest(some) == digest
        assert types_of(some) == types_of(at_once)
        assert has_missing(some) == has_missing(at_once)


@pytest.mark.usefixtures("_few")
def test_a_missing_value_makes_a_column_of_objects():
    codes = np.zeros((20, len(FORM.names)), dtype=np.int8)
    codes[17, :] = [2, 0, 2, 2, 0, 2, 0]
    some, _ = columns(codes)
    assert {name: some[name].dtype.kind for name in some}["sex"] == "O"
    assert isinstance(some, LongColumns)
    assert {part.dtype.kind for part in some.batches("age")} == {"O"}
    assert [value is None for value in some["sex"]] == [index == 17 for index in range(20)]


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_a_file_written_in_batches_is_read_as_the_table(ending: str, tmp_path: Path):
    codes = form(20)
    # CSV cannot tell a text of nothing from a missing value.
    codes[:, 1] = np.maximum(codes[:, 1], 1)
    some, _ = columns(codes)
    write_table(tmp_path / f"forms.{ending}", some)
    back = read_back(tmp_path / f"forms.{ending}", some)
    assert table_digest(back) == table_digest(some)
    assert isinstance(back, LongColumns) == (ending == "parquet")


@pytest.mark.usefixtures("_few")
def test_a_parquet_file_says_of_batches_what_it_says_of_all():
    table = {
        "nobody": np.full(20, None, dtype=object),
        "late": np.array([None] * 19 + [7], dtype=object),
        "small": np.arange(20, dtype=np.int8),
    }
    file = io.BytesIO()
    write_parquet(file, table)
    back = read_parquet(file.getvalue())
    assert isinstance(back, LongColumns)
    assert all(back[name].tolist() == values.tolist() for name, values in table.items())
    assert table_digest(back) == table_digest(table)


@pytest.mark.usefixtures("_few")
def test_shares_of_many_rows_are_counted_in_batches():
    codes = form(20).astype(np.int8)
    table = SyntheticTable(FORM.names, codes, (), (FORM.names,), (), FORM, seed=1)
    pairs = table.counts(("town", "age"))
    for home, age in np.ndindex(*pairs.shape):
        assert pairs[home, age] == ((codes[:, 1] == home) & (codes[:, 3] == age)).sum()


@pytest.mark.parametrize("levels", [2, 127, 128, 129, 300, 33_000])
def test_codes_of_the_smallest_type_are_the_codes(levels: int):
    # One row a level, so that every code is drawn, the last too; a child that repeats its parent.
    sizes, rng = {"a": levels, "b": 2}, np.random.default_rng(3)
    tree = JunctionTree((("a",), ("a", "b")), ((0, 1),))
    halves = np.stack([np.ones(levels), np.zeros(levels)], axis=1)
    tables = {("a",): np.ones(levels), ("a", "b"): halves}
    codes = join_cliques(tree, tables, levels, rng, sizes)
    assert sorted(codes[:, 0].tolist()) == list(range(levels))
    assert not codes[:, 1].any()
    network = [Conditional("a", (), np.ones(levels)), Conditional("b", ("a",), halves)]
    codes = sample_network(network, levels, rng, sizes)
    assert sorted(codes[:, 0].tolist()) == list(range(levels))
    assert codes.itemsize == (1 if levels <= 128 else 2 if levels <= 32_768 else 4)


def test_rows_of_groups_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(derived_attribute, "_ROWS_AT_ONCE", 3)
    groups = np.array([0, 2, 2, 0, 3, 0, 0], dtype=np.int8)
    assert derived_attribute.count_group_rows(groups, 5).tolist() == [4, 0, 2, 1, 0]
