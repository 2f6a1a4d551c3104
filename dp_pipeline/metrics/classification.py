"""How well classifiers learned from one table answer about another. Codes in, numbers out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import DeclarationError

Codes = Mapping[str, NDArray[Any]]
"""Attribute → codes (rows,), whole numbers below the attribute's size."""

Answers = NDArray[np.bool_]
"""Whether each row is positive, (rows,)."""

Method = Literal["svm", "logistic", "majority"]

MOST_TRAINING_ROWS = 100_000
"""Classifiers learn from at most so many rows: a seeded sample where there are more."""

PARTS = 1 << 8
"""Weights are whole numbers of 1/256: fine beside a margin of 1, and coarse beside the last
digits of a solver, in which two machines may differ.
"""

_MOST_WEIGHT = 1 << 30


@dataclass(frozen=True)
class LinearClassifier:
    """A row is positive where Σ_j weights[j][code_j] + intercept > 0.

    columns     attributes that are looked at
    weights     for every column one whole number a code
    intercept   a whole number
    """

    columns: tuple[str, ...]
    weights: tuple[tuple[int, ...], ...]
    intercept: int

    def answers(self, codes: Codes, *, rows: int) -> Answers:
        """Whether each of the rows is positive, (rows,).

        >>> one = LinearClassifier(("a",), ((-3, 5),), 1)
        >>> one.answers({"a": np.array([0, 1, 1])}, rows=3).tolist()
        [False, True, True]
        """
        total = np.full(rows, self.intercept, dtype=np.int64)
        for name, weights in zip(self.columns, self.weights, strict=True):
            total += np.array(weights, dtype=np.int64)[codes[name]]
        return total > 0


def train(
    method: Method, codes: Codes, answers: Answers, sizes: Mapping[str, int]
) -> LinearClassifier:
    """A classifier that has learned from the bits of the codes, one bit a code and attribute.

    ``svm``        support vectors with a linear kernel and squared hinge loss, C = 1 (LIBLINEAR).
                   The papers' radial kernel takes minutes a target, not a second, and on Adult
                   gets as many rows wrong: 15.4 % over four targets
    ``logistic``   logistic regression, C = 1
    ``majority``   what most rows are

    Always a classifier: rows of one class, of none, or without columns give the majority's, which
    is negative in a tie. DeclarationError for columns of another length than the answers.
    """
    if any(len(column) != len(answers) for column in codes.values()):
        raise DeclarationError(
            f"classifier: expected {len(answers)} codes a column, got another number"
        )
    if method == "majority" or not codes or answers.all() or not answers.any():
        return LinearClassifier((), (), 1 if 2 * int(answers.sum()) > len(answers) else -1)
    kept = _some_rows(len(answers))
    if kept is not None:
        return train(method, {name: c[kept] for name, c in codes.items()}, answers[kept], sizes)
    bits = _bits(codes, [sizes[name] for name in codes])
    weights, intercept = _solved(method, bits, answers)
    ends = np.cumsum([sizes[name] for name in codes])[:-1]
    whole = tuple(tuple(part.tolist()) for part in np.split(_whole(weights), ends))
    return LinearClassifier(tuple(codes), whole, int(_whole(intercept)[0]))


def misclassification(classifier: LinearClassifier, codes: Codes, answers: Answers) -> float:
    """Share of the rows that the classifier answers wrongly, in 0..1; NaN for no rows."""
    if len(answers) == 0:
        return float("nan")
    return float((classifier.answers(codes, rows=len(answers)) != answers).mean())


def held_out(rows: int, *, seed: int) -> tuple[IntArray, IntArray]:
    """Row numbers to learn from and row numbers to test on: four fifths and a fifth, by chance.

    >>> learn, test = held_out(10, seed=0)
    >>> len(learn), len(test), sorted([*learn.tolist(), *test.tolist()]) == list(range(10))
    (8, 2, True)
    """
    order = np.random.default_rng(seed).permutation(rows)
    test = rows // 5
    return np.sort(order[test:]), np.sort(order[:test])


def _some_rows(rows: int) -> IntArray | None:
    """Row numbers of the seeded sample; None where all rows are learned from."""
    if rows <= MOST_TRAINING_ROWS:
        return None
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(rows, size=MOST_TRAINING_ROWS, replace=False))


def _bits(codes: Codes, sizes: list[int]) -> Any:
    """Sparse one-hot bits (rows, Σ sizes) of declared sizes: nothing is learned from the codes."""
    from sklearn.preprocessing import OneHotEncoder

    table = np.stack(list(codes.values()), axis=1)
    return OneHotEncoder(categories=[np.arange(size) for size in sizes]).fit_transform(table)


def _solved(method: Method, bits: Any, answers: Answers) -> tuple[Any, Any]:
    """Weights (Σ sizes,) and intercept (1,); a solver that stops early has still an answer."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    solver = LinearSVC(dual=False) if method == "svm" else LogisticRegression(max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver.fit(bits, answers)
    return solver.coef_[0], solver.intercept_


def _whole(weights: NDArray[np.float64]) -> IntArray:
    scaled = np.clip(np.rint(weights * PARTS), -_MOST_WEIGHT, _MOST_WEIGHT)
    return scaled.astype(np.int64)
