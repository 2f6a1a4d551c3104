"""Data sets of small studies, and each small study run once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dp_pipeline.studies import charts
from dp_pipeline_tests.studies.small import METHODS, declare_answers, declare_points, small_study

_DRAWN = (charts.line_chart, charts.bar_chart)


@pytest.fixture(scope="package")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with benchmarks, and data sets to be released: ``secret`` ones."""
    folder = tmp_path_factory.mktemp("datasets")
    secret = {"purpose": "release", "extra": "ceiling: {total: 4}\nallow_not_dp: true\n"}
    declare_points(folder)
    declare_points(folder, "secret_points", **secret)
    declare_answers(folder)
    declare_answers(folder, "secret_answers", more=METHODS.replace("[0, ", "["), **secret)
    declare_answers(folder, "replaced", extra="relation: replace_one\n")
    declare_answers(folder, "some", sample=", sample: {rows: 60, by: c1, seed: 7}")
    declare_answers(folder, "few", rows=30)
    declare_answers(folder, "silent", more="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DP_PIPELINE_DATASETS", str(folder))
        patch.setenv("DP_PIPELINE_HOME", str(folder / "home"))
        yield folder


@pytest.fixture(scope="package")
def whole_of(datasets: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Kind of a study → the folder of the small one, finished without interruption."""
    assert datasets.is_dir()
    made: dict[str, Path] = {}

    def whole(kind: str) -> Path:
        if kind not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(charts, "line_chart", _DRAWN[0])
                patch.setattr(charts, "bar_chart", _DRAWN[1])
                made[kind] = tmp_path_factory.mktemp(kind)
                small_study(kind, made[kind]).run()
        return made[kind]

    return whole


@pytest.fixture
def begun_of(whole_of: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """Kind of a study → a folder in which the rows were prepared, and nothing measured."""

    def begun(kind: str) -> Path:
        shutil.copytree(whole_of(kind) / ".data", tmp_path / "study" / ".data")
        return tmp_path / "study"

    return begun


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are drawn by the whole studies alone; elsewhere they are empty files."""
    monkeypatch.setattr(charts, "line_chart", lambda *_, **__: b"")
    monkeypatch.setattr(charts, "bar_chart", lambda *_, **__: b"")


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Name of a whole study → a folder for it. With the cells of the folder that the variable
    STUDY_ and the name names, as in `make study`: they are not measured again.
    """

    def folder_of(name: str) -> Path:
        folder, before = tmp_path_factory.mktemp(name), os.environ.get(f"STUDY_{name.upper()}")
        if before:
            shutil.copy(Path(before) / "results.jsonl", folder)
        return folder

    return folder_of
