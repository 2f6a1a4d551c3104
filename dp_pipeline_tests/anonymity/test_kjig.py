"""How kjig chooses one of its candidates: by folds, and by what is known of them beforehand."""

from dataclasses import replace

import numpy as np
import pytest

from dp_pipeline.anonymity import cross_validation
from dp_pipeline.anonymity.boxes import BoxRule
from dp_pipeline.anonymity.coded_rows import CodedRows, KAnonymityGuarantee
from dp_pipeline.anonymity.cross_validation import (
    Candidate,
    expected_advantage,
    select_by_cross_validation,
)
from dp_pipeline.anonymity.growth import Tree
from dp_pipeline.anonymity.kjig import Kjig, recode_columns
from dp_pipeline.anonymity.label_scores import ScoredRows
from dp_pipeline.anonymity.method import BitRule, Recoding
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
