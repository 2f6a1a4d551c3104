"""A stored bundle comes back with its texts, numbers and missing values, or is damaged."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import Damaged
from dp_pipeline.export import arrow_tables
from dp_pipeline.releases.store import BundleStore
from dp_pipeline.results.bundle import Bundle, ReleaseKey

KEY = b"k" * 32


def objects(*values: object) -> np.ndarray:
    """An object array, whatever the values are."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


TABLE = {
    "text": np.array(["a", "", "é"]),
    "gap_text": objects("a", None, ""),
    "whole": np.array([1, -2, 2**62]),
    "gap_whole": objects(2**62 + 1, None, -3),
    "number": np.array([0.5, np.nan, -1e300]),
    "gap_number": objects(0.1, 5e-324, None),
    "nothing": objects(None, None, None),
}
NONE = {"text": np.array([], dtype="<U1"), "whole": np.array([], np.int64), "x": np.zeros(0)}


def stored(folder: Path, **tables: dict[str, np.ndarray]) -> tuple[Bundle, Path]:
    bundle = Bundle("ab" * 32, {"releasable": "yes"}, (), {}, tables, "cd" * 32)
    path = folder / "bundle"
    BundleStore(folder).write(path, bundle, key=KEY)
    return bundle, path


def test_every_kind_of_column_comes_back(tmp_path: Path):
    bundle, path = stored(tmp_path, synthetic=TABLE, empty=NONE)
    back = BundleStore(tmp_path).read_sealed(path, key=KEY)
    assert back.to_json() == bundle.to_json()
    for name, table in bundle.tables.items():
        assert list(back.tables[name]) == list(table)
        for column, values in table.items():
            again = back.tables[name][column]
            assert again.dtype.kind == values.dtype.kind
            assert [type(value) for value in again.tolist()] == [
                type(value) for value in values.tolist()
            ]
            assert repr(again.tolist()) == repr(values.tolist())


def test_missing_values_are_real_nulls_of_the_declared_type(tmp_path: Path):
    _, path = stored(tmp_path, synthetic=TABLE)
    table = pq.read_table(path / "synthetic.parquet")
    assert [str(kind) for kind in table.schema.types] == [
        *("string", "string", "int64", "int64", "double", "double", "string")
    ]
    assert [table.column(name).null_count for name in TABLE] == [0, 1, 0, 1, 0, 1, 3]


def test_table_written_in_batches_comes_back_with_all_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Nothing but missing values in the first batch; the last one is a row.
    late_columns = {"late": objects(None, None, 7), "late_text": objects(None, None, "a")}
    table = {
        name: np.concatenate([column, column, column[:1]])
        for name, column in (TABLE | late_columns).items()
    }
    monkeypatch.setattr(arrow_tables, "ROWS_A_BATCH", 2)
    bundle, path = stored(tmp_path, synthetic=table)
    assert pq.read_metadata(path / "synthetic.parquet").num_row_groups == 4
    back = BundleStore(tmp_path).read_sealed(path, key=KEY)
    assert back.to_json() == bundle.to_json()
    found = {name: repr(column.tolist()) for name, column in back.tables["synthetic"].items()}
    assert found == {name: repr(column.tolist()) for name, column in table.items()}
    assert back.tables["synthetic"]["late"].tolist().count(7) == 2


CHANGED = {
    "a value that was missing": objects(2**62 + 1, 0, -3),
    "a value that is missing now": objects(2**62 + 1, None, None),
    "the missing one elsewhere": objects(None, 2**62 + 1, -3),
    "another value": objects(2**62, None, -3),
    "another type": objects(float(2**62), None, -3.0),
    "texts": objects("4611686018427387905", None, "-3"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_change_beside_a_missing_value_is_damage(tmp_path: Path, name: str):
    _, path = stored(tmp_path, synthetic=TABLE)
    file = path / "synthetic.parquet"
    table = pq.read_table(file)
    place = table.column_names.index("gap_whole")
    pq.write_table(table.set_column(place, "gap_whole", pa.array(CHANGED[name].tolist())), file)
    with pytest.raises(Damaged, match="not as it was stored"):
        BundleStore(tmp_path).read_sealed(path, key=KEY)


def test_a_bundle_that_lies_there_is_kept_as_it_is(tmp_path: Path):
    bundle, path = stored(tmp_path, synthetic=TABLE)
    other = replace(bundle, tables={"synthetic": NONE})
    BundleStore(tmp_path).write(path, other, key=KEY)
    assert BundleStore(tmp_path).read_sealed(path, key=KEY).to_json() == bundle.to_json()


def test_first_of_two_rebuilt_bundles_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bundle, path = stored(tmp_path, synthetic=TABLE)
    other = replace(bundle, tables={"synthetic": NONE})
    real = Path.exists
    # Both have looked, and seen none.
    monkeypatch.setattr(Path, "exists", lambda self: self != path and real(self))
    BundleStore(tmp_path).write(path, other, key=KEY)
    assert BundleStore(tmp_path).read_sealed(path, key=KEY).to_json() == bundle.to_json()
    assert list(tmp_path.iterdir()) == [path]


def test_a_bundle_that_was_renamed_is_none_of_its_release(tmp_path: Path):
    key = ReleaseKey("people", "toy", "s", "d", "grid", {}, Fraction(1), None, "opendp")
    store = BundleStore(tmp_path)
    path = store.bundle_path(key, {"k": "3"})
    path.mkdir(parents=True)
    path.with_name(f"{path.name}.away").mkdir()
    assert store.bundle_paths(key) == (path,)


values = st.one_of(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5),
    st.lists(st.none() | st.floats(), max_size=5),
    st.lists(st.none() | st.text("aé ", max_size=3), max_size=5),
)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(one=values.filter(lambda column: None in column))
def test_any_column_with_a_missing_value_comes_back(one: list):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, path = stored(folder, synthetic={"x": objects(*one)})
        again = BundleStore(folder).read_sealed(path, key=KEY).tables["synthetic"]["x"]
    assert again.dtype.kind == "O"
    assert repr(again.tolist()) == repr(one)
