"""Every refusal says what to do next: the command that goes on, or the variable to set."""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from dp_pipeline.cli import main
from dp_pipeline.config.errors import NotPrepared
from dp_pipeline.config.parser import load_spec
from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.sqlite import MOVED
from dp_pipeline.orchestration.jobs import prepare_job_name
from dp_pipeline.raw.snapshot import Snapshot, mark_validated, require_prepared, require_stage
from dp_pipeline.releases.account import declared_account, require_snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline_tests.config.declarations import declaration, written
from dp_pipeline_tests.ledger.population import account, charge, release

PACKAGE = Path(__file__).resolve().parent.parent / "dp_pipeline"


@dataclass(frozen=True)
class Place:
    """A project in a folder of its own, with the data set toy of the population people."""

    folder: Path
    environment: pytest.MonkeyPatch

    @property
    def ledger(self) -> Ledger:
        return Home(self.folder / "home").ledger

    def declare(self, **changes: str) -> Path:
        return written(self.folder, declaration(**changes))

    def set(self, **variables: str) -> None:
        for name, text in variables.items():
            self.environment.setenv(name, text)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in ("DATA", "LEDGER", "LEDGER_HEAD", "SHOWN", "NOISE"):
        monkeypatch.delenv(f"DP_PIPELINE_{name}", raising=False)
    monkeypatch.setenv("DP_PIPELINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = Place(tmp_path, monkeypatch)
    found.declare()
    (tmp_path / "toy.csv").write_text("x\n")
    return found


def nothing(place: Place) -> None:
    """All is in place."""


def nowhere(place: Place) -> None:
    place.environment.delenv("DP_PIPELINE_HOME")


def spent(place: Place) -> None:
    spec = load_spec(place.folder / "toy.yaml")
    place.ledger.open_account(declared_account(spec))
    release(place.ledger, charge(population="people", epsilon="2.9"), "2.9")


def held(place: Place) -> None:
    place.ledger.open_account(account("others"))
    place.ledger.claim_source("others", f"file:{place.folder / 'toy.csv'}")


def declared(**changes: str) -> Callable[[Place], object]:
    return lambda place: place.declare(**changes)


def variables(**texts: str) -> Callable[[Place], None]:
    return lambda place: place.set(**texts)


def moved(place: Place) -> None:
    (place.folder / "home/ledger").mkdir(parents=True)
    (place.folder / "home/ledger" / MOVED).touch()


@dataclass(frozen=True)
class Refusal:
    """A command that is refused, and what its one line says of the next step."""

    command: str
    step: str
    before: Callable[[Place], object] = field(default=nothing)
    code: int = 2


PURE = {"purpose": "purpose: benchmark", "population": "population: gardens"}
REFUSALS = {
    "an unknown data set": Refusal("run nothing_alike", "`dp-pipeline data list`"),
    "a data set of another folder": Refusal(
        "plan nothing_alike", "`export DP_PIPELINE_DATASETS=FOLDER`"
    ),
    "a misspelt model": Refusal("run toy --model dpqt_kmean", "did you mean dpqt_kmeans?"),
    "a model of other data sets": Refusal("run toy --model mst", "declare mst in its file"),
    "an ε that is not listed": Refusal("run toy --epsilon 0.3", "under `partitions`"),
    "a data set that is not shown": Refusal(
        "budget --json", "", variables(DP_PIPELINE_SHOWN="tyo"), code=0
    ),
    "no home": Refusal("plan toy", "`export DP_PIPELINE_HOME=FOLDER`", nowhere),
    "no home for a budget": Refusal("budget", "`export DP_PIPELINE_HOME=FOLDER`", nowhere),
    "no folder of data sets": Refusal(
        "plan toy",
        "`export DP_PIPELINE_DATASETS=FOLDER`",
        variables(DP_PIPELINE_DATASETS="/nowhere/at/all"),
    ),
    "no data folder": Refusal("run adult", "`export DP_PIPELINE_DATA=FOLDER`"),
    "no database": Refusal(
        "run toy",
        "`export RIDES=URL`",
        declared(source="source: {kind: sql, database: $RIDES, query: SELECT x FROM a}"),
    ),
    "a draft": Refusal(
        "plan toy", "`dp-pipeline data check`", declared(protection="protection: {unit: TODO}")
    ),
    "a file that is not there": Refusal("data check rides.yaml", "`dp-pipeline data init rides"),
    "a budget that is spent": Refusal("plan toy", "`dp-pipeline budget raise toy", spent, 3),
    "a month that is spent": Refusal(
        "plan toy",
        "--per-month … --reason …`, or wait for the next month",
        declared(
            ceiling="ceiling: {total: 9, per_month: 0.5}", partitions="partitions: [0.1, 0.5]"
        ),
        3,
    ),
    "a raise of no account": Refusal(
        "budget raise toy --total 9 --reason more", "`dp-pipeline run` of one of its"
    ),
    "seeded noise": Refusal(
        "plan toy", "unset the variable DP_PIPELINE_NOISE", variables(DP_PIPELINE_NOISE="seeded:7")
    ),
    "a source of others": Refusal("data check toy.yaml", "distinct_population: REASON", held),
    "a protected source": Refusal(
        "data check toy.yaml",
        "`population: others` and `purpose: release`",
        lambda place: (held(place), place.declare(**PURE)),
    ),
    "a protected draft": Refusal(
        "data init again --from toy.csv --public",
        "`purpose: release`",
        held,
    ),
    "nothing to move to": Refusal("budget move", "`export DP_PIPELINE_LEDGER=postgresql://"),
    "rows that were moved": Refusal("budget", "`export DP_PIPELINE_LEDGER=postgresql://", moved),
    "no section": Refusal("anonymize toy", "section `k_anonymity`"),
    "a URL to draft from": Refusal("data init a --from https://a.org/a", "'$NAME' of a variable"),
}


REASON = "--reason more"


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("command", [
    *("run", "anonymize", "backfill", "budget", f"budget raise --total 4 {REASON}"),
    *("budget export", "data retire", "export --to out", "roll-up", "data docs"),
])  # fmt: skip
def test_a_misspelt_data_set_names_the_nearest(command: str) -> None:
    result = CliRunner().invoke(main, [*command.split(), "tyo"])
    assert result.exit_code == 2
    assert "did you mean toy?" in result.stderr


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_next_step(case: str, place: Place) -> None:
    refusal = REFUSALS[case]
    refusal.before(place)
    result = CliRunner().invoke(main, refusal.command.split())
    assert result.exit_code == refusal.code, result.output
    assert refusal.step in result.stderr
    assert result.stderr.count("\n") == (1 if refusal.code else 0)


def test_what_is_not_prepared_names_the_job_and_the_command(place: Place) -> None:
    spec, home = load_spec(place.folder / "toy.yaml"), Home(place.folder / "home")
    snapshot = Snapshot(place.folder / "toy/first", b"key")
    steps = [f"Dagster's job {prepare_job_name(spec)} does it, or `dp-pipeline run toy`"] * 4
    for step, look in zip(
        steps,
        (
            lambda: require_snapshot(spec, home),
            lambda: require_prepared(spec, snapshot),
            lambda: require_stage(spec, snapshot, "normalized"),
            lambda: snapshot.checked_path("normalized"),
        ),
        strict=True,
    ):
        with pytest.raises(NotPrepared, match=re.escape(step)):
            look()
    (place.folder / "toy/first").mkdir(parents=True)
    mark_validated(spec, snapshot, structural=True, refused=True)
    with pytest.raises(NotPrepared, match=r"`dp-pipeline run toy --snapshot NAME`"):
        require_prepared(spec, snapshot)


def _raised(*kinds: str) -> list[tuple[str, str]]:
    """Every error of some kinds that the package raises: where, and its words as source."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in kinds and node.args:
                words = ast.unparse(node.args[0])
                found.append((f"{path.relative_to(PACKAGE)}:{node.lineno}", words))
    return found


def test_refusals_of_snapshots_and_dead_releases_name_a_command() -> None:
    found = _raised("NotPrepared", "DeadRelease")
    assert len(found) >= 9
    steps = re.compile(r"preparation_hint\(|new_snapshot_hint\(|`--new-draw`|dp-pipeline")
    # What validation found is said by ``expectations.refusal``, which has the command.
    silent = [at for at, words in found if not steps.search(words) and words != "refused"]
    assert silent == []


def test_every_look_up_of_a_name_says_which_one_was_meant() -> None:
    """A list of known names that is written by hand has no suggestion behind it."""
    by_hand = re.compile(r"expected (one of|names from|parameters) \{")
    allowed = {"config/domain.py", "config/parameters.py", "config/dataset.py"}
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if by_hand.search(path.read_text(encoding="utf-8"))
    }
    found -= {one for one in found if one.startswith(("estimators/", "release/"))}
    # The first two ask for the nearest name themselves; of a K none is near.
    assert found <= allowed | {"cli/run.py"}
