"""tic_like: many attributes of few levels for few rows, in blocks of attributes that depend."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dp_pipeline.raw.generators.drawing import draw_category, random_numbers
from dp_pipeline.spec.encoding import FloatArray, IntArray

SIZES = (2, 3, 10, 5, 2, 7, 4, 8, 2, 6, 9, 3) * 7 + (2, 2)
"""Levels of the 86 attributes, 2 to 10."""

BLOCKS = (5, 9, 3, 14, 7, 2, 11, 6, 17, 4, 8)
"""Attributes of each block."""

_STRUCTURE = 86
_LINK, _CLEAR = 0.6, 3.0


def generate(seed: int = 0, rows: int = 9_822) -> pa.Table:
    """Rows (rows,) of 86 texts c1 to c86, whole numbers from 0.

    The population is fixed: a block is a tree in which an attribute depends on one or two before
    it, and most blocks begin with one that depends on the beginning of another. Nothing else
    depends. The size of the CoIL 2000 table of customers (TIC), which is not shipped.
    """
    rng, structure = random_numbers(seed), random_numbers(_STRUCTURE)
    codes: list[IntArray] = []
    firsts: list[int] = []
    for length in BLOCKS:
        block: list[int] = []
        for _ in range(length):
            parents = _parents(structure, block, firsts)
            shape = (*(SIZES[at] for at in parents), SIZES[len(codes)])
            chosen = tuple(codes[at] for at in parents)
            codes.append(draw_category(rng, _weights(structure, shape), chosen, rows))
            block.append(len(codes) - 1)
        firsts.append(block[0])
    return pa.table({f"c{at + 1}": _texts(column, SIZES[at]) for at, column in enumerate(codes)})


def _parents(structure: np.random.Generator, block: list[int], firsts: list[int]) -> list[int]:
    """Earlier attributes that the next one of a block depends on: at most two."""
    if block:
        most = min(len(block), 1 + int(structure.random() < 0.25))
        return sorted(structure.choice(block, size=most, replace=False).tolist())
    if firsts and structure.random() < _LINK:
        return [int(structure.choice(firsts))]
    return []


def _weights(structure: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Some levels likely and some rare, others given other parents."""
    weights: FloatArray = np.exp(_CLEAR / 2 * structure.standard_normal(shape))
    return weights


def _texts(codes: IntArray, size: int) -> pa.Array:
    levels = np.array([str(level) for level in range(size)], dtype=object)
    return pa.array(levels[codes], pa.string())
