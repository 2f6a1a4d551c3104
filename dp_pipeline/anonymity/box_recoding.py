"""BoxRecoding: every row is released as the box it falls into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.bit import bit_matrix, cumulative_bits
from dp_pipeline.anonymity.box import Box, text_of
from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.schema.encoding import FloatArray, IntArray


class BoxFinder(Protocol):
    """A public rule from a row to a box. Every row there could be has one."""

    def places(self, codes: NDArray[np.integer]) -> IntArray:
        """The number of the box of every row (n,), of codes (n, d)."""
        ...


@dataclass(frozen=True)
class BoxRecoding:
    """The columns are released as they are, with sets of levels in place of levels.

    source   the quasi-identifiers
    boxes    what is released; equal ones are one equivalence class
    finder   which of them a row falls into

    Each column's released levels are the sets of codes that its boxes have, in order of their
    codes. They overlap, so they are not ordered, even where the column is.
    """

    source: tuple[Column, ...]
    boxes: tuple[Box, ...]
    finder: BoxFinder

    @cached_property
    def _sets(self) -> list[list[tuple[int, ...]]]:
        """The different sets of codes of every column, ascending."""
        return [sorted({box[at] for box in self.boxes}) for at in range(len(self.source))]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """One released column a quasi-identifier, of the same name."""
        pairs = zip(self.source, self._sets, strict=True)
        return tuple(_released_column(column, sets) for column, sets in pairs)

    @property
    def about(self) -> tuple[int, ...]:
        """Every column tells of itself."""
        return tuple(range(len(self.source)))

    @cached_property
    def _codes(self) -> IntArray:
        """Released codes of every box (boxes, d)."""
        places = [{codes: at for at, codes in enumerate(sets)} for sets in self._sets]
        table = [[places[at][codes] for at, codes in enumerate(box)] for box in self.boxes]
        return np.array(table, dtype=np.int64).reshape(len(self.boxes), len(self.source))

    @cached_property
    def _features(self) -> FloatArray:
        """For every box and every cumulative bit, the share of the box's levels where it is
        true (boxes, bits).
        """
        shares = [
            _shares(column, sets) for column, sets in zip(self.source, self._sets, strict=True)
        ]
        parts = [table[self._codes[:, at]] for at, table in enumerate(shares)]
        return np.hstack([np.zeros((len(self.boxes), 0)), *parts])

    def released(self, rows: CodedRows) -> CodedRows:
        """The box of every row."""
        codes = self._codes[self.finder.places(rows.codes)]
        return replace(rows, columns=self.columns, codes=codes)

    def features(self, rows: CodedRows) -> FloatArray:
        """What is known of each cumulative bit of a row by its box: how likely it is true when
        the levels of the box are equally likely. Ordered columns so become numbers near the
        middle of their interval, with a bend at each edge; nominal ones, membership.
        """
        return self._features[self.finder.places(rows.codes)]


def _released_column(column: Column, sets: list[tuple[int, ...]]) -> Column:
    missing = len(sets) - 1 if sets and sets[-1] == (column.missing,) else None
    return Column(column.name, tuple(text_of(codes, column) for codes in sets), missing=missing)


def _shares(column: Column, sets: list[tuple[int, ...]]) -> FloatArray:
    """Share of each set (sets,) where each cumulative bit of the column is true (sets, bits)."""
    bits, codes = cumulative_bits((column,)), np.arange(column.size)[:, None]
    truth = bit_matrix(bits, codes, (column,)).astype(np.float64)
    return np.array([truth[list(chosen)].mean(axis=0) for chosen in sets]).reshape(
        len(sets), len(bits)
    )
