"""Private folders, durable files that are written atomically, and locks.

A file is written under a temporary name in the same folder, locked until it is complete. An
unlocked temporary file was left by a killed writer, and may be deleted.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_ENDING = ".tmp"
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")

MIN_LEFTOVER_SECONDS = 60.0
"""Age of a leftover, at least: the writer of a younger file may not have locked it yet."""


def sync(path: Path) -> None:
    """Flush a file or a folder to disk; a new file needs its folder flushed too."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path) -> None:
    """Create a folder, and missing ones above it, that only their owner can enter.

    Existing folders stay as they are."""
    # ``mkdir(parents=True)`` applies the mode to the last folder only.
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def close_folders(*folders: Path) -> None:
    """Bar other users from these folders, if they exist and belong to this user."""
    for folder in filter(Path.is_dir, folders):
        state = folder.stat()
        if state.st_mode & 0o077 and state.st_uid == os.geteuid():
            folder.chmod(0o700)


@contextmanager
def private_files() -> Iterator[None]:
    """Make all files that this process writes inside the block readable by their owner only."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def write_atomically(
    path: Path, content: bytes | Callable[[BinaryIO], object], *, overwrite: bool = True
) -> None:
    """Write a file atomically, readable by its owner only; it is on disk when this returns.

    Its folder must exist.

    content     bytes, or a function that writes them to an open file
    overwrite   whether to replace an existing file; else it stays as it is, without an error
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_ENDING, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(content) if isinstance(content, bytes) else content(file)
            file.flush()
            os.fsync(file.fileno())
            if overwrite:
                temporary.replace(path)
            else:
                # Creating a hard link is atomic, and never replaces a file.
                with contextlib.suppress(FileExistsError):
                    path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def write_private(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file by ``write_atomically``, after creating its folder by ``make_private``."""
    make_private(path.parent)
    write_atomically(path, content)


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a private folder next to ``path``; delete it after the block unless it was renamed."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_ENDING, dir=path.parent))
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(descriptor)


def leftovers(folder: Path, *, below: bool = False) -> Iterator[Path]:
    """Yield the temporary files and folders in a folder whose writers were killed.

    below   whether to search the folders below too

    Those younger than MIN_LEFTOVER_SECONDS, inside of another one, or not permitted are skipped.
    """
    for path in sorted(folder.rglob(f".*{_ENDING}") if below else folder.glob(f".*{_ENDING}")):
        inside = any(map(_TEMPORARY.fullmatch, path.relative_to(folder).parts[:-1]))
        if _TEMPORARY.fullmatch(path.name) and not inside and _is_abandoned(path):
            yield path


def sweep(folder: Path, *, below: bool = False) -> list[Path]:
    """Delete the leftovers of killed writers in a folder; return the deleted paths.

    below   whether to search the folders below too

    Those that cannot be deleted are skipped.
    """
    paths = list(leftovers(folder, below=below))
    for path in paths:
        # A leftover that cannot be deleted does no harm.
        with contextlib.suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    return [path for path in paths if not path.exists()]


@contextmanager
def locked(path: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold the lock of ``path`` for the block, after waiting for other processes and threads.

    The file is created if needed. The lock is not reentrant: it belongs to the call's descriptor.

    remove   whether to delete the file after the block; all users of a lock must agree on it
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _has_name(descriptor, path):
            break
        # Its holder has deleted it, and a lock without a name excludes no process.
        os.close(descriptor)
    try:
        yield
    finally:
        try:
            if remove:
                # While it is held: waiting processes notice that the name is gone.
                path.unlink(missing_ok=True)
        finally:
            _release(descriptor)


def sweep_locks(folder: Path, names: str) -> int:
    """Delete the lock files that no process holds; return the number of deleted ones.

    names   pattern of their names, such as ``*.lock``

    A file is locked while it is deleted, so a process that has opened it meanwhile notices that its
    name is gone, and creates another file.
    """
    swept = 0
    for path in folder.glob(names):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _has_name(descriptor, path):
                path.unlink(missing_ok=True)
                swept += 1
        except BlockingIOError:
            pass  # A process holds it.
        finally:
            _release(descriptor)
    return swept


def _release(descriptor: int) -> None:
    # Unlocked first, since a forked child may hold a copy of the descriptor.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _has_name(descriptor: int, path: Path) -> bool:
    try:
        state = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), state)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file or folder.

    OSError if it is absent, a symbolic link or not readable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_abandoned(path: Path) -> bool:
    try:
        is_old = time.time() - path.lstat().st_mtime >= MIN_LEFTOVER_SECONDS
        return is_old and not is_locked(path)
    except OSError:
        # Deleted meanwhile, a link, or without permission.
        return False
