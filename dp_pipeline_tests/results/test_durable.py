"""Files are whole or absent, and what a killed writer leaves is told from what one is writing."""

import os
import re
import signal
import stat
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

from dp_pipeline import files
from dp_pipeline.files import leftovers, sweep, temporary_folder, write_atomically


def aged(folder: Path) -> None:
    """As if everything in it had been written an hour ago."""
    before = time.time() - 3600
    for path in [*folder.rglob("*"), *folder.rglob(".*")]:
        os.utime(path, (before, before), follow_symlinks=False)


def killed(work: Callable[[], object]) -> None:
    """Do it in a child that somebody kills in the middle."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write_half(folder: Path) -> None:
    write_atomically(folder / "rows", lambda file: (file.write(b"half"), file.flush(), die()))


def write_half_a_folder(folder: Path) -> None:
    with temporary_folder(folder / "bundle-1") as temporary:
        (temporary / "table.parquet").write_bytes(b"half")
        write_atomically(temporary / "bundle.json", die)


WRITERS = [write_half, write_half_a_folder]


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_file_is_private_and_has_no_other_name(overwrite: bool, tmp_path: Path):
    for content in (b"one", b"two"):
        write_atomically(tmp_path / "a", content, overwrite=overwrite)
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
    assert (tmp_path / "a").read_bytes() == (b"two" if overwrite else b"one")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


@pytest.mark.parametrize("write", WRITERS)
def test_old_leftovers_of_a_killed_writer_are_swept(write, tmp_path: Path):
    deep = tmp_path / "one" / "two"
    deep.mkdir(parents=True)
    other_file = deep / "kept.parquet"
    other_file.write_bytes(b"whole")
    killed(lambda: write(deep))
    assert len(list(deep.iterdir())) == 2
    # A young name may belong to a writer who has not locked it yet.
    assert sweep(deep) == []
    aged(tmp_path)
    (leftover,) = leftovers(deep)
    # Folders below are swept only where that is asked.
    assert sweep(tmp_path) == []
    assert sweep(tmp_path, below=True) == [leftover]
    assert list(deep.iterdir()) == [other_file]
    killed(lambda: write(deep))
    aged(tmp_path)
    assert len(sweep(deep)) == 1
    assert sweep(deep) == []


def test_what_a_living_writer_holds_is_never_swept_however_old(tmp_path: Path):
    def meanwhile(_: object) -> None:
        aged(tmp_path)
        assert sweep(tmp_path, below=True) == []

    write_atomically(tmp_path / "a", meanwhile)
    with temporary_folder(tmp_path / "b") as temporary:
        write_atomically(temporary / "c", meanwhile)
        (temporary / "d").write_bytes(b"half")
        meanwhile(temporary)
        temporary.rename(tmp_path / "b")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "c", "d"]


def test_nothing_with_a_name_of_its_own_is_swept(tmp_path: Path):
    names = (".lock", ".hidden", "a.tmp", ".a.tmp", ".downloads", ".a.12345678", "..12345678.tmp")
    for name in names:
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / ".link.abcdefgh.tmp").symlink_to(tmp_path / ".lock")
    aged(tmp_path)
    assert sweep(tmp_path, below=True) == []
    assert len(list(tmp_path.iterdir())) == len(names) + 1


def test_every_temporary_name_is_known_to_who_sweeps():
    package = Path(str(resources.files("dp_pipeline")))
    names = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"tempfile\.mk\w+\(", path.read_text(encoding="utf-8"))
    }
    # The ledger's own are swept by their age: see cli/check/homes.py.
    ledger = {"ledger/head.py", "ledger/sqlite.py"}
    assert names - ledger == {"files.py"}
    assert files.MIN_LEFTOVER_SECONDS >= 60
