"""Named: the systems of a study that a command line names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.name import one_of

System = TypeVar("System")


def named(
    names: Sequence[str], known: Mapping[str, System], *, what: str = "system"
) -> tuple[System, ...]:
    """Those with these names, all for no name, in their own order; DeclarationError for an
    unknown one.

    >>> named(["b", "a"], {"a": 1, "b": 2, "c": 3})
    (1, 2)
    """
    for name in names:
        if name not in known:
            raise DeclarationError(f"{what}: expected {one_of(known, name)}")
    return tuple(system for name, system in known.items() if not names or name in names)
