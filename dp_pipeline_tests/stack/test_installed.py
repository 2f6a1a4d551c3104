"""The wheel and the source archive hold all that the program needs, and the wheel runs alone."""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from dp_pipeline_tests.pages.pages import ROOT, blocks
from dp_pipeline_tests.pages.test_blocks import unprinted

pytestmark = pytest.mark.stack

UV = [sys.executable, "-m", "uv"]
"""Makes environments and builds in seconds; the Makefile installs it."""


def done(*command: str | Path, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert ended.returncode == 0, f"{command}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"
    return ended.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source archive, and with the wheel that was built from it."""
    pytest.importorskip("uv", reason="uv is not installed: the Makefile installs it")
    folder = tmp_path_factory.mktemp("built")
    done(*UV, "build", "--quiet", "--out-dir", folder, ROOT, folder=folder)
    return folder


def test_the_wheel_holds_every_file_of_the_package_and_no_other(built: Path):
    (wheel,) = built.glob("*.whl")
    names_in_wheel = set(zipfile.ZipFile(wheel).namelist())
    kept = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "dp_pipeline").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {"dp_pipeline/py.typed", "dp_pipeline/config/draft.yaml.j2"} <= kept
    assert kept == {name for name in names_in_wheel if ".dist-info/" not in name}


def test_the_source_archive_holds_what_tests_and_pages_need(built: Path):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"README.md", "LICENSE", "CITATION.cff", "Makefile", "docs/conf.py"} <= names
    assert "dp_pipeline_tests/stack/test_installed.py" in names
    assert not [name for name in names if name.startswith(("build/", "data/raw", "dist/"))]


def test_wheel_of_source_archive_is_wheel_of_project(built: Path, tmp_path: Path):
    done(*UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path, ROOT, folder=tmp_path)
    of_archive, of_project = (digests(*folder.glob("*.whl")) for folder in (built, tmp_path))
    assert of_archive == of_project


def digests(wheel: Path) -> dict[str, int]:
    return {one.filename: one.CRC for one in zipfile.ZipFile(wheel).infolist()}


def test_wheel_is_installed_as_tool_and_its_command_is_on_path(built: Path, tmp_path: Path):
    (wheel,) = built.glob("*.whl")
    outer = {key: text for key, text in os.environ.items() if key not in ("PYTHONPATH", "PATH")}
    tools = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    where = {**outer, **tools, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.defpath}"}
    constraints = ("--constraints", ROOT / "constraints.txt")
    install = ("tool", "install", "--quiet", "--python", sys.executable, *constraints, wheel)
    done(*UV, *install, folder=tmp_path, environment=where)
    shown = done("dp-pipeline", "data", "list", folder=tmp_path, environment=where)
    assert "census" in shown
    assert [path.name for path in (tmp_path / "bin").iterdir()] == ["dp-pipeline"]


def test_the_wheel_runs_its_demo_in_an_empty_environment(built: Path, tmp_path: Path):
    (wheel,) = built.glob("*.whl")
    venv, home, folder = (tmp_path / name for name in ("venv", "home", "folder"))
    home.mkdir()
    folder.mkdir()
    done(*UV, "venv", "--quiet", "--python", sys.executable, venv, folder=folder)
    python, constraints = venv / "bin/python", ROOT / "constraints.txt"
    install = ("pip", "install", "--quiet", "--python", python, "--constraint", constraints)
    done(*UV, *install, wheel, folder=folder)
    bare = {"PATH": f"{venv / 'bin'}{os.pathsep}{os.defpath}", "HOME": str(home)}
    assert "demo" in done(venv / "bin/dp-pipeline", "--help", folder=folder, environment=bare)
    where = {**bare, "DP_PIPELINE_HOME": str(folder / "data")}
    printed = done(venv / "bin/dp-pipeline", "demo", folder=folder, environment=where)
    readme = blocks("README.md")
    (promised,) = [block.shown for block in readme if block.text.startswith("make demo")]
    assert not unprinted(promised, printed), printed
