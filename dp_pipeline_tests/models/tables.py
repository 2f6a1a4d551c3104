"""Attributes of so many levels, and people in whom some of them depend on each other."""

from itertools import product

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.contract import Run
from dp_pipeline_tests.models.discrete import levels
from dp_pipeline_tests.populations import AWKWARD

BITS = levels(a=2, b=2, c=2, d=2, e=2, f=2)
TWINS = tuple((x, x, y, y, z, z) for x, y, z in product("01", repeat=3)) * 5
"""Forty people: a = b, c = d, e = f, and nothing else depends on anything."""

MIXED = levels(a=2, b=3, c=5, d=40)

FEW = {name: AWKWARD[name] for name in ("nobody", "the same person a hundred times", "ten people")}
"""For settings that are not the default ones, which the contract tries on every population."""


def table_of(done: Run) -> SyntheticTable:
    """What a model of a table released."""
    return done.released


def wide(many: int, rows: int) -> tuple[Domain, MemoryCounter]:
    """Many attributes of 2 to 8 levels that all depend a little on one hidden number."""
    domain = levels(**{f"x{index}": 2 + index % 7 for index in range(many)})
    rng = np.random.default_rng(1)
    hidden = rng.random(rows)
    codes = {
        one.name: ((hidden + 0.3 * rng.random(rows)) / 1.3 * one.size).astype(np.uint8)
        for one in domain
    }
    return domain, MemoryCounter(domain, coordinates={}, codes=codes, rows=rows)
