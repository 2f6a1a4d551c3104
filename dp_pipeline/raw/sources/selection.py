"""Selection: how the declared columns are asked of one database, and as what they come back."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

Cell = bytes | memoryview | int | float | None

_FIRST_ROUNDED = 2.0**53
"""The least whole number that another one is rounded to."""


@dataclass(frozen=True)
class Selection:
    """One statement and the types of its columns, known before a row was read.

    types   column → int64, double, or binary: text, judged cell by cell
    person  the column that names the person, if there is one
    """

    statement: str
    types: dict[str, pa.DataType]
    person: str | None = None


def quoted(name: str) -> str:
    """A column's name in standard SQL."""
    return '"' + name.replace('"', '""') + '"'


def around(query: str, columns: str) -> str:
    """``columns`` of the rows of a query, whose last line may be a comment."""
    return f"SELECT {columns} FROM (\n{query.strip().removesuffix(';')}\n) AS declared"


def as_bytes(cell: Cell) -> bytes | None:
    """A cell's text; a whole number has no point, however it is stored."""
    if cell is None or isinstance(cell, bytes):
        return cell
    if isinstance(cell, memoryview):
        return bytes(cell)
    is_whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell) if is_whole else cell).encode()


def person_as_bytes(cell: Cell) -> bytes | None:
    """The id in a cell of a person's column; None where it names nobody.

    A floating number is an id where it is a whole one below 2^53, because only then is it surely
    the one that was meant: larger ones were rounded, so that two persons may be one, or one two.
    """
    if isinstance(cell, float) and not (cell.is_integer() and abs(cell) < _FIRST_ROUNDED):
        return None
    return as_bytes(cell)
