"""Boxes of any number of dimensions and shape, and a few people in them."""

from collections.abc import Sequence

import numpy as np

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.raw.counters.memory import MemoryCounter

Place = tuple[float, ...]
"""One number a column: a row of a domain of numeric columns alone."""

SIDES: dict[str, tuple[tuple[float, float], ...]] = {
    "equal sides": ((0.0, 8.0),),
    "one side a million times another": ((0.0, 1e6), (0.0, 1.0)),
    "far from zero": ((1e9 - 1, 1e9 + 1),),
    "bounds that are no binary fractions": ((-0.9, 0.7), (-0.9, -0.5), (0.1, 3.3)),
    "as narrow as a column can be": ((1e9, 1e9 + 2.0**-6),),
}
"""Name → bounds of the first columns; those after them begin anew."""


def space(dimensions: int, sides: str = "equal sides") -> Domain:
    """A domain of numeric columns alone."""
    bounds = SIDES[sides]
    names = [f"x{axis}" for axis in range(dimensions)]
    return Domain(
        tuple(
            Attribute(name, name, "clip", coordinate=Coordinate(*bounds[axis % len(bounds)]))
            for axis, name in enumerate(names)
        )
    )


def place_in(domain: Domain, share: float) -> Place:
    """As far along every side: 0 is the lowest corner, 1 the highest."""
    box = domain.box(domain.names)
    return tuple(side.lower + share * (side.upper - side.lower) for side in box)


def corners_and_inside(domain: Domain) -> tuple[Place, ...]:
    """Places on two corners of the box, on its middle planes, and within."""
    return tuple(place_in(domain, share) for share in (0.0, 0.3, 0.5, 1.0))


def two_groups(domain: Domain, many: int = 12) -> tuple[Place, ...]:
    """People around two places of the box."""
    rng = np.random.default_rng(len(domain.names))
    low, high = (np.array(place_in(domain, share)) for share in (0.0, 1.0))
    shares = np.where(np.arange(many) % 2, 0.25, 0.75)[:, None] + rng.uniform(
        -0.1, 0.1, size=(many, len(domain.names))
    )
    return tuple(map(tuple, (low + shares * (high - low)).tolist()))


def in_memory(places: Sequence[Place], domain: Domain) -> MemoryCounter:
    """The engine of the estimators over these rows."""
    table = np.array(places, dtype=float).reshape(-1, len(domain.names))
    box = domain.box(domain.names)
    columns = {
        name: one.encode(table[:, axis])
        for axis, (name, one) in enumerate(zip(domain.names, box, strict=True))
    }
    return MemoryCounter(domain, coordinates=columns, codes={}, rows=len(places))
