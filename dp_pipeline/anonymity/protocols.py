"""How well classifiers learn from what a method releases. Rows live here; nothing is private."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeGuard

import numpy as np

from dp_pipeline.anonymity.method import Method, Ranked, Recoded, RowRule
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.auc import macro_auc
from dp_pipeline.metrics.classification import Features, Scorer, scores, stratified_folds

EvaluationProtocol = Literal["nested", "paper"]


@dataclass(frozen=True)
class ProtocolResult:
    """How well classifiers learn from the k-anonymous releases of one method and promise.

    aucs      scorer → mean AUC over the folds; a fold whose test rows have one class says
              nothing and is left out, NaN where none says anything
    seconds   mean wall time of one selection, with the whole of its ranking
    kept      mean number of released columns, beside the target
    """

    aucs: Mapping[Scorer, float]
    seconds: float
    kept: float

    @classmethod
    def mean(cls, results: Sequence[ProtocolResult]) -> ProtocolResult:
        """Of at least one fold's results.

        >>> one, other = ProtocolResult({"svm": 0.5}, 1.0, 3), ProtocolResult({"svm": 0.7}, 2.0, 4)
        >>> ProtocolResult.mean([one, other])
        ProtocolResult(aucs={'svm': 0.6}, seconds=1.5, kept=3.5)
        """
        return cls(
            {scorer: _mean([one.aucs[scorer] for one in results]) for scorer in results[0].aucs},
            _mean([one.seconds for one in results]),
            _mean([one.kept for one in results]),
        )


def evaluate(
    rows: CodedRows,
    method: Method,
    promise: KAnonymityGuarantee,
    *,
    protocol: EvaluationProtocol = "nested",
    scorers: Sequence[Scorer] = ("logistic",),
    folds: int = 5,
    seed: int = 0,
) -> ProtocolResult:
    """``evaluate_over`` one promise."""
    return evaluate_over(
        rows, method, (promise,), protocol=protocol, scorers=scorers, folds=folds, seed=seed
    )[0]


def evaluate_over(
    rows: CodedRows,
    method: Method,
    promises: Sequence[KAnonymityGuarantee],
    *,
    protocol: EvaluationProtocol = "nested",
    scorers: Sequence[Scorer] = ("logistic",),
    folds: int = 5,
    seed: int = 0,
) -> list[ProtocolResult]:
    """AUCs of classifiers on rows that they have not learned from, one result a promise.

    ``nested``   the method sees the training rows of a fold alone, and their release keeps the
                 promise. Classifiers learn from that release, without the rows that it leaves
                 out, and are tested on all rows of the fold, recoded by its public rule
    ``paper``    the method sees all rows; classifiers learn from and are tested on folds of the
                 one release. What was selected knows the test rows, so the AUC is too high

    ``class_rate`` sees released codes, the others what the recoding gives as features. Folds are
    the same for all promises, those of ``paper`` as far as the same rows are released. A ranking
    that does not depend on the promise is made once a fold, and counts in every ``seconds``.

    TooFewRows where one promise cannot be kept in one fold; DeclarationError for less than two
    folds and for a protocol or scorer that is not known.
    """
    if folds < 2:
        raise DeclarationError(f"evaluation: expected at least 2 folds, got {folds}")
    if protocol not in _PROTOCOLS:
        known = ", ".join(_PROTOCOLS)
        raise DeclarationError(f"evaluation: expected a protocol of {known}, got {protocol!r}")
    # Solvers take long to be imported, which is no part of a selection's time.
    import sklearn.ensemble  # noqa: F401

    setting = _Setting(method, promises, scorers, folds, seed)
    return _PROTOCOLS[protocol](rows, setting)


@dataclass(frozen=True)
class _Setting:
    method: Method
    promises: Sequence[KAnonymityGuarantee]
    scorers: Sequence[Scorer]
    folds: int
    seed: int

    def folds_of(self, rows: CodedRows) -> Iterator[tuple[CodedRows, CodedRows]]:
        """Rows to learn from and rows to test on, of every fold."""
        numbers = stratified_folds(rows.target, self.folds, seed=self.seed)
        for fold in range(self.folds):
            yield rows.some(numbers != fold), rows.some(numbers == fold)

    def selections(self, rows: CodedRows) -> Iterator[_Selection]:
        """What the method makes of the rows, one selection a promise."""
        recode, before = self._recode(rows)
        for promise in self.promises:
            began = time.perf_counter()
            found = recode(promise)
            seconds = before + time.perf_counter() - began
            yield _Selection(found.recoding, rows.some(~found.suppressed), seconds)

    def _recode(self, rows: CodedRows) -> tuple[Callable[[KAnonymityGuarantee], Recoded], float]:
        """A selection from these rows, and the seconds that were spent before on all of them."""
        method, began = self.method, time.perf_counter()
        if not _is_ranked(method):
            return lambda promise: method.recode(rows, promise, seed=self.seed), 0.0
        for promise in self.promises:
            promise.require_possible(len(rows), int(np.count_nonzero(rows.target_counts)))
        ranking = method.ranking(rows, seed=self.seed)
        seconds = time.perf_counter() - began
        return lambda promise: method.recode_by(ranking, rows, promise), seconds


@dataclass(frozen=True, eq=False)
class _Selection:
    """One use of a method.

    rows   those that are not left out of the release, not yet recoded
    """

    recoding: RowRule
    rows: CodedRows
    seconds: float

    def tried(self, learn: CodedRows, test: CodedRows, scorers: Sequence[Scorer]) -> ProtocolResult:
        """What is learned from some of the released rows, tested on others."""
        aucs: dict[Scorer, float] = {}
        for scorer in scorers:
            seen, asked = self._seen(scorer, learn), self._seen(scorer, test)
            told = scores(scorer, seen, learn.target, asked, len(learn.target_levels))
            aucs[scorer] = macro_auc(told, test.target)
        return ProtocolResult(aucs, self.seconds, len(self.recoding.columns))

    def _seen(self, scorer: Scorer, rows: CodedRows) -> Features:
        if scorer == "class_rate":
            return self.recoding.released(rows).codes
        return self.recoding.features(rows)


def _nested(rows: CodedRows, setting: _Setting) -> list[ProtocolResult]:
    by_fold = [
        [one.tried(one.rows, test, setting.scorers) for one in setting.selections(learn)]
        for learn, test in setting.folds_of(rows)
    ]
    return [ProtocolResult.mean(results) for results in zip(*by_fold, strict=True)]


def _paper(rows: CodedRows, setting: _Setting) -> list[ProtocolResult]:
    return [
        ProtocolResult.mean(
            [one.tried(*fold, setting.scorers) for fold in setting.folds_of(one.rows)]
        )
        for one in setting.selections(rows)
    ]


_PROTOCOLS: Mapping[str, Callable[[CodedRows, _Setting], list[ProtocolResult]]] = {
    "nested": _nested,
    "paper": _paper,
}


def _is_ranked(method: Method) -> TypeGuard[Ranked]:
    return hasattr(method, "ranking")


def _mean(numbers: Sequence[float]) -> float:
    """Of those that are numbers; NaN where none is."""
    told = [number for number in numbers if not np.isnan(number)]
    return float(np.mean(told)) if told else float("nan")
