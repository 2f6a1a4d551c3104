"""Questions in words, on an open release and on the command line."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

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


@pytest.mark.parametrize("method", ["count", "share"])
def test_any_part_is_refused_of_rows_without_parts(opened: OpenTable, method: str) -> None:
    message = f"A {method} of rows without parts takes no `any_part`: leave it out"
    with pytest.raises(DeclarationError, match=message):
        getattr(opened, method)(any_part="b > 1")


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


def test_a_folder_that_is_no_export_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["ask", str(tmp_path), "count"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "datapackage.json does not exist: name the folder of an export" in result.stderr
