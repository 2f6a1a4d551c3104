"""Files of a ledger: for their owner alone, keys for ever, and locks as long as a release lasts."""

import errno
import fcntl
import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.head import locked
from dp_pipeline.ledger.sqlite import SqliteStore
from dp_pipeline_tests.ledger.population import (
    Child,
    account,
    charge,
    release,
    require_refused,
    say,
)


@pytest.mark.parametrize("mask", [0o000, 0o022])
@pytest.mark.parametrize("before", [None, 0o755])
def test_folders_and_files_are_for_their_owner_only(folder: Path, mask: int, before: int | None):
    old = os.umask(mask)
    try:
        if before:
            folder.mkdir(mode=before)
        ledger = Ledger(folder)
        ledger.open_account(account())
        release(ledger, charge(), "0.1")
        open_meanwhile = sqlite3.connect(folder / "ledger.sqlite")
        open_meanwhile.execute("SELECT * FROM entries").fetchall()
        modes = {path: oct(path.stat().st_mode & 0o777) for path in (folder, *folder.rglob("*"))}
        open_meanwhile.close()
    finally:
        os.umask(old)
    assert {modes.pop(folder / name) for name in ("", "locks", "keys")} == {"0o700"}
    assert set(modes.values()) == {"0o600"}
    files = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm")
    assert {folder / name for name in files} < set(modes)


def test_a_population_has_one_key_for_ever(ledger: Ledger, folder: Path):
    ledger.open_account(account("adult"))
    key = ledger.key("trips")
    assert len(key) == 32
    assert Ledger(folder).key("trips") == key
    other = Ledger(folder.with_name("other"))
    other.open_account(account())
    assert len({key, ledger.key("adult"), other.key("trips")}) == 3
    assert all(key.hex() not in str(entry) for entry in ledger.entries())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "The key of population"),
        (b"short", "The key of population"),
        (bytes(32), "not the key that its account was opened with"),
    ],
)
def test_another_key_in_its_place_is_damage(ledger: Ledger, content: bytes | None, words: str):
    (path,) = (ledger.folder / "keys").iterdir()
    path.unlink() if content is None else path.write_bytes(content)
    if content != bytes(32):
        ledger.open_account(account())
    require_refused(Damaged, words, lambda: ledger.key("trips"))


@pytest.mark.parametrize("population", ["../../etc", "a/b", "Ausflüge ε", "." * 300, "%s?mode=ro#"])
def test_any_name_of_a_population_is_safe(folder: Path, population: str):
    ledger = Ledger(folder)
    ledger.open_account(account(population))
    release(ledger, charge(population=population), "0.1")
    assert len(ledger.key(population)) == 32
    assert ledger.populations() == (population,)
    assert [path.parent for path in folder.rglob("*.key")] == [folder / "keys"]


def test_any_name_of_a_folder_is_safe(tmp_path: Path):
    name = "a b?mode=ro#%20ε"
    Ledger(tmp_path / name).open_account(account())
    assert Ledger(tmp_path / name).populations() == ("trips",)
    assert {path.name for path in tmp_path.iterdir()} == {name, f"{name}.head"}


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    ledger = Ledger(tmp_path / "file" / "ledger")
    require_refused(PipelineError, "cannot be used", lambda: ledger.open_account(account()))


def test_importing_the_ledger_loads_no_heavy_library():
    heavy = "{'dagster', 'pandas', 'numpy', 'pyarrow', 'opendp', 'sklearn'}"
    code = f"import sys, dp_pipeline.ledger; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"[]\n"


def locks(ledger: Ledger) -> list[str]:
    return sorted(path.name for path in (ledger.folder / "locks").iterdir())


def test_a_release_leaves_no_lock_file(ledger: Ledger):
    for n in range(3):
        release(ledger, charge(n), "0.1")
    with ledger.reserve(charge("open")):
        assert locks(ledger) == [f"{charge('open').key}.lock", "ledger.lock"]
    assert locks(ledger) == ["ledger.lock"]


def test_a_waiter_takes_the_lock_of_the_file_with_the_name(tmp_path: Path):
    path, order, waits = tmp_path / "a.lock", [], threading.Event()

    def wait() -> None:
        waits.set()
        with locked(path, remove=True):
            order.append("second")
            assert path.exists()

    with locked(path, remove=True):
        thread = threading.Thread(target=wait)
        thread.start()
        waits.wait()
        thread.join(0.2)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]
    assert not path.exists()


def refused(path: Path, *_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))


def take_and_leave(path: Path) -> None:
    with locked(path, remove=True):
        pass


def sweep_beside(path: Path) -> None:
    path.touch()
    SqliteStore(path.parents[1]).sweep_locks()


@pytest.mark.parametrize("work", [take_and_leave, sweep_beside])
def test_a_lock_whose_file_cannot_be_removed_is_let_go(work, tmp_path, monkeypatch):
    path = tmp_path / "locks" / f"{'ab' * 8}.lock"
    path.parent.mkdir()
    opened = len([*Path("/proc/self/fd").iterdir()])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        with pytest.raises(PipelineError, match=r"ledger: .*\.lock cannot be used: Operation not"):
            work(path)
    assert len([*Path("/proc/self/fd").iterdir()]) <= opened, "others may be closed meanwhile"
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def hold(pipe: int, path: Path, counter: Path, times: int) -> None:
    """Read, add one, write: loses counts where two are inside."""
    for _ in range(times):
        with locked(path, remove=True):
            seen = int(counter.read_text())
            os.sched_yield()
            counter.write_text(str(seen + 1))
    say(pipe, "done")


def sweep_for_ever(_: int, folder: Path) -> None:
    while True:
        SqliteStore(folder).sweep_locks()


def test_many_processes_and_a_sweeper_never_let_two_in(tmp_path: Path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    path = tmp_path / "locks" / f"{charge().key}.lock"
    path.parent.mkdir()
    sweeper = Child(sweep_for_ever, tmp_path)
    children = [Child(hold, path, counter, 200) for _ in range(4)]
    assert Counter(line for child in children for line in child.lines()) == {"done": 4}
    sweeper.kill()
    assert counter.read_text() == "800"
    assert not path.exists()


def test_files_of_killed_runs_are_swept_and_those_in_use_are_not(ledger: Ledger):
    leftover = ledger.folder / "locks" / f"{charge('killed').key}.lock"
    leftover.touch()
    with ledger.reserve(charge("open")):
        assert ledger.sweep_locks() == 1
        assert not leftover.exists()
        assert locks(ledger) == [f"{charge('open').key}.lock", "ledger.lock"]
    # The lock of all writers is never swept.
    assert ledger.sweep_locks() == 0
    assert locks(ledger) == ["ledger.lock"]
