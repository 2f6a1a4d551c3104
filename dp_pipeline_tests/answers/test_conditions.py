"""Conditions: what is read, and that nothing else is."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.answers.conditions import Condition
from dp_pipeline.config.errors import DeclarationError

COLUMNS = {
    "age": np.array([3, 40, 70, 65]),
    "sex": np.array(["f", "m", "f", "m"]),
    "code": np.array(["1", "2", "10", "1"]),
    "income": np.array([None, 10.5, 20.0, None], dtype=object),
    "day": np.array(["2026-01-01", "NaT", "2026-03-01", "2026-02-01"], dtype="datetime64[D]"),
    "hours per week": np.array([1, 2, 3, 4]),
    "column_0_": np.array([6, 7, 8, 9]),
}
HUGE = "9" * 400  # above every float


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("65 <= age", [0, 0, 1, 1]),
        ("30 < age < 70", [0, 1, 0, 1]),
        ("sex = 'f'", [1, 0, 1, 0]),
        ("sex == 'f' and not age > 50", [1, 0, 0, 0]),
        ("sex in ('m', 'x')", [0, 1, 0, 1]),
        ("code >= 2", [0, 1, 1, 0]),
        ("code == '10'", [0, 0, 1, 0]),
        ("not income in (20, 'missing')", [0, 1, 0, 0]),
        ("day != 'missing'", [1, 0, 1, 1]),
        ("day >= '2026-02-01'", [0, 0, 1, 1]),
        ("`hours per week` <= 2", [1, 1, 0, 0]),
        ("sex == 'a = b'", [0, 0, 0, 0]),
        ("age > -1", [1, 1, 1, 1]),
        pytest.param(f"code < {HUGE}", [1, 1, 1, 1], id="below a huge number"),
        pytest.param(f"income > -{HUGE}", [0, 1, 1, 0], id="above a huge negative number"),
        ("column_0_ = 7", [0, 1, 0, 0]),
        ("`column_0_` = 7", [0, 1, 0, 0]),
    ],
)
def test_a_condition_holds_in_these_rows(text: str, rows: list[int]) -> None:
    condition = Condition.parse(text, tuple(COLUMNS))
    assert condition.rows(COLUMNS).astype(int).tolist() == rows


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
    *("age in sex", "weight == 1", "`age == 1"),
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
