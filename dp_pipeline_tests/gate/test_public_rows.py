"""The number of rows is public where one row replaces another, on benchmarks, and nowhere else."""

from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.errors import BoundaryViolation, Damaged
from dp_pipeline.gate.scores import UNIT, FScore, MutualInformation
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.questions import ONE, PAIRS
from dp_pipeline_tests.instruments import SILENT, RecordingNoise, curator_over
from dp_pipeline_tests.populations import NOBODY, TEN_PEOPLE

PUBLIC: dict[str, Any] = {"benchmark": True, "relation": "replace_one", "distance": 2}
NOT_PUBLIC: dict[str, dict[str, Any]] = {
    "rows to be protected": {**PUBLIC, "benchmark": False},
    "a person more or less": {**PUBLIC, "relation": "add_remove"},
    "a person with many rows": {**PUBLIC, "distance": 6},
    "what is not declared": {},
}


@pytest.mark.parametrize("rows", [NOBODY, TEN_PEOPLE])
def test_public_rows_are_free_and_recorded(rows: Any) -> None:
    transcript, noise = Transcript(), RecordingNoise()
    curator = curator_over(rows, transcript=transcript, noise=noise, **PUBLIC)
    assert curator.public_rows() == len(rows)
    assert (curator.accountant.spends, noise.draws) == ((), [])
    assert curator.accountant.kind == "dp"
    (record,) = transcript.records
    assert (record.words, int(record.answer)) == ("public, not noisy: number of rows", len(rows))


def test_the_recorded_number_of_rows_is_replayed_over_other_rows() -> None:
    transcript = Transcript()
    curator_over(TEN_PEOPLE, transcript=transcript, **PUBLIC).public_rows()
    for rows in (None, NOBODY):
        again = curator_over(rows, transcript=transcript.rewind(), **PUBLIC)
        assert again.public_rows() == 10
    with pytest.raises(Damaged, match="needs a stored answer"):
        curator_over(None, **PUBLIC).public_rows()


@pytest.mark.parametrize("name", NOT_PUBLIC)
def test_elsewhere_scores_of_public_rows_are_refused(name: str) -> None:
    transcript = Transcript()
    curator = curator_over(TEN_PEOPLE, transcript=transcript, **NOT_PUBLIC[name])
    for asked in (
        curator.public_rows,
        lambda: curator.open_scores({PAIRS[0]: MutualInformation(10)}),
        lambda: curator.choose("edge", {PAIRS[1]: FScore()}, epsilon=ONE),
    ):
        with pytest.raises(BoundaryViolation, match="needs a public number of rows"):
            asked()
    assert (curator.accountant.spends, transcript.records) == ((), ())


def test_scores_of_public_rows_are_charged_like_others() -> None:
    curator = curator_over(TEN_PEOPLE, **PUBLIC)
    rows = curator.public_rows()
    pairs = {pair: MutualInformation(rows) for pair in PAIRS}
    session = curator.open_scores(pairs)
    session.measure_all(amount=SILENT / 2)
    (spend,) = curator.accountant.spends
    assert spend.sensitivity == 3 * MutualInformation(10).linf(2)
    families = curator.open_scores({("smokes", "colour", "y"): FScore()})
    exact = families.measure_total(amount=SILENT / 2)
    # Five who do not smoke are red or green below, or blue; of smokers two are left elsewhere.
    assert exact == -3 * UNIT


def test_a_score_of_another_number_of_rows_shows_no_number() -> None:
    curator = curator_over(TEN_PEOPLE, **PUBLIC)
    session = curator.open_scores({PAIRS[0]: MutualInformation(11)})
    with pytest.raises(BoundaryViolation, match="must count") as refused:
        session.measure_all(amount=ONE)
    assert "10" not in str(refused.value)
    assert np.isclose(float(curator.accountant.spent), 1)
