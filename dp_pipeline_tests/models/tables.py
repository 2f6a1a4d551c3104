"""Small domains of levels or of numbers, and the rows in them."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Coordinate, Levels
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.contract import Run
from dp_pipeline_tests.populations import AWKWARD

DELTA = Fraction(1, 10**9)
every_delta = pytest.mark.parametrize("delta", [None, DELTA], ids=["in epsilon", "in rho"])


def levels(**sizes: int) -> Domain:
    """Attributes of so many levels, "0", "1", …"""
    return Domain(
        tuple(
            Attribute(name, name, "drop", cells=Levels(tuple(map(str, range(size)))))
            for name, size in sizes.items()
        )
    )


def domain_of(sizes: Sequence[int], *, nullable: bool = False) -> Domain:
    """Attributes x0, x1, … with so many levels; of missing values is the last, where nullable."""
    declared = levels(**{f"x{index}": size - nullable for index, size in enumerate(sizes)})
    return Domain(tuple(replace(attribute, nullable=nullable) for attribute in declared))


def dependent_rows(sizes: Sequence[int], rows: int, *, seed: int = 1) -> np.ndarray:
    """Codes (rows, attributes), each of which follows the one before it four times out of five."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, (rows, len(sizes)))
    for index in range(1, len(sizes)):
        follows = rng.random(rows) < 0.8
        codes[follows, index] = codes[follows, index - 1] % sizes[index]
    return codes


def counter_of(domain: Domain, codes: np.ndarray) -> MemoryCounter:
    columns = dict(zip(domain.names, codes.T.astype(np.uint16), strict=True))
    return MemoryCounter(domain, coordinates={}, codes=columns, rows=len(codes))


BITS = levels(a=2, b=2, c=2, d=2, e=2, f=2)
TWINS = tuple((x, x, y, y, z, z) for x, y, z in product("01", repeat=3)) * 5
"""Forty people: a = b, c = d, e = f, and nothing else depends on anything."""

MIXED = levels(a=2, b=3, c=5, d=40)

FEW = {name: AWKWARD[name] for name in ("nobody", "the same person a hundred times", "ten people")}
"""For settings that are not the default ones, which the contract tries on every population."""


def table_of(done: Run) -> SyntheticTable:
    return done.released


def wide(many: int, rows: int) -> tuple[Domain, MemoryCounter]:
    """Many attributes of 2 to 8 levels that all depend a little on one hidden number."""
    domain = levels(**{f"x{index}": 2 + index % 7 for index in range(many)})
    rng = np.random.default_rng(1)
    hidden = rng.random(rows)
    codes = {
        attribute.name: ((hidden + 0.3 * rng.random(rows)) / 1.3 * attribute.size).astype(np.uint8)
        for attribute in domain
    }
    return domain, MemoryCounter(domain, coordinates={}, codes=codes, rows=rows)


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
        name: side.encode(table[:, axis])
        for axis, (name, side) in enumerate(zip(domain.names, box, strict=True))
    }
    return MemoryCounter(domain, coordinates=columns, codes={}, rows=len(places))
