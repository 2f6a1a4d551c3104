"""Journal: the finished cells of a study, one line each, on disk before the next begins.

A study that was killed goes on where it stopped; one with other settings in the same folder
adds its cells. Cells of other code are never mixed with these.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from dp_pipeline.spec.errors import Damaged, DeclarationError

Row = Mapping[str, Any]
"""One finished cell: text, whole numbers, floats, None where there is no number, or such rows."""


class Journal:
    """The open file of one study; see ``open_journal``."""

    def __init__(self, path: Path, file: BinaryIO, rows: dict[str, Row]) -> None:
        self._path, self._file, self._rows = path, file, rows

    @property
    def rows(self) -> Mapping[str, Row]:
        """Cell → its row, in the order in which they were finished."""
        return self._rows

    def append(self, cell: str, row: Row) -> None:
        """Store one finished cell; it is on disk when this returns."""
        _write(self._file, {"cell": cell, "row": dict(row)})
        self._rows[cell] = row


@contextmanager
def open_journal(path: Path, header: Mapping[str, str]) -> Iterator[Journal]:
    """The journal at ``path``, made if there is none, for this process alone.

    header   what made the cells: study, code, versions

    A torn last line (a crash while writing it) is dropped. DeclarationError for a journal
    with another header, or one that another process has open; Damaged when a line in the
    middle is broken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DeclarationError(
                f"{path}: expected no other study in this folder, got one; name another with --out"
            ) from None
        yield Journal(path, file, _begun(path, file, header))


def _begun(path: Path, file: BinaryIO, header: Mapping[str, str]) -> dict[str, Row]:
    """The rows so far; writes the header where there is none."""
    lines = list(_whole_lines(path, file))
    if not lines:
        _write(file, dict(header))
    elif lines[0] != header:
        made = "; ".join(f"{name} {lines[0].get(name)}" for name in header)
        raise DeclarationError(
            f"{path}: expected cells of {'; '.join(f'{n} {v}' for n, v in header.items())}, "
            f"got cells of {made}; name another folder with --out"
        )
    return {line["cell"]: line["row"] for line in lines[1:]}


def _whole_lines(path: Path, file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Every whole line; a torn last one is cut off."""
    whole = 0
    for number, line in enumerate(file.readlines(), start=1):
        if not line.endswith(b"\n"):
            break
        try:
            yield json.loads(line)
        except ValueError:
            raise Damaged(f"{path}: expected line {number} whole, got a broken one") from None
        whole += len(line)
    file.truncate(whole)
    file.seek(whole)


def _write(file: BinaryIO, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())
