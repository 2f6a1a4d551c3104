"""The labels of a selector's rows, of any type, as codes. Labels of rows live here."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.frames import UNKNOWN, frame_kind, text_of

MOST_LEVELS = 1000
"""Most levels of a column, and most labels: each level is a bit of every row."""

_OTHER_TYPE = (
    "y: the labels must be texts, numbers or truth values, but one has another type: convert them"
)

_NO_UTF8 = "y: the labels must be texts that UTF-8 can encode, but one is not: replace it"


@dataclass(frozen=True, eq=False)
class LabelValues:
    """The labels of all rows, as codes and values.

    codes    (n,) positions in ``values``
    values   a pandas index of the different labels, ascending
    name     name of the series of labels if it is a text, else None
    """

    codes: IntArray
    values: Any
    name: str | None

    @property
    def texts(self) -> tuple[str, ...]:
        """The different labels as texts, in the order of ``values``."""
        return tuple(map(str, self.values))

    def series(self, codes: IntArray) -> Any:
        """Return the labels that codes stand for as a series, in the type of ``y``, without unused
        categories."""
        import pandas as pd

        series = pd.Series(self.values.take(codes))
        is_category = isinstance(series.dtype, pd.CategoricalDtype)
        return series.cat.remove_unused_categories() if is_category else series


def labels_of(y: Any, *, rows: int) -> LabelValues:
    """Return the labels of all rows as codes and values, by position, whatever the index of y.

    DeclarationError for labels that are missing or empty texts, for numbers that are no integers,
    for more than ``MOST_LEVELS`` different labels, and unless there are ``rows`` of them. Labels
    that read the same, as 1 and "1" or "ill" and "ill ", are refused: a reader of the release sees
    one label where the promise counted two.
    """
    import pandas as pd

    series = _series(y)
    if len(series) != rows:
        raise DeclarationError(
            "y: each row of X must have one label, but there are "
            f"{'more' if len(series) > rows else 'fewer'} labels than rows: pass those of X"
        )
    try:
        codes, different = pd.factorize(series)
        values = pd.Index(different)
        "".join(str(label) for label in values if isinstance(label, str)).encode()
        label_texts = [_label_text(label) for label in values]
        has_fractions = any(
            isinstance(label, Real)
            and not isinstance(label, Integral)
            and not float(label).is_integer()
            for label in values
        )
        keys = [] if has_fractions else [_sort_key(label) for label in values]
    except UnicodeError:
        raise DeclarationError(_NO_UTF8) from None
    except Exception:  # noqa: BLE001 - a label may be of any class, with methods that raise
        raise DeclarationError(_OTHER_TYPE) from None
    # As a label of its own, what is not known would pass for another label beside one that is.
    faults = [
        ((codes < 0).any(), "each row must have a label, but some are missing: leave them out"),
        (
            has_fractions,
            "the labels must be classes, but some numbers are not whole: group them into classes",
        ),
        (
            len(values) > MOST_LEVELS,
            f"there may be at most {MOST_LEVELS} different labels, but there are more: group them "
            "into classes",
        ),
        (
            "" in label_texts,
            "each row must have a label, but some are empty texts or spaces: leave them out",
        ),
        (
            len(set(label_texts)) < len(label_texts),
            "the labels must differ as texts without spaces around them, but two are equal: rename "
            "one of them",
        ),
    ]
    for is_wrong, fault in faults:
        if is_wrong:
            raise DeclarationError(f"y: {fault}")
    order = sorted(range(len(values)), key=keys.__getitem__)
    ordered_codes = np.argsort(order)[codes] if order else codes
    name = series.name if isinstance(series.name, str) else None
    return LabelValues(ordered_codes.astype(np.int64), values.take(order), name)


def _series(y: Any) -> Any:
    import pandas as pd
    from sklearn.utils import column_or_1d

    if y is None:
        raise DeclarationError(
            "y: each row must have a label: KAnonymousSelector requires y to be passed, but the "
            "target y is None: pass the labels of X"
        )
    if frame_kind(y) == "pandas" and hasattr(y, "__arrow_c_stream__") and hasattr(y, "to_pandas"):
        # A column of Arrow or polars: by itself it would be an array without its name.
        y = y.to_pandas()
    try:
        series = y if isinstance(y, pd.Series) else pd.Series(column_or_1d(y, warn=True))
    except UnicodeError:
        raise DeclarationError(_NO_UTF8) from None
    except (OverflowError, pd.errors.OutOfBoundsDatetime, pd.errors.OutOfBoundsTimedelta):
        raise DeclarationError(_OTHER_TYPE) from None
    except ValueError as error:
        # What it says of complex numbers goes on with the values.
        raise DeclarationError(f"y: {str(error).splitlines()[0]}") from None
    # In the order of bytes that pandas counts with.
    dtype: Any = series.dtype
    return series.astype(dtype.newbyteorder("=")) if isinstance(dtype, np.dtype) else series


def _label_text(label: object) -> str:
    text = text_of(label)
    return str(label).strip() if text is None or text == UNKNOWN else text


def _sort_key(label: object) -> tuple[bool, int, str]:
    is_number = isinstance(label, Real)
    return not is_number, int(label) if is_number else 0, str(label)  # type: ignore[call-overload]
