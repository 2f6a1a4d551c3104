"""What a release at an ε asks: its model is fitted on a curator, then its private evaluation is
paid for on another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.gate.curator import Curator, PaidMarginals
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.models.base import (
    CoarseRelease,
    CuratorFactory,
    FitResult,
    Model,
    PrivacyGuarantee,
    fit,
)
from dp_pipeline.releases.noisy_drawing import Counted
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.bundle import EARLIER_EVALUATION, Bundle, ReleaseKey
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline.results.transcript import Transcript

if TYPE_CHECKING:
    from dp_pipeline.raw.counters.fold import EmptyCounter, FoldCounter


@dataclass(frozen=True)
class ModelQuestions:
    """What a model, and the evaluation of what it gives, ask of the rows.

    facts     of the bundle
    earlier   tables of the release that it plans from; None where it plans from none
    public    rows of others that it uses; None where it uses none
    coarse    makes what it refines again, with its answers; None where it refines none
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
    coarse: Callable[[], tuple[CoarseRelease, PaidMarginals]] | None

    def nobody(self) -> EmptyCounter:
        """The counter of an empty table."""
        from dp_pipeline.raw.counters.fold import EmptyCounter

        return EmptyCounter(self.dataset.domain)

    def bundle(
        self,
        counter: Counted | None,
        transcript: Transcript,
        noise: NoiseSource,
        *,
        matches_reserved: bool = True,
    ) -> Bundle:
        """The bundle with its evaluation; spends exactly what it claims.

        counter       None draws nothing: every answer must be in the transcript
        matches_reserved   False for a settled release under another post-processing: the evaluation
                      that was paid for was of other centres or tables, and is left out
        """
        fitted, _ = self.fitted(counter, transcript, noise)
        fitted.require_guaranteed(self.guarantee, what=f"{self.dataset.name}/{self.key.model}")
        spends, quality, facts = fitted.spends, dict[str, NoisyNumber](), self.facts
        if self.evaluation is not None and matches_reserved:
            paid = Accountant(self.evaluation)
            from dp_pipeline.gate.quality import private_quality

            quality = private_quality(
                self._curators(counter, transcript, noise, {})(paid),
                fitted.released,
                epsilon=self.evaluation,
                label=self.dataset.label,
                targets=self.dataset.targets,
            )
            paid.require_all_spent()
            spends += paid.spends
        elif self.evaluation is not None:
            facts = {**facts, EARLIER_EVALUATION: epsilon_text(self.evaluation)}
        tables = fitted.released.tables()
        return Bundle(self.key.digest, facts, spends, quality, tables, transcript.chain)

    def fitted(
        self, counter: Counted | None, transcript: Transcript, noise: NoiseSource
    ) -> tuple[FitResult, PaidMarginals]:
        """The fit of its model, and what was answered to it."""
        coarse, paid_marginals = (None, PaidMarginals()) if self.coarse is None else self.coarse()
        fitted = fit(
            self.model,
            self.guarantee,
            self._curators(counter, transcript, noise, paid_marginals),
            epsilon=self.key.epsilon,
            rng=self._generator(),
            earlier=self.earlier,
            coarse=coarse,
            public=self.public,
        )
        return fitted, paid_marginals

    def _generator(self) -> np.random.Generator:
        """Post-processing randomness: fixed by public facts, so a replay gives the same bytes."""
        text = f"{self.key.digest} {self.postprocessing}"
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16]))

    def _curators(
        self,
        counter: Counted | None,
        transcript: Transcript,
        noise: NoiseSource,
        paid_marginals: PaidMarginals,
    ) -> CuratorFactory:
        def ask(accountant: Accountant) -> Curator:
            return Curator(
                cast("FoldCounter | None", counter),
                domain=self.dataset.domain,
                distance=self.dataset.distance,
                accountant=accountant,
                transcript=transcript,
                noise=noise,
                benchmark=not self.dataset.is_release,
                relation=self.dataset.relation,
                paid_marginals=paid_marginals,
            )

        return ask
