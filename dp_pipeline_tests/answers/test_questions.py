"""Questions and conditions in words, on open releases of every model and by commands."""

import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.answers.conditions import Condition
from dp_pipeline.answers.questions import answer_question
from dp_pipeline.answers.tables import OpenTable
from dp_pipeline.cli import main
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators import PrivateSynthesizer
from dp_pipeline_tests.answers.releases import release

COUNTS = np.array([[400, 100, 60], [80, 300, 260]])


@pytest.fixture(scope="module")
def opened() -> OpenTable:
    numbers = {"a": ["f", "m"], "b": ["1", "2", "3"]}
    return release(COUNTS, [(("a", "b"), COUNTS, 9.0)], names="ab", rows=1_200, labels=numbers)


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("count", [1200]),
        ("count where a = 'f' and b > 1", [160]),
        ("share where b = 3 among a = 'm'", [260 / 640]),
        ("mean b by a", [780 / 560, 1460 / 640]),
        ("mean `b` where a = 'f'", [780 / 560]),
        ("quantile 0.5 of b where a = 'f'", [1]),
        ("table a, b", COUNTS.ravel().tolist()),
        ("table  b", [480, 400, 320]),
    ],
)
def test_a_question_has_these_values(opened: OpenTable, question: str, values: list[float]) -> None:
    lines = answer_question(opened, question)
    assert [line["value"] for line in lines] == pytest.approx(values)
    assert all(line["low"] <= line["value"] <= line["high"] for line in lines)


@pytest.mark.parametrize("question", ["", "how many", "count if a", "quantile x of b", "table"])
def test_another_question_is_refused_with_examples(opened: OpenTable, question: str) -> None:
    message = r"be read: write one such as count where income = '50k\+' and sex ="
    with pytest.raises(DeclarationError, match=message):
        answer_question(opened, question)


def test_a_misspelt_level_is_refused_and_not_counted_as_none(opened: OpenTable) -> None:
    with pytest.raises(DeclarationError, match="of a in a condition must be one of f, m, not 'w'"):
        answer_question(opened, "count where a != 'w' or b = 1")


def test_missing_values_are_counted_by_their_name_alone() -> None:
    people = [["no", 0.5], ["yes", 2.5], [None, 1.5], ["no", None]] * 250
    domain = {"smokes": ["no", "yes"], "hours": {"bounds": [0, 3], "bins": 3}}
    synthesizer = PrivateSynthesizer(domain=domain, epsilon=20, noise="seeded:3").fit(people)
    spellings = ("smokes != 'no'", "not smokes = 'no'", "smokes not in ('no',)", "smokes = 'yes'")
    assert len({repr(synthesizer.count(spelling)) for spelling in spellings}) == 1
    assert synthesizer.count("not hours > 1").value == pytest.approx(250, abs=9)
    for column in domain:
        missing = synthesizer.count(f"{column} = 'missing'")
        assert (missing.value, missing.basis) == (pytest.approx(250, abs=9), "measured")
        present = synthesizer.count(f"not {column} = 'missing'")
        assert present.value == pytest.approx(750, abs=9)
    with pytest.raises(ValueError, match="condition names 'age', which is no column: choose from"):
        synthesizer.count("age > 3")


@pytest.mark.parametrize(
    ("folder", "code", "words"),
    [
        ("", 1, "datapackage.json does not exist: name the folder of an export"),
        ("absent", 2, "absent is not a folder: name the folder of an export"),
        ("s3://shop/trips", 2, "must be a folder of this computer, not an address that begins"),
    ],
)
def test_a_folder_that_is_no_export_is_refused(folder, code, words, tmp_path: Path) -> None:
    path = folder if "://" in folder else str(tmp_path / folder)
    result = CliRunner().invoke(main, ["ask", path, "count"])
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr


MODELS = ["one_shot", "independent", "privbayes", "privhd", "priview", "jtree", "mst", "aim_like"]
CELLS = np.array(list(product(range(2), range(3), range(2))))
REPEATS = np.array([300, 60, 90, 90, 210, 150, 60, 120, 330, 240, 90, 60])


@pytest.mark.parametrize("model", MODELS)
def test_a_model_answers_with_intervals(model: str) -> None:
    """Of 7 single shares 0.35 are missed on average; 4 or more in less than 1 of 1,000 releases."""
    rows, sizes = np.repeat(CELLS, REPEATS, axis=0), {"a": 2, "b": 3, "c": 2}
    domain = {name: {"size": size, "nullable": False} for name, size in sizes.items()}
    fit = PrivateSynthesizer(domain=domain, epsilon=1, method=model, noise="seeded:5").fit(
        rows.tolist()
    )
    missed = 0
    for place, (name, size) in enumerate(sizes.items()):
        lines = fit.table(name)
        true = np.bincount(rows[:, place], minlength=size)
        missed += int(((true < lines["low"]) | (lines["high"] < true)).sum())
        assert set(lines["basis"]) == {"measured"}
        assert (lines["low"] < lines["high"]).all()
    assert missed < 4
    pair = fit.share("a == 1", among="b == 2")
    assert pair.low < pair.value < pair.high
    assert pair.basis == ("model" if model == "independent" else "measured")
    averages = fit.mean("b", by="c")
    assert all(average.low < average.high for average in averages.values())
    first, second = fit.replicates(2, seed=1)
    assert list(first.columns) == list(sizes)
    assert not first.equals(second)


COLUMNS = {
    "age": np.array([3, 40, 70, 65]),
    "sex": np.array(["f", "m", "f", "m"]),
    "code": np.array(["1", "2", "10", "1"]),
    "income": np.array([None, 10.5, 20.0, None], dtype=object),
    "day": np.array(["2026-01-01", "NaT", "2026-03-01", "2026-02-01"], dtype="datetime64[D]"),
    "time": np.array(["1600-01-01", "NaT", "2026-03-01T12:00", "2300-01-01"], "datetime64[s]"),
    "hours per week": np.array([1, 2, 3, 4]),
    "column_0_": np.array([6, 7, 8, 9]),
    "NOT": np.array([5, 6, 8, 9]),
}
HUGE = "9" * 400  # above every float


@pytest.mark.parametrize(("text", "rows"), [
    ("65 <= age", "0011"), ("30 < age < 70", "0101"), ("age > -1", "1111"),
    ("sex = 'f'", "1010"), ("sex == 'f' and not age > 50", "1000"), ("sex in ('m', 'x')", "0101"),
    ("sex == 'a = b'", "0000"), ("code >= 2", "0110"), ("code == '10'", "0010"),
    ("day != 'missing'", "1011"), ("day >= '2026-02-01'", "0011"),
    ("time >= '2026-03-01 12:00:00.000000000'", "0011"),
    ("not income in (20, 'missing')", "0100"), ("`hours per week` <= 2", "1100"),
    ("column_0_ = 7", "0100"), ("`column_0_` = 7", "0100"),
    ("sex = 'f' AND age < 50 OR age IN (40, 41)", "1100"), ("sex = 'f AND m'", "0000"),
    ("NOT < 8 AND NOT > 5", "0100"),
    pytest.param(f"code < {HUGE}", "1111", id="below a huge number"),
    pytest.param(f"income > -{HUGE}", "0110", id="above a huge negative number"),
])  # fmt: skip
def test_a_condition_holds_in_these_rows(text: str, rows: str) -> None:
    condition = Condition.parse(text, tuple(COLUMNS))
    assert condition.rows(COLUMNS).tolist() == [row == "1" for row in rows]


NAMES = st.sampled_from(["a", "b", "c"])
LISTS = st.lists(st.integers(0, 2), max_size=3)
LEAVES = st.one_of(
    st.builds("{} {} {}".format, NAMES, st.sampled_from(["=", "!=", "<", ">="]), NAMES),
    st.builds("{} {} {}".format, NAMES, st.sampled_from(["=", "!=", ">", "<="]), st.integers(0, 2)),
    st.builds(
        lambda name, op, values: f"{name} {op} ({''.join(f'{value}, ' for value in values)})",
        NAMES,
        st.sampled_from(["in", "not in"]),
        LISTS,
    ),
    st.builds("{} {} 'missing'".format, NAMES, st.sampled_from(["=", "!="])),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.builds("not ({})".format, parts),
        st.builds("({}) {} ({})".format, parts, st.sampled_from(["and", "or"]), parts),
    ),
    max_leaves=6,
)
NUMBER = st.none() | st.integers(0, 2)


@given(CONDITIONS, st.lists(st.tuples(NUMBER, NUMBER, NUMBER), min_size=1, max_size=8))
def test_rows_with_missing_values_count_as_in_sql(text: str, rows) -> None:
    columns = {name: np.array([row[i] for row in rows], object) for i, name in enumerate("abc")}
    query = text.replace("!= 'missing'", "IS NOT NULL").replace("= 'missing'", "IS NULL")
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (a, b, c)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        answers = database.execute(f"SELECT ({query.replace(', )', ')')}) FROM t ORDER BY rowid")
        expected = [answer == 1 for (answer,) in answers]
    assert Condition.parse(text, ("a", "b", "c")).rows(columns).tolist() == expected


@pytest.mark.parametrize("text", [
    *("age", "age >", "1 < 2", "age + 1 > 2", "len(sex) == 1", "age.real == 1", "age = -'a'"),
    *("age if sex else 1", "(lambda: 1)()", "age = -True", "sex == f'x'", "age == None"),
    *("1 < 2 < age", "age in sex", "weight == 1", "`age == 1"),
    pytest.param("not " * 2_000 + "age = 1", id="deep"),
    pytest.param("not " * 20_000 + "age = 1", id="deeper"),
])  # fmt: skip
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(DeclarationError, match="The condition") as refused:
        Condition.parse(text, tuple(COLUMNS))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("text", "kind"), [("age > 'old'", "number"), ("day < 'x'", "date")])
def test_a_value_of_another_kind_is_refused(text: str, kind: str) -> None:
    condition = Condition.parse(text, tuple(COLUMNS))
    with pytest.raises(DeclarationError, match=f"compares {text[:3]}, a column of {kind}s, with"):
        condition.rows(COLUMNS)
