"""Tables of attributes of any number of levels, and the rows in them."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Levels
from dp_pipeline.raw.counters.memory import MemoryCounter

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
    """The engine over these codes."""
    columns = dict(zip(domain.names, codes.T.astype(np.uint16), strict=True))
    return MemoryCounter(domain, coordinates={}, codes=columns, rows=len(codes))
