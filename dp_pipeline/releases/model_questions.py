"""The questions of a release at one ε: those of its model, then those of its evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.gate.curator import PaidMarginals
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.models.base import FitResult, Model, PrivacyGuarantee, curators_of, fit
from dp_pipeline.releases.noisy_release import ReleaseCounter
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.bundle import EARLIER_EVALUATION, Bundle, ReleaseKey
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline.results.transcript import Transcript

if TYPE_CHECKING:
    from dp_pipeline.raw.counters.fold import EmptyCounter, FoldCounter


@dataclass(frozen=True)
class ModelQuestions:
    """The questions that a model and its private evaluation ask of a curator.

    facts     of the bundle
    earlier   tables of the release that it plans from; None where it plans from none
    public    public rows of another data set that it uses; None where it uses none
    coarse    returns the release that it refines; None where it refines none
    """

    dataset: DatasetSpec
    model: Model
    guarantee: PrivacyGuarantee
    evaluation: Fraction | None
    postprocessing: Mapping[str, str]
    key: ReleaseKey
    facts: Mapping[str, str]
    earlier: Tables | None
    public: PublicTable | None
    coarse: Callable[[], FitResult] | None

    def empty_counter(self) -> EmptyCounter:
        from dp_pipeline.raw.counters.fold import EmptyCounter

        return EmptyCounter(self.dataset.counted_domain)

    def bundle(
        self,
        counter: ReleaseCounter | None,
        transcript: Transcript,
        noise: NoiseSource,
        *,
        matches_reserved: bool = True,
    ) -> Bundle:
        """Return the bundle with its evaluation, whose spends add up to the claimed ε.

        counter            None draws nothing: every answer must be in the transcript
        matches_reserved   False for a settled release under another post-processing: the evaluation
                           was about other centres or tables, and is left out
        """
        result = self.fit_model(counter, transcript, noise)
        result.require_guaranteed(what=f"{self.dataset.name}/{self.key.model}")
        spends, quality, facts = result.spends, dict[str, NoisyNumber](), self.facts
        if self.evaluation is not None and matches_reserved:
            from dp_pipeline.gate.quality import private_quality

            rows = cast("FoldCounter | None", counter)
            accountant = Accountant(self.evaluation)
            quality = private_quality(
                curators_of(self.dataset, rows, transcript, noise, PaidMarginals())(accountant),
                result.released,
                epsilon=self.evaluation,
                label=self.dataset.label,
                targets=self.dataset.targets,
            )
            accountant.require_all_spent()
            spends += accountant.spends
        elif self.evaluation is not None:
            facts = {**facts, EARLIER_EVALUATION: epsilon_text(self.evaluation)}
        tables = result.released.tables()
        # A settled release has these words, whatever those of a later program are.
        free = tuple(replace(spend, what="rows left out") for spend in result.free_spends)
        return Bundle(self.key.digest, facts, spends, quality, tables, transcript.chain, free)

    def fit_model(
        self, counter: ReleaseCounter | None, transcript: Transcript, noise: NoiseSource
    ) -> FitResult:
        """Return the fit of the model, from answers that the curator gives."""
        coarse = None if self.coarse is None else self.coarse()
        paid = PaidMarginals() if coarse is None else coarse.paid
        rows = cast("FoldCounter | None", counter)
        # Post-processing randomness is fixed by public facts, so a replay gives the same bytes.
        seed = hashlib.sha256(f"{self.key.digest} {self.postprocessing}".encode()).digest()
        result = fit(
            self.model,
            self.guarantee,
            curators_of(self.dataset, rows, transcript, noise, paid),
            epsilon=self.key.epsilon,
            rng=np.random.default_rng(int.from_bytes(seed[:16])),
            earlier=self.earlier,
            coarse=coarse,
            public=self.public,
        )
        return replace(result, paid=paid)
