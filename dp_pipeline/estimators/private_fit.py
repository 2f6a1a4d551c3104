"""PrivateFit: one private model of rows in memory, through the gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.models.base import Claim, Model
from dp_pipeline.release.accountant import Accountant, Spend
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import BoundaryViolation
from dp_pipeline.schema.protection import OneRow, Relation, reach

UNIT = OneRow()
RELATION: Relation = "add_remove"

ReleaseType = TypeVar("ReleaseType", Clusters, SyntheticTable)


@dataclass(frozen=True)
class Fitted(Generic[ReleaseType]):
    """What a fit releases.

    spends       every look at the rows; they add up to what the fit claims
    transcript   all questions and noisy answers
    """

    released: ReleaseType
    spends: tuple[Spend, ...]
    transcript: Transcript


@dataclass(frozen=True)
class PrivateFit(Generic[ReleaseType]):
    """Everything of one fit but the rows: public.

    estimator   name of its class
    method      name of the model
    releases    what the model gives
    claim       the ε that was asked, and what it is accounted in
    """

    estimator: str
    method: str
    releases: type[ReleaseType]
    model: Model
    domain: Domain
    claim: Claim

    def run(
        self, counter: Counter, *, noise: NoiseSource, rng: np.random.Generator
    ) -> Fitted[ReleaseType]:
        """Ask through the gate; spends exactly the claim, or raises. ``rng`` is for
        post-processing.
        """
        return self._run(counter, noise, Transcript(), rng)

    def replayed(
        self, transcript: Transcript, *, noise: NoiseSource, rng: np.random.Generator
    ) -> Fitted[ReleaseType]:
        """The same fit over stored answers, without rows and at no cost; draws no noise."""
        return self._run(None, noise, transcript, rng)

    def _run(
        self,
        counter: Counter | None,
        noise: NoiseSource,
        transcript: Transcript,
        rng: np.random.Generator,
    ) -> Fitted[ReleaseType]:
        accountant = Accountant(self.claim.amount, self.claim.currency)
        curator = Curator(
            counter,
            domain=self.domain,
            reach=reach(UNIT, RELATION),
            accountant=accountant,
            transcript=transcript,
            noise=noise,
        )
        released = self.model.fit(curator, epsilon=self.claim.epsilon, rng=rng)
        accountant.require_all_spent()
        if not isinstance(released, self.releases):
            raise BoundaryViolation(
                f"{self.method}: expected {self.releases.__name__}, got another release"
            )
        return Fitted(released, accountant.spends, transcript)
