"""Private folders, files that survive a loss of power and are never half written, and locks.

A file is written under a temporary name beside its own, held by a lock until it is whole. Who finds
such a name without a holder knows that its writer was killed, and may delete it.

Cells of a CSV file that people open in a spreadsheet: text stays text.

One thread: sums of floats depend on how many there are, and a replay gives the same bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

_ENDING = ".tmp"
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")
LEFT_SECONDS = 60.0
"""A name that is younger may be of a writer who has not locked it yet."""


def sync(path: Path) -> None:
    """fsync of a file or of a folder: without the latter a new name may not survive."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can enter, and those above it that are missing.

    ``mkdir(parents=True)`` would open the ones above to everyone: the mode is the last one's only.
    """
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def close_folders(*folders: Path) -> None:
    """Let nobody but their owner enter the folders that are there and that somebody has opened to
    others, such as git. Those of another user stay as they are.
    """
    for folder in filter(Path.is_dir, folders):
        state = folder.stat()
        if state.st_mode & 0o077 and state.st_uid == os.geteuid():
            folder.chmod(0o700)


@contextmanager
def private_files() -> Iterator[None]:
    """Whatever this process writes in the block is for its owner only: engines for files choose no
    mode themselves.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def write_atomically(
    path: Path, content: bytes | Callable[[BinaryIO], object], *, overwrite: bool = True
) -> None:
    """Write a 0600 file whole or not at all; it is on disk when this returns.

    content     its bytes, or a function that writes them into an open file
    overwrite   False: an existing file stays as it is
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
                # A hard link appears whole or not at all, and never over another file.
                with contextlib.suppress(FileExistsError):
                    path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """A 0700 folder beside ``path``, to be renamed when it is whole; what is left of it goes when
    the block ends.
    """
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_ENDING, dir=path.parent))
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(descriptor)


def leftovers(folder: Path, *, below: bool = False) -> Iterator[Path]:
    """Temporary files and folders in a folder whose writers were killed.

    below   in every folder under it too
    """
    for path in sorted(folder.rglob(f".*{_ENDING}") if below else folder.glob(f".*{_ENDING}")):
        inside = any(map(_TEMPORARY.fullmatch, path.relative_to(folder).parts[:-1]))
        if _TEMPORARY.fullmatch(path.name) and not inside and _is_left(path):
            yield path


def sweep(folder: Path, *, below: bool = False) -> list[Path]:
    """Delete these; gives what was deleted. Nothing that a living process writes, and nothing with
    a name of its own, is touched.
    """
    found = list(leftovers(folder, below=below))
    for path in found:
        # What cannot be deleted is in nobody's way.
        with contextlib.suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    return [path for path in found if not path.exists()]


@contextmanager
def locked(path: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold the flock of ``path``; waits for whoever holds it, in any process or thread. Not
    reentrant.

    Every call opens a descriptor of its own, and flock belongs to the
    descriptor, so threads of one process exclude each other too.

    remove   the file goes when the block ends; all who lock it have to say so, or none
    """
    descriptor = _acquired(path)
    try:
        yield
    finally:
        try:
            if remove:
                # While it is held: whoever waits sees that the name is another file's, or none.
                path.unlink(missing_ok=True)
        finally:
            _let_go(descriptor)


def sweep_locks(folder: Path, names: str) -> int:
    """Remove the lock files that nobody holds, which killed runs leave; their number.

    A file that is swept is held for that moment, so a process that opened it meanwhile sees that
    it lost its name, and makes another.

    names   pattern of the lock files that go with their block
    """
    swept = 0
    for path in folder.glob(names):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(descriptor, path):
                path.unlink(missing_ok=True)
                swept += 1
        except BlockingIOError:
            pass  # Somebody is at work under it.
        finally:
            _let_go(descriptor)
    return swept


def _let_go(descriptor: int) -> None:
    """Unlock before closing: a forked child may hold a copy of the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _acquired(path: Path) -> int:
    """A descriptor that holds the lock of the file that ``path`` names now."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_named(descriptor, path):
            return descriptor
        # Whoever held it has removed it: a lock on a file without a name excludes nobody.
        os.close(descriptor)


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), named)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file or folder; OSError where it is not there."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_left(path: Path) -> bool:
    """Whether nobody holds it, and nobody is about to."""
    try:
        is_old = time.time() - path.lstat().st_mtime >= LEFT_SECONDS
        return is_old and not is_locked(path)
    except OSError:
        # Gone meanwhile, a link, or not ours to open.
        return False


@contextmanager
def one_thread(*, with_sklearn: bool = False) -> Iterator[None]:
    """Numerical libraries use one thread meanwhile, in the first fit of a process as in any.

    with_sklearn   scikit-learn too: its import takes longer than most tables to be fitted
    """
    with _threaded_libraries(with_sklearn).limit(limits=1):
        yield


@cache
def _threaded_libraries(with_sklearn: bool) -> Any:
    """Found once: looking through all that a process has loaded takes longer than a small fit."""
    from threadpoolctl import ThreadpoolController

    load_threaded_libraries(with_sklearn=with_sklearn)
    return ThreadpoolController()


def load_threaded_libraries(*, with_sklearn: bool) -> None:
    """A limit reaches only libraries that are loaded already."""
    import scipy.linalg  # noqa: F401

    if with_sklearn:
        import sklearn.cluster  # noqa: F401


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula, or skips before one (OWASP, CSV
Injection)."""


def escape_formulas(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose texts no spreadsheet computes: those that look like a formula begin with ``'``.

    >>> escape_formulas({"reason": "=1+1", "shift": "-0.5", "mean": -0.5})
    {'reason': "'=1+1", 'shift': '-0.5', 'mean': -0.5}
    """
    return {name: _plain(value) for name, value in row.items()}


def unescape_formula(text: str) -> str:
    """What a cell of such a row said before; a text that only looks like one comes back shorter.

    >>> unescape_formula("'=1+1"), unescape_formula("'tis"), unescape_formula("-0.5")
    ('=1+1', "'tis", '-0.5')
    """
    return text[1:] if text.startswith("'") and _plain(text[1:]) == text else text


def _plain(value: Any) -> Any:
    is_formula = (
        isinstance(value, str)
        and value.lstrip(" ").startswith(_FORMULA)
        and not _NUMBER.fullmatch(value.strip(" "))
    )
    return f"'{value}" if is_formula else value
