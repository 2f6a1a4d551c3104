"""The labels ``y`` of rows, of any type → codes, and the labels themselves. Rows live here."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from dp_pipeline.estimators.selector_columns import MOST_LEVELS
from dp_pipeline.estimators.value_text import UNKNOWN, text_of
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import DeclarationError


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
    except TypeError:
        raise DeclarationError("y: expected texts, numbers or truth values, got others") from None
    # As a label of its own, what is not known would pass for another label beside one that is.
    if (found < 0).any():
        raise DeclarationError("y: expected a label of every row, got missing ones")
    values = pd.Index(different)
    if any(_has_fraction(label) for label in values):
        raise DeclarationError("y: expected labels of classes, got numbers with fractions")
    if len(values) > MOST_LEVELS:
        raise DeclarationError(f"y: expected at most {MOST_LEVELS} different labels, got more")
    read = [_read(label) for label in values]
    if "" in read:
        raise DeclarationError("y: expected a label of every row, got empty ones")
    if len(set(read)) < len(read):
        raise DeclarationError("y: expected labels that differ as texts, got two that do not")
    order = sorted(range(len(values)), key=lambda place: _sort_key(values[place]))
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
    if isinstance(y, pd.Series):
        return y
    try:
        return pd.Series(column_or_1d(y, warn=True))
    except UnicodeError:
        raise DeclarationError("y: expected texts that can be encoded, got others") from None
    except ValueError as error:
        # What it says of complex numbers goes on with the values.
        raise DeclarationError(f"y: {str(error).splitlines()[0]}") from None


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
