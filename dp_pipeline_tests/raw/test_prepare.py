"""Cells become what their attributes declare; missing values keep their rows."""

import math
import threading
from dataclasses import replace
from datetime import date
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.encoding import INVALID, Coordinate
from dp_pipeline.config.errors import DeclarationError, NotPrepared
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare, prepare_stage
from dp_pipeline.raw.snapshot import mark_validated, require_prepared, stages_of
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.raw.validate import refusal, validate
from dp_pipeline.raw.values import cell_codes, find_missing, numbers, texts
from dp_pipeline_tests.config.declarations import loaded
from dp_pipeline_tests.instruments import exact_tables
from dp_pipeline_tests.raw.written import (
    KEY,
    PERSONS,
    ingested,
    prepared_snapshot,
    validated,
    written_spec,
)


def prepared(spec: DatasetSpec, folder: Path, columns, name: str = "day") -> dict[str, dict]:
    snapshot = prepared_snapshot(spec, folder, columns, name)
    return {stage: read_stage(snapshot, stage).to_pydict() for stage in stages_of(spec)}


PEOPLE = """
  age: {bounds: [0, 90], edges: [18], nullable: true, missing: ["?", "-1"]}
  job: {levels: [paid, none], nullable: true, missing: ["?"], aliases: {Paid.: paid}}
  sex: {levels: [f, m]}
"""
WITH_GAPS = {
    "age": ["17", "", " ? ", "-1", "90", None, "18"],
    "job": ["Paid.", "?", "none", "", " paid ", "none", None],
    "sex": ["f", "f", "m", "f", "m", "f", "m"],
}
AGES, JOBS, SEXES = [0, 2, 2, 2, 1, 2, 1], [0, 2, 1, 2, 0, 1, 2], [0, 0, 1, 0, 1, 0, 1]
RIDES = (
    "{age: {bounds: [0, 80], bins: 4, integer: true, nullable: true, missing: ['?']}, "
    "state: {levels: [single, married, unknown], other: unknown, aliases: {wed: married}}}"
)
ADULTS = {"more": 'constraints: {never: {age: "[0, 20)", state: married}}'}
BREAKING = {
    "age": ["19", "20", "?", "19", " 19.5 ", "-4", "19", "no number"],
    "state": ["wed", "married", "married", "single", " married ", "married", "odd", "married"],
}
LOW, HIGH = -65536, 65536
NUMBERS = ["0", " 5 ", "+7.5", "1e1", "-3", "99", "inf", "-Infinity", "1e999", ".5e1"]
NO_NUMBERS = ["", "  ", "ten", "nan", "1_0", "0x1", "1,5", "--1", "1e", "é"]
JUST_BELOW = math.nextafter(0.3, 0)
CLIPPED = [LOW, 0, 32768, HIGH, LOW, HIGH, HIGH, LOW, HIGH, 0]
OUTSIDE = [-0.1, 0.0, 10.0, 10.1, math.inf, math.nan, None]
ONE_HOT = {"more": "one_hot: true"}
NORMALIZED: dict[str, tuple[Any, ...]] = {
    "numbers are stripped and clipped": ("{x: {bounds: [0, 10]}}", {"x": NUMBERS}, {"x": CLIPPED}),
    "no number drops its row and no other": (
        "{x: {bounds: [0, 10]}}", {"x": ["5", *NO_NUMBERS, "10", None]}, {"x": [0, HIGH]}
    ),
    "outside of the bounds": (
        "{x: {bounds: [0, 10], on_invalid: drop}}", {"x": OUTSIDE}, {"x": [LOW, HIGH]}
    ),
    "unknown texts go to the other level": (
        "{work: {levels: [paid, none, rest], other: rest}}",
        {"work": [" paid", "?", None, "", "none"]}, {"work": ["paid", *["rest"] * 3, "none"]},
    ),
    "unknown texts drop the row": (
        "{sex: {levels: [f, m]}, x: {bounds: [0, 1]}}",
        {"sex": ["f", "?", None, "m"], "x": ["0", "0", "0", "1"]},
        {"x": [LOW, HIGH], "sex": ["f", "m"]},
    ),
    "a person has two rows after invalid ones are gone": (
        "{x: {bounds: [0, 1]}}", {"x": ["?"] * 20 + ["0", "1"], "rider": ["a"] * 22},
        {"x": [LOW, HIGH]}, {"protection": PERSONS},
    ),
    "a row of nobody is gone": (
        "{x: {bounds: [0, 1]}}", {"x": ["0.5"] * 5 + ["0", "1"], "rider": ["a"] * 5 + ["b", None]},
        {"x": [0, 0, LOW]}, {"protection": PERSONS},
    ),
}  # fmt: skip
"""Attributes, cells, what is stored of them and further declarations."""

DISCRETIZED: dict[str, tuple[Any, ...]] = {
    "unknown texts go to the other level": (
        "{work: {levels: [paid, none, rest], other: rest}}",
        {"work": [" paid", "?", None, "", "none"]}, {"work": [0, 2, 2, 2, 1]},
    ),
    # Both sides of the edge have one coordinate.
    "bins are cut from clipped numbers": (
        "{x: {bounds: [0, 1], edges: [0.3]}}",
        {"x": [JUST_BELOW, 0.3, -9.0, 1.0, 9.0]}, {"x": [0, 1, 0, 1, 1]},
    ),
    "two attributes of one column": (
        "{fine: {column: x, bounds: [0, 4], bins: 4}, rough: {column: x, bounds: [0, 4]}}",
        {"x": ["3"]}, {"fine": [3]},
    ),
    **{
        f"levels of {kind}": (
            "{a: {levels: [0, 1]}}", {"a": pa.array([1, 0], pa.int64()).cast(kind)}, {"a": [1, 0]}
        )
        for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.string(),
                     pa.large_string())
    },
    "numbers as levels": (
        "{smokes: {levels: 0..1, nullable: true, missing: [9]}}",
        {"smokes": [1.0, None, 9.0, float("nan"), 0.0]}, {"smokes": [1, 2, 2, 2, 0]},
    ),
    "a row that breaks a constraint loses a cell": (
        # A contradiction and a text that is no number cost the age.
        RIDES, BREAKING,
        {"age": [4, 1, 4, 0, 4, 4, 0, 4], "state": [1, 1, 1, 0, 1, 1, 2, 1]}, ADULTS,
    ),
    "a row that breaks a constraint is gone": (
        RIDES.replace("nullable: true", "on_invalid: clip"), BREAKING,
        {"age": [1, 0, 0], "state": [1, 0, 2]}, ADULTS,
    ),
    "a clipped number is in its constraint's bin": (
        RIDES.replace("nullable: true", "nullable: true, on_invalid: clip"),
        {"age": ["1000", "inf", "59"], "state": ["single"] * 3},
        {"age": [4, 4, 2], "state": [0] * 3},
        {"more": "constraints: {never: {age: '[60, ]', state: single}}"},
    ),
    "a missing value is the last code": (
        PEOPLE, WITH_GAPS, {"age": AGES, "job": JOBS, "sex": SEXES}
    ),
    **{
        f"missing {kind}": (
            PEOPLE, {"age": pa.array([17, None, -1, 90]).cast(kind), "job": ["?"] * 4,
                     "sex": ["f"] * 4},
            {"age": [0, 2, 2, 1], "job": [2] * 4, "sex": [0] * 4},
        )
        for kind in (pa.int32(), pa.float64(), pa.float32())
    },
    "no number is missing": (
        PEOPLE, {"age": [float("nan"), 17.0], "job": ["?", "none"], "sex": ["f", "f"]},
        {"age": [2, 0], "job": [2, 1], "sex": [0, 0]},
    ),
    "no number and no level is missing too": (
        PEOPLE,
        {
            "age": ["old", "nan", "?", "95", "5"],
            "job": ["paid", "none", "paid", "none", "rest"],
            "sex": ["f", "m", "f", "m", "f"],
        },
        {"age": [2, 2, 2, 2, 0], "job": [0, 1, 0, 1, 2], "sex": [0, 1, 0, 1, 0]},
    ),
    "missing where nothing may be": (
        PEOPLE, {"age": ["?", "1"], "job": ["?", "?"], "sex": ["", "m"]},
        {"age": [0], "job": [2], "sex": [1]},
    ),
    "unknown goes to other, missing does not": (
        "{job: {levels: [paid, rest], other: rest, nullable: true, missing: ['?']}}",
        {"job": ["paid", "odd", "?", "", None]}, {"job": [0, 1, 2, 2, 2]},
    ),
    "an empty text that is a level": (
        "{job: {levels: [paid, ''], nullable: true}}",
        {"job": ["paid", " ", None]}, {"job": [0, 1, 2]},
    ),
} | {
    f"rows to {rule}": (
        f"{{age: {{bounds: [0, 90], bins: 2, nullable: true, on_invalid: {rule}}}}}",
        {"age": ["-5", "", "1e9", "90", "old"]}, {"age": ages},
    )
    for rule, ages in {"keep": [2, 2, 2, 1, 2], "clip": [0, 2, 1, 1, 2], "drop": [2, 1]}.items()
}  # fmt: skip
BITS: dict[str, tuple[Any, ...]] = {
    "a bit a cell and a 1 an attribute": (
        "{sex: {levels: [f, m]}, x: {bounds: [0, 2], bins: 2}}",
        {"sex": ["m", "f"], "x": ["0.5", "2"]},
        {"sex=f": [0, 1], "sex=m": [1, 0], "x=[0, 1)": [1, 0], "x=[1, 2]": [0, 1]}, ONE_HOT,
    ),
    "bins of like labels": (
        "{x: {bounds: [1000000, 1000002], bins: 2}}", {"x": [1000001.6]},
        {"x=[1000000.0, 1000001.0)": [0], "x=[1000001.0, 1000002.0]": [1]}, ONE_HOT,
    ),
}  # fmt: skip
CASES = {"normalized": NORMALIZED, "discretized": DISCRETIZED, "one_hot": BITS}


@pytest.mark.parametrize(
    ("stage", "name"), [(stage, name) for stage, cases in CASES.items() for name in cases]
)
def test_cells_become_what_is_declared(tmp_path, stage, name):
    attributes, cells, stored, *options = CASES[stage][name]
    spec = written_spec(tmp_path, attributes, **dict(*options))
    assert prepared(spec, tmp_path, pa.table(cells))[stage] == stored
    box = Coordinate(0.0, 1.0)
    assert box.encode(np.array([JUST_BELOW])) == box.encode(np.array([0.3]))


def test_a_missing_value_keeps_its_row(tmp_path):
    stored = prepared(written_spec(tmp_path, PEOPLE, **ONE_HOT), tmp_path, WITH_GAPS)
    assert stored["normalized"]["age.clipped"] == [17, None, None, None, 90, None, 18]
    assert [value is None for value in stored["normalized"]["age"]] == [code == 2 for code in AGES]
    words = ["paid", None, "none", None, "paid", "none", None]
    assert stored["normalized"]["job"] == words
    names = ["age=[0, 18)", "age=[18, 90]", "age=missing"]
    assert [stored["one_hot"][name] for name in names] == [
        [int(code == cell) for code in AGES] for cell in range(3)
    ]


def test_persons_are_bounded_after_constraints(tmp_path):
    spec = written_spec(tmp_path, RIDES, protection=PERSONS, **ADULTS)
    rows = {"age": ["5"] * 9 + ["30", "40"], "state": ["wed"] * 11, "rider": ["a"] * 11}
    assert len(prepared(spec, tmp_path, rows)["discretized"]["age"]) == 2
    spec = written_spec(tmp_path, PEOPLE, protection=PERSONS.replace("2", "1"))
    rows = {**WITH_GAPS, "rider": ["ann", "bob", "bob", "cid", "cid", "dot", "dot"]}
    assert len(prepared(spec, tmp_path, rows, "gaps")["discretized"]["age"]) == 4


def test_codes_are_stored_in_the_smallest_unsigned_type(tmp_path):
    attributes = "{a: {bounds: [0, 1], bins: 256}, b: {bounds: [0, 1], bins: 257}}"
    spec = written_spec(tmp_path, attributes)
    snapshot = prepared_snapshot(spec, tmp_path, {"a": [1.0], "b": [1.0]})
    table = read_stage(snapshot, "discretized")
    assert table.schema.types == [pa.uint8(), pa.uint16()]
    assert table.to_pydict() == {"a": [255], "b": [256]}
    # A column states if values may be missing.
    attributes = "{x: {bounds: [0, 1], bins: 2, nullable: true}, sex: {levels: [f, m]}}"
    spec = written_spec(tmp_path, attributes)
    snapshot = prepared_snapshot(spec, tmp_path, {"x": ["", "1"], "sex": ["f", "m"]}, "gaps")
    for stage, nullable in (("normalized", ["x", "x.clipped"]), ("discretized", [])):
        schema = read_stage(snapshot, stage).schema
        assert [field.name for field in schema if field.nullable] == nullable


def test_only_the_stages_that_are_needed_are_there(tmp_path):
    with_cells = written_spec(tmp_path, "{x: {levels: [a, b]}}", **ONE_HOT)
    assert stages_of(with_cells) == ("normalized", "discretized", "one_hot")
    spec = written_spec(tmp_path, "{x: {bounds: [0, 1]}}", **ONE_HOT)
    assert stages_of(spec) == ("normalized",)
    snapshot = prepared_snapshot(spec, tmp_path, {"x": [0.5]})
    assert snapshot.manifest["stages"] == {"normalized": spec.digest}
    require_prepared(spec, snapshot)
    for stage in ("discretized", "one_hot"):
        fault = f"people: the rows can be prepared as normalized, not as '{stage}'"
        with pytest.raises(DeclarationError, match=fault):
            prepare_stage(spec, snapshot, stage)


def test_rows_are_prepared_when_the_last_stage_is_there(tmp_path):
    spec = written_spec(tmp_path, "{x: {levels: [a, b]}}", **ONE_HOT)
    snapshot = validated(spec, tmp_path, {"x": ["a"]})
    for stage in stages_of(spec):
        with pytest.raises(NotPrepared, match="is not prepared as people is declared now"):
            require_prepared(spec, snapshot)
        prepare_stage(spec, snapshot, stage)
    require_prepared(spec, snapshot)


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.int32()])
def test_no_rows_are_prepared_to_no_rows(tmp_path, kind):
    attributes = "{x: {bounds: [0, 1], bins: 2}, y: {levels: [a, b]}}"
    spec = written_spec(tmp_path, attributes, protection=PERSONS, more="one_hot: true")
    empty = pa.table({name: pa.array([], kind) for name in ("x", "y")})
    empty = empty.append_column("rider", pa.array([], pa.int64()))
    stored = prepared(spec, tmp_path, empty)
    assert {len(column) for table in stored.values() for column in table.values()} == {0}
    assert len(stored["one_hot"]) == 4


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
    with pytest.raises(NotPrepared, match="prepared as people is declared now"):
        require_prepared(wide, snapshot)
    mark_validated(narrow, snapshot, structural=True, refused=False)
    with pytest.raises(NotPrepared, match="prepared as people is declared now"):
        require_prepared(narrow, snapshot)


@given(values=st.lists(st.floats(), max_size=5))
def test_a_number_as_text_is_the_same_number(values):
    column = pa.chunked_array([pa.array([repr(value) for value in values], pa.string())])
    assert np.array_equal(numbers(column), np.array(values, dtype=float), equal_nan=True)


def test_one_missing_value_changes_the_text_of_no_other():
    whole = texts(pa.chunked_array([pa.array([10**15, 7])]))
    gap = texts(pa.chunked_array([pa.array([1e15, 7.0, None])]))
    assert whole[1].tolist() == gap[1].tolist() == ["1000000000000000", "7"]
    assert gap[0].tolist() == [0, 1, -1]
    column = pa.chunked_array([pa.array(["nan", "x", "1_0", "10", "?", " 1e1 "])])
    assert find_missing(column, ("10",)).tolist() == [False, False, False, True, False, True]
    assert find_missing(column, ("nan", "?")).tolist() == [True, False, False, False, True, False]


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


def test_table_of_missing_values_is_counted(tmp_path):
    age, job = "{bounds: [0, 90], bins: 3, nullable: true}", "{levels: [a, b], nullable: true}"
    spec = written_spec(tmp_path, f"{{age: {age}, job: {job}}}")
    snapshot = prepared_snapshot(spec, tmp_path, {"age": ["", ""], "job": [None, ""]})
    (table,) = exact_tables(open_counter(spec, snapshot), [("age", "job")])
    assert table.shape == (4, 3)
    assert table[3, 2] == table.sum() == 2


WORDS = st.one_of(st.none(), st.sampled_from(["", " ", "?", "-1", "5", "99", "x", "nan", "a", "A"]))


@settings(max_examples=50)
@given(cells=st.lists(WORDS, max_size=6), at=st.integers(0, 6))
def test_missingness_depends_on_the_value_only(cells, at):
    def is_missing(some):
        column = pa.chunked_array([pa.array(some, pa.string())])
        return find_missing(column, ("?", "-1")).tolist()

    assert is_missing(cells) == is_missing(cells[:at]) + is_missing(cells[at:])
    assert is_missing(cells) == [cell is None or cell.strip() in ("", "?", "-1") for cell in cells]


NUMBER_WORDS = ("-999", "-999.0", "1e3", "099", "inf", "?", "nan")
FLOATS = st.sampled_from([-999.0, 999.0, 1000.0, 99.0, 9.0, float("inf"), float("nan"), 0.5])


@settings(max_examples=50)
@given(
    values=st.lists(FLOATS, max_size=6),
    words=st.lists(st.sampled_from(NUMBER_WORDS), max_size=3).map(tuple),
)
def test_missing_numbers_agree_as_numbers_and_texts(values, words):
    stored = pa.chunked_array([pa.array(values, pa.float64())])
    # What a column of objects becomes: no point in a whole number, NaN is no value.
    texts = [None if isnan(value) else str(value).removesuffix(".0") for value in values]
    written = pa.chunked_array([pa.array(texts, pa.string())])
    assert find_missing(written, words).tolist() == find_missing(stored, words).tolist()


def test_all_stages_read_files_with_comments_and_gaps(tmp_path):
    form = "header: [age, job, sex], comment: '#'"
    source = f"{{kind: csv, paths: [one.csv, two.csv], {form}}}"
    spec = written_spec(tmp_path, PEOPLE, source=source)
    (tmp_path / "one.csv").write_text("17, Paid., f\n?, none, m\n\n")
    (tmp_path / "two.csv").write_text("# of another day\n64, ?, f\n-1, paid, m\n")
    snapshot = ingest(spec, tmp_path / "raw", key=KEY, snapshot_id=None, today=date(2026, 1, 1))
    assert refusal(spec, validate(spec, snapshot)) is None
    prepare(spec, snapshot)
    codes = read_stage(snapshot, "discretized").to_pydict()
    assert codes == {"age": [0, 2, 1, 2], "job": [0, 1, 2, 0], "sex": [0, 1, 0, 1]}
    assert snapshot.manifest["source"] == spec.source.identity


OTHER = "levels: [red, blue, rest], other: rest"


def prepared_cell(folder: Path, rule: str, attribute: str, cell: str | None) -> str | None:
    """The label of one cell after preparation; None where its row is left out."""
    here = ", on_invalid: other" if rule == "other" else ""
    spec = loaded(
        folder,
        rule=f"on_invalid: {'drop' if rule == 'other' else rule}",
        attributes=f"attributes:\n  odd: {{{attribute}{here}}}\n  x: {{bounds: [0, 8], bins: 4}}",
        models="models:\n  independent: {}",
    )
    odd, column = spec.domain["odd"], pa.chunked_array([pa.array([cell], pa.string())])
    (code,) = cell_codes(odd, column)
    return None if code == INVALID else odd.labels()[code]


AGES_OF, MISSING = "bounds: [0, 120], bins: 4", ("missing", "missing", None)
READ = [
    (AGES_OF, "130", ("missing", "[90, 120]", None)),
    (AGES_OF, "12", ("[0, 30)", "[0, 30)", "[0, 30)")),
    (AGES_OF, "old", MISSING),
    (f"{AGES_OF}, nullable: false", "130", ("[90, 120]", "[90, 120]", None)),
    (f"{AGES_OF}, nullable: false", "old", (None, None, None)),
    (OTHER, "green", ("rest", "rest", None)),
    *((f"levels: [red, {level}]", "green", MISSING) for level in ("blue", "missing")),
    ("levels: [red, blue], nullable: false", "green", (None, None, None)),
    *((attribute, None, MISSING) for attribute in (OTHER, "levels: [red, blue]")),
    ("levels: [red, blue], nullable: true", None, ("missing", "missing", "missing")),
]


@pytest.mark.parametrize(("attribute", "cell", "labels"), READ)
def test_cells_are_read_as_the_table_states(attribute, cell, labels, tmp_path):
    rules = ("keep", "clip", "drop")
    assert tuple(prepared_cell(tmp_path, rule, attribute, cell) for rule in rules) == labels
    if attribute == OTHER:
        # One attribute may keep what others drop.
        assert prepared_cell(tmp_path, "other", OTHER, cell) == labels[0]
