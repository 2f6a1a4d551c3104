"""A file that is read through a link is known again, whichever of its paths another names."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.raw import ingest as ingest_module
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.releases.account import open_population, require_snapshot, source_claimer
from dp_pipeline_tests.orchestration.projects import RIDES, TODAY, Project

WEEK = "2026-W01"
WEEKLY: dict[str, Any] = {
    "protection": {**RIDES["protection"], "within": "window"},
    "windows": {"column": "ended", "every": "week", "first": WEEK},
    "ceiling": {"each_window": "2", "total": "9"},
}
WEEKS = {"kind": "csv", "path": "w/{window}.csv"}
PUBLIC = {"purpose": "benchmark", "population": "shown", "ceiling": None, "evaluation": None}
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
    key, claim = ledger.key(spec.population), source_claimer(spec, ledger)
    ingest(spec, project.home.raw, key=key, snapshot_id=None, today=TODAY, claim=claim)


@pytest.mark.parametrize("stays", [True, False])
def test_rows_read_through_link_are_protected(stays: bool, project: Project, linked: DatasetSpec):
    read(project, linked)
    if not stays:
        shutil.rmtree(project.datasets / "w")
    with pytest.raises(DeclarationError, match="is protected by population riders"):
        open_population(direct(project, linked, **PUBLIC), project.home)
    other = direct(project, linked, population="others")
    with pytest.raises(DeclarationError, match="belongs to population riders"):
        open_population(other, project.home)
    assert project.ledger.populations() == ("riders",)


def test_a_link_to_rows_that_were_shown_is_not_released(project: Project, linked: DatasetSpec):
    benchmark = direct(project, linked, **PUBLIC)
    read(project, benchmark)
    with pytest.raises(DeclarationError, match="belongs to population shown"):
        read(project, linked)
    assert not list(project.home.raw.glob("weekly/*/*.parquet"))


@pytest.fixture
def shown(project: Project, target: Path) -> DatasetSpec:
    """A benchmark that reads a week through a link."""
    (project.datasets / "w" / f"{WEEK}.csv").symlink_to(target)
    public = {**WEEKLY, "source": WEEKS, **PUBLIC}
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
