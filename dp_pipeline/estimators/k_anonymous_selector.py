"""KAnonymousSelector: columns under which rows are k-anonymous, with scikit-learn's manners.

The name of a method, or a method → one that keeps some bits; nothing here sees a row.

BitSelection: which bits a method keeps of some rows, and what a release with them looks like.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import compress
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dp_pipeline.anonymity import METHODS
from dp_pipeline.anonymity.method import Bit, BitRecoding, Method, Selecting, sensitive_diversity
from dp_pipeline.anonymity.partition import KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.rows import CodedRows
from dp_pipeline.estimators.fit import InvalidParameter, invalid_parameters
from dp_pipeline.estimators.frames import Features, features_of, whole_number
from dp_pipeline.estimators.selector_columns import (
    LabelValues,
    SelectorColumn,
    answers,
    declared_edges,
    labels_of,
    learned_column,
)
from dp_pipeline.metrics.disclosure import DisclosureReport, disclosure_report
from dp_pipeline.spec.errors import DeclarationError


def bit_method(method: object) -> Selecting:
    """The method that a selector is told to use.

    DeclarationError for what is none, and for methods whose releases are boxes.
    """
    by_name = {name: made for name, made in METHODS.items() if hasattr(made, "bits")}
    if isinstance(method, tuple(by_name.values())):
        return method  # type: ignore[return-value]
    if isinstance(method, str) and method in by_name:
        return by_name[method]()  # type: ignore[return-value]
    expected = f"method: expected one of {', '.join(by_name)}, or such a method with parameters"
    if _makes_boxes(method):
        raise DeclarationError(
            f"{expected}, got one that makes boxes and selects no columns: "
            "`dp-pipeline anonymize` releases it"
        )
    raise DeclarationError(f"{expected}, got {method!r:.60}")


def _makes_boxes(method: object) -> bool:
    if isinstance(method, str):
        return method in METHODS
    return hasattr(method, "recode") and not isinstance(method, type)


@dataclass(frozen=True, eq=False)
class BitSelection:
    """The result of a method.

    bits         all that could have been kept
    support      (bits,) which of them are
    suppressed   (n,) rows that are left out of the release
    release      the others with kept bits in the order of ``bits``, sorted. Rows live here
    report       of the release
    """

    bits: tuple[Bit, ...]
    support: NDArray[np.bool_]
    suppressed: NDArray[np.bool_]
    release: CodedRows
    report: DisclosureReport

    @classmethod
    def of(
        cls, rows: CodedRows, method: Selecting, promise: KAnonymityGuarantee, *, seed: int
    ) -> BitSelection:
        """Run a method; DeclarationError where not even one class of all rows is possible."""
        try:
            anonymized = method.recode(rows, promise, seed=seed)
        except TooFewRows as error:
            raise DeclarationError(str(error)) from None
        bits, chosen = method.bits(rows.columns), set(_bits_of(anonymized.recoding))
        support = np.array([bit in chosen for bit in bits], dtype=np.bool_)
        release = anonymized.release(rows)
        report = disclosure_report(
            release.codes, release.target, labels=len(rows.target_levels), k=promise.k
        )
        return cls(bits, support, anonymized.suppressed, release, report)


def _bits_of(recoding: Any) -> tuple[Bit, ...]:
    assert isinstance(recoding, BitRecoding)
    return recoding.bits


class KAnonymousSelector(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns of 0 and 1 under which every fitted row is like at least k − 1 others, chosen so
    that they tell much about the label.

    **Not differentially private.** Which columns are kept is found by looking at the rows
    exactly, and depends on single ones. What is promised is syntactic, of ``fit_release`` and of
    nothing else: every equivalence class, the rows that are equal in all kept columns, has at
    least ``k`` rows, and ``diversity`` different labels. What is not promised:

    * that nobody learns a label: with ``diversity=1`` all rows of a class may have the same one;
      with more, one label may still be that of nearly all of them;
    * anything about two releases together, of the same rows or of some of them;
    * anything about columns that stay beside the release, or that are put back next to it;
    * anything about the classes of new rows: ``transform`` recodes each row by itself. It also
      recodes fitted rows that a release leaves out.

    A fitted selector has levels of all rows in ``candidate_names_``, and so has its pickle: they
    are as sensitive as the rows, and so are ``report_`` and ``suppressed_``.

    Parameters
    ----------
    k : int, default=5
        Rows that every class has at least; 0 and 1 promise nothing.
    method : str or method, default="kjig"
        A method of ``dp_pipeline.anonymity`` that keeps some bits: kjig, rfka, hamdist_backward,
        hamdist_forward, hamdist_ratio, mutual_information, impurity; or one with parameters,
        such as ``Rfka(trees=100)``. Methods that make boxes select no columns and are refused.
    diversity : int, default=None
        Different labels that every class has at least. None is 2 for kjig where k > 1, since
        the label is taken as sensitive, and 1 for the methods of the papers.
    suppress : float or Fraction, default=0.0
        Most rows that a release may leave out to keep the promise, as a share below 1.
    edges : list of numbers, or mapping of column names or places to lists, default=None
        Where numbers are cut: ascending numbers that were known before. ``{"age": [40, 60]}``
        makes three intervals, below 40, from 40 and from 60. One list holds for all columns of
        numbers.
    random_state : int, RandomState or None, default=None
        Seed of methods that draw, rfka and impurity. It protects nobody.

    Attributes
    ----------
    candidate_names_ : ndarray of shape (bits,)
        Names of all bits that could have been kept, such as ``age>=40`` and ``sex=f``.
    report_ : DisclosureReport
        What was measured of the fitted rows as they would be released.
    suppressed_ : ndarray of shape (n,)
        Which of the fitted rows a release leaves out.
    n_features_in_ : int
        Number of columns d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the columns, where ``X`` has names that are all text.

    Notes
    -----
    Columns become levels, and levels bits: a threshold of ordered levels or one level with kjig,
    one level with the other methods.

    * Truth values, and numbers that are all 0 or 1: two levels.
    * A column with ``edges``: ordered intervals.
    * Other numbers: ordered levels where they are whole and at most 64 different ones. The rest
      is refused: thresholds learned from rows would publish values of theirs. Declare ``edges``,
      or make intervals with ``pandas.cut``. So are dates.
    * Categories that are ordered, intervals too: ordered levels, all that the type declares.
    * Texts and other categories: the levels that fitted rows have, at most 1000. A value is
      looked up as text, without spaces around it. In an array of objects a column is what its
      values are: truth values, numbers, or texts where one is a text.
    * A missing value (NaN, None, NaT, NA) is a level of its own in every column.

    In new rows, a value that was never seen has no level: all bits of its column are 0. A number
    is compared as a number all the same, so thresholds hold for it.

    Rows go by position: an index of ``X`` or ``y`` changes nothing, and is not compared. Without
    columns, or where no bit is kept, all rows are one class and there is nothing but the
    label to release; the latter warns. A label of one value is refused where ``diversity`` is 2
    or more.

    Examples
    --------
    >>> import pandas as pd
    >>> from dp_pipeline.estimators import KAnonymousSelector
    >>> people = pd.DataFrame({"age": [31, 33, 35, 52, 54, 58], "sex": list("ffmfmm")})
    >>> ill = pd.Series([0, 0, 1, 1, 1, 0], name="ill")
    >>> selector = KAnonymousSelector(k=3, edges={"age": [40]}).fit(people, ill)
    >>> selector.candidate_names_.tolist(), selector.get_support().tolist()
    (['age>=40', 'sex=m'], [True, False])
    >>> selector.report_.k, selector.report_.distinct_l
    (3, 2)
    >>> selector.fit_release(people, ill).values.tolist()
    [[0, 0], [0, 0], [0, 1], [1, 0], [1, 1], [1, 1]]
    """

    def __init__(
        self,
        k: int = 5,
        *,
        method: Any = "kjig",
        diversity: int | None = None,
        suppress: Any = 0.0,
        edges: Any = None,
        random_state: Any = None,
    ) -> None:
        self.k = k
        self.method = method
        self.diversity = diversity
        self.suppress = suppress
        self.edges = edges
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> KAnonymousSelector:
        """Choose columns of the rows of X, (n, d), for the labels y, (n,).

        X   pandas frame, array or nested lists, with n ≥ 1 and d ≥ 0
        y   labels of any type, at most 1000 different ones, none missing; by position

        Raises InvalidParameter, a ValueError, for parameters, for values that are no levels, and
        where even one class of all rows would break the promise (fewer than k rows, fewer than
        ``diversity`` labels): then nothing is fitted. No error shows a value of a row.
        """
        self._fitted(X, y)
        return self

    def fit_release(self, X: Any, y: Any) -> Any:
        """Fit, and give the k-anonymous table: a pandas frame of kept columns, with the label
        last, under its own name where ``y`` is a series that has one, else ``label``.

        Rows that break the promise are left out; the others are sorted by what they hold and
        numbered anew, so that neither order nor index links them to other tables.
        """
        import pandas as pd

        release, labels = self._fitted(X, y)
        names = self.get_feature_names_out().tolist()
        frame = pd.DataFrame(release.codes.astype(np.int8), columns=names)
        label = labels.name or "label"
        if label in names:
            raise InvalidParameter(f"y: expected a name that is none of a bit, got {label!r:.60}")
        frame[label] = labels.series(release.target)
        return frame

    def transform(self, X: Any) -> Any:
        """Kept columns of every row of X, (n, kept), 0 or 1: a frame with the index of X for a
        frame, else an array. It leaves no row out.
        """
        check_is_fitted(self)
        with invalid_parameters():
            features = features_of(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        both = zip(self._columns, features.columns, strict=True)
        coded = [column.coded(series) for column, series in both]
        bits = answers(self._columns, coded, self._kept, rows=features.rows)
        if features.index is None:
            return bits
        import pandas as pd

        return pd.DataFrame(bits, index=features.index, columns=self.get_feature_names_out())

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Which of ``candidate_names_`` are kept (bits,), or the places of those that are."""
        check_is_fitted(self)
        return np.flatnonzero(self._support) if indices else self._support.copy()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the kept columns (kept,), in the order of ``candidate_names_``."""
        check_is_fitted(self)
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return _names_of(self._kept, self._columns, names)

    def _fitted(self, X: Any, y: Any) -> tuple[CodedRows, LabelValues]:
        """Everything is found before anything is set: an error leaves the estimator as it was."""
        with invalid_parameters():
            method = bit_method(self.method)
            promise, seed = self._promise(method), _seed(self.random_state)
            features = features_of(X)
            labels = labels_of(y, rows=features.rows)
            columns = self._learned(features)
            rows = _coded_rows(columns, features, labels)
            selection = BitSelection.of(rows, method, promise, seed=seed)
            names = _names_of(selection.bits, columns, features.names)
            if len(set(names)) < len(names):
                raise DeclarationError(
                    "X: expected columns whose names with a level differ, got two that do not"
                )
        self._keep(X, y, selection, columns)
        self.candidate_names_ = names
        if len(names) and not selection.support.any():
            warnings.warn("no column is kept: all rows are one class", stacklevel=3)
        return selection.release, labels

    def _keep(
        self, X: Any, y: Any, selection: BitSelection, columns: tuple[SelectorColumn, ...]
    ) -> None:
        validate_data(self, X, y, skip_check_array=True)
        self._columns, self._support = columns, selection.support
        self._kept = tuple(compress(selection.bits, selection.support))
        self.report_, self.suppressed_ = selection.report, selection.suppressed

    def _promise(self, method: Method) -> KAnonymityGuarantee:
        k = whole_number(self.k, of="k", least=0)
        diversity = sensitive_diversity(method, k=k)
        if self.diversity is not None:
            diversity = whole_number(self.diversity, of="diversity", least=1)
        return KAnonymityGuarantee(k, diversity, _share(self.suppress))

    def _learned(self, features: Features) -> tuple[SelectorColumn, ...]:
        of_place, of_all = declared_edges(self.edges, features.names)
        if not features.rows:
            raise DeclarationError("X: expected at least one row, got none")
        return tuple(
            learned_column(name, series, cuts=of_place.get(at), cuts_of_numbers=of_all)
            for at, (name, series) in enumerate(zip(features.names, features.columns, strict=True))
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _coded_rows(
    columns: Sequence[SelectorColumn], features: Features, labels: LabelValues
) -> CodedRows:
    codes = np.empty((features.rows, len(columns)), dtype=np.int16)
    for at, (column, series) in enumerate(zip(columns, features.columns, strict=True)):
        codes[:, at] = column.coded(series).codes
    declared = tuple(column.column for column in columns)
    return CodedRows(declared, codes, labels.codes, labels.texts)


def _names_of(
    bits: Sequence[Bit], columns: Sequence[SelectorColumn], names: Sequence[str]
) -> NDArray[np.object_]:
    texts = [f"{names[bit.column]}{columns[bit.column].asked(bit)}" for bit in bits]
    return np.array(texts, dtype=object)


def _share(value: Any) -> Any:
    """Exact: a float is taken by its shortest decimal text."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) < 1:
        raise DeclarationError(f"suppress: expected a share from 0 to below 1, got {value!r:.60}")
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))


def _seed(random_state: Any) -> int:
    """A whole number is the seed itself."""
    drawn = check_random_state(random_state)
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(drawn.randint(0, 2**31 - 1))
