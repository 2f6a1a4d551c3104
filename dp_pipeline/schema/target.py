"""Target: a question about a row that a classifier answers from the row's other attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import DeclarationError


@dataclass(frozen=True)
class Target:
    """Whether a row's level of one attribute is among some of its levels.

    attribute   an attribute with levels
    positive    the levels that mean yes: at least one, and not all
    without     attributes that classifiers must not see, because they say the same in other words
    """

    attribute: str
    positive: tuple[str, ...]
    without: tuple[str, ...] = ()

    def codes(self, domain: Domain) -> tuple[int, ...]:
        """Codes of the positive levels, ascending.

        >>> from dp_pipeline.schema.domain import Attribute
        >>> from dp_pipeline.schema.encoding import Levels
        >>> pet = Attribute("pet", "pet", "drop", cells=Levels(("cat", "dog", "none")))
        >>> Target("pet", ("dog", "cat")).codes(Domain((pet,)))
        (0, 1)
        """
        known = domain[self.attribute].labels()
        if not set(self.positive) <= set(known):
            raise DeclarationError(
                f"target {self.attribute!r}: expected levels of the attribute, got another"
            )
        return tuple(sorted(known.index(level) for level in self.positive))

    def inputs(self, attributes: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the attributes that classifiers may see."""
        hidden = {self.attribute, *self.without}
        return tuple(name for name in attributes if name not in hidden)

    def asked_of(
        self, codes: Mapping[str, NDArray[Any]], domain: Domain
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """What a classifier sees of a table of codes, and the right answers (rows,)."""
        seen = {name: codes[name] for name in self.inputs(tuple(codes))}
        return seen, np.isin(codes[self.attribute], self.codes(domain))
