"""What is stored comes back as it was, or is refused in one line: another format, or damaged."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.errors import Damaged, UnknownFormat
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.replay import read_document
from dp_pipeline.releases.store import BundleStore
from dp_pipeline.results.bundle import Bundle, ReleaseKey, Tables
from dp_pipeline_tests.orchestration.events import failures, refusal
from dp_pipeline_tests.orchestration.projects import RIDES, Project

Read = Callable[[], object]


def stored_bundle(folder: Path) -> tuple[Path, Read]:
    _, path = stored(folder, t={"x": np.array([1, 2])})
    return path / "bundle.json", lambda: BundleStore(folder).read_sealed(path, key=KEY)


def stored_manifest(folder: Path) -> tuple[Path, Read]:
    snapshot = Snapshot(folder / "toy" / "2026-11-22", b"k" * 32)
    snapshot.record(population="people")
    return snapshot.folder / "manifest.json", lambda: snapshot.manifest


def retired_manifest(folder: Path) -> tuple[Path, Read]:
    snapshot = Snapshot(folder / "toy" / "2026-11-22", b"")
    snapshot.mark_retired(population="people", on=date(2026, 11, 22))
    return snapshot.folder / "manifest.json", lambda: (snapshot.population, snapshot.is_retired())


def document(folder: Path) -> tuple[Path, Read]:
    path = folder / "value.json"
    path.write_text('{"format": 1, "value": {"rows": []}}', encoding="utf-8")
    return path, lambda: read_document(path)


OBJECTS = [stored_bundle, stored_manifest, retired_manifest, document]


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> bytes:
    fields = json.loads(path.read_text(encoding="utf-8"))
    change(fields)
    path.write_text(json.dumps(fields), encoding="utf-8")
    return path.read_bytes()


@pytest.mark.parametrize("make", OBJECTS)
@pytest.mark.parametrize(
    ("number", "words"), [(0, "use"), (2, "use"), (97, "use"), (None, "use"), ("1", "put back")]
)
def test_another_format_is_refused_before_anything_else_is_read(number, words, make, tmp_path):
    path, read = make(tmp_path)

    def with_number(fields: dict[str, Any]) -> None:
        fields.clear()
        fields["format"] = number

    content = changed(path, with_number)
    with pytest.raises(UnknownFormat, match=f"expected format 1, got .*: {words}") as refused:
        read()
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"format": 1}', b"\xff", b"[" * 100_000])
def test_a_document_that_is_none_is_damage_in_one_line(content: bytes, tmp_path: Path):
    path = tmp_path / "value.json"
    path.write_bytes(content)
    wrong = (UnknownFormat, "format 1") if content == b"[]" else (Damaged, "must hold JSON as this")
    with pytest.raises(wrong[0], match=wrong[1]):
        read_document(path)


@pytest.mark.parametrize(
    ("content", "line"), [("{", "JSON as this program"), ("{}", "format 1, got no format")]
)
@pytest.mark.parametrize(
    ("stage", "partition", "path"),
    [
        ("evaluation", "0.5", "released/rides/dpqt_kmeans/partition-0.5.json"),
        ("comparison", None, "internal/rides/evaluation/0.5.json"),
    ],
)
def test_what_an_asset_cannot_read_is_reported_in_one_line(
    content: str, line: str, stage: str, partition: str | None, path: str, released_rides: Project
):
    (released_rides.home.root / path).write_text(content, encoding="utf-8")
    spec = released_rides.declare("rides", RIDES)
    result = released_rides.launch(spec, stage, partition=partition)
    assert line in refusal(result)
    (failed,) = failures(result)
    assert failed.user_failure_data.metadata["exit_code"].value == 1


KEY = b"k" * 32


def objects(*values: object) -> np.ndarray:
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


def spellings(tables: Tables) -> list[tuple[str, str, str, str]]:
    """Name, kind and values of every column, a number other than a text of it."""
    return [
        (name, column, values.dtype.kind, repr(values.tolist()))
        for name, table in sorted(tables.items())
        for column, values in table.items()
    ]


def test_every_kind_of_column_comes_back_with_real_nulls(tmp_path: Path):
    bundle, path = stored(tmp_path, synthetic=TABLE, empty=NONE)
    back = BundleStore(tmp_path).read_sealed(path, key=KEY)
    assert back.to_json() == bundle.to_json()
    assert spellings(back.tables) == spellings(bundle.tables)
    table = pq.read_table(path / "synthetic.parquet")
    assert [str(kind) for kind in table.schema.types] == [
        *("string", "string", "int64", "int64", "double", "double", "string")
    ]
    assert [table.column(name).null_count for name in TABLE] == [0, 1, 0, 1, 0, 1, 3]


@pytest.mark.parametrize("is_seen", [True, False], ids=["it lies there", "both saw none"])
def test_first_of_two_rebuilt_bundles_stays(tmp_path: Path, monkeypatch, *, is_seen: bool):
    bundle, path = stored(tmp_path, synthetic=TABLE)
    real = Path.exists
    monkeypatch.setattr(Path, "exists", lambda self: (is_seen or self != path) and real(self))
    other = replace(bundle, tables={"synthetic": NONE})
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
@given(column=values.filter(lambda items: None in items))
def test_any_column_with_a_missing_value_comes_back(column: list):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, path = stored(folder, synthetic={"x": objects(*column)})
        again = BundleStore(folder).read_sealed(path, key=KEY).tables["synthetic"]["x"]
    assert again.dtype.kind == "O"
    assert repr(again.tolist()) == repr(column)
