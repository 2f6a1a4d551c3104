"""Conditions: what is read, and that nothing else is."""

import numpy as np
import pytest

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
        ("age >= 65", [0, 0, 1, 1]),
        ("65 <= age", [0, 0, 1, 1]),
        ("30 < age < 70", [0, 1, 0, 1]),
        ("sex = 'f'", [1, 0, 1, 0]),
        ("sex == 'f' and not age > 50", [1, 0, 0, 0]),
        ("sex == 'm' or age == 3", [1, 1, 0, 1]),
        ("sex in ('m', 'x')", [0, 1, 0, 1]),
        ("age not in (3, 40)", [0, 0, 1, 1]),
        ("code >= 2", [0, 1, 1, 0]),
        ("code == '10'", [0, 0, 1, 0]),
        ("income > 15", [0, 0, 1, 0]),
        ("income != 20", [0, 1, 0, 0]),
        ("day >= '2026-02-01'", [0, 0, 1, 1]),
        ("`hours per week` <= 2", [1, 1, 0, 0]),
        ("sex == 'a = b'", [0, 0, 0, 0]),
        ("age > -1", [1, 1, 1, 1]),
        ("age in ()", [0, 0, 0, 0]),
        ("age not in ()", [1, 1, 1, 1]),
        pytest.param(f"code < {HUGE}", [1, 1, 1, 1], id="below a huge number"),
        pytest.param(f"income > -{HUGE}", [0, 1, 1, 0], id="above a huge negative number"),
        ("column_0_ = 7", [0, 1, 0, 0]),
        ("`column_0_` = 7", [0, 1, 0, 0]),
    ],
)
def test_a_condition_holds_in_these_rows(text: str, rows: list[int]) -> None:
    condition = Condition.parse(text, tuple(COLUMNS))
    assert condition.rows(COLUMNS).astype(int).tolist() == rows


@pytest.mark.parametrize(
    "text",
    [
        "age",
        "age >",
        "1 < 2",
        "age + 1 > 2",
        "len(sex) == 1",
        "age.real == 1",
        "age if sex else 1",
        "(lambda: 1)()",
        "age = -'a'",
        "age = -True",
        pytest.param("not " * 2_000 + "age = 1", id="deep"),
        pytest.param("not " * 20_000 + "age = 1", id="deeper"),
        "sex == f'x'",
        "age == None",
        "age in sex",
        "weight == 1",
        "`age == 1",
    ],
)
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(DeclarationError, match="The condition") as refused:
        Condition.parse(text, tuple(COLUMNS))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("text", "kind"), [("age > 'old'", "number"), ("day < 'x'", "date")])
def test_a_value_of_another_kind_is_refused(text: str, kind: str) -> None:
    condition = Condition.parse(text, tuple(COLUMNS))
    with pytest.raises(DeclarationError, match=f"compares {text[:3]}, a column of {kind}s, with"):
        condition.rows(COLUMNS)


def test_an_unknown_column_is_named_with_known_ones() -> None:
    with pytest.raises(
        DeclarationError, match="The condition names 'weight', which is no column: choose from"
    ):
        Condition.parse("weight == 1", tuple(COLUMNS))
