"""Exact AUC of classifiers that learn from k-anonymous releases of a method."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

import numpy as np

from dp_pipeline.anonymity.coded_rows import CodedRows, KAnonymityGuarantee
from dp_pipeline.anonymity.method import Method, RowRule
from dp_pipeline.anonymity.ranking import RankedSearch
from dp_pipeline.metrics.auc import macro_auc
from dp_pipeline.metrics.classification import Scorer, scores, stratified_folds

EvaluationProtocol = Literal["nested", "paper"]


@dataclass(frozen=True)
class ProtocolResult:
    """The quality of the k-anonymous releases of one method and guarantee.

    aucs               mean AUC of each scorer over the folds whose test rows have two labels or
                       more; NaN if there are none
    seconds            mean wall time of one recoding
    released_columns   mean number of released columns without the label
    """

    aucs: Mapping[Scorer, float]
    seconds: float
    released_columns: float

    @classmethod
    def mean(cls, results: Sequence[Self]) -> Self:
        """Return the means over the results of at least one fold, without AUCs that are NaN."""
        by_scorer = {
            scorer: [fold.aucs[scorer] for fold in results if not np.isnan(fold.aucs[scorer])]
            for scorer in results[0].aucs
        }
        return cls(
            {scorer: float(np.mean(aucs or [np.nan])) for scorer, aucs in by_scorer.items()},
            float(np.mean([fold.seconds for fold in results])),
            float(np.mean([fold.released_columns for fold in results])),
        )


def evaluate_over(
    rows: CodedRows,
    method: Method,
    guarantees: Sequence[KAnonymityGuarantee],
    *,
    protocol: EvaluationProtocol = "nested",
    scorers: Sequence[Scorer] = ("logistic",),
    folds: int = 5,
    seed: int = 0,
) -> list[ProtocolResult]:
    """Return the quality of a method in folds of the rows, with one result for each guarantee.

    ``nested``   the method reads only the training rows of a fold, and their release keeps the
                 guarantee. Classifiers learn from that release, without suppressed rows, and are
                 tested on all rows of the fold, recoded by its public rule
    ``paper``    the method reads all rows; classifiers learn from and are tested on folds of the
                 one release. The method has read the test rows, so the AUC is too high

    ``class_rate`` reads released codes, the other scorers the features of the rule. Folds are the
    same for all guarantees, those of ``paper`` as far as the same rows are released. A ranking does
    not depend on the guarantee: it is made once a fold, and counts in every ``seconds``.

    TooFewRows where one guarantee cannot be kept in one fold; DeclarationError for an unknown
    scorer.
    """
    # Solvers take long to be imported, which is no part of a selection's time.
    import sklearn.ensemble  # noqa: F401

    def splits(table: CodedRows) -> Iterator[tuple[CodedRows, CodedRows]]:
        numbers = stratified_folds(table.target, folds, seed=seed)
        for fold in range(folds):
            yield table.select(numbers != fold), table.select(numbers == fold)

    if protocol == "paper":
        return [
            ProtocolResult.mean([selection.test(*fold, scorers) for fold in splits(selection.rows)])
            for selection in _selections(rows, method, guarantees, seed=seed)
        ]
    by_fold = [
        [
            selection.test(selection.rows, test, scorers)
            for selection in _selections(learn, method, guarantees, seed=seed)
        ]
        for learn, test in splits(rows)
    ]
    return [ProtocolResult.mean(results) for results in zip(*by_fold, strict=True)]


@dataclass(frozen=True, eq=False)
class _Selection:
    """The rule of a method for one guarantee, with the unsuppressed rows before recoding.

    seconds   wall time in which the method found the rule
    """

    rule: RowRule
    rows: CodedRows
    seconds: float

    def test(self, learn: CodedRows, test: CodedRows, scorers: Sequence[Scorer]) -> ProtocolResult:
        aucs: dict[Scorer, float] = {}
        for scorer in scorers:
            inputs = [
                self.rule.recode(rows).codes if scorer == "class_rate" else self.rule.features(rows)
                for rows in (learn, test)
            ]
            labels = len(learn.target_levels)
            probabilities = scores(scorer, inputs[0], learn.target, inputs[1], labels)
            aucs[scorer] = macro_auc(probabilities, test.target)
        return ProtocolResult(aucs, self.seconds, len(self.rule.columns))


def _selections(
    rows: CodedRows, method: Method, guarantees: Sequence[KAnonymityGuarantee], *, seed: int
) -> Iterator[_Selection]:
    recode, ranked_in = partial(method.recode, seed=seed), 0.0
    if isinstance(method, RankedSearch):
        for guarantee in guarantees:
            guarantee.require_possible(rows)
        started = time.perf_counter()
        ranking = method.ranking(rows, seed=seed)
        recode, ranked_in = partial(method.recode_by, ranking), time.perf_counter() - started
    for guarantee in guarantees:
        started = time.perf_counter()
        recoding = recode(rows, guarantee)
        seconds = ranked_in + time.perf_counter() - started
        yield _Selection(recoding.rule, rows.select(~recoding.suppressed), seconds)
