"""Files of a ledger: for their owner alone, keys for ever, and locks as long as a release lasts."""

import errno
import fcntl
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.head import locked, sweep_locks
from dp_pipeline_tests.ledger.population import Child, account, charge, release, say


def modes(folder: Path) -> dict[str, str]:
    everything = [folder, *folder.rglob("*")]
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode)) for path in everything
    }


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
        file_modes = modes(folder)
        open_meanwhile.close()
    finally:
        os.umask(old)
    assert {file_modes.pop(name) for name in (".", "locks", "keys")} == {"0o700"}
    assert set(file_modes.values()) == {"0o600"}
    assert {"ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"} < set(file_modes)


def test_a_population_has_one_key_for_ever(ledger: Ledger, folder: Path):
    ledger.open_account(account("adult"))
    key = ledger.key("trips")
    assert len(key) == 32
    assert Ledger(folder).key("trips") == key
    other = Ledger(folder.with_name("other"))
    other.open_account(account())
    assert len({key, ledger.key("adult"), other.key("trips")}) == 3
    assert all(key.hex() not in str(entry) for entry in ledger.entries())


@pytest.mark.parametrize("damage", [lambda p: p.unlink(), lambda p: p.write_bytes(b"short")])
def test_a_lost_key_is_damage_and_is_not_made_anew(ledger: Ledger, folder: Path, damage):
    (path,) = (folder / "keys").iterdir()
    damage(path)
    ledger.open_account(account())
    with pytest.raises(Damaged, match="The key of population"):
        ledger.key("trips")


def test_another_key_in_its_place_is_damage(ledger: Ledger, folder: Path):
    (path,) = (folder / "keys").iterdir()
    path.write_bytes(bytes(32))
    with pytest.raises(Damaged, match="not the key that its account was opened with"):
        ledger.key("trips")


@pytest.mark.parametrize("population", ["../../etc", "a/b", "Ausflüge ε", "." * 300, "%s?mode=ro#"])
def test_any_name_of_a_population_is_safe(folder: Path, population: str):
    ledger = Ledger(folder)
    ledger.open_account(account(population))
    release(ledger, charge(population=population), "0.1")
    assert len(ledger.key(population)) == 32
    assert ledger.populations() == (population,)
    assert [path.parent for path in folder.rglob("*.key")] == [folder / "keys"]


def test_any_name_of_a_folder_is_safe(tmp_path: Path):
    ledger = Ledger(tmp_path / "a b?mode=ro#%20ε")
    ledger.open_account(account())
    assert ledger.populations() == ("trips",)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["a b?mode=ro#%20ε", "a b?mode=ro#%20ε.head"]


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="cannot be used") as refusal:
        Ledger(tmp_path / "file" / "ledger").open_account(account())
    assert "\n" not in str(refusal.value)


def test_importing_the_ledger_loads_no_heavy_library():
    heavy = "{'dagster', 'pandas', 'numpy', 'pyarrow', 'opendp', 'sklearn'}"
    code = f"import sys, dp_pipeline.ledger; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def locks(ledger: Ledger) -> list[str]:
    return sorted(path.name for path in (ledger.folder / "locks").iterdir())


def test_a_release_leaves_no_lock_file(ledger: Ledger):
    for n in range(3):
        release(ledger, charge(n), "0.1")
    with ledger.reserve(charge("open")):
        assert locks(ledger) == [f"{charge('open').key}.lock", "ledger.lock"]
    assert locks(ledger) == ["ledger.lock"]


def test_a_waiter_takes_the_lock_of_the_file_with_the_name(tmp_path: Path):
    path, order = tmp_path / "a.lock", []
    waits = threading.Event()

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
    sweep_locks(path.parent)


@pytest.mark.parametrize("work", [take_and_leave, sweep_beside])
def test_a_lock_whose_file_cannot_be_removed_is_let_go(work, tmp_path, monkeypatch):
    path = tmp_path / f"{'ab' * 8}.lock"
    opened = len([*Path("/proc/self/fd").iterdir()])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        with pytest.raises(PipelineError, match=r"ledger: .*\.lock cannot be used: Operation not"):
            work(path)
    assert len([*Path("/proc/self/fd").iterdir()]) == opened
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
        sweep_locks(folder)


def test_many_processes_and_a_sweeper_never_let_two_in(tmp_path: Path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    path = tmp_path / f"{charge().key}.lock"
    sweeper = Child(sweep_for_ever, tmp_path)
    children = [Child(hold, path, counter, 200) for _ in range(4)]
    assert Counter(line for child in children for line in child.lines()) == {"done": 4}
    sweeper.kill()
    assert counter.read_text() == "800"
    assert not path.exists()


@pytest.fixture
def leftover(ledger: Ledger) -> Path:
    """The file of a killed run."""
    path = ledger.folder / "locks" / f"{charge('killed').key}.lock"
    path.touch()
    return path


def test_files_of_killed_runs_are_swept_and_those_in_use_are_not(ledger: Ledger, leftover: Path):
    with ledger.reserve(charge("open")):
        assert ledger.sweep_locks() == 1
        assert not leftover.exists()
        assert locks(ledger) == [f"{charge('open').key}.lock", "ledger.lock"]
    assert ledger.sweep_locks() == 0


def test_the_lock_of_all_writers_is_never_swept(ledger: Ledger):
    descriptor = os.open(ledger.folder / "locks" / "ledger.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
    ledger.sweep_locks()
    assert locks(ledger) == ["ledger.lock"]
