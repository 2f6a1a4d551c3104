"""Lock files of releases go with the release; no waiter ever holds one that has no name."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dp_pipeline.config.errors import PipelineError
from dp_pipeline.ledger import Ledger
from dp_pipeline.ledger.head import locked, sweep_locks
from dp_pipeline_tests.ledger.population import Child, charge, release, say


def locks(ledger: Ledger) -> list[str]:
    return sorted(path.name for path in (ledger.folder / "locks").iterdir())


def test_a_release_leaves_no_lock_file(ledger: Ledger):
    for n in range(3):
        release(ledger, charge(n), "0.1")
    with ledger.reserve(charge("open")):
        assert locks(ledger) == [f"{charge('open').key}.lock", "ledger.lock"]
    assert locks(ledger) == ["ledger.lock"]


def test_a_waiter_takes_the_lock_of_the_file_with_the_name(
    tmp_path: Path,
):
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
def test_a_lock_whose_file_cannot_be_removed_is_let_go(
    work: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
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
def left(ledger: Ledger) -> Path:
    """The file of a killed run."""
    path = ledger.folder / "locks" / f"{charge('killed').key}.lock"
    path.touch()
    return path


def test_files_of_killed_runs_are_swept_and_those_in_use_are_not(ledger: Ledger, left: Path):
    with ledger.reserve(charge("open")):
        assert ledger.sweep_locks() == 1
        assert not left.exists()
        assert locks(ledger) == [f"{charge('open').key}.lock", "ledger.lock"]
    assert ledger.sweep_locks() == 0


def test_the_lock_of_all_writers_is_never_swept(ledger: Ledger):
    descriptor = os.open(ledger.folder / "locks" / "ledger.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
    ledger.sweep_locks()
    assert locks(ledger) == ["ledger.lock"]
