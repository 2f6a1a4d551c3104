from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from dp_pipeline.anonymity import protocols
from dp_pipeline.anonymity.kjig import Kjig
from dp_pipeline.anonymity.method import Method, Ranking, Recoded
from dp_pipeline.anonymity.partition import CodedRows, Column, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.protocols import ProtocolResult, evaluate, evaluate_over
from dp_pipeline.anonymity.ranking import InformationRanking
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.classification import SCORERS

EVERYTHING = KAnonymityGuarantee(k=0)
each_protocol = pytest.mark.parametrize("protocol", ["nested", "paper"])


def population(codes: Sequence[Sequence[int]], target: Sequence[int], size: int = 2) -> CodedRows:
    table = np.array(codes, dtype=np.int64).reshape(len(target), -1)
    levels = tuple(str(code) for code in range(size))
    columns = tuple(Column(f"c{at}", levels) for at in range(table.shape[1]))
    return CodedRows(columns, table, np.array(target, dtype=np.int64), ("no", "yes", "maybe"))


def two_classes(rows: CodedRows) -> CodedRows:
    return replace(rows, target_levels=rows.target_levels[:2])


NUMBERED = two_classes(population([[at] for at in range(20)], [0, 1] * 10, size=20))
"""Twenty rows, each with a code of its own, so that it can be followed."""

TOLD = two_classes(population([[at % 2, at % 3 > 0] for at in range(60)], [0, 1] * 30))
"""The first column is the class."""


@dataclass(frozen=True)
class AsItIs:
    """Releases all rows but those whose first code is among ``left_out``; the codes are the
    features. Notes the rows and the promises that it was asked for.
    """

    summary: ClassVar[str] = "for tests"
    left_out: frozenset[int] = frozenset()
    asked: list[tuple[CodedRows, KAnonymityGuarantee]] = field(default_factory=list)

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:  # noqa: ARG002
        self.asked.append((rows, promise))
        return Recoded(Unchanged(rows.columns), np.isin(rows.codes[:, 0], list(self.left_out)))


@dataclass(frozen=True)
class Unchanged:
    columns: tuple[Column, ...]

    def released(self, rows: CodedRows) -> CodedRows:
        return rows

    def features(self, rows: CodedRows) -> np.ndarray:
        return rows.codes.astype(np.float64)


@dataclass(frozen=True)
class Blurred(Unchanged):
    """Different codes, equal features: as of two boxes with one middle."""

    def features(self, rows: CodedRows) -> np.ndarray:
        return np.zeros((len(rows), 1))


@pytest.fixture
def used(monkeypatch) -> list[tuple[list[int], list[int]]]:
    """First features of the rows that were learned from and of those that were tested on."""
    found, real = [], protocols.scores

    def noted(scorer, learn, target, ask, classes):
        found.append((learn[:, 0].astype(int).tolist(), ask[:, 0].astype(int).tolist()))
        return real(scorer, learn, target, ask, classes)

    monkeypatch.setattr(protocols, "scores", noted)
    return found


def test_nested_selects_from_the_training_rows_alone(used):
    method = AsItIs()
    evaluate(NUMBERED, method, KAnonymityGuarantee(k=3))
    assert [promise for _, promise in method.asked] == [KAnonymityGuarantee(k=3)] * 5
    for (rows, _), (learned, tested) in zip(method.asked, used, strict=True):
        assert rows.codes[:, 0].tolist() == learned
        assert sorted(learned + tested) == list(range(20))
    assert sorted(row for _, tested in used for row in tested) == list(range(20))


def test_paper_selects_from_all_rows_once(used):
    method = AsItIs()
    evaluate(NUMBERED, method, KAnonymityGuarantee(k=3), protocol="paper")
    assert [len(rows) for rows, _ in method.asked] == [20]
    assert len(used) == 5
    assert all(sorted(learned + tested) == list(range(20)) for learned, tested in used)
    assert sorted(row for _, tested in used for row in tested) == list(range(20))


def test_nested_learns_from_no_suppressed_row(used):
    evaluate(NUMBERED, AsItIs(frozenset({4, 7})), EVERYTHING)
    assert all(not {4, 7} & set(learned) for learned, _ in used)
    assert sorted(row for _, tested in used for row in tested) == list(range(20))


def test_paper_uses_no_suppressed_row(used):
    evaluate(NUMBERED, AsItIs(frozenset({4, 7})), EVERYTHING, protocol="paper")
    released = [row for row in range(20) if row not in (4, 7)]
    assert all(sorted(learned + tested) == released for learned, tested in used)


@each_protocol
def test_every_promise_is_tried_on_the_same_folds(protocol, used):
    evaluate_over(
        NUMBERED, AsItIs(), [KAnonymityGuarantee(k=2), KAnonymityGuarantee(k=3)], protocol=protocol
    )
    tested = sorted(tested for _, tested in used)
    assert tested[::2] == tested[1::2]
    assert len(tested) == 10


@each_protocol
@pytest.mark.parametrize("method", [Kjig(), InformationRanking()])
def test_what_a_kept_bit_tells_is_learned_by_every_scorer(protocol, method):
    result = evaluate(TOLD, method, KAnonymityGuarantee(k=5), protocol=protocol, scorers=SCORERS)
    assert dict(result.aucs) == dict.fromkeys(SCORERS, 1.0)


@each_protocol
def test_of_three_classes_each_is_told_from_the_rest(protocol):
    rows = population([[at % 3] for at in range(60)], [at % 3 for at in range(60)], size=3)
    result = evaluate(rows, Kjig(), KAnonymityGuarantee(k=5), protocol=protocol, scorers=SCORERS)
    assert dict(result.aucs) == dict.fromkeys(SCORERS, 1.0)


def test_class_rates_are_those_of_released_codes():
    class BlurredMethod(AsItIs):
        def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:
            found = super().recode(rows, promise, seed=seed)
            return replace(found, recoding=Blurred(rows.columns))

    result = evaluate(TOLD, BlurredMethod(), EVERYTHING, scorers=SCORERS)
    assert dict(result.aucs) == {"logistic": 0.5, "class_rate": 1.0, "svm": 0.5}


@dataclass(frozen=True)
class Peeking:
    """A mutant: whatever rows it is given, it selects from all of them, once: every fold asks with
    the same promise and seed.
    """

    summary: ClassVar[str] = "for tests"
    method: Method
    everything: CodedRows
    found: list[Recoded] = field(default_factory=list)

    def recode(self, rows: CodedRows, promise: KAnonymityGuarantee, *, seed: int) -> Recoded:
        if not self.found:
            self.found.append(self.method.recode(self.everything, promise, seed=seed))
        return Recoded(self.found[0].recoding, np.zeros(len(rows), dtype=bool))


def auc_of_noise(
    protocol: str, of: Callable[[CodedRows], Method], *, bits: int, populations: int
) -> float:
    """Mean AUC where the label has nothing to do with the bits, of 100 rows in two halves."""
    promise = KAnonymityGuarantee(k=5)
    aucs = []
    for seed in range(populations):
        codes = np.random.default_rng(seed).integers(0, 2, (100, bits))
        rows = two_classes(population(codes, [0, 1] * 50))
        # Two folds: a search for each, and less chance in the AUC of a larger one.
        result = evaluate(rows, of(rows), promise, protocol=protocol, folds=2, seed=seed)
        aucs.append(result.aucs["logistic"])
    return float(np.mean(aucs))


# A fold of 25 and 25 rows has an AUC of standard deviation sqrt(51 / 7500) at most where scores
# know nothing. Two folds of a population hang together, so they count as one; populations do not.
def four_deviations(populations: int) -> float:
    return 4 * math.sqrt(51 / 7500 / populations)


# Of all ways, Kjig may choose one that does not look at the label, and so finds nothing in noise.
each_method_in_noise = pytest.mark.parametrize(
    ("method", "bits", "populations"), [(Kjig("columns"), 40, 16), (InformationRanking(), 150, 16)]
)


@each_method_in_noise
def test_nested_finds_nothing_in_noise(method, bits, populations):
    """False alarms: less than 1 in 15,000 draws of the populations; these are seeded."""
    found = auc_of_noise("nested", lambda _: method, bits=bits, populations=populations)
    assert abs(found - 0.5) < four_deviations(populations)


@each_method_in_noise
def test_paper_and_a_peeking_nested_see_something_in_noise(method, bits, populations):
    """The check of the test before, failing where it should."""
    paper = auc_of_noise("paper", lambda _: method, bits=bits, populations=populations)
    assert paper - 0.5 > four_deviations(populations)
    peeking = auc_of_noise(
        "nested", lambda rows: Peeking(method, rows), bits=bits, populations=populations
    )
    assert peeking - 0.5 > four_deviations(populations)


@dataclass(frozen=True)
class Counting(InformationRanking):
    """Notes the rows that are ranked, and takes its time."""

    ranked: list[int] = field(default_factory=list)

    def ranking(self, rows: CodedRows, *, seed: int) -> Ranking:
        self.ranked.append(len(rows))
        time.sleep(0.02)
        return super().ranking(rows, seed=seed)


@pytest.mark.parametrize(("protocol", "rankings"), [("nested", [48] * 5), ("paper", [60])])
def test_a_ranking_is_made_once_a_fold(protocol, rankings):
    method, promises = Counting(), [KAnonymityGuarantee(k) for k in (0, 2, 15)]
    results = evaluate_over(TOLD, method, promises, protocol=protocol, scorers=SCORERS)
    assert method.ranked == rankings
    assert all(result.seconds >= 0.02 for result in results)
    for promise, result in zip(promises, results, strict=True):
        alone = evaluate(TOLD, InformationRanking(), promise, protocol=protocol, scorers=SCORERS)
        assert (alone.aucs, alone.kept) == (result.aucs, result.kept)


def test_released_columns_are_counted():
    assert evaluate(TOLD, AsItIs(), EVERYTHING).kept == 2
    assert evaluate(TOLD, InformationRanking(), KAnonymityGuarantee(k=40)).kept == 0
    assert evaluate(TOLD, InformationRanking(), EVERYTHING).kept == 4


def test_a_promise_no_fold_can_keep_is_refused_at_once():
    rows, method = TOLD.some(np.arange(10)), Counting()
    for promise in (KAnonymityGuarantee(k=9), KAnonymityGuarantee(k=2, diversity=3)):
        with pytest.raises(TooFewRows):
            evaluate_over(rows, method, [EVERYTHING, promise])
    assert method.ranked == []
    with pytest.raises(TooFewRows):
        evaluate(rows, Kjig(), KAnonymityGuarantee(k=9))
    evaluate(rows, method, KAnonymityGuarantee(k=9), protocol="paper")


@each_protocol
@pytest.mark.parametrize("method", [Kjig(), InformationRanking()])
def test_where_rows_are_alike_the_auc_is_a_half(protocol, method):
    bare = two_classes(population([[]] * 20, [0, 1] * 10))
    alike = two_classes(population([[1, 0]] * 20, [0, 1] * 10))
    for rows in (bare, alike):
        result = evaluate(
            rows, method, KAnonymityGuarantee(k=2), protocol=protocol, scorers=SCORERS
        )
        assert dict(result.aucs) == dict.fromkeys(SCORERS, 0.5)


@each_protocol
@pytest.mark.parametrize("method", [Kjig(), InformationRanking()])
@pytest.mark.parametrize("rows", [TOLD.some(TOLD.target == 1), TOLD.some(np.arange(0))])
def test_where_rows_have_one_class_there_is_no_auc(protocol, method, rows):
    result = evaluate(rows, method, EVERYTHING, protocol=protocol, scorers=SCORERS)
    assert all(math.isnan(found) for found in result.aucs.values())


@each_protocol
def test_folds_without_both_classes_are_left_out(protocol):
    rows = two_classes(population([[0], [1], [1], [0], [1], [1]], [0, 1, 1, 0, 1, 1]))
    result = evaluate(rows, AsItIs(), EVERYTHING, protocol=protocol)
    assert result.aucs == {"logistic": 1.0}
    few = evaluate(rows.some(np.arange(3)), AsItIs(), EVERYTHING, protocol=protocol)
    assert math.isnan(few.aucs["logistic"])


@each_protocol
def test_the_seed_decides(protocol):
    rng = np.random.default_rng(3)
    rows = two_classes(population(rng.integers(0, 2, (60, 5)), rng.integers(0, 2, 60).tolist()))
    first, again, other = (
        evaluate(rows, Kjig(), KAnonymityGuarantee(k=5), protocol=protocol, folds=2, seed=seed).aucs
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_no_promise_has_no_result():
    assert evaluate_over(TOLD, Kjig(), []) == []


def test_one_fold_and_unknown_protocols_and_scorers_are_refused():
    with pytest.raises(DeclarationError, match="expected at least 2 folds, got 1"):
        evaluate(TOLD, Kjig(), EVERYTHING, folds=1)
    with pytest.raises(DeclarationError, match="expected a protocol of nested, paper, got 'all'"):
        evaluate(TOLD, Kjig(), EVERYTHING, protocol="all")
    with pytest.raises(DeclarationError, match="expected one of logistic, class_rate, svm"):
        evaluate(TOLD, Kjig(), EVERYTHING, scorers=["forest"])


def test_a_mean_leaves_out_what_is_no_number():
    results = [ProtocolResult({"svm": auc}, 1.0, 2.0) for auc in (0.5, float("nan"), 1.0)]
    assert ProtocolResult.mean(results).aucs == {"svm": 0.75}
