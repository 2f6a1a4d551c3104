"""`dp-pipeline check` names each fault with its remedy, and writes nothing."""

import json
import os
import time
from dataclasses import asdict, dataclass

import pytest
from click.testing import CliRunner, Result

from dp_pipeline.cli import main
from dp_pipeline.cli.check import check_home
from dp_pipeline.cli.check.findings import Finding
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.parameters import integer
from dp_pipeline.gate import charge
from dp_pipeline.ledger import Ledger
from dp_pipeline.models import MODELS
from dp_pipeline.models.clustering.dpqt_kmeans import DpqtKMeans
from dp_pipeline.releases.account import open_population
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.release import code_version
from dp_pipeline_tests.orchestration.patients import anonymized, declare, ready
from dp_pipeline_tests.orchestration.projects import RIDES, Project

SECRET = "1902107770713359"


@pytest.fixture(autouse=True)
def environment(rides: Project, monkeypatch) -> None:
    """RIDES prepared, and every place for its owner alone."""
    rides.home.root.chmod(0o700)
    enter(rides, monkeypatch)


def enter(project: Project, patch: pytest.MonkeyPatch) -> None:
    for name, value in project.environment.items():
        patch.setenv(name, value)


@pytest.fixture
def released(rides: Project, spec: DatasetSpec) -> DatasetSpec:
    rides.publish(spec)
    return spec


def check(*options: str) -> Result:
    return CliRunner().invoke(main, ["check", *options], catch_exceptions=False)


def about(project: Project, topic: str) -> list[Finding]:
    return [finding for finding in check_home(project.home) if finding.topic == topic]


def faults(project: Project) -> list[Finding]:
    return [finding for finding in check_home(project.home) if finding.state == "fault"]


@pytest.mark.usefixtures("released")
def test_a_home_in_order_is_well_and_nothing_in_it_changes(rides: Project, monkeypatch):
    before = rides.files()
    result = check()
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "no fault")
    formats = [f"{kind}: 1 of format 1" for kind in ("bundles", "transcripts", "manifests")]
    made = f"1 made by {code_version()}"
    for words in (*formats, "ledger.head: in step", "1 replayed at no cost", made):
        assert words in " ".join(result.output.split()), words
    document = json.loads(check("--json").output)
    assert document["findings"] == [asdict(finding) for finding in check_home(rides.home)]
    assert document["swept"] == []
    assert rides.files() == before
    # The number in the file may be older than the one in SQLite's journal beside it.
    monkeypatch.setattr(Ledger, "format", lambda _: 77)
    assert about(rides, "ledger")[0].text.startswith("format 77; ")


def test_an_empty_home_is_well_and_nothing_is_made_in_it(project: Project, monkeypatch):
    enter(project, monkeypatch)
    monkeypatch.delenv("DP_PIPELINE_DATASETS")
    before, result = project.paths(), check()
    assert result.exit_code == 0, result.output
    assert project.paths() == before


def test_no_value_of_a_row_and_no_exact_number_is_shown(rides: Project, spec: DatasetSpec):
    rides.write_rows("rides.csv", ["rider,x,y", *(f"{SECRET},{n % 8},1" for n in range(137))])
    snapshot = rides.snapshot(spec).folder
    (snapshot / "custodian").mkdir(exist_ok=True)
    (snapshot / "custodian" / "exact.json").write_text(f'{{"rows": {SECRET}}}', encoding="utf-8")
    (snapshot / "manifest.json").write_text(f"[{SECRET}", encoding="utf-8")
    result = check("--json")
    assert result.exit_code == 1
    assert SECRET not in result.output
    assert "manifest.json cannot be read: JSONDecodeError" in result.output


@pytest.mark.usefixtures("released")
def test_an_unknown_format_is_named_and_ends_nothing_else(rides: Project):
    (bundle,) = rides.home.released.rglob("bundle.json")
    fields = json.loads(bundle.read_text(encoding="utf-8"))
    bundle.write_text(json.dumps({**fields, "format": 99}), encoding="utf-8")
    rides.write_declaration("later", RIDES, format="2")
    fault_list = [finding.text for finding in faults(rides)]
    assert any(text.startswith(f"{bundle}: expected format 1, got 99") for text in fault_list)
    assert any("later.yaml:" in text and "format: expected 1" in text for text in fault_list)
    assert len(fault_list) == 2
    assert "1 replayed at no cost" in [finding.text for finding in about(rides, "releases")]


@pytest.mark.usefixtures("released")
def test_head_on_the_ledgers_disk_is_a_note_a_lost_one_a_fault(rides: Project):
    notes = [finding for finding in about(rides, "ledger") if finding.state == "note"]
    assert ["DP_PIPELINE_LEDGER_HEAD" in finding.remedy for finding in notes] == [True]
    (rides.home.root / "ledger.head").unlink()
    assert {finding.topic for finding in faults(rides)} >= {"ledger", "releases"}
    assert about(rides, "permissions"), "the rest is looked at"


@pytest.mark.parametrize("place", ["", "ledger", "ledger/keys", "raw", "raw/rides"])
def test_open_permissions_are_named_with_their_command(place: str, rides: Project):
    path = rides.home.root / place
    path.chmod(0o755)
    (fault,) = faults(rides)
    assert fault.text == f"{path} must be for its owner alone, not drwxr-xr-x"
    assert fault.remedy == f"chmod go-rwx {path}"
    path.chmod(0o700)
    assert not faults(rides)


def test_a_home_as_git_makes_it_is_closed_at_its_first_use(project: Project, monkeypatch):
    """Before it nothing private is in it; later whoever opens it wants readers to enter it."""
    enter(project, monkeypatch)
    root, spec = project.home.root, project.declare("rides", RIDES)
    root.mkdir()
    root.chmod(0o755)
    assert not faults(project)
    open_population(spec, project.home)
    assert (root.stat().st_mode & 0o777, faults(project)) == (0o700, [])
    root.chmod(0o755)
    open_population(spec, project.home)
    assert [finding.topic for finding in faults(project)] == ["permissions"]


def test_leftovers_of_killed_runs_are_named_and_swept(rides: Project, released: DatasetSpec):
    release = next(rides.home.released.rglob("transcript.jsonl")).parent
    leftovers = [
        release / ".bundle-1.abcdefgh.tmp",
        rides.snapshot(released).folder / ".normalized.parquet.12345678.tmp",
        rides.home.root / "ledger" / "keys" / ".0a1b.key.abcdefgh.tmp",
        rides.home.root / ".ledger.head.abcdefgh.tmp",
    ]
    leftovers[0].mkdir()
    (leftovers[0] / ".bundle.json.abcdefgh.tmp").write_bytes(b"half")
    for path in leftovers[1:]:
        path.write_bytes(b"half")
        path.chmod(0o600)
    other_files = {path: content for path, content in rides.files().items() if ".tmp" not in path}
    assert not faults(rides), "young: perhaps in use"
    before = time.time() - 2 * 24 * 3600
    for path in (*leftovers, *leftovers[0].iterdir()):
        os.utime(path, (before, before))
    assert {(fault.text, fault.remedy) for fault in faults(rides)} == {
        (f"{path} was left by a killed run", "dp-pipeline check --sweep") for path in leftovers
    }
    assert check().exit_code == 1
    result = check("--sweep")
    assert result.exit_code == 0, result.output
    assert not any(path.exists() for path in leftovers)
    assert rides.files() == other_files


def test_run_sweeps_what_a_killed_one_left_of_it(rides, spec, transcript):
    leftover = transcript.parent / ".bundle-1.abcdefgh.tmp"
    leftover.mkdir()
    before = time.time() - 3600
    os.utime(leftover, (before, before))
    assert rides.publish(spec).state == "resumed"
    assert not leftover.exists()


def test_a_snapshot_that_was_never_read_to_the_end_is_named(rides: Project):
    half = rides.home.raw / "rides" / "half"
    half.mkdir(mode=0o700)
    (note,) = [finding for finding in about(rides, "leftovers") if finding.state == "note"]
    assert note.text.startswith("snapshot rides/half: ")
    assert note.remedy == "dp-pipeline run rides --snapshot half"


def test_unfinished_release_is_named_with_command(rides, spec, transcript):
    torn = transcript.read_bytes() + b'{"chain'
    transcript.write_bytes(torn)
    (fault,) = faults(rides)
    assert fault.text.startswith("rides/dpqt_kmeans at ε=0.5, key ")
    assert fault.text.endswith(": the release is charged and not finished")
    assert fault.remedy == "dp-pipeline run rides --model dpqt_kmeans --epsilon 0.5"
    assert transcript.read_bytes() == torn
    with rides.ledger._book.store.holding(*rides.ledger.unfinished()):
        (note,) = [finding for finding in about(rides, "releases") if finding.state == "note"]
    assert note.text.endswith("a process draws it now")
    rides.publish(spec)
    assert not faults(rides)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nominal_rows": "50"}, "nominal_rows: was 40, is 50: declare it as it was"),
        ({"k": "2"}, "was started with"),
        ({}, "its answers are lost"),
        (None, "charged and cannot be finished now: the next stored answer"),
    ],
)
def test_release_that_no_run_can_finish_is_named(changes, words, rides, transcript, monkeypatch):
    models = {"dpqt_kmeans": {**RIDES["models"]["dpqt_kmeans"], **(changes or {})}}
    rides.declare("rides", RIDES, models=models)
    if changes is None:
        monkeypatch.setattr(charge, "DIGEST_VERSION", charge.DIGEST_VERSION + 1)
    elif not changes:
        transcript.unlink()
    (fault,) = faults(rides)
    assert words in fault.text
    remedy = f"finish it with {code_version()}, or give it up by `dp-pipeline budget"
    assert (remedy in fault.text) == (changes is None)


@dataclass(frozen=True)
class MoreParameters(DpqtKMeans):
    least: int = integer(2, at_least=1, measuring=True)


@pytest.mark.usefixtures("released")
def test_what_the_next_run_would_charge_is_announced(rides: Project, monkeypatch):
    assert about(rides, "releases")[0].text == "1 replayed at no cost"
    with monkeypatch.context() as patch:
        patch.setitem(MODELS, "dpqt_kmeans", MoreParameters)
        findings = about(rides, "releases")
    assert findings[0].text == "1 charged anew by the next run"
    words = "rides/dpqt_kmeans at ε=0.5: a run would charge it anew: least: was not there, is 2"
    assert (findings[-1].state, findings[-1].text) == ("note", words)
    attributes = {"x": {"bounds": ["0", "9"]}, "y": {"bounds": ["0", "4"]}}
    rides.declare("rides", RIDES, attributes=attributes, evaluation={"epsilon": "0.1"})
    text = about(rides, "releases")[-1].text
    assert "what is measured of the rows is declared otherwise" in text
    assert "evaluation: was 0.05, is 0.1" in text
    (rides.datasets / "rides.yaml").unlink()
    findings = about(rides, "releases")
    assert findings[0].text == "1 stored, and not declared by any file of today"
    assert {finding.state for finding in findings} == {"ok"}


def test_each_kind_of_release_is_compared_with_its_own_code(project: Project, monkeypatch):
    enter(project, monkeypatch)
    anonymized(project, ready(project))
    code = KAnonymousRelease.version()
    assert code != code_version()
    assert f"1 made by {code}" in [finding.text for finding in about(project, "releases")]
    monkeypatch.setattr(KAnonymousRelease, "version", lambda: "other code")
    texts = [finding.text for finding in about(project, "releases")]
    assert f"1 made by {code}; this is other code" in texts


def test_a_table_at_a_k_that_no_file_lists_is_not_declared(project: Project, monkeypatch):
    enter(project, monkeypatch)
    anonymized(project, ready(project))
    assert about(project, "releases")[0].text == "1 replayed at no cost"
    declare(project, k_anonymity={"methods": {"kjig": {}}, "partitions": ["5"]})
    assert about(project, "releases")[0].text == "1 stored, and not declared by any file of today"
