"""How values become levels that bits ask about: learned from rows, so as sensitive as they are.

The ``edges`` of a selector as a user writes them → the cuts of its columns. All of it public,
unless nobody writes any: then round quantiles of rows are proposed, for benchmarks.

The labels ``y`` of rows, of any type → codes, and the labels themselves. Rows live here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.method import Bit
from dp_pipeline.anonymity.partition import Column
from dp_pipeline.estimators.frames import (
    UNKNOWN,
    Features,
    frame_kind,
    is_whole_label,
    kind_of,
    numbers_of,
    text_of,
    text_places,
)
from dp_pipeline.estimators.parameters import ascending
from dp_pipeline.spec.encoding import IntArray
from dp_pipeline.spec.errors import DeclarationError

Cuts = tuple[float, ...]


def declared_edges(edges: Any, names: Sequence[Any]) -> tuple[Mapping[int, Cuts], Cuts | None]:
    """Place of a column → its cuts, and the cuts of every column of numbers.

    edges   None, one list of ascending numbers for all, or a mapping from names, or places, of
            columns to one each
    names   of the columns of X: texts, or the whole numbers that a frame calls them

    DeclarationError for another form and for a column that X has not.
    """
    if edges is None:
        return {}, None
    if not isinstance(edges, Mapping):
        return {}, _cuts(edges)
    return {_place(column, names): _cuts(cuts) for column, cuts in edges.items()}, None


def _place(column: object, names: Sequence[Any]) -> int:
    is_whole = is_whole_label(column)
    if column in names and (is_whole or isinstance(column, str)):
        return names.index(column)
    # A number that a frame calls its columns is no place.
    place = int(column) if is_whole and not any(map(is_whole_label, names)) else -1  # type: ignore[call-overload]
    if 0 <= place < len(names):
        return place
    raise DeclarationError(f"edges: expected names or places of columns of X, got {column!r:.60}")


def _cuts(values: Any) -> Cuts:
    cuts = ascending(values, at_least=1)
    if cuts is None:
        raise DeclarationError(f"edges: expected lists of ascending numbers, got {values!r:.60}")
    return cuts


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
        """The codes of a column of any type; what was never seen is not known."""

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


_PARTS = 8
"""Quantiles cut a column in so many parts."""


def proposed_cuts(numbers: Any) -> Cuts:
    """Round numbers near the quantiles of some numbers (n,): cuts that rows propose.

    Eighths, rounded to a tenth or a hundredth of the range of nine tenths of the numbers, so that
    few digits of any row are in them. They are learned from rows all the same.

    >>> proposed_cuts(np.arange(0, 80.25, 0.25))
    (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0)
    """
    there = numbers[np.isfinite(numbers)]
    if not len(there):
        return (0.0,)
    low, high = float(there.min()), float(there.max())
    quantiles = np.quantile(there, np.arange(1, _PARTS) / _PARTS)
    inner = np.quantile(there, [0.05, 0.95])
    spread = float(inner[1] - inner[0]) or high - low
    rounded = np.unique(np.round(quantiles, _decimals(spread)))
    cuts = rounded[(rounded > low) & (rounded <= high)]
    return tuple(cuts.tolist()) if len(cuts) else (_middle(low, high),)


def _middle(low: float, high: float) -> float:
    """A round number above the one and not above the other, where there is one."""
    middle = low + (high - low) / 2
    rounded = round(middle, _decimals(high - low))
    return rounded if low < rounded <= high else middle


def _decimals(spread: float) -> int:
    """Of a tenth to a hundredth of a range."""
    return 1 - math.floor(math.log10(spread)) if 0 < spread < math.inf else 0


def learned_columns(
    features: Features, edges: Any
) -> tuple[tuple[SelectorColumn, ...], dict[str, Cuts]]:
    """The rules for the columns of rows that are fitted, and the cuts that had to be proposed.

    edges   as declared; None: cuts of numbers that need some are proposed

    DeclarationError, one for all columns, for numbers that need cuts where some are declared but
    not theirs, and for values that are no levels.
    """
    of_place, of_all = declared_edges(edges, features.keys)
    names, columns = features.names, features.columns
    found, wrong, proposed = list[SelectorColumn](), list[str](), dict[str, Cuts]()
    for at, (name, series) in enumerate(zip(names, columns, strict=True)):
        cuts = of_place.get(at)
        try:
            if edges is None and _needs_cuts(series):
                cuts = proposed[name] = proposed_cuts(numbers_of(series)[0])
            found.append(learned_column(name, series, cuts=cuts, cuts_of_numbers=of_all))
        except DeclarationError as error:
            wrong.append(str(error))
    if wrong:
        # One column alone says it in its own words.
        first, *others = wrong
        more = [text.removeprefix("X: ") for text in others]
        raise DeclarationError("; ".join([first, *more]))
    return tuple(found), proposed


def learned_column(
    name: str, series: Any, *, cuts: Cuts | None, cuts_of_numbers: Cuts | None
) -> SelectorColumn:
    """The rule for a column of rows that are fitted; ``KAnonymousSelector`` says which.

    cuts              of this column, or None
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


def _needs_cuts(series: Any) -> bool:
    """Whether the values are numbers, and too many or too fine for levels of their own."""
    if kind_of(series) != "numbers":
        return False
    numbers, _ = numbers_of(series)
    return not _are_levels(np.unique(numbers[~np.isnan(numbers)]))


def _are_levels(values: NDArray[np.float64]) -> bool:
    """Whether different numbers (m,) are few, and whole."""
    is_whole = bool((np.rint(values) == values).all() and np.isfinite(values).all())
    return len(values) <= MOST_NUMBERS and is_whole


def _single_numbers(name: str, series: Any, *, are_truths: bool) -> NumberColumn:
    numbers, _ = numbers_of(series)
    values = np.unique(numbers[~np.isnan(numbers)])
    if are_truths or (len(values) and set(values) <= {0.0, 1.0}):
        texts = ["False", "True"] if are_truths else ["0", "1"]
        return NumberColumn(_column(name, texts, numbers, ordered=False), (1.0,), (0.0, 1.0))
    if not _are_levels(values):
        raise DeclarationError(
            f"X: column {name!r}: expected at most {MOST_NUMBERS} different whole numbers, or "
            f"cuts that are declared, as in edges={{{name!r}: [10, 20, 50]}}, got neither"
        )
    single = tuple(values.tolist())
    texts = [f"{text_of(value)}" for value in single]
    return NumberColumn(_column(name, texts, numbers, ordered=True), single[1:], single)


def _levels(name: str, series: Any) -> LevelColumn:
    places, texts = text_places(series)
    declared = series.dtype.name == "category" and series.cat.ordered
    there = texts
    if declared:
        of_category, texts_of_categories = text_places(series.cat.categories)
        there = [texts_of_categories[place] for place in of_category]
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


@dataclass(frozen=True, eq=False)
class LabelValues:
    """What every row is labelled.

    codes    (n,) places in ``values``
    values   a pandas index of the different labels, ascending
    name     of the series that they came in, where it is a text
    """

    codes: IntArray
    values: Any
    name: str | None

    @property
    def texts(self) -> tuple[str, ...]:
        """One a label."""
        return tuple(map(str, self.values))

    def series(self, codes: IntArray) -> Any:
        """The labels of some codes, of the type that ``y`` has; of categories, those there are."""
        import pandas as pd

        series = pd.Series(self.values.take(codes))
        is_category = isinstance(series.dtype, pd.CategoricalDtype)
        return series.cat.remove_unused_categories() if is_category else series


def labels_of(y: Any, *, rows: int) -> LabelValues:
    """Labels by position, one a row, without a look at an index.

    DeclarationError, which is a ValueError at the estimator, unless each is a whole number, a
    truth value, or of a class whose values can be compared, and for a missing one, an empty text
    too. Labels that read the same, as 1 and "1" or "ill" and "ill ", are refused: whoever reads
    the release sees one label where the promise has counted two.
    """
    import pandas as pd

    series = _series(y)
    if len(series) != rows:
        raise DeclarationError("y: expected one label a row of X, got another number of them")
    try:
        found, different = pd.factorize(series)
        values = pd.Index(different)
        read, has_fractions = [_read(label) for label in values], any(map(_has_fraction, values))
        keys = [] if has_fractions else [_sort_key(label) for label in values]
    except Exception:  # noqa: BLE001 - a label may be of any class, with methods that raise
        raise DeclarationError("y: expected texts, numbers or truth values, got others") from None
    # As a label of its own, what is not known would pass for another label beside one that is.
    if (found < 0).any():
        raise DeclarationError("y: expected a label of every row, got missing ones")
    if has_fractions:
        raise DeclarationError("y: expected labels of classes, got numbers with fractions")
    if len(values) > MOST_LEVELS:
        raise DeclarationError(f"y: expected at most {MOST_LEVELS} different labels, got more")
    if "" in read:
        raise DeclarationError("y: expected a label of every row, got empty ones")
    if len(set(read)) < len(read):
        raise DeclarationError("y: expected labels that differ as texts, got two that do not")
    order = sorted(range(len(values)), key=keys.__getitem__)
    codes = np.argsort(order)[found] if order else found
    name = series.name if isinstance(series.name, str) else None
    return LabelValues(codes.astype(np.int64), values.take(order), name)


def _series(y: Any) -> Any:
    import pandas as pd
    from sklearn.utils import column_or_1d

    if y is None:
        raise DeclarationError(
            "y: expected a label of every row: a fit requires y to be passed, "
            "but the target y is None"
        )
    if frame_kind(y) == "pandas" and hasattr(y, "__arrow_c_stream__") and hasattr(y, "to_pandas"):
        # A column of Arrow or polars: by itself it would be an array without its name.
        y = y.to_pandas()
    try:
        series = y if isinstance(y, pd.Series) else pd.Series(column_or_1d(y, warn=True))
    except UnicodeError:
        raise DeclarationError("y: expected texts that can be encoded, got others") from None
    except ValueError as error:
        # What it says of complex numbers goes on with the values.
        raise DeclarationError(f"y: {str(error).splitlines()[0]}") from None
    # In the order of bytes that pandas counts with.
    dtype: Any = series.dtype
    return series.astype(dtype.newbyteorder("=")) if isinstance(dtype, np.dtype) else series


def _read(label: object) -> str:
    """What a person sees of a label."""
    text = text_of(label)
    return str(label).strip() if text is None or text == UNKNOWN else text


def _has_fraction(label: object) -> bool:
    is_whole = isinstance(label, Integral) or not isinstance(label, Real)
    return not is_whole and not float(label).is_integer()  # type: ignore[arg-type]


def _sort_key(label: object) -> tuple[bool, int, str]:
    """Numbers come first, whole ones all of them."""
    is_number = isinstance(label, Real)
    return not is_number, int(label) if is_number else 0, str(label)  # type: ignore[call-overload]
