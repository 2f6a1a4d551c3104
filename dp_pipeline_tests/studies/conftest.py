"""The small study, run once; and what it needs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dp_pipeline_tests.studies.small import declare, small_study


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with one benchmark, ``points``, and one data set to be released, ``secret``."""
    folder = tmp_path_factory.mktemp("datasets")
    declare(folder, "points")
    declare(folder, "secret", purpose="release", more="ceiling: {total: 4}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DP_PIPELINE_DATASETS", str(folder))
        patch.setenv("DP_PIPELINE_HOME", str(folder / "home"))
        yield folder


@pytest.fixture(scope="module")
def whole(datasets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small study, finished without interruption."""
    assert datasets.is_dir()
    folder = tmp_path_factory.mktemp("whole")
    small_study(folder).run()
    return folder


@pytest.fixture
def begun(whole: Path, tmp_path: Path) -> Path:
    """A folder in which the rows were prepared, and nothing measured."""
    shutil.copytree(whole / ".data", tmp_path / "study" / ".data")
    return tmp_path / "study"
