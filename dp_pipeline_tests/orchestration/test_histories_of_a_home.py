"""No account is opened beside a lost ledger, nor for files that another population claims."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.csv
import pyarrow.parquet
import pytest

from dp_pipeline.anonymity.coded_rows import TooFewRows
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, PipelineError
from dp_pipeline.raw import ingest as ingest_module
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.retirement import retire
from dp_pipeline.releases import account
from dp_pipeline.releases.account import open_population, require_snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.published_copy import publish_copies
from dp_pipeline_tests.orchestration.faults import Crash, crash
from dp_pipeline_tests.orchestration.patients import ROWS, anonymized, ready
from dp_pipeline_tests.orchestration.projects import HOMES, PUBLIC, RIDES, TODAY, Project

OTHER = {"source": {"kind": "csv", "path": "other.csv"}}
"""Another data set, of other files: of the same population, or of nobody that is known."""


def forget_the_ledger(project: Project) -> None:
    shutil.rmtree(project.home.ledger_folder)
    (project.home.root / "ledger.head").unlink()


def another(project: Project, **changes: object) -> DatasetSpec:
    project.datasets.mkdir(exist_ok=True)
    project.write_rows("other.csv", ["rider,x,y", "ann,1,1"])
    return project.declare("tours", {**RIDES, **OTHER}, **changes)


@pytest.fixture
def spec(project: Project) -> DatasetSpec:
    spec = project.declare("rides", RIDES)
    project.prepare(spec)
    return spec


def refused(project: Project, spec: DatasetSpec, *, words: str) -> None:
    before = project.files()
    with pytest.raises(Damaged, match=words) as error:
        open_population(spec, project.home)
    assert len(str(error.value).splitlines()) == 1
    assert project.files() == before, "something was made"


def leave(project: Project, spec: DatasetSpec, left: str) -> None:
    """Leave one trace alone of rows that were read and released."""
    if left == "retired rows":
        snapshot = project.snapshot(spec)
        retire(snapshot, population="riders", on=TODAY)
        assert [path.name for path in snapshot.folder.iterdir()] == ["manifest.json"]
    if left in ("rows", "retired rows"):
        return
    folder = project.publish(spec).folder
    shutil.rmtree(project.home.raw)
    if left == "a bundle":
        (folder.parent / "transcript.jsonl").unlink()
        (folder.parent / "population").unlink()
    elif left == "a transcript":
        shutil.rmtree(folder)
    else:
        assert publish_copies(spec, project.home)["dpqt_kmeans"] is not None
        shutil.rmtree(project.home.released)


OF_RIDERS = "the ledger does not know population riders, although (rows|releases) of it are in "


@pytest.mark.parametrize("left", ["rows", "retired rows", "a bundle", "a transcript", "an export"])
@pytest.mark.parametrize("population", ["riders", "others"])
@pytest.mark.parametrize("source", [OTHER["source"], RIDES["source"]], ids=["other", "same"])
def test_a_ledger_that_was_lost_brings_no_budget_back(left, population, source, project, spec):
    leave(project, spec, left)
    forget_the_ledger(project)
    spec = another(project, population=population, source=source)
    refused(project, spec, words=f"tours: {OF_RIDERS}")


@pytest.mark.usefixtures("spec")
def test_new_ledger_does_not_know_old_releases(project: Project):
    forget_the_ledger(project)
    aside = project.home.raw.rename(project.folder / "aside")
    open_population(another(project, population="others"), project.home)
    aside.rename(project.home.raw)
    refused(project, project.declare("homes", HOMES), words=f"homes: {OF_RIDERS}")


@pytest.mark.parametrize("folder", ["internal/tours/evaluation", "reports/tours.cards"])
def test_evaluations_and_reports_of_same_data_set_are_history(folder: str, project: Project):
    path = project.home.root / folder
    path.mkdir(parents=True)
    (path / "0.5.json").write_text("{}")
    words = f"although (evaluations|reports) of it are in {project.home.root}/"
    refused(project, another(project), words=words)


@pytest.mark.parametrize(("rows", "k"), [(ROWS, 2), (ROWS[:4], 5)], ids=["released", "failed"])
def test_k_anonymous_releases_are_a_history(rows: tuple[str, ...], k: int, project: Project):
    spec = ready(project, rows=rows)
    with pytest.raises(TooFewRows) if k > len(rows) else nullcontext():
        anonymized(project, spec, k=k)
    shutil.rmtree(project.home.raw)
    forget_the_ledger(project)
    tours = another(project, population="ward")
    refused(project, tours, words="although releases of it are in .*/k_anonymous/kjig/")


def manifest(project: Project, text: str | None) -> Path:
    """Leave another text of the manifest, or none; gives the folder of the snapshot."""
    (path,) = project.home.raw.rglob("manifest.json")
    path.unlink() if text is None else path.write_text(text)
    return path.parent


def file_among_snapshots(project: Project) -> Path:
    path = project.home.raw / "rides" / "rows.csv"
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    path.write_text("ann,1,1")
    return path


def release_of_nobody(project: Project) -> Path:
    folder = project.publish(project.declare("rides", RIDES)).folder
    shutil.rmtree(project.home.raw)
    (folder.parent / "population").write_bytes(b"\xff")
    (folder / "bundle.json").write_text("[" * 100_000)
    return folder.parent


SPOILT: dict[str, Callable[[Project], Path]] = {
    "no manifest": lambda project: manifest(project, None),
    "a broken manifest": lambda project: manifest(project, "{"),
    "no population": lambda project: manifest(project, '{"format": 1, "population": 7}'),
    "a file": file_among_snapshots,
    "a release": release_of_nobody,
}


@pytest.mark.usefixtures("spec")
@pytest.mark.parametrize("name", SPOILT)
def test_releases_of_an_unreadable_population_are_refused(name: str, project: Project):
    path = SPOILT[name](project)
    forget_the_ledger(project)
    words = f"the (rows|releases) in {path} name no population"
    refused(project, another(project, population="others"), words=words)


def test_two_populations_open_their_accounts(project: Project, spec: DatasetSpec, monkeypatch):
    project.publish(spec)
    open_population(project.declare("homes", HOMES), project.home)
    assert set(project.ledger.populations()) == {"riders", "town"}
    assert project.spent(spec) == Fraction("0.55")
    # The home is not searched for a population that the ledger knows.
    monkeypatch.setattr(account, "find_traces", Mock(side_effect=AssertionError))
    open_population(spec, project.home)
    open_population(another(project), project.home)


MOVED = {"population": "others", "source": OTHER["source"]}
"""The same name of a data set, of other files: whose rows these are its file alone says."""


@pytest.mark.usefixtures("spec")
@pytest.mark.parametrize("has_account", [True, False])
def test_data_set_does_not_change_its_population_without_reason(has_account, project: Project):
    project.write_rows("other.csv", ["rider,x,y", "ann,1,1"])
    if has_account:
        rows = {"kind": "csv", "path": "third.csv"}
        open_population(another(project, population="others", source=rows), project.home)
    moved = project.declare("rides", RIDES, **MOVED)
    words = r"data set rides belongs to population riders \(release\), so population others"
    with pytest.raises(DeclarationError, match=words):
        open_population(moved, project.home)
    checked = project.cli_here("data", "check", str(project.datasets / "rides.yaml"))
    assert (checked.code, "data set rides belongs to population riders" in checked.err) == (2, True)
    assert ("others" in project.ledger.populations()) is has_account
    reason = {**MOVED, "distinct_population": "drivers, not riders"}
    with pytest.raises(DeclarationError, match="data set rides is protected by population riders"):
        open_population(project.declare("rides", RIDES, **reason | SHOWN), project.home)
    open_population(project.declare("rides", RIDES, **reason), project.home)
    assert "others" in project.ledger.populations()


def test_rows_name_their_population_before_they_are_stored(project: Project, monkeypatch):
    spec = project.declare("rides", RIDES)
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr("dp_pipeline.raw.snapshot.Snapshot.store_table", crash)
        project.prepare(spec)
    (manifest,) = project.home.raw.rglob("manifest.json")
    assert json.loads(manifest.read_text())["population"] == "riders"
    project.prepare(spec)


def test_releases_that_cannot_be_listed_are_not_taken_for_none(tmp_path: Path, monkeypatch):
    home = Home(tmp_path)
    assert list(account.find_traces(home)) == []
    closed = home.released / "rides"
    (closed / "grid" / "key").mkdir(parents=True)
    real = os.scandir

    def refused(path: Path | str) -> Any:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(PipelineError, match="rides cannot be used: Permission denied"):
        list(account.find_traces(home))


WEEK = "2026-W01"
WEEKLY: dict[str, Any] = {
    "protection": {**RIDES["protection"], "within": "window"},
    "windows": {"column": "ended", "every": "week", "first": WEEK},
    "ceiling": {"each_window": "2", "total": "9"},
}
WEEKS = {"kind": "csv", "path": "w/{window}.csv"}
SHOWN = {**PUBLIC, "population": "shown"}
Link = Callable[[Path, Path], None]


def folder(path: Path, target: Path) -> None:
    path.symlink_to(target.parent)


soft, hard = Path.symlink_to, Path.hardlink_to
LINKED = (
    ("csv", soft, "w/{window}.csv"),
    ("csv", hard, "w/{window}.csv"),
    ("csv", soft, "w/part.csv"),
    ("csv", hard, "w/part.csv"),
    ("parquet", soft, "w"),
    ("parquet", hard, "w"),
    ("parquet", soft, "w/{window}.parquet"),
    ("parquet", folder, "w/{window}"),
)


@pytest.fixture
def target(project: Project) -> Path:
    """Where the rows are, as CSV; the same as Parquet lies beside it."""
    lake = project.datasets / "lake" / WEEK
    lake.mkdir(parents=True)
    (project.datasets / "w").mkdir()
    rows = ["rider,ended,x,y", "ann,2026-01-01,1,1", "bob,2026-01-02,7,3"]
    path = lake / "rows.csv"
    project.write_rows(f"lake/{WEEK}/rows.csv", rows)
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(path), path.with_suffix(".parquet"))
    return path


@pytest.fixture(params=LINKED, ids=lambda one: f"{one[0]}-{one[1].__name__}-{one[2]}")
def linked(project: Project, target: Path, request: pytest.FixtureRequest) -> DatasetSpec:
    kind, link, path = request.param
    name = path.replace("{window}", WEEK) if path != "w" else "w/part.parquet"
    link(project.datasets / name, target.with_suffix(f".{kind}"))
    paths = {"paths": [path, "w/more.csv"]} if path == "w/part.csv" else {"path": path}
    if "paths" in paths:
        project.write_rows("w/more.csv", ["rider,ended,x,y"])
    source = {"kind": kind, **paths}
    spec = project.declare("weekly", RIDES, source=source, **(WEEKLY if "{" in path else {}))
    return spec.at_window(WEEK) if spec.windows is not None else spec


def direct(project: Project, linked: DatasetSpec, **changes: Any) -> DatasetSpec:
    """A data set that names the rows where they are."""
    kind = linked.source.kind
    source = {"kind": kind, "path": f"lake/{WEEK}/rows.{kind}"}
    return project.declare("direct", RIDES, source=source, **changes)


def read(project: Project, spec: DatasetSpec) -> None:
    ledger = open_population(spec, project.home)
    key, claim = ledger.key(spec.population), account.source_claimer(spec, ledger)
    ingest(spec, project.home.raw, key=key, snapshot_id=None, today=TODAY, claim=claim)


@pytest.mark.parametrize("stays", [True, False])
def test_rows_read_through_link_are_protected(stays: bool, project: Project, linked: DatasetSpec):
    read(project, linked)
    if not stays:
        shutil.rmtree(project.datasets / "w")
    with pytest.raises(DeclarationError, match="is protected by population riders"):
        open_population(direct(project, linked, **SHOWN), project.home)
    other = direct(project, linked, population="others")
    with pytest.raises(DeclarationError, match="belongs to population riders"):
        open_population(other, project.home)
    assert project.ledger.populations() == ("riders",)


def test_a_link_to_rows_that_were_shown_is_not_released(project: Project, linked: DatasetSpec):
    benchmark = direct(project, linked, **SHOWN)
    read(project, benchmark)
    with pytest.raises(DeclarationError, match="belongs to population shown"):
        read(project, linked)
    assert not list(project.home.raw.glob("weekly/*/*.parquet"))


@pytest.fixture
def shown(project: Project, target: Path) -> DatasetSpec:
    """A benchmark that reads a week through a link."""
    (project.datasets / "w" / f"{WEEK}.csv").symlink_to(target)
    public = {**WEEKLY, "source": WEEKS, **SHOWN}
    return project.declare("shown", RIDES, **public).at_window(WEEK)


def protect(project: Project, **changes: Any) -> None:
    source = {"kind": "csv", "path": f"lake/{WEEK}/rows.csv"}
    open_population(project.declare("rides", RIDES, source=source, **changes), project.home)


def test_rows_shown_through_a_link_are_shown_no_more(project: Project, shown: DatasetSpec):
    read(project, shown)
    require_snapshot(shown, project.home)
    protect(project, distinct_population="they moved in since")
    # Whatever the path leads to by now, the snapshot was read from the claimed file.
    Path(shown.source.location).unlink()
    for use in (read, lambda project, spec: require_snapshot(spec, project.home)):
        with pytest.raises(DeclarationError, match="is protected by population riders"):
            use(project, shown)


def test_link_led_elsewhere_while_it_is_read_is_claimed_anew(project, target, shown, monkeypatch):
    protect(project)
    week = Path(shown.source.location)
    project.write_rows("public.csv", ["rider,ended,x,y", "zoe,2026-01-01,1,1"])
    week.unlink()
    week.symlink_to(project.datasets / "public.csv")
    original = ingest_module.source_tables

    def led_elsewhere(*arguments: Any) -> Any:
        week.unlink()
        week.symlink_to(target)
        return original(*arguments)

    monkeypatch.setattr(ingest_module, "source_tables", led_elsewhere)
    with pytest.raises(DeclarationError, match="is protected by population riders"):
        read(project, shown)
    assert not list(project.home.raw.glob("shown/*/*"))
