"""How kjig chooses a candidate, and what classifiers learn from releases: on which rows."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from dp_pipeline.anonymity import cross_validation
from dp_pipeline.anonymity.boxes import BoxRule
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.cross_validation import (
    Candidate,
    expected_advantage,
    select_by_cross_validation,
)
from dp_pipeline.anonymity.growth import Tree
from dp_pipeline.anonymity.kjig import Kjig, recode_columns
from dp_pipeline.anonymity.label_scores import ScoredRows
from dp_pipeline.anonymity.method import BitRule, Method, Recoding
from dp_pipeline.anonymity.ranking import InformationRanking, Ranking
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.metrics.classification import SCORERS
from dp_pipeline.releases import k_anonymous_protocols as protocols
from dp_pipeline.releases.k_anonymous_protocols import ProtocolResult, evaluate_over
from dp_pipeline_tests.anonymity.populations import PATIENTS, evaluate, flagged, flags, rows_of

FIVE = KAnonymityGuarantee(5)


def either_or(records: int, *, noise: int = 0) -> CodedRows:
    """A flag says which of two others is the label: no column says it in every row."""
    codes = np.random.default_rng(4).integers(0, 2, (records, 3 + noise))
    return flagged(codes, np.where(codes[:, 0], codes[:, 1], codes[:, 2]))


def nothing(scored_rows: ScoredRows) -> Recoding:
    """All rows are one class."""
    return Recoding.of_all(BitRule(scored_rows.rows.columns, ()), scored_rows.rows)


def columns(scored_rows: ScoredRows) -> Recoding:
    """Columns that say something of the label."""
    return recode_columns(scored_rows.rows, scored_rows.guarantee)


def keeps_columns(rows: CodedRows, *recodes, guarantee=FIVE) -> bool:
    """Whether the candidate that is chosen releases any column."""
    candidates = [Candidate(recode) for recode in recodes]
    return bool(select_by_cross_validation(candidates, rows, guarantee).rule.bits)


def test_the_candidate_that_most_is_learned_from_is_chosen():
    rows = either_or(300)
    assert keeps_columns(rows, nothing, columns)
    assert keeps_columns(rows, columns, nothing)
    assert not keeps_columns(replace(rows, target=rows.target * 0), nothing, columns)
    # Half of each pattern is ill: what some folds teach is wrong in the others.
    codes = np.repeat(np.array([[0], [1]]), 50, axis=0)
    assert keeps_columns(flagged(codes, np.arange(100) % 2), columns, nothing)


@pytest.mark.parametrize(
    ("records", "k", "folds", "learned", "lowered"),
    [(200, 50, 10, 160, 40), (999, 2, 10, 799, 2), (1_000, 2, 3, 666, 2), (10_000, 2, 2, 5_000, 2)],
)
def test_folds_ask_for_classes_as_fine(records, k, folds, learned, lowered):
    calls = []

    def noted(scored_rows: ScoredRows) -> Recoding:
        guarantee = scored_rows.guarantee
        calls.append((len(scored_rows.rows), guarantee.k, guarantee.diversity))
        return nothing(scored_rows)

    keeps_columns(either_or(records), noted, nothing, guarantee=KAnonymityGuarantee(k, 2))
    assert len(calls) == folds + 1
    assert abs(calls[0][0] - learned) <= 1
    assert calls[0][1:] == (lowered, 2)
    assert calls[-1] == (records, k, 2)


@pytest.mark.parametrize(
    ("ahead", "deficit", "is_taken"),
    [
        ([0.1, 0.1, 0.2, 0.1, 0.1], 0.05, True),
        ([0.02, 0.01, 0.02, 0.01, 0.02], 0.0, True),
        # Luck in one fold, and a candidate that is usually far behind.
        ([0.3, -0.2, 0.0, 0.01, -0.05], 0.01, False),
        # The same folds, and nothing known against it.
        ([0.3, -0.2, 0.0, 0.01, -0.05], 0.0, True),
        ([-0.01, -0.01, -0.02, -0.01, -0.01], 0.0, False),
        ([0.0, 0.0, 0.0, 0.0, 0.0], 0.0, False),
    ],
)
def test_folds_are_weighed_against_the_usual_deficit(monkeypatch, ahead, deficit, is_taken):
    aucs = np.array([[0.6] * 5, [0.6 + auc for auc in ahead]])
    monkeypatch.setattr(cross_validation, "_cross_validate", lambda *_: (aucs, 0.35))
    candidates = [Candidate(nothing), Candidate(columns, deficit)]
    chosen = select_by_cross_validation(candidates, either_or(100), FIVE)
    assert bool(chosen.rule.bits) == is_taken
    assert chosen.auc == pytest.approx(aucs[int(is_taken)].mean())


def test_certain_folds_outweigh_the_usual_deficit():
    deficits = np.array([0.0, 0.1])
    sure = expected_advantage(np.array([[0.5, 0.5], [0.6, 0.6]]), deficits, noise=1.0)
    unsure = expected_advantage(np.array([[0.5, 0.5], [0.1, 1.1]]), deficits, noise=1.0)
    assert np.allclose(sure, [0, 0.1])
    assert unsure[1] == pytest.approx(-0.1, abs=0.01)
    assert unsure[0] == 0


@pytest.mark.chain
def test_boxes_are_learned_from_where_columns_interact():
    rows, guarantee = either_or(600, noise=4), KAnonymityGuarantee(20)
    columns_alone, tree, best = (
        evaluate(rows, method, guarantee, folds=2).aucs["logistic"]
        for method in (Kjig("columns"), Tree(), Kjig())
    )
    assert best > columns_alone + 0.01
    assert best >= tree - 0.01
    assert isinstance(Kjig().recode(rows, guarantee, seed=0).rule, BoxRule)


def test_rows_too_few_for_folds_still_have_a_release():
    rows = rows_of((0, 0), (1, 1), columns=flags(1))
    recoding = Kjig().recode(rows, KAnonymityGuarantee(2), seed=0)
    assert len({tuple(codes) for codes in recoding.release(rows).codes.tolist()}) == 1


def test_columns_are_chosen_by_name():
    rule = Kjig("columns").recode(PATIENTS, KAnonymityGuarantee(3), seed=0).rule
    assert rule == recode_columns(PATIENTS, KAnonymityGuarantee(3)).rule
    assert Kjig().shape == "best"


NOTHING = KAnonymityGuarantee(k=0)
each_protocol = pytest.mark.parametrize("protocol", ["nested", "paper"])
each_method = pytest.mark.parametrize("method", [Kjig(), InformationRanking()])


def population(codes: Sequence[Sequence[int]], target: Sequence[int], labels: int = 2) -> CodedRows:
    table = np.array(codes, dtype=np.int64).reshape(len(target), -1)
    levels = tuple(str(code) for code in range(int(table.max(initial=1)) + 1))
    columns = tuple(Column(f"c{i}", levels) for i in range(table.shape[1]))
    names = ("no", "yes", "maybe")[:labels]
    return CodedRows(columns, table, np.array(target, dtype=np.int64), names)


NUMBERED = population([[i] for i in range(20)], [0, 1] * 10)
"""Twenty rows, each with a code of its own, so that it can be followed."""

FIRST_IS_LABEL = population([[i % 2, i % 3 > 0] for i in range(60)], [0, 1] * 30)


@dataclass(frozen=True)
class AsItIs:
    """Releases all rows but those whose first code is among ``left_out``; the codes are the
    features, or zeros. Notes its calls.
    """

    summary: ClassVar[str] = "for tests"
    left_out: frozenset[int] = frozenset()
    is_blurred: bool = False
    calls: list[tuple[CodedRows, KAnonymityGuarantee]] = field(default_factory=list)

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:  # noqa: ARG002
        self.calls.append((rows, guarantee))
        suppressed = np.isin(rows.codes[:, 0], list(self.left_out))
        return Recoding(PlainCodes(rows.columns, self.is_blurred), suppressed)


@dataclass(frozen=True)
class PlainCodes:
    """Blurred: different codes, equal features, as of two boxes with one middle."""

    columns: tuple[Column, ...]
    is_blurred: bool

    def recode(self, rows: CodedRows) -> CodedRows:
        return rows

    def features(self, rows: CodedRows) -> np.ndarray:
        return rows.codes * (0.0 if self.is_blurred else 1.0)


@pytest.fixture
def used(monkeypatch) -> list[tuple[list[int], list[int]]]:
    """First features of the rows that were learned from and of those that were tested on."""
    noted, real = [], protocols.scores

    def scores(scorer, learn, target, ask, classes):
        noted.append((learn[:, 0].astype(int).tolist(), ask[:, 0].astype(int).tolist()))
        return real(scorer, learn, target, ask, classes)

    monkeypatch.setattr(protocols, "scores", scores)
    return noted


@pytest.mark.parametrize("left_out", [frozenset(), frozenset({4, 7})])
def test_nested_selection_uses_training_rows_only(used, left_out):
    method = AsItIs(left_out)
    evaluate(NUMBERED, method, KAnonymityGuarantee(k=3))
    assert [guarantee for _, guarantee in method.calls] == [KAnonymityGuarantee(k=3)] * 5
    for (rows, _), (learned, tested) in zip(method.calls, used, strict=True):
        assert [row for row in rows.codes[:, 0].tolist() if row not in left_out] == learned
        assert sorted({*learned, *tested, *left_out}) == list(range(20))
        assert not {*learned} & {*tested, *left_out}
    assert sorted(row for _, tested in used for row in tested) == list(range(20))


@pytest.mark.parametrize("left_out", [frozenset(), frozenset({4, 7})])
def test_paper_selects_from_all_rows_once(used, left_out):
    method = AsItIs(left_out)
    evaluate(NUMBERED, method, KAnonymityGuarantee(k=3), protocol="paper")
    released = [row for row in range(20) if row not in left_out]
    assert [len(rows) for rows, _ in method.calls] == [20]
    assert len(used) == 5
    assert all(sorted(learned + tested) == released for learned, tested in used)
    assert sorted(row for _, tested in used for row in tested) == released


@each_protocol
def test_every_guarantee_is_tried_on_the_same_folds(protocol, used):
    pair = [KAnonymityGuarantee(k=2), KAnonymityGuarantee(k=3)]
    evaluate_over(NUMBERED, AsItIs(), pair, protocol=protocol)
    tested = sorted(tested for _, tested in used)
    assert tested[::2] == tested[1::2]
    assert len(tested) == 10


@pytest.mark.chain
@each_protocol
@each_method
def test_every_scorer_learns_from_a_released_bit(protocol, method):
    three = population([[i % 3] for i in range(60)], [i % 3 for i in range(60)], labels=3)
    options = {"protocol": protocol, "scorers": SCORERS}
    for rows in (FIRST_IS_LABEL, three):
        result = evaluate(rows, method, KAnonymityGuarantee(k=5), **options)
        assert dict(result.aucs) == dict.fromkeys(SCORERS, 1.0)


def test_class_rates_are_those_of_released_codes():
    result = evaluate(FIRST_IS_LABEL, AsItIs(is_blurred=True), NOTHING, scorers=SCORERS)
    assert dict(result.aucs) == {"logistic": 0.5, "class_rate": 1.0, "svm": 0.5}


@dataclass(frozen=True)
class Peeking:
    """A mutant: whatever rows it is given, it selects from all of them."""

    summary: ClassVar[str] = "for tests"
    method: Method
    everything: CodedRows

    def recode(self, rows: CodedRows, guarantee: KAnonymityGuarantee, *, seed: int) -> Recoding:
        return Recoding.of_all(self.method.recode(self.everything, guarantee, seed=seed).rule, rows)


POPULATIONS = 16

# A fold of 25 and 25 rows has an AUC of standard deviation sqrt(51 / 7500) at most where scores
# know nothing. Two folds of a population hang together, so they count as one; populations do not.
FOUR_DEVIATIONS = 4 * math.sqrt(51 / 7500 / POPULATIONS)


@pytest.mark.chain
@pytest.mark.parametrize(("method", "bits"), [(Kjig("columns"), 40), (InformationRanking(), 150)])
def test_only_a_peeking_protocol_sees_something_in_noise(method, bits):
    """False alarms of nested: less than 1 in 15,000 draws of the populations; these are seeded."""
    aucs: dict[str, list[float]] = {"nested": [], "paper": [], "peeking": []}
    for seed in range(POPULATIONS):
        # Of 100 rows in two halves, the label has nothing to do with the bits.
        codes = np.random.default_rng(seed).integers(0, 2, (100, bits))
        rows = population(codes, [0, 1] * 50)
        for name, chosen, protocol in (
            ("nested", method, "nested"),
            ("paper", method, "paper"),
            ("peeking", Peeking(method, rows), "nested"),
        ):
            options = {"protocol": protocol, "folds": 2, "seed": seed}
            result = evaluate(rows, chosen, KAnonymityGuarantee(k=5), **options)
            aucs[name].append(result.aucs["logistic"])
    above = {name: np.mean(values) - 0.5 for name, values in aucs.items()}
    assert abs(above["nested"]) < FOUR_DEVIATIONS
    assert min(above["paper"], above["peeking"]) > FOUR_DEVIATIONS


@dataclass(frozen=True)
class Counting(InformationRanking):
    """Notes the rows that are ranked, and takes its time."""

    ranked: list[int] = field(default_factory=list)

    def ranking(self, rows: CodedRows, *, seed: int) -> Ranking:
        self.ranked.append(len(rows))
        time.sleep(0.02)
        return super().ranking(rows, seed=seed)


@pytest.mark.parametrize(("protocol", "rankings"), [("nested", [48] * 5), ("paper", [60])])
def test_each_fold_has_one_ranking(protocol, rankings):
    method, guarantees = Counting(), [KAnonymityGuarantee(k) for k in (0, 2, 15)]
    results = evaluate_over(FIRST_IS_LABEL, method, guarantees, protocol=protocol)
    assert method.ranked == rankings
    assert all(result.seconds >= 0.02 for result in results)
    for guarantee, result in zip(guarantees, results, strict=True):
        alone = evaluate(FIRST_IS_LABEL, InformationRanking(), guarantee, protocol=protocol)
        assert (alone.aucs, alone.released_columns) == (result.aucs, result.released_columns)


def test_released_columns_are_counted():
    forty, ranking = KAnonymityGuarantee(k=40), InformationRanking()
    cases = (AsItIs(), NOTHING, 2), (ranking, forty, 0), (ranking, NOTHING, 4)
    for method, guarantee, count in cases:
        assert evaluate(FIRST_IS_LABEL, method, guarantee).released_columns == count


def test_a_guarantee_no_fold_can_keep_is_refused_at_once():
    rows, method = FIRST_IS_LABEL.select(np.arange(10)), Counting()
    for guarantee in (KAnonymityGuarantee(k=9), KAnonymityGuarantee(k=2, diversity=3)):
        with pytest.raises(TooFewRows):
            evaluate_over(rows, method, [NOTHING, guarantee])
    assert method.ranked == []
    with pytest.raises(TooFewRows):
        evaluate(rows, Kjig(), KAnonymityGuarantee(k=9))
    evaluate(rows, method, KAnonymityGuarantee(k=9), protocol="paper")


@pytest.mark.chain
@each_protocol
@each_method
def test_rows_without_differences_teach_nothing(protocol, method):
    options = {"protocol": protocol, "scorers": SCORERS}
    for codes in ([[]] * 20, [[1, 0]] * 20):
        rows = population(codes, [0, 1] * 10)
        result = evaluate(rows, method, KAnonymityGuarantee(k=2), **options)
        assert dict(result.aucs) == dict.fromkeys(SCORERS, 0.5)
    for chosen in (FIRST_IS_LABEL.target == 1, np.arange(0)):
        result = evaluate(FIRST_IS_LABEL.select(chosen), method, NOTHING, **options)
        assert all(math.isnan(auc) for auc in result.aucs.values())


@each_protocol
def test_folds_of_one_label_are_omitted(protocol):
    rows = population([[0], [1], [1], [0], [1], [1]], [0, 1, 1, 0, 1, 1])
    assert evaluate(rows, AsItIs(), NOTHING, protocol=protocol).aucs == {"logistic": 1.0}
    few = evaluate(rows.select(np.arange(3)), AsItIs(), NOTHING, protocol=protocol)
    assert math.isnan(few.aucs["logistic"])
    results = [ProtocolResult({"svm": auc}, 1.0, 2.0) for auc in (0.5, float("nan"), 1.0)]
    assert ProtocolResult.mean(results).aucs == {"svm": 0.75}


@each_protocol
def test_the_seed_decides(protocol):
    rng = np.random.default_rng(3)
    rows = population(rng.integers(0, 2, (60, 5)), rng.integers(0, 2, 60).tolist())

    def aucs(seed):
        options = {"protocol": protocol, "seed": seed}
        return evaluate(rows, InformationRanking(), KAnonymityGuarantee(5), **options).aucs

    assert aucs(1) == aucs(1) != aucs(2)


def test_wrong_use_is_refused():
    assert evaluate_over(FIRST_IS_LABEL, Kjig(), []) == []
    with pytest.raises(DeclarationError, match="must be one of logistic, class_rate, svm"):
        evaluate(FIRST_IS_LABEL, Kjig(), NOTHING, scorers=["forest"])
