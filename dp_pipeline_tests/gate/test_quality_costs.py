"""Bought numbers of centres, tables and class tables cost exactly their ε, whatever the rows."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.quality import private_quality
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.test_class_quality import TOWNS
from dp_pipeline_tests.gate.test_evaluation import CENTRES, CORNER, clusters_at
from dp_pipeline_tests.gate.test_table_quality import SOME, TARGETS, table_of
from dp_pipeline_tests.instruments import RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import loss_of_joining
from dp_pipeline_tests.populations import AWKWARD, TEN_PEOPLE

EPSILONS = [Fraction(text) for text in ("0.05", "1", "2.5")]
Ask = Callable[[Curator, Fraction], dict[str, NoisyNumber]]


def quality_of(released: object, **declared: object) -> Ask:
    """All numbers of what was released, for an ε."""
    return lambda curator, epsilon: private_quality(curator, released, epsilon=epsilon, **declared)  # type: ignore[arg-type]


BOUGHT = {
    "centres": quality_of(clusters_at(CENTRES)),
    "labelled centres": quality_of(clusters_at(CENTRES), label="smokes"),
    "table": quality_of(SOME, targets=TARGETS),
    "class table": quality_of(TOWNS),
}


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("distance", [1, 3])
@pytest.mark.parametrize("people", AWKWARD)
@pytest.mark.parametrize("kind", BOUGHT)
def test_scales_of_quality_prove_its_epsilon_for_any_rows(
    kind: str, people: str, distance: int, epsilon: Fraction
) -> None:
    noise = RecordingNoise()
    curator = curator_over(AWKWARD[people], epsilon=epsilon, distance=distance, noise=noise)
    numbers = BOUGHT[kind](curator, epsilon)
    curator.accountant.require_all_spent()
    spends = zip(curator.accountant.spends, noise.draws, strict=True)
    assert sum(Fraction(spend.sensitivity) / draw.scale for spend, draw in spends) == epsilon
    for name, number in numbers.items():
        assert 0 < number.scale < np.inf
        if name == "nicv":
            assert 0 <= number.value < np.inf
        else:
            assert (-0.5 if name == "ari_label" else 0) <= number.value <= 1
            assert number.unit == "share"


# Farther from the one centre than what counts, or of levels that the released table has not:
# 2^17 a marginal, and not the half of it.
MOVING = {
    "centres": (quality_of(clusters_at(CORNER)), TEN_PEOPLE[-1]),
    "labelled centres": (quality_of(clusters_at(CORNER), label="colour"), TEN_PEOPLE[-1]),
    "table": (quality_of(table_of(TEN_PEOPLE[:3]), targets=TARGETS), TEN_PEOPLE[8]),
    "class table": (quality_of(TOWNS), TEN_PEOPLE[0]),
}


@pytest.mark.parametrize("kind", MOVING)
@pytest.mark.parametrize("rows", [1, 3])
def test_who_moves_every_number_uses_all_of_its_epsilon(kind: str, rows: int) -> None:
    ask, person = MOVING[kind]
    five = Fraction(5)
    assert loss_of_joining(lambda curator: ask(curator, five), [person] * rows, epsilon=five) == 5


@pytest.mark.parametrize("kind", BOUGHT)
def test_quality_is_replayed_without_rows(kind: str) -> None:
    transcript = Transcript()
    paid = BOUGHT[kind](curator_over(TEN_PEOPLE, transcript=transcript), Fraction(1))
    assert BOUGHT[kind](curator_over(None, transcript=transcript.rewind()), Fraction(1)) == paid
