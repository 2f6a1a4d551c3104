"""Once: one look at the rows for several answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from dp_pipeline.gate.counts import Counter

Found = TypeVar("Found")


class Once(Generic[Found]):
    """A look that is taken at the first answer that needs it, and kept for the others."""

    def __init__(self, look: Callable[[Counter], Found]) -> None:
        self._look = look
        self._found: Found | None = None

    def __call__(self, counter: Counter) -> Found:
        if self._found is None:
            self._found = self._look(counter)
        return self._found
