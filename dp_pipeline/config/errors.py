"""What can go wrong, as one line for a person and one exit code for a shell.

Every message says what was expected, what was got and of which object. A
message may show what a *declaration* says; it never shows a value of a row.

Names of data sets, populations and attributes, safe in paths, in columns and in Dagster, and how a
refusal lists those that are known.

What the operating system, or a database file, refuses: as one line with its reason and a remedy.

The reason is the system's own text for its own number, never the words of the error that came up:
those of an engine for rows may quote a row. That something failed may depend on how much there
was to write, as a full disk does; what failed is a file of ours, or a declared one.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

NAME: Final = "[a-z][a-z0-9_]{0,63}"
"""As a regular expression, also of the JSON Schema."""

EXPECTED_NAME: Final = "a-z, 0-9 and _, starting with a letter"


def is_name(text: str) -> bool:
    """Whether ``text`` is one.

    >>> is_name("rides_2026"), is_name("Rides")
    (True, False)
    """
    return re.fullmatch(NAME, text) is not None


def one_of(known: Iterable[str], got: str) -> str:
    """What a refusal says of a name that is not known: which there are, which one was got, and the
    nearest. For names that are public: declared ones, never those of rows.

    >>> one_of(["rides", "trips"], "ride")
    "one of rides, trips, got 'ride': did you mean rides?"
    >>> one_of(["rides", "trips"], "census")
    "one of rides, trips, got 'census'"
    """
    listed = tuple(known)
    return f"one of {', '.join(listed) or 'none'}, got {got[:60]!r}{did_you_mean(got, listed)}"


def did_you_mean(got: str, known: Iterable[str]) -> str:
    """The nearest of the known names as the end of a refusal; empty where none is near.

    >>> did_you_mean("Trip", ["rides", "trips"])
    ': did you mean trips?'
    """
    near = nearest(got, known)
    return f": did you mean {near}?" if near else ""


def nearest(got: str, known: Iterable[str]) -> str:
    """The known name that is most like ``got``; empty where none is."""
    near = difflib.get_close_matches(got[:60].lower(), list(known), n=1)
    return near[0] if near else ""


class PipelineError(Exception):
    """Something failed; the message is one line that a person can act on."""

    exit_code = 1

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled as it is, not made again of its message: a pool of processes waits for ever for
        an error that it cannot read.
        """
        return type(self).__new__, (type(self), *self.args), self.__dict__


class DeclarationError(PipelineError):
    """A declaration or an argument is wrong; nothing was read, charged or drawn."""

    exit_code = 2


class Refused(DeclarationError, ValueError):
    """What one field or argument says is not what was expected.

    of     the object, for a message without a file
    field  names from where it was found down to what is wrong: for the line in a file
    hint   the end of the message: what to do, or which name was meant
    """

    def __init__(
        self,
        expected: str,
        got: str,
        *,
        of: str = "",
        field: tuple[str | int, ...] = (),
        hint: str = "",
    ) -> None:
        self.expected, self.got, self.field, self.hint = expected, got, field, hint
        super().__init__(f"{of}: expected {expected}, got {got}{hint}")


class SourceError(PipelineError):
    """A source of rows cannot be read or does not have the declared columns."""


class NotPrepared(PipelineError):
    """A snapshot is not fit for a release: not validated, not prepared, or refused."""


class NotDiscovered(PipelineError):
    """Noisy answers that were paid for say too little to make a domain of."""


class Damaged(PipelineError):
    """Something stored no longer matches its own checksum."""


class NoAnswer(Damaged):
    """A question without a stored answer, where nothing may be drawn."""


class UnknownFormat(PipelineError):
    """Something stored has a format that this program does not read; it may well be whole."""


class OtherQuestion(PipelineError):
    """A stored answer belongs to another question than is asked now; it is whole, and stays."""


class BoundaryViolation(PipelineError):
    """Code asked the gate for something that the gate does not do."""


class BudgetExceeded(PipelineError):
    """More ε was asked for than is left; nothing was charged and nothing was drawn.

    spent    for ever, or in the part of time that ``part`` names
    ceiling  for ever, or of each such part
    symbol   of what the amounts are: ε, or ρ of zero-concentrated DP
    part     which limit would be passed, as a data set file calls it, and of what: ``total`` of
             nothing, ``per_month`` of a calendar month (UTC), ``each_window`` of a window. A
             ``ceiling`` of δ may be of a window too
    account  whether the limit is an account's, which can be raised; what was asked for begins
             with the name of its data set, if it is of one
    """

    exit_code = 3

    def __init__(
        self,
        what: str,
        *,
        asked: Fraction,
        spent: Fraction,
        ceiling: Fraction,
        where: str,
        symbol: str = "ε",
        part: tuple[str, str] = ("total", ""),
        account: bool = True,
    ) -> None:
        self.asked, self.spent, self.ceiling, self.symbol = asked, spent, ceiling, symbol
        self.left = ceiling - spent
        limit, name = part
        period, limit = (f" in {name}", limit) if name else ("", "ceiling")
        text = float_text if symbol == "δ" else _decimal
        remedy = _remedy(what, "delta" if symbol == "δ" else limit) if account else ""
        super().__init__(
            f"{what} refused by {where}: asked {symbol}={text(asked)}, "
            f"spent{period} {text(spent)}, left {text(self.left)}, {limit} {text(ceiling)}{remedy}"
        )


_OPTIONS = {
    "delta": "--delta …",
    "each_window": "--each-window …",
    "per_month": "--per-month …",
}


def _remedy(what: str, limit: str) -> str:
    dataset = what.partition("/")[0]
    name = dataset if is_name(dataset) else "NAME"
    options = _OPTIONS.get(limit, "--total …")
    later = ", or wait for the next month" if limit == "per_month" else ""
    return f"; more, for ever: `dp-pipeline budget raise {name} {options} --reason …`{later}"


def float_text(value: Fraction) -> str:
    """A δ for people, in three digits.

    >>> float_text(Fraction(1, 10**9)), float_text(Fraction(0))
    ('1e-09', '0')
    """
    return f"{float(value):.3g}"


def _decimal(value: Fraction) -> str:
    """Whole nano-ε as decimal text, rounded down: nothing is left that is not there."""
    whole, rest = divmod(value.numerator * 10**9 // value.denominator, 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


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
"""SQLite's name of a code, in its first two parts, → reason and remedy."""
_DAMAGED = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR"}
"""Of a file that is damaged, or lacks a table; that of the ledger says so itself."""
_ASKED_WRONGLY = (sqlite3.ProgrammingError, sqlite3.IntegrityError, sqlite3.InterfaceError)
_HISTORY = (
    "move its folder aside (DAGSTER_HOME, else .dagster_home beside the home), and a new history "
    "begins: the ledger, which is kept elsewhere, loses nothing"
)
_DEEPEST = 8
"""Errors behind an error that are looked at."""


def system_error(error: BaseException) -> PipelineError | None:
    """The line for a refusal of the operating system or of Dagster's database; None for anything
    else, and for a reader of our words who has gone.
    """
    for one in _behind(error):
        if isinstance(one, BrokenPipeError):
            return None
        if isinstance(one, OSError) and one.errno:
            return PipelineError(system_line(one))
        line = _of_database(one) if isinstance(one, sqlite3.Error) else ""
        if line:
            return PipelineError(line)
    return None


def reason_of(error: OSError) -> str:
    """The system's text, or our own where we refused before it could."""
    if isinstance(error, _Refusal):
        return str(error.strerror)
    return os.strerror(error.errno) if error.errno else type(error).__name__


def system_line(error: OSError, path: Path | None = None) -> str:
    """Which file cannot be used, why, and what to do about it.

    path   where the error itself names none, as one of writing does
    """
    place = error.filename if isinstance(error.filename, str) else path
    what = "the operating system refuses" if place is None else f"cannot use {str(place)[:300]}"
    return _line(f"{what}: {reason_of(error)}", _REMEDIES.get(error.errno or 0, ""))


def with_remedy(line: str, error: object) -> str:
    """A line about a database file, with what to do where it is not damaged."""
    return _line(line, _DATABASES.get(_code(error), ("", ""))[1])


def bounded_bytes(path: Path, *, most: int) -> bytes:
    """The content of a regular file of at most ``most`` bytes.

    OSError for any other: a pipe would wait for a writer, and a device never ends.
    """
    # A pipe without a writer is opened at once.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(path, os.fstat(descriptor).st_mode)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(most + 1)
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise _Refusal(errno.EFBIG, f"more than {most} bytes", str(path))
    return content


def follow_links(path: Path | str) -> Path:
    """Return the absolute path with its links followed. Links that lead in a circle are left as
    they are: who opens them reads the system's own refusal, where ``Path.resolve`` of Python before
    3.13 ends with a RuntimeError.
    """
    return Path(os.path.realpath(path))


def require_regular(path: Path, mode: int) -> None:
    """OSError unless a mode, as ``stat`` gives it, is that of a regular file."""
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _Refusal(errno.ESPIPE, "a device or a pipe", str(path))


class _Refusal(OSError):
    """Ours, before the system was asked."""


def _behind(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that it was made of."""
    one: BaseException | None = error
    for _ in range(_DEEPEST):
        if one is None:
            return
        yield one
        origin = getattr(one, "orig", None)
        one = origin if isinstance(origin, BaseException) else one.__cause__


def _of_database(error: sqlite3.Error) -> str:
    """Empty where a program asked wrongly: the file is as it should be."""
    code = _code(error)
    if code in _DATABASES:
        reason, remedy = _DATABASES[code]
        return _line(f"a database file: {reason} ({code})", remedy)
    if code in _DAMAGED and not isinstance(error, _ASKED_WRONGLY):
        return _line(f"Dagster's run history: it is damaged ({code})", _HISTORY)
    return ""


def _code(error: object) -> str:
    """SQLite's name of an error, in its first two parts; empty where Python made it itself."""
    return "_".join(str(getattr(error, "sqlite_errorname", "")).split("_")[:2])


def _line(what: str, remedy: str) -> str:
    return " ".join((f"{what}; {remedy}" if remedy else what).split())
