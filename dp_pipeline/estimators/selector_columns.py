"""How values become levels that bits ask about: learned from rows, so as sensitive as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.bit import Bit
from dp_pipeline.anonymity.coded_rows import Column
from dp_pipeline.estimators.column_values import kind_of, numbers_of, text_places
from dp_pipeline.estimators.selector_edges import Cuts
from dp_pipeline.estimators.value_text import UNKNOWN, text_of
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import DeclarationError

MOST_NUMBERS = 64
"""Different whole numbers of a column that are levels without further ado."""
MOST_LEVELS = 1000
"""Of any column, and of the label: each level is a bit of every row."""


@dataclass(frozen=True, eq=False)
class Coded:
    """The values of one column as codes.

    codes   (n,) in 0..size − 1 of the column
    known   (n,) whether the value is the level of its code; elsewhere no bit ``is`` that level
    """

    codes: IntArray
    known: NDArray[np.bool_]


@dataclass(frozen=True)
class SelectorColumn(ABC):
    """A rule from the values of one column to its levels."""

    column: Column

    @abstractmethod
    def coded(self, series: Any) -> Coded:
        """The codes of a pandas series of any type; what was never seen is not known."""

    @abstractmethod
    def asked(self, bit: Bit) -> str:
        """What a bit asks, as it stands behind the name of the column."""


@dataclass(frozen=True)
class LevelColumn(SelectorColumn):
    """Values are looked up as texts."""

    def coded(self, series: Any) -> Coded:
        """A text that is no level has code 0, and no bit."""
        values = self.column.levels[: self.column.values]
        codes: dict[str | None, int] = {text: code for code, text in enumerate(values)}
        if self.column.missing is not None:
            codes[None] = self.column.missing
        places, texts = text_places(series)
        found = np.array([codes.get(text, -1) for text in [*texts, None]], dtype=np.int64)[places]
        return Coded(np.maximum(found, 0), found >= 0)

    def asked(self, bit: Bit) -> str:
        """``=level`` or ``>=level``."""
        return f"{'=' if bit.asks == 'is' else '>='}{self.column.levels[bit.code]}"


@dataclass(frozen=True)
class NumberColumn(SelectorColumn):
    """Values are compared as numbers.

    cuts     ascending: the code of a number is how many of them it reaches
    values   the numbers that are the levels, where a level is one number; None for intervals
    """

    cuts: Cuts
    values: tuple[float, ...] | None = None

    def coded(self, series: Any) -> Coded:
        """A number beside the levels has the code of the next one below, and is not known."""
        numbers, readable = numbers_of(series)
        absent = np.isnan(numbers)
        codes = np.searchsorted(np.asarray(self.cuts), numbers, side="right")
        codes[absent] = 0
        known = ~absent if self.values is None else np.isin(numbers, self.values)
        if self.column.missing is not None:
            missing = absent & readable
            codes[missing] = self.column.missing
            known |= missing
        return Coded(codes.astype(np.int64), known)

    def asked(self, bit: Bit) -> str:
        """``=level``, or ``>=number``."""
        if bit.asks == "is":
            return f"={self.column.levels[bit.code]}"
        return f">={text_of(self.cuts[bit.code - 1])}"


def learned_column(
    name: str, series: Any, *, cuts: Cuts | None, cuts_of_numbers: Cuts | None
) -> SelectorColumn:
    """The rule for a column of rows that are fitted; ``KAnonymousSelector`` says which.

    cuts              declared for this column, or None
    cuts_of_numbers   declared for all columns of numbers, or None

    DeclarationError for numbers that need cuts and have none, and for values that are no levels.
    """
    kind = kind_of(series)
    if kind == "numbers" and cuts is None:
        cuts = cuts_of_numbers
    if cuts is not None:
        return _cut_numbers(name, series, cuts)
    if kind == "others":
        raise DeclarationError(
            f"X: column {name!r}: expected texts, truth values, numbers or categories, got others"
            f"{': Complex data not supported' if series.dtype.kind == 'c' else ''}"
        )
    if kind in ("truths", "numbers"):
        return _single_numbers(name, series, are_truths=kind == "truths")
    return _levels(name, series)


def answers(
    columns: Sequence[SelectorColumn], coded: Sequence[Coded], bits: Sequence[Bit], *, rows: int
) -> NDArray[np.int8]:
    """What the bits say of every row (n, bits), 0 or 1."""
    declared = tuple(one.column for one in columns)
    codes = np.empty((rows, len(columns)), dtype=np.int64)
    for at, one in enumerate(coded):
        codes[:, at] = one.codes
    matrix = np.empty((rows, len(bits)), dtype=np.int8)
    for at, bit in enumerate(bits):
        said = bit.of(codes, declared)
        matrix[:, at] = said & coded[bit.column].known if bit.asks == "is" else said
    return matrix


def _cut_numbers(name: str, series: Any, cuts: Cuts) -> NumberColumn:
    numbers, readable = numbers_of(series)
    if not readable.all():
        raise DeclarationError(f"X: column {name!r}: expected numbers for its edges, got others")
    first, *inner, last = (f"{text_of(cut)}" for cut in (-np.inf, *cuts, np.inf))
    bounds = [(first, inner[0]), *pairwise(inner), (inner[-1], last)]
    levels = [f"[{low}, {high})" for low, high in bounds]
    levels[0] = "(" + levels[0][1:]
    return NumberColumn(_column(name, levels, numbers, ordered=True), cuts)


def _single_numbers(name: str, series: Any, *, are_truths: bool) -> NumberColumn:
    numbers, _ = numbers_of(series)
    values = np.unique(numbers[~np.isnan(numbers)])
    if are_truths or (len(values) and set(values) <= {0.0, 1.0}):
        texts = ["False", "True"] if are_truths else ["0", "1"]
        return NumberColumn(_column(name, texts, numbers, ordered=False), (1.0,), (0.0, 1.0))
    if len(values) > MOST_NUMBERS or (np.rint(values) != values).any() or np.isinf(values).any():
        raise DeclarationError(
            f"X: column {name!r}: expected at most {MOST_NUMBERS} different whole numbers, or "
            f"cuts that are declared, as in edges={{{name!r}: [10, 20, 50]}}, got neither"
        )
    single = tuple(values.tolist())
    texts = [f"{text_of(value)}" for value in single]
    return NumberColumn(_column(name, texts, numbers, ordered=True), single[1:], single)


def _levels(name: str, series: Any) -> LevelColumn:
    places, texts = text_places(series)
    declared = getattr(series, "cat", None) is not None and series.cat.ordered
    there = texts if declared else [texts[place] for place in np.unique(places[places >= 0])]
    if UNKNOWN in there:
        raise DeclarationError(
            f"X: column {name!r}: expected texts, truth values or numbers as categories, got others"
        )
    known = [text for text in there if text is not None]
    levels = known if declared else sorted(set(known))
    if len(set(levels)) < len(levels):
        raise DeclarationError(
            f"X: column {name!r}: expected categories that differ as texts, got one twice"
        )
    missing = np.array([text is None for text in [*texts, None]])[places]
    return LevelColumn(_column(name, levels, np.where(missing, np.nan, 0.0), ordered=declared))


def _column(name: str, levels: list[str], values: Any, *, ordered: bool) -> Column:
    """With a level for missing values where there are any: NaN among ``values``."""
    if len(levels) > MOST_LEVELS:
        raise DeclarationError(
            f"X: column {name!r}: expected at most {MOST_LEVELS} different levels, got more"
        )
    if not np.isnan(values).any():
        return Column(name, tuple(levels), ordered)
    missing = "missing"
    while missing in levels:
        missing = f"({missing})"
    return Column(name, (*levels, missing), ordered, missing=len(levels))
