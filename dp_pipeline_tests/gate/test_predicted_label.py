import numpy as np
import pytest

from dp_pipeline.gate.rules import PredictedLabel
from dp_pipeline.metrics.classification import train
from dp_pipeline_tests.instruments import SILENT, curator_over
from dp_pipeline_tests.populations import AWKWARD, TEN_PEOPLE, TOWN, LoopCounter

RULE = PredictedLabel("smokes", (1,), ("colour", "y"), ((-2, 1, 3), (0, 0, 1)), -1)


def test_right_and_wrong_predictions_are_counted_as_by_hand():
    # Positive are green in the upper cell of y (1 + 1 − 1) and all blue: smokers among
    # them are wrong only where they are missed.
    expected = {"green up": 2, "blue": 3}
    positive = [
        (colour == "green" and y >= 0) or colour == "blue" for _, y, colour, _ in TEN_PEOPLE
    ]
    assert sum(positive) == sum(expected.values())
    right = sum(said == (row[3] == "yes") for said, row in zip(positive, TEN_PEOPLE, strict=True))
    answer = curator_over(TEN_PEOPLE).measure_mistakes(RULE, epsilon=SILENT)
    assert answer.tolist() == [right, 10 - right]


@pytest.mark.parametrize("people", AWKWARD)
def test_a_classifier_of_any_rows_is_a_rule_that_answers_like_it(people: str):
    rows, counter = AWKWARD[people], LoopCounter(AWKWARD[people])
    columns = {
        name: np.array([counter.code(row, name) for row in rows], dtype=np.int64)
        for name in TOWN.discrete
    }
    answers = columns.pop("smokes") == 1
    sizes = {name: TOWN[name].size for name in columns}
    classifier = train("logistic", columns, answers, sizes)
    rule = PredictedLabel.of(classifier, target="smokes", positive=(1,))
    rule.require_exact(TOWN)
    right = int((classifier.answers(columns, rows=len(rows)) == answers).sum())
    assert counter.mistakes(rule).open_at_the_gate().tolist() == [right, len(rows) - right]
