"""KAnonymousSelector: a scikit-learn transformer to columns under which rows are k-anonymous."""

from __future__ import annotations

import warnings
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dp_pipeline.anonymity.coded_rows import CodedRows, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.method import sensitive_diversity
from dp_pipeline.config.errors import DeclarationError, argument_text, require_integer
from dp_pipeline.estimators import selector_columns
from dp_pipeline.estimators.frames import features_of, plain_frame, require_columns
from dp_pipeline.estimators.parameters import InvalidParameter, invalid_parameters
from dp_pipeline.estimators.selector_labels import LabelValues, labels_of
from dp_pipeline.metrics.disclosure import disclosure_report


class KAnonymousSelector(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Selects columns of 0 and 1, or boxes, so that every fitted row is like at least k − 1 others.

    They are chosen to predict the label.

    **Not differentially private.** Which columns are kept is found by looking at the rows
    exactly, and depends on single ones. What is promised is syntactic, of ``fit_release`` and of
    nothing else: every equivalence class, the rows that are equal in all its columns, has at
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
        A method of ``dp_pipeline.anonymity``: rfka, hamdist_backward, hamdist_forward,
        hamdist_ratio, mutual_information and impurity keep bits; mondrian, tree and
        cluster_k_anonymity make boxes; kjig makes the boxes from which a classifier learns most,
        and keeps bits where k and ``diversity`` promise nothing. A method may also be given with
        parameters, such as ``Rfka(trees=100)``; ``Kjig("columns")`` always keeps bits.
    diversity : int, default=None
        Different labels that every class has at least. None is 2 for kjig where k > 1, since
        the label is taken as sensitive, and 1 for the methods of the papers.
    suppress : float or Fraction, default=0.0
        Most rows that a release may leave out to keep the promise, as a share below 1.
    edges : list of numbers, or mapping of column names or places to lists, default=None
        Where numbers are cut: ascending numbers that were known before. ``{"age": [40, 60]}``
        makes three intervals, below 40, from 40 and from 60. One list holds for all columns of
        numbers. An integer key is a position, unless it is the label of a column. None is for
        benchmarks: where numbers need cuts, rounded quantiles of the rows are proposed, with a
        warning. With a mapping, ``{}`` too, none is proposed, and a column that needs cuts but has
        none is refused.
    random_state : int, RandomState or None, default=None
        Seed of methods that draw, rfka and impurity. It protects nobody.

    Attributes
    ----------
    candidate_names_ : ndarray of shape (bits,)
        Names of all bits that could have been kept, or of which boxes have a share, such as
        ``age>=40`` and ``sex=f``.
    proposed_edges_ : dict
        Name of a column → the cuts that were learned from its rows; empty where none were.
    report_ : DisclosureReport
        Disclosure measures of the fitted rows as they would be released.
    suppressed_ : ndarray of shape (n,)
        Whether a release leaves out each of the fitted rows.
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
    * Other numbers: ordered levels where they are integers and at most 64 different ones. The rest
      need ``edges``, or intervals made with ``pandas.cut``: thresholds learned from rows disclose
      values of rows, and proposed ones their first digits. Dates are refused. One message names
      all columns that are refused.
    * Categories that are ordered, intervals too: ordered levels, all that the type declares.
    * Texts and other categories: the levels that fitted rows have, at most 1000. A value is
      looked up as text, without spaces around it. In an array of objects a column is what its
      values are: truth values, numbers, or texts where one is a text.
    * A missing value (NaN, None, NaT, NA) is a level of its own in every column.

    A release has a column of 0 and 1 for each kept bit; or, for each column of X, one of texts, the
    box of the row, such as ``[40, 60)`` and ``{cook, smith}``. ``transform`` returns the kept bits;
    with boxes, the share of the box's levels at which each bit of ``get_support`` is true.
    A value that the fit did not see has no level: all its bits are 0, and boxes treat it as the
    first level. A number without a level is compared with thresholds all the same.

    Weights and cuts that were learned from rows are in the fitted selector: publish what
    ``fit_release`` gives, not the selector. Levels of one weight are those of k rows or more, and
    a cut lies between two rows; weights of many columns together still depend on each row.

    Rows go by position, whatever their index. Without columns, or where no bit is kept, all rows
    are one class; the latter warns. A label of one value is refused where ``diversity`` is 2.

    References
    ----------
    Each method names its paper in its own docstring (``dp_pipeline.anonymity``). The default,
    ``kjig``, is our own. k-anonymity: Sweeney (2002); different labels in every class: distinct
    l-diversity, Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam (2007).

    Examples
    --------
    >>> import pandas as pd
    >>> from dp_pipeline.estimators import KAnonymousSelector
    >>> people = pd.DataFrame({"age": [31, 33, 35, 52, 54, 58], "sex": list("ffmfmm")})
    >>> ill = pd.Series([0, 0, 1, 1, 1, 0], name="ill")
    >>> from dp_pipeline.anonymity.kjig import Kjig
    >>> columns = Kjig("columns")
    >>> selector = KAnonymousSelector(k=3, method=columns, edges={"age": [40]}).fit(people, ill)
    >>> selector.candidate_names_.tolist(), selector.get_support().tolist()
    (['age>=40', 'sex=m'], [True, False])
    >>> selector.report_.k, selector.report_.distinct_l
    (3, 2)
    >>> selector.fit_release(people, ill).values.tolist()
    [[0, 0], [0, 0], [0, 1], [1, 0], [1, 1], [1, 1]]
    >>> boxes = KAnonymousSelector(k=3, method="mondrian", edges={"age": [40]})
    >>> boxes.fit_release(people, ill)["age"].unique().tolist()
    ['(-inf, 40)', '[40, inf)']
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
        """Choose bits or boxes that predict the labels y, and keep the promise on the rows of X.

        Parameters
        ----------
        X : frame of pandas, polars or Arrow, array of shape (n, d) or nested lists
            With n ≥ 1 and d ≥ 0.
        y : array, list or column of shape (n,)
            Labels of any type, at most 1000 different ones, none missing; by position.

        Returns
        -------
        KAnonymousSelector
            Itself, fitted.

        Raises
        ------
        InvalidParameter
            A ValueError: for parameters, for values that are no levels, and where even one class of
            all rows would break the promise (fewer than k rows, fewer than ``diversity`` labels).
            Nothing is fitted then. No error shows a value of a row.

        Examples
        --------
        >>> print(KAnonymousSelector(2, edges={}).fit([["f"], ["m"]] * 4, [0, 0, 1, 1] * 2))
        KAnonymousSelector, fitted: a release by fit_release has at least 2 rows and 2 different \
labels in every class; no ε, not differentially private
        """
        self._fit_rows(X, y)
        return self

    def fit_release(self, X: Any, y: Any) -> Any:
        """Fit, and return the k-anonymous table as a pandas frame, with the label as last column.

        Rows that break the promise are left out; the others are sorted by what they hold and
        numbered anew, so that neither order nor index links them to other tables.

        Parameters
        ----------
        X, y
            As in ``fit``.

        Returns
        -------
        pandas.DataFrame
            Of at most n rows, with a column of 0 and 1 for each kept bit, or a column of texts, the
            box of the row, for each column of X; then the label.

        Raises
        ------
        InvalidParameter
            As ``fit``, and for a label with the name of a column.

        Examples
        --------
        >>> selector = KAnonymousSelector(2, edges={})
        >>> selector.fit_release([["f"], ["m"]] * 4, [0, 0, 1, 1] * 2).shape
        (8, 2)
        """
        import pandas as pd

        release, labels = self._fit_rows(X, y)
        if self._rule.keeps_bits:
            names = self.get_feature_names_out().tolist()
            frame = pd.DataFrame(release.codes.astype(np.int8), columns=names)
        else:
            texts = {
                column.name: np.array(column.levels, dtype=object)[release.codes[:, index]]
                for index, column in enumerate(release.columns)
            }
            frame = pd.DataFrame(texts, index=pd.RangeIndex(len(release)))
        label = labels.name or "label"
        if label in frame.columns:
            raise InvalidParameter(
                "y: the name of the label must not be that of a column of the release, but "
                f"{label!r:.60} is: pass y as a Series of another name"
            )
        frame[label] = labels.series(release.target)
        frame.attrs["edges_learned_from_rows"] = list(self.proposed_edges_)
        return frame

    def transform(self, X: Any) -> Any:
        """Return the kept bits of every row; with boxes, the share of its box's levels at which
        each is true.

        The result has no guarantee, such as k-anonymity.

        Parameters
        ----------
        X : frame, array of shape (n, d) or nested lists
            With the columns that were fitted.

        Returns
        -------
        pandas.DataFrame or ndarray of shape (n, kept)
            0 or 1, or shares from 0 to 1: a frame with the index of X for a frame.

        Raises
        ------
        InvalidParameter
            For the form of X; ValueError for other columns, NotFittedError before a fit.

        Examples
        --------
        >>> rows, labels = [["f"], ["f"], ["m"], ["m"]] * 2, [0, 1, 1, 1] * 2
        >>> selector = KAnonymousSelector(2, diversity=1, edges={}).fit(rows, labels)
        >>> selector.transform([["f"], ["m"]]).tolist()
        [[0.0], [1.0]]
        """
        check_is_fitted(self)
        with invalid_parameters():
            X = plain_frame(X)
            features = features_of(X)
            if self.n_features_in_:
                require_columns(features)
        validate_data(self, X, reset=False, skip_check_array=True)
        bits = self._rule.recode(features)
        if features.index is None:
            return bits
        import pandas as pd

        return pd.DataFrame(bits, index=features.index, columns=self.get_feature_names_out())

    def score(self, X: Any, y: Any) -> float:
        """Return how well a classifier predicts the labels of rows from what ``transform`` keeps.

        **An exact number about these rows**, as sensitive as they are.

        Parameters
        ----------
        X : frame, array of shape (n, d) or nested lists
            With the columns that were fitted.
        y : array, list or column of shape (n,)
            A label of every row.

        Returns
        -------
        float
            The mean accuracy of logistic regression in cross-validation over these rows, from 0 to
            1. Where a label has a single row, there is only one, or no column is kept, the share of
            the most frequent label.

        Raises
        ------
        InvalidParameter
            For the form of X or y; ValueError for other columns, NotFittedError before a fit.

        Examples
        --------
        >>> rows, labels = [["f"], ["m"]] * 9, [0, 1] * 9
        >>> KAnonymousSelector(2, diversity=1, edges={}).fit(rows, labels).score(rows, labels)
        1.0
        """
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import cross_val_score

        features = self.transform(X)
        with invalid_parameters():
            codes = labels_of(y, rows=len(features)).codes
        if not len(codes):
            raise InvalidParameter("X: the table must have at least one row, but it has none")
        counts = np.bincount(codes)
        folds = min(5, int(counts.min()))
        if folds < 2 or len(counts) < 2 or not np.size(features):
            return float(counts.max() / len(codes))
        scores = cross_val_score(LogisticRegression(), np.asarray(features), codes, cv=folds)
        return float(scores.mean())

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Return which of ``candidate_names_`` are kept; with boxes, which differ among the boxes.

        Parameters
        ----------
        indices : bool, default=False
            Whether to return positions in place of a mask.

        Returns
        -------
        ndarray of shape (bits,) or (kept,)
            A mask of all candidates, or the positions, from 0 on, of those that are kept.

        Raises
        ------
        NotFittedError
            Before a fit.

        Examples
        --------
        >>> rows, labels = [["f"], ["f"], ["m"], ["m"]] * 2, [0, 1, 1, 1] * 2
        >>> KAnonymousSelector(2, diversity=1, edges={}).fit(rows, labels).get_support().tolist()
        [True]
        """
        check_is_fitted(self)
        return np.flatnonzero(self._rule.support) if indices else self._rule.support.copy()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return names of the kept bits, in the order of ``candidate_names_``.

        Parameters
        ----------
        input_features : list of str, default=None
            Names of the columns of X, where they had none.

        Returns
        -------
        ndarray of shape (kept,)
            Texts such as ``age>=40``.

        Raises
        ------
        ValueError
            For names of other columns than were fitted; NotFittedError before a fit.

        Examples
        --------
        >>> rows, labels = [["f"], ["f"], ["m"], ["m"]] * 2, [0, 1, 1, 1] * 2
        >>> selector = KAnonymousSelector(2, diversity=1, edges={}).fit(rows, labels)
        >>> selector.get_feature_names_out().tolist()
        ['x0=m']
        """
        check_is_fitted(self)
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return self._rule.names(self._rule.released_bits, names)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if not hasattr(self, "_guarantee"):
            return str(super().__repr__(N_CHAR_MAX))
        k, labels = self._guarantee.k, self._guarantee.diversity
        return (
            f"KAnonymousSelector, fitted: a release by fit_release has at least {k} rows and "
            f"{labels} different labels in every class; no ε, not differentially private"
        )

    def _fit_rows(self, X: Any, y: Any) -> tuple[CodedRows, LabelValues]:
        """Fit; return the released rows as codes, and the labels of all rows of X.

        An error changes nothing.
        """
        with invalid_parameters():
            X = plain_frame(X)
            method = selector_columns.selector_method(self.method)
            k = require_integer(self.k, of="k", least=0)
            diversity = sensitive_diversity(method, k=k)
            if self.diversity is not None:
                diversity = require_integer(self.diversity, of="diversity", least=1)
            promise = KAnonymityGuarantee(k, diversity, _share(self.suppress))
            generator = check_random_state(self.random_state)
            is_seed = isinstance(self.random_state, Integral)
            seed = int(self.random_state if is_seed else generator.randint(0, 2**31 - 1))
            features = features_of(X)
            labels = labels_of(y, rows=features.rows)
            if not features.rows:
                raise DeclarationError("X: the table must have at least one row, but it has none")
            columns, proposed = selector_columns.learn_columns(features, self.edges)
            rows = selector_columns.encode_rows(columns, features, labels)
            try:
                anonymized = method.recode(rows, promise, seed=seed)
            except TooFewRows as error:
                raise DeclarationError(str(error)) from None
            rule = selector_columns.FittedRecoding.of(columns, anonymized.rule, method, rows)
            names = rule.names(rule.bits, features.names)
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.tolist().count(name) > 1)
                pairs = zip(rule.bits, names, strict=True)
                both = [
                    f"{features.names[bit.column]!r:.60}" for bit, name in pairs if name == twice
                ]
                raise DeclarationError(
                    "X: a feature is named by its column and level, as sex=f, but two of "
                    f"{' and '.join(both)} would have the same name: rename one column"
                )
        validate_data(self, X, y, skip_check_array=True)
        release = anonymized.release(rows)
        self._rule, self._guarantee = rule, promise
        self.report_ = disclosure_report(
            release.codes, release.target, labels=len(rows.target_levels), k=promise.k
        )
        self.suppressed_ = anonymized.suppressed
        self.candidate_names_, self.proposed_edges_ = names, proposed
        self._warn()
        return release, labels

    def _warn(self) -> None:
        if self.proposed_edges_:
            warnings.warn(
                f"edges: the cuts of {', '.join(map(repr, self.proposed_edges_))} are learned from "
                "the rows, which is for benchmarks alone: declare public edges to publish",
                stacklevel=4,
            )
        if len(self._rule.bits) and not self._rule.support.any():
            warnings.warn(
                "The selection keeps no column, so all rows are one class: lower k, or raise "
                "suppress",
                stacklevel=4,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _share(value: Any) -> Fraction:
    """Return a share as a Fraction, a float by its shortest decimal text; DeclarationError unless
    it is from 0 to below 1."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and 0 <= value < 1):
        got = argument_text(value)
        raise DeclarationError(f"suppress: expected a share from 0 to below 1, got {got}")
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))
