"""How values become levels that bits ask about, and what a method makes of them: learned from rows,
so as sensitive as they are. The labels of rows, of any type, are codes here, too. Rows live here.

The ``edges`` of a selector as a user writes them → the cuts of its columns. All of it public,
unless nobody writes any: then round quantiles of rows are proposed, for benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.anonymity.method import (
    Bit,
    BitRule,
    Method,
    RowRule,
    Unchanged,
    cumulative_bits,
)
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import INVALID, IntArray, Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.frames import (
    UNKNOWN,
    Features,
    frame_kind,
    is_whole_label,
    kind_of,
    numbers_of,
    stored,
    text_of,
)
from dp_pipeline.raw.values import level_codes, texts

Cuts = tuple[float, ...]

MOST_NUMBERS = 64
"""Different whole numbers of a column that are levels without further ado."""
MOST_LEVELS = 1000
"""Of any column, and of the label: each level is a bit of every row."""
_PARTS = 8
"""Quantiles cut a column in so many parts."""


@dataclass(frozen=True)
class SelectorColumn:
    """A rule from the values of one column to its levels.

    cuts     ascending: the code of a number is how many of them it reaches; None: values are
             looked up as texts
    values   the numbers that are the levels, where a level is one number; None for intervals
    """

    column: Column
    cuts: Cuts | None = None
    values: Cuts | None = None

    def coded(self, series: Any) -> tuple[IntArray, NDArray[np.bool_]]:
        """Codes (n,) of a column of any type, and whether each is the level of its value: what was
        never seen has code 0, a number beside the levels that of the next one below.
        """
        name, missing = self.column.name, self.column.missing
        if self.cuts is None:
            levels = Levels(self.column.levels[: self.column.values])
            attribute = Attribute(name, name, "drop", cells=levels, nullable=missing is not None)
            codes = level_codes(attribute, stored(series))
            return np.maximum(codes, 0), codes != INVALID
        numbers, readable = numbers_of(series)
        absent = np.isnan(numbers)
        codes = np.searchsorted(np.asarray(self.cuts), numbers, side="right").astype(np.int64)
        codes[absent] = 0
        known = ~absent if self.values is None else np.isin(numbers, self.values)
        if missing is not None:
            codes[absent & readable] = missing
            known |= absent & readable
        return codes, known

    def asked(self, bit: Bit) -> str:
        """What a bit asks, as it stands behind the name of the column."""
        if bit.asks == "is" or self.cuts is None:
            return f"{'=' if bit.asks == 'is' else '>='}{self.column.levels[bit.code]}"
        return f">={text_of(self.cuts[bit.code - 1])}"


@dataclass(frozen=True, eq=False)
class FittedRecoding:
    """A rule from rows of any type to what classifiers see of them. No row lives here.

    columns   how values become levels
    bits      all that could have been kept, or that boxes could tell of
    support   (bits,) which of them are kept; of boxes, those that are not as likely in each
    """

    columns: tuple[SelectorColumn, ...]
    recoding: RowRule
    bits: tuple[Bit, ...]
    support: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        columns: tuple[SelectorColumn, ...],
        recoding: RowRule,
        method: Method,
        rows: CodedRows,
    ) -> FittedRecoding:
        """What a method has made of some rows."""
        asked = getattr(method, "bits", cumulative_bits)
        bits = tuple(asked(rows.columns))
        if not isinstance(recoding, BitRule):
            return cls(columns, recoding, bits, _told(recoding, bits, rows))
        chosen = set(recoding.bits)
        support = np.array([bit in chosen for bit in bits], dtype=np.bool_)
        return cls(columns, recoding, bits, support)

    @property
    def kept(self) -> tuple[Bit, ...]:
        """The bits that are kept, or told of."""
        return tuple(compress(self.bits, self.support))

    @property
    def keeps_bits(self) -> bool:
        """Whether columns of 0 and 1 are released, in place of boxes."""
        return isinstance(self.recoding, BitRule)

    def names(self, bits: Sequence[Bit], names: Sequence[str]) -> NDArray[np.object_]:
        """What some bits are called, where the columns have these names."""
        called = [f"{names[bit.column]}{self.columns[bit.column].asked(bit)}" for bit in bits]
        return np.array(called, dtype=object)

    def seen(self, features: Features) -> NDArray[Any]:
        """What is seen of every row (n, kept): 0 or 1, or how likely each bit is in its box."""
        both = zip(self.columns, features.columns, strict=True)
        coded = [column.coded(series) for column, series in both]
        codes = _stacked([one for one, _ in coded], rows=features.rows)
        declared = tuple(column.column for column in self.columns)
        if not self.keeps_bits:
            nobody = np.zeros(features.rows, dtype=np.int64)
            rows = CodedRows(declared, codes, nobody, ("",))
            return self.recoding.features(rows)[:, self.support]
        matrix = np.empty((features.rows, len(self.kept)), dtype=np.int8)
        for at, bit in enumerate(self.kept):
            said = bit.answers(codes, declared)
            matrix[:, at] = said & coded[bit.column][1] if bit.asks == "is" else said
        return matrix


def _told(recoding: RowRule, bits: Sequence[Bit], rows: CodedRows) -> NDArray[np.bool_]:
    if isinstance(recoding, Unchanged) or not len(rows):
        return np.ones(len(bits), dtype=np.bool_)
    features = recoding.features(rows)
    return np.asarray(features.max(axis=0) > features.min(axis=0))


def _stacked(codes: Sequence[IntArray], *, rows: int) -> NDArray[np.int16]:
    """Columns of codes, side by side (rows, columns)."""
    table = np.empty((rows, len(codes)), dtype=np.int16)
    for at, column in enumerate(codes):
        table[:, at] = column
    return table


def coded_rows(
    columns: Sequence[SelectorColumn], features: Features, labels: LabelValues
) -> CodedRows:
    """Rows that are fitted, as codes."""
    both = zip(columns, features.columns, strict=True)
    codes = _stacked([column.coded(series)[0] for column, series in both], rows=features.rows)
    declared = tuple(column.column for column in columns)
    return CodedRows(declared, codes, labels.codes, labels.texts)


def selector_method(method: object) -> Method:
    """The method that a selector is told to use; DeclarationError for what is none."""
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]()
    if isinstance(method, tuple(METHODS.values())):
        return method  # type: ignore[return-value]
    raise DeclarationError(
        f"method: expected one of {', '.join(METHODS)}, or such a method with parameters, "
        f"got {method!r:.60}"
    )


def learned_columns(
    features: Features, edges: Any
) -> tuple[tuple[SelectorColumn, ...], dict[str, Cuts]]:
    """The rules for the columns of rows that are fitted, and the cuts that had to be proposed;
    ``KAnonymousSelector`` says which.

    edges   None: cuts of numbers that need some are proposed; or one list of ascending numbers for
            all columns of numbers, or a mapping from names or places of columns to one each

    DeclarationError, one for all columns, for numbers that need cuts where some are declared but
    not theirs, and for values that are no levels.
    """
    of_place, of_all = dict[int, Cuts](), None
    if isinstance(edges, Mapping):
        of_place = {_place(one, features.keys): _cuts(cuts) for one, cuts in edges.items()}
    elif edges is not None:
        of_all = _cuts(edges)
    found, wrong, proposed = list[SelectorColumn](), list[str](), dict[str, Cuts]()
    for at, (name, series) in enumerate(zip(features.names, features.columns, strict=True)):
        cuts, kind = of_place.get(at), kind_of(series)
        if kind == "numbers" and cuts is None:
            cuts = of_all
            if edges is None and not _are_levels(_different(series)):
                cuts = proposed[name] = proposed_cuts(numbers_of(series)[0])
        try:
            found.append(_learned(name, series, kind, cuts))
        except DeclarationError as error:
            # One column alone says it in its own words.
            wrong.append(str(error).removeprefix("X: " if wrong else ""))
    if wrong:
        raise DeclarationError("; ".join(wrong))
    return tuple(found), proposed


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
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.asarray("ragged")
    is_list = array.dtype.kind in "iuf" and array.ndim == 1 and len(array)
    cuts = tuple(array.astype(np.float64).tolist()) if is_list else (math.nan,)
    if not np.isfinite(cuts).all() or not (np.diff(cuts) > 0).all():
        raise DeclarationError(f"edges: expected lists of ascending numbers, got {values!r:.60}")
    return cuts


def _learned(name: str, series: Any, kind: str, cuts: Cuts | None) -> SelectorColumn:
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


def _cut_numbers(name: str, series: Any, cuts: Cuts) -> SelectorColumn:
    numbers, readable = numbers_of(series)
    if not readable.all():
        raise DeclarationError(f"X: column {name!r}: expected numbers for its edges, got others")
    ends = pairwise(str(text_of(cut)) for cut in (-np.inf, *cuts, np.inf))
    levels = [f"[{low}, {high})" for low, high in ends]
    levels[0] = "(" + levels[0][1:]
    return SelectorColumn(_column(name, levels, np.isnan(numbers), ordered=True), cuts)


def _different(series: Any) -> NDArray[np.float64]:
    numbers, _ = numbers_of(series)
    return np.unique(numbers[~np.isnan(numbers)])


def _are_levels(values: NDArray[np.float64]) -> bool:
    """Whether different numbers (m,) are few, and whole."""
    is_whole = bool((np.rint(values) == values).all() and np.isfinite(values).all())
    return len(values) <= MOST_NUMBERS and is_whole


def _single_numbers(name: str, series: Any, *, are_truths: bool) -> SelectorColumn:
    values, missing = _different(series), np.isnan(numbers_of(series)[0])
    if are_truths or (len(values) and set(values) <= {0.0, 1.0}):
        words = ["False", "True"] if are_truths else ["0", "1"]
        return SelectorColumn(_column(name, words, missing, ordered=False), (1.0,), (0.0, 1.0))
    if not _are_levels(values):
        raise DeclarationError(
            f"X: column {name!r}: expected at most {MOST_NUMBERS} different whole numbers, or "
            f"cuts that are declared, as in edges={{{name!r}: [10, 20, 50]}}, got neither"
        )
    single = tuple(values.tolist())
    words = [str(text_of(value)) for value in single]
    return SelectorColumn(_column(name, words, missing, ordered=True), single[1:], single)


def _levels(name: str, series: Any) -> SelectorColumn:
    places, words = texts(stored(series))
    declared = series.dtype.name == "category" and series.cat.ordered
    there = list(words)
    if declared:
        of_category, named = texts(stored(series.cat.categories))
        there = [named[place] for place in of_category]
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
    missing = np.array([*(text is None for text in words), True])[places]
    return SelectorColumn(_column(name, levels, missing, ordered=declared))


def _column(name: str, levels: list[str], missing: NDArray[np.bool_], *, ordered: bool) -> Column:
    """With a level for missing values where there are any."""
    if len(levels) > MOST_LEVELS:
        raise DeclarationError(
            f"X: column {name!r}: expected at most {MOST_LEVELS} different levels, got more"
        )
    if not missing.any():
        return Column(name, tuple(levels), ordered)
    word = "missing"
    while word in levels:
        word = f"({word})"
    return Column(name, (*levels, word), ordered, missing=len(levels))


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
    if len(cuts):
        return tuple(cuts.tolist())
    # A round number above the one end and not above the other, where there is one.
    middle = low + (high - low) / 2
    near = round(middle, _decimals(high - low))
    return (near if low < near <= high else middle,)


def _decimals(spread: float) -> int:
    """Of a tenth to a hundredth of a range."""
    return 1 - math.floor(math.log10(spread)) if 0 < spread < math.inf else 0


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
    except (OverflowError, pd.errors.OutOfBoundsDatetime, pd.errors.OutOfBoundsTimedelta):
        raise DeclarationError("y: expected texts, numbers or truth values, got others") from None
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
