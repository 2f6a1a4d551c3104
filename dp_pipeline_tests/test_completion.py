"""What a shell completes: names that files declare, at once, without rows and without a ledger."""

from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from dp_pipeline.cli import main
from dp_pipeline_tests.config.declarations import declaration, written
from dp_pipeline_tests.test_architecture import run_command

VARIABLE = "_DP_PIPELINE_COMPLETE"
SLOW = {"pydantic", "numpy", "dagster", "pandas", "pyarrow", "dp_pipeline.ledger"}
"""What takes long to import, reads rows or opens a ledger."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data set toy, and a home that nobody has made."""
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(tmp_path))
    monkeypatch.setenv("DP_PIPELINE_HOME", str(tmp_path / "home"))
    written(tmp_path, declaration())
    return tmp_path


def completed(*words: str) -> list[str]:
    """What is offered for the last of some words."""
    shell = BashComplete(main, {}, "dp-pipeline", VARIABLE)
    *before, incomplete = words
    return [item.value for item in shell.get_completions(before, incomplete)]


@pytest.mark.parametrize("words", [
    *("run", "plan", "backfill", "anonymize", "roll-up", "export", "budget"),
    *("budget raise", "budget export", "data retire", "data docs"),
])  # fmt: skip
def test_a_data_set_is_completed_as_the_argument_of_a_command(words: str):
    assert completed(*words.split(), "to") == ["toy"]
    assert completed(*words.split(), "trip") == ["trips"]


def test_models_and_levels_are_those_of_the_data_set_before():
    assert completed("run", "census", "--model", "") == ["one_shot", "privbayes", "independent"]
    assert completed("run", "census", "--model", "p") == ["privbayes"]
    assert completed("plan", "census", "--model", "one_shot", "--epsilon", "0") == ["0.1", "0.5"]
    assert completed("backfill", "trips", "--epsilon", "") == ["0.1", "0.5", "1"]
    assert completed("anonymize", "wdbc", "--method", "hamdist_f") == ["hamdist_forward"]
    assert completed("export", "wdbc", "") == [
        *("independent", "dp_kjig", "kjig", "rfka", "hamdist_backward", "hamdist_forward"),
        *("mondrian", "tree"),
    ]


def test_the_first_word_of_budget_is_a_command_or_a_data_set():
    assert completed("budget", "r") == ["raise", "restore", "rides_stream"]


@pytest.mark.parametrize("named", ["nowhere", "--model"])
def test_without_a_data_set_nothing_is_offered(named: str):
    assert completed("run", named, "--model", "") == []


@pytest.mark.parametrize("text", ["models: [", "models: one\n", "- a\n", "\x00"])
def test_a_file_that_cannot_be_read_completes_to_nothing(text: str, folder: Path):
    (folder / "toy.yaml").write_text(text)
    assert completed("run", "toy", "--model", "") == []
    assert completed("run", "to") == ["toy"]


def test_a_folder_that_is_not_there_completes_to_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DP_PIPELINE_DATASETS", "nowhere")
    assert completed("run", "trip") == []
    assert completed("run", "trips", "--model", "") == []


def test_completion_imports_no_slow_package(folder: Path):
    request = {"COMP_WORDS": "dp-pipeline run census --model ", "COMP_CWORD": "4"}
    result = run_command([], folder / "home", **request, **{VARIABLE: "bash_complete"})
    assert result.stdout.split() == ["plain,one_shot", "plain,privbayes", "plain,independent"]
    assert not set(result.stderr.split()) & SLOW
    assert not (folder / "home").exists()
