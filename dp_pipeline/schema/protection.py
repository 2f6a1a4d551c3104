"""What neighbouring data sets differ by: the protected unit and the relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Relation = Literal["add_remove", "replace_one"]


@dataclass(frozen=True)
class OneRow:
    """A person is at most one row."""

    @property
    def rows(self) -> int:
        """Rows that one protected unit can have."""
        return 1

    @property
    def column(self) -> str | None:
        """The column that names the person: none, a row is a person."""
        return None

    def __str__(self) -> str:
        return "one row"


@dataclass(frozen=True)
class RowsOfPerson:
    """A person is all rows with one value of ``column``, of which ``at_most`` are kept."""

    column: str
    at_most: int

    @property
    def rows(self) -> int:
        """Rows that one protected unit can have."""
        return self.at_most

    def __str__(self) -> str:
        return f"at most {self.at_most} rows of a person, column {self.column}"


Protection = OneRow | RowsOfPerson


def reach(protection: Protection, relation: Relation) -> int:
    """How many rows two neighbouring data sets differ by, at most.

    Replacing a person is removing one and adding another, so a reach under
    ``replace_one`` is twice the one under ``add_remove``.

    >>> reach(RowsOfPerson("user", 20), "add_remove"), reach(OneRow(), "replace_one")
    (20, 2)
    """
    return protection.rows * (2 if relation == "replace_one" else 1)
