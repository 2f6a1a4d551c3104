"""New rows from a fit that is over: its stored answers once more, then other randomness."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from dp_pipeline.estimators.private_fit import PrivateFit
from dp_pipeline.gate.noise import OpenDPNoise
from dp_pipeline.models.table import TableModel
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.encoding import IntArray


class _StoredAnswers(Transcript):
    """Answers of a fit; with the last of them the model's randomness becomes another.

    A model may draw which questions it asks, so it must begin as it began; what it draws
    after its last answer are rows.
    """

    def __init__(
        self, answered: Transcript, *, rng: np.random.Generator, then: np.random.Generator
    ) -> None:
        super().__init__()
        self._records = list(answered.records)
        self._rng, self._then = rng, then

    def recall(self, question: str, *, words: str = "") -> IntArray | None:
        """The stored answer, as any transcript gives it."""
        answer = super().recall(question, words=words)
        if self._next == len(self._records):
            self._rng.bit_generator.state = self._then.bit_generator.state
        return answer


def redrawn(
    fit: PrivateFit[SyntheticTable],
    transcript: Transcript,
    *,
    rows: int,
    began: np.random.Generator,
    rng: np.random.Generator,
) -> SyntheticTable:
    """Rows drawn anew from what was released: post-processing, no row is read, nothing is spent.

    began   randomness as it was when the fit began
    rng     randomness of the rows
    """
    assert isinstance(fit.model, TableModel)
    began = copy.deepcopy(began)
    answers = _StoredAnswers(transcript, rng=began, then=rng)
    again = replace(fit, model=replace(fit.model, synthetic_rows=rows))
    return again.replayed(answers, noise=OpenDPNoise(), rng=began).released
