"""Scorers: what classifiers learned from some rows say about others. Numbers in, numbers out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.metrics.equivalence_classes import class_ids
from dp_pipeline.schema.encoding import FloatArray, IntArray
from dp_pipeline.schema.errors import DeclarationError
from dp_pipeline.schema.name import one_of

Scorer = Literal["logistic", "class_rate", "svm"]

SCORERS: tuple[Scorer, ...] = get_args(Scorer)

MOST_DIFFERENT_ROWS: Mapping[Scorer, int] = {"logistic": 100_000, "svm": 5_000}
"""Solvers learn from all rows unless more than so many of them differ, in features or class: then
from a seeded sample of so many, with a row of each class. Time of ``svm`` grows with the square.
"""

_DECIMALS = 2
"""Of distances: the solver stops within 0.001 of the optimum, and with this many digits its answer
is that of one which stops within 1e-8.
"""

Features = NDArray[Any]
"""(n, features): numbers, or codes."""


def scores(
    scorer: Scorer,
    learn_features: Features,
    learn_target: IntArray,
    ask_features: Features,
    classes: int,
) -> FloatArray:
    """How much each row that is asked about looks like each class, (rows asked, classes).

    ``logistic``     probabilities of logistic regression, C = 1, at most 1000 steps
    ``class_rate``   rates of the classes among the learned rows with equal features, beside
                     one more row that has the overall rates: what those read off who look up an
                     equivalence class
    ``svm``          distances of support vectors with a radial kernel, C = 1, scikit-learn's
                     default width: what the paper evaluates with; in hundredths, since many
                     rows of a release lie on the margin, where the solver's last digits would
                     order them

    learn_target   (n,) codes 0..classes − 1
    classes        how many there are; one that no learned row has scores the same everywhere

    Always scores: where the learned rows have one class or no features, or there are none, a row
    is scored by the overall rates of the classes, and so is one whose class of equal rows
    ``class_rate`` never met. Rows with equal features have equal scores to the last digit.

    DeclarationError for arrays of other shapes and for a scorer that is not known.

    >>> learn, target = np.array([[0], [0], [1]]), np.array([0, 0, 1])
    >>> scores("class_rate", learn, target, np.array([[1], [2]]), 2).round(3).tolist()
    [[0.333, 0.667], [0.667, 0.333]]
    """
    _require_known(scorer, learn_features, learn_target, ask_features)
    counts = np.bincount(learn_target, minlength=classes)
    rates = counts / len(learn_target) if len(learn_target) else np.full(classes, 1 / classes)
    if ask_features.size == 0 or np.count_nonzero(counts) < 2:
        return np.tile(rates, (len(ask_features), 1))
    alike = _alike(np.concatenate([learn_features, ask_features]))
    learned, asked = np.split(alike, [len(learn_features)])
    if scorer == "class_rate":
        return _class_rates(learned, learn_target, rates, size=int(alike.max()) + 1)[asked]
    rows = _Learned.of(learn_features, learn_target, learned, most=MOST_DIFFERENT_ROWS[scorer])
    _, first, places = np.unique(asked, return_index=True, return_inverse=True)
    found = np.zeros((len(first), classes))
    seen, told = _solved(scorer, rows, ask_features[first].astype(np.float64))
    found[:, seen] = told
    return found[places]


def _require_known(
    scorer: Scorer, learn_features: Features, learn_target: IntArray, ask_features: Features
) -> None:
    if scorer not in SCORERS:
        raise DeclarationError(f"scorer: expected {one_of(SCORERS, str(scorer))}")
    if learn_features.ndim != 2 or learn_target.shape != (len(learn_features),):
        raise DeclarationError("scorer: expected a table and one class a row, got other shapes")
    if ask_features.ndim != 2 or ask_features.shape[1] != learn_features.shape[1]:
        raise DeclarationError(
            f"scorer: expected rows of {learn_features.shape[1]} features, got other shapes"
        )


def _alike(features: Features) -> IntArray:
    """The class of equal rows of every row (n,); equal to the last digit."""
    with np.errstate(invalid="ignore"):
        small = features.astype(np.uint8)
    if np.array_equal(small, features):
        return class_ids(small)[0]
    codes = [np.unique(column, return_inverse=True)[1] for column in features.T]
    return class_ids(np.stack(codes, axis=1))[0]


def _class_rates(groups: IntArray, target: IntArray, rates: FloatArray, *, size: int) -> FloatArray:
    """Rates of the classes in each group (size, classes), one row of overall rates added."""
    classes = len(rates)
    counts = np.bincount(groups * classes + target, minlength=size * classes)
    counts = counts.reshape(size, classes)
    return np.asarray((counts + rates) / (counts.sum(axis=1, keepdims=True) + 1))


@dataclass(frozen=True, eq=False)
class _Learned:
    """Different rows that a solver learns from, and how often each occurs: the same minimum as
    with every row by itself, and a release has few different rows.

    width   scikit-learn's ``gamma="scale"`` of all rows: that of the different ones is another
    """

    features: FloatArray
    target: IntArray
    weights: FloatArray
    width: float

    @classmethod
    def of(cls, features: Features, target: IntArray, groups: IntArray, *, most: int) -> _Learned:
        """From rows, and the class of equal features of each."""
        keys = groups * (int(target.max()) + 1) + target
        if np.unique(keys).size > most:
            some = _some_rows(target, most)
            features, target, keys = features[some], target[some], keys[some]
        _, first, rows = np.unique(keys, return_index=True, return_counts=True)
        spread = float(features.var()) * features.shape[1]
        return cls(
            features[first].astype(np.float64),
            target[first],
            rows.astype(np.float64),
            1 / spread if spread else 1.0,
        )


def _some_rows(target: IntArray, most: int) -> IntArray:
    """Row numbers of a seeded sample, and the first row of every class: none is lost by chance."""
    chosen = np.random.default_rng(0).choice(len(target), size=most, replace=False)
    return np.union1d(chosen, np.unique(target, return_index=True)[1])


def _solved(scorer: Scorer, rows: _Learned, asked: FloatArray) -> tuple[IntArray, FloatArray]:
    """Codes of the classes that were learned from, and a score of each for every row asked about.

    A solver that stops early has still an answer.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    solver = LogisticRegression(max_iter=1000) if scorer == "logistic" else SVC(gamma=rows.width)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver.fit(rows.features, rows.target, sample_weight=rows.weights)
    if scorer == "logistic":
        return solver.classes_, solver.predict_proba(asked)
    told = solver.decision_function(asked).round(_DECIMALS)
    return solver.classes_, told if told.ndim == 2 else np.stack([-told, told], axis=1)
