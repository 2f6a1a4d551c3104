"""Every refusal says what to do next, and a shell completes what files declare."""

import ast
import re
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from dp_pipeline.cli import main
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.config.parser import load_spec
from dp_pipeline.ledger.sqlite import MOVED
from dp_pipeline.orchestration.jobs import prepare_job_name
from dp_pipeline.raw.snapshot import Snapshot, mark_validated, require_prepared, require_stage
from dp_pipeline.releases.account import require_snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline_tests.config.declarations import declaration, written
from dp_pipeline_tests.test_architecture import run_command

PACKAGE = Path(__file__).resolve().parent.parent / "dp_pipeline"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder of its own, with the data set toy of the population people."""
    for name in ("DATA", "LEDGER", "LEDGER_HEAD", "SHOWN", "NOISE"):
        monkeypatch.delenv(f"DP_PIPELINE_{name}", raising=False)
    monkeypatch.setenv("DP_PIPELINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    written(tmp_path, declaration())
    (tmp_path / "toy.csv").write_text("x\n")
    return tmp_path


NO_HOME = {"DP_PIPELINE_HOME": None}
NO_FOLDER, A_FILE = {"DP_PIPELINE_DATASETS": "/nowhere/at/all"}, {"DP_PIPELINE_DATASETS": __file__}
REFUSALS = [
    ("run nothing_alike", "`dp-pipeline data list`", {}),
    ("plan nothing_alike", "`export DP_PIPELINE_DATASETS=FOLDER`", {}),
    ("run toy --model dpqt_kmean", "did you mean dpqt_kmeans?", {}),
    ("run toy --model mst", "declare mst in its file", {}),
    ("run toy --epsilon 0.3", "be one of 0.5, 1, not 0.3: list it under `partitions`", {}),
    ("run toy --epsilon 0,5", "expected a decimal number from 0.000001", {}),
    ("run ../toy", "There is no data set '../toy'", {}),
    ("run toy --snapshot ../x", "The name of a snapshot must have letters, digits", {}),
    ("run toy --snapshot current", "not be 'current'", {}),
    ("plan toy", "`export DP_PIPELINE_HOME=FOLDER`", NO_HOME),
    ("budget", "`export DP_PIPELINE_HOME=FOLDER`", NO_HOME),
    ("plan toy", "`export DP_PIPELINE_DATASETS=FOLDER`", NO_FOLDER),
    ("data list", "The variable DP_PIPELINE_DATASETS must name a folder", NO_FOLDER),
    ("run toy", "The variable DP_PIPELINE_DATASETS must name a folder", A_FILE),
    ("run adult", "`export DP_PIPELINE_DATA=FOLDER`", {}),
    ("data check rides.yaml", "`dp-pipeline data init rides", {}),
    ("budget raise toy --total 9 --reason more", "`dp-pipeline run` of one of its", {}),
    ("budget move", "`export DP_PIPELINE_LEDGER=postgresql://", {}),
    ("anonymize toy", "section `k_anonymity`", {}),
    ("data init a --from https://a.org/a", "'$NAME' of a variable", {}),
]


@pytest.mark.parametrize("command", [
    *("run", "anonymize", "backfill", "budget", "budget raise --total 4 --reason more"),
    *("budget export", "data retire", "export --to out", "roll-up", "data docs"),
])  # fmt: skip
def test_a_misspelt_data_set_names_the_nearest(command: str) -> None:
    require_step(f"{command} tyo", "did you mean toy?")


def require_step(command: str, step: str, *, code: int = 2, **variables: str | None) -> None:
    """Fail unless a command is refused in one line that names this step."""
    result = CliRunner().invoke(main, command.split(), env=variables)
    assert result.exit_code == code, result.output
    assert step in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("command", "step", "variables"), REFUSALS)
def test_a_refusal_names_the_next_step(command: str, step: str, variables, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    for words in {command, command.replace("run ", "plan ", 1)}:
        require_step(words, step, **variables)
    assert sorted(folder.rglob("*")) == before, "nothing is made"


def test_a_spent_month_names_the_raise_and_the_next_month(folder: Path) -> None:
    ceiling = "ceiling: {total: 9, per_month: 0.5}"
    written(folder, declaration(ceiling=ceiling, partitions="partitions: [0.1, 0.5]"))
    require_step("plan toy", "--per-month … --reason …`, or wait for the next month", code=3)


def test_a_moved_ledger_names_the_variable(folder: Path) -> None:
    (folder / "home/ledger").mkdir(parents=True)
    (folder / "home/ledger" / MOVED).touch()
    require_step("budget", "`export DP_PIPELINE_LEDGER=postgresql://")


def test_a_budget_of_data_sets_that_are_not_shown_is_no_error() -> None:
    result = CliRunner().invoke(main, ["budget", "--json"], env={"DP_PIPELINE_SHOWN": "tyo"})
    assert (result.exit_code, result.stderr) == (0, "")


def test_what_is_not_prepared_names_the_job_and_the_command(folder: Path) -> None:
    spec, home = load_spec(folder / "toy.yaml"), Home(folder / "home")
    snapshot = Snapshot(folder / "toy/first", b"key")
    step = f"Dagster's job {prepare_job_name(spec)} prepares the rows, or `dp-pipeline run toy`"
    for look in (
        lambda: require_snapshot(spec, home),
        lambda: require_prepared(spec, snapshot),
        lambda: require_stage(spec, snapshot, "normalized"),
        lambda: snapshot.checked_path("normalized"),
    ):
        with pytest.raises(NotPrepared, match=re.escape(step)):
            look()
    (folder / "toy/first").mkdir(parents=True)
    mark_validated(spec, snapshot, structural=True, refused=True)
    with pytest.raises(NotPrepared, match=r"`dp-pipeline run toy --snapshot NAME`"):
        require_prepared(spec, snapshot)


def errors_raised(*kinds: str) -> list[tuple[str, str]]:
    """Every error of some kinds that the package raises: where, and its words as source."""
    errors = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in kinds and node.args:
                words = ast.unparse(node.args[0])
                errors.append((f"{path.relative_to(PACKAGE)}:{node.lineno}", words))
    return errors


def test_refusals_of_snapshots_and_dead_releases_name_a_command() -> None:
    errors = errors_raised("NotPrepared", "DeadRelease")
    assert len(errors) >= 9
    steps = re.compile(r"preparation_hint|new_snapshot_hint|`--new-draw`|dp-pipeline")
    # What validation found is said by ``expectations.refusal``, which has the command.
    silent = [place for place, words in errors if not steps.search(words) and words != "refused"]
    assert silent == []


def test_every_look_up_of_a_name_says_which_one_was_meant() -> None:
    """A list of known names that is written by hand has no suggestion behind it."""
    by_hand = re.compile(r"expected (one of|names from|parameters) \{")
    # The first two ask for the nearest name themselves; of a K none is near.
    allowed = {"config/domain.py", "config/parameters.py", "config/dataset.py", "cli/run.py"}
    files = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if by_hand.search(path.read_text(encoding="utf-8"))
    }
    assert {file for file in files if not file.startswith(("estimators/", "release/"))} <= allowed


VARIABLE = "_DP_PIPELINE_COMPLETE"
SLOW = {"pydantic", "numpy", "dagster", "pandas", "pyarrow", "dp_pipeline.ledger"}
"""What takes long to import, reads rows or opens a ledger."""


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
