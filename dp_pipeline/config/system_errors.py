"""Errors of the operating system or of a database file, as one line with reason and remedy.

The reason is the system's text for the error's number, never the error's own message, in which an
engine may quote a row.
"""

import errno
import os
import sqlite3
import stat
from pathlib import Path

from dp_pipeline.config.errors import DeclarationError, PipelineError

_AGAIN = "then run the same command again: nothing is charged twice"
_REMEDIES = {
    errno.ENOSPC: f"free some space there, {_AGAIN}",
    errno.EDQUOT: f"free some of your quota there, {_AGAIN}",
    errno.EACCES: "let the user who runs this read and write it",
    errno.EPERM: "let the user who runs this own it",
    errno.EROFS: "name a folder that can be written by DP_PIPELINE_HOME and DAGSTER_HOME",
    errno.ENAMETOOLONG: "use a shorter name, or a folder nearer to the root",
    errno.EMFILE: f"allow more open files (`ulimit -n`), {_AGAIN}",
    errno.ENFILE: f"end other programs, {_AGAIN}",
    errno.EIO: f"look after the disk, {_AGAIN}",
    errno.ENOENT: f"put it back, {_AGAIN}",
    errno.EEXIST: "move what lies there aside",
    errno.EISDIR: "put a file there",
    errno.ESPIPE: "put a file there",
    errno.EFBIG: "put a smaller file there",
    errno.ENOTDIR: "put a folder there",
    errno.ELOOP: "its links lead in a circle, so put the file itself there",
}
_DATABASES = {
    "SQLITE_FULL": ("the disk is full", f"free some space there, {_AGAIN}"),
    "SQLITE_READONLY": ("it cannot be written", "let the user who runs this write it"),
    "SQLITE_CANTOPEN": ("it cannot be opened", "let the user who runs this read and write it"),
    "SQLITE_PERM": ("it cannot be opened", "let the user who runs this read and write it"),
    "SQLITE_IOERR": ("the disk reports an error", f"look after the disk, {_AGAIN}"),
    "SQLITE_BUSY": ("another program uses it", f"wait for that program, {_AGAIN}"),
    "SQLITE_LOCKED": ("another program uses it", f"wait for that program, {_AGAIN}"),
}
"""First two parts of SQLite's error name → reason and remedy."""
_DAMAGE = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR"}
"""Error names of a file that is damaged or lacks a table; the ledger reports its own."""
_WRONG_USE = (sqlite3.ProgrammingError, sqlite3.IntegrityError, sqlite3.InterfaceError)
"""Errors of the program, not of the file."""
_HISTORY_REMEDY = (
    "move its folder aside (DAGSTER_HOME, else .dagster_home next to the home), and a new history "
    "begins: the ledger, which is kept elsewhere, loses nothing"
)
_MAX_CAUSES = 8


def system_error(error: BaseException) -> PipelineError | None:
    """Return an error of the operating system or of Dagster's database as a PipelineError.

    None for any other error, and for a pipe that its reader closed.
    """
    cause: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if cause is None or isinstance(cause, BrokenPipeError):
            return None
        if isinstance(cause, OSError) and cause.errno:
            return PipelineError(system_line(cause))
        if isinstance(cause, sqlite3.Error):
            code = _code(cause)
            if code in _DATABASES:
                reason, remedy = _DATABASES[code]
                return PipelineError(_line(f"a database file: {reason} ({code})", remedy))
            if code in _DAMAGE and not isinstance(cause, _WRONG_USE):
                problem = f"Dagster's run history: it is damaged ({code})"
                return PipelineError(_line(problem, _HISTORY_REMEDY))
        origin = getattr(cause, "orig", None)
        cause = origin if isinstance(origin, BaseException) else cause.__cause__
    return None


def os_error_reason(error: OSError) -> str:
    """Return the reason of an operating system error as text."""
    if isinstance(error, _FileRefusal):
        return str(error.strerror)
    return os.strerror(error.errno) if error.errno else type(error).__name__


def system_line(error: OSError, path: Path | None = None) -> str:
    """Return a message that names the unusable file, the reason and a remedy.

    path   the file, if the error itself names none, as errors of writing do
    """
    file = error.filename if isinstance(error.filename, str) else path
    fault = "the operating system refuses"
    fault = fault if file is None else f"{str(file)[:300]} cannot be used"
    return _line(f"{fault}: {os_error_reason(error)}", remedy_of(error))


def remedy_of(error: OSError) -> str:
    """Return the remedy of an operating system error; empty if none is known."""
    return _REMEDIES.get(error.errno or 0, "")


def with_remedy(line: str, error: object) -> str:
    """Return a message with the remedy of a database error at its end, if there is one."""
    return _line(line, _DATABASES.get(_code(error), ("", ""))[1])


def to_path(value: object, *, of: str) -> Path:
    """Return a path that is given as a text or a path; DeclarationError for another value, and for
    characters that no path can have."""
    try:
        path = Path(value)  # type: ignore[arg-type]
        has_wrong_characters = b"\0" in os.fsencode(path)
    except TypeError:
        raise DeclarationError(
            f"{of}: expected a path, as a text or a pathlib.Path, got {type(value).__name__}"
        ) from None
    except UnicodeEncodeError:
        has_wrong_characters = True
    if has_wrong_characters:
        raise DeclarationError(
            f"{of}: expected a path of characters that file names have, got {str(value)[:60]!r}: "
            "leave zero bytes and lone surrogates out"
        )
    return path


def bounded_bytes(path: Path, *, max_bytes: int) -> bytes:
    """Return the bytes of a regular file; OSError for another, or over ``max_bytes`` bytes.

    A pipe would wait for a writer, and a device never ends.
    """
    # A pipe without a writer is opened at once.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(path, os.fstat(descriptor).st_mode)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        raise _FileRefusal(errno.EFBIG, f"more than {max_bytes:,} bytes", str(path))
    return content


def follow_links(path: Path | str) -> Path:
    """Return an absolute path with its links followed; a circular link stays as it is.

    Before Python 3.13 ``Path.resolve`` raises RuntimeError for such a circle.
    """
    return Path(os.path.realpath(path))


def require_regular(path: Path, mode: int) -> None:
    """Raise OSError unless a mode of ``stat`` belongs to a regular file."""
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _FileRefusal(errno.ESPIPE, "a device or a pipe", str(path))


class _FileRefusal(OSError):
    """Raised when this program refuses a file before it asks the operating system."""


def _code(error: object) -> str:
    """Return the first two parts of the name of an SQLite error, such as SQLITE_IOERR of
    SQLITE_IOERR_WRITE; empty for any other error."""
    return "_".join(str(getattr(error, "sqlite_errorname", "")).split("_")[:2])


def _line(refusal: str, remedy: str) -> str:
    return " ".join((f"{refusal}; {remedy}" if remedy else refusal).split())
