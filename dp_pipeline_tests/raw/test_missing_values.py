"""Missing values of nullable attributes keep their rows and are a cell of their own."""

from datetime import date
from math import isnan
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.encoding import INVALID
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.expectations import expectations_of
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare, stages_of
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.raw.validate import refusal, validate
from dp_pipeline.raw.values import cell_codes, find_missing
from dp_pipeline_tests.config.declarations import declaration, loaded
from dp_pipeline_tests.raw.written import KEY, ingested, prepared_snapshot, written_spec

PEOPLE = """
  age: {bounds: [0, 90], edges: [18], nullable: true, missing: ["?", "-1"]}
  job: {levels: [paid, none], nullable: true, missing: ["?"], aliases: {Paid.: paid}}
  sex: {levels: [f, m]}
"""
ROWS = {
    "age": ["17", "", " ? ", "-1", "90", None, "18"],
    "job": ["Paid.", "?", "none", "", " paid ", "none", None],
    "sex": ["f", "f", "m", "f", "m", "f", "m"],
}
AGES, JOBS, SEXES = [0, 2, 2, 2, 1, 2, 1], [0, 2, 1, 2, 0, 1, 2], [0, 0, 1, 0, 1, 0, 1]


def people(folder: Path, *, attributes: str = PEOPLE, **options: str) -> DatasetSpec:
    return written_spec(folder, attributes, **options)


def prepared(spec: DatasetSpec, folder: Path, columns, name: str = "day") -> dict[str, dict]:
    snapshot = ingested(folder, columns, name)
    verdicts = validate(spec, snapshot)
    assert refusal(spec, verdicts) is None
    prepare(spec, snapshot)
    return {stage: read_stage(snapshot, stage).to_pydict() for stage in stages_of(spec)}


def failed(spec: DatasetSpec, folder: Path, columns, name: str = "day") -> set[str]:
    verdicts = validate(spec, ingested(folder, columns, name))
    return {verdict.expectation.name for verdict in verdicts if not verdict.passed}


def test_a_missing_value_keeps_its_row_and_is_the_last_code(tmp_path):
    stored = prepared(people(tmp_path, more="one_hot: true"), tmp_path, ROWS)
    assert stored["discretized"] == {"age": AGES, "job": JOBS, "sex": SEXES}
    assert stored["normalized"]["age.clipped"] == [17, None, None, None, 90, None, 18]
    assert [value is None for value in stored["normalized"]["age"]] == [code == 2 for code in AGES]
    words = ["paid", None, "none", None, "paid", "none", None]
    assert stored["normalized"]["job"] == words
    names = ["age=[0, 18)", "age=[18, 90]", "age=missing"]
    assert [stored["one_hot"][name] for name in names] == [
        [int(code == cell) for code in AGES] for cell in range(3)
    ]


@pytest.mark.chain
@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.float32()])
def test_missing_numbers_are_nulls_nan_and_the_declared_ones(tmp_path, kind):
    ages = pa.array([17, None, -1, 90]).cast(kind)
    rows = pa.table({"age": ages, "job": ["paid"] * 4, "sex": ["f"] * 4})
    assert prepared(people(tmp_path), tmp_path, rows)["discretized"]["age"] == [0, 2, 2, 1]
    nan = pa.table({"age": [float("nan"), 17.0], "job": ["?", "none"], "sex": ["f", "f"]})
    assert prepared(people(tmp_path), tmp_path, nan, "nan")["discretized"]["age"] == [2, 0]


CODES = {
    "numbers as levels": (
        "{smokes: {levels: 0..1, nullable: true, missing: [9]}}",
        {"smokes": [1.0, None, 9.0, float("nan"), 0.0]}, {"smokes": [1, 2, 2, 2, 0]},
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
        PEOPLE,
        {"age": ["?", "1"], "job": ["?", "?"], "sex": ["", "m"]},
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
    rule: (
        f"{{age: {{bounds: [0, 90], bins: 2, nullable: true, on_invalid: {rule}}}}}",
        {"age": ["-5", "", "1e9", "90", "old"]},
        {"age": ages},
    )
    for rule, ages in {"keep": [2, 2, 2, 1, 2], "clip": [0, 2, 1, 1, 2], "drop": [2, 1]}.items()
}  # fmt: skip


@pytest.mark.chain
@pytest.mark.parametrize("name", CODES)
def test_only_missing_values_are_missing(tmp_path, name):
    attributes, cells, codes = CODES[name]
    spec = people(tmp_path, attributes=attributes, purpose="release")
    assert prepared(spec, tmp_path, pa.table(cells))["discretized"] == codes


def test_missing_values_fulfil_nullable_expectations(tmp_path):
    spec = people(tmp_path)
    assert failed(spec, tmp_path, ROWS) == set()
    named = {e.name: e.description for e in expectations_of(spec) if not e.structural}
    assert list(named) == ["has_rows", "bounds__age", "levels__job", "present__sex", "levels__sex"]
    assert named["bounds__age"] == "Every value of age is missing or a number between 0 and 90."


@pytest.mark.chain
@pytest.mark.parametrize("cell", ["age old", "age nan", "age 90.5", "job idle", "job -1"])
def test_invalid_value_fails_its_one_expectation(tmp_path, cell):
    column, value = cell.split()
    rows = {**ROWS, column: [value, *ROWS[column][1:]]}
    broken = {"age": "bounds__age", "job": "levels__job"}[column]
    assert failed(people(tmp_path), tmp_path, rows) == {broken}


def test_table_of_missing_values_is_counted(tmp_path):
    age, job = "{bounds: [0, 90], bins: 3, nullable: true}", "{levels: [a, b], nullable: true}"
    spec = people(tmp_path, attributes=f"{{age: {age}, job: {job}}}")
    snapshot = prepared_snapshot(spec, tmp_path, {"age": ["", ""], "job": [None, ""]})
    (table,) = open_counter(spec, snapshot).exact_tables([("age", "job")])
    assert table.shape == (4, 3)
    assert table[3, 2] == table.sum() == 2


def test_rows_with_missing_values_are_bounded(tmp_path):
    persons = "{unit: rows_of_person, column: rider, at_most: 1}"
    spec = people(tmp_path, protection=persons)
    rows = {**ROWS, "rider": ["ann", "bob", "bob", "cid", "cid", "dot", "dot"]}
    stored = prepared(spec, tmp_path, rows)
    assert len(stored["discretized"]["age"]) == 4


CELLS = st.one_of(st.none(), st.sampled_from(["", " ", "?", "-1", "5", "99", "x", "nan", "a", "A"]))


@settings(max_examples=50)
@given(cells=st.lists(CELLS, max_size=6), at=st.integers(0, 6))
def test_missingness_depends_on_the_value_only(cells, at):
    def is_missing(some):
        column = pa.chunked_array([pa.array(some, pa.string())])
        return find_missing(column, ("?", "-1")).tolist()

    assert is_missing(cells) == is_missing(cells[:at]) + is_missing(cells[at:])
    assert is_missing(cells) == [cell is None or cell.strip() in ("", "?", "-1") for cell in cells]


NUMBER_WORDS = ("-999", "-999.0", "1e3", "099", "inf", "?", "nan")
NUMBERS = st.sampled_from([-999.0, 999.0, 1000.0, 99.0, 9.0, float("inf"), float("nan"), 0.5])


@settings(max_examples=50)
@given(
    values=st.lists(NUMBERS, max_size=6),
    words=st.lists(st.sampled_from(NUMBER_WORDS), max_size=3).map(tuple),
)
def test_missing_numbers_agree_as_numbers_and_texts(values, words):
    stored = pa.chunked_array([pa.array(values, pa.float64())])
    # What a column of objects becomes: no point in a whole number, NaN is no value.
    texts = [None if isnan(value) else str(value).removesuffix(".0") for value in values]
    written = pa.chunked_array([pa.array(texts, pa.string())])
    assert find_missing(written, words).tolist() == find_missing(stored, words).tolist()


def test_only_declared_words_are_missing_numbers():
    column = pa.chunked_array([pa.array(["nan", "x", "1_0", "10", "?", " 1e1 "])])
    assert find_missing(column, ("10",)).tolist() == [False, False, False, True, False, True]
    assert find_missing(column, ("nan", "?")).tolist() == [True, False, False, False, True, False]


def test_all_stages_read_files_with_comments_and_gaps(tmp_path):
    form = "header: [age, job, sex], comment: '#'"
    source = f"{{kind: csv, paths: [one.csv, two.csv], {form}}}"
    spec = people(tmp_path, source=source)
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


def test_another_choice_is_another_release(tmp_path):
    clip, drop = (loaded(tmp_path, rule=f"on_invalid: {rule}") for rule in ("clip", "drop"))
    assert clip.digest != drop.digest
    assert loaded(tmp_path, rule="on_invalid: keep").digest == loaded(tmp_path).digest
    assert "on_invalid" not in declaration()
