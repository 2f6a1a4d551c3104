import math
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.config.errors import DeclarationError, NotPrepared
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.prepare import mark_prepared, prepare, prepare_stage, stages_of
from dp_pipeline.raw.snapshot import mark_validated, require_prepared
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.raw.values import numbers, texts
from dp_pipeline_tests.raw.written import ingested, prepared_snapshot, validated, written_spec

PERSONS = "{unit: rows_of_person, column: rider, at_most: 2}"


def prepared(spec: DatasetSpec, folder: Path, columns, name: str = "day") -> dict[str, dict]:
    snapshot = prepared_snapshot(spec, folder, columns, name)
    return {stage: read_stage(snapshot, stage).to_pydict() for stage in stages_of(spec)}


LOW, HIGH = -65536, 65536
NUMBERS = ["0", " 5 ", "+7.5", "1e1", "-3", "99", "inf", "-Infinity", "1e999", ".5e1"]
NO_NUMBERS = ["", "  ", "ten", "nan", "1_0", "0x1", "1,5", "--1", "1e", "é"]
JUST_BELOW = math.nextafter(0.3, 0)
CLIPPED = [LOW, 0, 32768, HIGH, LOW, HIGH, HIGH, LOW, HIGH, 0]
OUTSIDE = [-0.1, 0.0, 10.0, 10.1, math.inf, math.nan, None]
CELLS_AND_STAGES = {
    "numbers are stripped and clipped": (
        "{x: {bounds: [0, 10]}}", {"x": NUMBERS}, {"normalized": {"x": CLIPPED}}
    ),
    "no number drops its row and no other": (
        "{x: {bounds: [0, 10]}}",
        {"x": ["5", *NO_NUMBERS, "10", None]}, {"normalized": {"x": [0, HIGH]}},
    ),
    "outside of the bounds": (
        "{x: {bounds: [0, 10], on_invalid: drop}}",
        {"x": OUTSIDE}, {"normalized": {"x": [LOW, HIGH]}},
    ),
    "unknown texts go to the other level": (
        "{work: {levels: [paid, none, rest], other: rest}}",
        {"work": [" paid", "?", None, "", "none"]},
        {"normalized": {"work": ["paid", *["rest"] * 3, "none"]},
         "discretized": {"work": [0, 2, 2, 2, 1]}},
    ),
    "unknown texts drop the row": (
        "{sex: {levels: [f, m]}, x: {bounds: [0, 1]}}",
        {"sex": ["f", "?", None, "m"], "x": ["0", "0", "0", "1"]},
        {"normalized": {"x": [LOW, HIGH], "sex": ["f", "m"]}, "discretized": {"sex": [0, 1]}},
    ),
    # Both sides of the edge have one coordinate.
    "bins are cut from clipped numbers": (
        "{x: {bounds: [0, 1], edges: [0.3]}}",
        {"x": [JUST_BELOW, 0.3, -9.0, 1.0, 9.0]}, {"discretized": {"x": [0, 1, 0, 1, 1]}},
    ),
    "two attributes of one column": (
        "{fine: {column: x, bounds: [0, 4], bins: 4}, rough: {column: x, bounds: [0, 4]}}",
        {"x": ["3"]}, {"discretized": {"fine": [3]}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS_AND_STAGES)
def test_cells_become_what_is_declared(tmp_path, name):
    attributes, cells, stages = CELLS_AND_STAGES[name]
    stored = prepared(written_spec(tmp_path, attributes), tmp_path, cells)
    assert {stage: stored[stage] for stage in stages} == stages
    box = Coordinate(0.0, 1.0)
    assert box.encode(np.array([JUST_BELOW])) == box.encode(np.array([0.3]))


def test_integers_are_levels_in_every_type(tmp_path):
    spec = written_spec(tmp_path, "{smokes: {levels: [0, 1]}}")
    kinds = [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.large_string()]
    for number, kind in enumerate(kinds):
        column = pa.array([1, 0], pa.int64()).cast(kind)
        stored = prepared(spec, tmp_path, pa.table({"smokes": column}), f"day{number}")
        assert stored["discretized"]["smokes"] == [1, 0]


def test_codes_are_stored_in_the_smallest_unsigned_type(tmp_path):
    attributes = "{a: {bounds: [0, 1], bins: 256}, b: {bounds: [0, 1], bins: 257}}"
    spec = written_spec(tmp_path, attributes)
    snapshot = prepared_snapshot(spec, tmp_path, {"a": [1.0], "b": [1.0]})
    table = read_stage(snapshot, "discretized")
    assert table.schema.types == [pa.uint8(), pa.uint16()]
    assert table.to_pydict() == {"a": [255], "b": [256]}


def test_one_hot_has_one_bit_a_cell_and_one_1_an_attribute(tmp_path):
    attributes = "{sex: {levels: [f, m]}, x: {bounds: [0, 2], bins: 2}}"
    spec = written_spec(tmp_path, attributes, more="one_hot: true")
    assert stages_of(spec) == ("normalized", "discretized", "one_hot")
    stored = prepared(spec, tmp_path, {"sex": ["m", "f"], "x": ["0.5", "2"]})
    bits = {"sex=f": [0, 1], "sex=m": [1, 0], "x=[0, 1)": [1, 0], "x=[1, 2]": [0, 1]}
    assert stored["one_hot"] == bits


def test_bins_of_like_labels_have_their_own_bits(tmp_path):
    attributes = "{x: {bounds: [1000000, 1000002], bins: 4}}"
    spec = written_spec(tmp_path, attributes, more="one_hot: true")
    stored = prepared(spec, tmp_path, {"x": [1000001.6]})
    assert list(stored["one_hot"].values()) == [[0], [0], [0], [1]]
    assert next(iter(stored["one_hot"])) == "x=[1000000.0, 1000000.5)"


def test_only_the_stages_that_are_needed_are_there(tmp_path):
    spec = written_spec(tmp_path, "{x: {bounds: [0, 1]}}", more="one_hot: true")
    assert stages_of(spec) == ("normalized",)
    snapshot = prepared_snapshot(spec, tmp_path, {"x": [0.5]})
    assert snapshot.manifest["prepared"] == {"digest": spec.digest, "stages": ["normalized"]}
    for stage in ("discretized", "one_hot"):
        fault = f"people: the rows can be prepared as normalized, not as '{stage}'"
        with pytest.raises(DeclarationError, match=fault):
            prepare_stage(spec, snapshot, stage)


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.int32()])
def test_no_rows_are_prepared_to_no_rows(tmp_path, kind):
    attributes = "{x: {bounds: [0, 1], bins: 2}, y: {levels: [a, b]}}"
    spec = written_spec(tmp_path, attributes, protection=PERSONS, more="one_hot: true")
    empty = pa.table({name: pa.array([], kind) for name in ("x", "y")})
    empty = empty.append_column("rider", pa.array([], pa.int64()))
    stored = prepared(spec, tmp_path, empty)
    assert {len(column) for table in stored.values() for column in table.values()} == {0}
    assert len(stored["one_hot"]) == 4


def test_persons_are_bounded_after_invalid_rows_are_gone(tmp_path):
    spec = written_spec(tmp_path, "{x: {bounds: [0, 1]}}", protection=PERSONS)
    riders = {"x": ["?"] * 20 + ["0", "1"], "rider": ["a"] * 22}
    assert prepared(spec, tmp_path, riders) == {"normalized": {"x": [-65536, 65536]}}
    crowd = {"x": ["0.5"] * 5 + ["0", "1"], "rider": ["a"] * 5 + ["b", None]}
    assert prepared(spec, tmp_path, crowd, "crowd")["normalized"]["x"] == [0, 0, -65536]


def test_unvalidated_snapshot_is_not_prepared(tmp_path):
    spec = written_spec(tmp_path, "{x: {bounds: [0, 1]}}")
    snapshot = ingested(tmp_path, {"x": ["0"]})
    for mark, fault in (
        (None, "validated as people is declared now"),
        ((True, True), "its checks refused the snapshot: mend what they report, then"),
        ((False, False), "validated as people is declared now"),
    ):
        if mark:
            mark_validated(spec, snapshot, structural=mark[0], refused=mark[1])
        with pytest.raises(NotPrepared, match=fault):
            prepare_stage(spec, snapshot, "normalized")


def test_stages_of_two_declarations_never_mix(tmp_path):
    narrow = written_spec(tmp_path, "{x: {bounds: [0, 1], bins: 2}}")
    snapshot = validated(narrow, tmp_path, {"x": ["0.6"]})
    prepare(narrow, snapshot)
    require_prepared(narrow, snapshot)
    wide = written_spec(tmp_path, "{x: {bounds: [0, 2], bins: 2}}")
    mark_validated(wide, snapshot, structural=True, refused=False)
    with pytest.raises(NotPrepared, match="prepared as people is declared now"):
        require_prepared(wide, snapshot)
    with pytest.raises(NotPrepared, match="has no rows of the kind 'normalized'"):
        prepare_stage(wide, snapshot, "discretized")
    prepare_stage(wide, snapshot, "normalized")
    with pytest.raises(NotPrepared, match="has no rows of the kind 'discretized'"):
        mark_prepared(wide, snapshot)
    assert snapshot.manifest["prepared"] is None
    mark_validated(narrow, snapshot, structural=True, refused=False)
    with pytest.raises(NotPrepared, match="prepared as people is declared now"):
        require_prepared(narrow, snapshot)


CELLS = st.one_of(
    st.sampled_from(["0", "1", " 0.5", "inf", "nan", "", "?", "f", " m ", "1e400", "-", "½"]),
    st.text(max_size=6),
    st.floats().map(str),
    st.none(),
)


@pytest.mark.chain
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6), data=st.data())
def test_preparation_is_total_and_each_row_is_treated_by_itself(tmp_path, rows, data):
    attributes = "{x: {bounds: [0, 1], bins: 3}, sex: {levels: [f, m, o], other: o}}"
    spec = written_spec(tmp_path, attributes)

    def codes(some):
        columns = {name: [row[i] for row in some] for i, name in enumerate(("x", "sex"))}
        schema = pa.schema(dict.fromkeys(columns, pa.string()))
        stored = prepared(spec, tmp_path, pa.table(columns, schema=schema))
        columns = stored["normalized"]["x"], *stored["discretized"].values()
        return list(zip(*columns, strict=True))

    at = data.draw(st.integers(0, len(rows)))
    assert codes(rows) == codes(rows[:at]) + codes(rows[at:])


@given(values=st.lists(st.floats(), max_size=5))
def test_a_number_as_text_is_the_same_number(values):
    column = pa.chunked_array([pa.array([repr(value) for value in values], pa.string())])
    assert np.array_equal(numbers(column), np.array(values, dtype=float), equal_nan=True)


def test_one_missing_value_changes_the_text_of_no_other():
    whole = texts(pa.chunked_array([pa.array([10**15, 7])]))
    gap = texts(pa.chunked_array([pa.array([1e15, 7.0, None])]))
    assert whole[1].tolist() == gap[1].tolist() == ["1000000000000000", "7"]
    assert gap[0].tolist() == [0, 1, -1]


def test_two_preparations_never_mix_their_tables(tmp_path):
    """A stage and its mark are written under one lock, so another run waits for both."""
    free = threading.Event()
    spec = written_spec(tmp_path, "{x: {bounds: [0, 10]}}")
    snapshot = validated(spec, tmp_path, {"x": ["1"]})

    def other():
        prepare_stage(spec, snapshot, "normalized")
        free.set()

    with snapshot.locked():
        thread = threading.Thread(target=other)
        thread.start()
        assert not free.wait(0.3)
    thread.join(timeout=300)
    assert free.is_set()


RIDES = (
    "{age: {bounds: [0, 80], bins: 4, integer: true, nullable: true, missing: ['?']}, "
    "state: {levels: [single, married, unknown], other: unknown, aliases: {wed: married}}}"
)
ADULTS = 'constraints: {never: {age: "[0, 20)", state: married}}'


def test_a_row_that_breaks_a_constraint_loses_a_cell(tmp_path):
    spec = written_spec(tmp_path, RIDES, more=ADULTS)
    rows = {
        "age": ["19", "20", "?", "19", " 19.5 ", "-4", "19", "no number"],
        "state": ["wed", "married", "married", "single", " married ", "married", "odd", "married"],
    }
    stored = prepared(spec, tmp_path, rows)["discretized"]
    # A contradiction and a text that is no number cost the age.
    assert stored == {"age": [4, 1, 4, 0, 4, 4, 0, 4], "state": [1, 1, 1, 0, 1, 1, 2, 1]}
    clipped = RIDES.replace("nullable: true", "on_invalid: clip")
    closed = written_spec(tmp_path, clipped, more=ADULTS)
    stored = prepared(closed, tmp_path, rows, "closed")["discretized"]
    assert stored == {"age": [1, 0, 0], "state": [1, 0, 2]}


def test_persons_are_bounded_after_constraints(tmp_path):
    spec = written_spec(tmp_path, RIDES, protection=PERSONS, more=ADULTS)
    rows = {"age": ["5"] * 9 + ["30", "40"], "state": ["wed"] * 11, "rider": ["a"] * 11}
    assert len(prepared(spec, tmp_path, rows)["discretized"]["age"]) == 2


def test_clipped_number_is_in_its_constraints_bin(tmp_path):
    clipped = RIDES.replace("nullable: true", "nullable: true, on_invalid: clip")
    more = "constraints: {never: {age: '[60, ]', state: single}}"
    spec = written_spec(tmp_path, clipped, more=more)
    rows = {"age": ["1000", "inf", "59"], "state": ["single"] * 3}
    assert prepared(spec, tmp_path, rows)["discretized"] == {"age": [4, 4, 2], "state": [0] * 3}


def test_a_column_states_if_values_may_be_missing(tmp_path):
    attributes = "{x: {bounds: [0, 1], bins: 2, nullable: true}, sex: {levels: [f, m]}}"
    spec = written_spec(tmp_path, attributes)
    snapshot = prepared_snapshot(spec, tmp_path, {"x": ["", "1"], "sex": ["f", "m"]})
    for stage, nullable in (("normalized", ["x", "x.clipped"]), ("discretized", [])):
        schema = read_stage(snapshot, stage).schema
        assert [field.name for field in schema if field.nullable] == nullable


def test_nullable_columns_are_read_with_others(tmp_path):
    spec = written_spec(tmp_path, "{sex: {levels: [f, m]}}")
    before = prepared_snapshot(spec, tmp_path, {"sex": ["f", "m"]}, "before")
    old = pa.table({"sex": pa.array([0, 1], pa.uint8())})
    before.store_table("discretized", lambda file: pq.write_table(old, file))
    later = prepared_snapshot(spec, tmp_path, {"sex": ["m"]}, "later")
    both = replace(later, earlier=(before,))
    assert read_stage(both, "discretized")["sex"].to_pylist() == [0, 1, 1]
    (counts,) = open_counter(spec, both).count([("sex",)])
    assert counts.open_at_the_gate().tolist() == [1, 2]
