"""Classifiers and scorers that learn from some rows and are tested on others, also by folds."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import Codes, FloatArray, IntArray
from dp_pipeline.config.errors import DeclarationError, one_of
from dp_pipeline.metrics.auc import macro_auc
from dp_pipeline.metrics.equivalence_classes import class_ids

Answers = NDArray[np.bool_]
"""Whether each row is positive, (rows,)."""

Method = Literal["svm", "logistic"]

MOST_TRAINING_ROWS = 100_000  # rows that classifiers learn from, at most; of more, a seeded sample
ROWS_A_BLOCK = 1 << 16  # rows that are tested together, since the sums take 16 bytes a row

PARTS = 1 << 8
"""Weights are multiples of 1/256: fine compared with a margin of 1, and coarse compared with the
last digits of a solver, which differ between machines.
"""

_MOST_WEIGHT = 1 << 30


@dataclass(frozen=True)
class LinearClassifier:
    """A classifier that predicts a row as positive where Σ_j weights[j][code_j] + intercept > 0.

    columns     attributes that it reads
    weights     for every column, one integer for each code
    intercept   an integer, as the weights in 1/256
    """

    columns: tuple[str, ...]
    weights: tuple[tuple[int, ...], ...]
    intercept: int

    def answers(self, codes: Codes, *, rows: int) -> Answers:
        """Return a mask of the rows that are predicted as positive, (rows,).

        >>> classifier = LinearClassifier(("a",), ((-3, 5),), 1)
        >>> classifier.answers({"a": np.array([0, 1, 1])}, rows=3).tolist()
        [False, True, True]
        """
        return self.totals(codes, rows=rows) > 0

    def totals(self, codes: Codes, *, rows: int) -> IntArray:
        """Return for each row the sum of its weights and the intercept, in 1/256 (rows,).

        It is above 0 for rows that are predicted as positive."""
        total = np.full(rows, self.intercept, dtype=np.int64)
        for name, weights in zip(self.columns, self.weights, strict=True):
            total += np.array(weights, dtype=np.int64)[codes[name]]
        return total

    def mistakes(self, codes: Codes, answers: Answers) -> int:
        """Return the number of rows that are predicted otherwise than ``answers``."""
        wrong = 0
        for start in range(0, len(answers), ROWS_A_BLOCK):
            right = answers[start : start + ROWS_A_BLOCK]
            some = {name: codes[name][start : start + ROWS_A_BLOCK] for name in self.columns}
            wrong += int((self.answers(some, rows=len(right)) != right).sum())
        return wrong


def train(
    method: Method, codes: Codes, answers: Answers, sizes: Mapping[str, int]
) -> LinearClassifier:
    """Return a classifier of positive rows, fitted on the one-hot bits of codes.

    codes     attribute → codes (rows,)
    answers   mask (rows,) of the positive rows
    sizes     attribute → number of its codes

    ``svm``        support vectors with a linear kernel and squared hinge loss, C = 1 (LIBLINEAR);
                   the papers' radial kernel takes minutes a target, and on Adult misclassifies as
                   many rows: 15.4 % over four targets
    ``logistic``   logistic regression, C = 1

    Rows of a single class, no rows, or no columns give a constant classifier of the majority,
    negative in a tie. Of more than 100,000 rows, a fixed sample is learned from. DeclarationError
    for columns of another length than the answers.
    """
    for name, column in codes.items():
        if len(column) != len(answers):
            raise DeclarationError(
                f"Each column must have one code for each of {len(answers)} rows, but {name} has "
                f"{len(column)}"
            )
    if not codes or answers.all() or not answers.any():
        return LinearClassifier((), (), 1 if 2 * int(answers.sum()) > len(answers) else -1)
    if len(answers) > MOST_TRAINING_ROWS:
        rng = np.random.default_rng(0)
        some = np.sort(rng.choice(len(answers), size=MOST_TRAINING_ROWS, replace=False))
        return train(method, {name: c[some] for name, c in codes.items()}, answers[some], sizes)
    bits = _bits(codes, [sizes[name] for name in codes])
    weights, intercept = _solved_classifier(method, bits, answers)
    ends = np.cumsum([sizes[name] for name in codes])[:-1]
    integer_weights = tuple(
        tuple(part.tolist()) for part in np.split(_round_weights(weights), ends)
    )
    return LinearClassifier(tuple(codes), integer_weights, int(_round_weights(intercept)[0]))


def misclassification(classifier: LinearClassifier, codes: Codes, answers: Answers) -> float:
    """Return the share of rows that a classifier predicts wrongly, in 0..1; NaN without rows."""
    if len(answers) == 0:
        return float("nan")
    return classifier.mistakes(codes, answers) / len(answers)


def predict_attribute(
    method: Method, training: Codes, tested: Codes, attribute: str, sizes: Mapping[str, int]
) -> tuple[float, float]:
    """Return accuracy and AUC, on tested rows, of the prediction of one attribute from all others.

    training, tested   two tables with the same attributes, to learn from and to test on
    sizes              attribute → number of its levels

    A linear classifier is trained for each level against the rest, for two levels only one. The
    level with the largest of their ``totals`` is predicted; the AUC is ``macro_auc`` of these. A
    level without training rows is never predicted; without any training rows, the first level is.
    Both are NaN without tested rows; the AUC also if all have one level.

    >>> table = {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 0, 1, 1])}
    >>> predict_attribute("logistic", table, table, "b", {"a": 2, "b": 2})
    (1.0, 1.0)
    """
    features, tested_features = (
        {name: codes for name, codes in table.items() if name != attribute}
        for table in (training, tested)
    )
    right, rows = np.asarray(tested[attribute], dtype=np.int64), len(tested[attribute])
    if not rows:
        return float("nan"), float("nan")

    def sums_of(level: int) -> IntArray:
        is_level = training[attribute] == level
        if len(is_level) and not is_level.any():
            return np.full(rows, np.iinfo(np.int64).min >> 1)
        return train(method, features, is_level, sizes).totals(tested_features, rows=rows)

    levels = [1] if sizes[attribute] == 2 else range(sizes[attribute])
    sums = np.stack([sums_of(level) for level in levels], axis=1)
    if sizes[attribute] == 2:
        sums = np.concatenate([-sums, sums], axis=1)
    return float((sums.argmax(axis=1) == right).mean()), macro_auc(sums.astype(np.float64), right)


def split_rows(rows: int, *, seed: int) -> tuple[IntArray, IntArray]:
    """Return the numbers 0..rows − 1 split at random into four fifths for training and one fifth,
    rounded down, for testing; each ascending.

    >>> learn, test = split_rows(10, seed=0)
    >>> len(learn), len(test), sorted([*learn.tolist(), *test.tolist()]) == list(range(10))
    (8, 2, True)
    """
    order = np.random.default_rng(seed).permutation(rows)
    test = rows // 5
    return np.sort(order[test:]), np.sort(order[:test])


def _bits(codes: Codes, sizes: list[int]) -> Any:
    from sklearn.preprocessing import OneHotEncoder

    table = np.stack(list(codes.values()), axis=1)
    return OneHotEncoder(categories=[np.arange(size) for size in sizes]).fit_transform(table)


def _solved_classifier(method: Method, bits: Any, answers: Answers) -> tuple[Any, Any]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    solver = LinearSVC(dual=False) if method == "svm" else LogisticRegression(max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver.fit(bits, answers)
    return solver.coef_[0], solver.intercept_


def _round_weights(weights: NDArray[np.float64]) -> IntArray:
    scaled = np.clip(np.rint(weights * PARTS), -_MOST_WEIGHT, _MOST_WEIGHT)
    return scaled.astype(np.int64)


Scorer = Literal["logistic", "class_rate", "svm"]

SCORERS: tuple[Scorer, ...] = get_args(Scorer)

MOST_DIFFERENT_ROWS: Mapping[Scorer, int] = {"logistic": 100_000, "svm": 5_000}
"""Different rows that a solver learns from, at most; of more, a seeded sample with a row of each
class. The time of ``svm`` grows with the square.
"""

_DECIMALS = 2
"""Decimals of distances: rounded to these, a solver that stops 0.001 from the optimum agrees with
one that stops 1e-8 from it.
"""

Features = NDArray[Any]
"""(n, features): numbers, or codes."""


def scores(
    scorer: Scorer,
    learn_features: Features,
    learn_target: IntArray,
    features: Features,
    classes: int,
) -> FloatArray:
    """Train a classifier on labelled rows; return the score of each class for other rows (rows,
    classes).

    ``logistic``     probabilities of logistic regression, C = 1, at most 1000 steps
    ``class_rate``   rates of the classes among learned rows with equal features, to which one row
                     with the overall rates is added
    ``svm``          distances from the boundary of support vectors with a radial kernel, C = 1 and
                     scikit-learn's default width, as in the paper; rounded, since the solver's last
                     digits would order the many rows on the margin

    learn_features   of labelled rows (n, features)
    learn_target     their classes (n,), in 0..classes − 1
    features         of the rows to score (rows, features)
    classes          number of classes; one without labelled rows has the same score everywhere

    If the labelled rows have one class or no features, the scores are the overall rates of the
    classes, as ``class_rate`` gives them for features that no labelled row has; all are 1/classes
    if there are no labelled rows. Rows with equal features have equal scores. The solvers learn
    from a fixed sample where there are more different rows than ``MOST_DIFFERENT_ROWS``.
    DeclarationError for wrong shapes and unknown scorers.

    >>> learn, target = np.array([[0], [0], [1]]), np.array([0, 0, 1])
    >>> scores("class_rate", learn, target, np.array([[1], [2]]), 2).round(3).tolist()
    [[0.333, 0.667], [0.667, 0.333]]
    """
    _require_matching(scorer, learn_features, learn_target, features)
    counts = np.bincount(learn_target, minlength=classes)
    rates = counts / len(learn_target) if len(learn_target) else np.full(classes, 1 / classes)
    if features.size == 0 or np.count_nonzero(counts) < 2:
        return np.tile(rates, (len(features), 1))
    # Equal rows are one group.
    codes = np.concatenate([learn_features, features])
    with np.errstate(invalid="ignore"):
        small = codes.astype(np.uint8)
    if not np.array_equal(small, codes):
        columns = [np.unique(column, return_inverse=True)[1] for column in codes.T]
        small = np.stack(columns, axis=1)
    groups = class_ids(small)[0]
    learned, tested = np.split(groups, [len(learn_features)])
    if scorer == "class_rate":
        keys, size = learned * classes + learn_target, int(groups.max()) + 1
        rows_of = np.bincount(keys, minlength=size * classes).reshape(size, classes)
        # One row of overall rates is added to every group.
        return np.asarray((rows_of + rates) / (rows_of.sum(axis=1, keepdims=True) + 1))[tested]
    rows = _Learned.of(learn_features, learn_target, learned, most=MOST_DIFFERENT_ROWS[scorer])
    _, first, places = np.unique(tested, return_index=True, return_inverse=True)
    different_rows = features[first].astype(np.float64)
    class_scores = np.zeros((len(first), classes))
    learned_classes, learned_scores = _learn_and_score(scorer, rows, different_rows)
    class_scores[:, learned_classes] = learned_scores
    return class_scores[places]


def _require_matching(
    scorer: Scorer, learn_features: Features, learn_target: IntArray, features: Features
) -> None:
    if scorer not in SCORERS:
        raise DeclarationError(f"The scorer {one_of(SCORERS, str(scorer))}")
    if learn_features.ndim != 2 or learn_target.shape != (len(learn_features),):
        raise DeclarationError(
            "The classifier needs a table and one class for each row, not shapes "
            f"{learn_features.shape} and {learn_target.shape}"
        )
    if features.ndim != 2 or features.shape[1] != learn_features.shape[1]:
        raise DeclarationError(
            f"The rows to score must have {learn_features.shape[1]} features, not shape "
            f"{features.shape}"
        )


@dataclass(frozen=True, eq=False)
class _Learned:
    """The distinct pairs of features and class on which a classifier is trained.

    weights   number of rows of each pair
    width     scikit-learn's ``gamma="scale"`` of all rows
    """

    features: FloatArray
    target: IntArray
    weights: FloatArray
    width: float

    @classmethod
    def of(cls, features: Features, target: IntArray, groups: IntArray, *, most: int) -> Self:
        keys = groups * (int(target.max()) + 1) + target
        if np.unique(keys).size > most:
            # A seeded sample and the first row of every class, so that none is lost.
            chosen = np.random.default_rng(0).choice(len(target), size=most, replace=False)
            some = np.union1d(chosen, np.unique(target, return_index=True)[1])
            features, target, keys = features[some], target[some], keys[some]
        _, first, rows = np.unique(keys, return_index=True, return_counts=True)
        inverse_width = float(features.var()) * features.shape[1]
        return cls(
            features[first].astype(np.float64),
            target[first],
            rows.astype(np.float64),
            1 / inverse_width if inverse_width else 1.0,
        )


def _learn_and_score(
    scorer: Scorer, rows: _Learned, features: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Train a scorer on rows; return the classes that these have, ascending, and the score of each
    for the rows of ``features`` (rows, classes)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    solver = LogisticRegression(max_iter=1000) if scorer == "logistic" else SVC(gamma=rows.width)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver.fit(rows.features, rows.target, sample_weight=rows.weights)
    if scorer == "logistic":
        return solver.classes_, solver.predict_proba(features)
    distances = solver.decision_function(features).round(_DECIMALS)
    return solver.classes_, distances if distances.ndim == 2 else np.stack(
        [-distances, distances], axis=1
    )


def stratified_folds(target: IntArray, folds: int, *, seed: int) -> IntArray:
    """Return a random fold of every row (n,), 0..folds − 1, so that folds have equally many rows of
    each class.

    Their sizes differ by at most one row, in each class and in total.

    >>> folds = stratified_folds(np.array([0, 1, 0, 1, 0, 0]), 2, seed=0)
    >>> np.bincount(folds).tolist(), np.bincount(folds[[1, 3]]).tolist()
    ([3, 3], [1, 1])
    """
    order = np.random.default_rng(seed).permutation(len(target))
    by_class = order[np.argsort(target[order], kind="stable")]
    folds_of_rows = np.empty(len(target), dtype=np.int64)
    folds_of_rows[by_class] = np.arange(len(target)) % folds
    return folds_of_rows
