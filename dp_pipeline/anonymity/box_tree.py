"""BoxTree: boxes that are cut in two, bit by bit, as long as both sides keep the promise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.bit import Bit
from dp_pipeline.anonymity.box import Box, whole_box
from dp_pipeline.anonymity.coded_rows import Column
from dp_pipeline.schema.encoding import IntArray


@dataclass(frozen=True)
class Fork:
    """Rows where the bit is true go to the node ``yes``, the others to the node ``no``."""

    bit: Bit
    no: int
    yes: int


@dataclass(frozen=True)
class BoxTree:
    """The cuts, which are real rules: they know where a row goes that they were not made of.

    source   the columns
    nodes    the root first, a fork before its sides; None is a box. Boxes are numbered in this
             order
    """

    source: tuple[Column, ...]
    nodes: tuple[Fork | None, ...]

    def places(self, codes: NDArray[np.integer]) -> IntArray:
        """The number of the box of every row (n,), of codes (n, d)."""
        found, boxes = np.zeros(len(codes), dtype=np.int64), 0
        rows_at = {0: np.arange(len(codes))}
        for place, fork in enumerate(self.nodes):
            rows = rows_at.pop(place)
            if fork is None:
                found[rows] = boxes
                boxes += 1
            else:
                yes = fork.bit.of(codes[rows], self.source)
                rows_at[fork.no], rows_at[fork.yes] = rows[~yes], rows[yes]
        return found

    @property
    def boxes(self) -> tuple[Box, ...]:
        """All rows that the cuts send to each box: together they are every row there could be."""
        found, box_at = [], {0: whole_box(self.source)}
        for place, fork in enumerate(self.nodes):
            box = box_at.pop(place)
            if fork is None:
                found.append(box)
            else:
                box_at[fork.no], box_at[fork.yes] = _sides(box, fork.bit, self.source)
        return tuple(found)


def _sides(box: Box, bit: Bit, columns: tuple[Column, ...]) -> tuple[Box, Box]:
    """The part of a box where a bit is false, and the part where it is true."""
    at = bit.column
    alone, codes = Bit(0, bit.code, bit.asks), np.array(box[at])
    true = alone.of(codes[:, None], (columns[at],))
    parts = [tuple(codes[side].tolist()) for side in (~true, true)]
    no, yes = ((*box[:at], part, *box[at + 1 :]) for part in parts)
    return no, yes
