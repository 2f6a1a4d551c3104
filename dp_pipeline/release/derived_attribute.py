"""DerivedAttribute: one attribute more, which others decide, by what is public or was released."""

from __future__ import annotations

from dataclasses import dataclass

from dp_pipeline.schema.domain import Attribute
from dp_pipeline.schema.encoding import Levels

MOST_DERIVED_CELLS = 1 << 17
"""Cells that an attribute is derived from, at most."""


@dataclass(frozen=True)
class DerivedAttribute:
    """The group of every cell over some attributes: whole numbers 0, 1, … without a gap.

    attributes   at least one, each with cells
    groups       one a cell, the last attribute fastest

    >>> either = DerivedAttribute(("coughs", "sneezes"), (0, 1, 1, 1))
    >>> either.size, either.named("is ill").labels()
    (2, ('group 0', 'group 1'))
    """

    attributes: tuple[str, ...]
    groups: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of groups."""
        return max(self.groups) + 1

    def named(self, name: str) -> Attribute:
        """The attribute with groups as levels."""
        levels = Levels(tuple(f"group {group}" for group in range(self.size)))
        return Attribute(name, name, "drop", cells=levels)
