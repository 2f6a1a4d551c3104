"""A rehearsal runs the whole chain for nothing, touches nothing of the project, and says so."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dp_pipeline as dp
from dp_pipeline.cli import main
from dp_pipeline.config.catalogue import dataset_files, find_spec
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.raw.generators.declared import draw_declared_rows
from dp_pipeline.raw.prepare import rows_as_declared
from dp_pipeline.releases import rehearsal
from dp_pipeline.releases.home import HOME_VARIABLE, find_home
from dp_pipeline.releases.rehearsal import FOLDER
from dp_pipeline_tests.orchestration.projects import FAMILIES, Project
from dp_pipeline_tests.orchestration.shops import shops


@pytest.mark.parametrize("name", sorted(dataset_files()))
def test_drawn_rows_are_as_every_data_set_declares(name: str, monkeypatch, tmp_path: Path) -> None:
    # No row is read, and the folder of rows may be anywhere.
    monkeypatch.setenv("DP_PIPELINE_DATA", str(tmp_path))
    spec = find_spec(name)
    table = draw_declared_rows(spec, 200, seed=1)
    assert table.num_rows == 200
    assert set(spec.columns) <= set(table.column_names)
    assert rows_as_declared(spec.widest.domain, table).mean() > 0.8
    assert table.equals(draw_declared_rows(spec, 200, seed=1))


def by_command(rows: int) -> None:
    command = ["rehearse", "shops", "--epsilon", "0.5", "--rows", str(rows), "--json", "--quiet"]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document: Any = json.loads(result.stdout)
    assert document["rehearsal"] is True


def by_function(_: int) -> None:
    assert len(dp.run("shops", epsilons=[0.5], rehearse=True)) == 1


@pytest.mark.chain
@pytest.mark.parametrize("rehearse", [by_command, by_function])
def test_a_rehearsal_touches_nothing_and_is_marked_on_every_page(tmp_path, monkeypatch, rehearse):
    project = Project(tmp_path)
    shops(project)
    monkeypatch.setenv(HOME_VARIABLE, str(project.home.root))
    monkeypatch.setenv("DP_PIPELINE_DATASETS", str(project.datasets))
    before = contents(project.home.root)
    rehearse(900)
    assert contents(project.home.root) == before
    assert find_home().ledger.populations() == ()
    home = project.home.root / FOLDER / "shops"
    pages = [*(home / "reports").rglob("*.html"), *(home / "reports").rglob("*.md")]
    pages += [home / "export" / "independent" / name for name in EXPORTED]
    assert len(pages) >= 5
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "Rehearsal: " in text, page
        assert "NOT FOR RELEASE" in text or page.suffix in (".json", ".txt"), page


EXPORTED = ("card.md", "card.html", "README.txt", "datapackage.json")


def contents(root: Path) -> set[str]:
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {name for name in files if not name.startswith(FOLDER)}


def test_rows_after_a_release_have_its_units_and_source_columns(project: Project, monkeypatch):
    persons = FAMILIES["parts"]["persons"]
    age = {"column": "years", **persons["attributes"]["age"]}
    parts = {"persons": {**persons, "attributes": {"age": age}}}
    spec = project.declare("families", FAMILIES, parts=parts)
    units = {"unit": np.array([1, 2]), "place": np.array(["hill", "river"])}
    released = {"unit": np.array([1, 2, 2]), "years": np.array([30, 31, 31])}
    bundle = SimpleNamespace(tables={"units": units, "synthetic": released})
    settled = SimpleNamespace(bundle=bundle)
    monkeypatch.setattr(rehearsal, "find_newest_settled", lambda *_: settled)
    columns = rehearsal._released_columns(spec, project.home, "one_shot")
    assert {name: values.tolist() for name, values in columns.items()} == {
        "place": ["hill", "river", "river"],
        "years": [30, 31, 31],
    }
    bundle.tables["synthetic"] = {name: values[:0] for name, values in released.items()}
    with pytest.raises(DeclarationError, match="--like: the release of one_shot must have rows to"):
        rehearsal._released_columns(spec, project.home, "one_shot")
