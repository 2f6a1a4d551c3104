"""Data sets of small studies, and each small study run once."""

import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from benchmarks.papers import report
from benchmarks.papers.shown import run_study
from dp_pipeline.anonymity import cross_validation
from dp_pipeline.ledger import Ledger
from dp_pipeline_tests.studies.small import METHODS, declare_answers, declare_points, small_study

FolderOf = Callable[[str], Path]
_DRAW = (report.line_chart, report.bar_chart)
TWO_FOLDS = ((math.inf, 2, 1),)
"""By which kjig chooses, instead of ten: no law of a study is about which bits it takes."""


@pytest.fixture(scope="package")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with benchmarks, and data sets to be released: ``secret`` ones."""
    folder = tmp_path_factory.mktemp("datasets")
    secret = {"purpose": "release", "extra": "ceiling: {total: 4}\nallow_not_dp: true\n"}
    declare_points(folder)
    declare_points(folder, "secret_points", **secret)
    declare_answers(folder)
    declare_answers(folder, "secret_answers", methods=METHODS.replace("[0, ", "["), **secret)
    declare_answers(folder, "replaced", extra="relation: replace_one\n")
    declare_answers(folder, "some", sample=", sample: {rows: 60, by: c1, seed: 7}")
    declare_answers(folder, "few", rows=30)
    declare_answers(folder, "silent", methods="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_validation, "FOLDS", TWO_FOLDS)
        patch.setenv("DP_PIPELINE_DATASETS", str(folder))
        patch.setenv("DP_PIPELINE_HOME", str(folder / "home"))
        yield folder


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture(scope="package")
def finished_of(datasets: Path, tmp_path_factory: pytest.TempPathFactory) -> FolderOf:
    """Kind of a study → the folder of the small one, finished without interruption."""
    assert datasets.is_dir()
    folders: dict[str, Path] = {}

    def finished(kind: str) -> Path:
        if kind not in folders:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(report, "line_chart", _DRAW[0])
                patch.setattr(report, "bar_chart", _DRAW[1])
                patch.setitem(report.FORMATS, "png", report.png)
                folder = tmp_path_factory.mktemp(kind)
                run_study(small_study(kind, folder), Ledger(folder / "ledger"))
                folders[kind] = folder
        return folders[kind]

    return finished


@pytest.fixture
def prepared_of(finished_of: FolderOf, tmp_path: Path) -> FolderOf:
    """Kind of a study → a folder in which the rows were prepared, and nothing measured."""
    study = tmp_path / "study"
    return lambda kind: shutil.copytree(finished_of(kind) / ".data", study / ".data").parent


@pytest.fixture
def copied_of(finished_of: FolderOf, tmp_path: Path) -> FolderOf:
    """Kind of a study → a copy of the finished one."""
    return lambda kind: shutil.copytree(finished_of(kind), tmp_path / "copy")


@pytest.fixture(autouse=True)
def empty_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are drawn by the finished studies alone; elsewhere they are empty files."""
    monkeypatch.setattr(report, "line_chart", Mock())
    monkeypatch.setattr(report, "bar_chart", Mock())
    monkeypatch.setitem(report.FORMATS, "png", lambda _: b"")
