"""Columns of a selector: rules from values to levels and bits, learned from rows and as sensitive.

Cuts of numbers are declared by ``edges``, and public. Without ``edges``, round quantiles of the
rows are proposed, for benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.coded_rows import CodedRows, Column
from dp_pipeline.anonymity.method import Bit, BitRule, Method, RowRule, Unchanged, cumulative_bits
from dp_pipeline.config.domain import Attribute
from dp_pipeline.config.encoding import INVALID, FloatArray, IntArray, Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.column_types import ColumnKind, kind_of_column
from dp_pipeline.estimators.frames import (
    UNKNOWN,
    Features,
    holds_objects,
    is_integer_label,
    numbers_of,
    text_of,
    to_arrow,
)
from dp_pipeline.estimators.selector_labels import MOST_LEVELS, LabelValues
from dp_pipeline.raw.values import level_codes, texts

Cuts = tuple[float, ...]

MOST_NUMBERS = 64
"""Most different integers of a column that are levels without declared edges."""
_PARTS = 8
"""Number of intervals that proposed cuts make of a column."""


@dataclass(frozen=True)
class SelectorColumn:
    """A rule from the values of one column to the codes of its levels.

    column   the column with its levels
    cuts     ascending: the code of a number is how many of them it reaches; None: values are
             looked up as texts
    values   the numbers that are the levels, where a level is one number; None for intervals and
             for texts
    """

    column: Column
    cuts: Cuts | None = None
    values: Cuts | None = None

    def encode(self, series: Any) -> tuple[IntArray, NDArray[np.bool_]]:
        """Return the codes (n,) of a column's values, and a mask (n,): False where a value is no
        level.

        A number that is no level gets the code of the next lower one, any other value code 0.
        """
        name, missing = self.column.name, self.column.missing
        if self.cuts is None:
            levels = Levels(self.column.levels[: self.column.value_count])
            attribute = Attribute(name, name, "drop", cells=levels, nullable=missing is not None)
            codes = level_codes(attribute, to_arrow(series))
            return np.maximum(codes, 0), codes != INVALID
        numbers, readable = numbers_of(series)
        absent = np.isnan(numbers)
        codes = np.searchsorted(np.asarray(self.cuts), numbers, side="right").astype(np.int64)
        codes[absent] = 0
        is_level = ~absent if self.values is None else np.isin(numbers, self.values)
        if missing is not None:
            codes[absent & readable] = missing
            is_level |= absent & readable
        return codes, is_level

    def question_text(self, bit: Bit) -> str:
        """Return the question of a bit as text that follows the column's name: ``=f``, ``>=40``."""
        if bit.asks == "is" or self.cuts is None:
            return f"{'=' if bit.asks == 'is' else '>='}{self.column.levels[bit.code]}"
        return f">={text_of(self.cuts[bit.code - 1])}"


@dataclass(frozen=True, eq=False)
class FittedRecoding:
    """A learned rule from rows of any type to kept bits or to shares of boxes; it holds no row.

    columns   the rule of each column, from values to codes of levels
    recoding  the rule from codes to bits or boxes
    bits      all bits that could have been kept, or of which boxes have a share
    support   (bits,) whether each is kept; with boxes, whether its share differs among the rows of
              the fit
    """

    columns: tuple[SelectorColumn, ...]
    recoding: RowRule
    bits: tuple[Bit, ...]
    support: NDArray[np.bool_]

    @classmethod
    def of(
        cls, columns: tuple[SelectorColumn, ...], recoding: RowRule, method: Method, rows: CodedRows
    ) -> FittedRecoding:
        """Return a rule that ``method`` learned from ``rows``, with all bits and those it keeps."""
        bits = tuple(getattr(method, "bits", cumulative_bits)(rows.columns))
        if isinstance(recoding, BitRule):
            chosen = set(recoding.bits)
            support = np.array([bit in chosen for bit in bits], dtype=np.bool_)
        elif isinstance(recoding, Unchanged) or not len(rows):
            support = np.ones(len(bits), dtype=np.bool_)
        else:
            features = recoding.features(rows)
            support = features.max(axis=0) > features.min(axis=0)
        return cls(columns, recoding, bits, support)

    @property
    def released_bits(self) -> tuple[Bit, ...]:
        return tuple(compress(self.bits, self.support))

    @property
    def keeps_bits(self) -> bool:
        """Whether columns of 0 and 1 are released, rather than boxes or the levels themselves."""
        return isinstance(self.recoding, BitRule)

    def names(self, bits: Sequence[Bit], names: Sequence[str]) -> NDArray[np.object_]:
        """Return names of bits (bits,), such as ``sex=f``, from those of all columns of X."""
        words = [names[bit.column] + self.columns[bit.column].question_text(bit) for bit in bits]
        return np.array(words, dtype=object)

    def recode(self, features: Features) -> NDArray[Any]:
        """Return the kept bits of every row (n, kept), 0 or 1; with boxes, the share of the row's
        box where each bit is true."""
        columns, codes, are_exact = _encode_columns(self.columns, features)
        if not self.keeps_bits:
            rows = CodedRows(columns, codes, np.zeros(features.rows, dtype=np.int64), ("",))
            return self.recoding.features(rows)[:, self.support]
        matrix = np.empty((features.rows, len(self.released_bits)), dtype=np.int8)
        for index, bit in enumerate(self.released_bits):
            answers = bit.answers(codes, columns)
            matrix[:, index] = answers & are_exact[bit.column] if bit.asks == "is" else answers
        return matrix


def _encode_columns(
    columns: Sequence[SelectorColumn], features: Features
) -> tuple[tuple[Column, ...], NDArray[np.int16], list[NDArray[np.bool_]]]:
    """Return the d columns with their levels, the rows' codes (n, d), and d masks (n,): False where
    a value is no level."""
    codes, are_exact = np.empty((features.rows, len(columns)), dtype=np.int16), []
    for index, (column, series) in enumerate(zip(columns, features.columns, strict=True)):
        codes[:, index], is_exact = column.encode(series)
        are_exact.append(is_exact)
    return tuple(column.column for column in columns), codes, are_exact


def encode_rows(
    columns: Sequence[SelectorColumn], features: Features, labels: LabelValues
) -> CodedRows:
    declared, codes, _ = _encode_columns(columns, features)
    return CodedRows(declared, codes, labels.codes, labels.texts)


def selector_method(method: object) -> Method:
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]()
    if isinstance(method, tuple(METHODS.values())):
        return method  # type: ignore[return-value]
    raise DeclarationError(
        f"method: expected one of {', '.join(METHODS)}, or an object of such a method, as "
        f"in method=Rfka(trees=100), got {method!r:.60}"
    )


def learn_columns(
    features: Features, edges: Any
) -> tuple[tuple[SelectorColumn, ...], dict[str, Cuts]]:
    """Return the rule of each column, and name of a column → its cuts that were learned from rows.

    edges   declared cuts: a list of ascending numbers for all columns of numbers, or a mapping from
            names or positions of columns to lists; None: cuts of numbers that need some are learned

    Raises one DeclarationError that names every column with values that are no levels, such as
    numbers without declared cuts if ``edges`` declares some.
    """
    column_cuts, shared_cuts = dict[int, Cuts](), None
    if isinstance(edges, Mapping):
        column_cuts = {_place(name, features): _cuts(cuts) for name, cuts in edges.items()}
    elif edges is not None:
        shared_cuts = _cuts(edges)
    columns, errors, proposed = list[SelectorColumn](), list[str](), dict[str, Cuts]()
    for index, (name, series) in enumerate(zip(features.names, features.columns, strict=True)):
        cuts, kind = column_cuts.get(index), _kind(series)
        if kind in ("whole", "numbers") and cuts is None:
            cuts = shared_cuts
            if edges is None and not _are_levels(_distinct(numbers := numbers_of(series)[0])):
                cuts = proposed[name] = propose_cuts(numbers)
        try:
            columns.append(_learned_column(name, series, kind, cuts))
        except DeclarationError as error:
            errors.append(str(error).removeprefix("X: " if errors else ""))
    if errors:
        raise DeclarationError("; ".join(errors))
    return tuple(columns), proposed


def _kind(series: Any) -> ColumnKind:
    """Return the kind of a column by its type; for objects by their values, numbers if all are.

    Dates, times and durations that are all missing are texts."""
    import pandas as pd

    kind = kind_of_column(series)
    if kind in ("dates", "times", "durations") and pd.isna(series).all():
        return "texts"
    are_objects = kind == "texts" and holds_objects(series.dtype)
    has_texts = not are_objects or any(isinstance(value, str) for value in series)
    return kind if has_texts or not numbers_of(series)[1].all() else "numbers"


def _place(column: object, features: Features) -> int:
    is_integer, names = is_integer_label(column), features.keys
    # Messages and features call a column without a text as name x and its place.
    for column_names in (names, features.names):
        if column in column_names and (is_integer or isinstance(column, str)):
            return column_names.index(column)
    # A number that a frame calls its columns is no place.
    place = int(column) if is_integer and not any(map(is_integer_label, names)) else -1  # type: ignore[call-overload]
    if 0 <= place < len(names):
        return place
    raise DeclarationError(
        f"edges: its keys must be names or places of columns of X, not {column!r:.60}"
    )


def _cuts(values: Any) -> Cuts:
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.asarray("ragged")
    is_list = array.dtype.kind in "iuf" and array.ndim == 1 and len(array)
    cuts = tuple(array.astype(np.float64).tolist()) if is_list else (math.nan,)
    if not np.isfinite(cuts).all() or not (np.diff(cuts) > 0).all():
        raise DeclarationError(
            f"edges: the cuts of a column must be ascending finite numbers, not {values!r:.60}"
        )
    return cuts


def _learned_column(name: str, series: Any, kind: ColumnKind, cuts: Cuts | None) -> SelectorColumn:
    if cuts is not None:
        numbers, readable = numbers_of(series)
        if not readable.all():
            raise DeclarationError(
                f"X: the column {name!r} has edges, so it must hold numbers, but it has another "
                f"type, {series.dtype.name}: convert it, or leave its edges out"
            )
        ends = pairwise(str(text_of(cut)) for cut in (-np.inf, *cuts, np.inf))
        levels = [f"[{low}, {high})" for low, high in ends]
        levels[0] = "(" + levels[0][1:]
        return SelectorColumn(_column(name, levels, np.isnan(numbers), ordered=True), cuts)
    if kind in ("dates", "times", "durations", "others"):
        # The words that scikit-learn's checks of estimators look for.
        reason = ": Complex data not supported" if series.dtype.kind == "c" else ""
        raise DeclarationError(
            f"X: the column {name!r} must hold texts, truth values, numbers or categories, but it "
            f"has another type, {series.dtype.name}{reason}: convert it"
        )
    if kind in ("truths", "whole", "numbers"):
        return _single_numbers(name, series, are_truths=kind == "truths")
    return _levels(name, series)


def _distinct(numbers: FloatArray) -> FloatArray:
    return np.unique(numbers[~np.isnan(numbers)])


def _are_levels(values: NDArray[np.float64]) -> bool:
    """Return whether distinct numbers (m,) are few integers, so that each can be a level."""
    are_integers = bool((np.rint(values) == values).all() and np.isfinite(values).all())
    return len(values) <= MOST_NUMBERS and are_integers


def _single_numbers(name: str, series: Any, *, are_truths: bool) -> SelectorColumn:
    numbers, _ = numbers_of(series)
    values, missing = _distinct(numbers), np.isnan(numbers)
    if are_truths or (len(values) and set(values) <= {0.0, 1.0}):
        words = ["False", "True"] if are_truths else ["0", "1"]
        return SelectorColumn(_column(name, words, missing, ordered=False), (1.0,), (0.0, 1.0))
    if not _are_levels(values):
        fault = "more" if len(values) > MOST_NUMBERS else "some that are not whole"
        raise DeclarationError(
            f"X: the column {name!r} may have at most {MOST_NUMBERS} different whole numbers "
            f"without declared cuts, but it has {fault}: declare some, as in "
            f"edges={{{name!r}: [10, 20, 50]}}"
        )
    single = tuple(values.tolist())
    words = [str(text_of(value)) for value in single]
    return SelectorColumn(_column(name, words, missing, ordered=True), single[1:], single)


def _levels(name: str, series: Any) -> SelectorColumn:
    places, words = texts(to_arrow(series))
    is_ordered = series.dtype.name == "category" and series.cat.ordered
    values = list(words)
    if is_ordered:
        category_places, category_words = texts(to_arrow(series.cat.categories))
        values = [category_words[place] for place in category_places]
    if UNKNOWN in values:
        raise DeclarationError(
            f"X: the values of column {name!r} must be texts, truth values or numbers, "
            "but one has another type: convert them"
        )
    known_texts = [text for text in values if text is not None]
    levels = known_texts if is_ordered else sorted(set(known_texts))
    if len(set(levels)) < len(levels):
        raise DeclarationError(
            f"X: the categories of column {name!r} must differ as texts, but two are equal: "
            "rename one of them"
        )
    missing = np.array([*(text is None for text in words), True])[places]
    return SelectorColumn(_column(name, levels, missing, ordered=is_ordered))


def _column(name: str, levels: list[str], missing: NDArray[np.bool_], *, ordered: bool) -> Column:
    """Return a column with these levels, and a last one for missing values if a row has any.

    missing   (n,) whether each row's value is missing

    DeclarationError for more than ``MOST_LEVELS`` levels.
    """
    if len(levels) > MOST_LEVELS:
        raise DeclarationError(
            f"X: the column {name!r} may have at most {MOST_LEVELS} different levels, but it has "
            "more: leave it out, or group its levels"
        )
    if not missing.any():
        return Column(name, tuple(levels), ordered)
    word = "missing"
    while word in levels:
        word = f"({word})"
    return Column(name, (*levels, word), ordered, missing=len(levels))


def propose_cuts(numbers: Any) -> Cuts:
    """Return at most seven cuts of numbers (n,): the quantiles 1/8 to 7/8, rounded so that few
    digits of any row are in them.

    They are rounded to a tenth or a hundredth of the range of the middle nine tenths of the
    numbers. Where none of them parts the numbers, the only cut is near the middle of their range;
    without a finite number it is 0. Cuts are learned from rows all the same.

    >>> propose_cuts(np.arange(0, 80.25, 0.25))
    (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0)
    """
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return (0.0,)
    low, high = float(finite.min()), float(finite.max())
    quantiles = np.quantile(finite, np.arange(1, _PARTS) / _PARTS)
    inner = np.quantile(finite, [0.05, 0.95])
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
    """Return the number of decimals at which a range of this width has 10 to 100 steps: negative
    for widths from 100 on, 0 for a width of 0 or infinity."""
    return 1 - math.floor(math.log10(spread)) if 0 < spread < math.inf else 0
